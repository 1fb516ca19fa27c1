"""Which state of the target a recorded state is, by numbers alone (docs/tolerances.md)."""

from drafter_contracts.values.matching.match import match_states

__all__ = ["match_states"]
