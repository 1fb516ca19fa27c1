"""`python -m drafter_cli.plugin`: would SGLang load the plugin in this environment? Nothing of SGLang is imported."""

from __future__ import annotations

import os
import sys

from drafter_cli.errors import EXIT_OK, EXIT_REFUSED
from drafter_cli.plugin.entry import NAME, SELECTION
from drafter_cli.plugin.handover import left_out

GROUP = "sglang.srt.plugins"
MODE = "DRAFTERS_GUARD"


def why_not() -> str:
    """Why SGLang would not load the plugin, or it would judge nothing; "" if it does its work."""
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    if NAME not in [point.name for point in entry_points(group=GROUP)]:
        return f"drafter-registry is not installed here: no entry point {NAME} in {GROUP}"
    spec = find_spec("sglang")
    place = next(iter((spec and spec.submodule_search_locations) or ()), "")
    if not place:
        return "there is no SGLang in this environment"
    if not os.path.isdir(os.path.join(place, "srt", "plugins")):
        return f"the SGLang in {place} has no plugins (they came with 0.5.11): put `drafters guard` before the launch"
    selection = os.environ.get(SELECTION, "")
    if left_out(selection):
        return f"{SELECTION}={selection} leaves it out: add {NAME}"
    return f"{MODE} is off" if os.environ.get(MODE, "") == "off" else ""


def main() -> int:
    """Say it; 0 if the plugin is active."""
    reason = why_not()
    sys.stdout.write(f"not active: {reason}\n" if reason else "active: SGLang loads the plugin in this environment\n")
    return EXIT_REFUSED if reason else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
