"""Stored drafters on this machine: fetched into the cache, or found there when nobody can be asked."""

from __future__ import annotations

import msgspec

from drafter_cli.cache import drafters as cache
from drafter_cli.errors import UnreachableError, UsageError
from drafter_cli.progress import Progress
from drafter_contracts.errors import InternalError
from drafter_contracts.manifest import Manifest, read_manifest
from drafter_contracts.manifest import digest as digest_of
from drafter_registry.errors import IntegrityError, RegistryError, UnavailableError
from drafter_registry.names import read_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend


class Fetched(msgspec.Struct, frozen=True):
    """A drafter in the cache.

    Attributes:
        directory: Its files, and its manifest beside them.
        manifest: The same, read.
        digest: Its identity.
    """

    directory: str
    manifest: Manifest
    digest: str


def require_asked(backend: Backend, reference: str, name: str, digest: str, manifest: Manifest) -> None:
    """Whether an answer is of what was asked for: nobody else's drafter gets into the cache under that name.

    Args:
        backend: Who answered.
        reference: What was asked for.
        name: The drafter of the answer.
        digest: The digest that the answer claims.
        manifest: The manifest of the answer.

    Raises:
        IntegrityError: It is of something else.
    """
    asked = read_reference(reference)
    same = asked.name == name == manifest.name and asked.digest in ("", digest)
    if not same or asked.version not in ("", manifest.version) or digest != digest_of(manifest):
        raise IntegrityError(
            f"{backend.name} answers {manifest.name}@{manifest.version} ({digest}) when asked for {reference}",
            hint="do not use it; is that the registry that you mean? `drafters config`",
        )


def fetch(backend: Backend, reference: str, name: str, digest: str, manifest: Manifest) -> str:
    """The directory of a version, fetched as far as it is not here; progress goes to standard error.

    Args:
        backend: Where to fetch.
        reference: What was asked for.
        name: The drafter of the answer.
        digest: Its identity.
        manifest: Its manifest.

    Raises:
        IntegrityError: The answer is of something else than what was asked for.
        RegistryError: The registry does not give it, or gives something else.
        UsageError: The cache cannot be written, or a server does not answer.
    """
    require_asked(backend, reference, name, digest, manifest)
    absent = cache.missing(name, digest, manifest)
    with Progress("fetching", absent.size) as progress:
        return cache.ensure(backend, name, digest, manifest, tell=progress.tell)


def from_cache(reference: str) -> Fetched:
    """A drafter that was pulled before, without asking anybody.

    Raises:
        UnreachableError: It is not here, or an alias: where that points now only its registry knows.
        InvalidError: Not a reference.
    """
    read = read_reference(reference)
    if read.alias:
        raise UnreachableError(
            f"where {reference} points now only its registry knows",
            f"without it, name what was pulled: {read.name}@VERSION or {read.name}@sha256:DIGEST",
        )
    directory = cache.find_pulled(reference)
    if directory is None:
        raise UnreachableError(
            f"{reference} was not pulled to this machine", f"drafters pull {reference}, where its registry answers"
        )
    manifest = read_manifest(directory)
    if manifest is None:
        raise InternalError("a pulled directory lost its manifest", where=directory)
    return Fetched(directory, manifest, digest_of(manifest))


def unreachable(error: UsageError | RegistryError) -> bool:
    """Whether an error means that the registry does not answer: then what was pulled may do."""
    return isinstance(error, (UnreachableError, UnavailableError))


def referenced(reference: str) -> Fetched:
    """A drafter by reference: from the registry of the settings in force, or pulled before if that does not answer.

    Raises:
        RegistryError: There is no such version, or the registry does not give it.
        UsageError: The settings cannot be read, or neither registry nor cache has it.
    """
    from drafter_cli.client.connect import connect
    from drafter_cli.commandline import Parsed
    from drafter_cli.terminal import printable, write

    try:
        backend = connect(Parsed({}, (), None))
        try:
            shown = backend.show(reference)
            summary = shown.summary
            directory = fetch(backend, reference, summary.name, summary.digest, shown.manifest)
        finally:
            backend.close()
    except (UsageError, RegistryError) as error:
        if not unreachable(error) or read_reference(reference).alias:
            raise
        found = from_cache(reference)
        write(f"drafters: {printable(str(error))}; taken from the cache", to_stderr=True)
        return found
    return Fetched(directory, shown.manifest, summary.digest)
