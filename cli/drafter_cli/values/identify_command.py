"""`drafters identify`: which layers recorded states really hold, told by their numbers."""

from __future__ import annotations

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_UNKNOWN, UsageError
from drafter_cli.gate_options import numbers
from drafter_cli.terminal import printable, write, write_json
from drafter_cli.values.identify_view import lines
from drafter_cli.values.identifying import MOST, Wanted, identify_files
from drafter_cli.values.need import require_plots, require_tensors
from drafter_cli.values.reference_of import OPTIONS as REFERENCE
from drafter_cli.values.reference_of import reference_of
from drafter_cli.values.whole_file import check_output, replace_file
from drafter_cli.words import number
from drafter_contracts.evidence.labels import BOUNDARIES, OUTPUT_IDS, Labels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.evidence.documents import Identification

COMMANDS = {
    "identify": Command(
        name="identify",
        summary="which layers recorded states really hold, told by their numbers",
        description=(
            "Runs the target on the samples' tokens and compares every recorded state with the state at every\n"
            "boundary and after the final norm. A state is identified when it equals one of them within what the\n"
            "dtypes explain, and no other comes near; else it is unknown, never the nearest. All samples must agree.\n"
            "Labels beside the data, and the layers that --output-ids or --boundaries state, are held against what is\n"
            "found. Exits with 0 if every state is identified, 5 if any is unknown, shifted or in another basis, 7 if\n"
            "labels or the stated layers contradict the numbers. Needs the extra `values`."
        ),
        words=("SAMPLE", "[SAMPLE...]"),
        options=(
            *REFERENCE,
            Option("--output-ids", "the layers that were meant, as output ids in concatenation order", "LIST"),
            Option("--boundaries", "the same as boundaries", "LIST"),
            Option("--last-is-tap", "the last recorded state feeds fc, also if it is the target's last one"),
            Option("--entry", "which sample of a file or folder that holds several", "NAME"),
            Option("--most", f"compare so many samples at most; default: {MOST}", "N"),
            Option("--output", "write the document of evidence there", "FILE", short="-o"),
            Option("--plot", "draw the error of every state against every boundary: .png or .svg", "FILE"),
            JSON,
        ),
        examples=(
            ("drafters identify data_0.ckpt --target ./Kimi-K2.5 -o identify.json", "tell, and keep the evidence"),
            ("drafters identify ./dump --reference capture.safetensors --output-ids 2,30,58", "is it what was meant?"),
        ),
    ),
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Identify; see the description."""
    require_tensors()
    if parsed.has("--plot"):
        require_plots()
        from drafter_cli.values.plots import check_name

        check_name(parsed.value("--plot"))
    for name in ("--output", "--plot"):
        if parsed.has(name):
            check_output(parsed.value(name), *parsed.words, *parsed.many("--reference"))
    document = identify_files(parsed.words, reference_of(parsed), _wanted(parsed))
    _keep(parsed, document)
    if parsed.has("--json"):
        write_json(document)
    else:
        write("\n".join(map(printable, lines(document))))
    if document.contradictions:
        return EXIT_INTEGRITY
    return EXIT_OK if document.verdict == "identified" else EXIT_UNKNOWN


def _wanted(parsed: Parsed) -> Wanted:
    return Wanted(
        entry=parsed.value("--entry"),
        most=number("--most", parsed.value("--most")) if parsed.has("--most") else MOST,
        last_is_tap=parsed.has("--last-is-tap"),
        stated=_stated(parsed),
    )


def _stated(parsed: Parsed) -> tuple[Labels, ...]:
    names = {"--output-ids": OUTPUT_IDS, "--boundaries": BOUNDARIES}
    given = [name for name in names if parsed.has(name)]
    if len(given) > 1:
        raise UsageError("--boundaries and --output-ids state the same thing", "give one of them")
    return tuple(
        Labels(
            ids=numbers(name, parsed.value(name)),
            source=f"{name} {parsed.value(name)}",
            numbering=names[name],
        )
        for name in given
    )


def _keep(parsed: Parsed, document: Identification) -> None:
    if parsed.has("--output"):
        from drafter_contracts.evidence.documents import encode

        replace_file(parsed.value("--output"), encode(document))
        write(f"{parsed.value('--output')}: written", to_stderr=True)
    if parsed.has("--plot"):
        from drafter_cli.values.plots import draw_identification

        draw_identification(document, parsed.value("--plot"))
        write(f"{parsed.value('--plot')}: drawn", to_stderr=True)
