"""What every target class of a release captures, found by running its own setter and its own forward pass.

For each registered class that has a setter for a method, the model is built from the release's own code with
symbolic sublayers (`world`), the setter is called with many lists of ids, the forward pass runs, and what arrives
at the logits processor is compared with the residual stream at every boundary. Nothing is concluded here: the
answer lists the outcome of each experiment, and `scan.fit` finds the rule that reproduces all of them.
"""

from __future__ import annotations

from drafter_contracts.engines.scan.probes import building, census, stream, world
from drafter_contracts.engines.scan.probes.symbolic import TRACE, Value
from drafter_contracts.engines.scan.raised import raised_at
from drafter_contracts.engines.scan.standins import Module, ModuleList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Method to the name of the setter that a class must have.
SETTERS = {
    "EAGLE3": "set_eagle3_layers_to_capture",
    "DFLASH": "set_dflash_layers_to_capture",
    "DSPARK": "set_dspark_layers_to_capture",
}
#: A kind of config: where its decoder part is, which kinds of layers, and its `model_type` (see `world`).
Kind = tuple[str, int, str]
#: Depths of the experiments: one with every list of ids, the others with some.
DEPTHS = (12, 9, 23)
_MESSAGE = 200
_HANDED_ON = (
    "it hands on what it is asked for to a part that depends on the config (__getattr__), and its file has a setter"
)
_NO_LOGITS = "it has no logits processor: its forward pass ends with something else, and nothing captured leaves it"


