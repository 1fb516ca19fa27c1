"""The registry in this process, for commands that need its own database and files and cannot be asked over HTTP."""

from __future__ import annotations

from contextlib import contextmanager

from drafter_cli.client import configuration
from drafter_cli.client.configuration import FLAG
from drafter_cli.client.connect import in_force, missing_extra, open_local
from drafter_cli.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_cli.commandline import Parsed
    from drafter_registry.service.context import Actor, Registry
    from drafter_registry.settings import Settings


def own_settings(name: str, parsed: Parsed) -> Settings:
    """Where the registry's own database and files are.

    Args:
        name: The command.
        parsed: Its command line.

    Raises:
        UsageError: A URL is set and no option names a registry in this process: which of the two is meant would be a
            guess, and the wrong one would be worked on.
        InvalidError: A setting that cannot be read.
    """
    settings = in_force(parsed)
    url = settings.get("url")
    named = any(settings.get(one).source.startswith(FLAG) for one in ("data", "database", "storage"))
    if url.value and not named:
        raise UsageError(
            f"{name} works on the registry's own database and files, and {configuration.without_password(url.value)} "
            f"is a server ({url.source})",
            f"run it on the registry's machine, and name what it shall work on: drafters {name} --data DIR",
        )
    return configuration.registry_settings(settings)


@contextmanager
def opened(name: str, parsed: Parsed) -> Iterator[tuple[Registry, Actor]]:
    """The registry, which must be there, and who runs the command. Closed at the end.

    Raises:
        UsageError: See `own_settings`; or the server's extra is not installed.
        RegistryError: It cannot be opened.
    """
    own_settings(name, parsed)
    registry, actor = open_local(in_force(parsed), create=False)
    from drafter_registry.service.open import close

    try:
        yield registry, actor
    finally:
        close(registry)


@contextmanager
def needs_server_extra(name: str) -> Iterator[None]:
    """Say which extra brings a module that is not installed.

    Raises:
        UsageError: One is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_extra(f"drafters {name}", "server", error) from None
