"""The capture layout of a recording: stated by option, else by the manifest beside the weights, else by the config.

A reading that is assumed, contradictory or open is no record: it is an obstacle that names what settles it.
"""

from __future__ import annotations

from typing import cast

import msgspec

from drafter_contracts.checkpoint.facts import (
    CONTRADICTORY,
    DECLARED,
    ENGINE_DEFAULT,
    PRODUCER_RULE,
    UNDECIDABLE,
    DrafterFacts,
    LayoutReading,
)
from drafter_contracts.checkpoint.parts import AUX_METHODS
from drafter_contracts.layout import RESIDUAL, CaptureLayout, Tap, describe_taps, layout_from_boundaries
from drafter_contracts.manifest_records import LayoutRecord, StatedIds, TargetRecord
from drafter_contracts.recording import evaluation
from drafter_contracts.recording import evidence as by_values
from drafter_contracts.recording.claims import Claim, Line
from drafter_contracts.recording.derive import count, derive_norm, fc_input_width, fc_place
from drafter_contracts.recording.ledger import Ledger, says

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.manifest_records import Norm
    from drafter_contracts.recording.statement import Statement
    from drafter_contracts.value_types import State

SETTLED_BY = "--output-ids or --boundaries, as the training run's own configuration says them; or --evidence, by values"
GIVE_TARGET = "--target, with its config.json at hand"
_OPEN = (ENGINE_DEFAULT, CONTRADICTORY, UNDECIDABLE)
_BOUNDARIES = "/layout/boundaries"


def record_layout(
    facts: DrafterFacts, method: str, statement: Statement, target: TargetRecord, ledger: Ledger
) -> LayoutRecord | None:
    """The layout to record, or None: the method reads no aux hidden states, or the ledger's obstacles say why.

    Args:
        facts: The drafter, read with its target's depth.
        method: The method to record.
        statement: The publisher's word.
        target: The target to record.
        ledger: Takes what was read, what was taken on word, and the obstacles.
    """
    recorded = statement.manifest.layout if statement.manifest is not None else None
    if method not in AUX_METHODS:
        if statement.boundaries is not None:
            reason = f"{statement.spoken()} states captured layers, and {method} reads no aux hidden states"
            actual = str(list(statement.boundaries))
            ledger.obstacles.append(Claim("/layout", reason, "no captured layers", actual, _why(facts)))
        for given in statement.evidence:
            reason = f"{given.name} tells of captured layers, and {method} reads no aux hidden states"
            ledger.obstacles.append(Claim("/layout", reason, "no captured layers", given.name, _why(facts)))
        return recorded
    told = by_values.told_by(statement.evidence, recorded, target, ledger)
    if statement.boundaries is not None:
        stated_by, layout = statement.spoken(), _by_option(facts, statement, statement.boundaries, ledger)
    elif recorded is not None:
        stated_by, layout = ledger.manifest_source, _by_manifest(facts, recorded, ledger)
    elif told is not None and facts.layout.confidence in _OPEN:
        stated_by, layout = told.name, _by_values(facts, told, statement, ledger)
    else:
        stated_by, layout = config_place(facts.layout), _by_files(facts, statement, ledger)
    if layout is None:
        return None
    layout = _held_against_values(layout, told, stated_by, statement, recorded, ledger)
    return _measured(facts, layout, stated_by, target, ledger)


def _held_against_values(
    layout: LayoutRecord,
    told: by_values.Told | None,
    stated_by: str,
    statement: Statement,
    recorded: LayoutRecord | None,
    ledger: Ledger,
) -> LayoutRecord:
    by_values.contradicted_in_part(layout, statement.evidence, stated_by, ledger)
    if told is not None:
        open_states = statement.boundaries is not None and not layout.states
        layout = by_values.confirmed(layout, told, stated_by, ledger, open_states=open_states)
    if recorded is not None and recorded.evaluated is not None:
        layout = evaluation.carried(layout, recorded.evaluated, stated_by, ledger)
    return layout


def _why(facts: DrafterFacts) -> str:
    return "; ".join(facts.method_evidence)


def config_place(reading: LayoutReading) -> str:
    """A config's statement for messages: 'config.json: eagle_config.x = [2, 30, 58]'."""
    if not reading.key:
        return "config.json states no layer ids"
    return f"config.json: {reading.key} = {list(reading.ids)}" if reading.ids else f"config.json: {reading.key}"


