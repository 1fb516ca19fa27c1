"""The settings in force: by option, else by environment variable, else by file, else by default; each with its source.

The file is `$XDG_CONFIG_HOME/drafter-registry/config.toml`, or what `DRAFTERS_CONFIG` names. No secret is an option:
a command line can be read by every user of the machine.
"""

from __future__ import annotations

import os
import stat

import msgspec

from drafter_cli.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drafter_cli.commandline import Parsed
    from drafter_registry.settings import Settings

#: Names a file that is read instead of the usual one.
FILE_VARIABLE = "DRAFTERS_CONFIG"
DEFAULT, FLAG, ENVIRONMENT, FILE = "default", "option", "environment", "file"
_FILE_MAX_BYTES = 64 * 1024
_TOKEN_MAX_BYTES = 4096
_READABLE_BY_OTHERS = 0o077


class Key(msgspec.Struct, frozen=True):
    """One thing that can be set.

    Attributes:
        name: As in the file.
        variable: Environment variable.
        help: What it is, for `drafters config`.
        option: Option that sets it, or "".
        secret: Whether its value is never shown.
    """

    name: str
    variable: str
    help: str
    option: str = ""
    secret: bool = False


KEYS = (
    Key("url", "DRAFTERS_URL", "the registry's URL; empty for one in this process", "--url"),
    Key("token", "DRAFTERS_TOKEN", "the token sent to it", secret=True),
    Key("token_file", "DRAFTERS_TOKEN_FILE", "file that holds the token; - for standard input", "--token-file"),
    Key("plain_http", "DRAFTERS_PLAIN_HTTP", "1: send the token over http to other machines too", "--plain-http"),
    Key("timeout", "DRAFTERS_TIMEOUT", "seconds without a byte from the server before giving up"),
    Key("data", "DRAFTERS_DATA", "directory of the registry in this process", "--data"),
    Key("database", "DRAFTERS_DATABASE", "its database's URL; empty for SQLite in that directory", "--database"),
    Key("storage", "DRAFTERS_STORAGE", "its blob store; empty for blobs/ in that directory", "--storage"),
    Key("anonymous_read", "DRAFTERS_ANONYMOUS_READ", "1: everybody may read without a token"),
    Key("blob_max_bytes", "DRAFTERS_BLOB_MAX_BYTES", "largest file it takes"),
    Key("gc_grace_seconds", "DRAFTERS_GC_GRACE_SECONDS", "age below which gc keeps what no version names"),
    Key("upload_idle_seconds", "DRAFTERS_UPLOAD_IDLE_SECONDS", "age at which an upload nobody continues is swept"),
    Key(
        "observation_retention_seconds",
        "DRAFTERS_OBSERVATION_RETENTION_SECONDS",
        "age at which what engines were seen to accept is removed",
    ),
    Key("cache", "DRAFTERS_CACHE", "directory of pulled drafters and derived profiles"),
)
_TIMEOUT_SECONDS = "60"


class Setting(msgspec.Struct, frozen=True):
    """One setting in force.

    Attributes:
        name: As in the file.
        value: As text; "" where nothing is set.
        source: "option --url", "environment DRAFTERS_URL", "file PATH", or "default".
        secret: Whether `value` must not be shown.
    """

    name: str
    value: str
    source: str
    secret: bool = False

    @property
    def shown(self) -> str:
        """The value as it may be printed: no secret, and no password inside a URL."""
        if self.secret:
            return "(set)" if self.value else ""
        return without_password(self.value)

    def __repr__(self) -> str:
        """Without secrets."""
        return f"Setting({self.name}={self.shown!r} from {self.source})"


