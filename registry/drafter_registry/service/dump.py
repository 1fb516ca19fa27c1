"""Rows as files: one JSON line per row, one file per table, the same for every database.

Moments are ISO 8601 in UTC, bytes are base64. The files say nothing of ids' sequences or indexes: those belong to the
schema.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64decode
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, func, insert, select, text

from drafter_registry.db.models import Base, BlobRow, FileRow, UploadRow, UtcTime
from drafter_registry.errors import IntegrityError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Parents before children. Uploads in progress are left out: their bytes are not in a backup.
TABLES: tuple[Table, ...] = tuple(
    table for table in Base.metadata.sorted_tables if table.name != UploadRow.__tablename__
)
_FETCHED = 500
#: Rows that go into one statement, and how long their lines may be together.
_BATCH_ROWS, _BATCH_BYTES = 500, 8 * 1024 * 1024


class TableCopy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table's file: its rows, bytes and sha256 (hex)."""

    rows: int
    size: int
    sha256: str


def write_table(connection: Connection, table: Table, path: str) -> TableCopy:
    """Write a table's rows, in the order of its key, to a new file, and wait until it is on the disk.

    Raises:
        OSError: It cannot be written.
    """
    query = select(table).order_by(*table.primary_key.columns)
    if table.name == BlobRow.__tablename__:  # one that no version names is not copied, so its row is not either
        query = query.where(BlobRow.digest.in_(select(FileRow.digest)))
    rows, size, digest = 0, 0, hashlib.sha256()
    found = connection.execution_options(yield_per=_FETCHED).execute(query)
    with open(path, "xb", opener=_private) as file:
        for row in found.mappings():
            line = msgspec.json.encode(dict(row)) + b"\n"
            file.write(line)
            digest.update(line)
            rows, size = rows + 1, size + len(line)
        file.flush()
        os.fsync(file.fileno())
    return TableCopy(rows, size, digest.hexdigest())


def verify_table(table: Table, path: str, expected: TableCopy) -> None:
    """Return if the file is what was written, and every line of it is a row of this table.

    Raises:
        IntegrityError: It is another file, or not of this schema.
    """
    digest, size, rows = hashlib.sha256(), 0, 0
    for line in _lines(path):
        digest.update(line)
        size, rows = size + len(line), rows + 1
    if TableCopy(rows, size, digest.hexdigest()) != expected:
        raise IntegrityError(
            f"{path} is damaged: {rows} rows, {size} bytes, sha256 {digest.hexdigest()}; "
            f"expected {expected.rows}, {expected.size}, {expected.sha256}",
            hint="take another copy of this backup, or an older one",
        )
    for _ in read_table(table, path):
        pass


def read_table(table: Table, path: str) -> Iterator[dict[str, Any]]:
    """The rows of a file, as values for this table.

    Raises:
        IntegrityError: A line that is no row of it.
    """
    for number, line in enumerate(_lines(path), 1):
        try:
            yield _row(table, msgspec.json.decode(line, type=dict[str, Any]))
        except (msgspec.DecodeError, ValueError, TypeError, AttributeError) as error:
            raise IntegrityError(f"{path}, line {number}, is no row of {table.name}: {error}") from error


def insert_table(connection: Connection, table: Table, path: str) -> None:
    """Put the rows of a file into an empty table, and let its ids go on after them.

    Raises:
        IntegrityError: A line that is no row of it.
    """
    batch: list[dict[str, Any]] = []
    held = 0
    for row in read_table(table, path):
        batch.append(row)
        held += sum(len(value) for value in row.values() if isinstance(value, bytes))
        if len(batch) >= _BATCH_ROWS or held >= _BATCH_BYTES:
            connection.execute(insert(table), batch)
            batch, held = [], 0
    if batch:
        connection.execute(insert(table), batch)
    if connection.dialect.name == "postgresql" and table.autoincrement_column is not None:
        column = table.autoincrement_column
        last = connection.execute(select(func.max(column))).scalar()
        if last is not None:
            sequence = text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)")
            connection.execute(sequence, {"table": table.name, "column": column.name, "last": last})


def _row(table: Table, found: dict[str, Any]) -> dict[str, Any]:
    names = {column.name for column in table.columns}
    if set(found) != names:
        raise ValueError(f"columns {sorted(set(found) ^ names)} are too many or too few")
    return {column.name: _value(column.type, found[column.name]) for column in table.columns}


def _value(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, UtcTime):
        return datetime.fromisoformat(value).astimezone(UTC)
    if kind.python_type is bytes:
        return b64decode(value, validate=True)
    if type(value) is not kind.python_type:
        raise ValueError(f"{value!r} is no {kind.python_type.__name__}")
    return value


def _lines(path: str) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            yield from file
    except OSError as error:
        raise IntegrityError(f"{path} cannot be read: {error.strerror}") from error


def _private(path: str, flags: int) -> int:
    """For its owner only: digests of tokens are in it."""
    return os.open(path, flags, 0o600)
