"""The parts of a manifest. Every class here refuses unknown fields: a misspelt key must not turn a requirement off.

None or empty means: not recorded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from drafter_contracts import limits
from drafter_contracts.manifest_values import EvaluatedRecord, IdentifiedRecord
from drafter_contracts.value_types import Boundary, Count, GivenSha256, Sha256, Size, State

Owner = Literal["", "own", "target"]
Norm = Literal["none", "concatenation", "per_chunk"]
KnownBy = Literal["", "declared", "producer rule", "identified by values"]
Mapping = Literal["", "none", "offset", "absolute"]


class TargetRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The target that the drafter was trained for.

    Attributes:
        model: Name, normally a Hub id.
        revision: Commit of the target's repository.
        architecture: `architectures[0]` of its config.
        model_type: `model_type` of its config.
        text_model_type: That of its language model's own config, where there is one.
        layers: Decoder layers.
        hidden_size: Width of its residual stream.
        vocab_size: Rows of its embedding.
        tokenizer_sha256: Digest of its tokenizer.json.
        context_length: Positions that engines derive from its config, tokens.
    """

    model: str = ""
    revision: str = ""
    architecture: str = ""
    model_type: str = ""
    text_model_type: str = ""
    layers: Count | None = None
    hidden_size: Count | None = None
    vocab_size: Count | None = None
    tokenizer_sha256: Sha256 = ""
    context_length: Count | None = None


