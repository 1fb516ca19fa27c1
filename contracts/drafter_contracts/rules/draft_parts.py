"""What the release's class makes of the drafter: whether it works, its layers, its tensors, norms around its states."""

from __future__ import annotations

from drafter_contracts.engines.capture import lookup
from drafter_contracts.engines.profile import BROKEN, FITTED, OPAQUE
from drafter_contracts.rules.captured import source_text
from drafter_contracts.rules.rule import Rule, drafter, engine, release_names, switched_on, whole
from drafter_contracts.verdict import REFUSE, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import TensorFact
    from drafter_contracts.engines.profile import Drafter
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

#: Tensors whose loss changes nothing: masks and buffers that the engine computes itself.
#: (The bias of fc and the norms before it have rules of their own.)
_NEEDLESS = ("fc.bias", "input_norm", "fc_norm", "t2d", "rotary_emb", "inv_freq", "embed_tokens")
#: Projections of latent attention. Loaders are asked for those of `layers.0` alone: a class that drops these builds
#: another attention, whatever its layer is called.
_LATENT = ("kv_a_proj_with_mqa", "q_a_proj")
_LATENT_ASKED = "layers.0.self_attn.kv_a_proj_with_mqa.weight"


def broken_class(s: Situation) -> Outcome:
    """The release's drafter class can work at all."""
    if s.draft_class is None or s.draft_class.status == OPAQUE:
        return None
    if s.draft_class.status != BROKEN:
        return ()
    works = release_names(s, (o for o in s.elsewhere if o.draft_class is not None and o.draft_class.status == FITTED))
    return (
        Finding(
            "DRAFT_BROKEN",
            REFUSE,
            f"the class that {engine(s)} has for {drafter(s)} cannot work in this release: {s.draft_class.reason}",
            expected="a class that is fed what the target hands on",
            actual="one that is not",
            source=source_text(s, s.draft_class.source),
            remedy=f"Use {works}, where it works." if works else "Use a release whose class works.",
        ),
    )


def draft_layers(s: Situation) -> Outcome:
    """The class takes as many draft layers as the drafter has, and fills those it builds."""
    known, facts = s.draft_class, s.drafter
    if known is None or facts is None or s.bundled or known.status != FITTED:
        return None
    stated = whole(s.draft_config.get("num_hidden_layers"))
    real = facts.real_layers
    if known.max_layers:
        many = max(value for value in (stated, real, 0) if value is not None)
        if many <= known.max_layers:
            return ()
        lie = f" (its weights hold {real})" if real is not None and stated is not None and real < stated else ""
        fault = f"{engine(s)} takes {known.max_layers} draft layer at most, {drafter(s)} has {many}{lie}"
        remedy = f"Correct num_hidden_layers to {real}." if lie and real == known.max_layers else _layers_remedy(s)
        expected = f"at most {known.max_layers}"
    elif stated is not None and real is not None and stated > real and "num_hidden_layers" in known.keys:
        fault = f"{engine(s)} builds {stated} draft layers for {drafter(s)}, whose weights fill {real}"
        remedy, expected, many = f"Correct num_hidden_layers to {real}.", f"{real} layers", stated
    else:
        return ()
    return (
        Finding(
            "DRAFT_LAYERS",
            REFUSE,
            fault,
            expected=expected,
            actual=f"{many} layers",
            source=source_text(s, known.source) + "; config.json: num_hidden_layers",
            remedy=remedy,
        ),
    )


def _layers_remedy(s: Situation) -> str:
    others = release_names(
        s, (other for other in s.elsewhere if other.draft_class is not None and not other.draft_class.max_layers)
    )
    return f"Releases that take more: {others}." if others else "Use a release that takes more draft layers."


def dropped_weights(s: Situation) -> Outcome:
    """The class loads every tensor that the drafter's function depends on."""
    known, facts = s.draft_class, s.drafter
    if known is None or facts is None or not facts.tensors or known.status != FITTED:
        return None
    lost, raising = lost_tensors(known, facts.tensors)
    if not lost and not raising:
        return ()
    what = f"drops {len(lost)} tensors of {drafter(s)} without a message"
    if raising:
        lost, what = raising, f"raises at {len(raising)} tensors of {drafter(s)}"
    shown = ", ".join(lost[:4]) + (f" and {len(lost) - 4} more" if len(lost) > 4 else "")
    return (
        Finding(
            "DRAFT_WEIGHTS",
            REFUSE,
            f"{engine(s)} {what}: {shown}",
            expected="every tensor loaded",
            actual="an exception" if raising else "parameters left as initialised, or a part of the head left out",
            source=source_text(s, known.source),
            remedy="Use a release that loads them, or rename them if the class has them under another name.",
        ),
    )


def lost_tensors(known: Drafter, tensors: tuple[TensorFact, ...]) -> tuple[list[str], list[str]]:
    """Names of the tensors that a class drops without a message, and of those at which its loader raises."""
    lost = [name for name in _among(tensors, known.ignores) if _judged(name, known.loads)]
    lost = [name for name in lost if not any(word in name for word in _NEEDLESS)]
    if {_LATENT_ASKED, "layers.0"} & {*known.ignores}:
        lost += [one.name for one in tensors if one.name not in lost and any(part in one.name for part in _LATENT)]
    return lost, _among(tensors, known.refuses)


def _judged(name: str, loads: tuple[str, ...]) -> bool:
    """Whether the profile can say that this tensor is dropped.

    A class that was built with one layer ignores every other: that says nothing of a drafter with more. (A class that
    takes one layer only is DRAFT_LAYERS's.)
    """
    plain = name.removeprefix("model.")
    first, _, rest = plain.partition(".")
    index = rest.partition(".")[0]
    return first != "layers" or index in {"0", ""} or any(word.startswith(f"layers.{index}") for word in loads)


