"""What an upgrade does to one drafter: its capture, its class, its weights and its config keys.

Pure: the drafter was read before. Captures and findings are the gate's own, on a launch with every option left as it
is by default.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.engines.capture import find, read_ids
from drafter_contracts.engines.profile import FITTED, Drafter, Profile
from drafter_contracts.engines.ranges import Span
from drafter_contracts.engines.words import UNKNOWN_DEPTH
from drafter_contracts.layout import CaptureLayout, describe_taps
from drafter_contracts.manifest import Manifest
from drafter_contracts.rules import draft_class, draft_parts, fusion, vocabulary
from drafter_contracts.solve import Solution, serves, solve
from drafter_contracts.upgrades.answer import (
    CANNOT_WORK,
    CAPTURES,
    HOOKLESS,
    METHOD_OF,
    OFF,
    OPEN,
    RAISES,
    UNREGISTERED,
    Answer,
    Question,
    answer,
    situation,
)
from drafter_contracts.upgrades.history import depth_for, runs
from drafter_contracts.verdict import NOTE, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Answers of a release that feeds a drafter nothing.
_NOTHING = (HOOKLESS, UNREGISTERED, CANNOT_WORK, RAISES)
#: Rules about what a release makes of the drafter itself; what it captures is told apart.
_RULES = (*fusion.RULES, *draft_class.RULES, *draft_parts.RULES, *vocabulary.RULES)


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """The target as far as it is known.

    Attributes:
        architecture: Class, or "" where every class has to be looked at.
        layers: Decoder layers, or None.
        model_type: `model_type` of its config, or "".
        hidden_size: Width of its residual stream, or None.
        origin: Who says so, for the output.
    """

    architecture: str = ""
    layers: int | None = None
    model_type: str = ""
    hidden_size: int | None = None
    origin: str = ""


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the upgrade does to the capture for target classes that it treats alike.

    Attributes:
        architectures: Target classes.
        before: What the older release captures.
        after: What the newer one captures.
        steps: What each range of releases in between captures, where they are known; empty if nothing changes.
        keep: The ids with which the newer release feeds what the older one fed; None where nothing moves, or where
            the older release fed no one layout.
        trained: Whether the layout stated by a manifest is what arrives (before, after); None without one.
    """

    architectures: tuple[str, ...]
    before: Answer
    after: Answer
    steps: tuple[tuple[Span, Answer], ...] = ()
    keep: Solution | None = None
    trained: tuple[bool, bool] | None = None

    @property
    def changes(self) -> bool:
        """Whether the two releases answer otherwise."""
        return self.before.behaviour() != self.after.behaviour()

    @property
    def moves(self) -> bool:
        """Whether the older release captures something, and the newer one something else or nothing."""
        return self.changes and self.before.kind in {CAPTURES, OFF} and self.after.kind not in OPEN

    @property
    def gains(self) -> bool:
        """Whether only the newer release captures at all."""
        return self.after.kind == CAPTURES and self.before.kind in _NOTHING

    @property
    def opens(self) -> bool:
        """Whether what is captured can be told of one of the two releases only."""
        return self.changes and self.undecided and not {self.before.kind, self.after.kind} & {*_NOTHING}

    @property
    def undecided(self) -> bool:
        """Whether one of the two answers is open."""
        return self.before.kind in OPEN or self.after.kind in OPEN