def _by_option(
    facts: DrafterFacts, statement: Statement, boundaries: tuple[int, ...], ledger: Ledger
) -> LayoutRecord | None:
    reading, option = facts.layout, statement.spoken()
    wrong = [boundary for boundary in boundaries if boundary < 0]
    if not boundaries or wrong:
        actual = str(list(boundaries))
        ledger.obstacles.append(Claim(_BOUNDARIES, f"{option} states no boundaries", "0 or more", actual))
        return None
    states = statement.states
    if not states and reading.layout is not None and reading.layout.boundaries == boundaries:
        states = _states(reading.layout)
    taps = describe_taps(_taps(boundaries, states))
    ledger.word.append(Line("layout.boundaries", taps, option))
    _hold_against_config(reading, boundaries, option, ledger)
    producer = statement.producer or reading.producer
    if reading.ids:
        stated = StatedIds(key=reading.key, values=reading.ids, numbering=reading.numbering, producer=producer)
    else:
        name = statement.option.partition(" ")[0]
        ids = tuple(b - 1 for b in boundaries) if name == "--output-ids" else boundaries
        numbering = "output ids" if name == "--output-ids" else "boundaries"
        stated = StatedIds(key=name, values=ids, numbering=numbering, producer=producer)
    evidence = [f"{option}: {taps}"]
    if says(reading.key) or says(reading.reason):
        evidence.append(f"{config_place(reading)}; {reading.confidence}: {reading.reason}")
    return LayoutRecord(
        boundaries=boundaries, states=states, stated=stated, known_by="declared", evidence=tuple(evidence)
    )


def _by_manifest(facts: DrafterFacts, recorded: LayoutRecord, ledger: Ledger) -> LayoutRecord:
    taps = describe_taps(_taps(recorded.boundaries, recorded.states))
    source = ledger.manifest_source
    ledger.word.append(Line("layout.boundaries", taps, source))
    _hold_against_config(facts.layout, recorded.boundaries, source, ledger)
    evidence = recorded.evidence or (f"{source}: {taps}",)
    # Where the document says that it follows from the files, only the files can say so again.
    known_by = recorded.known_by or "declared"
    if known_by == "producer rule" and not follows(facts.layout, recorded.boundaries):
        known_by = "declared"
    return msgspec.structs.replace(recorded, known_by=known_by, evidence=evidence)


def _hold_against_config(reading: LayoutReading, boundaries: tuple[int, ...], source: str, ledger: Ledger) -> None:
    """A config that declares other layers cannot be talked away; one whose numbers are only read by a rule can."""
    if reading.layout is None or reading.layout.boundaries == boundaries or reading.confidence == ENGINE_DEFAULT:
        return
    place, theirs = config_place(reading), describe_taps(reading.layout.taps)
    ours = describe_taps(_taps(boundaries, ()))
    if reading.confidence == DECLARED:
        why = f"{source} states {ours}, and config.json declares {theirs}: {reading.reason}"
        ledger.obstacles.append(Claim(_BOUNDARIES, why, theirs, ours, place))
        return
    ledger.word.append(Line("layout.stated", f"{place}, which would be {theirs}", f"{source} precedes it"))


def _by_files(facts: DrafterFacts, statement: Statement, ledger: Ledger) -> LayoutRecord | None:
    reading = facts.layout
    place = config_place(reading)
    if reading.confidence in _OPEN:
        others = "; or ".join(describe_taps(layout_from_boundaries(b).taps) for b in _possible(reading))
        maybe = f"; it may be {others}" if others else ""
        why = f"the trained layers are not stated: {reading.reason}{maybe}"
        ledger.obstacles.append(Claim(_BOUNDARIES, why, SETTLED_BY, reading.confidence, place))
        return None
    if reading.layout is None or (reading.needs_depth and facts.target_layers is None):
        why = f"the capture layout depends on the target's depth: {reading.reason}"
        ledger.obstacles.append(Claim("/target/layers", why, GIVE_TARGET, "a target of unknown depth", place))
        return None
    taps = describe_taps(reading.layout.taps)
    ledger.read.append(Line("layout.boundaries", taps, place))
    evidence = [f"{place}: {reading.reason}"]
    evidence += [f"people may also mean {describe_taps(layout_from_boundaries(b).taps)}" for b in reading.alternatives]
    producer = statement.producer or reading.producer
    stated = StatedIds(key=reading.key, values=reading.ids, numbering=reading.numbering, producer=producer)
    return LayoutRecord(
        boundaries=reading.layout.boundaries,
        states=_states(reading.layout),
        stated=stated if says(stated.key) else None,
        known_by="declared" if reading.confidence == DECLARED else "producer rule",
        evidence=tuple(evidence),
    )


