"""What recorded states are compared with: a target that is run here, or captures that were recorded elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from drafter_cli.commandline import Option, Parsed
from drafter_cli.errors import UsageError
from drafter_cli.words import number
from drafter_contracts import hub_cache
from drafter_contracts.errors import CaptureError

if TYPE_CHECKING:
    import torch

    from drafter_contracts.values.records import Capture, Sample
    from drafter_contracts.values.targets import Target

#: Tokens of a sample that are compared, if no option says it.
LIMIT = 512
#: Tokens that a capture and a sample have in common at least, if their texts part: fewer are a greeting, not a text.
LEAST_COMMON = 16
DTYPES = ("auto", "float32", "bfloat16", "float16")

#: Which reference is meant, for every command that compares with one.
OPTIONS = (
    Option("--target", "directory or Hub id of the target: it is run on the samples' tokens", "PATH"),
    Option("--target-revision", "commit of a target in this machine's Hub cache", "COMMIT"),
    Option("--reference", "instead of a target: captures of one (see drafters capture)", "CAPTURE...", many=True),
    Option("--dtype", "run the target in this dtype; default: as the states were recorded", "DTYPE", choices=DTYPES),
    Option("--device", "run the target there; default: cpu", "DEVICE"),
    Option("--limit", f"compare so many tokens of each sample, from its beginning; default: {LIMIT}", "N"),
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What is compared with.

    Attributes:
        target: Directory or Hub id of a target, or "".
        revision: Commit of it in the Hub cache, or "".
        captures: Capture files, if there is no target.
        dtype: One of `DTYPES`, or "" for as recorded.
        device: Torch's name of a device.
        limit: Most tokens of a sample.
    """

    target: str = ""
    revision: str = ""
    captures: tuple[str, ...] = ()
    dtype: str = ""
    device: str = "cpu"
    limit: int = LIMIT


def reference_of(parsed: Parsed) -> Reference:
    """What `OPTIONS` say.

    Raises:
        UsageError: Neither a target nor captures, or both; a number that is none.
    """
    target, captures = parsed.value("--target"), parsed.many("--reference")
    if bool(target) == bool(captures):
        raise UsageError(
            "--target and --reference state the same thing" if target else "nothing to compare with",
            "give --target, the target's directory, or --reference, captures of one",
        )
    return Reference(
        target=target,
        revision=parsed.value("--target-revision"),
        captures=captures,
        dtype=parsed.value("--dtype"),
        device=parsed.value("--device") or "cpu",
        limit=number("--limit", parsed.value("--limit")) if parsed.has("--limit") else LIMIT,
    )


def captures_for(parsed: Parsed, samples: Sequence[Sample]) -> tuple[Capture, ...]:
    """The target's own states on the beginning of each sample.

    Args:
        parsed: A command line with `OPTIONS`.
        samples: The samples.

    Returns:
        One per sample. Its tokens are the first `limit` of the sample's, or as many as the capture file has.

    Raises:
        UsageError: See `reference_of`; or the target is not on this machine.
        CaptureError: The target does not run here, or no capture is of a sample's tokens.
    """
    return captures_of(reference_of(parsed), samples)


def captures_of(reference: Reference, samples: Sequence[Sample], opened: Sequence[Capture] = ()) -> tuple[Capture, ...]:
    """As `captures_for`, of a reference that is known already; `opened` are its capture files, read before."""
    if reference.target:
        return _run(reference, samples)
    captures = opened or open_captures(reference)
    return tuple(_recorded(reference, captures, sample) for sample in samples)


def open_captures(reference: Reference) -> tuple[Capture, ...]:
    """The reference's capture files, each hashed once: for samples that come one by one.

    Raises:
        CaptureError: A file that is none.
    """
    from drafter_contracts.values.captures import read_capture

    return tuple(read_capture(path) for path in reference.captures)


def recorded_dtype(states: Sequence[torch.Tensor]) -> str:
    """The dtype in which states were computed, as far as their values tell: half precision is often kept as float32.

    Args:
        states: Floating point tensors of one dtype, any shape.

    Returns:
        "float32", "bfloat16", "float16"; "auto" for a dtype in which no target runs, such as float8.
    """
    from drafter_contracts.values.matching.roundoff import UNIT, stored_dtype

    # Some states need no more bits than the weights have: the finest of them was computed with all.
    finest = min((stored_dtype(state) for state in states), key=UNIT.__getitem__)
    name = str(finest).removeprefix("torch.")
    return name if name in DTYPES else "auto"


def _run(reference: Reference, samples: Sequence[Sample]) -> tuple[Capture, ...]:
    """Each sample's capture, in the dtype in which its states were recorded."""
    directory = hub_cache.find(reference.target, reference.revision)
    if directory is None:
        raise UsageError(
            f"{reference.target} is neither a directory nor in this machine's Hub cache",
            "give the target's directory, or --reference with captures of it that were recorded elsewhere",
        )
    captures = []
    for sample in samples:
        dtype = reference.dtype or recorded_dtype([block[: reference.limit] for block in sample.blocks])
        captures.append(_opened(directory, dtype, reference.device).run(sample.tokens[: reference.limit]))
    return tuple(captures)


@lru_cache(maxsize=1)
def _opened(directory: str, dtype: str, device: str) -> Target:
    """A target is loaded once for all samples of one dtype, though they come one by one."""
    from drafter_contracts.values.targets import open_target

    return open_target(directory, dtype=dtype, device=device)


def _recorded(reference: Reference, captures: Sequence[Capture], sample: Sample) -> Capture:
    """The capture that begins with most of the sample's tokens, and no more of it: a state follows from all before.

    A capture of another text that begins with the same few tokens says nothing of the rows after these.
    """
    tokens = sample.tokens[: reference.limit]
    common = [_common(capture.tokens, tokens) for capture in captures]
    best = max(range(len(captures)), key=lambda at: common[at])
    length, capture = common[best], captures[best]
    if length < min(LEAST_COMMON, len(tokens), len(capture.tokens)):
        raise CaptureError(
            "no capture is of this sample's tokens",
            where=sample.path,
            expected=f"a capture whose tokens begin with {tokens[:8].tolist()}",
            actual="; ".join(str(one.tokens[:8].tolist()) for one in captures[:4]),
        )
    states = {tap: state[:length] for tap, state in capture.states.items()}
    choices = None if capture.choices is None else capture.choices[:length]
    return replace(capture, tokens=capture.tokens[:length], states=states, choices=choices)


def _common(ours: torch.Tensor, theirs: torch.Tensor) -> int:
    """How many tokens two sequences begin with alike."""
    length = min(len(ours), len(theirs))
    differs = (ours[:length] != theirs[:length]).nonzero()
    return int(differs[0]) if len(differs) else length
