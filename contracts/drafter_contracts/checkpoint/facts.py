"""What a drafter's directory says of itself: the values that reading one produces and the rules consume."""

from __future__ import annotations

import msgspec

from drafter_contracts.layout import CaptureLayout

EAGLE = "EAGLE"
EAGLE3 = "EAGLE3"
P_EAGLE = "P-EAGLE"
NEXTN = "NEXTN"
DFLASH = "DFLASH"
DFLASH2 = "DFLASH2"
DSPARK = "DSPARK"
STANDALONE = "STANDALONE"
MEDUSA = "MEDUSA"
UNKNOWN_METHOD = "UNKNOWN"
METHODS = (EAGLE, EAGLE3, P_EAGLE, NEXTN, DFLASH, DFLASH2, DSPARK, STANDALONE, MEDUSA, UNKNOWN_METHOD)

#: The layout is stated with its convention (two spellings that agree, a manifest).
DECLARED = "declared"
#: The numbers are stated; what they mean follows from the producer's own rule.
PRODUCER_RULE = "producer rule"
#: Nothing is stated; what the producer and engines do by default is assumed.
ENGINE_DEFAULT = "engine default assumed"
#: Two statements disagree.
CONTRADICTORY = "contradictory"
#: Nothing decides.
UNDECIDABLE = "undecidable"


class LayoutReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """The capture layout as a config states it, and how sure that reading is.

    Attributes:
        confidence: One of the five words above.
        layout: The layout, or None where it cannot be decided (then `reason` says why and `settle` what would).
        ids: The ids as stated, or empty.
        key: Dotted key they were read from, e.g. "eagle_config.eagle_aux_hidden_state_layer_ids", or "".
        numbering: Name of the numbering assumed (see `drafter_contracts.numberings`), or "".
        producer: Producer as far as the files tell ("specforge", "speculators 0.5.0", ...), or "".
        reason: Why this reading, or why none.
        settle: What would settle an undecided or assumed reading.
        needs_depth: The layout depends on the target's depth, which was not given.
        alternatives: Other readings of the same numbers that people really mean, as boundaries.
    """

    confidence: str
    layout: CaptureLayout | None = None
    ids: tuple[int, ...] = ()
    key: str = ""
    numbering: str = ""
    producer: str = ""
    reason: str = ""
    settle: str = ""
    needs_depth: bool = False
    alternatives: tuple[tuple[int, ...], ...] = ()


class TensorFact(msgspec.Struct, frozen=True):
    """Name, dtype (safetensors' word, e.g. "BF16") and shape of one tensor, from a header."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Disagreement(msgspec.Struct, frozen=True, omit_defaults=True):
    """config.json and the tensors (or two keys) say different things.

    Attributes:
        what: The fact in dispute, e.g. "fc input width", "method", "draft vocabulary".
        left: First statement with its place ("config.json draft_vocab_size = 32000").
        right: Second statement with its place ("lm_head.weight [6054, 4096]").
        fatal: No reading of the drafter survives it (an error), not merely a wrong key.
    """

    what: str
    left: str
    right: str
    fatal: bool = False


class DraftVocabulary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The drafter's vocabulary.

    Attributes:
        size: Rows of the drafter's head, or None if not known.
        target_size: `vocab_size` of the drafter's config (the target's vocabulary), or None.
        reduced: The drafter proposes from a subset of the target's tokens.
        d2t: Length of the draft-to-target tensor, or None.
        t2d: Length of the target-to-draft tensor, or None.
        encoding: "offset" (target = i + d2t[i], all safetensors producers), "absolute" (GGUF), or "".
        config_key: Key the size was read from, or "".
    """

    size: int | None = None
    target_size: int | None = None
    reduced: bool = False
    d2t: int | None = None
    t2d: int | None = None
    encoding: str = ""
    config_key: str = ""


class FcFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fusion layer.

    Attributes:
        name: Tensor name.
        out_width: Rows.
        in_width: Columns.
        bias: A bias tensor is present.
        tap_width: Width of one tap assumed when counting taps, or None.
        taps: in_width / tap_width, or None if it does not divide or tap_width is not known.
    """

    name: str
    out_width: int
    in_width: int
    bias: bool = False
    tap_width: int | None = None
    taps: int | None = None


class DrafterFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a drafter's config.json and safetensors headers say.

    Attributes:
        path: Directory (or Hub id).
        method: One of `METHODS`.
        method_evidence: Why, one line each: tensors first, then config.
        config: config.json, as read.
        architectures: `architectures` of config.json.
        model_type: Or "".
        tensors: Header facts by name, sorted; empty if only config.json was there (`weights` says so).
        weights: "safetensors", "sharded safetensors", "none".
        layout: The capture layout.
        fc: The fusion layer, or None.
        vocabulary: Draft vocabulary.
        has_lm_head: A head tensor is present (None: no weights to look at).
        has_embedding: An embedding tensor is present (None: no weights to look at).
        hidden_size: The drafter's own width.
        target_hidden_size: Width of one tap, as stated by `target_hidden_size`, or None.
        real_layers: Draft layers by tensor names, or None.
        config_layers: `num_hidden_layers`.
        layer_prefixes: How layers are named: "midlayer", "layers.N", ...
        max_position_embeddings: Or None.
        rope_theta: Or None.
        rope_scaling: Or None.
        attention: "mla" or "mha".
        norm_before_fc: By tensors where present, else by config.
        fc_norm: By tensors where present, else by config.
        norm_output: By config.
        norm_before_residual: By config; None if not stated.
        tie_word_embeddings: By config; None if not stated.
        dtype: Dtype of the weights (majority), else of the config.
        quantization: Method of `quantization_config`, or "".
        block_size: Block size of parallel drafters, or None.
        mask_token_id: Or None.
        target: What the config says of its target: name, architectures, depth, hidden size; parts it lacks are absent.
        target_layers: Depth that the layout was read with: the caller's, else the config's; None if neither says it.
        disagreements: Every contradiction found.
        notes: Things worth telling a reader.
        beside: Weight files in the directory that were not read and that an engine reads too.
    """

    path: str
    method: str
    method_evidence: tuple[str, ...] = ()
    config: dict[str, object] = msgspec.field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    model_type: str = ""
    tensors: tuple[TensorFact, ...] = ()
    weights: str = "none"
    layout: LayoutReading = LayoutReading(UNDECIDABLE)
    fc: FcFacts | None = None
    vocabulary: DraftVocabulary = DraftVocabulary()
    has_lm_head: bool | None = None
    has_embedding: bool | None = None
    hidden_size: int | None = None
    target_hidden_size: int | None = None
    real_layers: int | None = None
    config_layers: int | None = None
    layer_prefixes: tuple[str, ...] = ()
    max_position_embeddings: int | None = None
    rope_theta: float | None = None
    rope_scaling: dict[str, object] | None = None
    attention: str = "mha"
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    norm_before_residual: bool | None = None
    tie_word_embeddings: bool | None = None
    dtype: str = ""
    quantization: str = ""
    block_size: int | None = None
    mask_token_id: int | None = None
    target: dict[str, str] = msgspec.field(default_factory=dict)
    target_layers: int | None = None
    disagreements: tuple[Disagreement, ...] = ()
    notes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    def tensor(self, *names: str) -> TensorFact | None:
        """The first of the named tensors that is present, or None."""
        by_name = {tensor.name: tensor for tensor in self.tensors}
        return next((by_name[name] for name in names if name in by_name), None)