class InForce(msgspec.Struct, frozen=True):
    """All settings, in the order of `KEYS`, the file they were read from ("" if there is none), and warnings."""

    settings: tuple[Setting, ...]
    file: str = ""
    warnings: tuple[str, ...] = ()

    def get(self, name: str) -> Setting:
        """One setting."""
        return next(setting for setting in self.settings if setting.name == name)

    def value(self, name: str) -> str:
        """Its value, "" where nothing is set."""
        return self.get(name).value

    def is_on(self, name: str) -> bool:
        """A switch.

        Raises:
            UsageError: It is neither on nor off.
        """
        setting = self.get(name)
        text = setting.value.strip().lower()
        if text not in {"", "0", "1", "no", "yes", "false", "true", "off", "on"}:
            raise UsageError(f"{name} is {setting.value!r} ({setting.source})", "write 1 or 0")
        return text in {"1", "yes", "true", "on"}


def read(parsed: Parsed | None = None, environment: Mapping[str, str] | None = None) -> InForce:
    """The settings in force.

    Args:
        parsed: The command line; None for none.
        environment: Variables; None for this process's.

    Raises:
        UsageError: The file cannot be read, or an option holds a password; all that is wrong in the file is told.
    """
    variables = os.environ if environment is None else environment
    path, must_exist = _file(variables)
    content, warnings = _read_file(path, must_exist=must_exist)
    settings = tuple(_setting(key, parsed, variables, content, path) for key in KEYS)
    _refuse_password(parsed)
    return InForce(settings, path if content is not None else "", warnings)


