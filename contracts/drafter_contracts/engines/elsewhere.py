"""What other releases do with one drafter and target: what a remedy may recommend, and no more of their profiles."""

# No `from __future__ import annotations` here, for the reason that profile.py gives.

from collections.abc import Sequence
from typing import overload

import msgspec

from drafter_contracts.engines.profile import CaptureMethod, Drafter, GraphReplay, IdReading, check_schema
from drafter_contracts.errors import ProfileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_FIELDS = frozenset({
    "schema", "engine", "release", "readings", "graphs", "rules", "targets", "drafters", "rewrites", "scan_version",
})  # fmt: skip


class Asked(msgspec.Struct, frozen=True):
    """What is asked of every other release.

    Attributes:
        architecture: The target's class, or "".
        method: Method as keys of the profile, or "" where no aux capture is involved.
        drafters: The drafter's classes.
        algorithms: Whether the speculative algorithms are asked for, which are in the largest part of a profile.
    """

    architecture: str
    method: str
    drafters: tuple[str, ...]
    algorithms: bool = False

    def fields(self) -> frozenset[str]:
        """The fields of a profile that answer this."""
        return _FIELDS | {"launch"} if self.algorithms else _FIELDS


class OtherRelease(msgspec.Struct, frozen=True):
    """What another release does with that drafter and target.

    Attributes:
        engine: "sglang".
        release: Version as published.
        rule: How the target's class captures for the method, or None.
        reading: How the ids of the method are read, or None.
        replay: What graph replay captures, or None.
        draft_class: What the drafter's class does; None if the release does not know the drafter.
        algorithms: Values of --speculative-algorithm; empty where they are not asked for.
    """

    engine: str
    release: str
    rule: CaptureMethod | None = None
    reading: IdReading | None = None
    replay: GraphReplay | None = None
    draft_class: Drafter | None = None
    algorithms: tuple[str, ...] = ()


class Elsewhere(Sequence[OtherRelease]):
    """Other releases, oldest first, read when a rule first asks for them: most refusals have a remedy at hand.

    Args:
        read: Reads them all.
    """

    def __init__(self, read: "Callable[[], Sequence[OtherRelease]]") -> None:
        self._read = read
        self._known: Sequence[OtherRelease] | None = None

    def _all(self) -> Sequence[OtherRelease]:
        if self._known is None:
            self._known = self._read()
        return self._known

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> OtherRelease: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[OtherRelease]: ...
    def __getitem__(self, index: int | slice) -> OtherRelease | Sequence[OtherRelease]:
        return self._all()[index]


class _Speculative(msgspec.Struct, frozen=True):
    algorithms: tuple[str, ...] = ()


class _Launch(msgspec.Struct, frozen=True):
    speculative: _Speculative = _Speculative()


class Excerpt(msgspec.Struct, frozen=True):
    """A profile of which the entries that nobody asked for stay undecoded. Fields as of `Profile`."""

    schema: str
    engine: str
    release: str
    readings: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    graphs: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    rules: tuple[msgspec.Raw, ...] = ()
    targets: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    drafters: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    rewrites: dict[str, str] = msgspec.field(default_factory=dict)
    launch: _Launch = _Launch()
    scan_version: int = 1

    def answer(self, asked: Asked) -> OtherRelease:
        """What this release does.

        Raises:
            msgspec.MsgspecError: An entry that is asked for is not as it should be.
            IndexError: The target's rule is missing.
        """
        hooks = _HOOKS.decode(self.targets.get(asked.architecture, b"{}"))
        names = [self.rewrites.get(name, name) for name in asked.drafters]
        known = next((self.drafters[name] for name in names if name in self.drafters), None)
        reading, replay = self.readings.get(asked.method), self.graphs.get(asked.method)
        return OtherRelease(
            self.engine,
            self.release,
            _RULE.decode(self.rules[hooks[asked.method]]) if asked.method in hooks else None,
            None if reading is None else _READING.decode(reading),
            None if replay is None else _REPLAY.decode(replay),
            None if known is None else _DRAFTER.decode(known),
            self.launch.speculative.algorithms if asked.algorithms else (),
        )


_HOOKS = msgspec.json.Decoder(dict[str, int])
_RULE = msgspec.json.Decoder(CaptureMethod)
_READING = msgspec.json.Decoder(IdReading)
_REPLAY = msgspec.json.Decoder(GraphReplay)
_DRAFTER = msgspec.json.Decoder(Drafter)
_EXCERPT = msgspec.json.Decoder(Excerpt)


def answer(document: bytes, asked: Asked, where: str) -> OtherRelease:
    """What the release of a profile does with a drafter and target.

    Args:
        document: The profile's document, or one of the fields that answer this.
        asked: Which drafter and target.
        where: Where the document comes from, for messages.

    Raises:
        ProfileError: It is no profile, or one of another schema.
    """
    try:
        excerpt = _EXCERPT.decode(document)
        check_schema(excerpt.schema, excerpt.scan_version, where)
        return excerpt.answer(asked)
    except (msgspec.MsgspecError, IndexError) as error:
        raise ProfileError("not an engine profile", where=where, actual=str(error)) from None