def _among(tensors: tuple[TensorFact, ...], words: tuple[str, ...]) -> list[str]:
    """Names of the tensors that are among `words`: by their full name, or below one that stands for a group."""
    if not words:
        return []
    groups = tuple(f"{word}." for word in words)
    plain = ((tensor.name, tensor.name.removeprefix("model.")) for tensor in tensors)
    return [name for name, short in plain if short in words or name in words or short.startswith(groups)]


def ids_range(s: Situation) -> Outcome:
    """The capture ids are below what the drafter's class checks them against."""
    known = s.draft_class
    if known is None or known.status != FITTED or not known.ids_below or s.ids is None or s.ids_key == "formula":
        return None
    key, limit = next(
        ((key, found) for key in known.ids_below if (found := whole(lookup(s.draft_config, key))) is not None),
        ("", None),
    )
    ids = lookup(s.draft_config, s.ids_key)
    if limit is None or not isinstance(ids, list):
        return None
    beyond = [i for i in ids if isinstance(i, int) and i >= limit]
    if not beyond:
        return ()
    first = known.ids_below[0]
    return (
        Finding(
            "DRAFT_IDS_RANGE",
            REFUSE,
            f"the class of {drafter(s)} in {engine(s)} refuses the capture ids {beyond}: it takes {key} = {limit} for"
            " the target's depth",
            expected=f"ids below {limit}",
            actual=f"ids {ids}",
            source=source_text(s, known.source) + f"; config.json: {key}",
            remedy=f"Set {first} to the target's depth"
            + (f", {s.target.num_layers}," if s.target is not None and s.target.num_layers else "")
            + " in the drafter's config.",
        ),
    )


def norm_output(s: Situation) -> Outcome:
    """The recycled state is normed exactly if it was in training."""
    known, facts = s.draft_class, s.drafter
    if known is None or facts is None or not s.method or known.status != FITTED:
        return None
    stated = s.requirements.norm_output
    trained = facts.norm_output if stated is None else stated
    does = switched_on(s.draft_config, known.norm_output, either="norm_output" in known.either)
    if trained == does:
        return ()
    if not known.norm_output:
        remedy = "Use a release that honours norm_output."
    else:
        remedy = f"Set {known.norm_output[0]} to {'true' if trained else 'false'} in the drafter's config."
    return (
        Finding(
            "NORM_OUTPUT",
            REFUSE,
            f"{drafter(s)} recycles the {'normed' if trained else 'un-normed'} state between its steps,"
            f" {engine(s)} the {'normed' if does else 'un-normed'} one",
            expected=f"norm_output {str(trained).lower()}"
            + (f", by {s.requirements.source}" if stated is not None else ", by config.json"),
            actual=f"norm_output {str(does).lower()}" + ("" if known.norm_output else ": the flag is not read"),
            source=source_text(s, known.source),
            remedy=remedy,
        ),
    )


def norm_before_residual(s: Situation) -> Outcome:
    """The residual is fed by the normed state exactly if it was in training."""
    known, facts = s.draft_class, s.drafter
    if known is None or facts is None or not s.method or known.status != FITTED or not known.keys:
        return None
    stated = s.requirements.norm_before_residual
    trained = facts.norm_before_residual if stated is None else stated
    if trained is None or any(key.endswith("norm_before_residual") for key in known.keys):
        return None
    if not trained:
        return ()
    return (
        Finding(
            "NORM_BEFORE_RESIDUAL",
            REFUSE,
            f"{drafter(s)} was trained with the normed state as residual, and {engine(s)} has no such option",
            expected="norm_before_residual true",
            actual="the un-normed state is the residual",
            source=source_text(s, known.source),
            remedy="Serve it on an engine that reads norm_before_residual.",
        ),
    )


RULES = (
    Rule(
        "DRAFT_BROKEN",
        "The drafter's class can work",
        "From 0.5.6.post2 to 0.5.9 the class for Mistral-Large-3's EAGLE head builds a plain target model, without the "
        "layer that takes the target's states in: it never sees them.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/mistral_large_3_eagle.py",
        ("R26",),
        broken_class,
    ),
    Rule(
        "DRAFT_LAYERS",
        "The class takes this many draft layers",
        "Older releases raise for more than one layer; newer ones leave layers without weights as initialised.",
        "https://github.com/sgl-project/SpecForge/issues/129",
        ("R26", "R28"),
        draft_layers,
    ),
    Rule(
        "DRAFT_WEIGHTS",
        "Every tensor of the drafter is loaded",
        "Loaders skip names they do not know without a message; the module keeps its random start values.",
        "https://github.com/vllm-project/vllm/issues/43456",
        ("R28",),
        dropped_weights,
    ),
    Rule(
        "DRAFT_IDS_RANGE",
        "The drafter's class accepts the capture ids",
        "Some releases check the ids against the drafter's own depth where num_target_layers is absent, and raise.",
        "https://github.com/sgl-project/sglang/blob/v0.5.15/python/sglang/srt/speculative/dflash_utils.py",
        ("R02", "R26"),
        ids_range,
    ),
    Rule(
        "NORM_OUTPUT",
        "The recycled state is the trained one",
        "The first drafted token is right and every later one is computed from a state of another norm.",
        "https://github.com/sgl-project/SpecForge/pull/879",
        ("R22",),
        norm_output,
    ),
    Rule(
        "NORM_BEFORE_RESIDUAL",
        "The residual is the trained one",
        "SGLang has no norm_before_residual; heads trained with it run on another residual.",
        "https://github.com/vllm-project/speculators/pull/610",
        ("R22",),
        norm_before_residual,
    ),
)
