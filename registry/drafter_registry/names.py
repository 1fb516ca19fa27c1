"""What names, versions, aliases, digests, paths and references may look like, and how a reference is read.

All are ASCII: a name that only looks like another one cannot be written. Versions begin with a digit and aliases with
a letter, so that `NAME@WORD` says by itself which of the two it means.
"""

from __future__ import annotations

import re

import msgspec

from drafter_registry import limits
from drafter_registry.errors import InvalidError

_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_VERSION = re.compile(r"[0-9][0-9A-Za-z]*(?:[._+-][0-9A-Za-z]+)*")
_ALIAS = re.compile(r"[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)


class Reference(msgspec.Struct, frozen=True):
    """A reference, taken apart: exactly one of version, alias and digest is set.

    Attributes:
        name: The drafter's name.
        version: Or "".
        alias: Or "".
        digest: Of the manifest, "sha256:...", or "".
    """

    name: str
    version: str = ""
    alias: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.name}@{self.version or self.alias or self.digest}"


def check_name(name: str) -> str:
    """The name, if it is one.

    Raises:
        InvalidError: It is none.
    """
    return _matching(
        _NAME, name, "name", limits.name_max_length, "small letters, digits, and single . _ - between them"
    )


def check_version(version: str) -> str:
    """The version, if it is one: it begins with a digit.

    Raises:
        InvalidError: It is none.
    """
    return _matching(
        _VERSION, version, "version", limits.version_max_length, "a digit first, then letters, digits, and . _ + -"
    )


def check_alias(alias: str) -> str:
    """The alias, if it is one: it begins with a letter.

    Raises:
        InvalidError: It is none.
    """
    return _matching(
        _ALIAS, alias, "alias", limits.version_max_length, "a small letter first, then letters, digits, . _ -"
    )


def check_digest(digest: str) -> str:
    """The digest, if it is one: "sha256:" and 64 hex digits.

    Raises:
        InvalidError: It is none.
    """
    return _matching(_DIGEST, digest, "digest", 71, "sha256: and 64 small hex digits")


def check_path(path: str) -> str:
    """The path of a file inside a version, if it is one: relative, no empty, hidden or climbing part.

    Raises:
        InvalidError: It is none.
    """
    parts = path.split("/")
    good = (
        len(path) <= limits.path_max_length
        and len(parts) <= limits.path_max_depth
        and all(_SEGMENT.fullmatch(part) and not part.endswith(".") and not _WINDOWS.fullmatch(part) for part in parts)
    )
    if not good:
        raise InvalidError(
            f"{shown(path)} is no path of a stored file",
            hint="relative, of ASCII letters, digits and . _ + -, with / between folders, none hidden, no . or ..",
        )
    return path


def check_reason(why: str) -> str:
    """A reason given for a move, a yank or a deletion, if it can be kept: printable, lines allowed.

    Raises:
        InvalidError: It is too long, or has control characters.
    """
    if len(why) > limits.reason_max_length or not all(c.isprintable() or c in "\n\t" for c in why):
        raise InvalidError(
            f"{shown(why)} is no reason",
            hint=f"printable text of at most {limits.reason_max_length} characters",
        )
    return why


def normal_form(name: str) -> str:
    """The form in which names are compared that people would confuse: separators are one, 0/o and 1/l/i too."""
    return re.sub(r"[._-]", "", name).translate(str.maketrans("oli", "011"))


def read_reference(text: str) -> Reference:
    """A reference from its text: NAME@VERSION, NAME@ALIAS, NAME@sha256:DIGEST.

    Raises:
        InvalidError: It is none; a bare name is none either, since which version it means would be a guess.
    """
    name, at, rest = text.partition("@")
    check_name(name)
    if not at or not rest:
        raise InvalidError(
            f"{shown(text)} names no version", hint=f"write {name}@VERSION, {name}@ALIAS or {name}@sha256:DIGEST"
        )
    if rest.startswith("sha256:"):
        return Reference(name, digest=check_digest(rest))
    if rest[0].isdigit():
        return Reference(name, version=check_version(rest))
    return Reference(name, alias=check_alias(rest))


def is_reference(text: str) -> bool:
    """Whether a text can only be a reference, never a path or Hub id."""
    try:
        read_reference(text)
    except InvalidError:
        return False
    return True


def shown(text: str) -> str:
    """A caller's text for messages: quoted, control characters escaped, not longer than a line."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _matching(pattern: re.Pattern[str], text: str, what: str, longest: int, rule: str) -> str:
    if len(text) > longest or not pattern.fullmatch(text):
        raise InvalidError(f"{shown(text)} is no {what}", hint=f"{rule}; at most {longest} characters")
    return text
