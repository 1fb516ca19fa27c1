"""`drafters acceptance add | list | history | rm`: what a version is promised to be accepted, and what is seen."""

from __future__ import annotations

from contextlib import closing

import msgspec

from drafter_cli.client.connect import OPTIONS, connect
from drafter_cli.client.paging import PAGING, Paging
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.table import Column, print_table
from drafter_cli.terminal import write, write_json
from drafter_cli.words import moment, plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_contracts.manifest_records import Acceptance
    from drafter_registry.acceptance_documents import KnownAcceptance, SeenHour

_NUMBERS = (
    Option("--length", "mean tokens per verify step, the target's own token included", "X"),
    Option("--positions", "share of steps with at least the 1st, 2nd, ... drafted token accepted", "X,X,..."),
    Option("--steps", "--speculative-num-steps in force", "N"),
    Option("--topk", "--speculative-eagle-topk", "N"),
    Option("--draft-tokens", "--speculative-num-draft-tokens", "N"),
    Option("--temperature", "sampling temperature; 0 is greedy", "X"),
    Option("--tokens", "tokens generated and counted", "N"),
    Option("--verify-steps", "verify steps counted", "N"),
)
_TEXTS = (
    Option("--engine", "engine and version", "TEXT"),
    Option("--dataset", "what was generated: a dataset or a workload", "TEXT"),
    Option("--target-revision", "commit of the target's repository", "COMMIT"),
    Option("--target-dtype", "dtype in which the target ran", "DTYPE"),
    Option("--target-quantization", "its quantisation", "TEXT"),
    Option("--date", "when, ISO 8601", "DATE"),
    Option("--measured", "how", "HOW", choices=("engine", "benchmark", "teacher-forced")),
    Option("--notes", "hardware, anything else", "TEXT"),
)
_FLOATS = ("--length", "--temperature")

COMMANDS = {
    "acceptance add": Command(
        name="acceptance add",
        summary="attach a measured acceptance to a stored version",
        description=(
            "Attaches what was measured after a version was published; the version itself stays as it is, byte for\n"
            "byte. The more conditions are told, the better it is known later which promise counts for an engine.\n"
            "The same acceptance again changes nothing. Needs the scope publish for that name. Prints the digest of\n"
            "each acceptance."
        ),
        words=("REF",),
        options=(
            Option("--file", "one acceptance or a list of them, as evaluate --acceptance writes one", "FILE"),
            *_NUMBERS,
            *_TEXTS,
            JSON,
            *OPTIONS,
        ),
        examples=(
            (
                "drafters acceptance add kimi-k2.5-eagle3@1.1.0 --length 3.1 --engine 'sglang 0.5.23' --draft-tokens 4",
                "what a benchmark on an engine gave",
            ),
            ("drafters acceptance add kimi-k2.5-eagle3@prod --file acceptance.json", "what evaluate wrote"),
        ),
    ),
    "acceptance list": Command(
        name="acceptance list",
        summary="what a version is promised to be accepted, and by whom",
        description="Lists the acceptances of a version: those of its manifest, and those attached to it later.",
        words=("REF",),
        options=(JSON, *OPTIONS),
        examples=(("drafters acceptance list kimi-k2.5-eagle3@prod", "what production is held to"),),
    ),
    "acceptance history": Command(
        name="acceptance history",
        summary="what engines were seen to accept, hour by hour",
        description=(
            "Lists what drafters observe reported, newest hour first: one line for each engine instance, hour and\n"
            "conditions. drafters show draws it."
        ),
        words=("REF",),
        options=(
            Option("--since", "hours that begin then or later", "MOMENT"),
            Option("--until", "hours that begin before then", "MOMENT"),
            *PAGING,
            JSON,
            *OPTIONS,
        ),
        examples=(
            (
                "drafters acceptance history kimi-k2.5-eagle3@prod --since 2026-11-29T00:00:00Z",
                "since when is it slow?",
            ),
        ),
    ),
    "acceptance rm": Command(
        name="acceptance rm",
        summary="take an attached acceptance away",
        description=(
            "Takes an attached acceptance away, by its digest or the beginning of it, as acceptance list shows it.\n"
            "One of the version's own manifest stays: the version never changes. Needs the scope admin."
        ),
        words=("REF", "DIGEST"),
        options=(JSON, *OPTIONS),
        examples=(("drafters acceptance rm kimi-k2.5-eagle3@1.1.0 9f2c41d07ab3", "a wrong one"),),
    ),
}

