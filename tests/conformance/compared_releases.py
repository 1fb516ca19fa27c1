"""The releases that profiles are compared with: one of each age in `make test`, all shipped ones in `make rescan`."""

from __future__ import annotations

import os

from drafter_contracts.engines.store import releases

SOME = ("0.4.6.post5", "0.5.2", "0.5.9", "0.5.12.post1", "0.5.15", "0.5.23")
RELEASES = releases("sglang") if os.environ.get("DRAFTERS_ALL_RELEASES") else SOME
