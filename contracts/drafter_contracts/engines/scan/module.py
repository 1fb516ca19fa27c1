"""One file of a release as its importers see it: a module whose names are resolved when asked for."""

from __future__ import annotations

import ast
import builtins
import contextlib

from drafter_contracts.engines.scan.index import Definition, ModuleIndex, bound_names, immediate, without_annotations
from drafter_contracts.engines.scan.surroundings import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Dotted name of the scanned package, unless a scan says another; paths of the sources are below it.
PACKAGE = "sglang.srt"


def _bound_at_run_time(definitions: list[Definition]) -> set[ast.stmt]:
    """The tests for type checkers in whose `else` one of these statements stands."""
    return {
        node
        for definition in definitions
        for node, branch in definition.branches
        if branch == "orelse" and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    }


class LazyNamespace(dict):  # type: ignore[type-arg]
    """Globals of one file of the release: names appear when they are asked for."""

    def __init__(self, module: LazyModule) -> None:
        super().__init__()
        self.module = module
        index = module._index  # noqa: SLF001 - the namespace of that very module
        self.builtin = frozenset() if index.stars else frozenset(vars(builtins)).difference(index.names)

    def __missing__(self, name: str) -> object:
        if name in self.builtin:  # asked for by every use of a builtin: no search
            raise KeyError(name)
        return self.module.resolve(name)

    def get(self, name: str, default: object = None) -> object:
        """As dict's, but resolving."""
        try:
            return self[name]
        except KeyError:
            return default