_PROMISES = (
    Column("LENGTH", right=True),
    Column("STEPS"),
    Column("ENGINE", shrinks=True),
    Column("WORKLOAD", shrinks=True),
    Column("TARGET", shrinks=True, leaves=3),
    Column("HOW", leaves=2),
    Column("DATE", leaves=1),
    Column("FROM", shrinks=True),
    Column("DIGEST"),
)
_HOURS = (
    Column("HOUR"),
    Column("INSTANCE", shrinks=True),
    Column("ENGINE"),
    Column("STEPS"),
    Column("TARGET", shrinks=True, leaves=1),
    Column("LENGTH", right=True),
    Column("LOWEST", right=True),
    Column("HIGHEST", right=True),
    Column("READINGS", right=True),
    Column("VERIFIED", right=True, leaves=2),
)
_DIGITS = 12


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them.

    Raises:
        UsageError: Options that say nothing, or too much.
        EvidenceError: A file without an acceptance.
        RegistryError: There is no such version, or the token may not.
    """
    from drafter_registry.names import read_reference

    read_reference(parsed.word(0))
    if command.name == "acceptance add":
        stated = _stated(parsed)
        with closing(connect(parsed)) as registry:
            _add(registry, parsed, stated)
        return EXIT_OK
    actions = {"acceptance list": _list, "acceptance history": _history, "acceptance rm": _remove}
    with closing(connect(parsed)) as registry:
        actions[command.name](registry, parsed)
    return EXIT_OK


def _stated(parsed: Parsed) -> tuple[Acceptance, ...]:
    """What the command line states, before a registry is opened."""
    single = [option.name for option in (*_NUMBERS, *_TEXTS) if parsed.has(option.name)]
    if parsed.has("--file"):
        if single:
            raise UsageError(f"--file and {single[0]} state the same thing", "give one of them")
        from drafter_cli.publishing.acceptance import read_file

        return read_file(parsed.value("--file"))
    if not parsed.has("--length"):
        raise UsageError("acceptance add needs --length or --file", "tokens per verify step: --length 2.7")
    from drafter_contracts.manifest_records import Acceptance

    fields = {name.removeprefix("--").replace("-", "_"): _value(name, parsed.value(name)) for name in single}
    try:
        return (msgspec.convert(fields, Acceptance),)
    except msgspec.ValidationError as error:
        raise UsageError(f"no acceptance: {error}", "a length is 1 or more, counts are whole, rates 0 to 1") from None


def _value(name: str, text: str) -> object:
    if name in {option.name for option in _TEXTS}:
        return text
    try:
        if name == "--positions":
            return tuple(float(part) for part in text.split(","))
        return float(text) if name in _FLOATS else int(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}", "write a number, for example 2.7 (a count is whole)") from None


def _add(registry: Backend, parsed: Parsed, stated: tuple[Acceptance, ...]) -> None:
    added = [registry.add_acceptance(parsed.word(0), acceptance) for acceptance in stated]
    if parsed.has("--json"):
        write_json({"items": added})
        return
    for one in added:
        where = "in its manifest" if one.item.source == "manifest" else "attached"
        known = "" if one.created else " already"
        promise = f"{one.item.acceptance.length:g} tokens per step"
        write(f"{promise}: {where}{known}, to {one.name}@{one.version}", to_stderr=True)
        write(one.item.digest)


def _list(registry: Backend, parsed: Parsed) -> None:
    found = registry.acceptances(parsed.word(0))
    if parsed.has("--json"):
        write_json(found)
        return
    if not found.items:
        write(f"nothing is promised of {found.name}@{found.version}", to_stderr=True)
        write(f"  drafters acceptance add {found.name}@{found.version} --length X ...", to_stderr=True)
        return
    print_table(_PROMISES, [_promise(one) for one in found.items])


def _promise(known: KnownAcceptance) -> tuple[str, ...]:
    told = known.acceptance
    source = "its manifest" if known.source == "manifest" else f"{known.by}, {known.at[:10]}"
    target = (told.target_revision[:_DIGITS], told.target_dtype, told.target_quantization)
    workload = (told.dataset, "" if told.temperature is None else f"temperature {told.temperature:g}")
    return (
        f"{told.length:.2f}",
        speculation(told.steps, told.topk, told.draft_tokens),
        told.engine,
        ", ".join(filter(None, workload)),
        " ".join(filter(None, target)),
        told.measured,
        told.date[:10],
        source,
        known.digest.removeprefix("sha256:")[:_DIGITS],
    )


def speculation(steps: int | None, topk: int | None, draft_tokens: int | None) -> str:
    """The three numbers of a speculation as one word: "3/1/4"; "" if none is known."""
    if steps is None and topk is None and draft_tokens is None:
        return ""
    return "/".join("-" if number is None else str(number) for number in (steps, topk, draft_tokens))


def _history(registry: Backend, parsed: Parsed) -> None:
    paging, since, until = Paging.of(parsed), parsed.value("--since"), parsed.value("--until")

    def page(cursor: str) -> tuple[tuple[SeenHour, ...], str]:
        answer = registry.history(parsed.word(0), since=since, until=until, cursor=cursor, limit=paging.limit)
        return answer.items, answer.next

    items, more = paging.collect(page)
    if parsed.has("--json"):
        write_json({"items": items, "next": more})
        return
    if items:
        print_table(_HOURS, [_hour(one) for one in items])
    else:
        write(f"nothing was seen of {parsed.word(0)}: drafters observe reports it", to_stderr=True)
    paging.tell(more)


def _hour(one: SeenHour) -> tuple[str, ...]:
    seen, under = one.observation, one.observation.conditions
    return (
        moment(seen.hour),
        seen.instance,
        f"{under.engine} {under.release}".strip(),
        speculation(under.steps, under.topk, under.draft_tokens),
        under.target_revision[:_DIGITS],
        f"{seen.length:.2f}",
        f"{seen.lowest:.2f}",
        f"{seen.highest:.2f}",
        str(seen.readings),
        "" if seen.verify_steps is None else str(seen.verify_steps),
    )


def _remove(registry: Backend, parsed: Parsed) -> None:
    reference, beginning = parsed.word(0), parsed.word(1).removeprefix("sha256:")
    attached = [one for one in registry.acceptances(reference).items if one.source == "attached"]
    fitting = [one for one in attached if beginning and one.digest.removeprefix("sha256:").startswith(beginning)]
    if len(fitting) != 1:
        count = plural(len(fitting), "attached acceptance") + f" of {reference}"
        raise UsageError(f"{parsed.word(1)} begins the digest of {count}", f"drafters acceptance list {reference}")
    registry.remove_acceptance(reference, fitting[0].digest)
    if parsed.has("--json"):
        write_json({"reference": reference, "digest": fitting[0].digest, "removed": True})
    else:
        write(f"{fitting[0].digest} is removed", to_stderr=True)
