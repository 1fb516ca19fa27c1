"""`drafters yank | delete`: versions that nobody shall use any more."""

from __future__ import annotations

import sys
from contextlib import closing

from drafter_cli.client.connect import OPTIONS, connect
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.terminal import write, write_json

COMMANDS = {
    "yank": Command(
        name="yank",
        summary="stop resolving a version, but by its exact name",
        description=(
            "A yanked version is still there: who names it exactly gets it and is told why it was yanked; no alias\n"
            "and no digest resolves to it. --undo takes that back."
        ),
        words=("NAME@VERSION",),
        options=(
            Option("--why", "the reason, told to everybody who resolves it", "TEXT"),
            Option("--undo", "make it an ordinary version again"),
            JSON,
            *OPTIONS,
        ),
        examples=(
            ("drafters yank kimi-k2.5-eagle3@1.0.0 --why 'trained on boundaries 0, 3, 31'", "take it out of use"),
            ("drafters yank kimi-k2.5-eagle3@1.0.0 --undo --why 'the label was wrong'", "put it back"),
        ),
    ),
    "delete": Command(
        name="delete",
        summary="remove a version for ever; its name cannot be used again",
        description=(
            "Removes a version and, with the next gc, the bytes that no other version names. This cannot be undone,\n"
            "and NAME@VERSION can never be published again: yank is nearly always better. On a terminal the name must\n"
            "be typed; anywhere else --yes is needed."
        ),
        words=("NAME@VERSION",),
        options=(
            Option("--why", "the reason, kept in the audit log", "TEXT"),
            Option("--yes", "do not ask"),
            JSON,
            *OPTIONS,
        ),
        examples=(("drafters delete kimi-k2.5-eagle3@0.9.0 --why 'holds customer data' --yes", "in a script"),),
    ),
}


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them.

    Raises:
        UsageError: No reason, or nobody confirmed.
        RegistryError: No such version, or one that cannot be yanked or deleted.
    """
    name, version = _name_and_version(parsed.word(0))
    why = parsed.value("--why").strip()
    undo = parsed.has("--undo")
    if not why and not undo:
        raise UsageError(f"{command.name} needs --why", "say why: whoever finds the version gone will ask")
    if command.name == "delete":
        _confirm(f"{name}@{version}", parsed)
    pointing: tuple[str, ...] = ()
    with closing(connect(parsed)) as registry:
        if command.name == "yank":
            registry.yank(name, version, why=why, undo=undo)
            state = "live" if undo else "yanked"
            pointing = () if undo or parsed.has("--json") else registry.show(f"{name}@{version}").summary.aliases
        else:
            registry.delete(name, version, why=why)
            state = "deleted"
    if parsed.has("--json"):
        write_json({"name": name, "version": version, "state": state, "why": why})
    else:
        write(f"{name}@{version} is {state}", to_stderr=True)
        for alias in pointing:
            write(f"warning: {name}@{alias} points to it and resolves no more", to_stderr=True)
            write(f"  drafters alias set {name}@{alias} VERSION", to_stderr=True)
    return EXIT_OK


def _name_and_version(text: str) -> tuple[str, str]:
    from drafter_registry.names import read_reference

    reference = read_reference(text)
    if not reference.version:
        raise UsageError(
            f"{text} names no version exactly", f"give {reference.name}@VERSION: what is meant must not move meanwhile"
        )
    return reference.name, reference.version


def _confirm(what: str, parsed: Parsed) -> None:
    if parsed.has("--yes"):
        return
    if parsed.has("--json") or not _asks():
        raise UsageError(f"deleting {what} cannot be undone", "repeat it with --yes if that is meant")
    write(f"Deleting {what} cannot be undone, and the name can never be used again. Type it to go on:", to_stderr=True)
    if sys.stdin.readline().strip() != what:
        raise UsageError(f"{what} was not typed: nothing is deleted", f"drafters yank {what} --why TEXT can be undone")


def _asks() -> bool:
    """Whether somebody is there to answer."""
    try:
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False
