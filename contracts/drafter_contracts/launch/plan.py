"""Manifest, files, release and target to the flags of a launch, checked as that release would read them."""

from __future__ import annotations

import msgspec

from drafter_contracts import check
from drafter_contracts.launch import numbers, options
from drafter_contracts.launch.algorithm import algorithm_for, method_of, no_algorithm
from drafter_contracts.launch.attempt import Attempt, Task
from drafter_contracts.launch.contradictions import contradictions
from drafter_contracts.launch.corrections import Correction, corrections
from drafter_contracts.launch.operator import read
from drafter_contracts.launch.plan_records import FLAGS, PATH_PLACEHOLDER, Plan, Wishes
from drafter_contracts.launch.remedies import remedied, spares_target
from drafter_contracts.launch.target_facts import is_believed, target_of_record
from drafter_contracts.serving.launch import Speculation
from drafter_contracts.serving.speculation import WHAT
from drafter_contracts.verdict import REFUSE, UNKNOWN, Finding, Verdict, conclude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.elsewhere import OtherRelease
    from drafter_contracts.engines.profile import Advisory, Profile
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import TargetFacts
    from drafter_contracts.situation import Situation

    #: Reads what other releases do, for the remedies of a refusal.
    Others = Callable[[Situation], Sequence[OtherRelease]]

_NO_WISHES = Wishes()


def plan(  # noqa: PLR0913 - one keyword per thing that decides
    *,
    manifest: Manifest,
    facts: DrafterFacts,
    profile: Profile,
    target: TargetFacts | None = None,
    advisories: Sequence[Advisory] = (),
    draft_path: str = "",
    wishes: Wishes = _NO_WISHES,
    name: str = "",
    others: Others | None = None,
) -> Plan:
    """The flags with which a release serves a drafter, or the verdict that says why it cannot.

    The flags are read back as the release's own parser reads them and checked by every rule; where the drafter's
    config would be fed other layers, ids that feed the recorded ones are looked for, by `--json-model-override-args`
    where that reaches the drafter, else in a changed config.json.

    Args:
        manifest: The drafter's contract.
        facts: What its files say.
        profile: The release.
        target: What the target's config says; None to believe the manifest's record.
        advisories: Those that concern the release.
        draft_path: Where the drafter's files will lie for the engine; "" leaves `PATH_PLACEHOLDER`.
        wishes: The caller's numbers and further options.
        name: What to call the drafter in messages.
        others: Reads what other releases do, for the remedies of a refusal; None for remedies without them.

    Raises:
        LaunchError: A wish that no launch can have.
        ManifestError: The manifest's layout cannot exist on its target.
    """
    known = target if target is not None else target_of_record(manifest.target)
    called = name or f"{manifest.name} {manifest.version}".strip() or facts.path
    operator = read(profile, wishes, known.path)
    if is_believed(known) and known.path == manifest.target.model:  # the launch alone names it otherwise
        known = msgspec.structs.replace(known, path=operator.serving.target_path)
    task = Task(manifest, facts, profile, known, advisories, called, operator)
    method = method_of(manifest, facts)
    algorithm, served = algorithm_for(profile, method)
    if not algorithm:
        finding = no_algorithm(profile, method, called, "; ".join(facts.method_evidence))
        context = {"engine": profile.name, "drafter": called}
        return Plan(profile.name, conclude((finding,), (finding.code,), context))
    if not served:
        return _unserved(task, algorithm, draft_path or PATH_PLACEHOLDER, others)
    first, chosen = _first(task, algorithm, draft_path or PATH_PLACEHOLDER)
    best = _uncontradicted(task, _best(task, first, wishes.prefer))
    return _finished(task, best, chosen, others)


def _first(task: Task, algorithm: str, draft_path: str) -> tuple[Attempt, numbers.Numbers]:
    """The launch with the drafter's files as they are, and with the numbers that will be in force."""
    rules, recommended, operator = task.profile.launch.speculative, task.manifest.recommended, task.operator
    wishes = numbers.with_block(rules, algorithm, operator.wishes, operator.serving.arguments)
    revision, _ = options.draft_revision(task.profile, task.manifest.provenance, draft_path)

    def launched(chosen: numbers.Numbers) -> Attempt:
        return task.attempt(options.speculative_flags(task.profile, algorithm, draft_path, chosen, revision))

    chosen = numbers.choose(rules, algorithm, recommended, wishes)
    first = launched(chosen)
    for _ in numbers.DESTS:  # one number may follow from another
        again = numbers.in_force(chosen, first.situation.serving.speculation)
        if again == chosen:
            break
        chosen, first = again, launched(again)
    return first, chosen


