"""Commands that talk to an engine and to a registry: there `--url` is the engine's, and `--registry` the other's."""

from __future__ import annotations

import msgspec

from drafter_cli.client.connect import OPTIONS as REGISTRY
from drafter_cli.commandline import Option, Parsed

#: A registry's options, for a command whose `--url` is an engine's.
OPTIONS = (
    Option("--registry", "URL of the registry; without one, the registry is in this process", "URL"),
    *(option for option in REGISTRY if option.name != "--url"),
)


def of_registry(parsed: Parsed) -> Parsed:
    """The command line as the registry's options read it."""
    values = {name: value for name, value in parsed.values.items() if name != "--url"}
    if parsed.has("--registry"):
        values["--url"] = parsed.value("--registry")
    return msgspec.structs.replace(parsed, values=values)
