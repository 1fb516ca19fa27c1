"""Places at which a test may kill the process: `DRAFTERS_FAILPOINT=NAME` ends it there as `kill -9` would.

Nothing happens unless the variable is set when the process starts.
"""

from __future__ import annotations

import os
import signal

_ARMED = os.environ.get("DRAFTERS_FAILPOINT", "")


def reached(name: str) -> None:
    """Die here, if this is the armed place."""
    if _ARMED and name == _ARMED:
        os.kill(os.getpid(), signal.SIGKILL)
