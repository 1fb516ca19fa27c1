"""Where config.json and the tensors, or two keys, cannot both be right. All are collected; none is raised."""

from __future__ import annotations

from drafter_contracts.checkpoint.config_view import ConfigView
from drafter_contracts.checkpoint.facts import CONTRADICTORY, EAGLE3, P_EAGLE, Disagreement, DrafterFacts, TensorFact
from drafter_contracts.checkpoint.parts import (
    AUX_METHODS,
    CONCATENATION_NORM,
    DRAFT_VOCABULARY_KEYS,
    EMBEDDINGS,
    HEADS,
    chunk_norms,
)
from drafter_contracts.checkpoint.tensors import TensorIndex, described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def contradictions(
    facts: DrafterFacts, view: ConfigView, index: TensorIndex, target_hidden_size: int | None
) -> tuple[Disagreement, ...]:
    """Every contradiction of a drafter but that of the method, which `method.detect` finds.

    Args:
        facts: The facts so far.
        view: config.json.
        index: The tensors.
        target_hidden_size: Width of the target, if the caller knows it.
    """
    found = [
        *_layer_ids(facts),
        *_fusion(facts, view, target_hidden_size),
        *_norms(facts, view, index),
        *_vocabulary(view, index),
    ]
    return (*found, *_sizes(facts, view, index))


def _config(view: ConfigView, *keys: str) -> str:
    value, place = view.find(*keys)
    return f"config.json {place} = {value}"


def _differs(
    what: str, stated: int | None, left: str, right: str, actual: int, *, fatal: bool
) -> Iterator[Disagreement]:
    if stated is not None and stated != actual:
        yield Disagreement(what, left, right, fatal)


def _layer_ids(facts: DrafterFacts) -> Iterator[Disagreement]:
    if facts.layout.confidence == CONTRADICTORY:
        left, _, right = facts.layout.reason.partition(" and ")
        yield Disagreement("capture layer ids", f"config.json {left}", right or "the target's depth", fatal=True)


def _fusion(facts: DrafterFacts, view: ConfigView, target_hidden_size: int | None) -> Iterator[Disagreement]:
    fc, reading = facts.fc, facts.layout
    if fc is None or facts.method not in AUX_METHODS:
        return
    right = f"{fc.name} [{fc.out_width}, {fc.in_width}]"
    hidden = view.integer("hidden_size")
    left = _config(view, "hidden_size")
    yield from _differs("drafter's hidden size", hidden, left, right, fc.out_width, fatal=True)
    counts = {reading.key: len(reading.ids)} if reading.ids else {}
    count = view.integer("num_aux_hidden_states")
    if count is not None:
        counts["num_aux_hidden_states"] = count
    stated_width = view.integer("target_hidden_size")
    for key, taps in counts.items():
        if taps * (fc.tap_width or 0) == fc.in_width:
            continue
        # Where nobody says the target's width, the head may belong to a wider or narrower one.
        known = stated_width is not None or target_hidden_size is not None
        fatal = known or fc.in_width % max(taps, 1) != 0
        source = "target_hidden_size" if stated_width is not None else "target width" if known else "assumed tap width"
        left = f"config.json {key}: {taps} taps of {source} {fc.tap_width}, {taps * (fc.tap_width or 0)} columns"
        yield Disagreement("fc input width", left, right, fatal)


