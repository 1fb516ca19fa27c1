"""Evidence by values that a manifest keeps, held against the manifest itself: whoever wrote it by hand is noticed.

That the taps are those of the layout is seen when a manifest is decoded (`manifest.Manifest.capture_layout`). What is
here is asked of what is to be published, not of what is stored: older versions stay readable.
"""

from __future__ import annotations

from drafter_contracts.evidence.documents import weights_digest
from drafter_contracts.evidence.given import ahead, possible_acceptance, scored_taps
from drafter_contracts.layout import Tap, describe_taps
from drafter_contracts.recording.claims import Claim
from drafter_contracts.recording.evaluation import CONFIG
from drafter_contracts.recording.evidence import BY_VALUES, EVALUATED, IDENTIFIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_values import EvaluatedLayout, EvaluatedRecord, IdentifiedRecord


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
        yield from _identified(record.identified, manifest.target.layers)
    if record.evaluated is not None:
        yield from _evaluated(record.evaluated, manifest)


def _identified(record: IdentifiedRecord, layers: int | None) -> Iterator[Claim]:
    for number, tap in enumerate(record.taps):
        where = f"{IDENTIFIED}/taps/{number}"
        if not tap.error < 1 or (tap.next_error is not None and not tap.error < tap.next_error):
            actual = f"{tap.error:g}, next best {tap.next_error}"
            why = f"tap {number} was not identified by an error that no other state has"
            yield Claim(f"{where}/error", why, "below 1 and below next_error", actual)
        ours = Tap(tap.boundary, tap.state)
        other = None if tap.next_boundary is None else Tap(tap.next_boundary, tap.next_state)
        if other is not None and (other == ours or (layers is not None and other.boundary > layers)):
            why = f"tap {number} names as next best what cannot be that"
            expected = f"another state than {ours.label()}" + ("" if layers is None else f", of {layers} layers")
            yield Claim(f"{where}/next_boundary", why, expected, other.label())
    if not record.tokens:
        yield Claim(f"{IDENTIFIED}/tokens", "nothing was compared", "1 token or more", "0")


def _evaluated(record: EvaluatedRecord, manifest: Manifest) -> Iterator[Claim]:
    if not record.rows:
        yield Claim(f"{EVALUATED}/rows", "nothing was drafted", "1 position or more", "0")
    stated, other = record.stated, record.next_best
    for name, score in (("stated", stated), ("next_best", other)):
        if score is not None and score.steps and not possible_acceptance(score.length, score.steps):
            why = "so many tokens per step do not come of such acceptances of each drafted token"
            expected, actual = "1 + steps[0] <= length <= 1 + sum(steps)", f"{score.length:g}, {list(score.steps)}"
            yield Claim(f"{EVALUATED}/{name}", why, expected, actual)
    least = 1 if other is None else 2
    if record.tried < least:
        why = "fewer layouts were tried than are recorded"
        yield Claim(f"{EVALUATED}/tried", why, f"{least} or more", str(record.tried))
    if other is not None and ahead(other.length, stated.length, other.behind_deviation):
        why = "another layout is better than the stated one by more than chance"
        actual = f"{other.length:g}, {other.behind_deviation:g} standard error of the difference"
        yield Claim(f"{EVALUATED}/next_best/length", why, f"not above {stated.length:g} but by chance", actual)
    if other is not None:
        yield from _next_best(scored_taps(other.boundaries, other.states), stated, manifest.target.layers)
    if not manifest.files:  # not hashed yet
        return
    digests = {file.path: file.sha256 for file in manifest.files}
    ours = weights_digest(digests)
    if record.weights_sha256 != ours:
        why = "the acceptance was evaluated with other weights than these"
        yield Claim(f"{EVALUATED}/weights_sha256", why, ours, record.weights_sha256, "the drafter's files")
    config = digests.get(CONFIG, "")
    if record.config_sha256 and record.config_sha256 != config:
        why = "the acceptance was evaluated with another config.json than this"
        yield Claim(f"{EVALUATED}/config_sha256", why, config, record.config_sha256, "the drafter's files")


def _next_best(taps: tuple[Tap, ...], stated: EvaluatedLayout, layers: int | None) -> Iterator[Claim]:
    """The other layout is one that the same `fc` can be fed from the same target."""
    ours = scored_taps(stated.boundaries, stated.states)
    beyond = layers is not None and any(tap.boundary > layers for tap in taps)
    if taps == ours or len(taps) != len(ours) or beyond:
        why = "the best of the other layouts is the stated one, or none of this target and drafter"
        expected = f"another layout of {len(ours)} taps" + ("" if layers is None else f" of {layers} layers")
        yield Claim(f"{EVALUATED}/next_best/boundaries", why, expected, describe_taps(taps))
