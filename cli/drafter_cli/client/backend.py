"""What a command needs of a registry, wherever that is: on a server (`remote`) or in this process (`embedded`).

Both raise the errors of `drafter_registry.errors` and speak its documents, so that no command knows which one it has.
"""

from __future__ import annotations

from typing import Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from drafter_contracts.acceptance.records import Observation
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_records import Acceptance
    from drafter_contracts.verdict import Verdict
    from drafter_registry.acceptance_documents import (
        AcceptanceList,
        AddedAcceptance,
        ObservationPage,
        ObservationsTaken,
    )
    from drafter_registry.documents import (
        AliasHistory,
        AliasState,
        AuditPage,
        CheckRequest,
        Difference,
        NewToken,
        Published,
        Resolution,
        ResolveRequest,
        TokenList,
        TokenRequest,
        VersionDocument,
        VersionPage,
    )

    #: Called with the number of bytes that were just dealt with.
    Tell = Callable[[int], None]


class Backend(Protocol):
    """A registry."""

    #: What to call it in messages: its URL, or its directory.
    name: str

    def close(self) -> None:
        """Let go of connections."""
        ...

    def has_blob(self, digest: str) -> bool:
        """Whether a blob is stored; asking keeps it from being collected for a while."""
        ...

    def put_file(self, path: str, digest: str, size: int, tell: Tell) -> None:
        """Store a local file as a blob, there or not; goes on where an earlier try was cut, if it can."""
        ...

    def put_bytes(self, data: bytes, digest: str) -> None:
        """Store a few bytes as a blob."""
        ...

    def publish(self, name: str, version: str, manifest: Manifest, tool: str) -> Published:
        """Make a version of blobs that are stored."""
        ...

    def list_versions(self, query: dict[str, str]) -> VersionPage:
        """One page of versions.

        Args:
            query: `name`, `target`, `architecture`, `method`, `alias`, `boundary`, `fingerprint`, `state`, `cursor`,
                `limit`: the query parameters of GET /v1/drafters.
        """
        ...

    def show(self, reference: str) -> VersionDocument:
        """One version."""
        ...

    def manifest(self, reference: str) -> tuple[bytes, str]:
        """A version's manifest as stored, and its digest; the caller verifies."""
        ...

    def stream_file(self, reference: str, path: str, start: int) -> Iterator[bytes]:
        """A file's bytes from `start`."""
        ...

    def diff(self, name: str, before: str, after: str) -> Difference:
        """What changed between two versions or aliases of one drafter."""
        ...

    def alias(self, name: str, alias: str) -> AliasState:
        """Where an alias points."""
        ...

    def set_alias(self, name: str, alias: str, version: str, *, expected: int | None, why: str) -> AliasState:
        """Move an alias; `expected` is the revision that it must have (0: none yet), None for any."""
        ...

    def remove_alias(self, name: str, alias: str, *, expected: int | None, why: str) -> None:
        """Remove an alias."""
        ...

    def alias_history(self, name: str, alias: str) -> AliasHistory:
        """Every move."""
        ...

    def yank(self, name: str, version: str, *, why: str, undo: bool) -> None:
        """Yank a version, or take that back."""
        ...

    def delete(self, name: str, version: str, *, why: str) -> None:
        """Delete a version for ever."""
        ...

    def check(self, request: CheckRequest) -> Verdict:
        """The verdict on a launch."""
        ...

    def resolve(self, request: ResolveRequest) -> Resolution:
        """Flags and files, or RefusedError."""
        ...

    def add_acceptance(self, reference: str, acceptance: Acceptance) -> AddedAcceptance:
        """Attach an acceptance to a version; the same one again changes nothing."""
        ...

    def acceptances(self, reference: str) -> AcceptanceList:
        """Every acceptance of a version: of its manifest, and attached."""
        ...

    def remove_acceptance(self, reference: str, digest: str) -> None:
        """Take an attached acceptance away."""
        ...

    def observe(self, reference: str, observations: Sequence[Observation], *, run: str = "") -> ObservationsTaken:
        """Report what an engine was seen to accept. May be repeated: nothing counts twice.

        Args:
            reference: Which version.
            observations: Each holds *all* that this run saw in its hour so far, not what came since the last report:
                one with more readings replaces what the run reported before. At most
                `drafter_registry.limits.observations_max_items`.
            run: Which run of which observer; what two runs saw is added up. "" for one of this process's own. Whoever
                may read the same source again from its beginning gives it the same name each time.
        """
        ...

    def history(
        self, reference: str, *, since: str = "", until: str = "", cursor: str = "", limit: int = 0
    ) -> ObservationPage:
        """What was seen of a version, newest hour first, a page of it.

        Args:
            reference: Which version.
            since: Hours that begin then or later, ISO 8601 with a zone; "" for all.
            until: Hours that begin before then; "" for all.
            cursor: `next` of the page before.
            limit: Most entries; 0 for as many as the registry gives.
        """
        ...

    def create_token(self, request: TokenRequest) -> NewToken:
        """A new token."""
        ...

    def tokens(self) -> TokenList:
        """All tokens."""
        ...

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        ...

    def audit(self, cursor: str, limit: int, subject: str) -> AuditPage:
        """The audit log, newest first; of one subject, if it is not ""."""
        ...
