"""The keys of a drafter's config that one release's class reads: those that are missing or wrong are set.

One function per thing that the class decides by its config. Each looks at what the class would do with the config as it
is, by the same code as the rules, and changes a key only where that is not what the drafter's files or manifest say.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.parts import MASK_TOKENS
from drafter_contracts.engines.capture import find, lookup
from drafter_contracts.engines.profile import FITTED
from drafter_contracts.rules.fusion import stated_taps
from drafter_contracts.rules.rule import engine, switched_on, whole
from drafter_contracts.rules.vocabulary import head_case

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.profile import Drafter
    from drafter_contracts.rendering.config_edit import ConfigEdit
    from drafter_contracts.situation import Situation

    #: One thing that a class decides.
    Step = Callable[[ConfigEdit, Situation, Drafter, DrafterFacts], None]

_TAPS, _WIDTH, _VOCABULARY, _TIED = (
    "num_aux_hidden_states",
    "target_hidden_size",
    "draft_vocab_size",
    "tie_word_embeddings",
)
_LAYERS = "num_hidden_layers"


def set_keys(edit: ConfigEdit, s: Situation, known: Drafter) -> None:
    """Set what the class reads and the config lacks or says wrongly.

    Args:
        edit: The config, with the capture ids that the release shall read in it.
        s: Drafter, target and launch; what its config says is not looked at.
        known: The release's class.
    """
    if s.drafter is None or known.status != FITTED:
        return
    for step in _STEPS:
        step(edit, s, known, s.drafter)


def _fusion(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:
    """`fc` as wide as the checkpoint's, and the engine's buffers with room for what arrives."""
    taps = len(s.stated.layout.taps) if s.stated is not None else None
    if facts.fc is None or not taps or not s.method or facts.fc.in_width % taps:
        return
    width = facts.fc.in_width // taps
    columns = f"{facts.fc.name} has {facts.fc.in_width} columns, {taps} states of width {width}"
    if _WIDTH in known.width:
        _tap_width(edit, s, known, width, columns)
    sources = [known.taps]
    buffers = s.profile.buffers.get(s.method) if s.profile is not None else None
    if buffers is not None and buffers.of == "drafter":
        sources.append(buffers.taps)
    for words in sources:
        if words[:1] == (_TAPS,) and _first(edit, words) != taps:
            edit.put(_TAPS, taps, f"{columns}, and {engine(s)} would count {_first(edit, words)}")


def _tap_width(edit: ConfigEdit, s: Situation, known: Drafter, width: int, columns: str) -> None:
    present, stated = find(edit.config, _WIDTH)
    if present and stated is None:
        edit.drop(_WIDTH, f"{engine(s)} takes null for a width")
    built = next((found for key in known.width if (found := whole(lookup(edit.config, key)))), None)
    if built != width:
        edit.put(_WIDTH, width, f"{columns}, and {engine(s)} would take {built}")


def _first(edit: ConfigEdit, words: tuple[str, ...]) -> int | None:
    return next((found for word in words if (found := stated_taps(edit.config, word)) is not None), None)


def _head(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:
    """The head used is the drafter's own if it has one, and the target's if it was trained with that."""
    own = facts.has_lm_head and (facts.vocabulary.reduced or s.requirements.lm_head == "own")
    case = _case(edit, s, known)
    if own and case == "tied" and known.lm_head.get("tied") == "embed":
        edit.put(_TIED, False, f"it has a head of its own, which {engine(s)} would replace by the embeddings")
        case = _case(edit, s, known)
    does = known.lm_head.get(case, "")
    size = facts.vocabulary.size
    fails = facts.has_lm_head and does == "error"
    if (fails or (own and does == "target")) and size is not None and known.lm_head.get("own") == "own":
        instead = "fails without it" if does == "error" else "would use the target's head"
        edit.put(_VOCABULARY, size, f"its head has {size} rows, and {engine(s)} {instead}")
    borrows = facts.has_lm_head is False and s.requirements.lm_head == "target" and not facts.vocabulary.reduced
    if borrows and does in {"own", "error"} and known.lm_head.get("draft_vocab_null") == "target":
        edit.put(_VOCABULARY, None, f"it was trained with the target's head, which {engine(s)} then takes")


def _case(edit: ConfigEdit, s: Situation, known: Drafter) -> str:
    return head_case(msgspec.structs.replace(s, draft_class=known, draft_config=edit.config))


def _norms(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:
    """The norms around `fc` and of the recycled state, where the class has a switch for them."""
    if not s.method:
        return
    has = {
        "norm_before_fc": (facts.norm_before_fc, "the norm over the concatenation is among its tensors"),
        "fc_norm": (facts.fc_norm, "the norms of its states are among its tensors"),
        "norm_output": _recycled(s, facts),
    }
    for field, (wanted, why) in has.items():
        keys: tuple[str, ...] = getattr(known, field)
        does = switched_on(edit.config, keys, either=field in known.either)
        if wanted and keys and not does:
            edit.put(next((key for key in keys if find(edit.config, key)[0]), keys[0]), True, why)
        elif does and not wanted and field == "norm_output":
            for key in keys:
                if lookup(edit.config, key):
                    edit.put(key, False, why)


def _recycled(s: Situation, facts: DrafterFacts) -> tuple[bool, str]:
    stated = s.requirements.norm_output
    if stated is None:
        return facts.norm_output, "it was trained so, by its own config"
    return stated, f"it was trained so, by {s.requirements.source}"


def _bias(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:
    """A bias of `fc` exactly if there is one."""
    if facts.fc is None or not s.method or known.bias in {"", "yes", "no"}:
        return
    if facts.fc.bias != bool(lookup(edit.config, known.bias)):
        edit.put(known.bias, facts.fc.bias, f"fc.bias is {'' if facts.fc.bias else 'not '}among its tensors")


def _depth(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:
    """As many draft layers as the weights fill."""
    stated, real = whole(edit.config.get(_LAYERS)), facts.real_layers
    if _LAYERS in known.keys and stated is not None and real and stated > real:
        edit.put(_LAYERS, real, f"its weights fill {real}, and {engine(s)} would build {stated}")


def _bounds(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:  # noqa: ARG001 - a step
    """A bound of the capture ids that is the target's depth."""
    depth = s.target.num_layers if s.target is not None else None
    reading = s.profile.readings.get(s.method) if s.profile is not None else None
    if depth is None or reading is None or not known.ids_below:
        return
    ids = next((found for key in reading.keys if isinstance(found := lookup(edit.config, key), list)), None)
    limit = next((found for key in known.ids_below if (found := whole(lookup(edit.config, key))) is not None), None)
    if ids and limit is not None and any(isinstance(one, int) and one >= limit for one in ids):
        edit.put(known.ids_below[0], depth, f"{engine(s)} holds the capture ids against it, and would take {limit}")


