"""The incident, told by the gate itself: `python -m drafter_cli.demo` (or `make demo`). Needs no network.

Every verdict below is what `drafters check` or `drafters guard` answers on the profiles that are shipped; nothing is
scripted but the order in which the questions are asked.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile

import msgspec

from drafter_cli.demo_files import (
    DEEPSEEK,
    EVERY_OPTION,
    KIMI,
    LAYERS,
    TRAINED_OUTPUT_IDS,
    WIDTH,
    drafter_tensors,
    write_drafter,
    write_small_drafter,
    write_target,
)
from drafter_cli.demo_guard import guarded_launches
from drafter_cli.demo_registry import registry_story
from drafter_cli.gate import judge
from drafter_cli.gate_options import Request
from drafter_cli.launched_engine import ENGINE
from drafter_cli.terminal import BLUE, BOLD, DIM, GREEN, RED, YELLOW, Style, colours, wrap, write
from drafter_contracts.engines.capture import requested_boundaries
from drafter_contracts.engines.profile import FITTED, Guard
from drafter_contracts.engines.ranges import span_text
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.layout import Tap, describe_taps, layout_from_output_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.demo_registry import Asked
    from drafter_contracts.verdict import Finding, Verdict

METHOD = "EAGLE3"
WRONG_FIX = (-1, 2, 30)
_COLOURS = {"allow": GREEN, "warn": YELLOW, "refuse": RED, "unknown": BLUE}
_INDENT = " " * 16
_LABEL = 25
#: Directories, relative to where the story is told, so that messages stay short.
_NAMES: dict[tuple[int, ...], str] = {WRONG_FIX: "drafter-wrong-fix", TRAINED_OUTPUT_IDS: "drafter"}


class Question(msgspec.Struct, frozen=True):
    """One question to the gate.

    Attributes:
        release: Of SGLang.
        architecture: Class of the target.
        ids: Capture ids in the drafter's config.
        more: Options of the launch beyond the incident's own; later ones win.
    """

    release: str
    architecture: str
    ids: tuple[int, ...]
    more: tuple[str, ...] = ()


class Stage:
    """The files of the story, made in the working directory when first needed, and the gate's answers about them."""

    def target(self, architecture: str) -> str:
        """Directory of a target of this class."""
        path = "Kimi-K2.5" if architecture == KIMI else "DeepSeek-V3-shaped"
        return path if os.path.isdir(path) else write_target(path, architecture)

    def drafter(self, ids: tuple[int, ...]) -> str:
        """Directory of the drafter with these ids in its config."""
        path = _NAMES.get(ids, "drafter-edited")
        return path if os.path.isdir(path) else write_drafter(path, ids=ids)

    def launch(self, question: Question) -> tuple[str, ...]:
        """The launch command that a question is about."""
        target = ("--model-path", self.target(question.architecture))
        drafter = ("--speculative-draft-model-path", self.drafter(question.ids))
        return ("python", "-m", "sglang.launch_server", *target, *drafter, *EVERY_OPTION, *question.more)

    def ask(self, question: Question) -> Verdict:
        """What `drafters check` answers."""
        stated = f"--output-ids {','.join(map(str, TRAINED_OUTPUT_IDS))}"
        boundaries = tuple(i + 1 for i in TRAINED_OUTPUT_IDS)
        launch = self.launch(question)
        return judge(Request(launch, engine=question.release, boundaries=boundaries, option=stated))


class Teller:
    """Writes the story.

    Args:
        style: Colours or none.
    """

    def __init__(self, style: Style) -> None:
        self.style = style

    def chapter(self, title: str) -> None:
        """A heading."""
        write(f"\n{self.style.paint(title, BOLD)}")

    def say(self, text: str) -> None:
        """A paragraph."""
        write(wrap(text, indent="  "))

    def row(self, label: str, verdict: Verdict, note: str = "", asked: str = "") -> None:
        """A verdict on one line, and below it what would be captured and why it is refused."""
        word = self.style.paint(f"{verdict.decision.upper():<8}", BOLD, _COLOURS[verdict.decision])
        write(f"  {label:<{_LABEL}} {word}{self.style.paint(note, DIM)}".rstrip())
        if asked:
            self.detail("ids ask for", asked)
        for key in ("captures", "graph replay"):
            if key in verdict.context:
                self.detail(key, verdict.context[key])
        for finding in refusals(verdict):
            self.detail(finding.code, finding.message)

    def detail(self, label: str, text: str) -> None:
        """A line below a row."""
        body = wrap(text, indent=_INDENT + " " * _LABEL).lstrip(" ")
        write(f"{_INDENT}{self.style.paint(f'{label:<{_LABEL}}', DIM)}{body}".rstrip())

    def asked(self, asked: Asked) -> None:
        """A command as it was run, and what it printed, its standard error dimmed."""
        write(f"\n  {self.style.paint('$', DIM)} {self.style.paint(asked.line, BOLD)}")
        for text, paint in ((asked.errors, (DIM,)), (asked.output, ())):
            for line in text.splitlines():
                write(f"    {self.style.paint(line, *paint)}" if line else "")
        write(f"    {self.style.paint(f'exit code {asked.code}', DIM)}")

    def finding(self, finding: Finding) -> None:
        """A finding in full."""
        for label, text in (("expected", finding.expected), ("would be", finding.actual), ("source", finding.source)):
            if text:
                self.detail(label, text)
        body = wrap(finding.remedy, indent=_INDENT + " " * _LABEL).lstrip(" ")
        write(f"{_INDENT}{self.style.paint('remedy'.ljust(_LABEL), BOLD, GREEN)}{body}")


