"""A release whose modules are never run: a name is resolved by executing the statement that defines it, alone.

Importing an engine needs a GPU stack and runs everything. Here each file is parsed; its namespace is a mapping
that executes, when a name is asked for, only the class, function, assignment or import that defines it. Imports
between the release's own files lead to other such namespaces, harmless parts of the standard library are real,
and anything else is a stand-in (`standins`). This module runs inside the sandbox, so it needs the standard
library only.
"""

from __future__ import annotations

import importlib
import sys
from types import CodeType, FunctionType

from drafter_contracts.engines.scan.module import PACKAGE, LazyModule
from drafter_contracts.engines.scan.standins import Module, ModuleDict, ModuleList, Standin
from drafter_contracts.engines.scan.surroundings import MISSING, REAL_MODULES, known_modules, restricted_builtins

__all__ = ["MISSING", "PACKAGE", "REAL_MODULES", "LazyModule", "LazyRelease"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class LazyRelease:
    """All files of a release, resolved lazily.

    Args:
        sources: Path below the package's folder to text. Files that are missing here are missing for the release too.
        package: The scanned package, dotted.

    Attributes:
        package, folder: The scanned package, dotted and as a path.
        used: Paths of the files of which a statement was executed.
        problems: Statements that changed a value in place and failed.
        by_name: Objects that replace whatever the release defines under a name (see `replace`).
        rule: Asked for a replacement of names that are not in `by_name`; answers `MISSING` for none.
        decided: Module-level `if` tests and how they came out.
    """

    def __init__(self, sources: Mapping[str, str], package: str = PACKAGE) -> None:
        self.sources = dict(sources)
        self.package = package
        self.folder = package.replace(".", "/")
        self.used: set[str] = set()
        self.problems: list[str] = []
        self.by_name: dict[str, object] = {}
        self.rule: Callable[[str], object] | None = None
        self.decided: dict[tuple[str, str], bool] = {}
        self._modules: dict[str, LazyModule] = {}
        self._foreign: dict[str, object] = {}
        self._stubbed: tuple[str, ...] = ()
        self._folders = {package}
        for path in self.sources:
            parts = path.split("/")[:-1]
            self._folders.update(".".join([package, *parts[: i + 1]]) for i in range(len(parts)))
        self.builtins = restricted_builtins(self)
        self._foreign.update(known_modules())
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
        found = self.find(f"{self.package}.{dotted}" if dotted != "__init__" else self.package)
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
        dotted = (self.package + "." + p.removesuffix(".py").rstrip("/").replace("/", ".") for p in prefixes)
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
        """Where a function of the release (or its code) is defined: {"file", "function", "line"}; {} if elsewhere."""
        inner = getattr(function, "__func__", function)
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        code = inner if isinstance(inner, CodeType) else getattr(inner, "__code__", None)
        if not isinstance(code, CodeType) or not isinstance(inner, (CodeType, FunctionType)):
            return {}
        prefix = self.folder + "/"
        if not code.co_filename.startswith(prefix):
            return {}
        path = code.co_filename.removeprefix(prefix)
        index = self.module(path)._index  # noqa: SLF001 - underscored for the release, not for us
        line = index.def_line(code.co_firstlineno, code.co_name)
        return {"file": path, "function": code.co_qualname, "line": line}

    def close(self) -> None:
        """Take the release's modules out of `sys.modules` (only needed outside the sandbox, in tests)."""
        for name, module in self._modules.items():
            if sys.modules.get(name) is module:  # type: ignore[comparison-overlap]
                del sys.modules[name]

    # imports --------------------------------------------------------------------------------------------------

    def find(self, dotted: str) -> LazyModule | None:
        """The release's own module of this dotted name, or None."""
        if dotted in self._modules:
            return self._modules[dotted]
        if dotted != self.package and not dotted.startswith(self.package + "."):
            return None
        if self.stubbed(dotted):
            return None
        base = dotted.removeprefix(self.package).lstrip(".").replace(".", "/")
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
        if self.stubbed(dotted) and dotted not in self._foreign:
            self._foreign[dotted] = Standin(dotted)
        if dotted in self._foreign:
            return self._foreign[dotted]
        if dotted in REAL_MODULES:
            return importlib.import_module(dotted)
        if dotted.startswith(self.package + "."):
            raise ModuleNotFoundError(f"No module named '{dotted}'", name=dotted)
        value = self._foreign.get(root)
        if value is None:
            value = self._foreign[root] = Standin(root)
            outer, _, inner = self.package.partition(".")
            if root == outer and inner:
                setattr(value, inner, self.find(self.package))
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
