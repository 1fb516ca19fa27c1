"""Probe: the order in which the model runner sets layers and records its graphs.

Run inside the sandbox, because reading a stranger's source costs what the stranger wants, but nothing is executed:
the calls are followed by name through the release's own files, from the model runner's constructor (and, where graphs
are recorded later, from the worker's functions that do both), and three kinds of events are noted in their order: the
setter called with ids, the setter called without, and graphs being recorded.
"""

from __future__ import annotations

import ast

from drafter_contracts.engines.scan.probes.extract import called_name, functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.engines.scan.lazy import LazyRelease
    from drafter_contracts.engines.scan.probes.extract import Function

RUNNER = ("model_executor/model_runner.py", "ModelRunner", "__init__")
WORKERS = ("managers/tp_worker.py", "managers/scheduler.py")
WITH_IDS, WITHOUT, RECORD = "with ids", "without ids", "record"


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Follow the calls for each method.

    Args:
        release: The release.
        payload: "setters": method to the names of its setters.

    Returns:
        "methods": method to {"events": [[kind, source], ...], "looked_into": files}; "flags": launch flags whose
        attribute keeps the model runner from recording, sorted; "guard": the file that says so, or "".
    """
    methods = {}
    for method, setters in payload["setters"].items():  # type: ignore[attr-defined]
        order = CallOrder(release, tuple(setters))
        events = order.of_constructor()
        kinds = {event.kind for event in events}
        if RECORD not in kinds or not kinds & {WITH_IDS, WITHOUT}:
            events = order.of_workers()
        said = [[event.kind, event.source] for event in events]
        methods[method] = {"events": said, "looked_into": sorted(order.files)}
    flags = sorted(set(_guards(release)))
    return {"methods": methods, "flags": flags, "guard": RUNNER[0] if flags else ""}


class Event:
    """One event.

    Attributes:
        kind: `WITH_IDS`, `WITHOUT` or `RECORD`.
        source: The call, as {"file", "function", "line"}.
    """

    __slots__ = ("kind", "source")

    def __init__(self, kind: str, source: dict[str, object]) -> None:
        self.kind = kind
        self.source = source


class CallOrder:
    """Follows calls by name through a release's model runner and workers.

    Args:
        release: The release.
        setters: Names of the setters of one method.

    Attributes:
        files: Files that were looked into.
    """

    def __init__(self, release: LazyRelease, setters: tuple[str, ...]) -> None:
        self._setters = setters
        self.files: set[str] = set()
        self._events: dict[int, list[Event]] = {}
        self._defined: dict[str, list[tuple[str, str, Function]]] = {}
        self._makers: dict[str, list[tuple[str, str, Function]]] = {}
        for path, text in sorted(release.sources.items()):
            if path.startswith("model_executor/") or path in WORKERS:
                for owner, function in functions(ast.parse(text, path)):
                    name = owner if function.name == "__init__" else function.name
                    self._defined.setdefault(name, []).append((path, owner, function))
                    if any(_names_recorder(node) for node in ast.walk(function)):
                        self._makers.setdefault(name, []).append((path, owner, function))

    def of_constructor(self) -> list[Event]:
        """Events of the model runner's constructor."""
        path, owner, _ = RUNNER
        for found in self._defined.get(owner, ()):
            if found[0] == path:
                return self._of(*found)
        return []

    def of_workers(self) -> list[Event]:
        """Events of the first function of a worker (or of the scheduler) that both sets layers and records."""
        for path in reversed(WORKERS):
            for places in self._defined.values():
                for place in places:
                    if place[0] == path:
                        events = self._of(*place)
                        kinds = {event.kind for event in events}
                        if RECORD in kinds and kinds & {WITH_IDS, WITHOUT}:
                            return events
        return []

    def _of(self, path: str, owner: str, function: Function) -> list[Event]:
        """Events of one function, calls followed; a function that calls itself adds nothing the second time."""
        if id(function) not in self._events:
            self._events[id(function)] = []
            self._events[id(function)] = list(self._inside(path, owner, function))
        return self._events[id(function)]

    def _inside(self, path: str, owner: str, function: Function) -> Iterator[Event]:
        for node in _in_order(function):
            name = called_name(node)
            if name in self._setters and isinstance(node, ast.Call):
                self.files.add(path)
                yield Event(WITH_IDS if node.args or node.keywords else WITHOUT, _place(path, owner, function, node))
            elif _names_recorder(node):
                for place in self._defined.get(node.id, ()):  # type: ignore[attr-defined]
                    yield from self._of(*place)
                self.files.add(path)
                yield Event(RECORD, _place(path, owner, function, node))
            elif isinstance(node, ast.Attribute):  # handed to what calls it: defaultdict(runner.graph_runner_class)
                for place in self._makers.get(node.attr, ()):
                    yield from self._of(*place)
            elif name and not name.endswith("GraphRunner"):
                for place in self._targets(path, owner, node, name):
                    yield from self._of(*place)

    def _targets(self, path: str, owner: str, node: ast.AST, name: str) -> list[tuple[str, str, Function]]:
        """Definitions that a call by this name may reach: of the same class if it is called on self."""
        places = self._defined.get(name, [])
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
            own = [place for place in places if place[0] == path and place[1] == owner]
            return own or places
        return places if len(places) < 4 else []


def _place(path: str, owner: str, function: Function, node: ast.AST) -> dict[str, object]:
    name = f"{owner}.{function.name}" if owner else function.name
    return {"file": path, "function": name, "line": getattr(node, "lineno", 0)}


def _names_recorder(node: ast.AST) -> bool:
    """Whether a node names the class that records the graphs of decode and verify steps of a GPU."""
    return (
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id in ("CudaGraphRunner", "DecodeCudaGraphRunner")
    )


def _in_order(function: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a function in the order of the source, without its annotations and defaults."""
    nodes = [node for statement in getattr(function, "body", ()) for node in ast.walk(statement)]
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    located = [n for n in nodes if isinstance(n, (ast.Call, ast.Name, ast.Attribute)) and id(n) not in called]
    return iter(sorted(located, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0)))


def _guards(release: LazyRelease) -> list[str]:
    """Launch flags whose attribute keeps the model runner from recording graphs."""
    path, owner, _ = RUNNER
    found = []
    for name, function in functions(ast.parse(release.sources.get(path, ""), path)):
        if name != owner or not any(_names_recorder(node) for node in ast.walk(function)):
            continue
        for statement in function.body:
            if isinstance(statement, ast.If) and any(isinstance(s, ast.Return) for s in statement.body):
                tested = [node.attr for node in ast.walk(statement.test) if isinstance(node, ast.Attribute)]
                found += ["--" + n.replace("_", "-") for n in tested if "cuda_graph" in n and "disable" in n]
    return found
