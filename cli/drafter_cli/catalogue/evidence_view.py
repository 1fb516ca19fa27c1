"""How `drafters show` tells what is known of a layout by values."""

from __future__ import annotations

from drafter_cli.sheet import Sheet
from drafter_cli.words import plural
from drafter_contracts.layout import FINAL_NORM, RESIDUAL, Tap, describe_taps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_values import EvaluatedLayout, EvaluatedRecord, FingerprintRecord, IdentifiedRecord

_DIGITS = 12


def show_evidence(sheet: Sheet, manifest: Manifest) -> None:
    """What was identified, what was evaluated, and whether engines can be asked for the same states."""
    record = manifest.layout
    if record is not None and record.identified is not None:
        _identified(sheet, record.identified)
    if record is not None and record.evaluated is not None:
        _evaluated(sheet, record.evaluated)
    if manifest.state_fingerprint is not None:
        sheet.field("fingerprint", _fingerprint(manifest.state_fingerprint))


def _identified(sheet: Sheet, record: IdentifiedRecord) -> None:
    kind = ", ".join(filter(None, (record.sample_format, record.dtype)))
    sample = f"a sample ({kind}) sha256:{record.sample_sha256[:_DIGITS]}"
    against = f", against {record.reference}" if record.reference else ""
    sheet.field("identified", f"{plural(record.tokens, 'token')} of {sample}{against}{_document(record)}")
    for tap in record.taps:
        following = ""
        if tap.next_boundary is not None and tap.next_error is not None:
            next_best = "the final norm" if tap.next_state == FINAL_NORM else f"boundary {tap.next_boundary}"
            following = f", next best {next_best} at {tap.next_error:.2g}"
        sheet.field("", f"{Tap(tap.boundary, tap.state).label()}: error {tap.error:.1e}{following}")


def _evaluated(sheet: Sheet, record: EvaluatedRecord) -> None:
    steps = ", ".join(f"{step:.2f}" for step in record.stated.steps)
    told = f"{record.stated.length:.2f} tokens per step" + (f" ({steps} by drafted token)" if steps else "")
    tried = f"{plural(record.rows, 'position')}, {plural(record.tried, 'layout')} tried"
    sheet.field("evaluated", f"{told}; {tried}{_document(record)}")
    if record.next_best is not None:
        sheet.field(
            "", f"best of the others: {_layout(record.next_best)}, {record.next_best.length:.2f} tokens per step"
        )


def _layout(record: EvaluatedLayout) -> str:
    states: tuple[str, ...] = record.states or (RESIDUAL,) * len(record.boundaries)
    return describe_taps(tuple(map(Tap, record.boundaries, states)))


def _document(record: IdentifiedRecord | EvaluatedRecord) -> str:
    return f"; document sha256:{record.document_sha256[:_DIGITS]}" if record.document_sha256 else ""


def _fingerprint(record: FingerprintRecord) -> str:
    made = ", ".join(filter(None, (record.dtype, record.made_with)))
    told = f"{plural(len(record.taps), 'tap')} on {plural(len(record.tokens), 'token')}"
    return f"{told}{f' ({made})' if made else ''}: drafters verify asks an engine for the same states"
