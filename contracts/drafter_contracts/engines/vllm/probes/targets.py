"""What every target class of a vLLM release captures, found by running its own setter and its own forward pass.

As `scan.probes.targets` does it for SGLang: the class is built from the release's own code with symbolic sublayers,
its setter is called with many lists of ids, and the aux hidden states that its forward pass returns are compared with
the residual stream at every boundary. `scan.fit` finds the rule.
"""

from __future__ import annotations

from drafter_contracts.engines.scan.probes import census, stream
from drafter_contracts.engines.scan.probes.symbolic import TRACE, Value
from drafter_contracts.engines.scan.probes.targets import DEPTHS, Subject, describe, id_lists
from drafter_contracts.engines.scan.probes.world import KINDS, VARIANTS
from drafter_contracts.engines.vllm.probes import world
from drafter_contracts.engines.vllm.probes.registry import Entry, entries, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from drafter_contracts.engines.scan.lazy import LazyRelease

#: The setter, and the functions that give a class's default, newest name first.
SETTER = "set_aux_hidden_state_layers"
DEFAULTS = ("get_eagle3_default_aux_hidden_state_layers", "get_eagle3_aux_hidden_state_layers")
#: A kind of config: where its decoder part is, which kinds of layers, and its `model_type`.
Kind = tuple[str, int, str]
#: Where model classes are defined.
_HOMES = ("vllm.model_executor.models.", "vllm.models.")


class Target(Subject):
    """One target model; its aux hidden states are what it returns beside the hidden states."""

    def run(self) -> None:
        """One forward pass of the model, as the runner calls it."""
        self.builder.stack.clear()
        TRACE.reset()
        result = self.model.forward(  # type: ignore[attr-defined]
            input_ids=Value({}), positions=Value({}), intermediate_tensors=None, inputs_embeds=None
        )
        TRACE.reached = True
        TRACE.delivered = list(result[1]) if isinstance(result, tuple) and len(result) == 2 else []

    def ask(self, ids: list[int] | None) -> None:
        """Set the ids as the runner does; None for the class's own default.

        Raises:
            AttributeError: The class has no default.
        """
        if ids is None:
            name = next((name for name in DEFAULTS if hasattr(self.model, name)), DEFAULTS[0])
            ids = list(getattr(self.model, name)())
        getattr(self.model, SETTER)(tuple(ids))


def build(
    release: LazyRelease, builder: world.VllmBuilder, cls: type, depth: int, known: Kind | None
) -> tuple[Target | None, list[str], Kind, dict[str, object]]:
    """Build a class at a depth with the first kind of config under which its layers run.

    Returns:
        The subject (None where no config works), the log of depths it reads, the config's kind, and why not.
    """
    attempts: list[tuple[tuple[bool, bool, int], dict[str, object]]] = []
    types = ("probe", *census.model_types(release, cls, _HOMES))
    kinds = [known] if known else [(v, k, t) for t in types for k in range(len(KINDS)) for v in VARIANTS]
    for variant, kind, model_type in kinds:
        builder.stack.clear()
        builder.layers, builder.expected = 0, False
        config, log = world.target_config(variant, depth, cls.__name__, model_type, kind)
        model: object = None
        TRACE.reset()
        try:
            model = world.instantiate(cls, config)
            subject = Target(model, builder)
            subject.run()
        except world.DelegatedError as error:
            reason: dict[str, object] = {"unclear": str(error), "delegates": error.path}
        except Exception as error:  # noqa: BLE001 - the release's own failure under this config
            what = "building it" if model is None else "its forward pass"
            reason = {"unclear": f"{what}: {describe(error)}"}
        else:
            complaint = stream.Reading(TRACE, depth).complaint
            if not complaint:
                return subject, log, (variant, kind, model_type), {}
            reason = {"unclear": complaint}
        further = (model is not None and TRACE.calls > 0, "delegates" in reason, builder.layers)
        attempts.append((further, reason))
    return None, [], ("", 0, ""), max(attempts, key=lambda attempt: attempt[0])[1]


def experiment(subject: Target, ids: list[int] | None, n: int) -> dict[str, object]:
    """Set the ids, run the forward pass, and say what came of it."""
    subject.restore()
    try:
        subject.ask(ids)
    except Exception as error:  # noqa: BLE001 - the setter's own refusal
        return {"phase": "setter", "error": type(error).__name__, "text": describe(error)}
    try:
        subject.run()
    except Exception as error:  # noqa: BLE001 - the forward pass's own failure
        return {"phase": "forward", "error": type(error).__name__, "text": describe(error)}
    reading = stream.Reading(TRACE, n)
    taps = reading.taps() if not reading.complaint else None
    if taps is None:
        return {"unclear": reading.complaint, "delivered": len(stream.delivered(TRACE))}
    return {"taps": taps}


def study(release: LazyRelease, builder: world.VllmBuilder, cls: type) -> dict[str, object]:
    """All experiments on one class."""
    record: dict[str, object] = {"setter": release.place(getattr(cls, SETTER)), "cases": []}
    known: Kind | None = None
    for position, n in enumerate(DEPTHS):
        subject, log, known, reason = build(release, builder, cls, n, known)
        if subject is None:
            return {**record, **reason}
        if not position:
            record["forward"] = release.place(TRACE.loop)
            record["depth"] = next(iter(log), "num_hidden_layers")
        for ids in id_lists(n, full=not position):
            record["cases"].append({"n": n, "ids": ids, **experiment(subject, ids, n)})  # type: ignore[attr-defined]
    return record


def study_entry(release: LazyRelease, builder: world.VllmBuilder, entry: Entry) -> dict[str, object]:
    """What can be said of one registered architecture: its study, or why there is none."""
    try:
        cls = load(release, entry)
    except Exception as error:  # noqa: BLE001 - the release's own statement failed: reported, not guessed
        return {"unclear": f"its class cannot be resolved: {describe(error)}"}
    if not hasattr(cls, SETTER):
        return {}
    return study(release, builder, cls)


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Experiments on every registered class that can be a target.

    Args:
        release: The release.
        payload: "architectures": only these.

    Returns:
        "architectures": name to its file and its study, empty for a class without the hook.
    """
    builder = world.install(release)
    found = entries(release).targets
    wanted: Iterable[str] = payload.get("architectures") or sorted(found)  # type: ignore[assignment]
    studies: dict[tuple[str, str], dict[str, object]] = {}
    answer: dict[str, object] = {}
    for name in wanted:
        entry = found[name]
        key = (entry.path, entry.name)
        if key not in studies:
            studies[key] = study_entry(release, builder, entry)
        answer[name] = {"file": entry.path, "study": studies[key]}
    return {"architectures": answer}
