"""Which kind of drafter this is, told by its tensors and by its config, and whether the two agree."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.config_view import ConfigView, dotted, shown
from drafter_contracts.checkpoint.facts import (
    DFLASH,
    DFLASH2,
    DSPARK,
    EAGLE,
    EAGLE3,
    MEDUSA,
    NEXTN,
    P_EAGLE,
    STANDALONE,
    UNKNOWN_METHOD,
    Disagreement,
)
from drafter_contracts.checkpoint.tensors import TensorIndex, described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Part of an architecture's or model type's name (lower case) to method; the first that fits counts.
_NAME_PARTS = (
    ("dspark", DSPARK),
    ("dflash2", DFLASH2),
    ("dflash", DFLASH),
    ("dflare", DFLASH),
    ("domino", DFLASH),
    ("peagle", P_EAGLE),
    ("eagle3", EAGLE3),
    ("nextn", NEXTN),
    ("mtp", NEXTN),
    ("medusa", MEDUSA),
    ("eagle", EAGLE),
)
_SPECULATORS = {
    "eagle": EAGLE,
    "eagle3": EAGLE3,
    "peagle": P_EAGLE,
    "p-eagle": P_EAGLE,
    "dflash": DFLASH,
    "dspark": DSPARK,
    "mtp": NEXTN,
    "independent": STANDALONE,
}
#: Keys that only one kind of drafter has: key to method, the first present counts.
_KEYS = (
    ("medusa_num_heads", MEDUSA),
    ("dspark_target_layer_ids", DSPARK),
    ("dflash_config", DFLASH),
    ("eagle_config", EAGLE3),
    ("eagle_aux_hidden_state_layer_ids", EAGLE3),
    ("aux_hidden_states_layer_ids", EAGLE3),
    ("model.ttt_length", EAGLE3),
)
#: Keys that suggest a kind without naming it.
_HINTS = (
    ("target_layer_ids", DFLASH),
    ("draft_vocab_size", EAGLE3),
    ("truncated_vocab_size", EAGLE3),
    ("norm_before_fc", EAGLE3),
    ("fc_norm", EAGLE3),
    ("num_nextn_predict_layers", NEXTN),
    ("mtp_num_hidden_layers", NEXTN),
    ("num_mtp_modules", NEXTN),
    ("mtp_config.num_nextn_predict_layers", NEXTN),
)
#: What the tensors tell more exactly than the config: (config says, tensors say). No contradiction.
_REFINEMENTS = {(EAGLE3, P_EAGLE), (DFLASH, DFLASH2)}


class MethodReading(msgspec.Struct, frozen=True):
    """The method and why.

    Attributes:
        method: One of `facts.METHODS`.
        evidence: One line each, tensors first.
        disagreement: Set where config and tensors name different methods.
    """

    method: str
    evidence: tuple[str, ...] = ()
    disagreement: Disagreement | None = None


class _Statement(msgspec.Struct, frozen=True):
    """What one side says: the methods that fit (the likeliest first), why, and whether it names them outright."""

    methods: tuple[str, ...] = ()
    why: str = ""
    outright: bool = True


def is_medusa(config: Mapping[str, object]) -> bool:
    """Whether a config names Medusa heads, which no release of SGLang serves."""
    return by_config(ConfigView(config)).methods[:1] == (MEDUSA,)


def detect(view: ConfigView, index: TensorIndex) -> MethodReading:
    """The method of a drafter. Tensors decide where both speak."""
    tensors, config = by_tensors(index), by_config(view)
    evidence = tuple(
        f"{side}: {statement.why}"
        for side, statement in (("tensors", tensors), ("config.json", config))
        if statement.methods
    )
    if not tensors.methods:
        return MethodReading(config.methods[0] if config.methods else UNKNOWN_METHOD, evidence)
    stated = config.methods[0] if config.methods else ""
    if stated in tensors.methods:
        return MethodReading(stated, evidence)
    method = tensors.methods[0]
    if not stated or not config.outright or (stated, method) in _REFINEMENTS:
        return MethodReading(method, evidence)
    left, right = f"config.json {config.why} ({stated})", f"{tensors.why} ({method})"
    return MethodReading(method, evidence, Disagreement("method", left, right, fatal=True))


def by_tensors(index: TensorIndex) -> _Statement:
    """What the tensors say of the method; no methods if there are none or nothing typical."""
    for parts, methods in (
        (("medusa_head.",), (MEDUSA,)),
        (("markov_head.", "confidence_head.", ".main_proj."), (DSPARK,)),
        (("candidate_selector.", ".attention_conv."), (DFLASH2,)),
        (("mask_hidden",), (P_EAGLE,)),
        (("eh_proj.", "mtp.", "mtp_layers."), (NEXTN,)),
    ):
        found = index.with_part(*parts)
        if found is not None:
            return _Statement(methods, f"{described(found)} is there")
    return _by_widths(index)


def _by_widths(index: TensorIndex) -> _Statement:
    fc, projection, hidden = index.matrix("fc.weight"), index.input_projection(), index.hidden_size()
    if projection is not None and hidden and projection.shape[1] == 2 * hidden:
        why = f"{described(projection)} reads twice the drafter's width {hidden}: embedding and state"
        return _Statement((EAGLE3, P_EAGLE), why)
    if fc is None:
        embedding = index.get("embed_tokens.weight")
        if embedding is not None and index.layers():
            return _Statement((STANDALONE,), f"{described(embedding)} and layers, but no fc")
        return _Statement()
    layer_norm = index.get("midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight")
    if layer_norm is not None:
        return _Statement((EAGLE3, P_EAGLE), f"{described(fc)} and {layer_norm.name}")
    own_norm = index.get("hidden_norm.weight")
    if own_norm is not None:
        return _Statement((DFLASH, DFLASH2, DSPARK), f"{described(fc)} followed by {own_norm.name}")
    taps: tuple[str, ...] = (DFLASH, DFLASH2, DSPARK)
    if projection is None:
        taps = (EAGLE3, P_EAGLE, *taps)
    if fc.shape[1] == 2 * fc.shape[0]:
        return _Statement((EAGLE, *taps, NEXTN), f"{described(fc)} reads two widths, as of one embedding and one state")
    return _Statement(taps, f"{described(fc)} reads several states")


def by_config(view: ConfigView) -> _Statement:
    """What the config says of the method; no methods if nothing typical."""
    kind = view.text("speculators_model_type")
    if kind in _SPECULATORS:
        return _Statement((_SPECULATORS[kind],), f"speculators_model_type = {kind}")
    projector = dotted(view.config, "dflash_config.projector_type")
    if projector == "dspark":
        return _Statement((DSPARK,), "dflash_config.projector_type = dspark")
    names = dict.fromkeys(view.texts("architectures"), "architectures")
    names |= {name: key for key in ("model_type", "general.architecture") if (name := view.text(key))}
    for part, method in _NAME_PARTS:
        for name, key in names.items():
            if part in name.lower().replace("_", ""):
                return _Statement((method,), f"{key} = {name}")
    if (view.integer("markov_rank") or 0) > 0:
        return _Statement((DSPARK,), "markov_rank is there")
    for key, method in _KEYS:
        if dotted(view.config, key) is not None:
            return _Statement((method,), f"{key} is there")
    return _by_hints(view)


def _by_hints(view: ConfigView) -> _Statement:
    for key, method in _HINTS:
        value, place = view.find(key)
        if value is not None and value is not False and value != 0:
            return _Statement((method,), f"{place} = {shown(value)}", outright=False)
    layers = view.integer("num_hidden_layers")
    architectures = view.texts("architectures")
    if not architectures or layers is None:
        return _Statement()
    if layers == 1:
        why = f"{architectures[0]} of one layer without a draft vocabulary, as EAGLE heads are"
        return _Statement((EAGLE,), why, outright=False)
    return _Statement((STANDALONE,), f"{architectures[0]} of {layers} layers and no drafter's key", outright=False)