class LazyModule:
    """One file of the release, as the module object that its importers see.

    Attributes (underscored, because attribute access resolves names of the file):
        _path: Path below the scanned package's folder.
        _names: The namespace, a `LazyNamespace`.
        _index: The parsed file.
    """

    def __init__(self, release: LazyRelease, path: str, dotted: str, *, package: bool) -> None:
        self._release = release
        self._path = path
        self._dotted = dotted
        self._package = package
        text = release.sources.get(path, "")
        filename = f"{release.folder}/{path}"
        self._index = ModuleIndex(text, filename)
        self._resolving: set[str] = set()
        self._pending: list[tuple[str, Definition]] = []
        self._names = LazyNamespace(self)
        dict.update(
            self._names,
            {
                "__builtins__": release.builtins,
                "__name__": dotted,
                "__package__": dotted if package else dotted.rpartition(".")[0],
                "__file__": filename,
                "__doc__": None,
                "TYPE_CHECKING": False,
            },
        )

    def __getattribute__(self, name: str) -> object:
        if name == "__dict__":  # typing and dataclasses look names up here
            return object.__getattribute__(self, "_names")
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> object:
        if name == "__path__" and self._package:
            return []
        try:
            return self._names[name]
        except KeyError:
            pass
        inside = self._release.find(f"{self._dotted}.{name}")
        if inside is not None:
            return inside
        if self._release.stubbed(f"{self._dotted}.{name}"):
            return self._release.import_module(f"{self._dotted}.{name}")
        if not name.startswith("__") and "__getattr__" in self._index.names:
            return self._names["__getattr__"](name)
        raise AttributeError(f"module '{self._dotted}' has no attribute '{name}'")

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("_release", "_path", "_dotted", "_package", "_index", "_resolving", "_pending", "_names"):
            object.__setattr__(self, name, value)
        else:
            self._names[name] = value

    def __getitem__(self, name: str) -> object:
        return self._names[name]

    def __contains__(self, name: object) -> bool:
        return name in self._index.names or dict.__contains__(self._names, name)

    def __repr__(self) -> str:
        return f"<module of the release: {self._path}>"

    def defined(self) -> tuple[str, ...]:
        """Names that the file binds, in source order."""
        return tuple(self._index.names)

    # resolution -----------------------------------------------------------------------------------------------

    def resolve(self, name: str) -> object:
        """Execute what defines `name` and return its value.

        Raises:
            KeyError: The file does not define it.
            Exception: Whatever the release's own statement raises.
        """
        if self._binds_here(name):
            value = self._release.substitute(name)
            if value is not MISSING:
                self._names[name] = value
                return value
        definitions = self._index.names.get(name)
        if definitions is None or all(d.mutates for d in definitions):
            return self._from_star(name)
        if name in self._resolving:
            raise KeyError(name)
        self._resolving.add(name)
        try:
            value = self._execute_all(name, definitions)
        finally:
            self._resolving.discard(name)
        if self._pending and not self._resolving:
            self._patch()
        return value

    def _binds_here(self, name: str) -> bool:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
        return any(isinstance(d.node, kinds) and not d.mutates for d in self._index.names.get(name, ()))

    def _execute_all(self, name: str, definitions: list[Definition]) -> object:
        """Execute what binds a name, in source order, then what changes its value in place."""
        binding = [d for d in definitions if not d.mutates]
        bound = _bound_at_run_time(binding)
        live = [d for d in binding if self._live(d, bound)]
        # A value that is changed and then bound anew (a class that becomes a record) is changed in between.
        last = max((d.node.lineno for d in live), default=0)
        between = [d for d in definitions if d.mutates and d.node.lineno < last and self._live(d)]
        failure = self._try(name, [d for d in definitions if d in live or d in between])
        if failure is not None or not live:
            dict.pop(self._names, name, None)
            for definition in reversed([d for d in binding if d not in live]):
                if self._try(name, [definition]) is None:
                    failure = None
                    break
        if failure is not None:
            raise failure
        if not dict.__contains__(self._names, name):
            raise KeyError(name)
        changes = [d for d in definitions if d.mutates and d not in between and self._live(d)]
        if any(isinstance(d.node, (ast.ClassDef, ast.FunctionDef)) for d in binding):
            self._pending += [(name, change) for change in changes]  # a class is patched after its users are defined
        elif not all(isinstance(d.node, (ast.Import, ast.ImportFrom)) for d in binding):
            for change in changes:
                self._change(name, change)
        return dict.__getitem__(self._names, name)

    def _patch(self) -> None:
        """Execute what changes classes in place, each after what stands before it and uses the class."""
        while self._pending:
            name, change = self._pending.pop(0)
            for other in self._index.users(name, change.node.lineno):
                if not dict.__contains__(self._names, other):
                    with contextlib.suppress(Exception):
                        self.resolve(other)
            self._change(name, change)

    def _try(self, name: str, definitions: list[Definition]) -> Exception | None:
        """Execute statements; the failure of the last one, if it failed."""
        failure: Exception | None = None
        for definition in definitions:
            failure = None
            try:
                self._execute(definition, name)
            except Exception as error:  # noqa: BLE001 - any failure of the release's statement
                failure = error
        return failure

    def _change(self, name: str, change: Definition) -> None:
        """Execute a statement that changes a value in place."""
        try:
            self._execute(change, name)
        except Exception as error:  # noqa: BLE001 - as above
            self._release.problems.append(f"{self._path}:{change.node.lineno}: {error!r}")

    def _live(self, definition: Definition, bound: Container[ast.stmt] = ()) -> bool:
        """Whether the branches around a statement are the ones that would be taken.

        Args:
            definition: The statement.
            bound: Tests for type checkers whose other branch defines the same name: only there is it what it is.
        """
        for node, branch in definition.branches:
            if node in bound:
                if branch != "orelse":
                    return False
            elif branch in ("body", "orelse") and isinstance(node, ast.If):
                taken = self._test(node)
                if taken != (branch == "body"):
                    return False
            elif branch == "except":
                return False
        return True

    def _test(self, node: ast.If) -> bool:
        key = f"if:{node.lineno}"
        known = self._release.decided.get((self._path, key))
        if known is None:
            text = ast.unparse(node.test)
            if "TYPE_CHECKING" in text:
                known = "not" not in text
            else:
                try:
                    known = bool(self._evaluate(node.test))
                except Exception:  # noqa: BLE001 - an undecidable test takes neither branch first
                    known = False
            self._release.decided[(self._path, key)] = known
        return known

    def _evaluate(self, expression: ast.expr) -> object:
        self._prepare(expression)
        code = compile(
            ast.Expression(expression), self._names["__file__"], "eval", self._index.flags, dont_inherit=True
        )
        return eval(code, self._names)  # noqa: S307 - inside the sandbox, this is the scanner's purpose

    def _execute(self, definition: Definition, name: str) -> None:
        node = definition.node
        self._release.used.add(self._path)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self._names[name] = self._import(node, name)
            return
        without_annotations(node)
        self._prepare(node)
        code = compile(ast.Module([node], []), self._names["__file__"], "exec", self._index.flags, dont_inherit=True)
        exec(code, self._names)  # noqa: S102 - inside the sandbox, this is the scanner's purpose
        for other in bound_names(node):  # a name that the probe has set stays set
            value = self._release.substitute(other)
            if value is not MISSING:
                self._names[other] = value

    def _prepare(self, node: ast.AST) -> None:
        """Resolve the names a statement reads at once: a class body does not ask a lazy namespace for globals."""
        for inner in immediate(node, annotations=not self._index.flags):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                wanted = inner.id
                if dict.__contains__(self._names, wanted) or wanted in self._resolving:
                    continue
                if wanted in self._index.names or wanted not in self._release.builtins:
                    try:
                        self.resolve(wanted)
                    except KeyError:
                        continue

    # imports --------------------------------------------------------------------------------------------------

    def _import(self, node: ast.Import | ast.ImportFrom, name: str) -> object:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname == name:
                    return self._release.import_module(alias.name)
                if alias.asname is None and alias.name.partition(".")[0] == name:
                    return self._release.import_module(name)
            raise KeyError(name)
        for alias in node.names:
            if (alias.asname or alias.name) == name:
                return self._release.import_from(self.absolute(node.module or "", node.level), alias.name)
        raise KeyError(name)

    def absolute(self, module: str, level: int) -> str:
        """Absolute dotted name of a relative import of this file."""
        if not level:
            return module
        parts = self._dotted.split(".") if self._package else self._dotted.split(".")[:-1]
        base = parts[: len(parts) - (level - 1)]
        return ".".join([*base, module] if module else base)

    def _from_star(self, name: str) -> object:
        if not name.startswith("_"):
            for node in reversed(self._index.stars):
                origin = self._release.import_module(self.absolute(node.module or "", node.level))
                if isinstance(origin, LazyModule):
                    try:
                        value = origin._names[name]  # noqa: SLF001 - another file of the same release
                    except KeyError:
                        continue
                    self._names[name] = value
                    return value
        raise KeyError(name)
