"""Fit of a release's drafter classes: from what a probe saw to `Drafter`.

The probe (`probes.drafters`) builds every class from the release's own source with configs that differ in one
key, and runs its loader and forward pass on stand-ins; here its observations become data. A class that could not
be built, or whose fusion layer is not found, is recorded as opaque with the reason; one that is built without any and
whose code never looks at the target's states, as broken.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import Source
from drafter_contracts.engines.profile import BROKEN, FITTED, OPAQUE, Drafter
from drafter_contracts.engines.scan.sandbox import run_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.tree import SourceTree

_LAYER_PREFIXES = ("midlayer", "layers.0", "layers.1")
_LAYER_TENSORS = (
    "hidden_norm.weight",
    "input_layernorm.weight",
    "post_attention_layernorm.weight",
    "self_attn.q_proj.weight",
    "self_attn.o_proj.weight",
    "mlp.gate_proj.weight",
    "mlp.down_proj.weight",
)
_SINGLE = (
    "fc.weight",
    "fc.bias",
    "model.fc.weight",
    "input_norm.weight",
    "fc_norm.0.weight",
    "aux_norm_low.weight",
    "aux_norm_mid.weight",
    "aux_norm_high.weight",
    "aux_hidden_norms.0.weight",
    "norm.weight",
    "model.norm.weight",
    "hidden_norm.weight",
    "lm_head.weight",
    "model.lm_head.weight",
    "embed_tokens.weight",
    "model.embed_tokens.weight",
    "d2t",
    "t2d",
    "mask_hidden",
    "mask_embedding",
    "markov_head.markov_w1.weight",
    "markov_head.markov_w2.weight",
    "confidence_head.proj.weight",
    "confidence_head.proj.bias",
)
#: Names of drafters' tensors as they are found in checkpoints, in the groups in which loaders want them.
WELL_KNOWN: tuple[tuple[str, ...], ...] = (
    *((name,) for name in _SINGLE),
    *((f"{prefix}.{tensor}",) for prefix in _LAYER_PREFIXES for tensor in _LAYER_TENSORS),
    ("model.midlayer.self_attn.q_proj.weight",),
    ("model.layers.0.self_attn.q_proj.weight",),
    ("layers.0.self_attn.q_a_proj.weight", "layers.0.self_attn.kv_a_proj_with_mqa.weight"),
)
#: What the probe may see of the release.
SOURCES = ("",)
_AUX_KINDS = ("EAGLE3", "DFLASH", "DFLASH2", "DSPARK")


class DraftersPart(msgspec.Struct, frozen=True):
    """This part of a profile.

    Attributes:
        drafters: Architecture to what its class does.
        rewrites: See `Profile.rewrites`.
    """

    drafters: dict[str, Drafter]
    rewrites: dict[str, str]


class Bias(msgspec.Struct):
    """Bias of the fusion layer without any key, and the keys that change that."""

    base: bool
    keys: list[str]


class Counts(msgspec.Struct):
    """Taps without any key, the sources of the number in precedence, and whether the probe's config has one."""

    base: int
    order: list[str]
    stated: bool
    empty: dict[str, int]


class Bounds(msgspec.Struct):
    """Why ids beyond the drafter's own depth are refused, and the keys that bound them, in precedence."""

    error: str
    keys: list[str]


class Switch(msgspec.Struct):
    """A key that adds norms (name to width) or changes the recycled state (label before and after).

    Attributes:
        overrules: Other keys that add the same norms, and do not while this one is false.
    """

    key: str
    norms: dict[str, int]
    label: list[str]
    overrules: list[str] = []


class Forward(msgspec.Struct):
    """Whether the fusion layer runs, on what it needs and on a state as wide as the drafter."""

    runs: bool
    label: str
    error: str
    equal_runs: bool
    equal_error: str


class Offer(msgspec.Struct):
    """What a loader did with tensors: parameters loaded, attributes kept, the exception, and that without any."""

    names: list[str]
    loaded: int
    kept: dict[str, str]
    error: str
    always: str


class Share(msgspec.Struct):
    """Whose embeddings and head a drafter has at the end."""

    embed: str = ""
    lm_head: str = ""
    error: str = ""


