"""Import msgspec without what it would import and never use here: a sixth of the gate's time.

Measured on Python 3.11: typing_extensions (with `inspect`) costs 12 ms, `platform` and `textwrap` 2 ms together, beside
13 ms for a bare interpreter.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType


class _Deferred(ModuleType):
    """Stands for a module until an attribute of it is asked for."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        from importlib import import_module

        return getattr(import_module(self.__name__), name)


class _Platform(_Deferred):
    """`uuid`, which msgspec imports, asks `platform` for one word when it is imported."""

    @staticmethod
    def system() -> str:
        """As `platform.system()` on every POSIX system."""
        return os.uname().sysname


def import_msgspec() -> None:
    """Import msgspec; afterwards `sys.modules` holds no stand-in.

    msgspec takes `get_type_hints` and two names from typing_extensions where it finds it, and from typing, where they
    are the same from Python 3.11 on, where it does not.
    """
    if "msgspec" in sys.modules or not hasattr(os, "uname"):
        return
    wanted: dict[str, ModuleType | None] = {  # None: not to be found
        "typing_extensions": None,
        "platform": _Platform("platform"),
        "textwrap": _Deferred("textwrap"),
    }
    absent = {name: stand_in for name, stand_in in wanted.items() if name not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]
    try:
        import msgspec  # noqa: F401
    finally:
        for name in absent:
            del sys.modules[name]
