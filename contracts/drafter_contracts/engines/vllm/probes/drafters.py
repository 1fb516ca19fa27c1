"""What the drafter classes of a vLLM release build from a drafter's config.

Every registered class that takes a target's hidden states is built from the release's own source with configs that
differ in one key. How wide its `fc` becomes says which keys size it; whether the built model looks different says which
switches it obeys. Layers become leaves that remember their arguments (`scan.probes.layers`).
"""

from __future__ import annotations

import functools
import re

from drafter_contracts.engines.scan.probes.draft_build import BASE, HIDDEN, MISSING, MORE, OTHER_WIDTH, guess, stated
from drafter_contracts.engines.scan.probes.layers import DraftModule, Leaf, is_linear
from drafter_contracts.engines.scan.probes.readings import put
from drafter_contracts.engines.scan.probes.recording import RecordingConfig
from drafter_contracts.engines.scan.probes.targets import describe
from drafter_contracts.engines.vllm.probes import draft_world
from drafter_contracts.engines.vllm.probes.registry import Entry, entries, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Names that are looked at: drafters that are fed hidden states of several layers.
_NAME = re.compile(r"[Ee]agle3|P[Ee]agle|DFlash|DSpark|XPress|Assistant")
#: Names under which they keep the layer that takes the states in.
_FUSION = ("fc", "main_proj")
SWITCHES = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output", "use_aux_hidden_state")
#: Sizes of a config that have nothing to do with the number of taps.
_SIZES = ("hidden_size", "vocab_size", "head_dim", "intermediate_size", "_rank", "_heads", "_eps", "position")
SEVEN = [1, 2, 3, 4, 5, 6, 7]
_PRESETS: tuple[dict[str, object], ...] = (
    {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}},
    {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "layer_types": ["full_attention"] * 8,
     "markov_rank": 4, "markov_head_type": "vanilla", "block_size": 4, "enable_confidence_head": True,
     "mask_token_id": 3},
    {"rope_parameters": {"full_attention": {"rope_theta": 1e4, "rope_type": "default"}}, "sliding_window": 128,
     "dflash_config": {"selector_rank": 4, "selector_top_k": 2, "mask_token_id": 3, "conv_kernel_size": 2,
                       "conv_group_size": 4}, "block_size": 4},
)  # fmt: skip


class Built:
    """A drafter's class, built with one config."""

    def __init__(self, cls: type, values: dict[str, object]) -> None:
        self.log: set[str] = set()
        self.model: object = None
        self.error = ""
        try:
            self.model = draft_world.instantiate(cls, RecordingConfig(values, self.log))
        except Exception as error:  # noqa: BLE001 - whatever the release raises is the answer
            self.error = describe(error)

    def _modules(self) -> list[tuple[str, DraftModule]]:
        if not isinstance(self.model, DraftModule):
            return []
        return [(name, one) for name, one in self.model.named_modules() if isinstance(one, DraftModule)]

    def width(self) -> int | None:
        """Columns of the layer that takes the states in; 0 where the class builds none."""
        if self.model is None:
            return None
        for name, one in self._modules():
            if name.rpartition(".")[2] in _FUSION and is_linear(one) and isinstance(one, Leaf):
                return one.in_size if isinstance(one.in_size, int) else None
        return 0

    def portrait(self) -> list[str]:
        """What was built: modules with their sizes, plain attributes, and the names of methods that were chosen."""
        lines = []
        for name, one in self._modules():
            if isinstance(one, Leaf):
                lines.append(f"{name}: {one._kind} {one.in_size} {one.out_size}")  # noqa: SLF001 - a leaf's own record
                continue
            lines.append(f"{name}: {type(one).__name__}")
            for key, value in sorted(vars(one).items()):
                chosen = getattr(value, "__name__", "")
                if isinstance(value, (bool, int, float, str)) or value is None or chosen:
                    lines.append(f"{name}.{key} = {chosen or value!r}")
        return lines


