"""Evidence by values in a recording: it settles a layout, confirms it, or contradicts it.

The numbers overrule nothing silently: a layout that somebody states, that config.json declares or that follows from its
producer's rule, and that was identified otherwise, is an obstacle that names both.
"""

from __future__ import annotations

from typing import cast

import msgspec

from drafter_contracts.evidence.documents import Identification
from drafter_contracts.evidence.given import Given, flaws, scored_taps, why_unsettled
from drafter_contracts.evidence.labels import explanation, tap_of
from drafter_contracts.layout import RESIDUAL, Tap, describe_taps
from drafter_contracts.manifest_records import LayoutRecord, TargetRecord
from drafter_contracts.manifest_values import IdentifiedRecord, IdentifiedTap
from drafter_contracts.recording.claims import Claim, Line
from drafter_contracts.recording.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.evidence.documents import ReferenceRecord, SampleRecord
    from drafter_contracts.value_types import State

BY_VALUES = "identified by values"
#: Begins with an option: a claim that expects one is open, not wrong.
SETTLED_BY = "--evidence that identifies every state, or --output-ids or --boundaries without it"
IDENTIFIED, EVALUATED, BOUNDARIES = "/layout/identified", "/layout/evaluated", "/layout/boundaries"
_COMMIT = 40


class Told(msgspec.Struct, frozen=True):
    """A layout that was identified.

    Attributes:
        record: As a manifest keeps it.
        name: The document that says so.
        fresh: It was given now; else it lay in the manifest beside the weights.
    """

    record: IdentifiedRecord
    name: str
    fresh: bool = True

    @property
    def taps(self) -> tuple[Tap, ...]:
        """In concatenation order."""
        return tuple(Tap(tap.boundary, tap.state) for tap in self.record.taps)


def told_by(
    evidence: tuple[Given, ...], recorded: LayoutRecord | None, target: TargetRecord, ledger: Ledger
) -> Told | None:
    """The layout that the evidence identifies, or None; what cannot be used is an obstacle in the ledger.

    Args:
        evidence: What was given.
        recorded: The layout of the manifest beside the weights, or None.
        target: The target to record.
        ledger: Takes the obstacles.
    """
    found: Told | None = None
    for given in evidence:
        document = given.document
        if not isinstance(document, Identification) or not usable(given, target, ledger):
            continue
        unsettled = [why for match in document.states if (why := why_unsettled(match))]
        if document.verdict != "identified":
            _unsettled(given, document, unsettled, ledger)
            continue
        told = Told(_identified(given, document), given.name)
        if found is not None and found.taps != told.taps:
            ours, theirs = describe_taps(found.taps), describe_taps(told.taps)
            why = f"{found.name} identified {ours}, and {told.name} identified {theirs}"
            ledger.obstacles.append(Claim(IDENTIFIED, why, ours, theirs, told.name))
        found = found or told
    if found is None and recorded is not None and recorded.identified is not None:
        return Told(recorded.identified, ledger.manifest_source, fresh=False)
    return found


def from_values(told: Told) -> LayoutRecord:
    """The layout where nothing but the numbers states one."""
    states = _states(told.taps)
    boundaries = tuple(tap.boundary for tap in told.taps)
    return LayoutRecord(boundaries=boundaries, states=states, evidence=())


def confirmed(record: LayoutRecord, told: Told, stated_by: str, ledger: Ledger, *, open_states: bool) -> LayoutRecord:
    """A layout held against the one that was identified; the record then says so.

    Args:
        record: The layout that somebody or something states.
        told: What was identified.
        stated_by: Who states it, for messages.
        ledger: Takes the obstacle if they differ.
        open_states: The states of the layout were not stated, only its boundaries.
    """
    theirs, ours = told.taps, scored_taps(record.boundaries, record.states)
    same = record.boundaries == tuple(tap.boundary for tap in theirs) if open_states else ours == theirs
    if not same:
        verb = "identified" if told.fresh else "says that there were identified"
        why = f"{stated_by} states {describe_taps(ours)}, and {told.name} {verb} {describe_taps(theirs)} by values"
        ids = record.stated.values if record.stated is not None else ()
        clause = explanation(ids, theirs)
        why += f": they agree if {clause}" if clause else ""
        ledger.obstacles.append(Claim(BOUNDARIES, why, describe_taps(theirs), describe_taps(ours), told.name))
        return record
    line = in_words(told.record)
    if told.fresh:
        ledger.values.append(Line("layout.identified", line.removeprefix("identified by values: "), told.name))
    evidence = record.evidence if not told.fresh and record.known_by == BY_VALUES else (*record.evidence, line)
    return msgspec.structs.replace(
        record, states=_states(theirs), known_by=BY_VALUES, identified=told.record, evidence=evidence
    )


