"""What one release captures for one drafter and target class: the gate's own computation, without a launch.

Eager execution and CUDA-graph replay are both asked for: the launch is assumed to leave CUDA graphs on.
"""

from __future__ import annotations

import re

import msgspec

from drafter_contracts.check import assemble
from drafter_contracts.checkpoint.facts import DFLASH, DFLASH2, DSPARK, EAGLE3, P_EAGLE, DrafterFacts
from drafter_contracts.engines.capture import EffectiveCapture
from drafter_contracts.engines.launch_rules import Source
from drafter_contracts.engines.profile import BROKEN, FITTED, OPAQUE, Profile
from drafter_contracts.engines.words import boundary_list, capture_words, effect_words
from drafter_contracts.manifest import Manifest
from drafter_contracts.serving.launch import Invocation, ServingConfig, Speculation, TargetFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.situation import Situation

CAPTURES = "captures"
#: The release raises: while it reads the ids, in the setter, or in the forward pass.
RAISES = "raises"
#: The drafter's config turns aux capture off.
OFF = "off"
#: The class has no hook for the method.
HOOKLESS = "no hook"
UNREGISTERED = "not registered"
NOT_DECIDABLE = "not decidable"
CANNOT_WORK = "broken"
#: Answers that leave open what a drafter would be fed.
OPEN = (NOT_DECIDABLE,)

#: What kind of drafter is captured for under which method of a profile.
METHOD_OF = {EAGLE3: "EAGLE3", P_EAGLE: "EAGLE3", DFLASH: "DFLASH", DFLASH2: "DFLASH", DSPARK: "DSPARK"}

_LINE = re.compile(r"(\.py):\d+")


class Question(msgspec.Struct, frozen=True):
    """What is asked of every release alike.

    Attributes:
        architecture: Target class.
        method: Key of the profile: "EAGLE3", "DFLASH", "DSPARK".
        layers: Decoder layers of the target.
        facts: The drafter.
        model_type: `model_type` of the target's config, where it is known.
        hidden_size: Width of the target's residual stream, where it is known.
        manifest: The drafter's manifest, or None.
    """

    architecture: str
    method: str
    layers: int
    facts: DrafterFacts
    model_type: str = ""
    hidden_size: int | None = None
    manifest: Manifest | None = None


class Answer(msgspec.Struct, frozen=True):
    """What a release does.

    Attributes:
        kind: One of the words above.
        effect: What is captured, for "captures", "raises" in setter or forward pass, and "off".
        reason: For the other kinds: what was seen.
        ids: Ids as they reach the setter, None for the class's default.
        places: Setter and forward pass, or what else decides.
    """

    kind: str
    effect: EffectiveCapture | None = None
    reason: str = ""
    ids: tuple[int, ...] | None = None
    places: tuple[Source, ...] = ()

    def behaviour(self) -> tuple[object, ...]:
        """What two releases that do the same have in common: everything but the lines of their files."""
        effect = self.effect
        if effect is not None and effect.replay == effect.eager:
            effect = msgspec.structs.replace(effect, replay=None)
        if effect is not None:
            effect = msgspec.structs.replace(effect, undetermined=without_lines(effect.undetermined))
        return self.kind, effect, without_lines(self.reason)

    def words(self) -> str:
        """What happens, one phrase."""
        if self.effect is None:
            return {
                UNREGISTERED: "not registered as a target",
                HOOKLESS: "no capture hook",
                CANNOT_WORK: f"has a hook that cannot work: {self.reason}",
                NOT_DECIDABLE: f"not decidable: {self.reason}",
            }.get(self.kind, self.reason)
        if self.kind == OFF:
            return f"capture is turned off: {capture_words(self.effect.eager)}"
        return effect_words(self.effect)

    def source(self) -> str:
        """The places that decide, as text."""
        return "; ".join(place.text() for place in self.places)

    @property
    def replays_otherwise(self) -> bool:
        """Whether CUDA graphs replay something else than eager execution captures."""
        effect = self.effect
        return effect is not None and (bool(effect.undetermined) or effect.replay not in {None, effect.eager})

    @property
    def boundaries(self) -> str:
        """What eager execution captures, bare: "3, 31, 59"; "" where nothing of the kind arrives."""
        if self.kind != CAPTURES or self.effect is None or self.effect.eager.foreign:
            return ""
        return boundary_list(self.effect.eager)


def without_lines(text: str) -> str:
    """A text without line numbers: those move from release to release and change nothing."""
    return _LINE.sub(r"\1", text)


def situation(profile: Profile, question: Question) -> Situation:
    """A launch of this drafter on this release, with every option left as it is by default."""
    algorithm = question.method
    target = TargetFacts(
        path="",
        architecture=question.architecture,
        model_type=question.model_type,
        text_model_type=question.model_type,
        num_layers=question.layers,
        hidden_size=question.hidden_size,
    )
    draft = question.facts.path or "the drafter"
    serving = ServingConfig(
        Invocation(()),
        speculation=Speculation(algorithm, algorithm, draft_path=draft, stated_draft_path=draft),
    )
    return assemble(
        serving=serving,
        profile=profile,
        drafter=question.facts,
        drafter_name=draft,
        target=target,
        manifest=question.manifest,
    )


def answer(profile: Profile, question: Question) -> Answer:
    """What a release captures for a drafter."""
    s = situation(profile, question)
    reading = profile.readings.get(question.method)
    if s.rule is None:
        registered = question.architecture in profile.targets
        return Answer(HOOKLESS if registered else UNREGISTERED)
    places = tuple(place for place in (s.rule.source, s.rule.forward) if place is not None)
    if s.rule.status == BROKEN:
        return Answer(CANNOT_WORK, reason=s.rule.reason, places=places)
    if s.rule.status != FITTED:
        return Answer(NOT_DECIDABLE, reason=s.rule.reason, places=places)
    if reading is None or reading.status == OPAQUE:
        why = reading.reason if reading is not None else "the profile does not say how ids are read"
        where = (reading.source,) if reading is not None and reading.source is not None else ()
        return Answer(NOT_DECIDABLE, reason=why, places=where)
    if s.ids_error:
        key = f" ({s.ids_key})" if s.ids_key else ""
        where = (reading.source,) if reading.source is not None else ()
        return Answer(RAISES, reason=f"{s.ids_error} when the drafter's config is read{key}", places=where)
    if s.capture is None:
        return Answer(NOT_DECIDABLE, reason="what is captured could not be computed", places=places)
    if s.capture_off:
        return Answer(OFF, s.capture, places=places)
    replay = profile.graphs.get(question.method)
    if s.capture.replay is not None and replay is not None and replay.source is not None:
        places = (*places, replay.source)
    kind = RAISES if s.capture.eager.error else CAPTURES
    return Answer(kind, s.capture, ids=s.ids, places=places)
