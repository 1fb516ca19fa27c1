"""A drafter on the Hugging Face Hub as a source: `hf://ORG/REPO[@REVISION]`, always pinned to one commit.

Online, the Hub is asked which commit a branch stands for now. With HF_HUB_OFFLINE, this machine's Hub cache answers
alone: a branch is the commit that was cached last, which is said.
"""

from __future__ import annotations

import os
import re

import msgspec

from drafter_cli.errors import UsageError
from drafter_cli.hub import client as hub_client
from drafter_cli.hub.choice import choose
from drafter_cli.hub.client import HubFile
from drafter_contracts.manifest import FILE_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "hf://"
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_OTHER_KINDS = frozenset({"datasets", "spaces", "models", "buckets", "kernels"})


class HubListing(msgspec.Struct, frozen=True):
    """The files of one commit that a registry would keep.

    Attributes:
        repository: "ORG/REPO".
        commit: 40 hex digits.
        files: Sorted by path.
        snapshot: The commit's directory in this machine's Hub cache where the Hub may not be asked; else "".
        notes: What was left out or believed, one sentence each.
        has_manifest: Whether a drafters-manifest.json lies beside them: a statement, not a file to publish.
    """

    repository: str
    commit: str
    files: tuple[HubFile, ...]
    snapshot: str = ""
    notes: tuple[str, ...] = ()
    has_manifest: bool = False

    @property
    def source(self) -> str:
        """For `provenance.source`."""
        return PREFIX + self.repository

    def local(self, path: str) -> str:
        """A file on this machine, fetched into the Hub's cache if it is not there yet.

        Raises:
            UsageError: No such file, or no access.
            UnreachableError: The Hub does not answer.
        """
        if self.snapshot:
            return os.path.join(self.snapshot, path)
        return hub_client.download(self.repository, self.commit, path)

    def elsewhere(self, path: str) -> str:
        """For `FileRecord.elsewhere`."""
        return f"{PREFIX}{self.repository}@{self.commit}/{path}"


class HubDrafter(msgspec.Struct, frozen=True):
    """A drafter of the Hub, its files on this machine.

    Attributes:
        directory: Holds the files (links into the Hub's cache), and perhaps others that are not to be published.
        paths: The files to publish, sorted.
        sha256: Path to the digest that the Hub states, for files in Git LFS. The registry hashes what it reads all the
            same, and refuses other bytes.
        source: "hf://ORG/REPO", for `provenance.source`.
        revision: The commit, for `provenance.revision`.
        notes: What was left out or believed, one sentence each.
    """

    directory: str
    paths: tuple[str, ...]
    sha256: dict[str, str]
    source: str
    revision: str
    notes: tuple[str, ...] = ()


def is_hub_source(text: str) -> bool:
    """Whether a DIR argument means the Hub."""
    return text.startswith(PREFIX)


def parse(text: str) -> tuple[str, str]:
    """Repository and revision ("" if none is given) of `hf://ORG/REPO[@REVISION]`.

    Raises:
        UsageError: It is none.
    """
    name, at, revision = text.removeprefix(PREFIX).partition("@")
    parts = name.split("/")
    good = (
        text.startswith(PREFIX)
        and len(parts) == 2
        and all(_PART.fullmatch(part) for part in parts)
        and parts[0] not in _OTHER_KINDS
        and (not at or (_REVISION.fullmatch(revision) and ".." not in revision))
    )
    if not good:
        raise UsageError(f"{text[:200]!r} is no model on the Hub", "write hf://ORG/REPO or hf://ORG/REPO@REVISION")
    return name, revision


def listing(text: str) -> HubListing:
    """The files of a source, and its commit.

    Raises:
        UsageError: No such repository or revision, no access, or offline and not in the cache.
        UnreachableError: The Hub does not answer.
    """
    repository, revision = parse(text)
    if hub_client.is_offline():
        return _cached(repository, revision)
    commit, files = hub_client.files_of(repository, revision)
    return choose(HubListing(repository, commit, files))


def open(text: str, tell: Callable[[str], None] = lambda _: None) -> HubDrafter:  # noqa: A001 - hub_source.open(...)
    """A source with its files on this machine: fetched into the Hub's cache where they are not there yet.

    Args:
        text: "hf://ORG/REPO[@REVISION]".
        tell: Called with a line for each file that is about to be fetched.

    Raises:
        UsageError: No such repository or revision, no access, nothing to publish, or offline and not in the cache.
        UnreachableError: The Hub does not answer.
    """
    found = listing(text)
    if not found.files:
        raise UsageError(f"{found.repository} has no file that a registry keeps", "; ".join(found.notes))
    directory = found.snapshot
    for file in found.files:
        if not found.snapshot:
            tell(f"{file.path} from {found.repository}@{found.commit[:12]}")
        directory = found.local(file.path)[: -len(file.path)].rstrip("/")
    if found.has_manifest:
        found.local(FILE_NAME)
    return HubDrafter(
        directory=directory,
        paths=tuple(file.path for file in found.files),
        sha256={file.path: file.sha256 for file in found.files if file.sha256},
        source=found.source,
        revision=found.commit,
        notes=found.notes,
    )


def _cached(repository: str, revision: str) -> HubListing:
    """The listing of a snapshot in this machine's Hub cache. Large files are links to blobs named by their digest."""
    from drafter_contracts.hub_cache import cache_directory, find

    snapshot = find(repository, revision)
    if snapshot is None:
        raise UsageError(
            f"{repository}@{revision or 'main'} is not in this machine's Hub cache ({cache_directory()}), and "
            "HF_HUB_OFFLINE forbids to fetch it",
            f"unset HF_HUB_OFFLINE, or run once: hf download {repository}",
        )
    commit = os.path.basename(snapshot)
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise UsageError(f"the Hub cache has {repository} as {commit!r}, which is no commit", "name a commit")
    notes = (f"offline: {revision or 'main'} is taken for commit {commit}, as it was cached last",)
    files = tuple(_cached_files(snapshot))
    return choose(HubListing(repository, commit, files, snapshot, notes if revision != commit else ()))


def _cached_files(snapshot: str) -> list[HubFile]:
    found = []
    for folder, _, names in os.walk(snapshot):
        for name in names:
            full = os.path.join(folder, name)
            blob = os.path.basename(os.path.realpath(full))
            path = os.path.relpath(full, snapshot).replace(os.sep, "/")
            if os.path.isfile(full):
                sha256 = blob if _SHA256.fullmatch(blob) and os.path.islink(full) else ""
                found.append(HubFile(path, os.path.getsize(full), sha256))
    return sorted(found, key=lambda file: file.path)
