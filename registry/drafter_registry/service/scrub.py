"""Scrub: every stored byte hashed again, every row compared with what it stands for. Nothing is changed.

It may run while others publish and collect: what looks wrong is asked for once more before it is reported.
"""

from __future__ import annotations

from hashlib import sha256

from sqlalchemy import select

from drafter_registry.db.models import BlobRow
from drafter_registry.documents import FsckProblem, FsckReport
from drafter_registry.errors import InternalError, NotFoundError
from drafter_registry.service.access import require
from drafter_registry.service.context import timestamp
from drafter_registry.service.scrub_acceptance import scrub_acceptance
from drafter_registry.service.scrub_rows import scrub_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_registry.service.context import Actor, Registry

_PAGE = 500
_UPLOAD_AGAIN = "publish its files again with drafters publish --repair, or restore it from a backup"


def scrub(registry: Registry, actor: Actor) -> FsckReport:
    """Look at everything. Takes as long as reading all blobs does.

    Args:
        registry: The registry.
        actor: An admin.

    Raises:
        NotFoundError: No admin.
        NotAuthorisedError: There is no token.
        UnavailableError: The database or the blob store does not answer.
    """
    require(actor, "admin")
    problems: list[FsckProblem] = []
    blobs = hashed = 0
    for digest, size, doomed in _blob_rows(registry):
        blobs += 1
        if doomed:
            problems.append(_doomed(digest))
            continue
        problem, read = _blob(registry, digest, size)
        hashed += read
        if problem is not None and _is_stored(registry, digest):
            problems.append(problem)
    problems.extend(_orphans(registry))
    versions, more = scrub_rows(registry)
    more += scrub_acceptance(registry)
    return FsckReport(versions=versions, blobs=blobs, bytes_hashed=hashed, problems=(*problems, *more))


def _blob_rows(registry: Registry) -> Iterator[tuple[str, int, bool]]:
    last = ""
    while True:
        rows = select(BlobRow.digest, BlobRow.size, BlobRow.doomed).where(BlobRow.digest > last)
        with registry.database.read() as connection:
            page = connection.execute(rows.order_by(BlobRow.digest).limit(_PAGE)).all()
        yield from ((row.digest, row.size, row.doomed) for row in page)
        if len(page) < _PAGE:
            return
        last = page[-1].digest


def _blob(registry: Registry, digest: str, size: int) -> tuple[FsckProblem | None, int]:
    """What is wrong with a blob, and how many bytes of it were read."""
    running, read = sha256(), 0
    try:
        actual = registry.blobs.size(digest)
        if actual is None:
            return _problem("blob-missing", digest, "there is a row, but no bytes", _UPLOAD_AGAIN), 0
        for chunk in registry.blobs.stream(digest, 0, max(actual, size)):
            running.update(chunk)
            read += len(chunk)
    except NotFoundError:
        return _problem("blob-missing", digest, "there is a row, but no bytes", _UPLOAD_AGAIN), read
    except InternalError as error:
        return _problem("blob-unreadable", digest, error.message, error.hint), read
    if read != size:
        return _problem("blob-size", digest, f"{read} bytes are stored, the row says {size}", _UPLOAD_AGAIN), read
    found = "sha256:" + running.hexdigest()
    if found != digest:
        return _problem("blob-corrupt", digest, f"the stored bytes are {found}", _UPLOAD_AGAIN), read
    return None, read


def _is_stored(registry: Registry, digest: str) -> bool:
    """Whether the blob still counts: a collection may have removed it since."""
    row = select(BlobRow.digest).where(BlobRow.digest == digest, BlobRow.doomed.is_(False))
    with registry.database.read() as connection:
        return connection.execute(row).first() is not None


def _orphans(registry: Registry) -> Iterator[FsckProblem]:
    """Bytes without a row: somebody is just storing them, or was killed while doing so."""
    waiting = list(registry.blobs.blobs())
    known: set[str] = set()
    for at in range(0, len(waiting), _PAGE):
        digests = [one.key for one in waiting[at : at + _PAGE]]
        with registry.database.read() as connection:
            known |= set(connection.execute(select(BlobRow.digest).where(BlobRow.digest.in_(digests))).scalars())
    for one in waiting:
        if one.key not in known and registry.blobs.size(one.key) is not None:
            detail = f"{one.size} bytes without a row, written {timestamp(one.modified)}"
            yield _problem("blob-orphan", one.key, detail, "drafters gc removes it once it is old enough")


def _doomed(digest: str) -> FsckProblem:
    return _problem("blob-doomed", digest, "its removal was begun and not finished", "run drafters gc")


def _problem(kind: str, subject: str, detail: str, remedy: str) -> FsckProblem:
    return FsckProblem(kind=kind, subject=subject, detail=detail, remedy=remedy)
