"""`drafters alias set | rm | history`: names that move from version to version."""

from __future__ import annotations

from contextlib import closing

from drafter_cli.client.connect import OPTIONS, connect
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.table import Column, print_table
from drafter_cli.terminal import printable, write, write_json
from drafter_cli.words import moment, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend

_EXPECT = (
    Option("--expect", "move only if it points there now; none: only if there is no such alias", "VERSION|none"),
    Option("--expect-revision", "move only if this is its last move (0: there is none)", "N"),
)
_WHY = Option("--why", "kept in its history", "TEXT")

COMMANDS = {
    "alias set": Command(
        name="alias set",
        summary="move an alias to a version",
        description=(
            "Moves an alias, or makes it. With --expect or --expect-revision it is a compare-and-swap: if somebody\n"
            "else was there first, nothing moves and the exit code is 8. Every move is kept with who, when and why.\n"
            "A move to another contract (other layers, another target) is made, with a warning."
        ),
        words=("NAME@ALIAS", "VERSION"),
        options=(*_EXPECT, _WHY, JSON, *OPTIONS),
        examples=(
            ("drafters alias set kimi-k2.5-eagle3@prod 1.1.0 --expect 1.0.0 --why 'canary was fine'", "promote"),
            ("drafters alias set kimi-k2.5-eagle3@canary 1.1.0 --expect none", "make a new one"),
        ),
    ),
    "alias rm": Command(
        name="alias rm",
        summary="remove an alias",
        description="Removes an alias; its history stays, and the versions that it pointed to are not touched.",
        words=("NAME@ALIAS",),
        options=(*_EXPECT, _WHY, JSON, *OPTIONS),
        examples=(("drafters alias rm kimi-k2.5-eagle3@canary --why 'promoted'", "take it away"),),
    ),
    "alias history": Command(
        name="alias history",
        summary="every move of an alias: who, when, from, to, why",
        description=(
            "Lists every move of an alias, newest first, of one that was removed too: with the state, the captured\n"
            "boundaries and the contract of the version that it was moved to."
        ),
        words=("NAME@ALIAS",),
        options=(JSON, *OPTIONS),
        examples=(("drafters alias history kimi-k2.5-eagle3@prod", "what was in production, and when"),),
    ),
}

_COLUMNS = (
    Column("REVISION", right=True),
    Column("WHEN"),
    Column("WHO", shrinks=True),
    Column("FROM"),
    Column("TO"),
    Column("STATE"),
    Column("BOUNDARIES"),
    Column("CONTRACT"),
    Column("WHY", shrinks=True),
)


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them."""
    name, alias = _name_and_alias(parsed.word(0))
    expected = _Expected(parsed)
    action = {"set": _set, "rm": _remove, "history": _history}[command.name.partition(" ")[2]]
    if command.name == "alias set":
        from drafter_registry.names import check_version

        check_version(parsed.word(1))
    with closing(connect(parsed)) as registry:
        action(registry, parsed, name, alias, expected)
    return EXIT_OK


def _name_and_alias(text: str) -> tuple[str, str]:
    from drafter_registry.names import read_reference

    reference = read_reference(text)
    if not reference.alias:
        raise UsageError(f"{text} names no alias", f"an alias begins with a letter: {reference.name}@prod")
    return reference.name, reference.alias


class _Expected:
    """What the caller believes of the alias.

    Args:
        parsed: The command line.

    Raises:
        UsageError: Two beliefs, or a revision that is no number.
    """

    def __init__(self, parsed: Parsed) -> None:
        self.version = parsed.value("--expect")
        self.revision: int | None = None
        if parsed.has("--expect-revision"):
            if self.version:
                raise UsageError("--expect and --expect-revision exclude each other", "give one of the two")
            self.revision = number("--expect-revision", parsed.value("--expect-revision"), least=0)
        elif self.version == "none":
            self.revision = 0
        elif self.version:
            from drafter_registry.names import check_version

            check_version(self.version)

    def resolve(self, registry: Backend, name: str, alias: str) -> int | None:
        """The revision that the alias must have; None for any.

        Raises:
            MovedError: It does not point to the version that was expected.
        """
        if self.revision is not None or not self.version:
            return self.revision
        from drafter_registry.errors import MovedError, NotFoundError

        try:
            state = registry.alias(name, alias)
        except NotFoundError:
            there = ""
        else:
            if state.version == self.version:
                return state.revision
            there = f"{state.version} since {moment(state.at)}, by {state.by}"
        actual = f"it points to {there}" if there else "there is no such alias"
        raise MovedError(
            f"{name}@{alias} was expected at {self.version}, but {actual}",
            hint=f"drafters alias history {name}@{alias} says who moved it",
        )


def _set(registry: Backend, parsed: Parsed, name: str, alias: str, expected: _Expected) -> None:
    revision = expected.resolve(registry, name, alias)
    state = registry.set_alias(name, alias, parsed.word(1), expected=revision, why=parsed.value("--why"))
    if parsed.has("--json"):
        write_json(state)
        return
    write(f"{state.name}@{state.alias} points to {state.version} (revision {state.revision})", to_stderr=True)
    moves = registry.alias_history(name, alias).items
    before = next((move.from_version for move in moves if move.revision == state.revision), "")
    tell_another_contract(registry, name, before, state.version)


def tell_another_contract(registry: Backend, name: str, before: str, after: str) -> None:
    """Warn if an alias that has just moved feeds its launches by another contract from now on.

    Args:
        registry: The registry.
        name: The drafter.
        before: Where the alias pointed, "" if there was none.
        after: Where it points.
    """
    from drafter_registry.errors import NotFoundError

    if before in ("", after):
        return
    try:
        difference = registry.diff(name, before, after)
    except NotFoundError:  # the version before was deleted meanwhile
        return
    if not difference.same_contract:
        fields = ", ".join(change.field for change in difference.changes if change.contract)
        write(f"warning: {after} has another contract than {before}: {fields}", to_stderr=True)
        write(f"  drafters diff {name} {before} {after}", to_stderr=True)


def _remove(registry: Backend, parsed: Parsed, name: str, alias: str, expected: _Expected) -> None:
    revision = expected.resolve(registry, name, alias)
    registry.remove_alias(name, alias, expected=revision, why=parsed.value("--why"))
    if parsed.has("--json"):
        write_json({"name": name, "alias": alias, "removed": True})
        return
    write(f"{name}@{alias} is removed", to_stderr=True)


def _history(registry: Backend, parsed: Parsed, name: str, alias: str, expected: _Expected) -> None:
    del expected
    history = registry.alias_history(name, alias)
    if parsed.has("--json"):
        write_json({"items": history.items})
        return
    known = _known(registry, name)
    rows = [
        (
            str(move.revision),
            moment(move.at),
            move.by,
            move.from_version or "(made)",
            move.to_version or "(removed)",
            *known.get(move.to_version, ("", "", "")),
            printable(move.why),
        )
        for move in history.items
    ]
    print_table(_COLUMNS, rows)


def _known(registry: Backend, name: str) -> dict[str, tuple[str, str, str]]:
    """Version to its state if it is not live, its boundaries and its contract, as `drafters list` shows them.

    Of the latest versions only: who asks why a server became slow compares these.
    """
    from drafter_cli.catalogue.version_view import short
    from drafter_registry import limits

    query = {"name": name, "state": "all", "limit": str(limits.page_max_items)}
    return {
        one.version: (
            "" if one.state == "live" else one.state,
            ",".join(map(str, one.boundaries)),
            short(one.fingerprint),
        )
        for one in registry.list_versions(query).items
    }
