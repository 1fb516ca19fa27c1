"""The check's findings on what is really running, as causes."""

from __future__ import annotations

from drafter_contracts.acceptance.causes import POSSIBLE, PROVED, SEEN, Cause, Open
from drafter_contracts.rules import find_rule
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.acceptance.causes import Confidence
    from drafter_contracts.verdict import Finding, Verdict

#: Refusals that say that the engine does not start: where one runs, something read for them is not what runs.
CRASHES = frozenset({
    "ALGORITHM_UNKNOWN", "ARGUMENT_REFUSED", "CAPTURE_CRASH", "CAPTURE_NO_HOOK", "COMBINATION", "DRAFT_CLASS",
    "DRAFT_IDS_RANGE", "DRAFT_LAYERS", "DRAFT_PATH", "SPECULATION_FAILS", "TARGET_IS_DRAFTER", "TOPK_BACKEND",
})  # fmt: skip
#: Warnings about a thing that certainly is so, and not about a doubt.
CERTAIN = frozenset({"SIMULATED_ACCEPTANCE", "SPECULATION_ADJUSTED", "TARGET_TOKENIZER", "ADVISORY", "COPIED_K"})
#: Notes that say nothing against a launch, and may be why its acceptance is bad.
EXPLAINING = frozenset({"TRAINED_BLOCK"})
#: Said by the doctor itself, of the engine and not of a launch.
_OWN = frozenset({"NO_SPECULATION"})
#: What the rules of a family look at, for the list of what was found right.
FAMILIES = {
    "CAPTURE": "captured layers, their order and number",
    "FC": "width and application of fc",
    "NORM": "norms of the drafter",
    "DRAFT": "the drafter's class, tensors, head, embeddings and vocabulary",
    "DRAFTER": "the drafter's own files",
    "METHOD": "algorithm and kind of drafter",
    "LAYOUT": "the stated layout",
    "NUMBERING": "numbering of the ids",
    "TARGET": "class, depth, width, vocabulary and tokenizer of the target",
    "SPECULATION": "steps, topk and draft tokens",
    "CONTEXT": "context served and trained",
    "ROPE": "RoPE",
    "DTYPE": "dtype",
    "QUANTIZATION": "quantisation of the drafter",
    "TOPK": "topk, page size and attention backend",
    "PIPELINE": "pipeline stages",
    "LORA": "LoRA",
    "COMBINATION": "what speculation is combined with",
    "ADVISORY": "known faults of the release",
    "THINKING": "chat mode",
}


def causes_of(verdict: Verdict, *, running: bool) -> tuple[Cause, ...]:
    """The causes in a verdict: what is refused and what is warned of.

    Args:
        verdict: Of the check on what runs.
        running: Whether the engine is known to be up.
    """
    found = (
        one
        for one in verdict.findings
        if one.code not in _OWN and one.severity != UNKNOWN and (one.severity != NOTE or one.code in EXPLAINING)
    )
    return tuple(_cause(one, running=running) for one in found)


def _cause(finding: Finding, *, running: bool) -> Cause:
    confidence: Confidence = POSSIBLE
    evidence = []
    if finding.severity == REFUSE:
        confidence = PROVED
        if running and finding.code in CRASHES:
            confidence = POSSIBLE
            evidence.append("an engine launched so does not start, and this one runs: are these its files and release?")
    elif finding.code in CERTAIN:
        confidence = SEEN
    for name, text in (("trained", finding.expected), ("runs", finding.actual), ("source", finding.source)):
        if text:
            evidence.append(f"{name}: {text}")
    return Cause(
        code=finding.code,
        message=finding.message,
        confidence=confidence,
        evidence=tuple(evidence),
        next=finding.remedy or f"drafters explain {finding.code}",
        catalogue=find_rule(finding.code).catalogue,
    )


def open_of(verdict: Verdict) -> tuple[Open, ...]:
    """What the rules could not decide."""
    return tuple(
        Open(
            what=find_rule(one.code).title,
            why=one.message,
            settle=_settle(one),
            decides=True,
        )
        for one in verdict.findings
        if one.severity == UNKNOWN
    )


def _settle(finding: Finding) -> str:
    if finding.code == "DRAFTER_UNREADABLE":
        return "run this beside the engine, or name the stored version: drafters doctor NAME@VERSION --url URL"
    return finding.remedy or f"drafters explain {finding.code}"


def right_of(verdict: Verdict) -> tuple[str, ...]:
    """What rules looked at and found right, by family."""
    wrong = {one.code for one in verdict.findings if one.severity != NOTE}
    families: dict[str, int] = {}
    for code in verdict.checked:
        family = code.partition("_")[0]
        if family in FAMILIES and code not in wrong:
            families[family] = families.get(family, 0) + 1
    bad = {code.partition("_")[0] for code in wrong}
    return tuple(FAMILIES[family] for family in families if family not in bad)
