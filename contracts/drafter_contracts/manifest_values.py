"""What a manifest keeps of evidence by values: identified layers, evaluated layouts, and the fingerprint of the taps.

Small: the whole documents (`drafter_contracts.evidence`) stay with whoever made them, and are named by their digest.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from drafter_contracts import limits
from drafter_contracts.value_types import Boundary, GivenSha256, Sha256, Size, State


class IdentifiedTap(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """One recorded state and what it equals.

    Attributes:
        boundary: The boundary of the target whose state it is.
        state: Which state was taken there.
        error: Relative error against it: norm of the difference over norm of the reference, 0 to 1 and above.
        next_boundary: The boundary whose state comes next.
        next_state: Which state of it.
        next_error: The error against that.
    """

    boundary: Boundary
    error: Annotated[float, msgspec.Meta(ge=0)]
    state: State = "residual"
    next_boundary: Boundary | None = None
    next_state: State = "residual"
    next_error: Annotated[float, msgspec.Meta(ge=0)] | None = None


class IdentifiedRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The layers that the training data holds, told by comparing a sample's numbers with the target's own states.

    Attributes:
        taps: In the order in which the sample concatenates them.
        tokens: Tokens compared.
        dtype: Dtype of the sample's states.
        sample_sha256: Digest of the sample's file.
        sample_format: Its format.
        reference: What it was compared with: "ORG/NAME@REVISION, transformers 5.24.0, bfloat16".
        reference_sha256: Digest of the target's weight index, or of the capture file.
        document_sha256: Digest of the whole document that says so.
        tool: What wrote it.
    """

    taps: Annotated[tuple[IdentifiedTap, ...], msgspec.Meta(min_length=1, max_length=limits.layout_max_taps)]
    tokens: Size
    dtype: str = ""
    sample_sha256: GivenSha256
    sample_format: str = ""
    reference: str = ""
    reference_sha256: Sha256 = ""
    document_sha256: Sha256 = ""
    tool: str = ""


class EvaluatedLayout(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Teacher-forced acceptance under one layout.

    Attributes:
        boundaries: In concatenation order.
        states: State per boundary; empty means `residual` for all.
        length: Expected tokens per step, the target's own token included.
        steps: Acceptance per drafted token, 0 to 1, given the true tokens before it.
        behind_deviation: Standard error of this length's difference from the stated layout's; 0 for that one itself.
    """

    boundaries: tuple[Boundary, ...]
    length: Annotated[float, msgspec.Meta(ge=1)]
    states: tuple[State, ...] = ()
    steps: tuple[Annotated[float, msgspec.Meta(ge=0, le=1)], ...] = ()
    behind_deviation: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class EvaluatedRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """How well the drafter drafts on recorded states under the stated layout, and under the best other one.

    Attributes:
        stated: The stated layout.
        next_best: The best of the others that were tried.
        tried: Layouts tried, the stated one included.
        rows: Positions drafted from.
        weights_sha256: Digest of the drafter's weight files, see `evidence.weights_digest`.
        config_sha256: Digest of the config.json that was run; "" if not kept.
        reference: What gave the states.
        document_sha256: Digest of the whole document that says so.
        tool: What wrote it.
    """

    stated: EvaluatedLayout
    next_best: EvaluatedLayout | None = None
    tried: Size
    rows: Size
    weights_sha256: GivenSha256
    config_sha256: Sha256 = ""
    reference: str = ""
    document_sha256: Sha256 = ""
    tool: str = ""


class TapFingerprint(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The states of one tap on the probe, reduced to a few numbers per token (docs/fingerprint.md has the exact rule).

    Attributes:
        boundary: The tap's boundary.
        state: Which state was taken there.
        norms: Euclidean norm per probe token.
        first: First five elements per probe token.
        projection: Random projection per probe token, [tokens, 64] little-endian float32, base64.
    """

    boundary: Boundary
    state: State = "residual"
    norms: tuple[float, ...]
    first: tuple[tuple[float, ...], ...]
    projection: str


class FingerprintRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """What the target's states are on a fixed probe, so that any engine can be asked whether it feeds the same ones.

    Attributes:
        spec: Name and version of the rule by which the numbers were made.
        tokens: The probe: token ids.
        taps: One per tap of the layout, in ascending layer order.
        landmarks: The projection of the last probe token's state at every boundary and after the final norm,
            [layers + 2, 64] little-endian float32, base64: tells which other layer a wrong state resembles.
        layers: The target's decoder layers.
        width: Width of the states.
        dtype: Dtype in which the target ran.
        made_with: "transformers 5.24.0, torch 2.13.0".
        reference_sha256: Digest of the target's weight index, or of the capture file.
    """

    spec: Literal["drafters.fingerprint.v1"]
    tokens: Annotated[tuple[Size, ...], msgspec.Meta(min_length=1, max_length=limits.probe_max_tokens)]
    taps: Annotated[tuple[TapFingerprint, ...], msgspec.Meta(min_length=1, max_length=limits.layout_max_taps)]
    landmarks: str = ""
    layers: Size
    width: Size
    dtype: str = ""
    made_with: str = ""
    reference_sha256: Sha256 = ""
