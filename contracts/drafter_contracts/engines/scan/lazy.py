"""A release whose modules are never run: a name is resolved by executing the statement that defines it, alone.

Importing an engine needs a GPU stack and runs everything. Here each file is parsed; its namespace is a mapping
that executes, when a name is asked for, only the class, function, assignment or import that defines it. Imports
between the release's own files lead to other such namespaces, harmless parts of the standard library are real,
and anything else is a stand-in (`standins`). This module runs inside the sandbox, so it needs the standard
library only.
"""

from __future__ import annotations

import __future__
import ast
import builtins
import contextlib
import importlib
import sys
from types import FunctionType

from drafter_contracts.engines.scan.standins import Module, ModuleDict, ModuleList, Standin, StandinBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: Dotted name of the scanned package; paths of the sources are below it.
PACKAGE = "sglang.srt"

#: Parts of the standard library that release code gets as they are. They compute; none opens anything.
REAL_MODULES = (
    "__future__ abc argparse array ast base64 bisect builtins collections collections.abc contextlib copy "
    "dataclasses decimal enum fractions functools hashlib heapq itertools json keyword math numbers operator "
    "re reprlib string struct textwrap types typing unicodedata weakref zlib"
).split()

_WITHHELD = ("open", "input", "breakpoint", "eval", "exec", "compile", "help", "exit", "quit", "copyright", "credits")
#: No value, where None is one.
MISSING = object()
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
        for node in ast.walk(self.tree):  # a function's annotations decide nothing and import much
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                node.returns = None
            elif isinstance(node, ast.arg):
                node.annotation = None
        self._walk(self.tree.body, ())

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
        for name in _bound_names(node):
            self.names.setdefault(name, []).append(Definition(node, branches))
        for name in _mutated_names(node):
            self.names.setdefault(name, []).append(Definition(node, branches, mutates=True))

    def readers(self, name: str, line: int) -> list[tuple[str, Definition]]:
        """Names whose defining statement stands before a line and reads `name` when executed."""
        return [
            (other, definition)
            for other, definitions in self.names.items()
            for definition in definitions
            if definition.node.lineno < line
            and not definition.mutates
            and other != name
            and any(isinstance(n, ast.Name) and n.id == name for n in _immediate(definition.node))
        ]


