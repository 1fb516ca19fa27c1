"""`drafters evaluate`: how often a drafter's tokens would be accepted, under the stated layout and under others."""

from __future__ import annotations

import os

import msgspec

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_REFUSED, EXIT_UNKNOWN
from drafter_cli.terminal import printable, write, write_json
from drafter_cli.values.need import require_plots, require_tensors
from drafter_cli.values.reference_of import OPTIONS as REFERENCE
from drafter_cli.values.reference_of import reference_of
from drafter_cli.values.whole_file import check_output, replace_file
from drafter_cli.words import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.values.evaluate_inputs import Evaluated, Layouts
    from drafter_cli.values.evaluate_samples import Source
    from drafter_contracts.evidence.documents import Evaluation
    from drafter_contracts.values.drafting import Drafter

COMMANDS = {
    "evaluate": Command(
        name="evaluate",
        summary="acceptance on recorded states: is the stated layout the best one?",
        description=(
            "Runs the drafter (EAGLE-3 or DFLASH, in plain torch) on the target's states for the samples' tokens, and\n"
            "counts how often its first choices are the target's: under the stated layout, under each of its\n"
            "neighbours, and on the states that the samples hold. Steps after the first are teacher-forced: they read\n"
            "the text's tokens; of a DFLASH block only the first token is given. DRAFTER may be NAME@VERSION of a\n"
            "registry; SAMPLE is a file or folder of recorded states.\n"
            "Exits with 0 if the stated layout is best, 3 if another is better, 5 if that cannot be told."
        ),
        words=("DRAFTER", "SAMPLE", "[SAMPLE...]"),
        options=(
            *REFERENCE,
            Option("--target-files", "with --reference: the target, for an embedding or head not its own", "PATH"),
            Option("--boundaries", "the stated layout, as boundaries: 3,31,59; default: manifest or files", "LIST"),
            Option("--output-ids", "the same as output ids: 2,30,58", "LIST"),
            Option("--layouts", 'more layouts to try, as boundaries: "3,31,59;2,30,58"', "LISTS"),
            Option(
                "--steps",
                "tokens drafted per step; default: as the manifest recommends, else 3, or a block of DFLASH",
                "K",
            ),
            Option("--rows", "positions drafted from that are enough; default: 20000", "N"),
            Option("--masked", "only positions whose next tokens the samples' own loss mask includes"),
            Option("--output", "write the evaluation, for drafters publish --evidence", "FILE", short="-o"),
            Option("--acceptance", "write the acceptance as a manifest records one, for drafters publish", "FILE"),
            Option("--plot", "draw acceptance by layout: FILE.png or FILE.svg", "FILE"),
            JSON,
        ),
        examples=(
            ("drafters evaluate ./kimi-eagle3 ./states --target ./Kimi-K2.5 -o evaluation.json", "before publishing"),
            ("drafters evaluate kimi-eagle3@1.0 data_0.ckpt --reference kimi.safetensors", "where no target fits"),
            ('drafters evaluate ./d s.pt --target ./t --layouts "3,31,59;2,30,58"', "which of two is it?"),
        ),
    )
}