def refusals(verdict: Verdict) -> tuple[Finding, ...]:
    """The findings that refuse."""
    return tuple(finding for finding in verdict.findings if finding.severity == "refuse")


def has_hook(release: str, architecture: str) -> bool:
    """Whether this release can capture for this target class at all."""
    return load_profile(ENGINE, release).capture_method(architecture, METHOD) is not None


def asked_for(question: Question) -> str:
    """The boundaries that the release's own setter makes of the ids, each in both numberings."""
    rule = load_profile(ENGINE, question.release).capture_method(question.architecture, METHOD)
    if rule is None or rule.status != FITTED:
        return ""
    requested = requested_boundaries(rule, LAYERS, question.ids)
    if isinstance(requested, Guard):
        return f"{requested.error} from the setter"
    real = describe_taps(tuple(Tap(boundary) for boundary in requested if boundary >= 0))
    beyond = [str(boundary) for boundary in requested if boundary < 0]
    return f"{real}; and {', '.join(beyond)}, which no target has" if beyond else real


def introduce(teller: Teller) -> None:
    """Who is who."""
    shape = drafter_tensors()["fc.weight"][1]
    layout = layout_from_output_ids(TRAINED_OUTPUT_IDS, width=WIDTH, num_layers=LAYERS)
    teller.chapter("A drafter for Kimi-K2.5")
    teller.say(f"target    {KIMI}, {LAYERS} layers, hidden size {WIDTH}")
    teller.say(f"drafter   fc.weight {shape[0]} x {shape[1]} = {len(layout.taps)} states of {layout.widths[0]}")
    teller.say(f"trained   on {describe_taps(layout.taps)}")
    teller.say(f"files     {os.getcwd()} (real headers, no weights)")


def _gist(question: Question, verdict: Verdict) -> tuple[str, ...]:
    """What a verdict says, whatever the release is called and wherever in its source that is."""
    said = [verdict.decision, asked_for(question), *(verdict.context.get(k, "") for k in ("captures", "graph replay"))]
    said += [f"{finding.code} {finding.message}" for finding in refusals(verdict)]
    return (question.architecture, *(text.replace(question.release, "") for text in said))


def wrong_fix(stage: Stage, teller: Teller) -> list[Verdict]:
    """Step 1: ids that somebody thought were a fix, on every release."""
    teller.chapter(f"1. Served with ids {list(WRONG_FIX)}: the wrong fix, on every release")
    verdicts = []
    alike: dict[tuple[str, ...], list[tuple[Question, Verdict]]] = {}
    for release in releases(ENGINE):
        architectures = [KIMI] if has_hook(release, KIMI) or not has_hook(release, DEEPSEEK) else [KIMI, DEEPSEEK]
        for architecture in architectures:
            question = Question(release, architecture, WRONG_FIX)
            verdict = stage.ask(question)
            verdicts.append(verdict)
            alike.setdefault(_gist(question, verdict), []).append((question, verdict))
    for group in alike.values():
        question, verdict = group[-1]
        note = KIMI if question.architecture == KIMI else f"{question.architecture} with the same numbers"
        where = span_text(releases(ENGINE), (one.release for one, _ in group))
        teller.row(where, verdict, note, asked_for(question))
    refused = sum(verdict.decision == "refuse" for verdict in verdicts)
    shapes = sum(any(f.code.startswith("FC_") for f in refusals(verdict)) for verdict in verdicts)
    teller.say(
        f"{refused} of {len(verdicts)} refused, {shapes} of them for a width of fc: its columns fit three states"
        " wherever they are taken."
    )
    return verdicts


def _before_hook(release: str) -> str:
    """The target class to ask about: Kimi's own where the release captures for it, else its language model's."""
    return KIMI if has_hook(release, KIMI) else DEEPSEEK


