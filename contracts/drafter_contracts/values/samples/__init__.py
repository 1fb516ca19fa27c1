"""Samples of recorded states: read in every format that producers write, told apart by content; never unpickled."""

from __future__ import annotations

from drafter_contracts.values.samples.degenerate import check_states
from drafter_contracts.values.samples.digest import file_sha256
from drafter_contracts.values.samples.read import read_samples

__all__ = ["check_states", "file_sha256", "read_samples"]
