"""`drafters config`: the settings in force, and where each comes from."""

from __future__ import annotations

from drafter_cli.client.configuration import KEYS, InForce
from drafter_cli.client.connect import OPTIONS, in_force
from drafter_cli.commandline import JSON, Command, Parsed
from drafter_cli.errors import EXIT_OK
from drafter_cli.table import Column, print_table
from drafter_cli.terminal import write, write_json

COMMANDS = {
    "config": Command(
        name="config",
        summary="the settings in force, and where each comes from",
        description=(
            "Prints every setting with its value and its source: an option beats an environment variable, that beats\n"
            "the configuration file, that beats the default. Secrets are never shown. The file is\n"
            "$XDG_CONFIG_HOME/drafter-registry/config.toml, or what DRAFTERS_CONFIG names."
        ),
        options=(JSON, *OPTIONS),
        examples=(
            ("drafters config", "which registry a command would talk to"),
            ("drafters config --json", "for a script"),
        ),
    ),
}

_COLUMNS = (
    Column("SETTING"),
    Column("VALUE"),
    Column("FROM"),
    Column("VARIABLE", leaves=2),
    Column("WHAT IT IS", leaves=1),
)


def run(command: Command, parsed: Parsed) -> int:
    """Print the settings.

    Raises:
        UsageError: They cannot be read.
    """
    del command
    settings = in_force(parsed)
    if parsed.has("--json"):
        write_json(_document(settings))
        return EXIT_OK
    rows = [
        (key.name, settings.get(key.name).shown or "-", settings.get(key.name).source, key.variable, key.help)
        for key in KEYS
    ]
    print_table(_COLUMNS, rows)
    write(f"file: {settings.file}" if settings.file else "there is no configuration file", to_stderr=True)
    return EXIT_OK


def _document(settings: InForce) -> dict[str, object]:
    return {
        "file": settings.file,
        "settings": {
            key.name: {
                "value": settings.get(key.name).shown,
                "source": settings.get(key.name).source,
                "variable": key.variable,
            }
            for key in KEYS
        },
    }
