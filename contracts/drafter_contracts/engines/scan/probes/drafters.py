"""Probe: what the drafter classes of a release do with a drafter's config and weights.

Run inside the sandbox. Every class is built from the release's own source with configs that differ in one key, and
its own loader and forward pass are run on stand-ins; what is found goes back as JSON for `scan.drafters` to fit.
"""

from __future__ import annotations

import ast
import re

from drafter_contracts.engines.scan.probes import draft_weights, draft_world, structs, world
from drafter_contracts.engines.scan.probes.draft_build import (
    BASE,
    HIDDEN,
    LONE_NAMES,
    OTHER_WIDTH,
    Built,
    complete,
    run_forward,
    stated,
)
from drafter_contracts.engines.scan.probes.draft_rewrites import rewrites
from drafter_contracts.engines.scan.probes.readings import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease

_NAME = re.compile(r"Eagle|NextN|MTP|DFlash|DSpark|LiLiCorr|Assistant", re.IGNORECASE)
#: Keys of sizes that have nothing to do with layers.
BASE_SIZES = ("hidden_size", "vocab_size", "draft_vocab_size", "head_dim", "intermediate_size")
#: Objects whose parts say nothing of capture.
_ROPE = ("rope_parameters.", "rope_scaling.")
_AUX = re.compile(r"Eagle3|DFlash|DSpark|LiLiCorr", re.IGNORECASE)
#: Ids of seven taps that no class refuses for being beyond a shallow target.
SEVEN = [0, 0, 0, 0, 0, 0, 0]


def entries(release: LazyRelease) -> dict[str, str]:
    """Registered architectures whose name or file is a drafter's, with the file."""
    found = {}
    for path, text in sorted(release.sources.items()):
        start = f"\n{text}".find("\nEntryClass")
        if not path.startswith("models/") or start < 0:
            continue
        try:
            rest = ast.parse(text[start:]).body  # it stands at the end, and the rest of the file is long
        except SyntaxError:
            rest = ast.parse(text).body
        for node in rest:
            if isinstance(node, ast.Assign) and any(ast.unparse(t) == "EntryClass" for t in node.targets):
                names = [n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)]
                found.update({n: path for n in names if _NAME.search(n) or _NAME.search(path)})
    return found


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Look at every drafter class.

    Args:
        release: The release.
        payload: "names": groups of tensor names that are offered to every loader; "only": classes to look at.

    Returns:
        "classes": architecture to what was seen, or to {"failure": reason}; "workers": where embeddings and heads are
        shared; "rewrites": see `draft_rewrites`.
    """
    world.install(release)
    structs.install(release)
    builder = draft_world.install(release)
    groups: list[list[str]] = payload["names"]  # type: ignore[assignment]
    only = payload.get("only")
    classes: dict[str, object] = {}
    known: dict[type, dict[str, object]] = {}
    workers = find_workers(release)
    for name, path in entries(release).items():
        if only and name not in only:  # type: ignore[operator]
            continue
        builder.failures.clear()
        try:
            cls = release.module(path)[name]
            root = _defining(cls)  # type: ignore[arg-type]
            if root not in known:
                examined = DraftClass(root, name, path, builder)
                leaves = dict(builder.failures)
                known[root] = {**examined.explore(groups, workers), "leaves": leaves}
                known[root]["place"] = _place(release, examined.plain)
            seen = dict(known[root])
        except Exception as error:  # noqa: BLE001 - the release's own code failed: reported, not guessed
            seen = {"failure": f"{type(error).__name__}: {error}"[:300]}
        seen["file"] = path
        classes[name] = seen
    return {
        "classes": classes,
        "workers": {m: [w.site.source() for w in ws] for m, ws in workers.items()},
        "rewrites": rewrites(release),
    }


def _place(release: LazyRelease, built: Built) -> dict[str, object] | None:
    """The constructor that makes the layer which takes the target's states in."""
    inner, fusion = built.inner(), built.fusion()
    if inner is None or fusion is None:
        return _maker(release, built.model)
    name = fusion[0].rpartition(".")[2]
    for base in type(inner).__mro__:
        made = vars(base).get("__init__")
        code = getattr(made, "__code__", None)
        if code is not None and name in code.co_names:
            return release.place(made) or None
    return None


