"""Documents of what a drafter was promised to be accepted, and of what engines were seen to accept."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from drafter_contracts.acceptance.records import Observation
from drafter_contracts.manifest_records import Acceptance
from drafter_registry import limits
from drafter_registry.documents import Document

#: Where an acceptance stands: in the version's own manifest, or attached to the version later.
MANIFEST: Final = "manifest"
ATTACHED: Final = "attached"

#: Who reports: see `ObservationsRequest.run`.
RUN_PATTERN = "^[0-9A-Za-z._-]{1,64}$"


class KnownAcceptance(Document, frozen=True, kw_only=True):
    """One acceptance of a version.

    Attributes:
        digest: Its identity, "sha256:...": of its canonical JSON (keys sorted, defaults left out, no white space).
        source: `MANIFEST` or `ATTACHED`.
        acceptance: What is promised, and under which conditions.
        by: Who attached it; who published the version, for one of its manifest.
        at: When.
    """

    digest: str
    source: Literal["manifest", "attached"]
    acceptance: Acceptance
    by: str = ""
    at: str = ""


class AcceptanceList(Document, frozen=True, kw_only=True):
    """All acceptances of a version: those of its manifest, then those attached, oldest first.

    Attributes:
        name: The drafter.
        version: Its version, also where an alias was asked for.
        digest: Identity of the version's manifest.
        items: The acceptances.
    """

    name: str
    version: str
    digest: str
    items: tuple[KnownAcceptance, ...] = ()


class AddedAcceptance(Document, frozen=True, kw_only=True):
    """The answer to an attachment: to which version, and what; `created` is false if it was there already."""

    name: str
    version: str
    digest: str
    created: bool
    item: KnownAcceptance


class ObservationsRequest(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one observer saw, hour by hour.

    Attributes:
        run: Which observer this is: a name of its own for each run of it, so that what two of them saw is added up.
        observations: Each is all that this run saw of that instance in that hour under these conditions *so far*. One
            with more readings replaces what the run reported before; the same again, or an older one, changes nothing.
    """

    run: Annotated[str, msgspec.Meta(pattern=RUN_PATTERN)]
    observations: Annotated[
        tuple[Observation, ...], msgspec.Meta(min_length=1, max_length=limits.observations_max_items)
    ]


class ObservationsTaken(Document, frozen=True, kw_only=True):
    """The answer to a report.

    Attributes:
        name: The drafter.
        version: The version that the reference means now.
        digest: Identity of its manifest.
        taken: Observations that are new or have more readings than before.
        known: Those that change nothing.
    """

    name: str
    version: str
    digest: str
    taken: int
    known: int


class SeenHour(Document, frozen=True, kw_only=True):
    """What one instance was seen to accept in one hour under the same conditions, by all its observers.

    Attributes:
        observation: Their observations as one.
        by: Who reported last.
        at: When.
    """

    observation: Observation
    by: str = ""
    at: str = ""


class ObservationPage(Document, frozen=True, kw_only=True):
    """A page of what was seen of a version, newest hour first. `next`: cursor of the next page, "" on the last one."""

    name: str
    version: str
    digest: str
    items: tuple[SeenHour, ...] = ()
    next: str = ""
