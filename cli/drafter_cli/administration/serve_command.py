"""`drafters serve`: the registry's HTTP service, in this process until it is told to end."""

from __future__ import annotations

import os

from drafter_cli.client.connect import LOCAL_OPTIONS
from drafter_cli.client.local_registry import needs_server_extra
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.terminal import printable, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_registry.api.server import Listening
    from drafter_registry.service.context import Registry
    from drafter_registry.settings import Settings

_HOST = "127.0.0.1"
_PORT = "8765"

COMMANDS = {
    "serve": Command(
        name="serve",
        summary="run the registry's HTTP service",
        description=(
            "Serves the registry of --data (SQLite and a directory), or of --database and --storage (PostgreSQL,\n"
            "an object store). What is not there is made. A database with another release's schema is refused.\n"
            "The first start makes an admin token and shows it once. Each request is a JSON line on standard error.\n"
            "SIGTERM and Ctrl-C end it: running requests are finished first."
        ),
        options=(
            Option("--host", f"address to listen on ({_HOST})", "ADDRESS"),
            Option("--port", f"port; 0 for any free one ({_PORT})", "PORT"),
            *LOCAL_OPTIONS,
            Option("--anonymous-read", "let everybody read without a token"),
            Option("--certfile", "certificate chain for TLS, PEM", "FILE"),
            Option("--keyfile", "its key, if it is not in the same file", "FILE"),
            Option("--plain-http", "listen for other machines without TLS: something in front does it"),
            Option(
                "--trusted-proxies", "believe X-Forwarded-For of these addresses and networks", "ADDRESS", many=True
            ),
            Option("--drain-seconds", "be not ready for so long before the socket closes (0)", "SECONDS"),
            Option("--admin-token-file", "where the first token goes, instead of the terminal", "FILE"),
            JSON,
        ),
        examples=(
            ("drafters serve --data /var/lib/drafters", "on this machine, for this machine"),
            (
                (
                    "drafters serve --host 0.0.0.0 --certfile cert.pem --keyfile key.pem \\\n"
                    "    --database postgresql://registry@db/registry --storage s3://bucket/drafters"
                ),
                "one of several replicas",
            ),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:
    """Serve until a signal ends it.

    Raises:
        UsageError: Options that cannot be, or the server's extra is not installed.
        RegistryError: The registry cannot be opened: its schema is another release's, say.
    """
    _refuse_open_door(parsed)
    with needs_server_extra(command.name):
        from drafter_registry.api import server
        from drafter_registry.service.open import close, open_registry
    where = _listening(parsed)
    settings = _settings(parsed)
    opened = server.listen(where)
    try:
        registry = open_registry(settings)
        try:
            token = _first_token(registry, parsed.value("--admin-token-file"))
            _collect_garbage()
            server.run(registry, opened, where, lambda: _announce(parsed, server.url_of(opened, where), token))
        finally:
            close(registry)
    finally:
        opened.close()
    return EXIT_OK


def _settings(parsed: Parsed) -> Settings:
    """What to serve. A URL in the environment names the registry that other commands talk to, not this one.

    Raises:
        UsageError: The configuration cannot be read.
        InvalidError: A setting that cannot be read.
    """
    import msgspec

    from drafter_cli.client import configuration
    from drafter_cli.client.connect import in_force

    settings = configuration.registry_settings(in_force(parsed))
    return msgspec.structs.replace(settings, anonymous_read=True) if parsed.has("--anonymous-read") else settings


def _listening(parsed: Parsed) -> Listening:
    from drafter_registry.api.server import Listening

    return Listening(
        host=parsed.value("--host") or _HOST,
        port=_number(parsed, "--port", _PORT, 65535),
        certfile=parsed.value("--certfile"),
        keyfile=parsed.value("--keyfile"),
        trusted_proxies=_proxies(parsed.many("--trusted-proxies")),
        drain_seconds=_number(parsed, "--drain-seconds", "0", 3600),
    )


def _number(parsed: Parsed, option: str, default: str, largest: int) -> int:
    text = parsed.value(option) if parsed.has(option) else default
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= largest):
        raise UsageError(f"{option} is {text!r}", f"a whole number, at most {largest}")
    return int(text)


def _proxies(given: tuple[str, ...]) -> tuple[str, ...]:
    import ipaddress

    names = tuple(name for one in given for name in one.split(",") if name)
    for name in names:
        try:
            ipaddress.ip_network(name, strict=False)
        except ValueError:
            raise UsageError(f"--trusted-proxies has {name!r}", "an address or a network: 10.0.0.0/8") from None
    return names


def _refuse_open_door(parsed: Parsed) -> None:
    """Tokens travel in every request: other machines are listened to with TLS, or after somebody said so.

    Raises:
        UsageError: Another address than this machine's, without TLS.
    """
    import ipaddress

    host = parsed.value("--host") or _HOST
    if parsed.has("--keyfile") and not parsed.has("--certfile"):
        raise UsageError("--keyfile needs --certfile", "--certfile FILE")
    if parsed.has("--certfile") or parsed.has("--plain-http") or host == "localhost":
        return
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise UsageError(
            f"on {host}, tokens would travel unencrypted",
            "give --certfile and --keyfile; or --plain-http, if a proxy in front does TLS",
        )


def _announce(parsed: Parsed, url: str, token: str | None) -> None:
    import msgspec

    file = parsed.value("--admin-token-file")
    if parsed.has("--json"):
        told = {"url": url, "pid": os.getpid()}
        told |= {"admin_token_file": file} if token and file else {}
        write(msgspec.json.encode(told).decode())  # one line: whoever reads it must see its end while this runs
    write(f"drafters: serving on {url}", to_stderr=True)
    if token and file:
        write(f"  the first admin token is in {printable(file)}", to_stderr=True)
    elif token:
        write(f"  the first admin token, shown this once: {token}", to_stderr=True)
        write(f"  export DRAFTERS_URL={url} DRAFTERS_TOKEN={token}", to_stderr=True)


def _first_token(registry: Registry, path: str) -> str | None:
    """The first token, if this start is the first; in a file for the owner only, if one is named.

    Raises:
        UsageError: The file cannot be written; no token was made then.
    """
    from drafter_registry.service import tokens

    if not path:
        return tokens.ensure_admin(registry)
    beside = f"{path}.{os.getpid()}"
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(f"--admin-token-file {path} cannot be written: {error.strerror}") from None
    try:
        token = tokens.ensure_admin(registry)
        if token is None:
            os.unlink(beside)
            return None
        os.write(descriptor, f"{token}\n".encode())
        os.fsync(descriptor)
        os.replace(beside, path)
        return token
    finally:
        os.close(descriptor)


def _collect_garbage() -> None:
    """Commands run without the cyclic collector, since they end soon; this one does not."""
    import gc

    gc.enable()
    gc.freeze()
