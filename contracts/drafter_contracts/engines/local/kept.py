"""Profiles that were derived on this machine, as files: each names what it holds and is checked before it is used.

A file is one line of JSON (`Label`) and the canonical document of the profile. A file that is damaged, stands under
another name, or comes from another version of the scanner is as good as none.
"""

from __future__ import annotations

import os

import msgspec

from drafter_contracts import limits
from drafter_contracts.engines.local.contents import DirectoryContents, digest_of, digest_of_bytes
from drafter_contracts.engines.local.folder import prune, read, write
from drafter_contracts.engines.store import decode
from drafter_contracts.errors import ProfileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile

SCHEMA = "drafters.kept-profile.v1"
_INSTALLED, _ADDED = "installed", "added"
#: Most profiles of installations that are kept; one has about 170 kB.
_KEEP = 32
_OWN_CODE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Label(msgspec.Struct, frozen=True):
    """What a file says that it holds.

    Attributes:
        schema: `SCHEMA`.
        key: What it was derived from: for an installation's profile a digest, for an added release its name.
        scanner: Digest of the code that derived it.
        origin: Path that was scanned, for messages.
        digest: Of the document that follows.
    """

    schema: str
    key: str
    scanner: str
    origin: str
    digest: str


class Kept(msgspec.Struct, frozen=True):
    """A profile that was read back.

    Attributes:
        profile: The profile.
        origin: Path that was scanned.
        current: Whether the scanner that derived it is the one at hand.
    """

    profile: Profile
    origin: str
    current: bool


def scanner_digest(cache: str) -> str:
    """Digest of the code that derives profiles: every module of this package.

    Args:
        cache: Where profiles are kept, or "".
    """
    own = DirectoryContents(_OWN_CODE, cache)
    found = digest_of(own.everything(beside=False))
    own.remember()
    return found


def key_of(release: str, files: dict[str, str]) -> str:
    """The key of an installation's profile.

    Args:
        release: Its version.
        files: Path to digest of everything that the scanner can read.
    """
    return digest_of(files | {"": release})


def read_installed(cache: str, key: str) -> Profile | None:
    """The profile kept under a key, if it is whole and this scanner's."""
    kept = _read(_installed_path(cache, key), key, cache) if cache else None
    return kept.profile if kept is not None and kept.current else None


def write_installed(cache: str, key: str, profile: Profile, origin: str) -> str:
    """Keep the profile of an installation; returns why that failed, or ""."""
    path = _installed_path(cache, key)
    problem = _write(path, key, profile, origin, scanner_digest(cache))
    prune(os.path.dirname(path), _KEEP)
    return problem


def lock_path(cache: str, key: str) -> str:
    """The file whose lock stands for deriving the profile of a key; "" without a folder."""
    return os.path.join(cache, "locks", key[:32]) if cache else ""


def read_added(cache: str, engine: str, release: str) -> Kept | None:
    """The profile of a release that was added by `drafters engine update`, if it is whole."""
    if not cache or not release or os.path.basename(release) != release:
        return None
    return _read(_added_path(cache, engine, release), release, cache)


def write_added(cache: str, profile: Profile, origin: str) -> str:
    """Keep the profile of a release; returns why that failed, or ""."""
    path = _added_path(cache, profile.engine, profile.release)
    return _write(path, profile.release, profile, origin, scanner_digest(cache))


def added_releases(cache: str, engine: str) -> tuple[str, ...]:
    """Names of the releases that were added, unread and in no order."""
    try:
        names = os.listdir(os.path.join(cache, _ADDED, engine)) if cache else []
    except OSError:
        return ()
    return tuple(name.removesuffix(".profile") for name in names if name.endswith(".profile"))


def _installed_path(cache: str, key: str) -> str:
    return os.path.join(cache, _INSTALLED, f"{key}.profile")


def _added_path(cache: str, engine: str, release: str) -> str:
    return os.path.join(cache, _ADDED, os.path.basename(engine), f"{release}.profile")


def _read(path: str, key: str, cache: str) -> Kept | None:
    data = read(path, limits.profile_max_bytes)
    if data is None:
        return None
    line, _, body = data.partition(b"\n")
    try:
        label = msgspec.json.decode(line, type=Label)
        if (label.schema, label.key) != (SCHEMA, key) or label.digest != digest_of_bytes(body):
            return None
        return Kept(decode(body, path), label.origin, label.scanner == scanner_digest(cache))
    except (msgspec.MsgspecError, ProfileError):
        return None


def _write(path: str, key: str, profile: Profile, origin: str, scanner: str) -> str:
    from drafter_contracts.engines.scan import encode

    body = encode(profile)
    label = Label(SCHEMA, key, scanner, origin, digest_of_bytes(body))
    try:
        return write(path, msgspec.json.encode(label) + b"\n" + body)
    except UnicodeError as error:  # a path that is no text
        return str(error)
