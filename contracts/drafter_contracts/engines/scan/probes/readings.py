"""Probe: how a release finds the capture ids of a method in a drafter's config.

Run inside the sandbox. The release's own statements are executed with recording configs of many shapes; keys are
found by trying every text that the executed code mentions, at the top and below every object it looks into.
"""

from __future__ import annotations

import ast
import copy
import random

from drafter_contracts.engines.scan.probes import overrides
from drafter_contracts.engines.scan.probes.extract import called_name, functions
from drafter_contracts.engines.scan.probes.reading_run import SETTERS, Outcome, Runner, anchor_sources, prepare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drafter_contracts.engines.scan.lazy import LazyRelease

METHODS = ("EAGLE3", "DFLASH", "DSPARK")
#: Ids that no default and no even spread over N layers gives, and another such list.
IDS, OTHER = [3, 7, 12], [4, 9, 20]
N = 32
BASE: dict[str, object] = {"num_hidden_layers": 3, "hidden_size": 64, "vocab_size": 128, "architectures": ["Drafter"]}
WRONG: tuple[object, ...] = ("text", 3, {"a": 1}, ["a", "b"], [[1]])
#: Shapes that a key's value takes in the battery of runs by which a fit is checked.
SHAPES: tuple[object, ...] = (
    IDS, OTHER, [0, 5], [-1, 2, 30], [30, 2, 16], [2, 2, 9], [31], [32], [40, 1], [], None, "text", 3, {"a": 1}, ["a"],
)  # fmt: skip
PARENT_SHAPES: tuple[object, ...] = (None, "text", 3, [])


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Explore every method.

    Args:
        release: The release.
        payload: "runs": how many runs the battery of each method has; "layers" and "draft_layers": up to where
            the even spread is tabulated; "methods": methods to look at, all if missing.

    Returns:
        "methods": method to what was seen, or to {"absent": reason}; "spread": the release's own even spread;
        "overrides": see `probes.overrides`.
    """
    config_class = prepare(release)
    methods: dict[str, object] = {}
    for method in payload.get("methods") or METHODS:  # type: ignore[attr-defined]
        try:
            runner = Runner(release, method, config_class)
        except LookupError as error:
            methods[method] = {"absent": str(error)}
            continue
        seen = Explorer(runner).explore()
        seen["battery"] = battery(Explorer(runner), seen, int(str(payload.get("runs", 200))))
        seen["places"] = anchor_sources(release, method)
        seen["setter_places"] = [site.source() for site in runner.setters]
        methods[method] = seen
    return {
        "methods": methods,
        "spread": spread(release, payload),
        "overrides": overrides.explore(release),
    }


def spread(release: LazyRelease, payload: dict[str, object]) -> list[list[object]]:
    """The release's own ids for drafters without any: [layers, draft layers, ids or the exception's name]."""
    path = "speculative/dflash_utils.py"
    if path not in release.sources:
        return []
    build: Callable[[int, int], list[int]] = release.module(path).build_target_layer_ids  # type: ignore[assignment]
    table: list[list[object]] = []
    for layers in range(1, int(str(payload.get("layers", 128))) + 1):
        for draft in range(1, int(str(payload.get("draft_layers", 8))) + 1):
            try:
                table.append([layers, draft, list(build(layers, draft))])
            except Exception as error:  # noqa: BLE001 - whatever the release raises is the answer
                table.append([layers, draft, type(error).__name__])
    return table


def put(config: dict[str, object], dotted: str, value: object) -> dict[str, object]:
    """A copy of a config with the value at a dotted key; a parent that is no object is replaced by one."""
    made = copy.deepcopy(config)
    holder = made
    *parents, last = dotted.split(".")
    for parent in parents:
        inner = holder.get(parent)
        if not isinstance(inner, dict):
            inner = holder[parent] = {}
        holder = inner
    holder[last] = copy.deepcopy(value)
    return made


class Explorer:
    """Finds what one method's code looks at.

    Args:
        runner: The method's code.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.log: set[str] = set()
        self.base = dict(BASE)

    def run(self, config: dict[str, object], **options: object) -> Outcome:
        """One run; every key that is read goes to the log."""
        settings: dict[str, object] = {"n": N, "log": self.log, **options}
        return self.runner.run(config, **settings)  # type: ignore[arg-type]

    def explore(self) -> dict[str, object]:
        """Everything that the fit needs, as JSON."""
        texts = self._texts()
        paths = list(self._paths(texts))
        required, helper = self._requirements(paths)
        keys = self._in_order([p for p in paths if self._reads(p)])
        without = self.run(self.base)
        seen: dict[str, object] = {
            "keys": keys,
            "requires": required,
            "context": self.base,
            "helper": helper,
            "missing": without.record(),
            "hooks": self._hooks(keys),
        }
        if keys:
            first = put(self.base, keys[0], IDS)
            seen["switches"] = [p for p in paths if self._switches(first, p)]
            seen["checks_all"] = bool(self.run(put(first, keys[-1], "text")).error) and len(keys) > 1
            seen["per_key"] = {key: self._per_key(key, keys, texts) for key in keys}
        return seen

    # what there is to try -------------------------------------------------------------------------------------

    def _texts(self) -> list[str]:
        """Names among the texts of the statements that are run and of every function they may call."""
        for config in (self.base, {**self.base, "eagle_config": {}}, {**self.base, "target_layer_ids": IDS}):
            self.run(config)
        release = self.runner.release
        trees = {path: release.module(path)._index.tree for path in sorted(release.used)}  # noqa: SLF001 - release names
        defined: dict[str, list[ast.AST]] = {}
        for tree in trees.values():
            for _, function in functions(tree):
                defined.setdefault(function.name, []).append(function)
            for statement in tree.body:
                if isinstance(statement, ast.ClassDef):
                    defined.setdefault(statement.name, []).append(statement)
        waiting: list[ast.AST] = [site.statement for site in (*self.runner.readers, *self.runner.setters)]
        waiting += [s for tree in trees.values() for s in tree.body if isinstance(s, (ast.Assign, ast.AnnAssign))]
        found: set[str] = set()
        done: set[int] = set()
        while waiting:
            part = waiting.pop()
            if id(part) in done:
                continue
            done.add(id(part))
            for node in ast.walk(part):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
                waiting.extend(defined.get(called_name(node), ()))
        return sorted(text for text in found if text.isidentifier() and len(text) > 2)

    def _paths(self, texts: list[str]) -> Iterator[str]:
        yield from texts
        for parent in sorted(t for t in self.log if "." not in t):
            opened: set[str] = set()
            self.run({**self.base, parent: {"x": 0}}, log=opened)
            if any(t.startswith(parent + ".") for t in opened):
                yield from (f"{parent}.{text}" for text in texts)

    # requirements ---------------------------------------------------------------------------------------------

    def _requirements(self, paths: list[str]) -> tuple[list[str], str]:
        """Keys one of which must be positive, and another key that has to be there for some of them."""
        if not self.run(self.base).error:
            return [], ""
        alone = [p for p in paths if not self.run(put(self.base, p, 4)).error]
        helper, more = "", []
        for candidate in sorted(t for t in self.log if "." not in t and t not in alone):
            helped = put(self.base, candidate, 4)
            found = [p for p in paths if p not in alone and p != candidate and not self.run(put(helped, p, 4)).error]
            if found:
                helper, more = candidate, found
                break
        if not alone and not more:
            return [], ""
        helped = put(self.base, helper, 4) if helper else self.base
        keys = [*alone, *more]
        wins = {
            a: sum(1 for b in keys if a != b and self.run(put(put(helped, b, 4), a, 0)).error) for a in keys
        }  # fmt: skip
        keys.sort(key=lambda key: -wins[key])
        self.base = put(helped, keys[0], 4)
        return keys, helper

    # capture ids ----------------------------------------------------------------------------------------------

    def _reads(self, path: str) -> bool:
        return self.run(put(self.base, path, IDS)).ids == IDS

    def _in_order(self, keys: list[str]) -> list[str]:
        def wins(key: str) -> int:
            return sum(
                1 for other in keys if other != key and self.run(put(put(self.base, other, OTHER), key, IDS)).ids == IDS
            )

        return sorted(keys, key=lambda key: (-wins(key), key))

    def _switches(self, first: dict[str, object], path: str) -> bool:
        """Whether false at this key, and only false, keeps the setter from being called."""
        if path in BASE:
            return False
        off, on = self.run(put(first, path, False)), self.run(put(first, path, True))
        return not off.called and not off.error and bool(on.called)

    def _per_key(self, key: str, keys: list[str], texts: list[str]) -> dict[str, object]:
        lower = keys[keys.index(key) + 1 :]
        null_stops = bool(lower) and self.run(put(put(self.base, lower[-1], IDS), key, None)).ids != IDS
        accepted: dict[str, list[int]] = {}
        for n in (N, 61):
            tried = [-7, -2, -1, 0, 1, n - 2, n - 1, n, n + 1, n + 9]
            outcomes = [(i, self.run(put(self.base, key, [i]), n=n)) for i in tried]
            accepted[str(n)] = [i for i, outcome in outcomes if outcome.ids == [i]]
        return {
            "null_stops": null_stops,
            "shifts": self._shifts(put(self.base, key, IDS), texts),
            "accepted": accepted,
            "wrong": [self.run(put(self.base, key, value)).record() for value in WRONG],
            "texts": self.run(put(self.base, key, [str(i) for i in IDS])).record(),
            "empty": self.run(put(self.base, key, [])).record(),
            "out_of_range": self.run(put(self.base, key, [N + 9])).record(),
        }

    def _hooks(self, keys: list[str]) -> dict[str, object]:
        config = put(self.base, keys[0], IDS) if keys else self.base
        order: list[str] = []
        left = list(SETTERS)
        while True:
            outcome = self.run(config, hooks=left)
            if not outcome.called or outcome.called in order:
                return {"order": order, "none": outcome.error}
            order.append(outcome.called)
            left.remove(outcome.called)

    def _shifts(self, first: dict[str, object], texts: list[str]) -> list[dict[str, object]]:
        """Target model types and drafter architectures for which the ids are moved."""
        found: list[dict[str, object]] = []
        everything = {**first, "architectures": list(texts)}
        always = 0
        for model_type in ("", *texts):  # "" stands for every target: whatever is moved for it is moved for all
            add = _moved(self.run(everything, model_type=model_type)) - always
            if not add:
                continue
            some = [
                a
                for a in texts
                if _moved(self.run({**first, "architectures": [a]}, model_type=model_type)) in {add, add + always}
            ]
            found.append({"add": add, "target_model_type": model_type, "drafter_architectures": some})
            always = always or (0 if model_type else add)
        return found