class Fate(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the upgrade does to one drafter.

    Attributes:
        drafter: Its directory.
        architecture: Class that its config names.
        method: Key of the profile, "" for a drafter that reads no aux hidden states.
        ids: Ids that the newer release reads from its config, or None.
        key: Where it reads them.
        target: The target as far as it is known.
        layers: The target's depth, or None where it is not known.
        assumed: What was taken to be so, or "".
        moves: Target classes whose capture the upgrade changes; with a known target that one, changed or not.
        unmoved: Number of classes for which nothing changes, where every class was looked at.
        newly: Number of classes that only the newer release captures for, where every class was looked at.
        unknown: Number of classes of which the newer release's capture, or both, cannot be told, likewise.
        trained: The layout that a manifest states, in words, or "".
        class_before: What the older release does with drafters of this class, None if it has no such class.
        class_after: The same for the newer one.
        keys_gained: Keys of its config that only the newer release reads.
        keys_lost: Keys of its config that only the older one reads.
        appeared: Findings of the gate that the upgrade brings.
        vanished: Findings of the gate that it ends.
    """

    drafter: str
    architecture: str
    method: str
    ids: tuple[int, ...] | None
    key: str
    target: Target
    layers: int | None
    assumed: str = ""
    moves: tuple[Move, ...] = ()
    unmoved: int = 0
    newly: int = 0
    unknown: int = 0
    trained: str = ""
    class_before: Drafter | None = None
    class_after: Drafter | None = None
    keys_gained: tuple[str, ...] = ()
    keys_lost: tuple[str, ...] = ()
    appeared: tuple[Finding, ...] = ()
    vanished: tuple[Finding, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether the capture changes for any target class that was looked at."""
        return any(move.moves for move in self.moves)

    @property
    def undecided(self) -> bool:
        """Whether it cannot be told for one of them."""
        return any(move.undecided for move in self.moves)

    @property
    def worsened(self) -> bool:
        """Whether the newer release does something to the drafter that the gate would refuse or cannot judge."""
        return any(finding.severity not in {NOTE, WARN} for finding in self.appeared)


def target_of(facts: DrafterFacts, manifest: Manifest | None, asked: Target) -> Target:
    """The target by the caller's word, else by the manifest, else by the drafter's config."""
    recorded = manifest.requirements() if manifest is not None else None
    architecture, origin = asked.architecture, asked.origin
    if not architecture and recorded is not None and recorded.target_architecture:
        architecture, origin = recorded.target_architecture, recorded.source
    stated = facts.target.get("architectures", "").partition(", ")[0]
    if not architecture and stated:
        architecture, origin = stated, "the drafter's config.json"
    layers = asked.layers or (recorded.target_layers if recorded is not None else None) or facts.target_layers
    width = asked.hidden_size or (recorded.target_hidden_size if recorded is not None else None)
    model_type = asked.model_type or facts.target.get("model_type", "")
    return Target(architecture, layers, model_type, width or facts.target_hidden_size, origin)


def fate(
    before: Profile,
    after: Profile,
    facts: DrafterFacts,
    *,
    target: Target,
    manifest: Manifest | None = None,
    between: Sequence[Profile] = (),
) -> Fate:
    """What an upgrade does to a drafter.

    Args:
        before: The release upgraded from.
        after: The release upgraded to.
        facts: The drafter.
        target: What is known of its target (see `target_of`).
        manifest: Its manifest, or None.
        between: Releases between the two, oldest first, to say where a change comes in.
    """
    method = METHOD_OF.get(facts.method, "")
    ids, key = _ids(before, after, facts, method)
    layers, assumed = (target.layers, "") if target.layers else depth_for(ids or ())
    question = Question(target.architecture, method, layers, facts, target.model_type, target.hidden_size, manifest)
    looked = [_move(before, after, name, question, between) for name in _classes(before, after, method, target)]
    told = looked if target.architecture else [move for move in looked if move.moves or move.opens]
    stated = manifest.stated_layout() if manifest is not None else None
    found = Fate(
        facts.path,
        facts.architectures[0] if facts.architectures else "",
        method,
        ids,
        key,
        target,
        target.layers,
        assumed if method else "",
        tuple(_grouped(told)),
        trained=describe_taps(stated.layout.taps) if stated is not None else "",
    )
    return _with_class(_with_counts(found, looked, told), before, after, question)


def _with_counts(found: Fate, looked: list[Move], told: list[Move]) -> Fate:
    """How many classes are not told one by one, and why."""
    rest = [move for move in looked if move not in told]
    return msgspec.structs.replace(
        found,
        unmoved=sum(1 for move in rest if not move.changes and not move.undecided),
        newly=sum(1 for move in rest if move.gains),
        unknown=sum(1 for move in rest if move.undecided),
    )


def _with_class(found: Fate, before: Profile, after: Profile, question: Question) -> Fate:
    """What becomes of the drafter's class, and what the gate says of it."""
    old, new = _class(before, question.facts), _class(after, question.facts)
    gained, lost = _keys(old, new, question.facts)
    appeared, vanished = _findings(before, after, question)
    return msgspec.structs.replace(
        found,
        class_before=old,
        class_after=new,
        keys_gained=gained,
        keys_lost=lost,
        appeared=appeared,
        vanished=vanished,
    )


def _classes(before: Profile, after: Profile, method: str, target: Target) -> list[str]:
    """Target classes to look at: the known one, else every one that either release captures for."""
    if not method:
        return []
    if target.architecture:
        return [target.architecture]
    names = {name for profile in (before, after) for name, methods in profile.targets.items() if method in methods}
    return sorted(names - set(before.drafters) - set(after.drafters))


def _ids(before: Profile, after: Profile, facts: DrafterFacts, method: str) -> tuple[tuple[int, ...] | None, str]:
    """The ids that either release reads from the drafter's config, the newer first, and the key."""
    for profile in (after, before):
        reading = profile.readings.get(method)
        if reading is None or not reading.keys:
            continue
        ids, key, _ = read_ids(reading, facts.config, n=UNKNOWN_DEPTH)
        if ids is not None and find(facts.config, key)[0]:
            return ids, key
    return None, ""


def _move(before: Profile, after: Profile, name: str, question: Question, between: Sequence[Profile]) -> Move:
    asked = msgspec.structs.replace(question, architecture=name)
    old, new = answer(before, asked), answer(after, asked)
    trained = _trained(before, after, asked)
    if old.behaviour() == new.behaviour():
        return Move((name,), old, new, trained=trained)
    steps = tuple(runs((before, *between, after), lambda profile: answer(profile, asked))) if between else ()
    return Move((name,), old, new, steps, _keep(after, asked, old), trained)


def _keep(after: Profile, asked: Question, old: Answer) -> Solution | None:
    """The ids for the newer release that feed what the older one fed in eager execution and graphs alike."""
    if old.kind != CAPTURES or old.effect is None or old.replays_otherwise or not old.effect.eager.taps:
        return None
    if old.effect.eager.foreign:
        return None
    return _solved(after, asked, CaptureLayout(old.effect.eager.taps))


def _solved(profile: Profile, asked: Question, layout: CaptureLayout) -> Solution | None:
    rule = profile.capture_method(asked.architecture, asked.method)
    reading = profile.readings.get(asked.method)
    if rule is None or rule.status != FITTED or reading is None or reading.status != FITTED:
        return None
    read = read_ids(reading, asked.facts.config, n=asked.layers)[1]
    return solve(
        rule,
        reading,
        profile.graphs.get(asked.method),
        layout,
        asked.layers,
        True,
        prefer=read,
        target_model_type=asked.model_type,
        architectures=asked.facts.architectures,
        config=asked.facts.config,
    )


def _trained(before: Profile, after: Profile, asked: Question) -> tuple[bool, bool] | None:
    """Whether what arrives is what the manifest says, before and after."""
    stated = asked.manifest.stated_layout() if asked.manifest is not None else None
    if stated is None:
        return None
    old, new = (answer(profile, asked) for profile in (before, after))
    return _right(old, stated.layout), _right(new, stated.layout)


def _right(seen: Answer, layout: CaptureLayout) -> bool:
    return seen.kind == CAPTURES and seen.effect is not None and serves(seen.effect, layout)


def _grouped(moves: Sequence[Move]) -> list[Move]:
    """Classes that the upgrade treats alike, as one."""
    groups: dict[tuple[object, ...], Move] = {}
    for move in moves:
        steps = tuple((span, step.behaviour()) for span, step in move.steps)
        same = (move.before.behaviour(), move.after.behaviour(), steps, move.keep, move.trained)
        known = groups.get(same)
        names = (*known.architectures, *move.architectures) if known is not None else move.architectures
        groups[same] = msgspec.structs.replace(known or move, architectures=names)
    return list(groups.values())


# the drafter's class ------------------------------------------------------------------------------------------------


def _class(profile: Profile, facts: DrafterFacts) -> Drafter | None:
    names = [profile.rewrites.get(name, name) for name in facts.architectures]
    return next((profile.drafters[name] for name in names if name in profile.drafters), None)


def _keys(old: Drafter | None, new: Drafter | None, facts: DrafterFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Keys that the drafter's config has and only one of the two classes reads."""
    if old is None or new is None or not old.keys or not new.keys:
        return (), ()
    here = [key for key in sorted({*old.keys, *new.keys}) if find(facts.config, key)[0]]
    return tuple(key for key in here if key not in old.keys), tuple(key for key in here if key not in new.keys)


def _findings(before: Profile, after: Profile, question: Question) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """What the gate's rules about the drafter itself say of one release only: (of the newer, of the older)."""
    old, new = ({_key(profile, f): f for f in _judged(profile, question)} for profile in (before, after))
    come = tuple(finding for key, finding in new.items() if key not in old)
    return come, tuple(finding for key, finding in old.items() if key not in new)


def _judged(profile: Profile, question: Question) -> list[Finding]:
    s = situation(profile, question)
    return [finding for rule in _RULES for finding in rule.check(s) or () if finding.severity != NOTE]


def _key(profile: Profile, finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.severity, finding.message.replace(profile.name, "")
