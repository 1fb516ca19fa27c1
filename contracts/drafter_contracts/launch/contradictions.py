"""Where the operator's own options say otherwise than the flags that a drafter needs: all are named, none dropped."""

from __future__ import annotations

import posixpath

import msgspec

from drafter_contracts.launch import options
from drafter_contracts.launch.algorithm import method_of
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER
from drafter_contracts.serving.adjust import graph_switch
from drafter_contracts.serving.read import BAD_OVERRIDE, OVERRIDES
from drafter_contracts.situation import Contradiction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.launch.attempt import Attempt, Task

_LEAVE_OUT = "Leave it out: the flags that are made here state it."
_OTHERWISE = "with another value it is not served as it was trained"


def contradictions(task: Task, attempt: Attempt) -> tuple[Contradiction, ...]:
    """Everything in which the operator's options contradict an attempt's flags.

    Args:
        task: What the plan is made of.
        attempt: Flags as they would be given out, after the operator's own.
    """
    return (
        *_target(task),
        *_decided(task, attempt),
        *_graphs(task, attempt),
        *_unreadable(task, attempt),
        *_overrides(task, attempt),
    )


def _target(task: Task) -> Iterator[Contradiction]:
    """Another target than the one that is judged."""
    stated, judged = task.operator.serving.target_path, task.target.path or options.NO_NAME
    if posixpath.normpath(stated) != posixpath.normpath(judged):
        why = f"what is judged is {judged}, and whether {stated} is the same is not known here"
        yield _one(task, options.TARGET, judged, why, f"Name it the same in both: --target {stated}.")


def _decided(task: Task, attempt: Attempt) -> Iterator[Contradiction]:
    """Algorithm, draft path and revision."""
    operator, made = task.operator, options.split(task.profile, attempt.flags)
    if operator.given(options.ALGORITHM):
        alone = options.effective(operator.serving, task.profile, attempt.situation.target, attempt.situation.drafter)
        name = attempt.situation.serving.speculation.algorithm
        if alone.speculation.algorithm != name:
            why = f"it is a drafter for {method_of(task.manifest, task.facts)}"
            yield _one(task, options.ALGORITHM, name, why, _LEAVE_OUT)
    path = made[options.DRAFT_PATH][-1]
    if operator.given(options.DRAFT_PATH) and operator.value(options.DRAFT_PATH).rstrip("/") != path.rstrip("/"):
        stated = operator.value(options.DRAFT_PATH)
        why = f"what is judged are the files of {task.name}, and whether {stated} holds them is not known here"
        remedy = f"Leave it out; or say with --draft-path {stated} that the files lie there."
        yield _one(task, options.DRAFT_PATH, "its own files" if path == PATH_PLACEHOLDER else path, why, remedy)
    revision = made.get(options.REVISION, ("", ""))[-1]
    if revision and operator.given(options.REVISION) and operator.value(options.REVISION) != revision:
        why = f"that is the commit that the files of {task.name} were taken from"
        yield _one(task, options.REVISION, revision, why, _LEAVE_OUT)


def _one(task: Task, dest: str, needed: str, why: str, remedy: str) -> Contradiction:
    stated = f"{task.operator.spelled(dest)} {task.operator.value(dest)}"
    return Contradiction(stated, f"{options.spelled(task.profile, dest)} {needed}", why, remedy)


def _graphs(task: Task, attempt: Attempt) -> Iterator[Contradiction]:
    """An option that turns CUDA graphs on, where the drafter needs them off."""
    switch, dests = graph_switch(task.operator.serving, task.profile)
    if switch is None or not switch.on or attempt.situation.serving.cuda_graphs:
        return
    why = "what they replay is not what it was trained on"
    for dest in dests:
        if task.operator.given(dest):
            remedy = "Leave it out, or use a release whose graphs capture the layers that the drafter states."
            yield Contradiction(task.operator.spelled(dest), "no CUDA graphs", why, remedy)


def _unreadable(task: Task, attempt: Attempt) -> Iterator[Contradiction]:
    """An override that no release can read, where one is made: that would stand for it."""
    made = options.split(task.profile, attempt.flags).get(OVERRIDES)
    for problem in task.operator.serving.arguments.problems if made is not None else ():
        if problem.kind == BAD_OVERRIDE:
            stated, why = f"{problem.flag} {problem.value}", f"it cannot be read as {problem.expected}"
            yield Contradiction(stated, " ".join(made or ()), why, "Correct it, or leave it out.")


def _overrides(task: Task, attempt: Attempt) -> Iterator[Contradiction]:
    """Keys of `--json-model-override-args` whose values differ, or that the operator's object would drop."""
    theirs, made = task.operator.overrides, attempt.situation.serving.overrides
    option = task.operator.spelled(OVERRIDES)
    merged = task.profile.launch.overrides.merged
    for top, stated in theirs.items():
        needed = made.get(top)
        if needed == stated:
            continue
        whole = isinstance(stated, dict) and isinstance(needed, dict)
        wanted = dict(_leaves(top, needed))
        got = dict(_leaves(top, stated)) if whole else {top: stated}
        own = task.facts.config.get(top)
        kept = dict(_leaves(top, own)) if whole and own and isinstance(own, dict) and top not in merged else {}
        for key, value in got.items():
            if key not in wanted or wanted[key] != value:
                remedy = f"Leave {key} out of it: the flags that are made here state it."
                right = f"{key} = {_json(wanted.get(key))}"
                yield Contradiction(f"{option} {key} = {_json(value)}", right, _OTHERWISE, remedy)
        for key in sorted(kept.keys() - got.keys()):
            why = f"the object replaces the drafter's own, and {key} with it"
            remedy = f"Write the whole of {top} of the drafter's config into it, or leave it out."
            missing = f"{key} = {_json(wanted.get(key, kept[key]))}"
            yield Contradiction(f"{option} {top} = {_json(stated)}", missing, why, remedy)


def _leaves(key: str, value: object) -> Iterator[tuple[str, object]]:
    """Dotted keys and values of a value, down to what is no mapping."""
    if not isinstance(value, dict) or not value:
        yield key, value
        return
    for name, child in value.items():
        yield from _leaves(f"{key}.{name}", child)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