def _moved(outcome: Outcome) -> int:
    if outcome.ids is None or len(outcome.ids) != len(IDS):
        return 0
    differences = {got - given for got, given in zip(outcome.ids, IDS, strict=True)}
    return differences.pop() if len(differences) == 1 else 0


def battery(explorer: Explorer, seen: dict[str, object], runs: int) -> list[dict[str, object]]:
    """Runs with configs of all shapes, the same every time: what a fit must reproduce."""
    chance = random.Random(20240607)  # noqa: S311 - the same configs in every scan
    keys = [str(key) for key in seen["keys"]]  # type: ignore[attr-defined]
    switches = [str(key) for key in seen.get("switches") or ()]  # type: ignore[attr-defined]
    required = [str(key) for key in seen["requires"]]  # type: ignore[attr-defined]
    parents = sorted({key.rpartition(".")[0] for key in [*keys, *switches] if "." in key})
    results = []
    for _ in range(runs):
        config: dict[str, object] = {**seen["context"]}  # type: ignore[dict-item]
        config["num_hidden_layers"] = chance.choice((1, 2, 3, 5, 8))
        for key in required:
            if chance.random() < 0.2:
                config = put(config, key, chance.choice((0, 4)))
        for key in keys:
            if chance.random() < 0.5:
                config = put(config, key, chance.choice(SHAPES))
        for key in switches:
            if chance.random() < 0.4:
                config = put(config, key, chance.choice((True, False, None, 0, 1)))
        for parent in parents:
            if chance.random() < 0.15:
                config[parent] = copy.deepcopy(chance.choice(PARENT_SHAPES))
        n = chance.choice((3, 4, 5, N, 61))
        results.append({"config": config, "n": n, "outcome": explorer.run(config, n=n).record()})
    return results
