"""A resolution as a script takes it. Described in docs/resolve.md; every form is covered by a test."""

from __future__ import annotations

import shlex

import msgspec

from drafter_cli.errors import UsageError
from drafter_cli.resolving.request import ARGS, ENV, JSON_FORMAT, SHELL
from drafter_contracts.launch.options import DRAFT_PATH, spelled
from drafter_contracts.launch.vllm_plan import FLAG as SPECULATIVE
from drafter_contracts.serving.config_file import arguments_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_cli.rendering.renders import Render
    from drafter_contracts.engines.profile import Profile
    from drafter_registry.documents import Resolution

#: Name of the array that `shell` assigns, and prefix of the variables that `env` writes.
ARRAY = "DRAFTERS_ARGS"
PREFIX = "DRAFTERS_RESOLVED_"


def text(resolution: Resolution, shape: str, profile: Profile | None, render: Render | None = None) -> str:
    """The text for standard output.

    Args:
        resolution: With the draft path in its flags.
        shape: One of `resolve_request.FORMATS`.
        profile: The release; None if it is not known here.
        render: The render that its flags name; None where they name none.

    Raises:
        UsageError: The release cannot take its options in that form.
    """
    if shape == JSON_FORMAT:
        made = None if render is None else {"directory": render.directory, "digest": render.digest}
        document = {**msgspec.to_builtins(resolution), "render": made}
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    if shape == ARGS:
        return quoted(resolution.flags)
    if shape == SHELL:
        return f"{ARRAY}=({quoted(resolution.flags)})"
    if shape == ENV:
        return _env(resolution)
    return _yaml(resolution, profile)


def quoted(arguments: Sequence[str]) -> str:
    """Arguments on one line, as a POSIX shell and xargs read them.

    Raises:
        UsageError: One holds a line end, which xargs cannot read.
    """
    if any("\n" in argument for argument in arguments):
        raise UsageError("a line end in an argument", "use --format json")
    return " ".join(shlex.quote(argument) for argument in arguments)


def _env(resolution: Resolution) -> str:
    """NAME=VALUE lines, values as they are: what `docker run --env-file` reads."""
    flags = resolution.flags
    path = next((flags[at + 1] for at, flag in enumerate(flags[:-1]) if "draft-model-path" in flag), "")
    path = path or next((_model(flags[at + 1]) for at, flag in enumerate(flags[:-1]) if flag == SPECULATIVE), "")
    values = {
        "NAME": resolution.name,
        "VERSION": resolution.version,
        "DIGEST": resolution.digest,
        "FINGERPRINT": resolution.fingerprint,
        "ENGINE": resolution.engine,
        "DRAFT_PATH": path,
        "ARGS": quoted(flags),
    }
    return "\n".join(f"{PREFIX}{name}={value}" for name, value in values.items())


def _model(text: str) -> str:
    """The drafter's directory in vLLM's speculative config."""
    return str(msgspec.json.decode(text, type=dict[str, object]).get("model", ""))


def _yaml(resolution: Resolution, profile: Profile | None) -> str:
    """A mapping for `--config FILE`, read back by the release's own rules before it is given out."""
    engine = resolution.engine
    if profile is None:
        raise UsageError(f"how {engine} reads --config is not known here", "use --format args")
    rule = profile.launch.config_file
    if rule is None:
        raise UsageError(f"{engine} has no --config", "use --format args")
    options = mapping(resolution.flags, profile)
    argv, refused = arguments_of(rule, profile.launch.flags, options)
    if refused or tuple(argv) != resolution.flags:
        keys = ", ".join(key for key, _ in refused) or spelled(profile, DRAFT_PATH)
        raise UsageError(f"{engine} does not take {keys} from a --config file as it stands", "use --format args")
    return "\n".join(f"{key}: {msgspec.json.encode(value).decode()}" for key, value in options.items())


def mapping(flags: Sequence[str], profile: Profile) -> dict[object, object]:
    """Flags as a mapping: option without dashes to its value, true for a switch."""
    switches = {name for flag in profile.launch.flags if flag.action == "store_true" for name in flag.names}
    options: dict[object, object] = {}
    words = iter(flags)
    for name in words:
        value = True if name in switches else next(words, "")
        number = isinstance(value, str) and value.isdecimal() and str(int(value)) == value
        options[name.removeprefix("--")] = int(value) if number else value
    return options