def _maker(release: LazyRelease, model: object) -> dict[str, object] | None:
    """The constructor that makes the inner model."""
    inner = type(vars(model).get("model")).__name__ if model is not None else ""
    for base in type(model).__mro__:
        made = vars(base).get("__init__")
        code = getattr(made, "__code__", None)
        if code is not None and inner in code.co_names:
            return release.place(made) or None
    return None


def _defining(cls: type) -> type:
    """The class itself, or the base that it only gives another name to."""
    own = {key for key in vars(cls) if not (key.startswith("__") and key.endswith("__")) and key != "_abc_impl"}
    return _defining(cls.__bases__[0]) if not own and "__init__" not in vars(cls) and len(cls.__bases__) == 1 else cls


def find_workers(release: LazyRelease) -> dict[str, list[draft_weights.Worker]]:
    """Workers by algorithm."""
    found: dict[str, list[draft_weights.Worker]] = {"EAGLE3": [], "EAGLE": []}
    for method, workers in found.items():
        for path in draft_weights.WORKERS:
            if path in release.sources:
                try:
                    workers.append(draft_weights.Worker(release, path, method))
                except LookupError:
                    continue
    return found


class DraftClass:
    """One class under examination.

    Args:
        cls: The class.
        name: Its registered name.
        path: Its file.
        builder: What builds the modules.
    """

    def __init__(self, cls: type, name: str, path: str, builder: draft_world.Builder) -> None:
        self.cls = cls
        self.name = name
        self.path = path
        self._built: dict[str, Built] = {}
        self.base, self.plain = complete(cls, {**BASE, "architectures": [name]}, builder.failures)

    def with_keys(self, changes: dict[str, object]) -> Built:
        """The class with a config that differs from the base in these dotted keys."""
        values = self.base
        for key, value in changes.items():
            values = put(values, key, value)
        return Built(self.cls, values)

    def looked_at(self, key: str, value: object) -> Built:
        """As `with_keys` for one key; built once, only to be looked at."""
        name = f"{key}={value!r}"
        if name not in self._built:
            self._built[name] = self.with_keys({key: value})
        return self._built[name]

    def explore(self, groups: list[list[str]], workers: dict[str, list[draft_weights.Worker]]) -> dict[str, object]:
        """Everything that the fit needs, as JSON."""
        if self.plain.model is None:
            return {"failure": self.plain.error[:300]}
        width = self.plain.width()
        fusion = self.plain.fusion()
        if width is None or fusion is None:
            failure = "no layer that takes the target's states in is known by name"
            return {"failure": failure, "blind": self.plain.is_blind()}
        aux = self.takes_aux(width)
        bases = [base.__name__ for base in self.cls.__mro__]
        # A target's own MTP layers read its checkpoint's keys, which are nobody's to set for a drafter.
        keys = self._keys() if aux or any("Eagle" in name for name in (self.name, *bases)) else sorted(self.plain.log)
        widths = keys if aux else [key for key in keys if key.endswith("hidden_size")]
        seen: dict[str, object] = {
            "fusion": fusion[0],
            "bases": bases,
            "columns": width,
            "keys": sorted(key for key in keys if not key.endswith((".*", ".x")) and not key.startswith(_ROPE)),
            "bias": self._bias(keys if aux else []),
            "widths": self._widths(widths),
        }
        switches: list[dict[str, object]] = []
        if aux:
            counts = seen["counts"] = self._counts(keys)
            switches = self._switches(keys)
            lists = [str(one)[4:-1] for one in counts["order"] if str(one).startswith("len(")]  # type: ignore[attr-defined]
            seen["bounds"] = self._bounds(keys, lists)
            given: dict[str, object] = {lists[0]: SEVEN} if lists else {}
            seen["layers"] = {str(n): self.with_keys({**given, "num_hidden_layers": n}).error for n in (1, 2, 3)}
            seen["forward"] = self._forward(counts)
        seen["switches"] = switches
        seen["weights"] = self._weights(groups, switches)
        seen["sharing"] = self._sharing(workers)
        return seen

    def takes_aux(self, columns: int) -> bool:
        """Whether this may be a class that is fed captured states, rather than an embedding and one state."""
        fusion = self.plain.fusion()
        lone = fusion is not None and fusion[0].rpartition(".")[2] in LONE_NAMES
        return (columns != 2 * HIDDEN and not lone) or bool(_AUX.search(self.name))

    def _keys(self) -> list[str]:
        """Keys that are read at the top, and below the objects that the class looks into."""
        found = set(self.plain.log)
        for parent in sorted(key for key in self.plain.log if "." not in key):
            log = self.with_keys({f"{parent}.x": 0}).log
            if parent not in BASE and any(key.startswith(parent + ".") for key in log):
                found |= log
        return sorted(found)

    def _bias(self, keys: list[str]) -> dict[str, object]:
        """Whether the fusion layer has a bias, and the key that switches it."""

        def biased(built: Built) -> bool:
            found = built.fusion()
            return found is not None and "bias" in vars(found[1])

        base = biased(self.plain)
        switching = [k for k in keys if k not in BASE and biased(self.looked_at(k, not base)) != base]
        return {"base": base, "keys": switching}

    def _widths(self, keys: list[str]) -> list[str]:
        """Keys of the width of one tap, in precedence."""
        count = self.plain.width() or 0
        found = []
        for key in keys:
            columns = self._columns_for(key, OTHER_WIDTH)
            if columns is not None and columns * HIDDEN == count * OTHER_WIDTH:
                found.append(key)
        return self._in_order(found, HIDDEN * 2, OTHER_WIDTH, count // HIDDEN)

    def _columns_for(self, key: str, value: object) -> int | None:
        return self.looked_at(key, value).width()

    def _counts(self, keys: list[str]) -> dict[str, object]:
        """Keys that say how many taps there are: as a number, or as the length of a list, in precedence."""
        base = (self.plain.width() or 0) // HIDDEN
        numbers = [k for k in keys if k != "hidden_size" and self._columns_for(k, 7) == 7 * HIDDEN]
        lists = [k for k in keys if k not in numbers and self._columns_for(k, SEVEN) == 7 * HIDDEN]
        sources = [*numbers, *(f"len({k})" for k in lists)]

        def wins(one: str) -> int:
            return sum(1 for other in sources if other != one and self._count_with(one, 7, other, 5) == 7)

        order = sorted(sources, key=lambda one: (-wins(one), one))
        empty = {k: self._columns_for(k, []) for k in lists}
        literal = any(stated(self.base, str(one).removeprefix("len(").removesuffix(")")) for one in order)
        return {
            "base": base,
            "order": order,
            "stated": literal,
            "empty": {k: (v or 0) // HIDDEN for k, v in empty.items()},
        }

    def _count_with(self, one: str, count: int, other: str, more: int) -> int:
        built = self.with_keys(dict([_setting(other, more), _setting(one, count)]))
        return (built.width() or 0) // HIDDEN

    def _bounds(self, keys: list[str], lists: list[str]) -> dict[str, object]:
        """Numbers that ids must stay below for the class to be built."""
        if not lists:
            return {"error": "", "keys": []}
        ids: dict[str, object] = {lists[0]: [0, 40]}
        refused = self.with_keys(ids).error
        bounding = []
        for key in keys:
            if key in lists or key in BASE_SIZES:
                continue
            if refused and self.with_keys({**ids, key: 100}).error:
                continue
            if self.with_keys({**ids, key: 10}).error and (refused or not self.with_keys({**ids, key: 100}).error):
                bounding.append(key)
        order = sorted(bounding, key=lambda k: -sum(1 for o in bounding if o != k and self._bound_wins(ids, k, o)))
        return {"error": refused, "keys": order}

    def _bound_wins(self, ids: dict[str, object], one: str, other: str) -> bool:
        return bool(self.with_keys({**ids, other: 100, one: 10}).error)

    def _in_order(self, found: list[str], first: int, second: int, count: int) -> list[str]:
        """Keys of the width in precedence: one that decides over another comes first."""

        def wins(one: str) -> int:
            others = [other for other in found if other != one]
            return sum(self.with_keys({other: second, one: first}).width() == count * first for other in others)

        return sorted(found, key=lambda one: (-wins(one), one))

    def _switches(self, keys: list[str]) -> list[dict[str, object]]:
        """Keys that add norms or change the recycled state when they are true."""
        before = self.plain.norms()
        width = self.plain.width() or 0
        _, label, _ = run_forward(self.plain, width)
        found: list[dict[str, object]] = []
        for key in keys:
            if key in BASE and key != "hidden_act":
                continue
            built = self.looked_at(key, True)
            if built.model is None:
                continue
            added = {name: size for name, size in built.norms().items() if name not in before}
            _, after, error = run_forward(built, built.width() or width)
            if added or (after != label and not error):
                found.append({"key": key, "norms": added, "label": [label, after]})

        for one in found:
            same = [str(o["key"]) for o in found if o is not one and o["norms"] and o["norms"] == one["norms"]]
            key = str(one["key"])
            one["overrules"] = [o for o in same if self.with_keys({key: False, o: True}).norms() == before]
        return sorted(found, key=lambda s: (-len(s["overrules"]), str(s["key"])))  # type: ignore[arg-type]

    def _forward(self, counts: dict[str, object]) -> dict[str, object]:
        """Whether the fusion layer runs when what arrives is as wide as the drafter, and when it is not."""
        order = [str(one) for one in counts["order"]]  # type: ignore[attr-defined]
        changes = dict([_setting(order[0], 7)]) if order else {}
        built = self.with_keys(changes)
        columns = built.width() or 0
        normal, label, error = run_forward(built, columns)
        equal, _, refused = run_forward(self.with_keys(changes), HIDDEN)
        return {"runs": normal, "label": label, "error": error[:200], "equal_runs": equal, "equal_error": refused[:200]}

    def _weights(self, groups: list[list[str]], switches: list[dict[str, object]]) -> list[dict[str, object]]:
        """What the loader does with each group of tensors, every switch on and two layers where possible."""
        changes: dict[str, object] = {str(s["key"]): True for s in switches}
        if not self.with_keys({**changes, "num_hidden_layers": 2}).error:
            changes["num_hidden_layers"] = 2
        return draft_weights.load(self.with_keys(changes), groups)

    def _sharing(self, workers: dict[str, list[draft_weights.Worker]]) -> dict[str, object]:
        """Whose embeddings and head are used, by case of the config."""
        eagle3 = "eagle3" in (self.name + self.path).lower()
        shared = workers["EAGLE3" if eagle3 else "EAGLE"]
        if not eagle3 and not (self.plain.embeddings() and hasattr(self.cls, "set_embed_and_head")):
            shared = []
        cases: dict[str, dict[str, object]] = {
            "own": {}, "unmapped": {}, "tied": {"tie_word_embeddings": True},
            "draft_vocab_null": {"draft_vocab_size": None}, "draft_vocab_missing": {"draft_vocab_size": _ABSENT},
            "wider_target": {"target_hidden_size": OTHER_WIDTH},
        }  # fmt: skip
        result: dict[str, object] = {}
        for case, changes in cases.items():
            built = self._changed(changes)
            if built.model is None:
                result[case] = [{"embed": "", "lm_head": "error", "error": built.error[:200]}]
            elif not shared:
                result[case] = [{**draft_weights.owners(built), "error": ""}]
            else:
                mapped = eagle3 and case != "unmapped"
                result[case] = [worker.share(self._changed(changes), mapped=mapped) for worker in shared]
        return result

    def _changed(self, changes: dict[str, object]) -> Built:
        """As `with_keys`, where `_ABSENT` takes a key away."""
        if _ABSENT not in changes.values():
            return self.with_keys(changes)
        return Built(self.cls, {key: value for key, value in self.base.items() if key not in changes})


_ABSENT = object()


def _setting(source: str, count: int) -> tuple[str, object]:
    if source.startswith("len("):
        return source[4:-1], [0] * count
    return source, count
