"""A drafter, a target and a vLLM release brought together: what that release makes of the drafter's config."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import DFLASH, DFLASH2, DSPARK, EAGLE3, P_EAGLE, DrafterFacts
from drafter_contracts.engines.capture import Capture, capture_once, lookup
from drafter_contracts.engines.profile import FITTED, CaptureMethod
from drafter_contracts.engines.vllm.profile import Conversion, DraftClass, VllmProfile
from drafter_contracts.engines.vllm.reading import SPECULATORS, TYPE, Unreadable, read_ids, translated
from drafter_contracts.manifest import Manifest
from drafter_contracts.serving.launch import TargetFacts
from drafter_contracts.situation import StatedLayout

#: A drafter's method to the release's name for it.
METHODS = {EAGLE3: "eagle3", P_EAGLE: "eagle3", DFLASH: "dflash", DFLASH2: "dflash", DSPARK: "dspark"}
#: Methods whose drafter gives all tokens in one pass.
BLOCKS = (DFLASH, DFLASH2, DSPARK)
PARALLEL = "parallel_drafting"


class Fed(msgspec.Struct, frozen=True):
    """What one of the release's runners feeds the drafter.

    Attributes:
        runner: "V1" or "V2".
        ids: Ids that it reads; None for the target class's default.
        key: Where.
        capture: What is captured with them; None where that is not known (`problem` says why).
        problem: Why not.
    """

    runner: str
    ids: tuple[int, ...] | None = None
    key: str = ""
    capture: Capture | None = None
    problem: str = ""


class Case(msgspec.Struct, frozen=True):
    """Everything that is judged.

    Attributes:
        profile: The release.
        manifest: The drafter's contract.
        facts: What its files say, with the config that the release shall see.
        target: The target.
        name: What to call the drafter.
        method: Its method.
        stated: The layout that it was trained on, or None.
        seen: Its config as the release's classes and runners see it, or None (`problem` says why).
        problem: Why it cannot be seen.
        architecture: The drafter class's registered name, "" if the release has none for it.
        known: What that class builds.
        conversion: The translation, for a config in the speculators format.
        decoder: The target class that captures, "" if it is not known.
        rule: Its rule, or None.
    """

    profile: VllmProfile
    manifest: Manifest
    facts: DrafterFacts
    target: TargetFacts
    name: str
    method: str
    stated: StatedLayout | None = None
    seen: dict[str, object] | None = None
    problem: str = ""
    architecture: str = ""
    known: DraftClass | None = None
    conversion: Conversion | None = None
    decoder: str = ""
    rule: CaptureMethod | None = None

    @property
    def own(self) -> str:
        """Architecture that the drafter's config names."""
        return self.facts.architectures[0] if self.facts.architectures else ""

    @property
    def engine(self) -> str:
        """The release, for a sentence."""
        return self.profile.name

    def fed(self) -> tuple[Fed, ...]:
        """What every runner that the release may choose would feed the drafter."""
        return tuple(self._fed(name) for name in sorted(self.profile.runners))

    def _fed(self, name: str) -> Fed:
        n = self.target.num_layers
        if self.seen is None:
            return Fed(name, problem=self.problem)
        try:
            ids, key = read_ids(self.profile.runners[name], self.seen)
        except Unreadable as error:
            return Fed(name, problem=str(error))
        if self.rule is None or self.rule.status != FITTED or n is None:
            why = self.rule.reason if self.rule is not None else "the target's class is not known"
            return Fed(name, ids, key, problem=why if n is not None else "the target's depth is not known")
        return Fed(name, ids, key, capture_once(self.rule, n, ids))


def assemble(case: Case) -> Case:
    """The case with what the release makes of the drafter's config and of the target."""
    decoder = _decoder(case.profile, case.target)
    index = case.profile.targets.get(decoder, -1)
    case = msgspec.structs.replace(case, decoder=decoder, rule=case.profile.rules[index] if index >= 0 else None)
    config = case.facts.config
    if config.get(SPECULATORS) is None:
        renames = case.profile.renames.get(METHODS.get(case.method, ""), {})
        architecture = renames.get(case.own, "")
        known = case.profile.drafters.get(architecture)
        return msgspec.structs.replace(case, seen=dict(config), architecture=architecture, known=known)
    conversion = case.profile.speculators.get(str(config.get(TYPE)))
    if conversion is None:
        told = f"{case.engine} translates no speculators config of the type {config.get(TYPE)}"
        return msgspec.structs.replace(case, problem=told)
    case = msgspec.structs.replace(case, conversion=conversion)
    try:
        seen = translated(conversion, config)
    except Unreadable as error:
        return msgspec.structs.replace(case, problem=str(error))
    names = seen["architectures"]
    architecture = str(names[0]) if isinstance(names, list) and names else ""
    known = case.profile.drafters.get(architecture)
    return msgspec.structs.replace(case, seen=seen, architecture=architecture if known else "", known=known)


def _decoder(profile: VllmProfile, target: TargetFacts) -> str:
    """The architecture whose class captures: the target's own, or that of its decoder's part."""
    path = profile.delegates.get(target.architecture)
    if path is None:
        return target.architecture
    named = lookup(target.config, f"{path}.architectures")
    return str(named[0]) if isinstance(named, list) and named else ""
