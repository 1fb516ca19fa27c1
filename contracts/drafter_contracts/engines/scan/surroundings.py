"""What release code finds around it: builtins without files, a few real modules, an empty environment."""

from __future__ import annotations

import builtins
import posixpath
import sys

from drafter_contracts.engines.scan.standins import Standin, StandinBase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Parts of the standard library that release code gets as they are. They compute; none opens anything.
REAL_MODULES = (
    "__future__",
    "abc",
    "argparse",
    "array",
    "ast",
    "base64",
    "bisect",
    "builtins",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "dataclasses",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "keyword",
    "math",
    "numbers",
    "operator",
    "re",
    "reprlib",
    "string",
    "struct",
    "textwrap",
    "types",
    "typing",
    "unicodedata",
    "weakref",
    "zlib",
)

_WITHHELD = ("open", "input", "breakpoint", "eval", "exec", "compile", "help", "exit", "quit", "copyright", "credits")

#: No value, where None is one.
MISSING = object()


def known_modules() -> dict[str, object]:
    """Modules with a few real answers: an empty environment, path arithmetic, no arguments."""
    system = Standin("os")
    system.environ = {}
    system.getenv = lambda _key, default=None: default
    system.sep, system.linesep, system.pathsep, system.name = "/", "\n", ":", "posix"
    system.path = path = Standin("os.path")
    for name in ("join", "basename", "dirname", "splitext", "split", "normpath", "isabs"):
        setattr(path, name, getattr(posixpath, name))
    for name in ("exists", "isfile", "isdir"):
        setattr(path, name, lambda _path: False)
    interpreter = Standin("sys")
    interpreter.argv, interpreter.modules, interpreter.platform = [], {}, "linux"
    frame = Standin("frame")
    frame.f_code.co_filename, frame.f_code.co_name = "release.py", "release"
    frame.f_globals, frame.f_lineno, frame.f_back = {}, 0, None
    interpreter.__dict__["_getframe"] = lambda _depth=0: frame
    interpreter.maxsize, interpreter.version_info = sys.maxsize, (3, 11, 0)
    # Two names differ from the real modules: their real ones would hand out a way around the namespaces.
    return {"os": system, "sys": interpreter}


def restricted_builtins(release: LazyRelease) -> dict[str, object]:
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
    table["open"] = no_file
    table["print"] = lambda *_args, **_kwargs: None
    return table


def no_file(name: object = "", *_args: object, **_kwargs: object) -> NoReturn:
    """Stands for open(): release code finds no file, whichever it asks for."""
    raise FileNotFoundError(f"open: there are no files around a scanned release: {name}")


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
