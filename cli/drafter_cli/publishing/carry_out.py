"""Carrying out a publication: the manifest is offered, every blob that is missing sent, then they become a version."""

from __future__ import annotations

import msgspec

from drafter_cli.publishing import file_digests
from drafter_cli.publishing.file_digests import Identity
from drafter_contracts.manifest import FileRecord, Manifest
from drafter_registry.documents import Published
from drafter_registry.errors import BlobsMissingError, DigestError
from drafter_registry.failpoints import reached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend, Tell

#: How often blobs are sent, if collections remove them before the manifest names them.
_ROUNDS = 5


class PlannedFile(msgspec.Struct, frozen=True):
    """One file of a publication, and where its bytes come from.

    Attributes:
        record: As the manifest lists it.
        path: The local file; "" if there is none.
        seen: Which file that was when its digest was taken; None if nobody looked.
        data: Instead of a path: the bytes; of a file that stays elsewhere, those of its header.
    """

    record: FileRecord
    path: str = ""
    seen: Identity | None = None
    data: bytes | None = None

    @property
    def blob(self) -> str:
        """Digest of what is stored: the file, or its header if the file stays elsewhere."""
        return "sha256:" + (self.record.header_sha256 if self.record.elsewhere else self.record.sha256)

    @property
    def size(self) -> int:
        """Bytes to store."""
        return self.record.size if self.data is None else len(self.data)


class Plan(msgspec.Struct, frozen=True):
    """A publication: the manifest, which has name and version, and the files that it lists."""

    manifest: Manifest
    files: tuple[PlannedFile, ...]

    @property
    def size(self) -> int:
        """Bytes to store."""
        return sum(file.size for file in self.files)


def publish(backend: Backend, plan: Plan, tell: Tell = lambda _: None, *, repair: bool = False) -> Published:
    """Store what is not stored yet, then publish. Interrupted, nothing is visible, and the next try continues.

    Args:
        backend: The registry.
        plan: What to publish.
        tell: Told of every byte that is stored, those that were there before too.
        repair: Send what the registry believes to have, too: blobs that are damaged there are whole again then.

    Raises:
        UsageError: A file changed since its digest was taken; nothing was published.
        UnreachableError: The registry does not answer.
        RegistryError: The registry refuses; nothing was published.
    """
    name, version = plan.manifest.name, plan.manifest.version
    if repair:
        _store_missing(backend, plan, tell, repair=True)
        tell = _no_more
    # The manifest goes first: what the registry refuses anyway (a conflict, another's name) costs no upload.
    for left in range(_ROUNDS, -1, -1):
        try:
            published = backend.publish(name, version, plan.manifest, tool())
        except BlobsMissingError:
            if not left:
                raise
            _store_missing(backend, plan, tell)
            tell = _no_more
            reached("client.uploaded")
        else:
            if not published.created:  # its blobs may have been lost since
                _store_missing(backend, plan, tell)
            reached("client.published")
            return published
    raise AssertionError  # the last round returns or raises


def _no_more(_: int) -> None:
    """Bytes are told of once, however often they have to be sent."""


def tool() -> str:
    """Name and version of this program, as a publication records it."""
    from drafter_cli.main import version

    return f"drafters/{version()}"


def _store_missing(backend: Backend, plan: Plan, tell: Tell, *, repair: bool = False) -> None:
    for file in plan.files:
        if repair or not backend.has_blob(file.blob):
            _store(backend, file, tell)
        else:
            tell(file.size)
    for file in plan.files:
        if file.seen is not None:
            file_digests.check_same(file.path, file.seen)


def _store(backend: Backend, file: PlannedFile, tell: Tell) -> None:
    if file.data is not None:
        backend.put_bytes(file.data, file.blob)
        tell(file.size)
        return
    if file.seen is not None:
        file_digests.check_same(file.path, file.seen)
    try:
        backend.put_file(file.path, file.blob, file.record.size, tell)
    except DigestError:
        if file.seen is not None:
            file_digests.check_same(file.path, file.seen)
        raise
    if file.seen is not None:
        file_digests.check_same(file.path, file.seen)
