"""Which promise to hold an engine against: the nearest to the conditions under which it runs, and how these differ."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from drafter_contracts.acceptance.records import Conditions
from drafter_contracts.manifest_records import Acceptance

#: A promise's positions must give its length within this, in tokens, to be used for fewer drafted tokens.
_ADDS_UP = 0.05
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
_MEASURED = ("engine", "benchmark", "", "teacher-forced")
_SAME, _NOT_KNOWN, _OTHER = 0, 1, 2
#: Methods that draft a block, or what matched, whatever the steps: for DFLASH and DSPARK SGLang forces steps and topk
#: to 1, for NGRAM it computes steps that are no depth (`srt/arg_groups/speculative_hook.py`).
_BLOCK_METHODS = frozenset({"DFLASH", "DSPARK", "NGRAM"})


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """An acceptance that was promised, and where that stands ("manifest", "attached by ci on 2026-11-29")."""

    acceptance: Acceptance
    where: str = ""


class Promised(msgspec.Struct, frozen=True, kw_only=True):
    """The promise that is nearest, as far as it can be held against what is seen.

    Attributes:
        promise: It.
        length: Length that it promises under the conditions seen; None if it cannot be compared.
        drafted: Drafted tokens per path that `length` is for; None if not known.
        differs: How its conditions differ from those seen, one line each.
        obstacle: Why it cannot be compared, or "".
        settle: What would make it comparable, or "".
        teacher_forced: No engine ran: estimated on recorded states, so more of a difference is to be expected.
    """

    promise: Promise
    length: float | None
    drafted: int | None = None
    differs: tuple[str, ...] = ()
    obstacle: str = ""
    settle: str = ""
    teacher_forced: bool = False

    def shown(self) -> str:
        """The promise in one line: "2.75 on mt-bench, sglang 0.5.23, steps 3, topk 1, ... (manifest)"."""
        kept = self.promise.acceptance
        pairs = (("steps", kept.steps), ("topk", kept.topk), ("draft tokens", kept.draft_tokens))
        words = [f"{kept.length:.2f} on {kept.dataset}" if kept.dataset else f"{kept.length:.2f}", kept.engine]
        words += [f"{name} {value}" for name, value in pairs if value is not None]
        words += [kept.measured, kept.date]
        return ", ".join(filter(None, words)) + (f" ({self.promise.where})" if self.promise.where else "")


def drafted_tokens(
    steps: int | None, draft_tokens: int | None, positions: tuple[float, ...] = (), *, block: bool = False
) -> int | None:
    """Drafted tokens per path, K: one step of the target accepts from 0 to K of them. None if nothing says.

    Args:
        steps: `--speculative-num-steps`: the depth, but of a block.
        draft_tokens: `--speculative-num-draft-tokens`, the root included.
        positions: Rates per position.
        block: See `drafts_block`.
    """
    if steps is not None and not block:
        return steps
    if draft_tokens is not None and draft_tokens > 1:
        return draft_tokens - 1
    return len(positions) or None


def drafts_block(conditions: Conditions) -> bool:
    """Whether the steps in force are not how many tokens are drafted in a row."""
    steps, topk, draft_tokens = conditions.steps, conditions.topk, conditions.draft_tokens
    # Of one step and one choice no tree has more than a root and a leaf.
    return conditions.method.upper() in _BLOCK_METHODS or (steps == topk == 1 and (draft_tokens or 0) > 2)


def nearest(promises: Iterable[Promise | Acceptance], conditions: Conditions) -> Promised | None:
    """The promise whose conditions are nearest: first those that can be compared at all; None if there are none.

    What decides, in this order: comparable as it is, by its positions, or not; engine; steps, topk and draft tokens;
    target's dtype, quantisation and revision; release; workload; temperature; how it was measured; how many verify
    steps it counted; the later one.
    """
    best: tuple[tuple[object, ...], Promised] | None = None
    for one in promises:
        promise = one if isinstance(one, Promise) else Promise(acceptance=one)
        promised, parts = _held(promise, conditions)
        place = (promised.length is None, *parts)
        if best is None or place < best[0]:
            best = (place, promised)
    return best[1] if best else None


def _held(promise: Promise, conditions: Conditions) -> tuple[Promised, tuple[object, ...]]:
    """A promise beside the conditions seen, and its place among others: less is nearer."""
    kept = promise.acceptance
    length, drafted, note, obstacle, settle = _length(kept, conditions)
    teacher_forced = kept.measured == "teacher-forced"
    engine, release = ("", "") if teacher_forced else _engine(kept.engine)
    differences = [
        _difference("engine", engine, conditions.engine.lower()),
        _difference("steps", kept.steps, conditions.steps),
        _difference("topk", kept.topk, conditions.topk),
        _difference("draft tokens", kept.draft_tokens, conditions.draft_tokens),
        _difference("target dtype", dtype_name(kept.target_dtype), dtype_name(conditions.target_dtype)),
        _difference("target quantization", kept.target_quantization.lower(), conditions.target_quantization.lower()),
        _revisions(kept.target_revision, conditions.target_revision),
        _difference("release", release, conditions.release),
        _difference("workload", kept.dataset, conditions.workload),
        _difference("temperature", kept.temperature, conditions.temperature),
    ]
    words = [word for _, word in differences if word]
    if teacher_forced:
        words = [word for word in words if not word.startswith(("engine: ", "release: "))]
        words.insert(0, "teacher-forced on recorded states, no engine ran: an estimate")
    if note:
        words.insert(0, note)
    far = [distance for distance, _ in differences]
    promised = Promised(
        promise=promise,
        length=length,
        drafted=drafted,
        differs=tuple(words),
        obstacle=obstacle,
        settle=settle,
        teacher_forced=teacher_forced,
    )
    measured = _MEASURED.index(kept.measured)
    age = (not kept.date, [-ord(letter) for letter in kept.date])
    return promised, (bool(note), *far, measured, -(kept.verify_steps or 0), age)


def _length(kept: Acceptance, seen: Conditions) -> tuple[float | None, int | None, str, str, str]:
    """Length promised for what is drafted now, for how many drafted tokens, how that was computed, or why it is not.

    The length is that of the promise's own drafts. With another depth, width or size of the draft tree it is another
    one, and no rule says which; but one chain of drafts that is cut short accepts what its first positions did.
    """
    block = drafts_block(seen)
    theirs = drafted_tokens(kept.steps, kept.draft_tokens, kept.positions, block=block)
    ours = drafted_tokens(seen.steps, seen.draft_tokens, block=block)
    if theirs is None:
        settle = "record the steps (or draft tokens) under which it was measured"
        return None, None, "", "it does not say how many tokens were drafted", settle
    if kept.length > theirs + 1 + _ADDS_UP:
        words = f"it promises {kept.length:g} tokens per step of {theirs} drafted, which give {theirs + 1} at most"
        return None, theirs, "", words, "measure again"
    settle = f"measure at these settings and record that: {_settings(seen)}"
    if _both_differ(kept.topk, seen.topk):
        return None, theirs, "", f"it is for topk {kept.topk}; topk {seen.topk} is in force", settle
    if ours is None or ours == theirs:
        if not kept.topk == seen.topk == 1 and _both_differ(kept.draft_tokens, seen.draft_tokens):
            words = f"it is for {kept.draft_tokens} draft tokens; {seen.draft_tokens} are in force"
            return None, theirs, "", words, settle
        return kept.length, theirs, "", "", ""
    words = f"it is for {theirs} drafted tokens; {ours} are in force"
    chain = not block and kept.topk == 1 and (seen.topk == 1 or seen.engine == "vllm")
    if ours > theirs or not chain or len(kept.positions) < ours:
        return None, theirs, "", words, settle
    if len(kept.positions) != theirs or abs(1 + sum(kept.positions) - kept.length) > _ADDS_UP:
        return None, theirs, "", f"{words}, and its positions do not add up to its length", settle
    length = 1 + sum(kept.positions[:ours])
    return length, ours, f"computed for {ours} drafted tokens: 1 + the first {ours} of its {theirs} positions", "", ""


def _settings(conditions: Conditions) -> str:
    pairs = (("steps", conditions.steps), ("topk", conditions.topk), ("draft tokens", conditions.draft_tokens))
    return ", ".join(f"{name} {value}" for name, value in pairs if value is not None)


def _both_differ(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def _difference(name: str, promised: object, seen: object) -> tuple[int, str]:
    """How far apart two values of a condition are, and that in words: "target dtype: promised for bfloat16, ..."."""
    if promised == seen:
        return _SAME, ""
    silent, unseen = promised in (None, ""), seen in (None, "")
    if silent and unseen:
        return _SAME, ""
    if silent:
        return _NOT_KNOWN, f"{name}: the promise does not say, {_word(seen)} is seen"
    if unseen:
        return _NOT_KNOWN, f"{name}: promised for {_word(promised)}, what runs is not known"
    return _OTHER, f"{name}: promised for {_word(promised)}, {_word(seen)} is seen"


def _word(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _revisions(promised: str, seen: str) -> tuple[int, str]:
    """As `_difference`; an abbreviated commit is the same as the one it abbreviates."""
    short = min(len(promised), len(seen))
    if short >= 7 and promised[:short] == seen[:short]:
        return _SAME, ""
    return _difference("target revision", promised, seen)


def _engine(text: str) -> tuple[str, str]:
    """Engine and release of "SGLang 0.5.23", "sglang==0.5.23", "vllm v0.12.0"."""
    found = re.match(r"([A-Za-z][A-Za-z-]*)(?:[\s=@:/]+v?(\d\S*))?", text.strip())
    return (found[1].lower(), found[2] or "") if found else ("", "")


def dtype_name(text: str) -> str:
    """A dtype by one name; "auto" says nothing."""
    name = text.lower().removeprefix("torch.")
    return "" if name == "auto" else _DTYPES.get(name, name)
