"""`drafters pull`: a stored drafter as a directory, verified, in the cache or where the user wants it."""

from __future__ import annotations

import fnmatch
import hashlib
import os

import msgspec

from drafter_cli.cache import drafters as cache
from drafter_cli.cache.placing import place
from drafter_cli.client.connect import OPTIONS, connect
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UnreachableError, UsageError
from drafter_cli.progress import Progress
from drafter_cli.terminal import printable, write, write_json
from drafter_cli.words import plural, size
from drafter_contracts.launch.plan_records import FLAGS, PREFERENCES, RENDER
from drafter_contracts.manifest import FileRecord, Manifest, decode
from drafter_contracts.manifest import digest as digest_of
from drafter_contracts.manifest import read_manifest as stored_manifest
from drafter_registry import names
from drafter_registry.documents import YANKED
from drafter_registry.errors import IntegrityError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend

COMMANDS = {
    "pull": Command(
        name="pull",
        summary="fetch a stored drafter, verified, into the cache or a directory",
        description=(
            "Fetches what is not in the cache yet, several files at once, goes on after a cut, verifies every byte,\n"
            "and prints the directory: an engine can be started on it. With DIR the files are copied there; content\n"
            "that differs is never overwritten. Where the registry does not answer, NAME@VERSION and\n"
            "NAME@sha256:DIGEST are found in the cache if they were pulled before.\n"
            "With --for it is what that engine release must see: where the stored files are not right for it, a\n"
            "render, with another config.json and, where need be, weights in another order or under other names.\n"
            "RENDER.md in it says what was changed and why. Refused (3) or not known (5) as by `drafters resolve`."
        ),
        words=("REF", "[DIR]"),
        options=(
            Option("--output", "the directory to put the files in, like DIR", "DIR", short="-o"),
            Option("--for", "an engine release, as for `drafters resolve --engine`: sglang==0.5.23", "RELEASE|PATH"),
            Option("--target", "with --for: directory or name of the target; default: the recorded one", "PATH|ID"),
            Option("--target-config", "with --for: the target's config.json", "FILE"),
            Option(
                "--prefer",
                f"with --for: what to try first, {RENDER} (default) or {FLAGS}, as for `drafters resolve`",
                "FIRST",
                choices=PREFERENCES,
            ),
            Option("--files", "only files that match these patterns: config.json, *.json", "GLOB...", many=True),
            *OPTIONS,
            JSON,
        ),
        examples=(
            ("drafters pull kimi-eagle3@prod", "into the cache; prints the directory"),
            ("drafters pull kimi-eagle3@1.0 ./drafter", "into a directory of your own"),
            ("drafters pull kimi-eagle3@1.0 --for sglang==0.5.23 -o ./drafter", "as that release must see it"),
        ),
    )
}


