"""How shipped profiles are stored: lines that releases have in common, each once, and a recipe per release.

A profile's canonical document is a text of some thousand lines, most of which the release before has too. All
distinct lines are in one file, in the order in which releases first need them. A recipe says of each section of one
document (one per field of the profile) from where to where its lines are to be copied. Line numbers of the release's
source and indices of rules move with every release while nothing else does: in the shared lines a tabulator, which
no JSON document contains, stands for each of them, and the recipe has the numbers.
"""

# No `from __future__ import annotations` here, for the reason that profile.py gives.

import zlib

import msgspec

from drafter_contracts.errors import ProfileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from mmap import mmap

SCHEMA = "drafters.profile-recipe.v1"
#: Stands for a number that the recipe has.
HOLE = b"\t"


class Section(msgspec.Struct, frozen=True, array_like=True):
    """One field of the profile.

    Attributes:
        name: The field.
        checksum: CRC-32 of the section's text.
        spans: Offsets into the shared lines, in turn where a copy begins and where it ends.
        numbers: What takes the places of the holes, as text, in their order.
    """

    name: str
    checksum: int
    spans: tuple[int, ...]
    numbers: str = ""


class Recipe(msgspec.Struct, frozen=True):
    """One release.

    Attributes:
        schema: `SCHEMA`.
        checksum: CRC-32 of the names and checksums of all sections, so that none is missing.
        sections: In the order of the document.
    """

    schema: str
    checksum: int
    sections: tuple[Section, ...]


_RECIPE = msgspec.json.Decoder(Recipe)


def checksum(sections: tuple[Section, ...]) -> int:
    """CRC-32 of the names and checksums of some sections."""
    return zlib.crc32(" ".join([f"{section.name}={section.checksum}" for section in sections]).encode())


def decode(data: bytes, where: str) -> Recipe:
    """A recipe.

    Args:
        data: The JSON document.
        where: The file it comes from, for messages.

    Raises:
        ProfileError: It is none, one of another schema, or one that lacks a section.
    """
    try:
        recipe = _RECIPE.decode(data)
    except msgspec.MsgspecError as error:
        raise ProfileError("not the recipe of an engine profile", where=where, actual=str(error)) from None
    if recipe.schema != SCHEMA:
        raise ProfileError("a recipe of another schema", where=where, expected=SCHEMA, actual=recipe.schema)
    if recipe.checksum != checksum(recipe.sections):
        raise ProfileError("a recipe whose sections are not those it was made of", where=where)
    return recipe


def document(recipe: Recipe, lines: "bytes | mmap", where: str, wanted: "Container[str] | None" = None) -> bytes:
    """The document that a recipe stands for, byte for byte as it was packed.

    Args:
        recipe: The recipe.
        lines: The shared lines; of a mapped file, only the pages that are copied from are read.
        where: The file that the recipe comes from, for messages.
        wanted: Sections to leave it at; None for all. The result is a JSON document either way.

    Raises:
        ProfileError: The lines are not those that the document was made of.
    """
    texts = [_text(section, lines, where) for section in recipe.sections if wanted is None or section.name in wanted]
    whole = b"".join(texts)
    if wanted is None:
        return whole
    # A section ends with ",\n", or "}\n" if it is the document's last; the first one begins with "{".
    return b"{" + whole.removeprefix(b"{")[:-2] + b"}\n"


def _text(section: Section, lines: "bytes | mmap", where: str) -> bytes:
    starts, ends = section.spans[::2], section.spans[1::2]
    text = b"".join([lines[start:end] for start, end in zip(starts, ends, strict=False)])
    numbers = section.numbers.encode().split()
    pieces = text.split(HOLE)
    if len(pieces) == len(numbers) + 1:
        filled = [b""] * (len(pieces) + len(numbers))
        filled[::2] = pieces
        filled[1::2] = numbers
        text = b"".join(filled)
    if zlib.crc32(text) != section.checksum:
        raise ProfileError(
            "the shared lines of the shipped profiles are not those that this one was made of",
            where=where,
            expected=f"{section.name} with checksum {section.checksum}",
            actual=str(zlib.crc32(text)),
        )
    return text
