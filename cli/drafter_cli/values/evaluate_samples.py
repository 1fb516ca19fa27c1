"""The samples of `drafters evaluate`: passages one after another, and a record of what they were."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drafter_cli.errors import UsageError
from drafter_cli.terminal import printable, write
from drafter_cli.values.reference_of import Reference, captures_of, open_captures
from drafter_contracts.errors import SampleError
from drafter_contracts.evidence.documents import ReferenceRecord, SampleRecord

if TYPE_CHECKING:
    import torch

    from drafter_contracts.values.acceptance import Passage
    from drafter_contracts.values.records import Capture, Sample

#: Rows that are enough, if no option says it: a folder of training data may hold a thousand times as many.
ROWS = 20_000
_LEFT_OUT = "the samples' own states are left out"


@dataclass
class Source:
    """Passages of samples, one in memory at a time; afterwards, what they were.

    Attributes:
        paths: Files and folders of recorded states.
        reference: What gives the target's states.
        taps: States that the drafter reads.
        steps: Tokens drafted per step.
        masked: Only rows that the samples' own masks include count.
        enough: Rows after which no further sample is looked at.
        samples: Filled while they are read.
        record: What the reference is, once one was read.
        notes: What a reader should know of them.
    """

    paths: tuple[str, ...]
    reference: Reference
    taps: int
    steps: int
    masked: bool
    enough: int = ROWS
    samples: list[SampleRecord] = field(default_factory=list)
    record: ReferenceRecord | None = None
    notes: list[str] = field(default_factory=list)
    _digests: dict[str, str] = field(default_factory=dict)
    _opened: tuple[Capture, ...] = ()
    _texts: set[tuple[int, ...]] = field(default_factory=set)
    _again: list[str] = field(default_factory=list)

    def passages(self) -> Iterator[Passage]:
        """Read them.

        Raises:
            SampleError: A file that cannot be read, or holds no states.
            CaptureError: The reference does not go with a sample.
            UsageError: `--masked`, and a sample without a mask.
        """
        from drafter_contracts.values.samples import read_samples

        self._opened = open_captures(self.reference)
        rows = 0
        for path in self.paths:
            for sample in read_samples(path):
                if rows >= self.enough:
                    self.notes.append(f"{rows} rows are enough (--rows): further samples were not looked at")
                    return
                if self._is_again(sample):
                    continue
                passage = self._passage(sample)
                rows += int(passage.counted(self.steps).sum())
                yield passage

    def _is_again(self, sample: Sample) -> bool:
        """Whether its tokens were drafted in already: twice the same rows are no more evidence than once."""
        text = tuple(sample.tokens[: self.reference.limit].tolist())
        if text not in self._texts:
            self._texts.add(text)
            return False
        if self._again:
            self.notes.pop(self.notes.index(self._said_again()))
        self._again.append(_name(sample))
        self.notes.append(self._said_again())
        return True

    def _said_again(self) -> str:
        more = f" and {len(self._again) - 1} more" if len(self._again) > 1 else ""
        return f"samples that hold the tokens of another one are not counted again: {self._again[0]}{more}"

    def _passage(self, sample: Sample) -> Passage:
        from drafter_contracts.values.acceptance import Passage

        (capture,) = captures_of(self.reference, [sample], self._opened)
        self.record = self.record or capture.record
        length = len(capture.tokens)
        self.samples.append(self._sample_record(sample, length))
        write(f"{printable(self.samples[-1].name)}: {length} of {len(sample.tokens)} tokens", to_stderr=True)
        mask = None
        if self.masked:
            if sample.loss_mask is None:
                raise UsageError(f"{sample.path} holds no loss mask", "leave out --masked: all rows count then")
            mask = sample.loss_mask[:length]
        return Passage(capture=capture, recorded=self._recorded(sample, capture), mask=mask)

    def _recorded(self, sample: Sample, capture: Capture) -> tuple[torch.Tensor, ...] | None:
        from drafter_contracts.values.samples import check_states

        name = self.samples[-1].name
        try:
            states = sample.split(capture.record.hidden_size)
        except SampleError as error:
            self._leave_out(f"{name}: {error.diagnostics()}")
            return None
        if len(states) == self.taps + 1 and sample.last_may_be_inside:
            states = states[:-1]
        if len(states) != self.taps:
            self._leave_out(f"{name} holds {len(states)} states, and the drafter's fc reads {self.taps}")
            return None
        states = tuple(state[: len(capture.tokens)] for state in states)
        check_states(states, sample.path, tokens=capture.tokens)
        return states

    def _leave_out(self, why: str) -> None:
        if not any(one.startswith(_LEFT_OUT) for one in self.notes):
            self.notes.append(f"{_LEFT_OUT}: {why}")

    def _sample_record(self, sample: Sample, compared: int) -> SampleRecord:
        from drafter_contracts.values.samples import file_sha256

        if sample.path not in self._digests:
            self._digests[sample.path] = file_sha256(sample.path)
        return SampleRecord(
            name=_name(sample),
            sha256=self._digests[sample.path],
            format=sample.format,
            tokens=len(sample.tokens),
            compared=compared,
            dtype=str(sample.dtype).removeprefix("torch."),
            labels=sample.labels,
            label_source=sample.label_source,
        )


def _name(sample: Sample) -> str:
    name = os.path.basename(sample.path.rstrip(os.sep))
    return f"{name}#{sample.entry}" if sample.entry else name
