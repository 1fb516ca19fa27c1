"""Flags that a finding names as its remedy: each is tried, and kept only where every rule together says less."""

from __future__ import annotations

import msgspec

from drafter_contracts.launch import options
from drafter_contracts.rules.remedy import has_key
from drafter_contracts.serving.read import OVERRIDES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.launch.attempt import Attempt, Task
    from drafter_contracts.verdict import Finding

#: What the plan itself decides.
_DECIDED = frozenset({options.ALGORITHM, options.DRAFT_PATH, options.REVISION})


def remedied(task: Task, attempt: Attempt) -> Attempt:
    """An attempt with the flags that its findings name, as long as each makes the verdict better.

    What the operator states is never changed: the finding that speaks against it stands.

    Args:
        task: What the plan is made of.
        attempt: To begin with.
    """
    while True:
        better = next(_better(task, attempt), None)
        if better is None:
            return attempt
        attempt = better


def _better(task: Task, attempt: Attempt) -> Iterator[Attempt]:
    """Attempts with one finding's flags that are judged better."""
    for finding in attempt.verdict.findings:
        for way in finding.flags:
            if not _may(task, way):
                continue
            told = (*attempt.told, _why(way, finding))
            tried = task.judged(options.joined(task.profile, attempt.flags, way), attempt.correction, told)
            if tried.rank < attempt.rank:
                yield tried


def _may(task: Task, way: tuple[str, ...]) -> bool:
    """Whether flags leave alone what the plan decides, what the operator states, and what the target's config has."""
    dests = options.split(task.profile, way)
    if OVERRIDES in dests and not spares_target(task, msgspec.json.decode(dests[OVERRIDES][-1])):
        return False
    return not any(dest in _DECIDED or (dest != OVERRIDES and task.operator.states(dest)) for dest in dests)


def spares_target(task: Task, document: dict[str, object] | None) -> bool:
    """Whether overrides change no key of the target's own config, but for what the operator overrides so."""
    theirs = task.operator.overrides
    return not any(
        has_key(task.target.config, key) and not (key in theirs and theirs[key] == value)
        for key, value in (document or {}).items()
    )


def _why(way: tuple[str, ...], finding: Finding) -> str:
    return f"{' '.join(way)} is added: {finding.message}"
