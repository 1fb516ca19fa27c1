"""The acceptance that a drafter was evaluated with, in a recording: kept if the layout to be published is the best."""

from __future__ import annotations

import msgspec

from drafter_contracts.evidence.documents import Evaluation, weights_digest
from drafter_contracts.evidence.given import Given, scored_taps
from drafter_contracts.layout import describe_taps
from drafter_contracts.manifest_records import LayoutRecord, TargetRecord
from drafter_contracts.manifest_values import EvaluatedLayout, EvaluatedRecord
from drafter_contracts.recording.claims import Claim, Line
from drafter_contracts.recording.evidence import BOUNDARIES, EVALUATED, usable
from drafter_contracts.recording.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.evidence.documents import LayoutScore
    from drafter_contracts.manifest import FileRecord

CONFIG = "config.json"


def evaluated(
    record: LayoutRecord,
    evidence: tuple[Given, ...],
    target: TargetRecord,
    files: tuple[FileRecord, ...],
    ledger: Ledger,
) -> LayoutRecord:
    """The layout with the acceptance that was evaluated under it.

    Args:
        record: The layout to record.
        evidence: What was given.
        target: The target to record.
        files: The drafter's files; empty where they are not hashed yet: then nothing is said of the weights.
        ledger: Takes obstacles, and notes of what is not recorded.
    """
    for given in evidence:
        document = given.document
        if isinstance(document, Evaluation) and usable(given, target, ledger) and _same_files(given, files, ledger):
            record = _with_evaluation(record, given, document, ledger)
    return record


def carried(record: LayoutRecord, kept: EvaluatedRecord, stated_by: str, ledger: Ledger) -> LayoutRecord:
    """The layout with what the manifest beside the weights says was evaluated under it."""
    theirs, ours = (
        scored_taps(kept.stated.boundaries, kept.stated.states),
        scored_taps(record.boundaries, record.states),
    )
    if theirs == ours:
        return msgspec.structs.replace(record, evaluated=kept)
    source = ledger.manifest_source
    why = f"{stated_by} states {describe_taps(ours)}, and {source} evaluated {describe_taps(theirs)}"
    ledger.obstacles.append(Claim(EVALUATED, why, describe_taps(theirs), describe_taps(ours), source))
    return record


def _with_evaluation(record: LayoutRecord, given: Given, document: Evaluation, ledger: Ledger) -> LayoutRecord:
    ours = scored_taps(record.boundaries, record.states)
    first = document.scores[0]
    if document.verdict == "unknown":
        ledger.notes.append(f"{given.name} decides nothing and is not recorded: {document.reason or 'no reason given'}")
        return record
    theirs = scored_taps(first.boundaries, first.states)
    if theirs != ours:
        why = (
            f"{given.name} evaluated {describe_taps(theirs)} as the stated layout, and {describe_taps(ours)} is to be"
            " published: evaluate again with that one"
        )
        ledger.obstacles.append(Claim(EVALUATED, why, describe_taps(ours), describe_taps(theirs), given.name))
        return record
    if document.verdict == "other":
        best = document.scores[1]
        better = describe_taps(scored_taps(best.boundaries, best.states))
        why = (
            f"{given.name}: the drafter drafts better on {better} ({best.length:.2f} tokens per step) than on the"
            f" layout to be published, {describe_taps(ours)} ({first.length:.2f})"
        )
        ledger.obstacles.append(Claim(BOUNDARIES, why, better, describe_taps(ours), given.name))
        return record
    rest = document.scores[1:]
    kept = EvaluatedRecord(
        stated=_layout_score(first),
        next_best=_layout_score(rest[0]) if rest else None,
        tried=len(document.scores),
        rows=document.rows,
        weights_sha256=document.weights_sha256,
        config_sha256=document.config_sha256,
        reference=document.reference.shown(),
        document_sha256=given.sha256,
        tool=document.tool,
    )
    other = f", next best {kept.next_best.length:.2f}" if kept.next_best is not None else ""
    said = f"{first.length:.2f} tokens per step{other}, {document.rows} positions"
    ledger.values.append(Line("layout.evaluated", said, given.name))
    return msgspec.structs.replace(record, evaluated=kept)


def _layout_score(score: LayoutScore) -> EvaluatedLayout:
    return EvaluatedLayout(
        boundaries=score.boundaries,
        states=score.states,
        length=score.length,
        steps=score.steps,
        behind_deviation=score.behind_deviation,
    )


def _same_files(given: Given, files: tuple[FileRecord, ...], ledger: Ledger) -> bool:
    """Whether what was run is what is to be published: the weights, and the config that says how they are computed."""
    document = given.document
    if not files or not isinstance(document, Evaluation):
        return True
    digests = {file.path: file.sha256 for file in files}
    compared = (
        ("weights_sha256", "other weights than those", weights_digest(digests), document.weights_sha256),
        ("config_sha256", "another config.json than that", digests.get(CONFIG, ""), document.config_sha256),
    )
    wrong = [one for one in compared if one[2] and one[3] and one[2] != one[3]]
    for field, words, ours, theirs in wrong:
        why = f"{given.name} evaluated {words} to be published"
        ledger.obstacles.append(Claim(f"{EVALUATED}/{field}", why, ours, theirs, given.name))
    return not wrong
