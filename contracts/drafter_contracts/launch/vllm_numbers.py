"""How many tokens vLLM is asked to draft: one number, for a chain."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import DSPARK
from drafter_contracts.launch.vllm_case import BLOCKS
from drafter_contracts.verdict import REFUSE, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.launch.plan_records import Wishes
    from drafter_contracts.launch.vllm_case import Case

NUMBER = "num_speculative_tokens"


class Drafted(msgspec.Struct, frozen=True):
    """The number.

    Attributes:
        tokens: Drafted tokens, the root not counted; None where nothing says it.
        findings: What stands against it.
        notices: Where it comes from.
    """

    tokens: int | None = None
    findings: tuple[Finding, ...] = ()
    notices: tuple[str, ...] = ()


def choose(case: Case, wishes: Wishes) -> Drafted:
    """The number to state: the caller's, else the recommended."""
    findings = []
    if wishes.topk is not None and wishes.topk > 1:
        message = f"{case.engine} drafts a chain: topk {wishes.topk} cannot be said to it"
        findings.append(Finding("SPECULATION_TREE", REFUSE, message, "topk 1", f"topk {wishes.topk}"))
    wished = [n for n in (wishes.steps, _less_root(wishes.draft_tokens)) if n is not None]
    if len(set(wished)) > 1:
        message = f"a chain of {wishes.steps} steps has {wishes.steps} drafted tokens in {case.engine}"
        got = f"{wishes.draft_tokens} draft tokens, the root included"
        findings.append(Finding("SPECULATION_TREE", REFUSE, message, f"{wished[0] + 1} draft tokens", got))
    tokens, notices = (wished[0], ()) if wished else _recommended(case)
    if tokens is None and _own(case) is not None:
        return Drafted(None, tuple(findings), (f"{NUMBER} is left to {case.engine}: the drafter's block size",))
    if tokens is None or tokens < 1:
        message = f"{case.engine} refuses to draft without {NUMBER}, and nothing recommends it for {case.name}"
        remedy = "Say how many steps: --steps NUMBER."
        findings.append(Finding("SPECULATION_FAILS", REFUSE, message, "a number from 1", str(tokens), remedy=remedy))
    return Drafted(tokens, (*findings, *_beyond(case, tokens)), notices)


def _less_root(tokens: int | None) -> int | None:
    return None if tokens is None else tokens - 1


def _recommended(case: Case) -> tuple[int | None, tuple[str, ...]]:
    told = case.manifest.recommended
    if told.speculative_tokens is not None:
        return told.speculative_tokens, ()
    if told.topk is not None and told.topk > 1:
        notice = f"the recommended tree (topk {told.topk}) cannot be said to {case.engine}: it drafts a chain"
        return told.steps, (notice,)
    if told.steps is not None and case.method not in BLOCKS:
        return told.steps, ()
    tokens = _less_root(told.draft_tokens)
    return tokens, () if tokens is None else (f"{tokens} drafted tokens: the recommended less the root",)


def _own(case: Case) -> int | None:
    """The block size that the release takes the number from, for the one method for which it does."""
    found = case.seen.get("block_size") if case.seen is not None and case.method == DSPARK else None
    return found if type(found) is int else None


def _beyond(case: Case, tokens: int | None) -> tuple[Finding, ...]:
    trained = case.manifest.draft.block_size or case.facts.block_size
    if case.method not in BLOCKS or trained is None or tokens is None or tokens <= trained:
        return ()
    message = f"{case.name} was trained on blocks of {trained}; {tokens} drafted tokens are more"
    return (Finding("TRAINED_BLOCK", REFUSE, message, f"at most {trained}", str(tokens)),)
