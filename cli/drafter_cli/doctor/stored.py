"""A stored version as the doctor needs it: its files, its manifest, and the promises that were attached to it."""

from __future__ import annotations

from contextlib import closing

from msgspec.structs import replace

from drafter_cli.errors import UsageError
from drafter_contracts.acceptance.causes import Open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_cli.commandline import Parsed
    from drafter_cli.gate_options import Request
    from drafter_contracts.acceptance.promises import Promise


def stored(parsed: Parsed, asked: Request) -> tuple[Request, tuple[Promise, ...], tuple[Open, ...]]:
    """The version by its reference.

    Args:
        parsed: The command line, as the registry's options read it.
        asked: What is asked; its drafter is the reference.

    Returns:
        The same with the directory of its files, attached promises, and what could not be read.

    Raises:
        UsageError: It is no reference, or neither registry nor cache has it.
        RegistryError: The registry has no such version, or does not give it.
    """
    from drafter_cli.cache.fetched import fetch, from_cache, unreachable
    from drafter_cli.client.connect import connect
    from drafter_registry.errors import RegistryError
    from drafter_registry.names import is_reference

    reference = asked.drafter
    if not is_reference(reference):
        raise UsageError(
            f"{reference} is neither a directory nor a reference", "write NAME@VERSION, NAME@ALIAS or a path"
        )
    try:
        with closing(connect(parsed)) as backend:
            shown = backend.show(reference)
            directory = fetch(backend, reference, shown.summary.name, shown.summary.digest, shown.manifest)
            attached = _promises(backend, reference)
    except (UsageError, RegistryError) as error:
        if not unreachable(error):
            raise
        found = from_cache(reference)
        left = Open(
            what="promises attached to the version, and its state in the registry",
            why=str(error),
            settle="ask again when the registry answers",
        )
        return replace(asked, drafter=found.directory, called=reference), (), (left,)
    return replace(asked, drafter=directory, called=reference), attached, ()


def _promises(backend: Backend, reference: str) -> tuple[Promise, ...]:
    from drafter_cli.observing.promised import stored as stored_promises

    return stored_promises(backend, reference).promises
