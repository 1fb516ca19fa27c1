"""A release made ready for running its launch code: the libraries that this code computes with."""

from __future__ import annotations

import argparse
import json

from drafter_contracts.engines.scan.lazy import LazyRelease
from drafter_contracts.engines.scan.probes import structs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def _refuse_constant(text: str) -> None:
    raise ValueError(text)


def strict_json(text: str) -> object:
    """JSON without NaN and Infinity, as orjson reads it."""
    return json.loads(text, parse_constant=_refuse_constant)


def quieten() -> None:
    """Keep argparse from asking the terminal for its width and files for translations."""
    argparse._ = lambda text: text  # type: ignore[attr-defined]
    defaults = list(argparse.HelpFormatter.__init__.__defaults__ or ())
    argparse.HelpFormatter.__init__.__defaults__ = (*defaults[:-1], 80)


def prepare(release: LazyRelease) -> LazyRelease:
    """Put those libraries in place."""
    structs.install(release)
    release.foreign("orjson.loads", strict_json)
    release.foreign("orjson.JSONDecodeError", json.JSONDecodeError)
    return release


def file(release: LazyRelease, path: str) -> Any:
    """The module of one of the release's files, its names as attributes."""
    return release.module(path)


def unseal(release: LazyRelease) -> None:
    """Resolve the release's environment variables.

    The file seals its field class on its last line; resolved name by name, the seal would come too early.
    """
    if "environ.py" in release.sources:
        environ = file(release, "environ.py")
        environ.EnvField._allow_set_name = True  # noqa: SLF001 - the release's own seal
        environ.envs  # noqa: B018 - resolves it


def fresh(release: LazyRelease, sources: Mapping[str, str] | None = None) -> LazyRelease:
    """The same release, nothing resolved yet; what it uses counts as used by the first."""
    made = prepare(LazyRelease(release.sources if sources is None else sources))
    made.used = release.used
    unseal(made)
    return made


def outcome(function: Callable[[], object]) -> list[object]:
    """["value", V] or ["error", exception's name, its text]."""
    try:
        return ["value", function()]
    except Exception as error:  # noqa: BLE001 - what the release raises is the answer
        return ["error", type(error).__name__, str(error)[:300]]