def _file(variables: Mapping[str, str]) -> tuple[str, bool]:
    """Path of the file, and whether it was asked for by name."""
    named = variables.get(FILE_VARIABLE, "")
    if named:
        return os.path.abspath(named), True
    base = variables.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # the specification says to ignore it then
        base = os.path.join(variables.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(base, "drafter-registry", "config.toml"), False


def _setting(
    key: Key, parsed: Parsed | None, variables: Mapping[str, str], content: Mapping[str, str] | None, path: str
) -> Setting:
    if parsed is not None and key.option and parsed.has(key.option):
        value = parsed.value(key.option)
        return Setting(key.name, "1" if key.name == "plain_http" else value, f"{FLAG} {key.option}", key.secret)
    if variables.get(key.variable):
        return Setting(key.name, variables[key.variable], f"{ENVIRONMENT} {key.variable}", key.secret)
    if content and key.name in content:
        return Setting(key.name, content[key.name], f"{FILE} {path}", key.secret)
    return Setting(key.name, _default(key.name, variables), DEFAULT, key.secret)


def _default(name: str, variables: Mapping[str, str]) -> str:
    if name == "timeout":
        return _TIMEOUT_SECONDS
    if name == "cache":
        return os.path.join(_base(variables, "XDG_CACHE_HOME", ".cache"), "drafter-registry")
    if name == "data":
        return os.path.join(_base(variables, "XDG_DATA_HOME", os.path.join(".local", "share")), "drafter-registry")
    if name in {"blob_max_bytes", "gc_grace_seconds", "upload_idle_seconds", "observation_retention_seconds"}:
        from drafter_registry import limits

        return str(getattr(limits, name))
    return "0" if name in {"anonymous_read", "plain_http"} else ""


def _base(variables: Mapping[str, str], name: str, below_home: str) -> str:
    named = variables.get(name, "")
    return named if os.path.isabs(named) else os.path.join(variables.get("HOME") or os.path.expanduser("~"), below_home)


def _read_file(path: str, *, must_exist: bool) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    """What the file says, as texts, and what to warn of; None if there is no file.

    Raises:
        UsageError: It cannot be read, or says something that is not known.
    """
    import tomllib

    try:
        with open(path, "rb") as opened:
            data = opened.read(_FILE_MAX_BYTES + 1)
            mode = os.fstat(opened.fileno()).st_mode
    except FileNotFoundError:
        if must_exist:
            raise UsageError(f"{FILE_VARIABLE} names {path}, which does not exist") from None
        return None, ()
    except (NotADirectoryError, PermissionError, IsADirectoryError) as error:
        raise UsageError(f"the configuration {path} cannot be read: {error.strerror}") from None
    if len(data) > _FILE_MAX_BYTES:
        raise UsageError(f"the configuration {path} is larger than {_FILE_MAX_BYTES} bytes")
    try:
        content = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # the parser's words name a place, never a value
        raise UsageError(f"the configuration {path} is not TOML: {error}") from None
    texts = _texts(content, path)
    return texts, _warnings(path, mode, texts)


def _texts(content: Mapping[str, object], path: str) -> dict[str, str]:
    from drafter_cli.nearest import nearest

    known = {key.name for key in KEYS}
    wrong = []
    texts = {}
    for name, value in content.items():
        if name not in known:
            close = nearest(name, known)
            wrong.append(f"{name!r} is not known" + (f" (did you mean {close}?)" if close else ""))
        elif isinstance(value, bool):
            texts[name] = "1" if value else "0"
        elif isinstance(value, (str, int)):
            texts[name] = str(value)
        else:
            wrong.append(f"{name} must be a text, a number or true or false")
    if wrong:
        raise UsageError(f"the configuration {path}: {'; '.join(wrong)}", f"known are {', '.join(sorted(known))}")
    return texts


def _warnings(path: str, mode: int, texts: Mapping[str, str]) -> tuple[str, ...]:
    secret = bool(texts.get("token")) or without_password(texts.get("database", "")) != texts.get("database", "")
    if secret and stat.S_IMODE(mode) & _READABLE_BY_OTHERS:
        return (f"{path} holds a secret and others can read it: chmod 600 {path}",)
    return ()


def _refuse_password(parsed: Parsed | None) -> None:
    for option in ("--url", "--database", "--storage"):
        value = parsed.value(option) if parsed is not None else ""
        if without_password(value) != value:
            key = next(key for key in KEYS if key.option == option)
            raise UsageError(
                f"{option} holds a password, which every user of this machine could read",
                f"set {key.variable}, or {key.name} in the configuration file",
            )


def without_password(text: str) -> str:
    """A URL with its password replaced by ***; any other text as it is."""
    scheme, found, rest = text.partition("://")
    authority, slash, path = rest.partition("/")
    login, at, host = authority.rpartition("@")
    name, colon, password = login.partition(":")
    if not (found and at and colon and password):
        return text
    return f"{scheme}://{name}:***@{host}{slash}{path}"


def read_token(settings: InForce) -> str:
    """The token to send, "" if none is set. The more specific of `token` and `token_file` wins.

    Raises:
        UsageError: The token's file cannot be read or holds none, or the token has signs that no header can carry.
    """
    order = (FLAG, ENVIRONMENT, FILE, DEFAULT)
    direct, named = settings.get("token"), settings.get("token_file")
    from_file = order.index(named.source.partition(" ")[0]) < order.index(direct.source.partition(" ")[0])
    token = _token_of(named.value) if named.value and (from_file or not direct.value) else direct.value.strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise UsageError("the token has signs that no token has", "copy it again, without quotes or line breaks")
    return token


def _token_of(path: str) -> str:
    import sys

    where = "standard input" if path == "-" else path
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_TOKEN_MAX_BYTES + 1)
        else:
            with open(path, "rb") as opened:
                data = opened.read(_TOKEN_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the token's file {where} cannot be read: {error.strerror}") from None
    try:
        token = data.decode().strip()
    except UnicodeDecodeError:
        token = ""
    if not token or len(data) > _TOKEN_MAX_BYTES:
        raise UsageError(f"{where} holds no token")
    return token


def registry_settings(settings: InForce) -> Settings:
    """The settings of a registry in this process.

    Raises:
        InvalidError: A number or switch that cannot be read.
    """
    from drafter_registry.settings import from_environment

    return from_environment({key.variable: settings.value(key.name) for key in KEYS if not key.secret})
