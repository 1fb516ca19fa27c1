"""Clean-room reference forward of EAGLE-3 drafters on recorded states, in plain torch (docs/reference-forward.md).

Written from the published descriptions and engine sources; no engine's code runs here.
"""

from __future__ import annotations

from drafter_contracts.values.drafting.drafter import Drafter
from drafter_contracts.values.drafting.load import load_drafter

__all__ = ["Drafter", "load_drafter"]