def _mask(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:
    """The token of a drafted position under a key that the class reads."""
    keys = [key for key in MASK_TOKENS if key in known.keys]
    if facts.mask_token_id is None or not keys or any(find(edit.config, key)[0] for key in keys):
        return
    edit.put(keys[0], facts.mask_token_id, f"{engine(s)} looks for it there")


def _rope(edit: ConfigEdit, s: Situation, known: Drafter, facts: DrafterFacts) -> None:
    """The RoPE base under the key that the class reads, and the one trained with."""
    nested = edit.config.get("rope_parameters")
    if isinstance(nested, dict) and "rope_theta" in known.keys and "rope_parameters" not in known.keys:
        why = f"{engine(s)} reads no rope_parameters"
        if "rope_theta" not in edit.config and nested.get("rope_theta") is not None:
            edit.put("rope_theta", nested["rope_theta"], why)
        if edit.config.get("rope_scaling") is None and nested.get("rope_type", "default") != "default":
            edit.put("rope_scaling", {key: value for key, value in nested.items() if key != "rope_theta"}, why)
    trained = s.requirements.rope_theta
    if trained is None or trained == facts.rope_theta:
        return
    for key in ("rope_theta", "rope_parameters.rope_theta"):
        if find(edit.config, key)[0] or key == "rope_theta":
            edit.put(key, trained, f"the base that it was trained with, by {s.requirements.source}")


_STEPS: tuple[Step, ...] = (_fusion, _head, _norms, _bias, _depth, _bounds, _mask, _rope)