def _bound_names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Import):
        return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With, ast.While, ast.Expr)):
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return []
        found = [n.id for n in _immediate(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return list(dict.fromkeys(found))
    return []


def _mutated_names(node: ast.stmt) -> list[str]:
    """Names whose value a statement changes in place: `NAME[k] = v`, `NAME.attr = v`, `NAME.append(v)`."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = [t for t in node.targets if isinstance(t, (ast.Subscript, ast.Attribute))]
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Subscript, ast.Attribute)):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if isinstance(node.value.func, ast.Attribute):
            targets = [node.value.func]
    names = []
    for target in targets:
        root: ast.expr = target
        while isinstance(root, (ast.Subscript, ast.Attribute)):
            root = root.value
        if isinstance(root, ast.Name):
            names.append(root.id)
    return names


def _immediate(node: ast.AST, *, annotations: bool = True) -> Iterator[ast.AST]:
    """Nodes that are evaluated when a statement is executed: everything but bodies of functions.

    Args:
        node: The statement.
        annotations: Whether annotations are evaluated too (they are not under `from __future__ import annotations`).
    """
    yield node
    for field, value in ast.iter_fields(node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and field == "body":
            continue
        if field in ("annotation", "returns") and not annotations:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _immediate(child, annotations=annotations)


class LazyNamespace(dict):  # type: ignore[type-arg]
    """Globals of one file of the release: names appear when they are asked for."""

    def __init__(self, module: LazyModule) -> None:
        super().__init__()
        self.module = module

    def __missing__(self, name: str) -> object:
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
        _path: Path below `sglang/srt`.
        _names: The namespace, a `LazyNamespace`.
        _index: The parsed file.
    """

    def __init__(self, release: LazyRelease, path: str, dotted: str, *, package: bool) -> None:
        self._release = release
        self._path = path
        self._dotted = dotted
        self._package = package
        text = release.sources.get(path, "")
        self._index = ModuleIndex(text, f"{PACKAGE.replace('.', '/')}/{path}")
        self._resolving: set[str] = set()
        self._names = LazyNamespace(self)
        dict.update(
            self._names,
            {
                "__builtins__": release.builtins,
                "__name__": dotted,
                "__package__": dotted if package else dotted.rpartition(".")[0],
                "__file__": f"{PACKAGE.replace('.', '/')}/{path}",
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
        if name in ("_release", "_path", "_dotted", "_package", "_index", "_resolving", "_names"):
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
            return self._execute_all(name, definitions)
        finally:
            self._resolving.discard(name)

    def _binds_here(self, name: str) -> bool:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
        return any(isinstance(d.node, kinds) and not d.mutates for d in self._index.names.get(name, ()))

    def _execute_all(self, name: str, definitions: list[Definition]) -> object:
        """Execute what binds a name, in source order, then what changes its value in place."""
        binding = [d for d in definitions if not d.mutates]
        live = [d for d in binding if self._live(d)]
        failure = self._try(name, live)
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
        if not all(isinstance(d.node, (ast.Import, ast.ImportFrom)) for d in binding):
            for change in definitions:
                if change.mutates and self._live(change):
                    self._change(name, change)
        return dict.__getitem__(self._names, name)

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
        """Execute a statement that changes a value in place: after all that stands before it and reads the value."""
        for other, earlier in self._index.readers(name, change.node.lineno):
            if not dict.__contains__(self._names, other) and other not in self._resolving and self._live(earlier):
                with contextlib.suppress(Exception):
                    self.resolve(other)
        try:
            self._execute(change, name)
        except Exception as error:  # noqa: BLE001 - as above
            self._release.problems.append(f"{self._path}:{change.node.lineno}: {error!r}")

    def _live(self, definition: Definition) -> bool:
        """Whether the branches around a statement are the ones that would be taken."""
        for node, branch in definition.branches:
            if branch in ("body", "orelse") and isinstance(node, ast.If):
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
        self._prepare(node)
        code = compile(ast.Module([node], []), self._names["__file__"], "exec", self._index.flags, dont_inherit=True)
        exec(code, self._names)  # noqa: S102 - inside the sandbox, this is the scanner's purpose
        for other in _bound_names(node):  # a name that the probe has set stays set
            value = self._release.substitute(other)
            if value is not MISSING:
                self._names[other] = value

    def _prepare(self, node: ast.AST) -> None:
        """Resolve the names a statement reads at once: a class body does not ask a lazy namespace for globals."""
        for inner in _immediate(node, annotations=not self._index.flags):
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
                        value = origin._names[name]
                    except KeyError:
                        continue
                    self._names[name] = value
                    return value
        raise KeyError(name)


class LazyRelease:
    """All files of a release, resolved lazily.

    Args:
        sources: Path below `sglang/srt` to text. Files that are missing here are missing for the release too.

    Attributes:
        used: Paths of the files of which a statement was executed.
        problems: Statements that changed a value in place and failed.
        by_name: Objects that replace whatever the release defines under a name (see `replace`).
        rule: Asked for a replacement of names that are not in `by_name`; answers `MISSING` for none.
        decided: Module-level `if` tests and how they came out.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = dict(sources)
        self.used: set[str] = set()
        self.problems: list[str] = []
        self.by_name: dict[str, object] = {}
        self.rule: Callable[[str], object] | None = None
        self.decided: dict[tuple[str, str], bool] = {}
        self._modules: dict[str, LazyModule] = {}
        self._foreign: dict[str, object] = {}
        self._stubbed: tuple[str, ...] = ()
        self._folders = {PACKAGE}
        for path in self.sources:
            parts = path.split("/")[:-1]
            self._folders.update(".".join([PACKAGE, *parts[: i + 1]]) for i in range(len(parts)))
        self.builtins = _restricted_builtins(self)
        self._foreign.update(_known_modules())
        torch = self.import_module("torch")
        torch.nn.Module = Module  # type: ignore[attr-defined]
        torch.nn.ModuleList = torch.nn.Sequential = ModuleList  # type: ignore[attr-defined]
        torch.nn.ModuleDict = ModuleDict  # type: ignore[attr-defined]

    # what a probe uses ----------------------------------------------------------------------------------------

    def module(self, path: str) -> LazyModule:
        """The module of a file: `release.module("models/llama.py").LlamaForCausalLM`.

        Raises:
            KeyError: No such file in this release.
        """
        dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        found = self.find(f"{PACKAGE}.{dotted}" if dotted != "__init__" else PACKAGE)
        if found is None:
            raise KeyError(path)
        return found

    def replace(self, name: str, value: object) -> None:
        """Use `value` wherever a file of the release defines `name` by def, class or assignment.

        Takes effect for names that are not resolved yet: call it before anything is looked up.
        """
        self.by_name[name] = value

    def substitute(self, name: str) -> object:
        """What replaces the release's own definition of `name`, or MISSING."""
        if name in self.by_name:
            return self.by_name[name]
        return self.rule(name) if self.rule is not None else MISSING

    def stub(self, *prefixes: str) -> None:
        """Treat the release's own files below these paths ("layers/quantization/") as foreign: stand-ins."""
        dotted = (PACKAGE + "." + p.removesuffix(".py").rstrip("/").replace("/", ".") for p in prefixes)
        self._stubbed += tuple(dotted)

    def foreign(self, dotted: str, value: object) -> None:
        """Put `value` at a dotted name outside the release, e.g. "torch.Tensor"."""
        module, _, name = dotted.rpartition(".")
        if not module:
            self._foreign[name] = value
            return
        parts = module.split(".")
        holder = self.import_module(parts[0])
        for part in parts[1:]:
            holder = getattr(holder, part)
        setattr(holder, name, value)

    def place(self, function: object) -> dict[str, object]:
        """Where a function or class of the release is defined: {"file", "function", "line"}, or {} if elsewhere."""
        inner = getattr(function, "__func__", function)
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        code = getattr(inner, "__code__", None)
        if not isinstance(inner, FunctionType) or code is None:
            return {}
        prefix = PACKAGE.replace(".", "/") + "/"
        if not code.co_filename.startswith(prefix):
            return {}
        path = code.co_filename.removeprefix(prefix)
        line = code.co_firstlineno
        for node in ast.walk(self.module(path)._index.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if first == code.co_firstlineno and node.name == code.co_name:
                    line = node.lineno
        return {"file": path, "function": code.co_qualname, "line": line}

    def close(self) -> None:
        """Take the release's modules out of `sys.modules` (only needed outside the sandbox, in tests)."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]

    # imports --------------------------------------------------------------------------------------------------

    def find(self, dotted: str) -> LazyModule | None:
        """The release's own module of this dotted name, or None."""
        if dotted in self._modules:
            return self._modules[dotted]
        if dotted != PACKAGE and not dotted.startswith(PACKAGE + "."):
            return None
        if self.stubbed(dotted):
            return None
        base = dotted.removeprefix(PACKAGE).lstrip(".").replace(".", "/")
        package = f"{base}/__init__.py" if base else "__init__.py"
        if package in self.sources or dotted in self._folders:
            made = LazyModule(self, package, dotted, package=True)
        elif f"{base}.py" in self.sources:
            made = LazyModule(self, f"{base}.py", dotted, package=False)
        else:
            return None
        self._modules[dotted] = made
        sys.modules[dotted] = made  # type: ignore[assignment]
        return made

    def import_module(self, dotted: str) -> object:
        """What `import a.b.c as x` binds.

        Raises:
            ModuleNotFoundError: A module of the release's own package that the release does not have.
        """
        found = self.find(dotted)
        if found is not None:
            return found
        root, _, rest = dotted.partition(".")
        if dotted in self._foreign:
            return self._foreign[dotted]
        if dotted in REAL_MODULES:
            return importlib.import_module(dotted)
        if dotted.startswith(PACKAGE + ".") and not self.stubbed(dotted):
            raise ModuleNotFoundError(f"No module named '{dotted}'", name=dotted)
        value = self._foreign.get(root)
        if value is None:
            value = self._foreign[root] = Standin(root)
            if root == PACKAGE.partition(".")[0]:
                value.srt = self.find(PACKAGE)
        for part in rest.split(".") if rest else ():
            value = getattr(value, part)
        return value

    def stubbed(self, dotted: str) -> bool:
        """Whether a module of the release is treated as foreign (see `stub`)."""
        return any(dotted == p or dotted.startswith(p + ".") for p in self._stubbed)

    def import_from(self, dotted: str, name: str) -> object:
        """What `from dotted import name` binds.

        Raises:
            ImportError: The release's own module exists and has no such name.
        """
        origin = self.import_module(dotted)
        try:
            return getattr(origin, name)
        except AttributeError:
            raise ImportError(f"cannot import name '{name}' from '{dotted}'") from None


def _known_modules() -> dict[str, object]:
    """Modules with a few real answers: an empty environment, path arithmetic, no arguments."""
    import posixpath

    system = Standin("os")
    system.environ = {}
    system.getenv = lambda key, default=None: default
    system.sep, system.linesep, system.pathsep, system.name = "/", "\n", ":", "posix"
    system.path = path = Standin("os.path")
    for name in ("join", "basename", "dirname", "splitext", "split", "normpath", "isabs"):
        setattr(path, name, getattr(posixpath, name))
    for name in ("exists", "isfile", "isdir"):
        setattr(path, name, lambda _path: False)
    interpreter = Standin("sys")
    interpreter.argv, interpreter.modules, interpreter.platform = [], {}, "linux"
    frame = Standin("frame")
    frame.f_code.co_filename, frame.f_code.co_name = "release.py", "release"  # type: ignore[attr-defined]
    frame.f_globals, frame.f_lineno, frame.f_back = {}, 0, None
    interpreter._getframe = lambda _depth=0: frame
    interpreter.maxsize, interpreter.version_info = sys.maxsize, (3, 11, 0)
    # Two names differ from the real modules: their real ones would hand out a way around the namespaces.
    return {"os": system, "sys": interpreter}


def _restricted_builtins(release: LazyRelease) -> dict[str, object]:
    """The builtins of release code: no files, no code from text, imports through the release."""
    table = {name: value for name, value in vars(builtins).items() if name not in _WITHHELD}

    def import_(
        name: str, globals_: object = None, _locals: object = None, fromlist: object = (), level: int = 0
    ) -> object:
        if level:
            home = str(globals_["__name__"])  # type: ignore[index]
            module = release.find(home)
            name = module.absolute(name, level) if module is not None else name
        if fromlist:
            return release.import_module(name)
        release.import_module(name)
        return release.import_module(name.partition(".")[0])

    def getattr_(value: object, name: str, default: object = MISSING) -> object:
        """An attribute that only a stand-in would make up does not exist where a default is given."""
        if default is MISSING:
            return getattr(value, name)
        if isinstance(value, Standin):
            return getattr(value, name) if _stands_for(value, name) else default
        if isinstance(value, StandinBase) and not _has(value, name):
            return default
        return getattr(value, name, default)

    def hasattr_(value: object, name: str) -> bool:
        if isinstance(value, Standin):
            return _stands_for(value, name)
        if isinstance(value, StandinBase):
            return _has(value, name)
        return hasattr(value, name)

    table["__import__"] = import_
    table["getattr"] = getattr_
    table["hasattr"] = hasattr_
    table["print"] = lambda *_args, **_kwargs: None
    return table


def _stands_for(value: Standin, name: str) -> bool:
    """Whether a stand-in was given this attribute, or its class has it: not one that it made up when asked."""
    known = value.__dict__.get(name, MISSING)
    if known is MISSING:
        return hasattr(type(value), name)
    return not (isinstance(known, Standin) and known.__dict__.get("_made_up", False))


def _has(value: object, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True
