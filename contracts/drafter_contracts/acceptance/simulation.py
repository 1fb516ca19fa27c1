"""Whether an engine's acceptance is made up: SGLang's switch for benchmarks, as each release reads it.

The switch overwrites what verification accepted. Nothing in the engine's log, metrics or acceptance tells of it; it
is seen in the environment of its processes, and in `/server_info` where a release repeats its environment there
(`SGLANG_EXPOSE_OWN_ENV_VARS`, from 0.5.20 or a little before) or keeps records of DSPARK. See docs/engine-reports.md.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: From 0.5.3 (`srt/environ.py`): a number above 0; what is no number counts as not set. Names with SGL_ are renamed.
NAMES = ("SGLANG_SIMULATE_ACC_LEN", "SGL_SIMULATE_ACC_LEN")
#: Up to 0.5.2 (`speculative/eagle_utils.py`): any text that is not empty, "0" too.
OLD_NAME = "SIMULATE_ACC_LEN"
_RENAMED_IN = (0, 5, 3)
_RELEASE = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


def simulated_in(environ: Mapping[str, str], release: str = "") -> str:
    """Why the acceptance of an engine with this environment is made up.

    Args:
        environ: The environment of one of the engine's own processes (`/proc/PID/environ`).
        release: The engine's release, or "" if it is not known: then any name that a release reads counts.

    Returns:
        The reason, or "".
    """
    numbers = _RELEASE.match(release)
    is_old = tuple(int(number) for number in numbers.groups()) < _RENAMED_IN if numbers else None
    if is_old is not True:
        for name in NAMES:
            value = environ.get(name, "")
            if _is_on(value):
                return f"{name}={value[:32]} in the engine's environment: acceptance is simulated"
    if is_old is not False and (value := environ.get(OLD_NAME, "")):
        until = "" if is_old else " by releases up to 0.5.2"
        return f"{OLD_NAME}={value[:32]} in the engine's environment: acceptance is simulated{until}"
    return ""


def _is_on(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False
