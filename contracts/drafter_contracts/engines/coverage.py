"""How much of a release's capture code its profile understands: pairs found, fitted, broken and opaque.

A pair is a target class and a method that the class has a capture hook for. "Fitted" pairs can be judged by rules
that reproduce the release's own code; "broken" ones provably cannot work in that release, which is an answer as well.
Only "opaque" ones leave a gate with "unknown". A drafter class inherits a target's hook without ever being asked as a
target, and counts as a drafter class only.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.profile import BROKEN, FITTED, Profile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What is counted.
CAPTURE, DRAFTER, READING = "capture", "drafter", "reading"
KINDS = (CAPTURE, DRAFTER, READING)


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that a release does and a profile says.

    Attributes:
        kind: One of `KINDS`.
        name: Target class, drafter class, or method.
        status: "fitted", "broken" or "opaque".
        method: For captures the method, for drafter classes the kind of drafter.
        reason: For the latter two: what was seen.
        source: Where.
    """

    kind: str
    name: str
    status: str
    method: str = ""
    reason: str = ""
    source: str = ""


class Tally(msgspec.Struct, frozen=True):
    """Counts of one kind of thing in one release."""

    found: int
    fitted: int
    broken: int

    @property
    def opaque(self) -> int:
        """Those that nothing is known of."""
        return self.found - self.fitted - self.broken

    @property
    def decided(self) -> int:
        """Those that a gate has an answer for."""
        return self.fitted + self.broken

    def share(self, part: int) -> float:
        """A part of what was found, in percent; of nothing, everything."""
        return 100.0 * part / self.found if self.found else 100.0


class Coverage(msgspec.Struct, frozen=True):
    """One release.

    Attributes:
        release: Version.
        items: Everything that was found.
    """

    release: str
    items: tuple[Item, ...]

    def tally(self, kind: str) -> Tally:
        """Counts of one kind."""
        statuses = [item.status for item in self.items if item.kind == kind]
        return Tally(len(statuses), statuses.count(FITTED), statuses.count(BROKEN))

    def gaps(self, kind: str = "") -> tuple[Item, ...]:
        """What is not fitted; of one kind, or of all."""
        return tuple(item for item in self.items if item.status != FITTED and kind in ("", item.kind))


def coverage(profile: Profile) -> Coverage:
    """What was found in a release, and what of it is understood."""
    return Coverage(profile.release, tuple(_items(profile)))


def _items(profile: Profile) -> Iterator[Item]:
    for name, methods in sorted(profile.targets.items()):
        if name in profile.drafters:
            continue
        for method, index in sorted(methods.items()):
            rule = profile.rules[index]
            place = rule.source or rule.forward
            yield Item(CAPTURE, name, rule.status, method, rule.reason, place.text() if place else "")
    for name, drafter in sorted(profile.drafters.items()):
        place = drafter.source
        yield Item(DRAFTER, name, drafter.status, drafter.kind, drafter.reason, place.text() if place else "")
    for name, reading in sorted(profile.readings.items()):
        place = reading.source
        yield Item(READING, name, reading.status, "", reading.reason, place.text() if place else "")


def coverages(profiles: Iterable[Profile]) -> list[Coverage]:
    """One after the other, so that only one profile need be held."""
    return [coverage(profile) for profile in profiles]
