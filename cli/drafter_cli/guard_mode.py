"""What becomes of a launch that must not start: the switch that the guard, the plugin and Python callers share."""

from __future__ import annotations

import os

from drafter_cli.errors import UsageError

ENFORCE, WARN, OFF = "enforce", "warn", "off"
MODES = (ENFORCE, WARN, OFF)
MODE_VARIABLE = "DRAFTERS_GUARD"


def mode_of(stated: str = "") -> str:
    """The mode: as stated by the caller, before the environment, before the default.

    Args:
        stated: What the caller says, or "".

    Raises:
        UsageError: That is no mode: a guard that misreads its own switch must not let things pass.
    """
    mode = stated or os.environ.get(MODE_VARIABLE, "") or ENFORCE
    if mode not in MODES:
        source = "the mode" if stated else MODE_VARIABLE
        raise UsageError(f"{source} is {mode!r}", f"one of {', '.join(MODES)}")
    return mode
