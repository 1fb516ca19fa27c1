"""Places at which a test may kill or stop the process, as `kill -9` or `kill -STOP` would.

`DRAFTERS_FAILPOINT=NAME` kills it when it comes to that place; `NAME:3` when it comes there the third time, and
`NAME:1:STOP` stops it there until it is continued. Nothing happens unless the variable is set when the process starts.
"""

from __future__ import annotations

import os
import signal
from itertools import count

_NAME, _, _rest = os.environ.get("DRAFTERS_FAILPOINT", "").partition(":")
_NUMBER, _, _SIGNAL = _rest.partition(":")
_passes = count(1)


def reached(name: str) -> None:
    """Die or stop here, if this is the armed place."""
    if _NAME and name == _NAME and next(_passes) == int(_NUMBER or 1):
        os.kill(os.getpid(), signal.SIGSTOP if _SIGNAL == "STOP" else signal.SIGKILL)