class Examined:
    """One class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.values, self.plain = self._complete()
        self.log = set(self.plain.log)

    def _complete(self) -> tuple[dict[str, object], Built]:
        """A config with which the class can be built."""
        first: tuple[dict[str, object], Built] | None = None
        for preset in _PRESETS:
            values = {**BASE, **preset}
            for _ in range(40):
                built = Built(self.cls, values)
                found = MISSING.search(built.error)
                if not found or stated(values, found[1]):
                    break
                name = found[1].rpartition(".")[2]
                values = put(values, found[1], MORE[name] if name in MORE else guess(name))
            if built.width():
                return values, built
            first = first or (values, built)
        assert first is not None  # noqa: S101 - there is a preset
        return first

    def width(self, *changes: tuple[str, object]) -> int | None:
        """Columns with keys changed."""
        values = self.values
        for key, value in changes:
            values = put(values, key, value)
        built = Built(self.cls, values)
        self.log |= built.log
        return built.width()

    def explore(self) -> dict[str, object]:
        """What sizes `fc`, and which switches are obeyed."""
        columns = self.plain.width()
        if not columns:
            return {"unclear": self.plain.error or "it builds no layer that takes the target's states in"}
        widths = [k for k in sorted(self.log | {"target_hidden_size"})
                  if k.endswith("hidden_size") and "." not in k and self._scales(k, columns)]  # fmt: skip
        widths.sort(key=lambda key: key == "hidden_size")
        self.width(("eagle_config", {"_": 1}), ("dflash_config", {"_": 1}))
        taps = self._taps(columns)
        return {
            "columns": columns,
            "hidden": HIDDEN,
            "widths": widths,
            "taps": taps,
            "switches": self._switches(),
            "battery": self._battery(taps, widths),
        }

    def _scales(self, key: str, columns: int) -> bool:
        return self.width((key, OTHER_WIDTH)) == columns * OTHER_WIDTH // HIDDEN

    def _taps(self, columns: int) -> list[str]:
        """Sources of the number of taps, as words of a profile, in precedence."""
        found: dict[str, tuple[str, object]] = {}
        for key in self._candidates():
            if key.endswith(_SIZES) or (key in BASE and key != "num_hidden_layers"):
                continue
            if self.width((key, 5)) == 5 * HIDDEN:
                found[key] = (key, 5)
            elif self.width((key, SEVEN)) == len(SEVEN) * HIDDEN:
                found[f"len({key})"] = (key, SEVEN)

        def first(a: str, b: str) -> int:
            return self._wins(found[a], found[b])

        words = sorted(found, key=functools.cmp_to_key(first))
        return words if "num_hidden_layers" in words else [*words, str(columns // HIDDEN)]

    def _candidates(self) -> list[str]:
        """Keys that were asked for, and those of the same name in the other parts: parts are merged unseen."""
        parts = sorted({key.partition(".")[0] for key in self.log if "." in key} | {"eagle_config", "dflash_config"})
        names = {key.rpartition(".")[2] for key in self.log if "." in key}
        return sorted(self.log | {f"{part}.{name}" for part in parts for name in names if part in self.log})

    def _wins(self, a: tuple[str, object], b: tuple[str, object]) -> int:
        if a[0] == b[0]:
            return 0
        value = 6 if b[1] == 5 else SEVEN[:6]
        return -1 if self.width(a, (b[0], value)) == (5 if a[1] == 5 else 7) * HIDDEN else 1

    def _switches(self) -> dict[str, dict[str, object]]:
        made: dict[str, dict[str, object]] = {}
        for name in SWITCHES:
            candidates = [name, *(f"{part}.{name}" for part in ("eagle_config", "dflash_config"))]
            keys = [key for key in candidates if self._picture((key, True)) != self._picture((key, False))]
            if keys:
                absent = self._picture()
                state = absent == self._picture((keys[0], True))
                known = absent in (self._picture((keys[0], True)), self._picture((keys[0], False)))
                made[name] = {
                    "keys": sorted(keys, key=functools.cmp_to_key(self._first_switch)),
                    "default": state if known else None,
                }
        return made

    def _first_switch(self, a: str, b: str) -> int:
        return -1 if self._picture((a, True), (b, False)) == self._picture((a, True)) else 1

    def _picture(self, *changes: tuple[str, object]) -> list[str]:
        values = self.values
        for key, value in changes:
            values = put(values, key, value)
        built = Built(self.cls, values)
        return built.portrait() if built.model is not None else [built.error]

    def _battery(self, taps: list[str], widths: list[str]) -> list[dict[str, object]]:
        """Columns under combinations of what sizes them."""
        keys = [word.removeprefix("len(").removesuffix(")") for word in taps if not word.isdigit()]
        made: list[dict[str, object]] = []
        for i in range(48):
            config: dict[str, object] = {}
            for position, word in enumerate(w for w in taps if not w.isdigit()):
                if (i >> position) & 1:
                    size = 1 + (i + position) % 6
                    value = list(range(1, 1 + size)) if word.startswith("len(") else size
                    config = put(config, keys[position], value)
            if i % 3 == 2 and "target_hidden_size" in widths:
                config["target_hidden_size"] = OTHER_WIDTH
            changes = [(key, _at(config, key)) for key in [*keys, "target_hidden_size"] if stated(config, key)]
            made.append({"config": config, "columns": self.width(*changes)})
        return made


def _at(config: dict[str, object], dotted: str) -> object:
    value: object = config
    for part in dotted.split("."):
        value = value[part]  # type: ignore[index]
    return value


def _place(release: LazyRelease, examined: Examined) -> dict[str, object]:
    """The constructor of the part that holds `fc`."""
    for _, one in examined.plain._modules():  # noqa: SLF001 - this module's own
        if any(name in vars(one) for name in _FUSION):
            for base in type(one).__mro__:
                code = getattr(vars(base).get("__init__"), "__code__", None)
                if code is not None and any(name in code.co_names for name in _FUSION):
                    return release.place(vars(base)["__init__"])
    return {}


def study(release: LazyRelease, entry: Entry) -> dict[str, object]:
    """One registered class."""
    try:
        examined = Examined(load(release, entry))
        seen = examined.explore()
    except Exception as error:  # noqa: BLE001 - reported, not guessed
        return {"unclear": describe(error)}
    return {**seen, "source": _place(release, examined)}


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Every drafter class that is fed hidden states of several layers.

    Args:
        release: The release.
        payload: "only": these architectures; "configs": an architecture to configs, to build it with instead.

    Returns:
        "classes": architecture to its study, or to the "columns" of `fc` under each config that was given.
    """
    draft_world.install(release)
    release.replace("supports_eagle3", lambda _model: True)
    only = payload.get("only")
    given: dict[str, list[dict[str, object]]] = payload.get("configs", {})  # type: ignore[assignment]
    found = entries(release).drafters
    studies: dict[tuple[str, str], dict[str, object]] = {}
    answer: dict[str, object] = {}
    for name, entry in sorted(found.items()):
        if only and name not in only:  # type: ignore[operator]
            continue
        if not _NAME.search(name):
            answer[name] = {}
            continue
        if name in given:
            plain = Examined(load(release, entry))
            answer[name] = {"columns": [Built(plain.cls, {**plain.values, **one}).width() for one in given[name]]}
            continue
        key = (entry.module, entry.name)
        if key not in studies:
            studies[key] = study(release, entry)
        answer[name] = studies[key]
    return {"classes": answer}