class StatedIds(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The ids as the producer wrote them, before anybody converted them.

    Attributes:
        key: Config key or option they came from.
        values: The numbers.
        numbering: Name of the numbering they are in.
        producer: Tool and version that wrote them.
    """

    key: str = ""
    values: tuple[int, ...] = ()
    numbering: str = ""
    producer: str = ""


class LayoutRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The capture layout that the drafter was trained on.

    Attributes:
        boundaries: In concatenation order; 0 is the embedding output, N the last layer's output before the final norm.
        states: State per boundary; empty means `residual` for all.
        widths: Width per boundary; empty means the target's hidden size for all.
        norm: Norm between the concatenation and `fc`.
        output_ids: The same taps as output ids; if given, they must be the boundaries less one.
        fc_input_width: Columns of `fc.weight`; if given with widths, it must be their sum.
        stated: The producer's own numbers.
        known_by: How the layout is known.
        evidence: The same in words, one line each.
        identified: Which layers the training data holds, told by their numbers.
        evaluated: How the drafter's own acceptance on recorded states compares between layouts.
    """

    boundaries: Annotated[tuple[Boundary, ...], msgspec.Meta(min_length=1, max_length=limits.layout_max_taps)]
    states: tuple[State, ...] = ()
    widths: tuple[Count, ...] = ()
    norm: Norm = "none"
    output_ids: tuple[int, ...] = ()
    fc_input_width: Count | None = None
    stated: StatedIds | None = None
    known_by: KnownBy = ""
    evidence: tuple[str, ...] = ()
    identified: IdentifiedRecord | None = None
    evaluated: EvaluatedRecord | None = None


class DraftRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Facts of the drafter that decide whether it can be served. None or empty: not recorded.

    Attributes:
        vocab_size: Draft vocabulary.
        embeddings: Whose embeddings it was trained with.
        lm_head: Whose head it was trained with.
        trained_context: Longest context trained on, tokens.
        rope_theta: RoPE base actually trained with.
        dtype: Dtype it must run in.
        block_size: Block size trained with (parallel drafters), or steps unrolled in training.
        norm_output: The recycled state is the normed one.
        norm_before_residual: The residual is fed by the normed state.
        thinking_mode: Chat mode trained on: "on", "off", "both", or free text.
        rotated: Trained on a rotated residual basis.
        architecture: `architectures[0]` of its config.
        hidden_size: Its own width.
        layers: Its decoder layers, by the tensors that are there.
        target_vocab_size: `vocab_size` of its config: the target's vocabulary that it maps to.
        vocab_mapping: How draft tokens become target tokens: "offset" (target = i + d2t[i]), "absolute", or "none"
            (the vocabularies are one).
        has_embedding: An embedding tensor is in the checkpoint.
        has_lm_head: A head tensor is in the checkpoint.
        context_length: `max_position_embeddings` of its config, tokens.
        rope_scaling: RoPE scaling of its config.
        weights_dtype: Dtype of its weights.
        quantization: Method of its `quantization_config`.
        attention: "mha" or "mla".
        mask_token_id: Of parallel drafters.
    """

    vocab_size: Count | None = None
    embeddings: Owner = ""
    lm_head: Owner = ""
    trained_context: Count | None = None
    rope_theta: float | None = None
    dtype: str = ""
    block_size: Count | None = None
    norm_output: bool | None = None
    norm_before_residual: bool | None = None
    thinking_mode: str = ""
    rotated: bool | None = None
    architecture: str = ""
    hidden_size: Count | None = None
    layers: Count | None = None
    target_vocab_size: Count | None = None
    vocab_mapping: Mapping = ""
    has_embedding: bool | None = None
    has_lm_head: bool | None = None
    context_length: Count | None = None
    rope_scaling: dict[str, Any] | None = None
    weights_dtype: str = ""
    quantization: str = ""
    attention: str = ""
    mask_token_id: int | None = None


class Recommended(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Speculative arguments that the producer recommends.

    Attributes:
        steps: SGLang's `--speculative-num-steps`.
        topk: SGLang's `--speculative-eagle-topk`.
        draft_tokens: SGLang's `--speculative-num-draft-tokens`, the root included.
        speculative_tokens: Drafted tokens, the root not counted (vLLM's K); portable between engines.
    """

    steps: Count | None = None
    topk: Count | None = None
    draft_tokens: Count | None = None
    speculative_tokens: Count | None = None


class Acceptance(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """An acceptance that somebody measured: what the drafter is promised to do under these conditions.

    Attributes:
        length: Mean accepted length per step, tokens, the target's own token included.
        dataset: What was generated: a dataset's or a workload's name.
        engine: Engine and version, "sglang 0.5.23".
        steps: `--speculative-num-steps` in force.
        topk: `--speculative-eagle-topk` in force.
        draft_tokens: `--speculative-num-draft-tokens` in force.
        notes: Hardware, anything else.
        positions: Share of steps in which at least the first, second, ... drafted token was accepted: never rising, and
            for one chain of drafts their sum is the length less 1.
        target_revision: Commit of the target's repository.
        target_dtype: Dtype in which the target ran.
        target_quantization: Its quantisation.
        temperature: Sampling temperature; 0 is greedy.
        tokens: Tokens generated and counted.
        verify_steps: Verify steps counted.
        date: When, ISO 8601.
        measured: How: by a real engine, by a benchmark that reports it, or teacher-forced on recorded states.
    """

    length: Annotated[float, msgspec.Meta(ge=1)]
    dataset: str = ""
    engine: str = ""
    steps: Count | None = None
    topk: Count | None = None
    draft_tokens: Count | None = None
    notes: str = ""
    positions: Annotated[tuple[Annotated[float, msgspec.Meta(ge=0, le=1)], ...], msgspec.Meta(max_length=256)] = ()
    target_revision: str = ""
    target_dtype: str = ""
    target_quantization: str = ""
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    tokens: Size | None = None
    verify_steps: Size | None = None
    date: str = ""
    measured: Literal["", "engine", "benchmark", "teacher-forced"] = ""


class FileRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """One file of the drafter.

    Attributes:
        path: Relative, with "/" between folders.
        size: Bytes.
        sha256: Of its bytes, 64 hex digits.
        elsewhere: Where the bytes are if the registry does not keep them ("hf://ORG/REPO@COMMIT/PATH"); else "".
        header_sha256: With `elsewhere`: digest of the file's own first bytes (a safetensors header with its length),
            which the registry keeps.
    """

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    size: Size
    sha256: GivenSha256
    elsewhere: str = ""
    header_sha256: Sha256 = ""


class RenderRecord(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Says that these files are no published version but one, made ready for an engine release.

    Attributes:
        of: Digest of the version's manifest, "sha256:...".
        engine: "sglang 0.5.23".
        order: Order in which the blocks of the version's `fc` lie here; empty for its own.
        changes: What was changed, one sentence each with its reason.
    """

    of: Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]
    engine: Annotated[str, msgspec.Meta(min_length=1)]
    order: tuple[Size, ...] = ()
    changes: tuple[str, ...] = ()


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Where the drafter comes from.

    Attributes:
        producer: Training tool and version.
        training_data: What it was trained on.
        created: When it was trained, ISO 8601.
        source: Where the files were taken from, "hf://ORG/REPO".
        revision: Commit there.
        urls: Where to read more.
        notes: Anything else, one line each.
    """

    producer: str = ""
    training_data: str = ""
    created: str = ""
    source: str = ""
    revision: str = ""
    urls: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
