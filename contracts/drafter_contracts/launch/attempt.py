"""One try at a launch: flags read back as the release reads them, and judged by every rule."""

from __future__ import annotations

import msgspec

from drafter_contracts import check
from drafter_contracts.launch import options
from drafter_contracts.launch.corrections import Correction, feeds, seen_as
from drafter_contracts.launch.target_facts import as_launched
from drafter_contracts.rendering.reorder import reordered
from drafter_contracts.verdict import REFUSE, UNKNOWN, WARN, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.profile import Advisory, Profile
    from drafter_contracts.launch.operator import Operator
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import ServingConfig, Speculation, TargetFacts
    from drafter_contracts.situation import Situation

_NOTHING = Correction()


class Task(msgspec.Struct, frozen=True):
    """Everything that a plan is made of.

    Attributes:
        manifest: The drafter's contract.
        facts: What its files say.
        profile: The release.
        target: The target, before any override.
        advisories: Those that concern the release.
        name: What to call the drafter.
        operator: What the operator states.
    """

    manifest: Manifest
    facts: DrafterFacts
    profile: Profile
    target: TargetFacts
    advisories: Sequence[Advisory]
    name: str
    operator: Operator

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

    def attempt(self, flags: tuple[str, ...], correction: Correction = _NOTHING) -> Attempt:
        """These flags with those of a correction, read back and judged."""
        more = correction.flags
        if correction.overrides is not None:
            more = (*more, *options.override_flags(self.profile, correction.overrides))
        return self.judged(options.joined(self.profile, flags, more), correction)

    def judged(self, flags: tuple[str, ...], correction: Correction, told: tuple[str, ...] = ()) -> Attempt:
        """Exactly these flags, read back and judged, the drafter's files seen as a correction makes them."""
        facts = seen_as(self.facts, correction, self.target)
        manifest = reordered(self.manifest, correction.weights.order)
        serving = options.read_launch(self.profile, (*self.operator.extra, *flags), self.target.path)
        situation = self.situation(serving, facts, manifest=manifest)
        return Attempt(flags, correction, situation, check.run(situation), told)


class Attempt(msgspec.Struct, frozen=True):
    """Flags, and what the check says of them.

    Attributes:
        flags: All of them.
        correction: What they and the drafter's files owe to it.
        situation: What the rules looked at.
        verdict: What they say.
        told: Why flags were added, one sentence each.
    """

    flags: tuple[str, ...]
    correction: Correction
    situation: Situation
    verdict: Verdict
    told: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, int, int]:
        """Findings that refuse, that leave something open, and that warn: the fewer the better."""
        severities = [finding.severity for finding in self.verdict.findings]
        return severities.count(REFUSE), severities.count(UNKNOWN), severities.count(WARN)

    @property
    def good(self) -> bool:
        """Whether the check lets it pass, and the drafter is fed its own layout."""
        return self.verdict.decision not in {REFUSE, UNKNOWN} and feeds(self.situation)
