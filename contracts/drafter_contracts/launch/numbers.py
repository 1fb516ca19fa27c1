"""Steps, branches and draft tokens: as wished, else as recommended, made consistent by the release's own rules.

Nothing is made up: what neither says is left to the release, or named as missing where it would fail.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.errors import LaunchError
from drafter_contracts.serving.speculation import NAMES, WHAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.launch_rules import SpeculativeRules
    from drafter_contracts.launch.plan_records import Wishes
    from drafter_contracts.manifest import Recommended
    from drafter_contracts.serving.launch import Arguments, Speculation

#: Name of a number to the dest of its option.
DESTS = {
    "steps": "speculative_num_steps",
    "topk": "speculative_eagle_topk",
    "draft_tokens": "speculative_num_draft_tokens",
}


class Numbers(msgspec.Struct, frozen=True):
    """The three numbers to state; None: left out.

    Attributes:
        steps: `--speculative-num-steps`.
        topk: `--speculative-eagle-topk`.
        draft_tokens: `--speculative-num-draft-tokens`, the root included.
        derived: What follows from the others, one sentence each.
    """

    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    derived: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Those that are not stated."""
        return tuple(name for name in NAMES if getattr(self, name) is None)


def with_options(wishes: Wishes, arguments: Arguments) -> Wishes:
    """Wishes with the numbers that options of the launch state.

    Args:
        wishes: The caller's.
        arguments: The caller's further options, as the release reads them.

    Raises:
        LaunchError: A number is stated in both ways and not the same, or is below 1; names every one.
    """
    stated: dict[str, int] = {}
    differing = []
    for name, dest in DESTS.items():
        value, wished = arguments.values.get(dest), getattr(wishes, name)
        if dest not in arguments.given or not isinstance(value, int):
            continue
        stated[name] = value
        if wished is not None and wished != value:
            differing.append(f"{name} {wished} and {arguments.spelled[dest]} {value}")
    if differing:
        raise LaunchError(
            "two numbers where there is one",
            where="extra options",
            expected="each number stated once, or the same",
            actual="; ".join(differing),
        )
    wishes = msgspec.structs.replace(wishes, **stated)
    _check(wishes)
    return wishes


def _check(wishes: Wishes) -> None:
    for name in NAMES:
        value = getattr(wishes, name)
        if value is not None and value < 1:
            raise LaunchError("not a possible number", where=name, expected="a whole number from 1", actual=str(value))


def with_block(rules: SpeculativeRules, algorithm: str, wishes: Wishes, arguments: Arguments) -> Wishes:
    """Wishes with the draft tokens of a block size that an option of the launch states.

    Args:
        rules: The release's rules.
        algorithm: As the launch names it.
        wishes: The caller's; draft tokens among them stay.
        arguments: The caller's further options, as the release reads them.
    """
    block = rules.blocks.get(rules.aliases.get(algorithm, algorithm))
    size = arguments.values.get(block.flag) if block is not None and block.flag in arguments.given else None
    if block is None or not isinstance(size, int) or wishes.draft_tokens is not None:
        return wishes
    return msgspec.structs.replace(wishes, draft_tokens=size + block.add)


def choose(rules: SpeculativeRules, algorithm: str, recommended: Recommended, wishes: Wishes) -> Numbers:
    """The numbers to state for an algorithm.

    Args:
        rules: The release's rules.
        algorithm: As the launch names it.
        recommended: The manifest's.
        wishes: The caller's; they win.
    """
    effective = rules.aliases.get(algorithm, algorithm)
    if effective in rules.fixed or effective in rules.blocks:
        return _block(recommended, wishes)
    steps, topk, tokens = recommended.steps, recommended.topk, recommended.draft_tokens
    derived: tuple[str, ...] = ()
    portable = recommended.speculative_tokens
    if portable is not None and steps is topk is tokens is None:
        steps, topk, tokens = portable, 1, portable + 1
        derived = (f"the recommended {portable} drafted tokens are {portable} steps of one branch each",)
    made = Numbers(
        steps if wishes.steps is None else wishes.steps,
        topk if wishes.topk is None else wishes.topk,
        tokens if wishes.draft_tokens is None else wishes.draft_tokens,
        derived,
    )
    return _chain(made, wishes) if made.topk == 1 else made


def _block(recommended: Recommended, wishes: Wishes) -> Numbers:
    """Drafters of whole blocks: the release itself sets steps and branches, so that only a wish is passed on."""
    tokens = wishes.draft_tokens if wishes.draft_tokens is not None else recommended.draft_tokens
    derived: tuple[str, ...] = ()
    if tokens is None and recommended.speculative_tokens is not None:
        tokens = recommended.speculative_tokens + 1
        derived = (f"{tokens} draft tokens: the recommended {tokens - 1} and the root",)
    return Numbers(wishes.steps, wishes.topk, tokens, derived)


def _chain(made: Numbers, wishes: Wishes) -> Numbers:
    """With one branch per step a draft has steps + 1 tokens, the root included: one number gives the other.

    Every release holds to it: those with `topk1_tokens` set the tokens themselves, and in the others a chain of S
    steps yields S candidates.
    """
    steps, tokens = made.steps, made.draft_tokens
    follows_tokens = tokens is not None and tokens > 1 and wishes.steps is None
    if follows_tokens and (steps is None or wishes.draft_tokens is not None):
        steps = (tokens or 0) - 1
    elif steps is not None and wishes.draft_tokens is None:
        tokens = steps + 1
    if (steps, tokens) == (made.steps, made.draft_tokens):
        return made
    word = f"with topk 1, {steps} steps are {tokens} draft tokens, the root included"
    return Numbers(steps, made.topk, tokens, (*made.derived, word))


def in_force(chosen: Numbers, speculation: Speculation) -> Numbers:
    """The numbers that a launch really gets: what the release would change without asking is stated as it will be.

    Args:
        chosen: The numbers that were stated.
        speculation: The launch with them, as the release runs it.
    """
    reasons = {one.what: one.why for one in speculation.adjustments}
    changed, told = {}, []
    for name, value in zip(NAMES, speculation.effective, strict=True):
        stated = getattr(chosen, name)
        if None in {stated, value} or stated == value:
            continue
        changed[name] = value
        why = reasons.get(WHAT[name], "its own rule")
        told.append(f"{name.replace('_', ' ')}: {stated} asked for, {value} will be in force: {why}")
    return msgspec.structs.replace(chosen, derived=(*chosen.derived, *told), **changed)
