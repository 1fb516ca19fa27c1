"""Manifest, files, release and target to the flags of a launch, checked as that release would read them."""

from __future__ import annotations

import msgspec

from drafter_contracts import check
from drafter_contracts.launch import numbers, options
from drafter_contracts.launch.algorithm import algorithm_for, method_of, no_algorithm
from drafter_contracts.launch.corrections import Correction, corrections, feeds, seen_as
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER, Plan, Wishes
from drafter_contracts.launch.target_facts import as_launched, is_believed, target_of_record
from drafter_contracts.rendering.reorder import reordered
from drafter_contracts.serving.launch import Speculation
from drafter_contracts.serving.speculation import WHAT
from drafter_contracts.verdict import REFUSE, UNKNOWN, Finding, Verdict, conclude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.elsewhere import OtherRelease
    from drafter_contracts.engines.profile import Advisory, Profile
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import ServingConfig, TargetFacts
    from drafter_contracts.situation import Situation

    #: Reads what other releases do, for the remedies of a refusal.
    Others = Callable[[Situation], Sequence[OtherRelease]]

_NO_WISHES = Wishes()


class _Task(msgspec.Struct, frozen=True):
    """Everything that a plan is made of."""

    manifest: Manifest
    facts: DrafterFacts
    profile: Profile
    target: TargetFacts
    advisories: Sequence[Advisory]
    name: str
    extra: tuple[str, ...]

    def situation(
        self,
        serving: ServingConfig,
        facts: DrafterFacts,
        speculation: Speculation | None = None,
        manifest: Manifest | None = None,
    ) -> Situation:
        """What the rules look at; `speculation` stands for one that the release's parser would not let through."""
        target, problem = as_launched(self.target, serving, self.profile)
        serving = options.effective(serving, self.profile, target, facts)
        if speculation is not None:
            serving = msgspec.structs.replace(serving, speculation=speculation)
        return check.assemble(
            serving=serving,
            profile=self.profile,
            drafter=facts,
            drafter_name=self.name,
            target=target,
            target_problem=problem,
            manifest=manifest or self.manifest,
            advisories=self.advisories,
        )

    def attempt(self, flags: tuple[str, ...], correction: Correction = Correction()) -> _Attempt:  # noqa: B008 - frozen
        """These flags with a correction, read back and checked."""
        facts = seen_as(self.facts, correction, self.target)
        manifest = reordered(self.manifest, correction.weights.order)
        flags = (*flags, *correction.flags)
        if correction.overrides is not None:
            flags = (*flags, *options.override_flags(self.profile, correction.overrides))
        serving = options.read_launch(self.profile, (*self.extra, *flags), self.target.path)
        situation = self.situation(serving, facts, manifest=manifest)
        return _Attempt(flags, correction, situation, check.run(situation))


class _Attempt(msgspec.Struct, frozen=True):
    """Flags, and what the check says of them."""

    flags: tuple[str, ...]
    correction: Correction
    situation: Situation
    verdict: Verdict

    @property
    def rank(self) -> tuple[int, int]:
        """Findings that refuse, and those that leave something open: the fewer the better."""
        severities = [finding.severity for finding in self.verdict.findings]
        return severities.count(REFUSE), severities.count(UNKNOWN)

    @property
    def good(self) -> bool:
        """Whether the check lets it pass, and the drafter is fed its own layout."""
        return self.verdict.decision not in {REFUSE, UNKNOWN} and feeds(self.situation)


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
    numbers.check_wishes(wishes)
    options.check_extra(profile, wishes.extra)
    known = target if target is not None else target_of_record(manifest.target)
    called = name or f"{manifest.name} {manifest.version}".strip() or facts.path
    task = _Task(manifest, facts, profile, known, advisories, called, wishes.extra)
    method = method_of(manifest, facts)
    algorithm, served = algorithm_for(profile, method)
    if not algorithm:
        finding = no_algorithm(profile, method, called, "; ".join(facts.method_evidence))
        context = {"engine": profile.name, "drafter": called}
        return Plan(profile.name, conclude((finding,), (finding.code,), context))
    chosen = numbers.choose(profile.launch.speculative, algorithm, manifest.recommended, wishes)
    if not served:
        return _unserved(task, algorithm, draft_path, others)
    flags = options.speculative_flags(profile, algorithm, draft_path or PATH_PLACEHOLDER, chosen)
    return _finished(task, _best(task, flags, wishes.prefer), chosen, others)


def _best(task: _Task, flags: tuple[str, ...], prefer: str) -> _Attempt:
    """The launch as it is if that will do, else the first correction that does, else whatever is least wrong."""
    tried = [task.attempt(flags)]
    if tried[0].good:
        return tried[0]
    for correction in corrections(tried[0].situation, prefer):
        tried.append(task.attempt(flags, correction))
        if tried[-1].good:
            return tried[-1]
    return min(tried, key=lambda attempt: attempt.rank)


def _finished(task: _Task, best: _Attempt, chosen: numbers.Numbers, others: Others | None) -> Plan:
    """The answer: flags only where the check lets them pass."""
    speculation = best.situation.serving.speculation
    if not best.good:
        missing = tuple(options.spelled(task.profile, numbers.DESTS[name]) for name in chosen.missing)
        return Plan(
            task.profile.name,
            _with_others(best, others),
            missing=missing if speculation.failure else (),
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


def _notices(task: _Task, best: _Attempt, chosen: numbers.Numbers) -> tuple[str, ...]:
    told = [*chosen.derived, *best.correction.notices]
    if is_believed(task.target):
        told.append("the target's config.json was not given: what the manifest records of it was believed")
    left: dict[str, list[str]] = {}
    for one in best.situation.serving.speculation.adjustments:
        if one.what in WHAT.values() and not one.stated:
            left.setdefault(one.why, []).append(f"{one.what.replace('_', ' ')} {one.effective}")
    told += [f"left to {task.profile.name}: {', '.join(values)} ({why})" for why, values in left.items()]
    return tuple(told)


def _with_others(best: _Attempt, others: Others | None) -> Verdict:
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


def _unserved(task: _Task, algorithm: str, draft_path: str, others: Others | None) -> Plan:
    """The release does not know the method's algorithm: its parser is not asked, every other rule is."""
    path = draft_path or PATH_PLACEHOLDER
    serving = options.read_launch(task.profile, task.extra, task.target.path)
    situation = task.situation(serving, task.facts, Speculation(algorithm, algorithm, False, path, path))
    if others is not None:
        situation = msgspec.structs.replace(situation, elsewhere=others(situation))
    return Plan(task.profile.name, check.run(situation))
