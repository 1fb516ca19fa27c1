"""Places at which a test may kill the process as `kill -9` would, or hold the thread that comes there.

`DRAFTERS_FAILPOINT=NAME` kills it when it comes to that place; `NAME:3` when it comes there the third time, and
`NAME:1:FILE` makes FILE there and goes on when it is gone. Nothing happens unless the variable is set when the process
starts.
"""

from __future__ import annotations

import os
import signal
import time
from itertools import count

_NAME, _, _rest = os.environ.get("DRAFTERS_FAILPOINT", "").partition(":")
_NUMBER, _, _FILE = _rest.partition(":")
_passes = count(1)
#: Between two looks whether the file is gone, seconds.
_LOOK = 0.01


def reached(name: str) -> None:
    """Die or wait here, if this is the armed place."""
    if not _NAME or name != _NAME or next(_passes) != int(_NUMBER or 1):
        return
    if not _FILE:
        os.kill(os.getpid(), signal.SIGKILL)
    with open(_FILE, "xb"):
        pass
    while os.path.exists(_FILE):
        time.sleep(_LOOK)