_EXIT = {"stated": EXIT_OK, "other": EXIT_REFUSED, "unknown": EXIT_UNKNOWN}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Evaluate; see the description."""
    require_tensors()
    if parsed.has("--plot"):
        require_plots()
        from drafter_cli.values.plots import check_name

        check_name(parsed.value("--plot"))
    from drafter_cli.values import evaluate_inputs as inputs

    for name in ("--output", "--acceptance", "--plot"):
        if parsed.has(name):
            check_output(parsed.value(name), *parsed.words, *parsed.many("--reference"))
    reference = reference_of(parsed)
    model = inputs.model_of(reference, parsed.value("--target-files"))
    drafter = inputs.drafter_of(parsed.word(0), model)
    layouts = inputs.layouts_of(parsed, drafter, model)
    if not layouts.tried:
        return _tell_undecided(parsed, drafter, layouts)
    loaded = inputs.load(drafter, model)
    document = _evaluated(parsed, drafter, loaded, layouts, _source(parsed, drafter, loaded))
    _write_files(parsed, document)
    if parsed.has("--json"):
        write_json(document)
    else:
        from drafter_cli.values.evaluate_view import show

        show(document)
    return _EXIT[document.verdict]


def _source(parsed: Parsed, drafter: Evaluated, loaded: Drafter) -> Source:
    from drafter_cli.values.evaluate_inputs import drafted_steps
    from drafter_cli.values.evaluate_samples import ROWS, Source

    return Source(
        paths=parsed.words[1:],
        reference=reference_of(parsed),
        taps=loaded.taps,
        steps=drafted_steps(parsed, drafter.beside, loaded.most_steps),
        masked=parsed.has("--masked"),
        enough=number("--rows", parsed.value("--rows")) if parsed.has("--rows") else ROWS,
    )


def _evaluated(parsed: Parsed, drafter: Evaluated, loaded: Drafter, layouts: Layouts, source: Source) -> Evaluation:
    """Run the drafter over the samples and judge."""
    from datetime import UTC, datetime

    from drafter_cli.client import configuration
    from drafter_cli.publishing.carry_out import tool
    from drafter_cli.values.evaluate_inputs import file_digests_of
    from drafter_contracts.errors import InternalError
    from drafter_contracts.evidence.documents import EVALUATION, Evaluation
    from drafter_contracts.values.acceptance import judge, measure

    ranked = layouts.stated.layout is None
    measured = measure(loaded, source.passages(), layouts.tried, source.steps, ranked=ranked)
    judged = judge(measured)
    if source.record is None:
        raise InternalError("samples were scored without a reference")
    cache = os.path.abspath(os.path.expanduser(configuration.read(parsed).value("cache")))
    weights, config = file_digests_of(drafter, os.path.join(cache, "digests"))
    return Evaluation(
        schema=EVALUATION,
        tool=tool(),
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        drafter=drafter.called,
        weights_sha256=weights,
        config_sha256=config,
        method=loaded.method,
        samples=tuple(source.samples),
        reference=source.record,
        rows=measured.rows,
        scores=measured.scores,
        recorded=measured.recorded,
        verdict=judged.verdict,
        reason=judged.reason,
        notes=(*judged.notes, *source.notes, *loaded.notes),
    )


def _write_files(parsed: Parsed, document: Evaluation) -> None:
    from drafter_contracts.evidence.documents import encode

    if parsed.has("--output"):
        replace_file(parsed.value("--output"), encode(document))
    if parsed.has("--acceptance"):
        text = msgspec.json.format(msgspec.json.encode(_acceptance(document)), indent=2)
        replace_file(parsed.value("--acceptance"), text + b"\n")
    if parsed.has("--plot"):
        from drafter_cli.values.plots import draw_evaluation

        draw_evaluation(document, parsed.value("--plot"))


def _acceptance(document: Evaluation) -> object:
    """The first score as a manifest records an acceptance; its notes say that no engine ran."""
    from drafter_contracts.manifest_records import Acceptance

    first = document.scores[0]
    steps = len(first.steps)
    names = ", ".join(sample.name for sample in document.samples[:3])
    more = f" and {len(document.samples) - 3} more" if len(document.samples) > 3 else ""
    return Acceptance(
        length=first.served,
        dataset=f"{names}{more}",
        engine=document.tool,
        steps=steps,
        topk=1,
        draft_tokens=steps + 1,
        target_revision=document.reference.revision,
        target_dtype=document.reference.dtype,
        temperature=0.0,
        date=document.created,
        measured="teacher-forced",
        notes=(
            f"teacher-forced on recorded states, no engine ran; first choices, {document.rows} rows,"
            f" {first.length:.2f} tokens per step over all of them; states of {document.reference.shown()}"
        ),
    )


def _tell_undecided(parsed: Parsed, drafter: Evaluated, layouts: Layouts) -> int:
    """Nothing to try: say why, and how to name layouts."""
    stated = layouts.stated
    code = EXIT_INTEGRITY if stated.contradicted else EXIT_UNKNOWN
    lines = [claim.message for claim in stated.obstacles] or ["nothing says which layers the drafter reads"]
    listed = ";".join(",".join(map(str, one)) for one in stated.possible) or "3,31,59;2,30,58"
    hint = f'state it by --boundaries or --output-ids, or rank what it may be: --layouts "{listed}"'
    if parsed.has("--json"):
        word = "MANIFEST_CONTRADICTS_FILES" if stated.contradicted else "UNDECIDED"
        fields = {"where": drafter.directory, "expected": "", "actual": "", "hint": hint}
        write_json({"error": {"code": word, "message": "; ".join(lines), **fields}, "exit_code": code})
        return code
    for line in lines:
        write(f"drafters: {printable(line)}", to_stderr=True)
    write(f"  {hint}", to_stderr=True)
    return code
