"""A registry in this process: the service's own verbs, with nothing between.

A verb's module is imported when the verb is called: `drafters list` need not load what publishes.
"""

from __future__ import annotations

import secrets

from drafter_cli.client.configuration import without_password
from drafter_registry.names import read_reference
from drafter_registry.service.context import Actor, Registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from drafter_cli.client.backend import Tell
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


class Embedded:
    """A registry that this process has opened.

    Args:
        registry: The registry.
        actor: Who runs this process.
    """

    def __init__(self, registry: Registry, actor: Actor) -> None:
        self._registry = registry
        self._actor = actor
        self._run = secrets.token_hex(8)
        settings = registry.settings
        self.name = without_password(settings.database) if settings.database else settings.data

    def close(self) -> None:
        """Let go of connections."""
        from drafter_registry.service.open import close

        close(self._registry)

    def has_blob(self, digest: str) -> bool:
        """Whether a blob is stored."""
        from drafter_registry.errors import NotFoundError
        from drafter_registry.service.uploads import stat

        try:
            stat(self._registry, self._actor, digest)
        except NotFoundError:
            return False
        return True

    def put_file(self, path: str, digest: str, size: int, tell: Tell) -> None:  # noqa: ARG002 - of the protocol
        """Store a local file as a blob."""
        from drafter_registry.service.uploads import store_file

        store_file(self._registry, self._actor, path, digest, tell)

    def put_bytes(self, data: bytes, digest: str) -> None:
        """Store a few bytes as a blob."""
        from drafter_registry.service.uploads import store_bytes

        store_bytes(self._registry, self._actor, data, digest)

    def publish(self, name: str, version: str, manifest: Manifest, tool: str) -> Published:
        """Make a version of blobs that are stored."""
        from drafter_registry.service.publish import publish

        return publish(self._registry, self._actor, name, version, manifest, tool=tool)

    def list_versions(self, query: dict[str, str]) -> VersionPage:
        """One page of versions."""
        from drafter_registry.service.listing import list_versions

        return list_versions(self._registry, self._actor, query)

    def show(self, reference: str) -> VersionDocument:
        """One version."""
        from drafter_registry.service.versions import show

        return show(self._registry, self._actor, read_reference(reference))

    def manifest(self, reference: str) -> tuple[bytes, str]:
        """A version's manifest as stored, and its digest."""
        from drafter_registry.service.versions import manifest_bytes

        return manifest_bytes(self._registry, self._actor, read_reference(reference))

    def stream_file(self, reference: str, path: str, start: int) -> Iterator[bytes]:
        """A file's bytes from `start`."""
        from drafter_registry.service.versions import file, stream_file

        read = read_reference(reference)
        size, _ = file(self._registry, self._actor, read, path)
        return stream_file(self._registry, self._actor, read, path, start, size)

    def diff(self, name: str, before: str, after: str) -> Difference:
        """What changed between two versions or aliases of one drafter."""
        from drafter_registry.service.difference import diff

        return diff(self._registry, self._actor, name, before, after)

    def alias(self, name: str, alias: str) -> AliasState:
        """Where an alias points."""
        from drafter_registry.service.aliases import state

        return state(self._registry, self._actor, name, alias)

    def set_alias(self, name: str, alias: str, version: str, *, expected: int | None, why: str) -> AliasState:
        """Move an alias."""
        from drafter_registry.service.aliases import move

        return move(self._registry, self._actor, name, alias, version, expected=expected, why=why)

    def remove_alias(self, name: str, alias: str, *, expected: int | None, why: str) -> None:
        """Remove an alias."""
        from drafter_registry.service.aliases import remove

        remove(self._registry, self._actor, name, alias, expected=expected, why=why)

    def alias_history(self, name: str, alias: str) -> AliasHistory:
        """Every move."""
        from drafter_registry.service.aliases import history

        return history(self._registry, self._actor, name, alias)

    def yank(self, name: str, version: str, *, why: str, undo: bool) -> None:
        """Yank a version, or take that back."""
        from drafter_registry.service.versions import yank

        yank(self._registry, self._actor, name, version, why=why, undo=undo)

    def delete(self, name: str, version: str, *, why: str) -> None:
        """Delete a version for ever."""
        from drafter_registry.service.versions import delete

        delete(self._registry, self._actor, name, version, why=why)

    def check(self, request: CheckRequest) -> Verdict:
        """The verdict on a launch."""
        from drafter_registry.service.judge import check

        return check(self._registry, self._actor, request)

    def resolve(self, request: ResolveRequest) -> Resolution:
        """Flags and files, or RefusedError."""
        from drafter_registry.service.judge import resolve

        return resolve(self._registry, self._actor, request)

    def add_acceptance(self, reference: str, acceptance: Acceptance) -> AddedAcceptance:
        """Attach an acceptance to a version."""
        from drafter_registry.service.acceptances import add

        return add(self._registry, self._actor, read_reference(reference), acceptance)

    def acceptances(self, reference: str) -> AcceptanceList:
        """Every acceptance of a version."""
        from drafter_registry.service.acceptances import listing

        return listing(self._registry, self._actor, read_reference(reference))

    def remove_acceptance(self, reference: str, digest: str) -> None:
        """Take an attached acceptance away."""
        from drafter_registry.service.acceptances import remove

        remove(self._registry, self._actor, read_reference(reference), digest)

    def observe(self, reference: str, observations: Sequence[Observation], *, run: str = "") -> ObservationsTaken:
        """Report what an engine was seen to accept."""
        from drafter_registry.service.observations import report

        return report(self._registry, self._actor, read_reference(reference), run or self._run, observations)

    def history(
        self, reference: str, *, since: str = "", until: str = "", cursor: str = "", limit: int = 0
    ) -> ObservationPage:
        """What was seen of a version, a page of it."""
        from drafter_registry import limits
        from drafter_registry.service.observations import history

        read, most = read_reference(reference), limit or limits.page_items
        return history(self._registry, self._actor, read, since=since, until=until, cursor=cursor, limit=most)

    def create_token(self, request: TokenRequest) -> NewToken:
        """A new token."""
        from drafter_registry.service.tokens import create

        return create(self._registry, self._actor, request)

    def tokens(self) -> TokenList:
        """All tokens."""
        from drafter_registry.service.tokens import listing

        return listing(self._registry, self._actor)

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        from drafter_registry.service.tokens import revoke

        revoke(self._registry, self._actor, token_id)

    def audit(self, cursor: str, limit: int, subject: str) -> AuditPage:
        """The audit log, newest first."""
        from drafter_registry.service.audit import entries

        return entries(self._registry, self._actor, cursor=cursor, limit=limit, subject=subject)