def right_ids(stage: Stage, teller: Teller) -> list[Verdict]:
    """Step 2: the ids that are right on one release, on three."""
    ids = TRAINED_OUTPUT_IDS
    teller.chapter(f"2. Served with ids {list(ids)}, as the producer wrote them")
    first = stage.ask(Question("0.5.12.post1", _before_hook("0.5.12.post1"), ids))
    teller.row("0.5.12.post1", first, _before_hook("0.5.12.post1"))

    older = _before_hook("0.5.9")
    note = older if older == KIMI else f"{older}: this release has no capture hook for {KIMI}"
    graphs = stage.ask(Question("0.5.9", older, ids))
    teller.row("0.5.9", graphs, note)
    for finding in refusals(graphs):
        teller.finding(finding)
    eager = stage.ask(Question("0.5.9", older, ids, ("--disable-cuda-graph",)))
    teller.row("0.5.9", eager, "with --disable-cuda-graph")

    newer = Question("0.5.23", _before_hook("0.5.23"), ids)
    moved = stage.ask(newer)
    teller.row("0.5.23", moved, newer.architecture)
    for finding in refusals(moved):
        teller.finding(finding)
    return [first, graphs, eager, moved, *_apply_remedy(stage, teller, newer, moved)]


def _apply_remedy(stage: Stage, teller: Teller, question: Question, refused: Verdict) -> list[Verdict]:
    """Do what the remedy says, both ways, and ask again."""
    remedy = next((f.remedy for f in refusals(refused) if "--json-model-override-args" in f.remedy), "")
    if not remedy:
        return []
    words = shlex.split(remedy[remedy.index("--json-model-override-args") :])
    override = words[1].rstrip(".")
    ids = msgspec.json.decode(override)["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    edited = stage.ask(msgspec.structs.replace(question, ids=tuple(ids)))
    teller.row(question.release, edited, f"config edited as the remedy says: ids {ids}")
    overridden = stage.ask(msgspec.structs.replace(question, more=(words[0], override)))
    teller.row(question.release, overridden, "checkpoint untouched, with the override as printed")
    return [edited, overridden]


def silent_steps(stage: Stage, teller: Teller) -> Verdict:
    """Step 3: a launch that asks for 16 draft tokens and gets 2."""
    teller.chapter("3. --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 16")
    more = ("--speculative-num-steps", "1", "--speculative-num-draft-tokens", "16")
    verdict = stage.ask(Question("0.5.12.post1", _before_hook("0.5.12.post1"), TRAINED_OUTPUT_IDS, more))
    teller.row("0.5.12.post1", verdict)
    for finding in verdict.findings:
        if finding.severity != "note":
            teller.detail(finding.code, finding.message)
            teller.finding(finding)
    return verdict


def registry(stage: Stage, teller: Teller) -> bool:
    """Step 5: the same drafter from a registry: published once, resolved for any release, or refused; locked."""
    teller.chapter("5. Published to a registry over HTTP, and resolved from it")
    drafter = write_small_drafter("drafter-to-publish", ids=TRAINED_OUTPUT_IDS)
    return registry_story(stage.target(KIMI), stage.target(DEEPSEEK), drafter, teller.asked)


def tell(style: Style) -> bool:
    """The whole story, told in the working directory.

    Returns:
        Whether the gate's answers are the ones that the story is about.
    """
    stage, teller = Stage(), Teller(style)
    introduce(teller)
    wrong = wrong_fix(stage, teller)
    right = right_ids(stage, teller)
    silent = silent_steps(stage, teller)
    teller.chapter("4. Guarded launches, as real processes")
    release = "0.5.12.post1"
    launches = [stage.launch(Question(release, _before_hook(release), ids)) for ids in (WRONG_FIX, TRAINED_OUTPUT_IDS)]
    guarded = guarded_launches(release, launches, teller.say)
    served = registry(stage, teller)
    allowed = ("allow", "warn")
    return (
        all(verdict.decision == "refuse" for verdict in wrong)
        and [verdict.decision in allowed for verdict in right] == [True, False, True, False, True, True]
        and any(finding.severity != "note" for finding in silent.findings)
        and guarded
        and served
    )


def main() -> int:
    """Tell it; returns 0 if every answer is as the story has it."""
    with tempfile.TemporaryDirectory(prefix="drafters-demo-") as folder:
        started_in = os.getcwd()
        os.chdir(folder)
        try:
            as_told = tell(Style(on=colours(sys.stdout)))
        finally:
            os.chdir(started_in)
    write("\nEvery verdict above was computed from the shipped profiles." if as_told else "\nThe gate disagrees.")
    return 0 if as_told else 1


if __name__ == "__main__":
    sys.exit(main())