def _by_values(facts: DrafterFacts, told: by_values.Told, statement: Statement, ledger: Ledger) -> LayoutRecord:
    """Where neither a person nor the files state a layout, the numbers do."""
    reading, place = facts.layout, config_place(facts.layout)
    ledger.values.append(Line("layout.boundaries", describe_taps(told.taps), told.name))
    producer = statement.producer or reading.producer
    stated = StatedIds(key=reading.key, values=reading.ids, numbering=reading.numbering, producer=producer)
    record = by_values.from_values(told)
    return msgspec.structs.replace(
        record,
        stated=stated if reading.ids else None,
        evidence=(f"{place}; {reading.confidence}: {reading.reason}",),
    )


def follows(reading: LayoutReading, boundaries: tuple[int, ...]) -> bool:
    """Whether these boundaries are what the files say by their producer's rule, or declare."""
    sure = reading.confidence in (PRODUCER_RULE, DECLARED)
    return sure and reading.layout is not None and reading.layout.boundaries == boundaries


def _possible(reading: LayoutReading) -> tuple[tuple[int, ...], ...]:
    first = () if reading.layout is None else (reading.layout.boundaries,)
    return (*first, *reading.alternatives)


def _taps(boundaries: tuple[int, ...], states: tuple[State, ...]) -> tuple[Tap, ...]:
    words: tuple[str, ...] = states if len(states) == len(boundaries) else (RESIDUAL,) * len(boundaries)
    return tuple(Tap(boundary, state) for boundary, state in zip(boundaries, words, strict=True))


def _states(layout: CaptureLayout) -> tuple[State, ...]:
    """States for the record: none where all are residual, which is what none means."""
    states = tuple(tap.state for tap in layout.taps)
    return () if all(state == RESIDUAL for state in states) else cast("tuple[State, ...]", states)


def _measured(
    facts: DrafterFacts, record: LayoutRecord, stated_by: str, target: TargetRecord, ledger: Ledger
) -> LayoutRecord:
    """The record with everything that follows from it: output ids, widths, the width of `fc`, the norm before it."""
    taps, columns = len(record.boundaries), fc_input_width(facts)
    width = count(target.hidden_size or facts.target_hidden_size)
    if width is None and columns is not None and columns % taps == 0:
        width = columns // taps
    widths = record.widths or ((width,) * taps if width is not None else ())
    total = sum(widths) if widths else None
    if columns is not None:
        _hold_against_fc(facts, taps, total, columns, stated_by, ledger)
        ledger.read.append(Line("layout.fc_input_width", str(columns), fc_place(facts)))
    norm = derive_norm(facts)
    if norm is not None and record.norm == "none":
        ledger.read.append(Line("layout.norm", str(norm.value), norm.place))
    own_norm = cast("Norm", norm.value) if norm is not None and record.norm == "none" else record.norm
    evidence = record.evidence
    if columns is not None and total == columns and len(set(widths)) == 1:
        line = f"{fc_place(facts).removeprefix('tensors: ')} takes {taps} taps of {widths[0]}"
        evidence = evidence if line in evidence else (*evidence, line)
    return msgspec.structs.replace(
        record,
        output_ids=record.output_ids or tuple(boundary - 1 for boundary in record.boundaries),
        widths=widths,
        fc_input_width=record.fc_input_width or columns or total,
        norm=own_norm,
        evidence=evidence,
    )


def _hold_against_fc(
    facts: DrafterFacts, taps: int, total: int | None, columns: int, stated_by: str, ledger: Ledger
) -> None:
    """The taps together are as wide as the input of `fc`."""
    if columns == total or (total is None and columns % taps == 0):
        return
    each = f" of {total // taps}, {total} columns" if total is not None else ""
    why = f"{stated_by} names {taps} taps{each}, and the drafter's fusion layer takes {columns}"
    ledger.obstacles.append(Claim(_BOUNDARIES, why, f"{columns} columns", f"{taps} taps{each}", fc_place(facts)))