class ClassSeen(msgspec.Struct):
    """What the probe saw of one class; see `probes.drafters`."""

    file: str
    failure: str = ""
    blind: str = ""
    place: Source | None = None
    fusion: str = ""
    bases: list[str] = []
    columns: int = 0
    keys: list[str] = []
    bias: Bias = msgspec.field(default_factory=lambda: Bias(base=False, keys=[]))
    widths: list[str] = []
    counts: Counts | None = None
    bounds: Bounds | None = None
    layers: dict[str, str] = {}
    switches: list[Switch] = []
    forward: Forward | None = None
    weights: list[Offer] = []
    sharing: dict[str, list[Share]] = {}
    leaves: dict[str, str] = {}
    hidden: int = 64


class Observations(msgspec.Struct):
    """The probe's answer."""

    classes: dict[str, ClassSeen]
    rewrites: dict[str, str]
    workers: dict[str, list[dict[str, object]]]
    files: list[str] = []


def derive(tree: SourceTree, *, allow_unconfined: bool = False) -> tuple[DraftersPart, set[str]]:
    """Derive this part of a profile.

    Args:
        tree: The release.
        allow_unconfined: See `sandbox.run_probe`.

    Returns:
        The part, and the files of the release that it rests on.

    Raises:
        ScanError: The probe could not run.
    """
    payload: dict[str, object] = {"names": [list(group) for group in WELL_KNOWN]}
    answer = run_probe("drafters", tree.sources(SOURCES), payload, allow_unconfined=allow_unconfined)
    seen = msgspec.convert(answer, Observations)
    drafters = {name: fit(name, one) for name, one in sorted(seen.classes.items())}
    files = set(seen.files) | {one.file for one in seen.classes.values()}
    return DraftersPart(drafters, dict(sorted(seen.rewrites.items()))), files


def fit(name: str, seen: ClassSeen) -> Drafter:
    """What one class does, or a record that says why it cannot work, or what was seen instead.

    Args:
        name: Registered architecture.
        seen: The probe's observations.
    """
    kind = _kind(name, seen)
    source = seen.place or Source(seen.file, name)
    if seen.blind:
        reason = f"the model that it builds, {seen.blind}, has no layer for the target's states and never looks at them"
        return Drafter(kind, BROKEN, reason, source)
    if seen.failure:
        return Drafter(kind, OPAQUE, seen.failure, source)
    reason = _unfit(kind, seen)
    loads, ignores, refuses = _weights(seen) if kind != "NEXTN" else ((), (), ())
    whole = [s for s in seen.switches if _is_concatenation(s, seen)]
    chunks = [s for s in seen.switches if _is_per_chunk(s, seen)]
    mapped = next((offer for offer in seen.weights if offer.names == ["d2t"]), None)
    return Drafter(
        kind=kind,
        status=OPAQUE if reason else FITTED,
        reason=reason,
        source=source,
        taps=_taps(seen),
        width=tuple(seen.widths),
        bias=seen.bias.keys[0] if seen.bias.keys else "yes" if seen.bias.base else "no",
        norm_before_fc=tuple(s.key for s in whole),
        fc_norm=tuple(s.key for s in chunks),
        either=tuple(name for name, group in (("norm_before_fc", whole), ("fc_norm", chunks)) if _any_will_do(group)),
        norm_output=tuple(s.key for s in seen.switches if s.label[0] != s.label[1]),
        skips_fc=seen.forward is not None and not seen.forward.equal_runs and not seen.forward.equal_error,
        max_layers=1 if seen.layers.get("2") and not seen.layers.get("1") else 0,
        keys=tuple(seen.keys) if kind != "NEXTN" else (),
        loads=loads,
        ignores=ignores,
        refuses=refuses,
        embed=_embed(seen),
        lm_head=_heads(seen),
        vocab_map="d2t" if mapped is not None and mapped.kept else "",
        vocab_encoding=_encoding(mapped),
        ids_below=tuple(seen.bounds.keys) if seen.bounds else (),
    )


def _kind(name: str, seen: ClassSeen) -> str:
    """The method that a class belongs to, by its name and bases."""
    names = (name, *seen.bases)
    if any("eagle3" in n.lower() for n in names):
        return "EAGLE3"
    if any("DSpark" in n for n in names):
        return "DSPARK"
    if any("DFlash2" in n for n in names):
        return "DFLASH2"
    if any("DFlash" in n or "LiLiCorr" in n for n in names):
        return "DFLASH"
    return "EAGLE" if any("Eagle" in n for n in names) else "NEXTN"


