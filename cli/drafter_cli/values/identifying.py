"""Samples of recorded states identified: each is compared with the reference, and all must agree."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import msgspec

from drafter_cli.values.reference_of import Reference, captures_of
from drafter_contracts.errors import SampleError
from drafter_contracts.evidence.documents import (
    IDENTIFICATION,
    IDENTIFIED,
    UNKNOWN,
    Identification,
    SampleRecord,
    StateMatch,
)
from drafter_contracts.evidence.given import identified_taps, why_unsettled
from drafter_contracts.evidence.labels import OUTPUT_IDS, Labels, hold, tap_of
from drafter_contracts.layout import CaptureLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    import torch

    from drafter_contracts.values.records import Capture, Sample

#: Samples that are compared, if no option says it: a folder may hold a hundred thousand.
MOST = 8
#: Formats whose own labels have one meaning (docs/numberings.md); those of the others are read both ways.
_NUMBERED = {"deepspec cache": OUTPUT_IDS}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be identified, beside the samples.

    Attributes:
        entry: Only the sample of this name, where a file holds several.
        most: Most samples.
        last_is_tap: The last of the states feeds `fc`, also where it looks like the target's last state.
        stated: Layers that somebody states, to be held against what is found.
    """

    entry: str = ""
    most: int = MOST
    last_is_tap: bool = False
    stated: tuple[Labels, ...] = ()


@dataclass(frozen=True)
class _Found:
    """What one sample was found to hold: where it lies, its record, the states that feed `fc`, the last state."""

    path: str
    record: SampleRecord
    states: tuple[StateMatch, ...]
    last: StateMatch | None
    notes: tuple[str, ...]


def identify_files(paths: Sequence[str], reference: Reference, wanted: Wanted | None = None) -> Identification:
    """Identify the recorded states of files or folders.

    Args:
        paths: Files, folders or caches, as `read_samples` takes them.
        reference: What they are compared with.
        wanted: What else is asked.

    Raises:
        SampleError: A sample that cannot be read or that holds no states, or samples of different kinds.
        CaptureError: The target does not run here, or no capture is of a sample's tokens.
        UsageError: The target is not on this machine.
    """
    wanted = wanted or Wanted()
    samples, more = _read(paths, wanted)
    captures = captures_of(reference, samples)
    found = [_identify(sample, capture, wanted) for sample, capture in zip(samples, captures, strict=True)]
    notes = tuple(dict.fromkeys(note for one in found for note in one.notes))
    cut = (_cut(sample, capture, reference.limit) for sample, capture in zip(samples, captures, strict=True))
    notes += tuple(filter(None, cut))
    if more:
        notes = (*notes, f"the first {len(samples)} samples were compared, there are more (--most)")
    return _held(_document(found, captures, notes), samples, wanted)


def _read(paths: Sequence[str], wanted: Wanted) -> tuple[list[Sample], bool]:
    """The samples that are compared, and whether there are more."""
    from drafter_contracts.values.samples import read_samples

    every = (sample for path in paths for sample in read_samples(path, entry=wanted.entry))
    samples = list(islice(every, wanted.most + 1))
    return samples[: wanted.most], len(samples) > wanted.most


def _identify(sample: Sample, capture: Capture, wanted: Wanted) -> _Found:
    from drafter_contracts.values.matching import match_states
    from drafter_contracts.values.samples import check_states, file_sha256

    rows = len(capture.tokens)
    states = [state[:rows] for state in sample.split(capture.record.hidden_size)]
    feeding = len(states)
    if sample.last is not None:
        states.append(sample.last[:rows])
    check_states(states[:feeding], sample.path, tokens=capture.tokens)
    check_states(states[feeding:], f"{sample.path}: last state", tokens=capture.tokens)  # may be one that feeds fc too
    matches = match_states(states, capture.tokens, capture)
    feeds, last, notes = _apart(sample, matches[:feeding], matches[feeding:], capture.record.layers, wanted)
    record = SampleRecord(
        name=_name(sample),
        sha256=file_sha256(sample.path),
        format=sample.format,
        tokens=len(sample.tokens),
        compared=rows,
        dtype=_dtype(sample.dtype),
        labels=sample.labels,
        label_source=sample.label_source,
    )
    return _Found(sample.path, record, feeds, last, notes)


def _apart(
    sample: Sample,
    feeding: tuple[StateMatch, ...],
    beside: tuple[StateMatch, ...],
    layers: int,
    wanted: Wanted,
) -> tuple[tuple[StateMatch, ...], StateMatch | None, tuple[str, ...]]:
    """The states that feed `fc`, the last state, and what was assumed to tell them apart."""
    last, notes = (beside[0], _norm_note(sample, beside[0])) if beside else (None, ())
    inside = feeding[-1]
    if not sample.last_may_be_inside or len(feeding) == 1:
        return feeding, last, notes
    at_the_end = (tap := tap_of(inside)) is not None and tap.boundary == layers
    counted = any(len(one.ids) == len(feeding) for one in wanted.stated)  # whoever states the layers counts them
    if not at_the_end or wanted.last_is_tap or counted:
        return feeding, last, notes
    note = (
        f"recorded #{inside.number} is taken for the target's last state, which such files hold beside those that feed"
        " fc and do not mark; --last-is-tap says that it feeds fc too"
    )
    return feeding[:-1], last or inside, (*notes, note)