def in_words(record: IdentifiedRecord) -> str:
    """An identification as one line: "identified by values: boundaries 3, 31, 59 (...), error 2e-04 at most, ..."."""
    taps = describe_taps(tuple(Tap(tap.boundary, tap.state) for tap in record.taps))
    error = max(tap.error for tap in record.taps)
    others = [tap.next_error for tap in record.taps if tap.next_error is not None]
    nearest = f", next best {min(others):.2g}" if others else ""
    sample = f"sample sha256:{record.sample_sha256[:12]}"
    against = f" against {record.reference}" if record.reference else ""
    # Where the document lies is nobody else's business; its digest is.
    document = f"; document sha256:{record.document_sha256[:12]}" if record.document_sha256 else ""
    figures = f"error {error:.1e} at most{nearest}"
    return f"{BY_VALUES}: {taps}; {figures}; {record.tokens} tokens of {sample}{against}{document}"


def _identified(given: Given, document: Identification) -> IdentifiedRecord:
    first = document.samples[0]
    taps = [
        IdentifiedTap(
            boundary=cast("int", match.boundary),
            state=match.state,
            error=cast("float", match.error),
            next_boundary=match.next_boundary,
            next_state=match.next_state,
            next_error=match.next_error,
        )
        for match in document.states
    ]
    return IdentifiedRecord(
        taps=tuple(taps),
        tokens=sum(sample.compared for sample in document.samples),
        dtype=first.dtype,
        sample_sha256=_digest(document.samples),
        sample_format=first.format,
        reference=document.reference.shown(),
        reference_sha256=document.reference.sha256,
        document_sha256=given.sha256,
        tool=document.tool,
    )


def _digest(samples: tuple[SampleRecord, ...]) -> str:
    """The first sample's file stands for all: the document, which has its own digest, names every one."""
    return samples[0].sha256


def usable(given: Given, target: TargetRecord, ledger: Ledger) -> bool:
    """Whether a document does not contradict itself and is about this target."""
    where = IDENTIFIED if isinstance(given.document, Identification) else EVALUATED
    wrong = [(flaw, "a document as it was written", "another") for flaw in flaws(given.document)]
    wrong += [
        (f"it is about another target: its {name} is {theirs}, and the manifest's is {ours}", ours, theirs)
        for name, ours, theirs in _other_target(given.document.reference, target)
    ]
    for why, expected, actual in wrong:
        ledger.obstacles.append(Claim(where, f"{given.name}: {why}", expected, actual, given.name))
    return not wrong


def _other_target(reference: ReferenceRecord, target: TargetRecord) -> list[tuple[str, str, str]]:
    """(fact, the manifest's, the document's) that differ; what one of them does not know does not differ.

    A directory may have any name: names are compared only where both are Hub ids, commits only where both are whole.
    """
    sizes = ("layers", "hidden_size", "vocab_size")
    facts = [(name.replace("_", " "), getattr(target, name), getattr(reference, name)) for name in sizes]
    names = (target.model, reference.model)
    if all(name.count("/") == 1 and name[:1] not in "./~" for name in names):
        facts.append(("name", *names))
    if all(len(commit) == _COMMIT for commit in (target.revision, reference.revision)):
        facts.append(("revision", target.revision, reference.revision))
    known = [(name, str(ours), str(theirs)) for name, ours, theirs in facts if ours and theirs]
    return [one for one in known if one[1].lower() != one[2].lower()]


def _unsettled(given: Given, document: Identification, unsettled: list[str], ledger: Ledger) -> None:
    """Evidence that settles nothing is refused as such; it says what would."""
    settle = "; ".join(dict.fromkeys(match.settle for match in document.states if match.settle))
    why = "; ".join(unsettled) or "; ".join(document.notes) or "its verdict is unknown"
    expected = f"{SETTLED_BY}; {settle}" if settle else SETTLED_BY
    known = ", ".join(tap.label() for tap in map(tap_of, document.states) if tap is not None)
    ledger.obstacles.append(
        Claim(IDENTIFIED, f"{given.name} identifies no layout: {why}", expected, known or "unknown", given.name)
    )


def contradicted_in_part(record: LayoutRecord, evidence: tuple[Given, ...], stated_by: str, ledger: Ledger) -> None:
    """States that are known contradict a layout also where another state of the same sample is not known."""
    for given in evidence:
        document = given.document
        if not isinstance(document, Identification) or document.verdict == "identified":
            continue
        taps = [tap_of(match) for match in document.states]
        if len(taps) != len(record.boundaries):
            continue
        for number, (boundary, tap) in enumerate(zip(record.boundaries, taps, strict=True)):
            if tap is not None and tap.boundary != boundary:
                ours = Tap(boundary).label()
                why = f"{stated_by} states {ours} for tap {number}, and {given.name} found {tap.label()} there"
                ledger.obstacles.append(Claim(BOUNDARIES, why, tap.label(), ours, given.name))


def _states(taps: tuple[Tap, ...]) -> tuple[State, ...]:
    states = tuple(tap.state for tap in taps)
    return () if all(state == RESIDUAL for state in states) else cast("tuple[State, ...]", states)
