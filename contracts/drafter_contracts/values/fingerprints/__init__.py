"""Fingerprints of a target's states: made from its own states on a fixed probe, compared with what an engine feeds."""

from drafter_contracts.values.fingerprints.comparing import (
    DIFFERENT,
    SAME,
    UNKNOWN,
    Resemblance,
    TapComparison,
    compare,
    resemblances,
)
from drafter_contracts.values.fingerprints.making import make_fingerprint
from drafter_contracts.values.fingerprints.probe import probe

__all__ = [
    "DIFFERENT",
    "SAME",
    "UNKNOWN",
    "Resemblance",
    "TapComparison",
    "compare",
    "make_fingerprint",
    "probe",
    "resemblances",
]