def _norm_note(sample: Sample, last: StateMatch) -> tuple[str, ...]:
    """That a last state is not what its format promises: a drafter trained on it learns from wrong targets."""
    tap = tap_of(last)
    if tap is None or not sample.last_norm or tap.state == sample.last_norm:
        return ()
    promised = "after the final norm" if sample.last_norm == "final_norm" else "before the final norm"
    return (f"{sample.format} keeps the last state {promised}, and this one is {tap.label()}",)


def _document(found: list[_Found], captures: Sequence[Capture], notes: tuple[str, ...]) -> Identification:
    counts = {len(one.states): one.path for one in found}
    if len(counts) > 1:
        told = ", ".join(f"{count} in {path}" for count, path in counts.items())
        raise SampleError("the samples do not hold the same number of states that feed fc", actual=told)
    states = tuple(_together(column, found) for column in zip(*(one.states for one in found), strict=True))
    lasts = [one.last for one in found if one.last is not None]
    settled = all(match.found == IDENTIFIED and not why_unsettled(match) for match in states)
    document = Identification(
        schema=IDENTIFICATION,
        tool=_tool(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        samples=tuple(one.record for one in found),
        reference=captures[0].record,
        states=states,
        last=_together(tuple(lasts), found) if len(lasts) == len(found) else None,
        verdict="identified" if settled else "unknown",
        notes=notes,
    )
    if not settled:
        return document
    layout = CaptureLayout(identified_taps(document))
    if not layout.ascending:
        order = "the states are not concatenated in ascending layer order, as engines do it"
        document = msgspec.structs.replace(document, notes=(*notes, order))
    return msgspec.structs.replace(document, boundaries=layout.boundaries)


def _together(matches: tuple[StateMatch, ...], found: Sequence[_Found]) -> StateMatch:
    """One state as all samples show it: the weakest speaks for all, and a disagreement is unknown.

    A sample that cannot tell it from others, as its text repeats itself or is short, agrees with all that it may be.
    """
    telling = [match for match in matches if not _undecided(match)]
    weakest = max(telling or matches, key=_weakness)
    if len({_meaning(match) for match in telling or matches}) == 1:
        silent = [one.path for one, match in zip(found, matches, strict=True) if _undecided(match)]
        if not telling or not silent:
            return weakest
        if all(_may_be(match, weakest) for match in matches):
            remark = f"{', '.join(silent)} alone would not tell it from others, and agrees"
            return msgspec.structs.replace(weakest, remark="; ".join(filter(None, (weakest.remark, remark))))
    named = [f"{one.path}: {_short(match)}" for one, match in zip(found, matches, strict=True)]
    return msgspec.structs.replace(
        weakest,
        found=UNKNOWN,
        reason=f"the samples disagree: {'; '.join(named)}",
        settle="identify each sample alone, and leave out what was recorded otherwise",
    )


def _undecided(match: StateMatch) -> bool:
    """Whether a state is unknown because several of the target's lie within its tolerance, not because none does."""
    known = match.error is not None and match.tolerance is not None
    return match.found == UNKNOWN and known and float(match.error or 0) <= float(match.tolerance or 0)


def _may_be(match: StateMatch, other: StateMatch) -> bool:
    """Whether a state that is undecided lies within its tolerance of what another sample's is."""
    if not _undecided(match):
        return True
    if (match.boundary, match.state, match.shift) == (other.boundary, other.state, other.shift):
        return True
    near = {(one.boundary, one.state) for one in match.errors if one.error <= float(match.tolerance or 0)}
    return not other.shift and (other.boundary, other.state) in near


def _meaning(match: StateMatch) -> tuple[object, ...]:
    return (match.found, tap_of(match), match.shift, match.map) if match.found != UNKNOWN else (UNKNOWN,)


def _weakness(match: StateMatch) -> float:
    """Its error in tolerances: one that is not known is the weakest."""
    if match.found == UNKNOWN or match.error is None or not match.tolerance:
        return float("inf")
    return match.error / match.tolerance


def _short(match: StateMatch) -> str:
    tap = tap_of(match)
    how: list[str] = [match.map] if match.map else []
    how += [f"shifted by {match.shift:+d}"] if match.shift else []
    return ", ".join([tap.label(), *how]) if tap is not None else f"unknown, {match.reason}"


def _held(document: Identification, samples: Sequence[Sample], wanted: Wanted) -> Identification:
    """The document with what labels and statements come to."""
    beside = {
        (sample.labels, sample.label_source): Labels(
            ids=sample.labels, source=sample.label_source, numbering=_NUMBERED.get(sample.format, "")
        )
        for sample in samples
        if sample.labels
    }
    held = [hold(labels, document) for labels in (*beside.values(), *wanted.stated)]
    return msgspec.structs.replace(
        document,
        contradictions=tuple(text for one in held for text in one.contradictions),
        notes=(*document.notes, *(one.agreed for one in held if one.agreed)),
    )


def _cut(sample: Sample, capture: Capture, limit: int) -> str:
    """That a capture ended, or was of another text, before the sample was compared as far as was asked for."""
    wanted = min(limit, len(sample.tokens))
    if len(capture.tokens) == wanted:
        return ""
    return f"{_name(sample)}: the first {len(capture.tokens)} of {wanted} tokens were compared, the capture has no more"


def _name(sample: Sample) -> str:
    name = os.path.basename(os.path.normpath(sample.path))
    return f"{name}#{sample.entry}" if sample.entry else name


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _tool() -> str:
    from drafter_cli.main import version

    return f"drafters/{version()}"
