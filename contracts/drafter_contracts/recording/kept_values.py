"""Evidence by values that a manifest keeps, held against the manifest itself: whoever wrote it by hand is noticed.

That the taps are those of the layout is seen when a manifest is decoded (`manifest.Manifest.capture_layout`). What is
here is asked of what is to be published, not of what is stored: older versions stay readable.
"""

from __future__ import annotations

from drafter_contracts.evidence.documents import weights_digest
from drafter_contracts.recording.claims import Claim
from drafter_contracts.recording.evidence import BY_VALUES, EVALUATED, IDENTIFIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_values import EvaluatedRecord, IdentifiedRecord


def values_contradictions(manifest: Manifest) -> Iterator[Claim]:
    """Every claim of evidence by values that cannot stand beside the rest of the manifest."""
    record = manifest.layout
    if record is None:
        return
    if record.identified is None and record.known_by == BY_VALUES:
        why = f"the layout is said to be {BY_VALUES}, and nothing records which sample was compared with what"
        yield Claim("/layout/known_by", why, "layout.identified, as drafters publish --evidence records it", BY_VALUES)
    if record.identified is not None:
        if record.known_by != BY_VALUES:
            why = f"a layout was {BY_VALUES}, and known_by says something else"
            yield Claim("/layout/known_by", why, BY_VALUES, record.known_by or "nothing")
        yield from _identified(record.identified)
    if record.evaluated is not None:
        yield from _evaluated(record.evaluated, manifest)


def _identified(record: IdentifiedRecord) -> Iterator[Claim]:
    for number, tap in enumerate(record.taps):
        if not tap.error < 1 or (tap.next_error is not None and not tap.error < tap.next_error):
            actual = f"{tap.error:g}, next best {tap.next_error}"
            why = f"tap {number} was not identified by an error that no other state has"
            yield Claim(f"{IDENTIFIED}/taps/{number}/error", why, "below 1 and below next_error", actual)
    if not record.tokens:
        yield Claim(f"{IDENTIFIED}/tokens", "nothing was compared", "1 token or more", "0")


def _evaluated(record: EvaluatedRecord, manifest: Manifest) -> Iterator[Claim]:
    if not manifest.files:  # not hashed yet
        return
    ours = weights_digest({file.path: file.sha256 for file in manifest.files})
    if record.weights_sha256 != ours:
        why = "the acceptance was evaluated with other weights than these"
        yield Claim(f"{EVALUATED}/weights_sha256", why, ours, record.weights_sha256, "the drafter's files")