class Pulled(msgspec.Struct, frozen=True):
    """What was pulled: reference as exact version, identity, directory, and what had to be fetched for it."""

    name: str
    version: str
    digest: str
    directory: str
    files: tuple[str, ...]
    fetched_files: int
    fetched_bytes: int
    manifest: Manifest


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Pull; see the description."""
    destination = _destination(parsed)
    if parsed.has("--for"):
        from drafter_cli.catalogue.pull_for import pull_for

        return pull_for(parsed, destination)
    reference = names.read_reference(parsed.word(0))
    try:
        pulled = _pull(parsed, reference)
    except UnreachableError as error:
        pulled = _from_cache(parsed, reference, error)
    if destination:
        files = [file for file in pulled.manifest.files if file.path in pulled.files]
        directory = place(pulled.directory, os.path.abspath(destination), files)
        pulled = msgspec.structs.replace(pulled, directory=directory)
    if parsed.has("--json"):
        told = msgspec.to_builtins(pulled)
        del told["manifest"]  # it lies in the directory
        write_json(told)
    else:
        write(pulled.directory)
    return EXIT_OK


def _pull(parsed: Parsed, reference: names.Reference) -> Pulled:
    backend = connect(parsed)
    try:
        manifest, digest = read_manifest(backend, reference)
        _warn_if_yanked(backend, reference)
        wanted = _matching(manifest, parsed.many("--files"))
        missing = cache.missing(reference.name, digest, manifest, wanted)
        with Progress("fetching", missing.size) as progress:
            directory = cache.ensure(backend, reference.name, digest, manifest, files=wanted, tell=progress.tell)
    finally:
        backend.close()
    exact = f"{reference.name}@{manifest.version}"
    if missing.files:
        write(f"{exact}: fetched {plural(missing.files, 'file')}, {size(missing.size)}", to_stderr=True)
    else:
        write(f"{exact}: all of it was there", to_stderr=True)
    paths = tuple(file.path for file in (manifest.files if wanted is None else wanted))
    return Pulled(reference.name, manifest.version, digest, directory, paths, missing.files, missing.size, manifest)


def _destination(parsed: Parsed) -> str:
    """Where the files shall be, "" for the cache.

    Raises:
        UsageError: Two directories, or options that only say something together with `--for`.
    """
    if parsed.word(1) and parsed.has("--output"):
        raise UsageError(f"{parsed.word(1)} and --output name two directories", "give one of them")
    for name in ("--target", "--target-config", "--prefer"):
        if parsed.has(name) and not parsed.has("--for"):
            raise UsageError(f"{name} says something only together with --for", "add --for sglang==VERSION")
    return parsed.value("--output") or parsed.word(1)


def _from_cache(parsed: Parsed, reference: names.Reference, error: UnreachableError) -> Pulled:
    """What was pulled before, where nobody answers.

    Raises:
        UnreachableError: Nothing was, or an alias is asked for.
    """
    directory = cache.find_pulled(str(reference))
    manifest = stored_manifest(directory) if directory is not None else None
    if directory is None or manifest is None:
        raise error
    write(f"note: {printable(error.message)}; {reference} is from the cache", to_stderr=True)
    wanted = _matching(manifest, parsed.many("--files"))
    paths = tuple(file.path for file in (manifest.files if wanted is None else wanted))
    return Pulled(reference.name, manifest.version, digest_of(manifest), directory, paths, 0, 0, manifest)


def _warn_if_yanked(backend: Backend, reference: names.Reference) -> None:
    document = backend.show(str(reference))
    if document.summary.state == YANKED:
        why = f": {document.yanked_why}" if document.yanked_why else ""
        write(f"warning: {reference} is yanked{printable(why)}", to_stderr=True)


def read_manifest(backend: Backend, reference: names.Reference) -> tuple[Manifest, str]:
    """A version's manifest, verified, and its digest.

    Raises:
        IntegrityError: Its bytes are not those of its digest, or it is not what was asked for.
        ManifestError: It is of a schema that is not known here.
        RegistryError: The registry refuses.
        UnreachableError: It does not answer.
    """
    data, digest = backend.manifest(str(reference))
    own = "sha256:" + hashlib.sha256(data).hexdigest()
    if own != digest or reference.digest not in ("", digest):
        raise IntegrityError(
            f"the manifest of {reference} has the digest {own}, not {reference.digest or digest}",
            hint="it was changed after it was published; do not use it",
        )
    manifest = decode(data, where=f"the manifest of {reference}")
    if manifest.name != reference.name or reference.version not in ("", manifest.version):
        raise IntegrityError(f"{backend.name} answers {manifest.name}@{manifest.version} when asked for {reference}")
    return manifest, digest


def _matching(manifest: Manifest, patterns: tuple[str, ...]) -> tuple[FileRecord, ...] | None:
    """The files to fetch; None for all.

    Raises:
        UsageError: A pattern that none matches.
    """
    if not patterns:
        return None
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(file.path, pattern) for file in manifest.files):
            listed = ", ".join(file.path for file in manifest.files)
            raise UsageError(f"no file matches {printable(pattern)}", f"there are {printable(listed)}")
    return tuple(
        file for file in manifest.files if any(fnmatch.fnmatchcase(file.path, pattern) for pattern in patterns)
    )
