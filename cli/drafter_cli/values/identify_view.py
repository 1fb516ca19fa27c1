"""What `drafters identify` shows: one line per recorded state, then what follows."""

from __future__ import annotations

from drafter_contracts.evidence.documents import Identification, StateMatch
from drafter_contracts.evidence.given import identified_taps, why_unsettled
from drafter_contracts.evidence.labels import tap_of
from drafter_contracts.layout import FINAL_NORM, Tap, describe_taps


def lines(document: Identification) -> list[str]:
    """The document for a person, most important first within each part."""
    found = [f"{_sample_line(document)} against {document.reference.shown() or 'a capture'}"]
    for match in document.states:
        found += _state(f"recorded #{match.number}", match)
    if document.last is not None:
        found += _state("last state", document.last, norm=True)
    found += [f"contradiction: {text}" for text in document.contradictions]
    found += [f"note: {text}" for text in document.notes]
    if document.verdict == "identified":
        found.append(f"identified: {describe_taps(identified_taps(document))} feed fc, in this order")
    else:
        reasons = [why for match in document.states if (why := why_unsettled(match, brief=True))]
        found.append(f"unknown: no layout follows from these states ({'; '.join(reasons)})")
    return found


def _sample_line(document: Identification) -> str:
    samples = document.samples
    tokens = sum(sample.compared for sample in samples)
    first = samples[0]
    names = first.name if len(samples) == 1 else f"{len(samples)} samples ({first.name}, ...)"
    return f"{names}: {first.format}, {first.dtype}, {tokens} tokens"


def _state(name: str, match: StateMatch, *, norm: bool = False) -> list[str]:
    tap = tap_of(match)
    if tap is None:
        said = [f"{name} is unknown: {match.reason or 'nothing comes near'}"]
        return [*said, f"  settled by: {match.settle}"] if match.settle else said
    error = f", error {match.error:.1e}" if match.error is not None else ""
    after = "after" if tap.state == FINAL_NORM else "before"
    normed = f", {after} the final norm" if norm and match.boundary is not None else ""
    said = [f"{name} = {tap.label()}{_how(match)}{'' if tap.state == FINAL_NORM else normed}{error}{_next(match)}"]
    return [*said, f"  {match.remark}"] if match.remark else said


def _how(match: StateMatch) -> str:
    words = ""
    if match.map:
        factor = f", factor {match.scale:.4g}" if match.scale is not None else ""
        words += f", in a {match.map} basis{factor}"
    if match.shift:
        words += f", shifted: its row t is the target's row t{match.shift:+d}"
    return words


def _next(match: StateMatch) -> str:
    if match.next_boundary is None or match.next_error is None:
        return ""
    return f", next best {_brief(Tap(match.next_boundary, match.next_state))} at {match.next_error:.2g}"


def _brief(tap: Tap) -> str:
    return "the final norm" if tap.state == FINAL_NORM else f"boundary {tap.boundary}"