def _norms(facts: DrafterFacts, view: ConfigView, index: TensorIndex) -> Iterator[Disagreement]:
    if not index.by_name or facts.method not in AUX_METHODS:
        return
    norm = index.get(CONCATENATION_NORM)
    yield from _flag_against_tensor("norm before fc", view, ("norm_before_fc", "eagle_config.norm_before_fc"), norm)
    chunks = chunk_norms(index)
    keys = ("fc_norm", "eagle_config.fc_norm", "use_aux_norm")
    yield from _flag_against_tensor("norm of each tap", view, keys, chunks[0] if chunks else None)
    if norm is not None and facts.fc is not None and norm.shape != (facts.fc.in_width,):
        fc = f"{facts.fc.name} [{facts.fc.out_width}, {facts.fc.in_width}]"
        yield Disagreement("fc input width", described(norm), fc, fatal=True)
    if chunks and facts.layout.ids and len(chunks) != len(facts.layout.ids):
        left = f"config.json {facts.layout.key}: {len(facts.layout.ids)} taps"
        yield Disagreement("number of taps", left, f"{len(chunks)} norms, the first {chunks[0].name}", fatal=True)


def _flag_against_tensor(
    what: str, view: ConfigView, keys: tuple[str, ...], tensor: TensorFact | None
) -> Iterator[Disagreement]:
    flag = view.flag(*keys)
    if flag is True and tensor is None:
        yield Disagreement(what, _config(view, *keys), "no such norm among the tensors", fatal=True)
    if flag is False and tensor is not None:
        yield Disagreement(what, _config(view, *keys), f"{described(tensor)} is there", fatal=True)


def _vocabulary(view: ConfigView, index: TensorIndex) -> Iterator[Disagreement]:
    head, d2t, t2d = index.matrix(*HEADS), index.get("d2t"), index.get("t2d")
    stated = view.integer(*DRAFT_VOCABULARY_KEYS)
    left = _config(view, *DRAFT_VOCABULARY_KEYS)
    if head is not None:
        yield from _differs("draft vocabulary", stated, left, described(head), head.shape[0], fatal=True)
        if stated is None and d2t is None:
            left = _config(view, "vocab_size")
            size = view.integer("vocab_size")
            yield from _differs("vocabulary", size, left, described(head), head.shape[0], fatal=False)
    if d2t is not None and d2t.shape:
        if head is not None and d2t.shape[0] != head.shape[0]:
            yield Disagreement("draft vocabulary", described(d2t), described(head), fatal=True)
        elif head is None:
            yield from _differs("draft vocabulary", stated, left, described(d2t), d2t.shape[0], fatal=True)
    if t2d is not None and t2d.shape:
        left, size = _config(view, "vocab_size"), view.integer("vocab_size")
        yield from _differs("target vocabulary", size, left, described(t2d), t2d.shape[0], fatal=True)
    embedding = index.matrix(*EMBEDDINGS)
    if embedding is not None:
        left, size = _config(view, "vocab_size"), view.integer("vocab_size")
        yield from _differs("target vocabulary", size, left, described(embedding), embedding.shape[0], fatal=False)
    if head is not None and view.flag("tie_word_embeddings"):
        left = _config(view, "tie_word_embeddings")
        yield Disagreement("output head", left, f"{described(head)}, a head of its own", fatal=False)


def _sizes(facts: DrafterFacts, view: ConfigView, index: TensorIndex) -> Iterator[Disagreement]:
    norm = index.get("norm.weight")
    hidden = view.integer("hidden_size")
    if norm is not None and len(norm.shape) == 1 and facts.fc is None:
        left = _config(view, "hidden_size")
        yield from _differs("drafter's hidden size", hidden, left, described(norm), norm.shape[0], fatal=True)
    if facts.real_layers is not None and facts.method in (EAGLE3, P_EAGLE, *AUX_METHODS):
        left, right = _config(view, "num_hidden_layers"), f"{facts.real_layers} by tensor names"
        yield from _differs("draft layers", facts.config_layers, left, right, facts.real_layers, fatal=False)
    stated = facts.target_hidden_size
    if stated and facts.fc is not None and facts.fc.in_width % stated:  # 0: a template that nobody filled in
        left = _config(view, "target_hidden_size")
        right = f"{facts.fc.name} [{facts.fc.out_width}, {facts.fc.in_width}] is no multiple of it"
        if not facts.layout.ids:
            yield Disagreement("fc input width", left, right, fatal=True)
