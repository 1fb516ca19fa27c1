"""Which statement of a file binds which name, without executing anything.

Branches of module-level `if` and `try` are kept with each statement, so that the one that would be taken can be
chosen when the name is asked for. Annotations of functions are passed over: they decide nothing and import much.
"""

from __future__ import annotations
import __future__

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FUTURE_ANNOTATIONS = __future__.annotations.compiler_flag


class Definition:
    """One statement that binds a name, and the branches that must be taken to reach it."""

    __slots__ = ("branches", "mutates", "node")

    def __init__(self, node: ast.stmt, branches: tuple[tuple[ast.stmt, str], ...], *, mutates: bool = False) -> None:
        self.node = node
        self.branches = branches
        self.mutates = mutates


class ModuleIndex:
    """Which statement of a file binds which name."""

    def __init__(self, text: str, filename: str) -> None:
        self.tree = ast.parse(text, filename)
        self.names: dict[str, list[Definition]] = {}
        self.stars: list[ast.ImportFrom] = []
        self.flags = 0
        self._functions: dict[tuple[int, str], int] = {}
        self._first_lines: list[int] = []
        self._walk(self.tree.body, ())
        self._registrations()

    def _walk(self, body: list[ast.stmt], branches: tuple[tuple[ast.stmt, str], ...]) -> None:
        for node in body:
            if isinstance(node, ast.If):
                self._walk(node.body, (*branches, (node, "body")))
                self._walk(node.orelse, (*branches, (node, "orelse")))
            elif isinstance(node, ast.Try):
                self._walk(node.body, (*branches, (node, "try")))
                for handler in node.handlers:
                    self._walk(handler.body, (*branches, (node, "except")))
                self._walk(node.orelse, (*branches, (node, "try")))
                self._walk(node.finalbody, branches)
            else:
                self._leaf(node, branches)

    def _leaf(self, node: ast.stmt, branches: tuple[tuple[ast.stmt, str], ...]) -> None:
        if isinstance(node, ast.ImportFrom):
            if node.module == "__future__" and any(alias.name == "annotations" for alias in node.names):
                self.flags |= _FUTURE_ANNOTATIONS
            if any(alias.name == "*" for alias in node.names):
                self.stars.append(node)
                return
        for name in bound_names(node):
            self.names.setdefault(name, []).append(Definition(node, branches))
        for name in mutated_names(node):
            self.names.setdefault(name, []).append(Definition(node, branches, mutates=True))

    def _registrations(self) -> None:
        """Bare calls of the file's own functions change the classes of the file whose methods those functions call."""
        classes = {node.name for node in self.tree.body if isinstance(node, ast.ClassDef)}
        functions = {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}
        for node in self.tree.body:
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in functions:
                for name in sorted(classes & set(_method_owners(functions[call.func.id]))):
                    self.names[name].append(Definition(node, (), mutates=True))

    def def_line(self, first: int, name: str) -> int:
        """Line of a function's `def`, where its code object names the line of its first decorator."""
        if not self._functions:
            for node in ast.walk(self.tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    begin = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                    self._functions[begin, node.name] = node.lineno
        return self._functions.get((first, name), first)

    def statement_line(self, line: int) -> int:
        """First line of the innermost statement that a line belongs to, or the line itself outside all statements."""
        if not self._first_lines:
            found = sorted((n.lineno, n.end_lineno or n.lineno) for n in ast.walk(self.tree) if isinstance(n, ast.stmt))
            self._first_lines = list(range(max((end for _, end in found), default=0) + 1))
            for first, end in found:
                self._first_lines[first : end + 1] = [first] * (end + 1 - first)
        return self._first_lines[line] if line < len(self._first_lines) else line

    def users(self, name: str, line: int) -> list[str]:
        """Names whose defining statement stands before a line and reads `name` when executed, directly or not."""
        before = {
            other: {n.id for d in definitions for n in immediate(d.node) if isinstance(n, ast.Name)}
            for other, definitions in self.names.items()
            if any(d.node.lineno < line and not d.mutates for d in definitions)
        }
        found, grew = {name}, True
        while grew:
            more = {other for other, reads in before.items() if reads & found} - found
            found |= more
            grew = bool(more)
        return [other for other in before if other in found and other != name]


def bound_names(node: ast.stmt) -> list[str]:
    """Names that a statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With, ast.While, ast.Expr)):
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return []
        found = [n.id for n in immediate(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return list(dict.fromkeys(found))
    return []


def mutated_names(node: ast.stmt) -> list[str]:
    """Names whose value a statement changes in place: `NAME[k] = v`, `NAME.attr = v`, `NAME.append(v)`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = [t for t in node.targets if isinstance(t, (ast.Subscript, ast.Attribute))]
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Subscript, ast.Attribute)):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        targets = [node.value.func]
    names = []
    for target in targets:
        root: ast.expr = target
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        if isinstance(root, ast.Name):
            names.append(root.id)
    return names


def _method_owners(function: ast.FunctionDef) -> Iterator[str]:
    """Names whose methods a function calls: `NAME.method(...)`."""
    for node in ast.walk(function):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            yield called.value.id


def without_annotations(node: ast.AST) -> None:
    """Take the annotations of functions out of a statement: they decide nothing and import much."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner.returns = None
        elif isinstance(inner, ast.arg):
            inner.annotation = None


def immediate(node: ast.AST, *, annotations: bool = True) -> Iterator[ast.AST]:
    """Nodes that are evaluated when a statement is executed: everything but bodies of functions.

    Args:
        node: The statement.
        annotations: Whether annotations are evaluated too (they are not under `from __future__ import annotations`).
    """
    yield node
    function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for field, value in ast.iter_fields(node):
        if function and field in ("body", "returns"):
            continue
        if field == "annotation" and (not annotations or isinstance(node, ast.arg)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from immediate(child, annotations=annotations)
