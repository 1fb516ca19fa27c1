"""Whether what the engine fills the drafter with is what was judged: its own files, all of them, and no others."""

from __future__ import annotations

from drafter_contracts.engines.profile import FITTED
from drafter_contracts.rendering.tensor_names import asked_about
from drafter_contracts.rules.rule import Rule, drafter, engine, option
from drafter_contracts.verdict import REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

#: Dtypes of weights that are what they say, without scales.
_PLAIN = ("F64", "F32", "F16", "BF16")
_DUMMY = "dummy"
#: So many names are told.
_SHOWN = 4


def beside(s: Situation) -> Outcome:
    """No weight file lies beside those that were read: without a shard index an engine reads every one."""
    if s.drafter is None or s.bundled or not s.drafter.tensors:
        return None
    if not s.drafter.beside:
        return ()
    names = ", ".join(s.drafter.beside)
    return (
        Finding(
            "DRAFT_FILES",
            UNKNOWN,
            f"{engine(s)} fills {drafter(s)} from every *.safetensors of its directory, as there is no shard index:"
            f" from {names} too, which was not looked at",
            expected="model.safetensors alone",
            actual=f"{names} beside it",
            source=s.drafter.path,
            remedy=f"Move {names} out of the directory.",
        ),
    )


def quantised_fusion(s: Situation) -> Outcome:
    """Where `fc` is quantised, the release is known to apply its scales."""
    facts = s.drafter
    if facts is None or facts.fc is None or s.bundled or not s.method:
        return None
    prefix = facts.fc.name.removesuffix("weight")
    if not prefix.endswith("fc."):
        return None
    weight = facts.tensor(facts.fc.name)
    scales = [one.name for one in facts.tensors if one.name.startswith(f"{prefix}weight_scale")]
    if weight is None or (weight.dtype in _PLAIN and not scales):
        return ()
    found = f"{weight.name} {weight.dtype}" + (f" with {', '.join(scales)}" if scales else "")
    return (
        Finding(
            "FC_QUANTIZED",
            UNKNOWN,
            f"the fc of {drafter(s)} is quantised, and whether the class that {engine(s)} has for it applies the scales"
            " is not known: a plain one takes the numbers as they lie there, without a message",
            expected="fc in the dtype that it is run in",
            actual=found,
            source="tensor headers",
            remedy="Export the drafter with fc left out of the quantisation.",
        ),
    )


def dummy(s: Situation) -> Outcome:
    """The drafter's weights are loaded, not made up."""
    if s.drafter is None or s.bundled or not s.serving.speculation.algorithm:
        return None
    own, target = option(s, "speculative_draft_load_format"), option(s, "load_format")
    if (own or target) != _DUMMY:
        return ()
    name = "--speculative-draft-load-format" if own else "--load-format"
    return (
        Finding(
            "DUMMY_WEIGHTS",
            WARN if target == _DUMMY else REFUSE,
            f"{name} {_DUMMY} fills {drafter(s)} with random numbers: what its files hold is never read",
            expected="its weights loaded",
            actual=f"{name} {_DUMMY}",
            source="the launch command",
            remedy=f"Leave {name} out, except for benchmarks of the engine itself.",
        ),
    )


def strange(s: Situation) -> Outcome:
    """Every tensor is of a module that the release's class was asked about."""
    known, facts = s.draft_class, s.drafter
    if known is None or facts is None or s.bundled or not s.method or known.status != FITTED or not facts.tensors:
        return None
    names = [one.name for one in facts.tensors if not asked_about(one.name)]
    if not names:
        return ()
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    return (
        Finding(
            "DRAFT_TENSORS",
            WARN,
            f"whether {engine(s)} loads {shown} of {drafter(s)} is not known: its class may leave out, without a"
            " message, what they do",
            expected="tensors of modules that drafters are known to have",
            actual=shown,
            source="tensor headers",
            remedy="Measure its acceptance before relying on it, or serve it with the engine that it was written for.",
        ),
    )


RULES = (
    Rule(
        "DRAFT_FILES",
        "Nothing but the drafter's own files is loaded",
        "Transformers reads model.safetensors alone; SGLang and vLLM read every *.safetensors where no index names "
        "some: one left over from another run replaces tensors, in the order in which the folder is listed.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/model_loader/weight_utils.py",
        ("R28",),
        beside,
    ),
    Rule(
        "FC_QUANTIZED",
        "A quantised fc is run with its scales",
        "SGLang's class for EAGLE-3 heads builds fc as a plain torch.nn.Linear, whatever the drafter's quantisation: "
        "its loader copies the stored numbers and skips the scales.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/llama_eagle3.py",
        ("R18", "R28"),
        quantised_fusion,
    ),
    Rule(
        "DRAFT_TENSORS",
        "No tensor is of an unknown kind",
        "Loaders skip names they do not know: a drafter with a module more than its class runs without that module.",
        "https://github.com/vllm-project/vllm/issues/43456",
        ("R28",),
        strange,
    ),
    Rule(
        "DUMMY_WEIGHTS",
        "The drafter's weights are loaded",
        "With the load format dummy every launch works and nothing is ever accepted.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/model_loader/loader.py",
        ("R28",),
        dummy,
    ),
)
