"""What is known beside the ids when they are read."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import CONTRADICTORY, UNDECIDABLE, LayoutReading

#: What settles a reading that is assumed or impossible.
STATE_IT = (
    "state the trained layers: drafters-manifest.json, or --boundaries / --output-ids; the training run's own "
    "configuration says them"
)
GIVE_DEPTH = "give the target (--target), or its depth"


class Context(msgspec.Struct, frozen=True):
    """Everything beside the ids.

    Attributes:
        method: One of `facts.METHODS`.
        n: Decoder layers of the target, or None.
        tap_count: Taps that the fusion layer takes, or None.
        target_model_type: `model_type` of the target (the drafter's own where the target is not known), or "".
        architectures: The drafter's.
        layer_prefixes: How the drafter's layers are named, "midlayer" or "layers".
        producer: As far as the files tell, or "".
    """

    method: str
    n: int | None = None
    tap_count: int | None = None
    target_model_type: str = ""
    architectures: tuple[str, ...] = ()
    layer_prefixes: tuple[str, ...] = ()
    producer: str = ""

    def undecidable(
        self, reason: str, *, settle: str = STATE_IT, alternatives: tuple[tuple[int, ...], ...] = ()
    ) -> LayoutReading:
        """A reading that nothing decides."""
        return LayoutReading(
            UNDECIDABLE, reason=reason, settle=settle, producer=self.producer, alternatives=alternatives
        )

    def contradictory(
        self, reason: str, *, ids: tuple[int, ...] = (), key: str = "", alternatives: tuple[tuple[int, ...], ...] = ()
    ) -> LayoutReading:
        """A reading of statements that cannot all be true."""
        return LayoutReading(
            CONTRADICTORY,
            ids=ids,
            key=key,
            reason=reason,
            settle=STATE_IT,
            producer=self.producer,
            alternatives=alternatives,
        )
