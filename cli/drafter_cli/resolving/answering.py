"""A question answered: by a registry or here, and the files put where the flags say that they are."""

from __future__ import annotations

import msgspec

from drafter_cli.cache import fetched
from drafter_cli.cache.fetched import Fetched
from drafter_cli.client.connect import connect
from drafter_cli.errors import UnreachableError, UsageError
from drafter_cli.rendering import renders
from drafter_cli.rendering.renders import Render
from drafter_cli.resolving.here import require_known, resolve_here
from drafter_cli.terminal import printable, write
from drafter_contracts.launch import plan_records
from drafter_contracts.rendering.record import Wanted
from drafter_contracts.verdict import Verdict
from drafter_registry.documents import Resolution
from drafter_registry.errors import RefusedError, RegistryError, UnknownError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_cli.commandline import Parsed
    from drafter_cli.resolving.request import Asked
    from drafter_contracts.manifest import Manifest


class Answer(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        resolution: The flags, with the directory in them where there is one.
        directory: Where the files are that they name; "" where none were fetched.
        render: The render that is; None where the version's own files will do, or none were fetched.
    """

    resolution: Resolution
    directory: str = ""
    render: Render | None = None


def answer(asked: Asked, parsed: Parsed) -> Answer:
    """By the registry; by what was pulled before, if it does not answer and what is asked for cannot have changed.

    Args:
        asked: The question.
        parsed: The command line, for which registry.

    Raises:
        RefusedError: There are no such flags; with the whole verdict.
        RegistryError: The registry does not give the drafter.
        UsageError: Neither registry nor cache has it.
        ContractsError: Files that cannot be read, or options that no launch can have.
    """
    if asked.offline:
        return _here(asked)
    try:
        backend = connect(parsed)
        try:
            return _by_registry(asked, backend)
        finally:
            backend.close()
    except (UsageError, RegistryError) as error:
        if not fetched.unreachable(error):
            raise
        try:
            found = _here(asked)
        except UnreachableError as nothing:
            raise UnreachableError(f"{error}, and {nothing.message}", nothing.hint) from error
        write(f"drafters: {printable(str(error))}; answered from the cache", to_stderr=True)
        return found


def _by_registry(asked: Asked, backend: Backend) -> Answer:
    """The registry's answer for a release that it knows; else its files, and the answer computed here."""
    if asked.published:
        try:
            resolution = backend.resolve(asked.request(f"{asked.engine.engine}=={asked.engine.release}"))
        except UnknownError as error:
            if not asked.engine.known or not _lacks_release(error):
                raise
        else:
            manifest = _manifest(resolution)
            found = (backend, asked.reference, resolution.name, resolution.digest, manifest)
            if not asked.pull:
                fetched.require_asked(*found)
                return Answer(placed(resolution, asked.draft_path))
            return _with_files(resolution, Fetched(fetched.fetch(*found), manifest, resolution.digest))
    if not asked.pull:
        raise UsageError(
            f"{asked.engine.name} ({asked.engine.taken_from}) is judged here, by the drafter's files",
            "leave out --no-pull and --draft-path, or name a published release:"
            f" --engine {asked.engine.engine}==VERSION",
        )
    contract = backend.resolve(asked.request(""))
    require_known(asked.engine, f"{contract.name}@{contract.version}")
    manifest = _manifest(contract)
    directory = fetched.fetch(backend, asked.reference, contract.name, contract.digest, manifest)
    pulled = Fetched(directory, manifest, contract.digest)
    resolution = resolve_here(asked, pulled)
    notices = (*contract.notices, *resolution.notices)
    return _with_files(msgspec.structs.replace(resolution, notices=notices), pulled)


def _manifest(resolution: Resolution) -> Manifest:
    """The manifest that every registry sends along."""
    if resolution.manifest is None:
        raise UsageError("the registry's answer holds no manifest", "it speaks another version of this protocol")
    return resolution.manifest


def _lacks_release(error: RefusedError) -> bool:
    """Whether the registry is undecided because it does not know the release."""
    verdict = error.verdict
    return isinstance(verdict, Verdict) and any(one.code == "ENGINE_UNKNOWN" for one in verdict.findings)


def _here(asked: Asked) -> Answer:
    """By what was pulled before."""
    found = fetched.from_cache(asked.reference)
    resolution = resolve_here(asked, found)
    notice = "no registry was asked: whether this version was yanked meanwhile is not known"
    resolution = msgspec.structs.replace(resolution, notices=(notice, *resolution.notices))
    return _with_files(resolution, found) if asked.pull else Answer(placed(resolution, asked.draft_path))


def wanted(resolution: Resolution) -> Wanted:
    """The render that a resolution needs."""
    return Wanted(resolution.engine, resolution.config, resolution.weights, resolution.config_changes)


def _with_files(resolution: Resolution, pulled: Fetched) -> Answer:
    """With the directory in its flags: the pulled one, or a render of it where the release needs that."""
    asked = wanted(resolution)
    if not asked.any:
        return Answer(placed(resolution, pulled.directory), pulled.directory)
    made = renders.ensure(pulled, asked)
    return Answer(placed(resolution, made.directory), made.directory, made)


def placed(resolution: Resolution, path: str) -> Resolution:
    """With the drafter's directory in its flags, if there is one."""
    if not path:
        return resolution
    return msgspec.structs.replace(resolution, flags=plan_records.placed(resolution.flags, path))
