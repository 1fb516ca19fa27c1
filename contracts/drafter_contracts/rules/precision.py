"""The form in which the drafter's weights are run: quantisation and dtype."""

from __future__ import annotations

from drafter_contracts.rules.rule import Rule, drafter, engine, given, option, ways
from drafter_contracts.verdict import REFUSE, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

_UNQUANTISED = "unquant"
_DRAFT_QUANTIZATION = "--speculative-draft-model-quantization"
_DTYPES = {"half": "float16", "float": "float32", "BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def quantization(s: Situation) -> Outcome:
    """The drafter runs with the quantisation of its weights: it neither inherits nor is given another."""
    if s.drafter is None or s.profile is None or s.bundled or not s.serving.speculation.algorithm:
        return None
    if given(s, "speculative_draft_model_quantization"):
        return _other_quantization(s, str(option(s, "speculative_draft_model_quantization")))
    launched = option(s, "quantization")
    if not s.profile.launch.draft_quantization or not isinstance(launched, str) or launched in {"", _UNQUANTISED}:
        return None
    if s.drafter.quantization:
        return () if _one_method(launched, s.drafter.quantization) else _clash(s, launched, s.drafter.quantization)
    needs_file = launched in s.profile.launch.quantization_files
    flags = ways(s, (_DRAFT_QUANTIZATION, _UNQUANTISED))
    effect = "looks for a quantisation file in it and raises" if needs_file else "quantises it while loading"
    return (
        Finding(
            "QUANTIZATION",
            REFUSE if needs_file else WARN,
            f"{drafter(s)} is not quantised and inherits --quantization {launched}: {engine(s)} {effect}",
            expected="the drafter in its own dtype",
            actual=f"{launched} applied to the drafter",
            source=f"{engine(s)} server_args.py and model_loader/weight_utils.py: get_quant_config",
            remedy=f"Add {_DRAFT_QUANTIZATION} {_UNQUANTISED}."
            if flags
            else "Leave --quantization out: the target's own config.json states its method.",
            flags=flags,
        ),
    )


def _one_method(launched: str, stated: str) -> bool:
    """Whether two names are of one method: "modelopt_fp4" and "gptq_marlin" read "modelopt" and "gptq" weights."""
    return launched.startswith(stated) or stated.startswith(launched)


def _clash(s: Situation, launched: str, own: str) -> tuple[Finding, ...]:
    """A quantised drafter inherits another method: releases keep its own, raise, or quantise it once more."""
    flags = ways(s, (_DRAFT_QUANTIZATION, own))
    return (
        Finding(
            "QUANTIZATION",
            WARN,
            f"{drafter(s)} is quantised with {own} and inherits --quantization {launched}: what {engine(s)} makes of"
            " that is not in its profile",
            expected=own,
            actual=f"{launched}, where the release does not look at the drafter's own config",
            source=f"{engine(s)} configs/model_config.py: _verify_quantization",
            remedy=f"Add {_DRAFT_QUANTIZATION} {own}."
            if flags
            else "Leave --quantization out: the target's own config.json states its method.",
            flags=flags,
        ),
    )


def _other_quantization(s: Situation, stated: str) -> tuple[Finding, ...]:
    """The launch itself states a quantisation of the drafter: it must be the one of its weights."""
    own = s.drafter.quantization if s.drafter is not None else ""
    if stated in {"", _UNQUANTISED} or (own and _one_method(stated, own)):
        return ()
    wanted = own or _UNQUANTISED
    return (
        Finding(
            "QUANTIZATION",
            REFUSE,
            f"{_DRAFT_QUANTIZATION} {stated} would make {engine(s)} run {drafter(s)} in another form than its weights"
            f" were made in: they are {f'quantised with {own}' if own else 'not quantised'}",
            expected=f"{_DRAFT_QUANTIZATION} {wanted}, or none",
            actual=f"{_DRAFT_QUANTIZATION} {stated}",
            source="config.json: quantization_config",
            remedy=f"Launch with {_DRAFT_QUANTIZATION} {wanted}; if {stated} is meant, publish it so.",
            flags=ways(s, (_DRAFT_QUANTIZATION, wanted)),
        ),
    )


def dtype(s: Situation) -> Outcome:
    """The drafter runs in the dtype it was trained in."""
    if s.drafter is None or not s.serving.speculation.algorithm:
        return None
    wanted = s.requirements.dtype or s.drafter.dtype
    launched = option(s, "dtype")
    if not wanted or not isinstance(launched, str) or launched == "auto":
        return None
    wanted, used = _DTYPES.get(wanted, wanted), _DTYPES.get(launched, launched)
    if wanted == used or wanted not in set(_DTYPES.values()):
        return ()
    return (
        Finding(
            "DTYPE",
            WARN,
            f"--dtype {launched} runs {drafter(s)} in {used}, and it is made for {wanted}",
            expected=wanted,
            actual=used,
            source=f"{s.requirements.source}: draft.dtype" if s.requirements.dtype else "tensor headers",
            remedy=f"Launch with --dtype {wanted}, or check the acceptance length in {used}.",
            flags=ways(s, ("--dtype", wanted)),
        ),
    )


RULES = (
    Rule(
        "QUANTIZATION",
        "The drafter runs with its own quantisation",
        "A bf16 head inherits --quantization and either fails to load or is quantised in passing; a quantised one is "
        "read by another method, or quantised once more.",
        "https://github.com/sgl-project/sglang/pull/28196",
        ("R18",),
        quantization,
    ),
    Rule(
        "DTYPE",
        "The drafter runs in its own dtype",
        "A bf16 head in fp16 may overflow and draft noise.",
        "https://github.com/InternLM/lmdeploy/pull/4991",
        ("R18",),
        dtype,
    ),
)
