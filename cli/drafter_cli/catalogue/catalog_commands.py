"""`drafters list | show | diff`: what is stored."""

from __future__ import annotations

import sys
from contextlib import closing

from drafter_cli.client.connect import OPTIONS, connect
from drafter_cli.client.paging import PAGING, Paging
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED, OutputError, UsageError
from drafter_cli.table import output_width, print_table
from drafter_cli.terminal import Style, colours, draws_unicode, write, write_json
from drafter_cli.words import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_registry.acceptance_documents import SeenHour
    from drafter_registry.documents import VersionDocument, VersionSummary

_FILTERS = ("name", "target", "architecture", "method", "alias", "fingerprint", "state")
#: Pages of a history that `show` draws, the newest ones.
_DRAWN_PAGES = 4

COMMANDS = {
    "list": Command(
        name="list",
        summary="the stored drafters, searched",
        description=(
            "Lists versions, the latest published first; every filter that is given must fit, and names and targets\n"
            "may have a * for anything. One page is listed, with --all all of them; on a terminal the columns that\n"
            "do not fit are left out."
        ),
        options=(
            Option("--name", "of this drafter, e.g. kimi-*", "NAME"),
            Option("--target", "for this target, e.g. moonshotai/Kimi-K2.5", "ID"),
            Option("--architecture", "for targets of this class", "CLASS"),
            Option("--method", "of this method", "METHOD"),
            Option("--alias", "that this alias points to", "ALIAS"),
            Option("--boundary", "that capture all of these boundaries, e.g. 3,31,59", "LIST"),
            Option("--output-id", "that capture the outputs of all of these layers, e.g. 2,30,58", "LIST"),
            Option("--fingerprint", "with this contract", "DIGEST"),
            Option("--state", "in this state; default: live", "STATE", choices=("live", "yanked", "deleted", "all")),
            *PAGING,
            JSON,
            *OPTIONS,
        ),
        examples=(
            ("drafters list --target moonshotai/Kimi-K2.5 --method EAGLE3", "what there is for a target"),
            ("drafters list --output-id 58 --all --json", "everything that reads the output of layer 58"),
        ),
    ),
    "show": Command(
        name="show",
        summary="one stored version: its manifest, files, aliases, state",
        description=(
            "Shows one version: what it captures in both numberings and in which order, how that is known, its\n"
            "target, files and aliases, who published it, and why it was yanked; what was measured since, and drawn\n"
            "by hours or days what engines were seen to accept. --manifest prints the stored manifest byte for byte,\n"
            "after its digest was verified."
        ),
        words=("REF",),
        options=(Option("--manifest", "print the manifest's own bytes and nothing else"), JSON, *OPTIONS),
        examples=(
            ("drafters show kimi-k2.5-eagle3@prod", "what is in production"),
            ("drafters show kimi-k2.5-eagle3@1.0.0 --manifest | sha256sum", "the version's identity"),
        ),
    ),
    "diff": Command(
        name="diff",
        summary="what changed between two versions, in words",
        description=(
            "Compares two versions of one drafter and says what each difference means to whoever serves it.\n"
            "With --exit-code the answer is the exit code too: 0 for the same contract, 3 for another one."
        ),
        words=("NAME_OR_REF", "VERSION_OR_REF", "[VERSION]"),
        options=(Option("--exit-code", "exit with 3 if the contract differs"), JSON, *OPTIONS),
        examples=(
            ("drafters diff kimi-k2.5-eagle3 1.0.0 1.1.0", "two versions"),
            ("drafters diff kimi-k2.5-eagle3@prod kimi-k2.5-eagle3@canary --exit-code", "two aliases, in a script"),
        ),
    ),
}


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them."""
    actions = {"list": _list, "show": _show, "diff": _diff}
    _check(command, parsed)
    with closing(connect(parsed)) as registry:
        return actions[command.name](registry, parsed)


def _check(command: Command, parsed: Parsed) -> None:
    """What is wrong with the command line is said before a registry is opened."""
    if command.name == "list":
        _query(parsed)
        Paging.of(parsed)
    elif command.name == "show":
        _show_options(parsed)
    else:
        _sides(parsed)


def _query(parsed: Parsed) -> dict[str, str]:
    query = {name: parsed.value(f"--{name}") for name in _FILTERS if parsed.value(f"--{name}")}
    boundaries = [*_numbers(parsed, "--boundary", 0), *(one + 1 for one in _numbers(parsed, "--output-id", -1))]
    return query | {"boundary": ",".join(map(str, boundaries))} if boundaries else query


def _numbers(parsed: Parsed, option: str, least: int) -> list[int]:
    if not parsed.has(option):
        return []
    return [number(option, part.strip(), least=least) for part in parsed.value(option).split(",")]


def _list(registry: Backend, parsed: Parsed) -> int:
    query, paging = _query(parsed), Paging.of(parsed)

    def page(cursor: str) -> tuple[tuple[VersionSummary, ...], str]:
        answer = registry.list_versions(query | paging.query(cursor))
        return answer.items, answer.next

    items, more = paging.collect(page)
    if parsed.has("--json"):
        write_json({"items": items, "next": more})
        return EXIT_OK
    from drafter_cli.catalogue.version_view import COLUMNS, row

    if items:
        print_table(COLUMNS, [row(one) for one in items])
    else:
        write(f"no version fits{' in' if query else ': nothing is published in'} {registry.name}", to_stderr=True)
        hint = "leave out a filter" if query else "drafters publish DIR --name NAME --version VERSION --target ID"
        write(f"  {hint}", to_stderr=True)
    paging.tell(more)
    return EXIT_OK


def _show_options(parsed: Parsed) -> None:
    if parsed.has("--manifest") and parsed.has("--json"):
        raise UsageError("--manifest and --json exclude each other", "the manifest is JSON as it is stored")
    from drafter_registry.names import read_reference

    read_reference(parsed.word(0))


def _show(registry: Backend, parsed: Parsed) -> int:
    if parsed.has("--manifest"):
        _write_manifest(registry, parsed.word(0))
        return EXIT_OK
    document = registry.show(parsed.word(0))
    if parsed.has("--json"):
        write_json(document)
        return EXIT_OK
    from drafter_cli.catalogue.version_view import render

    style, width = Style(on=colours(sys.stdout)), output_width()
    later = _later(registry, document, style, width)
    write(render(document, style=style, width=width) + later)
    return EXIT_OK


def _later(registry: Backend, document: VersionDocument, style: Style, width: int) -> str:
    """What was measured and seen since the version was published; nothing if the server is older than that."""
    from drafter_cli.catalogue.seen_view import render
    from drafter_registry import limits
    from drafter_registry.errors import NotFoundError

    exact = f"{document.summary.name}@{document.summary.version}"
    seen: tuple[SeenHour, ...] = ()
    cursor = ""
    try:
        attached = registry.acceptances(exact).items
        for _ in range(_DRAWN_PAGES):
            page = registry.history(exact, cursor=cursor, limit=limits.page_max_items)
            seen, cursor = seen + page.items, page.next
            if not cursor:
                break
    except NotFoundError:
        return ""
    found = render(attached, seen, style=style, width=width, unicode=draws_unicode(sys.stdout))
    return f"\n{found}" if found else ""


def _write_manifest(registry: Backend, reference: str) -> None:
    """The manifest's bytes without an added line end: their sha256 is the version's identity."""
    from hashlib import sha256

    from drafter_registry.errors import IntegrityError

    data, digest = registry.manifest(reference)
    found = "sha256:" + sha256(data).hexdigest()
    if found != digest:
        raise IntegrityError(
            f"the manifest of {reference} has the digest {found}, and its identity is {digest}",
            hint="drafters fsck on the registry's machine says what is damaged",
        )
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        return
    except OSError as error:
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def _sides(parsed: Parsed) -> tuple[str, str, str]:
    """Name and the two sides of a comparison.

    Raises:
        UsageError: Two references to different drafters, or something between the two forms.
        InvalidError: A reference that is none.
    """
    from drafter_registry.names import check_name, read_reference

    first, second, third = parsed.word(0), parsed.word(1), parsed.word(2)
    if third:
        return check_name(first), second, third
    before, after = read_reference(first), read_reference(second)
    if before.name != after.name:
        raise UsageError(
            f"{before.name} and {after.name} are two drafters",
            "two versions of one drafter are compared; drafters show --manifest prints each as JSON",
        )
    sides = [one.version or one.alias or one.digest for one in (before, after)]
    return before.name, sides[0], sides[1]


def _diff(registry: Backend, parsed: Parsed) -> int:
    difference = registry.diff(*_sides(parsed))
    if parsed.has("--json"):
        write_json(difference)
    else:
        from drafter_cli.catalogue.version_view import render_difference

        write(render_difference(difference, style=Style(on=colours(sys.stdout)), width=output_width()))
    return EXIT_REFUSED if parsed.has("--exit-code") and not difference.same_contract else EXIT_OK
