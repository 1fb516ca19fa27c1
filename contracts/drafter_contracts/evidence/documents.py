"""Documents that say by numbers which layers a drafter was trained on: written by `drafters identify` and `evaluate`.

No tensor library is needed to read them: publishing with a document works where none is installed.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from drafter_contracts import limits
from drafter_contracts.errors import EvidenceError
from drafter_contracts.value_types import Boundary, GivenSha256, Sha256, Size, State

IDENTIFICATION: Literal["drafters.identification.v1"] = "drafters.identification.v1"
EVALUATION: Literal["drafters.evaluation.v1"] = "drafters.evaluation.v1"

#: A recorded state equals a state of the target within what its dtype loses, and nothing else comes near.
IDENTIFIED = "identified"
#: It does so after a scaling or a rotation: it says where it comes from, but the drafter reads another basis.
TRANSFORMED = "transformed"
#: It equals none of them, or cannot be told from another.
UNKNOWN = "unknown"


class SampleRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """A sample that was looked at.

    Attributes:
        name: File name, without its folder; with "#ENTRY" where a file holds several.
        sha256: Digest of the file.
        format: One of `drafter_contracts.values.records.FORMATS`.
        tokens: Tokens in it.
        compared: Tokens of it that were compared.
        dtype: Dtype of its states ("bfloat16").
        labels: Layer ids that files beside it claim, as they write them; empty if none do.
        label_source: Which file and key claim them.
    """

    name: str
    sha256: GivenSha256
    format: str
    tokens: Size
    compared: Size
    dtype: str
    labels: tuple[int, ...] = ()
    label_source: str = ""


class ReferenceRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What recorded states were compared with.

    Attributes:
        kind: The target was run here, or its states were read from a capture file.
        model: The target's name.
        revision: Commit of its repository, or "".
        sha256: Digest of the target's weight index (file names, sizes and digests of headers), or of the capture file.
        layers: Decoder layers.
        hidden_size: Width of the residual stream.
        vocab_size: Rows of the target's embedding; 0 if not known.
        dtype: Dtype in which it ran.
        made_with: "transformers 5.24.0, torch 2.13.0", or what a capture file says.
    """

    kind: Literal["target", "capture"]
    model: str = ""
    revision: str = ""
    sha256: Sha256 = ""
    layers: Size
    hidden_size: Size
    vocab_size: Size = 0
    dtype: str = ""
    made_with: str = ""

    def shown(self) -> str:
        """In one line: "ORG/NAME@REVISION, transformers 5.24.0, torch 2.13.0, bfloat16"."""
        name = f"{self.model}@{self.revision}" if self.revision else self.model
        return ", ".join(filter(None, (name, self.made_with, self.dtype)))


