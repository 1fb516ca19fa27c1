"""Which registry a command talks to, and the options that say so."""

from __future__ import annotations

from drafter_cli.client import configuration
from drafter_cli.client.configuration import FLAG
from drafter_cli.commandline import Option
from drafter_cli.errors import UsageError
from drafter_cli.terminal import printable, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_cli.client.configuration import InForce
    from drafter_cli.commandline import Parsed
    from drafter_registry.service.context import Actor, Registry

#: Where a registry in this process is; for commands that only work on one ("gc", "db upgrade").
LOCAL_OPTIONS = (
    Option("--data", "directory of the registry in this process", "DIR"),
    Option("--database", "its database, if it is not registry.db in that directory", "URL"),
    Option("--storage", "its blob store, if it is not blobs/ in that directory", "URL"),
)
#: What every registry command shares.
OPTIONS = (
    Option("--url", "URL of the registry; without one, the registry is in this process", "URL"),
    Option("--token-file", "file that holds the token, - for standard input; or set DRAFTERS_TOKEN", "FILE"),
    Option("--plain-http", "send the token unencrypted to another machine"),
    *LOCAL_OPTIONS,
)


def connect(parsed: Parsed, *, create: bool = False) -> Backend:
    """The registry that the options, the environment or the configuration file name.

    A URL means a server; else the registry is in this process. Options beat a URL that only the environment or the file
    names.

    Args:
        parsed: The command line.
        create: Whether to make a registry in this process that is not there. A command that only looks must not: a
            mistyped directory would be an empty registry.

    Raises:
        UsageError: Settings that cannot be read or contradict each other, or an extra that is not installed.
        RegistryError: The registry in this process cannot be opened.
    """
    settings = in_force(parsed)
    if _is_remote(settings):
        return _remote(settings)
    registry, actor = open_local(settings, create=create)
    from drafter_cli.client.embedded import Embedded

    return Embedded(registry, actor)


def in_force(parsed: Parsed) -> InForce:
    """The settings; what is to be warned of goes to standard error.

    Raises:
        UsageError: See `configuration.read`.
    """
    settings = configuration.read(parsed)
    for warning in settings.warnings:
        write(f"warning: {printable(warning)}", to_stderr=True)
    return settings


def local(parsed: Parsed, *, create: bool = False) -> tuple[Registry, Actor]:
    """The registry in this process, for commands that work on nothing else; and who runs them.

    Raises:
        UsageError: Settings that cannot be read, or the server's extra is not installed.
        RegistryError: It cannot be opened.
    """
    return open_local(in_force(parsed), create=create)


def open_local(settings: InForce, *, create: bool = True) -> tuple[Registry, Actor]:
    """The registry of these settings, opened in this process; and who runs the command.

    Raises:
        UsageError: The server's extra is not installed.
        RegistryError: It cannot be opened.
    """
    try:
        from drafter_registry.service.open import open_registry

        return open_registry(configuration.registry_settings(settings), create=create), local_actor()
    except ModuleNotFoundError as error:  # of the libraries, some are imported only for some databases and stores
        raise missing_extra("a registry in this process", "server", error) from None


def local_actor() -> Actor:
    """Whoever runs this process."""
    import getpass

    from drafter_registry.service.context import LOCAL_SCOPES, Actor

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without an entry
        import os

        user = str(os.geteuid())
    return Actor(f"local:{user}", LOCAL_SCOPES)


def missing_extra(what: str, extra: str, error: ModuleNotFoundError) -> UsageError:
    """The error for a library that is not installed; any other missing module is a fault and raised as it is.

    Args:
        what: What needs it.
        extra: The extra that brings it.
        error: As raised.
    """
    if (error.name or "").partition(".")[0].startswith("drafter_"):
        raise error
    return UsageError(f"{what} needs {error.name}", f"pip install 'drafter-registry[{extra}]'")


def _is_remote(settings: InForce) -> bool:
    url = settings.get("url")
    local_flags = [
        setting.source.partition(" ")[2]
        for setting in (settings.get("data"), settings.get("database"), settings.get("storage"))
        if setting.source.startswith(FLAG)
    ]
    if url.value and local_flags and url.source.startswith(FLAG):
        raise UsageError(f"--url and {local_flags[0]} name two registries", "give one of them")
    return bool(url.value) and not local_flags


def _remote(settings: InForce) -> Backend:
    try:
        import httpx2  # noqa: F401 - asked for first, so that its absence is told in words
    except ModuleNotFoundError as error:
        raise missing_extra("a registry's server", "client", error) from None
    from drafter_cli.client.remote import Remote

    return Remote(settings)
