"""`drafters db upgrade | check`: the schema of the registry's database."""

from __future__ import annotations

from drafter_cli.client.connect import LOCAL_OPTIONS
from drafter_cli.client.local_registry import needs_server_extra, own_settings
from drafter_cli.commandline import JSON, Command, Parsed
from drafter_cli.errors import EXIT_OK
from drafter_cli.terminal import write, write_json
from drafter_cli.words import plural

COMMANDS = {
    "db upgrade": Command(
        name="db upgrade",
        summary="bring the database's schema up to this release",
        description=(
            "Runs the migrations that the database lacks, each in a transaction of its own and by one process at a\n"
            "time; an empty database gets the whole schema. Servers of the release before go on working meanwhile.\n"
            "Nothing happens if there is nothing to do."
        ),
        options=(JSON, *LOCAL_OPTIONS),
        examples=(("drafters db upgrade --data /var/lib/drafters", "before the first server of a new release"),),
    ),
    "db check": Command(
        name="db check",
        summary="whether the database's schema is this release's",
        description="Exits with 0 if servers of this release can start on the database, with 6 and what to run if not.",
        options=(JSON, *LOCAL_OPTIONS),
        examples=(("drafters db check --data /var/lib/drafters", "in a deployment"),),
    ),
}


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them.

    Raises:
        UsageError: It is not clear which database, or the server's extra is not installed.
        SchemaError: The schema is not this release's, or the database is another program's.
        UnavailableError: The database does not answer.
    """
    settings = own_settings(command.name, parsed)
    with needs_server_extra(command.name):
        from drafter_registry.db import schema
        from drafter_registry.service.open import open_database
    upgrading = command.name == "db upgrade"
    database = open_database(settings, create=upgrading)
    try:
        done = schema.upgrade(database) if upgrading else ()
        schema.check(database)
    finally:
        database.close()
    if parsed.has("--json"):
        write_json({"schema": schema.HEAD, "run": done})
    elif done:
        write(f"ran {plural(len(done), 'migration')}: {', '.join(done)}", to_stderr=True)
    else:
        write(f"the database has this release's schema, {schema.HEAD}", to_stderr=True)
    return EXIT_OK