def _best(task: Task, first: Attempt, prefer: str) -> Attempt:
    """The launch as it is if that will do, else the first correction that does, else whatever is least wrong.

    Each with the flags that the rules name as remedies; where a render is preferred, they are tried after corrections.
    """
    tried: list[Attempt] = []
    for attempt in _attempts(task, first, prefer):
        tried.append(remedied(task, attempt) if prefer == FLAGS else attempt)
        if tried[-1].good:
            return remedied(task, tried[-1])
    return remedied(task, min(tried, key=lambda attempt: attempt.rank))


def _attempts(task: Task, first: Attempt, prefer: str) -> Iterator[Attempt]:
    """The launch as it is, and with each correction that leaves the target's own config alone."""
    yield first
    for correction in corrections(first.situation, prefer):
        if spares_target(task, correction.overrides):
            yield task.attempt(first.flags, correction)


def _uncontradicted(task: Task, best: Attempt) -> Attempt:
    """An attempt that is refused where the operator's own options contradict it."""
    found = contradictions(task, best)
    if not found:
        return best
    situation = msgspec.structs.replace(best.situation, contradictions=found)
    return msgspec.structs.replace(best, situation=situation, verdict=check.run(situation))


def _finished(task: Task, best: Attempt, chosen: numbers.Numbers, others: Others | None) -> Plan:
    """The answer: flags only where the check lets them pass."""
    if not best.good:
        missing = tuple(options.spelled(task.profile, numbers.DESTS[name]) for name in chosen.missing)
        return Plan(
            task.profile.name,
            _with_others(best, others),
            missing=missing if any(one.code == "SPECULATION_FAILS" for one in best.verdict.findings) else (),
            notices=_notices(task, best, chosen),
        )
    return Plan(
        task.profile.name,
        best.verdict,
        best.flags,
        best.correction.config,
        best.correction.changes,
        best.correction.weights,
        notices=_notices(task, best, chosen),
    )


def _notices(task: Task, best: Attempt, chosen: numbers.Numbers) -> tuple[str, ...]:
    told = [*chosen.derived, *best.correction.notices, *(best.told if best.good else ())]
    path = best.situation.serving.speculation.stated_draft_path
    told += [notice for notice in options.draft_revision(task.profile, task.manifest.provenance, path)[1:] if notice]
    if is_believed(task.target):
        told.append("the target's config.json was not given: what the manifest records of it was believed")
    left: dict[str, list[str]] = {}
    for one in best.situation.serving.speculation.adjustments:
        if one.what in WHAT.values() and not one.stated:
            left.setdefault(one.why, []).append(f"{one.what.replace('_', ' ')} {one.effective}")
    told += [f"left to {task.profile.name}: {', '.join(values)} ({why})" for why, values in left.items()]
    return tuple(told)


def _with_others(best: Attempt, others: Others | None) -> Verdict:
    """The verdict, its remedies naming other releases where it refuses."""
    verdict = best.verdict
    if verdict.decision == REFUSE and others is not None:
        verdict = check.run(msgspec.structs.replace(best.situation, elsewhere=others(best.situation)))
    if verdict.decision in {REFUSE, UNKNOWN}:
        return verdict
    # No rule objects, and what is captured is still not the layout: never let pass what was not proved.
    finding = Finding(
        "CAPTURE_UNCOMPUTED",
        UNKNOWN,
        f"what {best.situation.engine} would capture for {best.situation.drafter_name} could not be computed",
        remedy="Give the target's config.json.",
    )
    return conclude((*verdict.findings, finding), verdict.checked, verdict.context)


def _unserved(task: Task, algorithm: str, draft_path: str, others: Others | None) -> Plan:
    """The release does not know the method's algorithm: its parser is not asked, every other rule is."""
    serving = options.read_launch(task.profile, task.operator.extra, task.target.path)
    speculation = Speculation(algorithm, algorithm, False, draft_path, draft_path)
    situation = task.situation(serving, task.facts, speculation)
    flags = options.speculative_flags(task.profile, algorithm, draft_path, numbers.Numbers())
    best = _uncontradicted(task, Attempt(flags, Correction(), situation, check.run(situation)))
    return Plan(task.profile.name, _with_others(best, others))