class TapError(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """How far a recorded state is from one of the reference's: relative error, estimated where it is far."""

    boundary: Boundary
    error: float
    state: State = "residual"


class StateMatch(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """One recorded state and what it was found to be.

    Attributes:
        number: Its place in the sample, from 0.
        found: `IDENTIFIED`, `TRANSFORMED` or `UNKNOWN`.
        boundary: The boundary whose state it is (or, unknown, the nearest: never to be taken for the answer).
        state: Which state was taken there.
        shift: Row t of the sample is row t + shift of the reference; 0 normally.
        map: How the sample's basis differs: "" not at all, "scaled", "rotated".
        scale: Factor of a scaled or rotated state.
        error: The figure that decides: relative error (norm of the difference over norm of the reference) of the median
            row, or of a row that is not of this state though the median row is.
        tolerance: What the dtypes explain; errors below it are the same state.
        next_boundary: The next best boundary.
        next_state: Which state of it.
        next_error: The error against it.
        reason: Why it is unknown, or "".
        settle: What would settle that, or "".
        remark: What a reader should know although it was found, or "".
        errors: Against every state of the reference, boundaries in ascending order, the final norm last.
    """

    number: Size
    found: Literal["identified", "transformed", "unknown"]
    boundary: Boundary | None = None
    state: State = "residual"
    shift: int = 0
    map: Literal["", "scaled", "rotated"] = ""
    scale: float | None = None
    error: float | None = None
    tolerance: float | None = None
    next_boundary: Boundary | None = None
    next_state: State = "residual"
    next_error: float | None = None
    reason: str = ""
    settle: str = ""
    remark: str = ""
    errors: tuple[TapError, ...] = ()


class Identification(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What `drafters identify` found.

    Attributes:
        schema: Name and version of this document.
        tool: What wrote it.
        created: When, ISO 8601, UTC.
        samples: The samples; all of them agree on what is said here.
        reference: What they were compared with.
        states: The states that feed `fc`, in the order in which the samples concatenate them.
        last: The target's last state recorded beside them, or None.
        verdict: "identified" if every one of `states` is, unshifted and in the target's own basis; else "unknown".
        boundaries: The layout that follows, in concatenation order; empty unless identified.
        contradictions: Where labels or a stated layout say something else, one sentence each.
        notes: What else a reader should know, one line each.
    """

    schema: Literal["drafters.identification.v1"]
    tool: str
    created: str
    samples: Annotated[tuple[SampleRecord, ...], msgspec.Meta(min_length=1)]
    reference: ReferenceRecord
    states: Annotated[tuple[StateMatch, ...], msgspec.Meta(max_length=limits.layout_max_taps)]
    last: StateMatch | None = None
    verdict: Literal["identified", "unknown"]
    boundaries: tuple[Boundary, ...] = ()
    contradictions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class LayoutScore(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """How a drafter did under one layout.

    Attributes:
        name: "stated", "tap 0 one lower", "order 2,1,0", ...
        boundaries: In concatenation order.
        states: State per boundary; empty means `residual` for all.
        steps: Per drafted token: how often the drafter's first choice was the target's, given the true tokens before.
        length: Expected tokens per step, the target's own token included: 1 + mean number of first choices that are
            right in a row.
        served: The same over those rows only from which an engine would draft that begins each step where the last
            one ended; 0 if not counted.
        deviation: Standard error of `length`.
        behind: Mean of this layout's accepted tokens less the stated one's, row by row; negative is worse.
        behind_deviation: Standard error of `behind`.
    """

    name: str
    boundaries: tuple[Boundary, ...]
    states: tuple[State, ...] = ()
    steps: tuple[float, ...]
    length: float
    served: float = 0.0
    deviation: float = 0.0
    behind: float = 0.0
    behind_deviation: float = 0.0


class Evaluation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What `drafters evaluate` found.

    Attributes:
        schema: Name and version of this document.
        tool: What wrote it.
        created: When, ISO 8601, UTC.
        drafter: The drafter's name or directory's name.
        weights_sha256: Digest of its weight files, see `weights_digest`.
        config_sha256: Digest of its config.json, which says how they are computed with; "" if not kept.
        method: Its method.
        samples: Where the tokens come from.
        reference: What gave the states and the target's own choices.
        rows: Positions drafted from.
        scores: The stated layout first, then the others, best first. Where none is stated, best first.
        recorded: On the states that the samples themselves hold, whichever they are (`boundaries` is empty); None if
            they do not fit the drafter.
        verdict: "stated": none is better, and none comes near that a confusion of numberings or orders makes; "other":
            another is better by more than chance; "unknown".
        reason: The verdict in one sentence.
        notes: What else a reader should know, one line each.
    """

    schema: Literal["drafters.evaluation.v1"]
    tool: str
    created: str
    drafter: str
    weights_sha256: GivenSha256
    config_sha256: Sha256 = ""
    method: str
    samples: Annotated[tuple[SampleRecord, ...], msgspec.Meta(min_length=1)]
    reference: ReferenceRecord
    rows: Size
    scores: Annotated[tuple[LayoutScore, ...], msgspec.Meta(min_length=1)]
    recorded: LayoutScore | None = None
    verdict: Literal["stated", "other", "unknown"]
    reason: str = ""
    notes: tuple[str, ...] = ()


class _Named(msgspec.Struct):
    schema: str = ""


def decode(data: bytes, *, where: str) -> Identification | Evaluation:
    """A document of evidence from its JSON bytes; which one, its `schema` says.

    Args:
        data: The document.
        where: File name, for errors.

    Raises:
        EvidenceError: Too large, not JSON, of another schema, or with a wrong or unknown field.
    """
    if len(data) > limits.evidence_max_bytes:
        size = f"{len(data)} bytes"
        expected = f"at most {limits.evidence_max_bytes} bytes"
        raise EvidenceError("the document is too large", where=where, expected=expected, actual=size)
    try:
        name = msgspec.json.decode(data, type=_Named).schema
        if name == IDENTIFICATION:
            return msgspec.json.decode(data, type=Identification)
        if name == EVALUATION:
            return msgspec.json.decode(data, type=Evaluation)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise EvidenceError("not a document of evidence", where=where, actual=str(error)) from None
    expected, where = f"{IDENTIFICATION} or {EVALUATION}", f"{where}: schema"
    raise EvidenceError("not a document of evidence", where=where, expected=expected, actual=name or "none")


def encode(document: Identification | Evaluation) -> bytes:
    """The document's JSON bytes, indented, with a final line end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def weights_digest(files: dict[str, str]) -> str:
    """Digest of a drafter's weights: sha256 over "PATH SHA256" lines of its weight files, sorted by path.

    Args:
        files: Path to sha256 (hex) of every file that ends in ".safetensors".
    """
    import hashlib

    lines = "".join(f"{path} {sha256}\n" for path, sha256 in sorted(files.items()) if path.endswith(".safetensors"))
    return hashlib.sha256(lines.encode()).hexdigest()
