"""How a drafter's safetensors files are rewritten for a render: new headers, and which bytes of the old files follow.

Pure: headers in, plans out. Nothing here reads a weight; `drafter_cli.rendering.weights_file` carries a plan out. Where
only the order of the taps changes, headers stay byte for byte what they were.
"""

from __future__ import annotations

import msgspec

from drafter_contracts import limits
from drafter_contracts.checkpoint.header import LENGTH_BYTES, parse_header
from drafter_contracts.errors import CheckpointError, RenderError
from drafter_contracts.rendering.blocks import moves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from drafter_contracts.checkpoint.facts import TensorFact
    from drafter_contracts.checkpoint.header import Header
    from drafter_contracts.rendering.blocks import Move
    from drafter_contracts.rendering.records import WeightChange

_ALIGNMENT = 8
_METADATA = "__metadata__"


class WeightsHead(msgspec.Struct, frozen=True):
    """One safetensors file of a drafter, without its data.

    Attributes:
        name: Path inside the drafter's directory.
        head: Its first bytes: the length and the whole header.
        size: Bytes of the whole file.
    """

    name: str
    head: bytes
    size: int


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """Bytes of an old file that come next in a new one.

    Attributes:
        source: The old file.
        start: First byte in it.
        rows: Rows that lie there one after the other.
        widths: Bytes of each block of a row, as they lie there.
        order: Block j of each new row is the old row's block `order[j]`; empty: the rows are taken as they are.
    """

    source: str
    start: int
    rows: int
    widths: tuple[int, ...]
    order: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Bytes."""
        return self.rows * sum(self.widths)


class FilePlan(msgspec.Struct, frozen=True):
    """One new file.

    Attributes:
        name: Path inside the render, as in the drafter's directory.
        head: Its first bytes: the length and the whole header.
        pieces: What follows, in order.
        sources: The old files that bytes are taken from, as they must be found.
    """

    name: str
    head: bytes
    pieces: tuple[Piece, ...]
    sources: tuple[WeightsHead, ...]

    @property
    def size(self) -> int:
        """Bytes of the new file."""
        return len(self.head) + sum(piece.size for piece in self.pieces)


class _Place(msgspec.Struct, frozen=True):
    """Where a tensor's data lie."""

    file: WeightsHead
    fact: TensorFact
    start: int
    end: int


def rewritten(files: Sequence[WeightsHead], change: WeightChange, widths: Sequence[int] = ()) -> tuple[FilePlan, ...]:
    """Plans of the files that a render must have of its own; those not among them are the same bytes.

    Args:
        files: Every weight file of the drafter.
        change: What changes.
        widths: Width of each tap in the drafter's own order, elements (`CaptureLayout.widths`); empty for taps of one
            width.

    Raises:
        RenderError: A tensor that another order concerns and that cannot be put in it (all are named), or a name that
            cannot be given.
        CheckpointError: A header that cannot be read, one tensor in two files, or a file over the size cap.
    """
    headers = {file.name: parse_header(file.head, file.size, file.name) for file in files}
    places = _places(files, headers)
    facts = [place.fact for place in places.values()]
    moved = {move.name: move for move in moves(facts, change.order, widths)} if change.order else {}
    names = _names(places, change.renames)
    plans = (_plan(file, headers[file.name], places, moved, names, change.order) for file in files)
    return tuple(plan for plan in plans if plan is not None)


