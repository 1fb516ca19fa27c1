"""`drafters gc | fsck | backup | restore`: the registry's own files and rows, on its own machine."""

from __future__ import annotations

import os

import msgspec

from drafter_cli.client.connect import LOCAL_OPTIONS
from drafter_cli.client.local_registry import needs_server_extra, opened, own_settings
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK
from drafter_cli.table import Column, print_table
from drafter_cli.terminal import write, write_json
from drafter_cli.words import moment, plural, seconds, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_registry.documents import GcReport
    from drafter_registry.service.backup import Backup
    from drafter_registry.service.context import Registry

COMMANDS = {
    "gc": Command(
        name="gc",
        summary="remove blobs that no version names",
        description=(
            "Removes blobs that no version names and uploads that nobody continues, both only after a grace period,\n"
            "and observations that are older than their retention (90 days, unless the settings say otherwise).\n"
            "Safe while servers run and drafters are published. --dry-run says what would go."
        ),
        options=(
            Option("--dry-run", "remove nothing"),
            Option("--grace", "keep what is younger, e.g. 24h, 7d; default: the setting gc_grace_seconds", "DURATION"),
            JSON,
            *LOCAL_OPTIONS,
        ),
        examples=(
            ("drafters gc --dry-run", "what would be removed"),
            ("drafters gc --grace 7d", "nightly, from a timer"),
        ),
    ),
    "fsck": Command(
        name="fsck",
        summary="hash every blob again and explain every row",
        description=(
            "Reads every stored byte again and compares it with its digest, and every row with what it refers to.\n"
            "Changes nothing. Exits with 7 if anything does not agree, and says for each what to do."
        ),
        options=(JSON, *LOCAL_OPTIONS),
        examples=(("drafters fsck --data /var/lib/drafters", "weekly, from a timer"),),
    ),
    "backup": Command(
        name="backup",
        summary="copy the registry to a directory while it runs",
        description=(
            "Copies all rows as of one moment, and every blob that a version names, to a new directory, verified,\n"
            "while servers go on. It appears whole or not at all, and only its owner can read it. No address of a\n"
            "database or store is in it: it can be restored anywhere."
        ),
        words=("DIR",),
        options=(JSON, *LOCAL_OPTIONS),
        examples=(("drafters backup /backup/drafters", "nightly; then copy that directory elsewhere"),),
    ),
    "restore": Command(
        name="restore",
        summary="make a registry from a backup",
        description=(
            "Makes a registry, or fills an empty one, from a backup of this release's schema, and verifies every\n"
            "digest. One that holds anything is left as it is. It need not be of the kind that the backup was made\n"
            "of: this is also how to move from SQLite to PostgreSQL, or from a directory to S3."
        ),
        words=("DIR",),
        options=(JSON, *LOCAL_OPTIONS),
        examples=(("drafters restore /backup/drafters --data /var/lib/drafters-new", "into a new directory"),),
    ),
}

#: A grace below which somebody may still be uploading what is removed, seconds. Nothing that is published is at risk.
_SHORT = 3600
_PROBLEMS = (
    Column("KIND"),
    Column("SUBJECT", shrinks=True),
    Column("WHAT", shrinks=True),
    Column("WHAT TO DO", shrinks=True),
)


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them."""
    actions = {"gc": _gc, "fsck": _fsck, "backup": _backup, "restore": _restore}
    with needs_server_extra(command.name):
        import sqlalchemy  # noqa: F401 - asked for first, so that its absence is told in words
    return actions[command.name](parsed)


def _gc(parsed: Parsed) -> int:
    grace = seconds("--grace", parsed.value("--grace")) if parsed.has("--grace") else None
    if grace is not None and grace < _SHORT and not parsed.has("--dry-run"):
        write("note: a publication that is under way now may have to start again", to_stderr=True)
    with opened("gc", parsed) as (registry, actor):
        from drafter_registry.service.collect import collect

        report = collect(_with_grace(registry, grace), actor, dry_run=parsed.has("--dry-run"))
    if parsed.has("--json"):
        write_json(report)
    else:
        write(_gc_text(report))
    return EXIT_OK


def _with_grace(registry: Registry, grace: int | None) -> Registry:
    if grace is None:
        return registry
    settings = msgspec.structs.replace(registry.settings, gc_grace_seconds=grace)
    return msgspec.structs.replace(registry, settings=settings)


def _gc_text(report: GcReport) -> str:
    verb = "would remove" if report.dry_run else "removed"
    parts = (
        f"{plural(len(report.blobs_removed), 'blob')} ({size(report.bytes_removed)})",
        plural(report.uploads_removed, "unfinished upload"),
        f"{plural(len(report.orphans_removed), 'object')} without a row",
        f"{plural(report.observations_removed, 'old observation')}",
    )
    lines = [
        f"{verb} {', '.join(parts)}",
        f"kept {plural(report.blobs_live, 'blob')} in use and {report.blobs_kept_young} too young to remove",
    ]
    return "\n".join([*lines, *(f"  {digest}" for digest in (*report.blobs_removed, *report.orphans_removed))])


def _fsck(parsed: Parsed) -> int:
    with opened("fsck", parsed) as (registry, actor):
        from drafter_registry.service.scrub import scrub

        report = scrub(registry, actor)
    if parsed.has("--json"):
        document = msgspec.to_builtins(report)
        write_json(document | {"problems": report.problems, "ok": not report.problems})
    else:
        if report.problems:
            print_table(_PROBLEMS, [(one.kind, one.subject, one.detail, one.remedy) for one in report.problems])
        write(
            f"{plural(report.versions, 'version')}, {plural(report.blobs, 'blob')}, {size(report.bytes_hashed)} "
            f"hashed: {plural(len(report.problems), 'problem') if report.problems else 'everything agrees'}",
            to_stderr=bool(report.problems),
        )
    return EXIT_INTEGRITY if report.problems else EXIT_OK


def _backup(parsed: Parsed) -> int:
    directory = os.path.abspath(parsed.word(0))
    with opened("backup", parsed) as (registry, actor):
        from drafter_registry.service.backup import backup

        made = backup(registry, actor, directory)
    if parsed.has("--json"):
        write_json({"directory": directory, "backup": made})
    else:
        write(f"{_contents(made)} are in {directory}", to_stderr=True)
        write(f"  drafters restore {directory} --data DIR makes a registry of it", to_stderr=True)
    return EXIT_OK


def _restore(parsed: Parsed) -> int:
    directory = os.path.abspath(parsed.word(0))
    settings = own_settings("restore", parsed)
    from drafter_registry.service.backup import restore

    made = restore(settings, directory)
    if parsed.has("--json"):
        write_json({"directory": directory, "backup": made})
    else:
        write(f"{_contents(made)} of {moment(made.made_at)} are restored", to_stderr=True)
    return EXIT_OK


def _contents(made: Backup) -> str:
    rows = sum(table.rows for table in made.tables.values())
    return f"{plural(rows, 'row')} and {plural(made.blobs, 'blob')} ({size(made.bytes)})"