def _unfit(kind: str, seen: ClassSeen) -> str:
    """What of the observations is not in the rule language, or ""."""
    if not seen.widths:
        return f"the width of {seen.fusion} follows no config key"
    if kind not in _AUX_KINDS:
        return ""
    if seen.forward is None or not seen.forward.runs:
        problem = seen.forward.error if seen.forward else ""
        return f"{seen.fusion} is not called on captured states{': ' + problem if problem else ''}"
    if len(seen.bias.keys) > 1:
        return f"several keys give {seen.fusion} a bias: {', '.join(seen.bias.keys)}"
    for case, shares in seen.sharing.items():
        if len({(share.embed, share.lm_head) for share in shares}) > 1:
            return f"workers disagree on embeddings and head ({case})"
    return ""


def _taps(seen: ClassSeen) -> tuple[str, ...]:
    """Sources of the number of taps; the literal that counts without any of them comes last."""
    if seen.counts is None:
        return (str(seen.columns // seen.hidden),)
    return (*seen.counts.order, *(() if seen.counts.stated else (str(seen.counts.base),)))


def _is_concatenation(switch: Switch, seen: ClassSeen) -> bool:
    return list(switch.norms.values()) == [seen.columns] and seen.columns > seen.hidden


def _any_will_do(group: list[Switch]) -> bool:
    """Whether one true key is enough, whatever the others say."""
    return len(group) > 1 and not any(switch.overrules for switch in group)


def _is_per_chunk(switch: Switch, seen: ClassSeen) -> bool:
    taps = seen.columns // seen.hidden
    return list(switch.norms.values()) == [seen.hidden] * taps and taps > 1


def _weights(seen: ClassSeen) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Well-known tensors that are loaded, those that are dropped without a message, and those that raise.

    A head or an embedding that the target's replaces anyway is no loss and not listed as dropped. Where a layer
    could not be built, nothing is said of its tensors; nor of a target's own MTP layers, whose tensors have the
    names of the target's checkpoint.
    """
    heads, embed = _heads(seen), _embed(seen)
    loads, ignores, refuses = [], [], []
    for offer in seen.weights:
        in_layer = any(offer.names[0].startswith(prefix + ".") for prefix in _LAYER_PREFIXES)
        if in_layer and seen.leaves:
            continue
        if offer.loaded or offer.kept:
            loads += offer.names
        elif offer.error == offer.always:
            ignores += offer.names
        else:
            refuses += offer.names
    if heads.get("own") == "target":
        ignores = [name for name in ignores if "lm_head" not in name]
    if embed == "target":
        ignores = [name for name in ignores if "embed_tokens" not in name]
    return _grouped(loads), _grouped(ignores), _grouped(refuses)


def _grouped(names: list[str]) -> tuple[str, ...]:
    """Names, sorted; a decoder layer all of whose tensors are among them is named once."""
    for prefix in _LAYER_PREFIXES:
        below = [f"{prefix}.{tensor}" for tensor in _LAYER_TENSORS]
        if all(name in names for name in below):
            names = [name for name in names if not name.startswith(prefix + ".")] + [prefix]
    return tuple(sorted(names))


def _embed(seen: ClassSeen) -> str:
    own = next(iter(seen.sharing.get("own", ())), Share())
    wider = next(iter(seen.sharing.get("wider_target", ())), Share())
    if own.embed == "target" and wider.embed == "own":
        return "target unless target_hidden_size differs"
    return own.embed


def _heads(seen: ClassSeen) -> dict[str, str]:
    heads = {}
    for case in ("own", "tied", "draft_vocab_null", "draft_vocab_missing"):
        share = next(iter(seen.sharing.get(case, ())), None)
        if share is not None:
            heads[case] = "error" if share.error else share.lm_head
    unmapped = next(iter(seen.sharing.get("unmapped", ())), None)
    if unmapped is not None and unmapped.error and heads.get("own") != "error":
        heads["unmapped"] = "error"
    return heads


def _encoding(mapped: Offer | None) -> str:
    made = set(mapped.kept.values()) if mapped else set()
    return {"offset": "offset", "as it is": "absolute"}.get(made.pop(), "") if len(made) == 1 else ""
