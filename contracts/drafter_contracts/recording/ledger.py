"""The books of a recording: which fact was read where, which was taken on word, and what stands in the way."""

from __future__ import annotations

from typing import TypeVar

from drafter_contracts.recording.claims import Claim, Line, pointer, shown

T = TypeVar("T")

#: The source of a fact that the publisher stated.
PUBLISHER = "stated by the publisher"


class Ledger:
    """Collects while a manifest is put together.

    Args:
        manifest_source: What to call the manifest that lay beside the weights.

    Attributes:
        read: Facts that were read.
        word: Facts that were taken on word.
        values: Facts that were told by values.
        obstacles: Why there can be no manifest.
        notes: What was given and is not recorded, with the reason.
    """

    def __init__(self, manifest_source: str) -> None:
        self.manifest_source = manifest_source
        self.read: list[Line] = []
        self.word: list[Line] = []
        self.values: list[Line] = []
        self.notes: list[str] = []
        self.obstacles: list[Claim] = []

    def choose(self, field: str, stated: T, recorded: T, derived: T, place: str) -> T:
        """A field's value: the publisher's, else the manifest's, else what was read; the first that says something.

        Args:
            field: Dotted field of the manifest.
            stated: The publisher's word.
            recorded: The word of the manifest beside the weights.
            derived: What the files say.
            place: Where they say it.
        """
        word, source = (stated, PUBLISHER) if says(stated) else (recorded, self.manifest_source)
        if says(derived) and (not says(word) or word == derived):
            self.read.append(Line(field, shown(derived), place))
            return derived
        if says(word):
            self.word.append(Line(field, shown(word), source))
        return word

    def must_agree(self, field: str, recorded: object, read: object, place: str) -> None:
        """Note an obstacle where the manifest beside the weights says something else than was read."""
        if says(recorded) and says(read) and recorded != read:
            self.obstacles.append(
                Claim(
                    pointer(field),
                    f"{self.manifest_source} says {shown(recorded)}, and {place} says {shown(read)}",
                    shown(read),
                    shown(recorded),
                    place,
                )
            )


def says(value: object) -> bool:
    """Whether a value of a manifest says anything: false for None, "" and empty lists."""
    return value is not None and value not in ("", ())
