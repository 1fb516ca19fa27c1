"""PATH in a shell that has sourced the hook: `drafters` itself looks at the programs behind the stand-ins.

A stand-in is no interpreter: beside it there is no engine to be found. And what `drafters guard` has decided, with
options and a mode of its own, its stand-in must not decide again without them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: How the last part of a directory of stand-ins begins.
STAND_INS = "drafters-shims-"
_OWNERS = "_DRAFTERS_HOOK"

#: PATH as it was given, where stand-ins were on it.
_given: list[str] = []


def look_behind() -> None:
    """Take directories of stand-ins out of this process's PATH."""
    path = os.environ.get("PATH", "")
    behind = [place for place in path.split(os.pathsep) if not os.path.basename(place).startswith(STAND_INS)]
    _given[:] = [path]
    os.environ["PATH"] = os.pathsep.join(behind)


def leave(launch: Sequence[str]) -> None:
    """Give what this process becomes its PATH: an engine the plain one, and anything else the one that was given.

    Args:
        launch: The command; one that is no engine's may start engines of its own.
    """
    if not _given:
        return
    from drafter_contracts.errors import ContractsError
    from drafter_contracts.serving.invocation import read_invocation

    try:
        engine = bool(read_invocation(launch).entry)
    except ContractsError:
        engine = False
    if engine:
        os.environ.pop(_OWNERS, None)
    else:
        os.environ["PATH"] = _given[0]
