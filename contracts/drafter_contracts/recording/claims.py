"""What recording and auditing a manifest say: claims that cannot stand, and where each recorded fact comes from."""

from __future__ import annotations

import msgspec


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A statement of a manifest that cannot stand, or that is missing.

    Attributes:
        pointer: JSON pointer into the manifest, "/layout/boundaries".
        message: One sentence that says what is wrong, with both sides.
        expected: What would be right, or what would settle it.
        actual: What the manifest or the files say.
        source: Where the other side was read: "config.json: hidden_size", "tensors: fc.weight [4096, 12288]".
    """

    pointer: str
    message: str
    expected: str = ""
    actual: str = ""
    source: str = ""


class Line(msgspec.Struct, frozen=True):
    """One recorded fact.

    Attributes:
        fact: Dotted field of the manifest, "target.layers".
        value: Its value as text.
        source: Where it was read, or on whose word it was taken.
    """

    fact: str
    value: str
    source: str


def shown(value: object) -> str:
    """A manifest's value as text: lists as JSON writes them, true and false, nothing for what is not recorded."""
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def pointer(field: str) -> str:
    """The JSON pointer of a dotted field: "layout.boundaries" is "/layout/boundaries"."""
    return "/" + field.replace(".", "/")