def id_lists(n: int, *, full: bool) -> list[list[int] | None]:
    """Lists of ids to try on a target of `n` layers."""
    some: list[list[int] | None] = [
        None, [1, n // 2 - 1, n - 4], [2, n // 2, n - 3], [0, 3], [-1, 2, 5], [2, n - 1], [2, n], [5, 2, 4],
        [1, 5, n], [3, 3, 6], [n + 1], [n - 2],
    ]  # fmt: skip
    if not full:
        return some
    singles = [[i] for i in (-n - 2, -n - 1, -n, -3, -2, -1, 0, 1, 2, 3, n - 4, n - 1, n, n + 2, 1000)]
    return [
        *some, *singles, [], [1, 2], [0, n - 1], [1, n - 1], [1, n], [0, n], [n, 2], [n - 1, 1], [n, 3, 5], [8, 5, 2],
        [1, 8, 5], [2, 2, 5], [1, 1, 5], [5, 2, 5], [n, n], [n - 1, n - 1], [-1, -1], [1, -1], [-1, n], [-2, 3, n],
        [2, 5, n + 1], [0, 1, 2, 3], [1, 3, 5, 7, 9], [2, 3, 5, 7, 8, 9], list(range(n)), list(range(n + 1)),
        [3, 1], [2, 1, 4], [0, 5, 3], [4, n - 1, n],
    ]  # fmt: skip


class Subject:
    """One model class, built at one depth, with its initial state to go back to."""

    def __init__(self, model: object, builder: building.Builder) -> None:
        self.model = model
        self.builder = builder
        self.saved = [(module, _copied(module.__dict__)) for module in _modules(model, {})]

    def restore(self) -> None:
        """Undo what setters did."""
        for module, attributes in self.saved:
            module.__dict__.clear()
            module.__dict__.update(_copied(attributes))

    def changed(self) -> bool:
        """Whether any attribute differs from the initial state."""
        return any(module.__dict__ != attributes for module, attributes in self.saved)

    def run(self) -> None:
        """One forward pass of the model, as the engine calls it."""
        self.builder.stack.clear()
        TRACE.reset()
        self.model.forward(Value({}), Value({}), world.make_batch())  # type: ignore[attr-defined]


def _copied(attributes: dict[str, object]) -> dict[str, object]:
    return {name: _copy(value) for name, value in attributes.items()}


def _copy(value: object) -> object:
    return value.copy() if type(value) in (list, set, dict) else value  # type: ignore[attr-defined]


def _modules(value: object, seen: dict[int, object]) -> list[Module]:
    """All modules below a value, itself included."""
    if id(value) in seen:
        return []
    if isinstance(value, (list, tuple)):
        return [module for part in value for module in _modules(part, seen)]
    if not isinstance(value, Module):
        return []
    seen[id(value)] = value
    inside = list(value._modules) if isinstance(value, ModuleList) else list(value.__dict__.values())  # noqa: SLF001
    return [value, *(module for part in inside for module in _modules(part, seen))]


def build(
    release: LazyRelease,
    builder: building.Builder,
    cls: type,
    depth: int,
    setter: str,
    known: Kind | None = None,
) -> tuple[Subject | None, list[str], Kind, dict[str, object]]:
    """Build a class at a depth with the first kind of config under which its layers run.

    Args:
        release: The release.
        builder: The construction hook.
        cls: The class.
        depth: Decoder layers.
        setter: The setter: it is called first where the forward pass does not run without.
        known: The kind of config that worked at another depth.

    Returns:
        The subject (None where no config works), the log of depths it reads, the config's kind, and why not: "unclear"
        or, where no config can make a difference, "defect".
    """
    attempts: list[tuple[tuple[bool, int], dict[str, object]]] = []
    types = ("probe", *census.model_types(release, cls))
    kinds = [known] if known else [(v, k, t) for t in types for k in range(len(world.KINDS)) for v in world.VARIANTS]
    for variant, kind, model_type in kinds:
        builder.stack.clear()
        builder.layers = 0
        config, log = world.make_config(variant, depth, cls.__name__, model_type, kind)
        model: object = None
        TRACE.reset()
        try:
            model = world.instantiate(cls, config)
            subject = Subject(model, builder)
            _first_run(subject, setter, depth)
        except Exception as error:  # noqa: BLE001 - the release's own failure under this config
            faulty = building.is_misfit(error) or building.lacks_attribute(error, model)
            what = "building it" if model is None else "its forward pass"
            reason: dict[str, object] = {"defect" if faulty else "unclear": f"{what}: {describe(error)}"}
        else:
            complaint = stream.Reading(TRACE, depth).complaint
            if not complaint or TRACE.calls == depth:
                return subject, log, (variant, kind, model_type), {}
            reason = {"unclear": complaint}
        attempts.append(((model is not None and TRACE.calls > 0, builder.layers), reason))
    best = max(attempts, key=lambda attempt: attempt[0])[1]  # the first of those that came furthest
    return None, [], ("", 0, ""), best


def _first_run(subject: Subject, setter: str, depth: int) -> None:
    """Run the forward pass as it is; where that fails, after the setter, as a launch would call it."""
    try:
        subject.run()
    except AttributeError:
        _call(subject, setter, [2, 5] if takes_ids(getattr(subject.model, setter)) else None)
        try:
            subject.run()
        except ValueError:
            if TRACE.calls != depth:  # what fails behind the last layer, the experiments show
                raise
        subject.restore()


def describe(error: Exception) -> str:
    """An exception of the release: its type, text and the release's innermost place."""
    found = raised_at(error)
    place = f" @ {found['file']}:{found['line']}" if found else ""
    return f"{type(error).__name__}: {str(error)[:_MESSAGE]}{place}"


def experiment(subject: Subject, setter: str, ids: list[int] | None, n: int) -> dict[str, object]:
    """Call the setter, run the forward pass, and say what came of it."""
    subject.restore()
    return after(subject, lambda: _call(subject, setter, ids), n)


def _call(subject: Subject, setter: str, ids: list[int] | None) -> None:
    function = getattr(subject.model, setter)
    if ids is None:
        function(*_no_ids(function))
    else:
        function(list(ids))


def takes_ids(function: Callable[..., object]) -> bool:
    """Whether a setter has a parameter for ids at all."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is None or code.co_argcount > 1 or bool(code.co_flags & 0x04)


def _no_ids(function: Callable[..., object]) -> tuple[object, ...]:
    """No argument where the setter has a default, None where it must be given one."""
    inner = getattr(function, "__func__", function)
    return () if getattr(inner, "__defaults__", None) or not takes_ids(function) else (None,)


def after(subject: Subject, act: Callable[[], None], n: int) -> dict[str, object]:
    """What a forward pass captures after `act`."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - the setter's own refusal
        return {"phase": "setter", "error": type(error).__name__, "text": describe(error)}
    try:
        subject.run()
    except Exception as error:  # noqa: BLE001 - the forward pass's own failure
        return {"phase": "forward", "error": type(error).__name__, "text": describe(error)}
    if not TRACE.reached:
        return {"unclear": "the logits processor is not reached"}
    reading = stream.Reading(TRACE, n)
    taps = reading.taps() if not reading.complaint else None
    if taps is None:
        return {"unclear": reading.complaint, "delivered": len(stream.delivered(TRACE))}
    return {"taps": taps}


def study(release: LazyRelease, builder: building.Builder, cls: type, method: str) -> dict[str, object]:
    """All experiments on one class and method."""
    setter = SETTERS[method]
    world.SETTINGS.speculative_algorithm = method
    record: dict[str, object] = {"setter": release.place(getattr(cls, setter)), "cases": []}
    known: Kind | None = None
    for position, n in enumerate(DEPTHS):
        subject, log, known, reason = build(release, builder, cls, n, setter, known)
        if subject is None:
            return {**record, **reason}
        if not position:
            record["forward"] = release.place(TRACE.loop)
            if not TRACE.reached and not building.has_logits(module for module, _ in subject.saved):
                return {**record, "defect": _NO_LOGITS}
            record.update(_habits(subject, setter, log, n))
        lists = id_lists(n, full=not position) if takes_ids(getattr(cls, setter)) else [None]
        for ids in lists:
            outcome = experiment(subject, setter, ids, n)
            record["cases"].append({"n": n, "ids": ids, **outcome})  # type: ignore[attr-defined]
    return record


def _habits(subject: Subject, setter: str, log: list[str], n: int) -> dict[str, object]:
    """Which depth the setter reads, whether it adds to an earlier call, whether it works on the last stage only."""
    built = list(dict.fromkeys(log))
    log.clear()
    first, second = [2, 5], [3, 7]
    alone = experiment(subject, setter, first, n).get("taps")
    experiment(subject, setter, None, n)
    read = list(dict.fromkeys(log))
    other = experiment(subject, setter, second, n).get("taps")

    def both() -> None:
        _call(subject, setter, first)
        _call(subject, setter, second)

    subject.restore()
    together = after(subject, both, n).get("taps")
    subject.restore()
    world.PIPELINE.is_last_rank = False
    try:
        _call(subject, setter, first)
        idle = not subject.changed()
    except Exception:  # noqa: BLE001 - whatever it does, it does something
        idle = False
    finally:
        world.PIPELINE.is_last_rank = True
        subject.restore()
    union = sorted([*alone, *other]) if alone and other else None  # type: ignore[misc]
    return {
        "depth": (read or built or ["num_hidden_layers"])[0],
        "sticky": bool(union) and together == union,
        "last_rank_only": idle,
    }


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Experiments on every registered class that can be a target.

    Args:
        release: The release.
        payload: "architectures": only these classes; "drafters": classes that are drafters, so that a setter which
            they inherit is never called: nothing is tried on them.

    Returns:
        "architectures": class to its file and, by method, what `study` gives; "failed": files to the reason why their
        classes cannot be told.
    """
    builder = world.install(release)
    found, failed = census.entry_classes(release)
    wanted: Iterable[str] = payload.get("architectures") or sorted(found)  # type: ignore[assignment]
    passed_over: Iterable[str] = payload.get("drafters", ())  # type: ignore[assignment]
    answer: dict[str, object] = {}
    for name in wanted:
        path, cls = found[name]
        methods: dict[str, object] = {}
        delegate = release.place(getattr(cls, "__getattr__", None))
        for method, setter in SETTERS.items() if name not in passed_over else ():
            if hasattr(cls, setter):
                methods[method] = study(release, builder, cls, method)
            elif delegate and setter in release.sources[path]:
                methods[method] = {"setter": delegate, "unclear": _HANDED_ON}
        answer[name] = {"file": path, "methods": methods}
    return {"architectures": answer, "failed": failed}
