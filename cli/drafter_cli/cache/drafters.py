"""The local cache: pulled drafters as directories that an engine can load, each made of verified blobs.

`drafters/NAME/DIGEST/` holds hard links to the blobs and the manifest as `drafters-manifest.json`. A directory is there
whole or not at all. No path of a manifest is believed: each is checked before it is used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager

import msgspec

from drafter_cli.cache import elsewhere as cache_elsewhere
from drafter_cli.cache.blobs import Blobs, StoppedError, is_verified, wait_for_lock
from drafter_cli.cache.placing import strangers
from drafter_cli.errors import UsageError
from drafter_contracts.manifest import FILE_NAME, FileRecord, Manifest, canonical, read_manifest
from drafter_contracts.manifest import digest as digest_of
from drafter_registry import names
from drafter_registry.errors import IntegrityError, InvalidError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from drafter_cli.client.backend import Backend, Tell

#: Files fetched at once.
AT_ONCE = 4


class Missing(msgspec.Struct, frozen=True):
    """What has to be fetched: number of files and their bytes."""

    files: int
    size: int


def cache_root() -> str:
    """Directory of the cache, from the settings in force.

    Raises:
        UsageError: They cannot be read.
    """
    from drafter_cli.client import configuration

    return os.path.abspath(os.path.expanduser(configuration.read().value("cache")))


def ensure(
    backend: Backend,
    name: str,
    digest: str,
    manifest: Manifest,
    *,
    files: tuple[FileRecord, ...] | None = None,
    tell: Tell | None = None,
) -> str:
    """The directory of a version, fetched as far as it is not here.

    Args:
        backend: Where to fetch.
        name: The drafter.
        digest: Identity of the manifest, "sha256:...".
        manifest: The manifest.
        files: Only these of its files; None for all.
        tell: Told of every byte fetched.

    Returns:
        The directory.

    Raises:
        IntegrityError: The manifest does not have that digest.
        DigestError: Bytes that came are not the manifest's, or a file that is kept elsewhere has not the header by
            which the registry judged it.
        InvalidError: A path or name that no registry may give.
        UsageError: The cache cannot be written.
        UnreachableError: The registry or a file's own place does not answer; the next try continues.
    """
    _check(name, digest, manifest)
    wanted = manifest.files if files is None else files
    root = cache_root()
    directory = _directory(root, name, digest, None if files is None else wanted)
    if is_complete(directory, wanted, manifest):
        return directory
    blobs = Blobs(root)
    with held(directory, blobs):
        if not is_complete(directory, wanted, manifest):  # or somebody else fetched it meanwhile
            # By its version, which is found when yanked, too; every byte is verified whatever comes.
            _fetch_all(blobs, backend, f"{name}@{manifest.version or digest}", wanted, tell or (lambda _: None))
            cache_elsewhere.check_headers(wanted, blobs.path)
            paths = {record.path: blobs.path(record.sha256) for record in wanted}
            assemble(directory, paths, {FILE_NAME: canonical(manifest)})
    return directory


def missing(name: str, digest: str, manifest: Manifest, files: tuple[FileRecord, ...] | None = None) -> Missing:
    """What `ensure` would fetch now.

    Raises:
        IntegrityError: The manifest does not have that digest.
        InvalidError: A path or name that no registry may give.
    """
    _check(name, digest, manifest)
    blobs = Blobs(cache_root())
    absent = {
        record.sha256: record.size
        for record in (manifest.files if files is None else files)
        if not blobs.has(record.sha256, record.size)
    }
    return Missing(len(absent), sum(absent.values()))


def find_pulled(reference: str) -> str | None:
    """The directory of a version that was pulled whole, without asking anybody; None if it is not here.

    An alias is never found: where it points now only its registry knows. A version that two registries published with
    different content is not found either: which of them is meant cannot be told.

    Raises:
        InvalidError: Not a reference.
        UsageError: The settings cannot be read.
    """
    read = names.read_reference(reference)
    if read.alias:
        return None
    folder = os.path.join(cache_root(), "drafters", read.name)
    if read.digest:
        candidates = [os.path.join(folder, read.digest.removeprefix("sha256:"))]
    else:
        candidates = list(_version_directories(folder))
    found = [
        directory
        for directory in candidates
        if (manifest := _pulled_manifest(directory)) is not None and (read.digest or manifest.version == read.version)
    ]
    return found[0] if len(found) == 1 else None


def _check(name: str, digest: str, manifest: Manifest) -> None:
    """Refuse what must never become a path or be taken for the version."""
    names.check_name(name)
    if digest_of(manifest) != names.check_digest(digest):
        raise IntegrityError(
            f"the manifest of {name} has the digest {digest_of(manifest)}, not {digest}",
            hint="it was changed after it was published; do not use it",
        )
    seen = set()
    for record in manifest.files:
        names.check_path(record.path)
        folded = record.path.lower()
        if folded in seen or folded == FILE_NAME:
            raise InvalidError(f"the manifest of {name} lists {names.shown(record.path)} twice, or its own name")
        seen.add(folded)


def _directory(root: str, name: str, digest: str, files: tuple[FileRecord, ...] | None) -> str:
    leaf = digest.removeprefix("sha256:")
    if files is not None:
        paths = "\0".join(sorted(record.path for record in files))
        leaf += ".part-" + hashlib.sha256(paths.encode()).hexdigest()[:16]
    return os.path.join(root, "drafters", name, leaf)


def is_complete(directory: str, files: tuple[FileRecord, ...], manifest: Manifest) -> bool:
    """Whether a directory holds these files and this manifest, whole and undamaged, and no other weights."""
    return (
        _content(os.path.join(directory, FILE_NAME)) == canonical(manifest)
        and all(is_verified(os.path.join(directory, record.path), record.sha256, record.size) for record in files)
        and not strangers(directory, files)
    )


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _version_directories(folder: str) -> Iterator[str]:
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return
    for entry in entries:
        if len(entry) == 64:
            yield os.path.join(folder, entry)


def _pulled_manifest(directory: str) -> Manifest | None:
    """The manifest of a directory, if that is whole and is what its name says."""
    from drafter_contracts.errors import ManifestError

    try:
        manifest = read_manifest(directory)
    except ManifestError:
        return None
    if manifest is None or digest_of(manifest) != "sha256:" + os.path.basename(directory):
        return None
    return manifest if is_complete(directory, manifest.files, manifest) else None


def _fetch_all(blobs: Blobs, backend: Backend, reference: str, files: tuple[FileRecord, ...], tell: Tell) -> None:
    absent = {record.sha256: record for record in files if not blobs.has(record.sha256, record.size)}
    with ThreadPoolExecutor(AT_ONCE, "fetch") as pool:
        running = [pool.submit(_fetch, blobs, backend, reference, record, tell) for record in absent.values()]
        try:
            done, _ = wait(running, return_when=FIRST_EXCEPTION)
        except BaseException:
            blobs.stop.set()
            pool.shutdown(cancel_futures=True)
            raise
        if any(one.exception() for one in done):
            blobs.stop.set()
            pool.shutdown(cancel_futures=True)
    failed = [error for one in running if not one.cancelled() and (error := one.exception()) is not None]
    for error in sorted(failed, key=lambda one: isinstance(one, StoppedError)):
        raise error


def _fetch(blobs: Blobs, backend: Backend, reference: str, record: FileRecord, tell: Tell) -> None:
    def source(start: int) -> Iterator[bytes]:
        if record.elsewhere:
            return cache_elsewhere.stream(record.elsewhere, start)
        return backend.stream_file(reference, record.path, start)

    blobs.fetch(record.sha256, record.size, source, tell)


@contextmanager
def held(directory: str, blobs: Blobs) -> Iterator[None]:
    """Make a directory while no other process does.

    Args:
        directory: Its name.
        blobs: The blobs of its cache.

    Raises:
        UsageError: The cache cannot be written.
    """
    try:
        os.makedirs(os.path.dirname(directory), 0o700, exist_ok=True)
        lock = wait_for_lock(directory + ".lock", blobs.stop)
        try:
            yield
        finally:
            os.close(lock)
    except OSError as error:
        said = f"the cache {cache_root()} cannot be written: {error.strerror}"
        raise UsageError(said, "make room, or set DRAFTERS_CACHE") from None


def assemble(
    directory: str, files: Mapping[str, str], texts: Mapping[str, bytes], copies: Mapping[str, str] | None = None
) -> None:
    """Make a directory of hard links (copies where the filesystem has none), then give it its name.

    Args:
        directory: Its name.
        files: Path inside it to the file to link.
        texts: Path inside it to content.
        copies: Path inside it to the file to copy; None for none.

    Raises:
        OSError: It cannot be made; nothing of it is left.
    """
    made = f"{directory}.{os.getpid()}.tmp"
    shutil.rmtree(made, ignore_errors=True)
    try:
        os.makedirs(made, 0o700)
        for sources, bring in ((files, _link), (copies or {}, shutil.copyfile)):
            for inside, source in sources.items():
                path = os.path.join(made, *inside.split("/"))
                os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
                bring(source, path)
        for inside, data in texts.items():
            with open(os.path.join(made, inside), "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        if os.path.lexists(directory):  # it was damaged
            os.rename(directory, made + ".old")
        os.rename(made, directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(made + ".old", ignore_errors=True)


def _link(source: str, path: str) -> None:
    try:
        os.link(source, path, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, path)