def renamed_index(index: bytes, renames: Mapping[str, str], where: str) -> bytes:
    """A shard index whose tensors have other names; byte for byte the old one where none of them is in it.

    Args:
        index: The document.
        renames: Old name to new one.
        where: Its name, for messages.

    Raises:
        CheckpointError: It is no shard index.
    """
    try:
        document = msgspec.json.decode(index, type=dict[str, object])
        weight_map = msgspec.convert(document.get("weight_map"), type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise CheckpointError("not a shard index", where=where, actual=str(error)) from None
    if not renames.keys() & weight_map.keys():
        return index
    document["weight_map"] = {renames.get(name, name): file for name, file in sorted(weight_map.items())}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _places(files: Sequence[WeightsHead], headers: Mapping[str, Header]) -> dict[str, _Place]:
    places: dict[str, _Place] = {}
    for file in files:
        header = headers[file.name]
        for fact, (start, end) in zip(header.tensors, header.spans, strict=True):
            if fact.name in places:
                raise CheckpointError(
                    "one tensor is in two files", where=fact.name, actual=f"{places[fact.name].file.name}, {file.name}"
                )
            places[fact.name] = _Place(file, fact, len(file.head) + start, len(file.head) + end)
    return places


def _names(places: Mapping[str, _Place], renames: Mapping[str, str]) -> dict[str, str]:
    """Every tensor's new name."""
    missing = sorted(renames.keys() - places.keys())
    if missing:
        raise RenderError("no such tensor to rename", where=missing[0], actual=f"{len(places)} tensors of other names")
    names = {name: renames.get(name, name) for name in places}
    taken: dict[str, str] = {}
    for old, new in sorted(names.items()):
        if new in taken or new in {"", _METADATA}:
            raise RenderError(
                "a tensor cannot be given this name", where=old, expected="a name of its own", actual=repr(new)
            )
        taken[new] = old
    return names


def _plan(
    file: WeightsHead,
    header: Header,
    places: Mapping[str, _Place],
    moved: Mapping[str, Move],
    names: Mapping[str, str],
    order: tuple[int, ...],
) -> FilePlan | None:
    """The plan of one file, or None if nothing of it changes."""
    pieces: list[Piece] = []
    entries: list[tuple[str, TensorFact, int]] = []
    for fact in header.tensors:
        move = moved.get(fact.name)
        place = places[move.source if move is not None else fact.name]
        entries.append((names[fact.name], place.fact, place.end - place.start))
        pieces.append(_piece(place, move, order))
    head = _head(file, header, entries)
    if head == file.head and pieces == [_piece(places[fact.name], None, ()) for fact in header.tensors]:
        return None
    joined = tuple(_joined(pieces))
    used = {piece.source for piece in joined}
    sources = {place.file.name: place.file for place in places.values() if place.file.name in used}
    plan = FilePlan(file.name, head, joined, tuple(sources[name] for name in sorted(used)))
    if plan.size > limits.rewritten_file_max_bytes:
        raise CheckpointError(
            "too large to be rewritten",
            where=file.name,
            expected=f"at most {limits.rewritten_file_max_bytes} bytes",
            actual=f"{plan.size} bytes",
        )
    return plan


def _piece(place: _Place, move: Move | None, order: tuple[int, ...]) -> Piece:
    size = place.end - place.start
    if move is None or not move.widths or order == tuple(range(len(order))):
        return Piece(place.file.name, place.start, 1, (size,))
    elements = move.rows * sum(move.widths)
    if not elements or size % elements:
        raise CheckpointError(
            "data that do not divide into its elements",
            where=move.name,
            expected=f"a multiple of {elements} bytes",
            actual=f"{size} bytes",
        )
    each = size // elements
    return Piece(place.file.name, place.start, move.rows, tuple(width * each for width in move.widths), order)


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The same bytes in as few pieces as possible."""
    last: Piece | None = None
    for piece in pieces:
        if last is not None and not last.order and not piece.order:
            if not piece.size:
                continue
            if last.source == piece.source and last.start + last.size == piece.start:
                last = Piece(last.source, last.start, 1, (last.size + piece.size,))
                continue
        if last is not None and last.size:
            yield last
        last = piece
    if last is not None and last.size:
        yield last


def _head(file: WeightsHead, header: Header, entries: Sequence[tuple[str, TensorFact, int]]) -> bytes:
    """The header of a file with these tensors one after the other; the old one if it says the same."""
    old = [
        (fact.name, fact.dtype, fact.shape, end - start)
        for fact, (start, end) in zip(header.tensors, header.spans, strict=True)
    ]
    if [(name, fact.dtype, fact.shape, size) for name, fact, size in entries] == old:
        return file.head
    document: dict[str, object] = {_METADATA: header.metadata} if header.metadata else {}
    offset = 0
    for name, fact, size in entries:
        document[name] = {"dtype": fact.dtype, "shape": fact.shape, "data_offsets": (offset, offset + size)}
        offset += size
    encoded = msgspec.json.encode(document)
    encoded += b" " * (-len(encoded) % _ALIGNMENT)
    head = len(encoded).to_bytes(LENGTH_BYTES, "little") + encoded
    parse_header(head, len(head) + offset, file.name)
    return head
