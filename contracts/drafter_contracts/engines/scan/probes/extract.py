"""Statements of the release, found by what they mention and executed alone.

Old releases read a drafter's config in the middle of a constructor of several hundred lines. What is executed
there is the outermost statement of the method's body that mentions what is looked for, wrapped in a function
whose parameters are the local names it needs. The statement is the release's own, unchanged.
"""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drafter_contracts.engines.scan.lazy import LazyModule, LazyRelease

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Site:
    """A statement in the body of a function.

    Attributes:
        path: File below `sglang/srt`.
        owner: Name of the class that the function is a method of, or "".
        function: The function's definition.
        statement: The statement of its body.
    """

    __slots__ = ("function", "owner", "path", "statement")

    def __init__(self, path: str, owner: str, function: Function, statement: ast.stmt) -> None:
        self.path = path
        self.owner = owner
        self.function = function
        self.statement = statement

    @property
    def name(self) -> str:
        """The function's qualified name: "ModelRunner.initialize"."""
        return f"{self.owner}.{self.function.name}" if self.owner else self.function.name

    def source(self, node: ast.AST | None = None) -> dict[str, object]:
        """Where this is: {"file", "function", "line"}."""
        line = getattr(node or self.statement, "lineno", 0)
        return {"file": self.path, "function": self.name, "line": line}


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Functions of a file and methods of its classes, with the class's name ("" for functions)."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield "", node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield node.name, inner


def sites(path: str, tree: ast.Module, wanted: Callable[[ast.AST], bool]) -> list[Site]:
    """Statements of function bodies that contain a node that is `wanted`, in source order."""
    return [
        Site(path, owner, function, statement)
        for owner, function in functions(tree)
        for statement in function.body
        if any(wanted(node) for node in ast.walk(statement))
    ]


def called_name(node: ast.AST) -> str:
    """Last name of what a call calls ("set_embed" for `a.b.set_embed(x)`), or ""."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def calls(name: str) -> Callable[[ast.AST], bool]:
    """A test for nodes that call something of this name."""
    return lambda node: called_name(node) == name


def constant(text: str) -> Callable[[ast.AST], bool]:
    """A test for nodes that are this text."""
    return lambda node: isinstance(node, ast.Constant) and node.value == text


def local_names(site: Site) -> list[str]:
    """Local names of the enclosing function that the statement reads before it binds them itself."""
    arguments = site.function.args
    local = {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}
    for statement in site.function.body:
        if statement is site.statement:
            break
        local |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for node in ast.walk(statement):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                local.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                local |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    read = {n.id for n in ast.walk(site.statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return sorted(local & read)


def compile_site(release: LazyRelease, site: Site) -> tuple[Callable[..., object], list[str]]:
    """The statement as a function, and the names of its parameters.

    The function returns its local names as a dictionary.
    """
    module = release.module(site.path)
    names = local_names(site)
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    leave = ast.parse("return locals()").body[0]
    function = ast.FunctionDef("extracted", arguments, [site.statement, leave], [])
    code = ast.fix_missing_locations(ast.Module([function], []))
    return _define(release, module, code), names


def _define(release: LazyRelease, module: LazyModule, tree: ast.Module) -> Callable[..., object]:
    names = module._names  # noqa: SLF001 - a lazy module's attributes are the release's names
    release.used.add(module._path)  # noqa: SLF001 - as above
    flags = module._index.flags  # noqa: SLF001 - as above
    made: dict[str, Callable[..., object]] = {}
    exec(compile(tree, names["__file__"], "exec", flags, dont_inherit=True), names, made)  # noqa: S102 - in the sandbox
    return made["extracted"]
