"""What an engine says of itself, held against its launch, the drafter's manifest and the promise: as causes."""

from __future__ import annotations

import posixpath
import re

from drafter_contracts.acceptance.causes import POSSIBLE, SEEN, Cause, Open
from drafter_contracts.acceptance.promises import dtype_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drafter_contracts.acceptance.records import EngineState, Judgement
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import Speculation, TargetFacts

#: Argument to what it is called; in the order of a launch's stated triple.
TRIPLE = (
    ("speculative_num_steps", "steps"),
    ("speculative_eagle_topk", "topk"),
    ("speculative_num_draft_tokens", "draft tokens"),
)
_ALGORITHM = "speculative_algorithm"
_DRAFT = "speculative_draft_model_path"
#: Of a path into a Hub cache: the commit.
_SNAPSHOT = re.compile(r"/snapshots/([0-9a-f]{40})(?:/|$)")
#: Signs of a commit that name it.
_SHORTEST = 7
#: How a line says that one side of a comparison is missing.
_PROMISE_SILENT, _NOT_SAID = "the promise does not say", "is not known"
_THRESHOLDS = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")


def off(state: EngineState, stated: Speculation | None, drafter: str) -> Cause | None:
    """The engine does not speculate.

    Args:
        state: What it says.
        stated: Speculation as its launch command states it, where that is known.
        drafter: The drafter that is asked about, or "".
    """
    arguments = state.arguments
    if state.engine != "sglang" or _ALGORITHM not in arguments or arguments[_ALGORITHM]:
        return None
    asked = stated.stated_algorithm if stated is not None else ""
    evidence = [f"{_ALGORITHM} in force: {arguments[_ALGORITHM]}"]
    remedy = "launch it with --speculative-algorithm (drafters resolve prints the flags)"
    if asked:
        message = f"the engine does not speculate, although it was launched with --speculative-algorithm {asked}"
        evidence.append(f"launch_command: --speculative-algorithm {asked}")
        remedy = "look for the reason in the log of its start (drafters doctor --log FILE -- LAUNCH...)"
    elif arguments.get(_DRAFT):
        message = "the engine does not speculate, although it was given a drafter"
        evidence.append(f"{_DRAFT}: {arguments[_DRAFT]}")
    elif drafter:
        message = f"the engine does not speculate: {drafter} is not in use"
    else:
        message = "the engine does not speculate"
    return Cause(
        code="SPECULATION_OFF",
        message=message,
        confidence=SEEN,
        evidence=tuple(evidence),
        next=remedy,
        catalogue=("R12", "R13"),
    )


def unseen_environment() -> Open:
    """Nothing that an engine tells shows the switch that makes its acceptance up."""
    return Open(
        what="whether acceptance is simulated",
        why="the environment of the engine's processes cannot be read from here",
        settle="run this on the engine's machine as its user, or look for SGLANG_SIMULATE_ACC_LEN in /proc/PID/environ",
    )


def returns_states() -> Open:
    """A canary that returns its states does not speculate: its acceptance cannot be looked at."""
    return Open(
        what="acceptance, and the check of its launch",
        why="it was started to return aux hidden states, and so does not speculate",
        settle="ask the engine that serves; this one tells what it feeds (drafters verify)",
        decides=True,
    )


def comparable(manifest: Manifest | None, promised: Mapping[str, str], state: EngineState) -> tuple[Open, ...]:
    """What of the target cannot be compared, because one side does not say it."""
    record = manifest.target.revision if manifest is not None else ""
    if not (record or promised.get("revision")):
        why, settle = "the drafter's record does not say it", "publish it with --target-revision, or promise it so"
    elif not revision_of(state):
        why, settle = (
            "the engine does not say it",
            "launch it with --revision COMMIT, or from a path that names the commit",
        )
    else:
        return ()
    return (Open(what="the target's revision", why=why, settle=settle),)


def simulated(state: EngineState) -> Cause | None:
    """The figures are made up."""
    if not state.simulated:
        return None
    return Cause(
        code="ACCEPTANCE_SIMULATED",
        message="the acceptance that this engine reports is simulated, and says nothing of the drafter",
        confidence=SEEN,
        evidence=(state.simulated,),
        next="unset SGLANG_SIMULATE_ACC_LEN in the engine's environment and start it again",
        catalogue=("R26",),
    )


def changed(state: EngineState, stated: Speculation) -> Cause | None:
    """Steps, topk or draft tokens in force are not those of the launch."""
    differs = [
        f"{called}: {asked} asked for, {state.arguments[name]} in force"
        for (name, called), asked in zip(TRIPLE, stated.stated, strict=True)
        if asked is not None and state.arguments.get(name) not in (None, asked)
    ]
    if not differs or not state.arguments.get(_ALGORITHM):
        return None
    return Cause(
        code="SPECULATION_CHANGED",
        message=f"the engine changed its speculative arguments: {'; '.join(differs)}",
        confidence=SEEN,
        evidence=("launch_command against the arguments in force",),
        next="state numbers that go together (drafters resolve prints them)",
        catalogue=("R13",),
    )


def other_target(
    state: EngineState, manifest: Manifest | None, promised: Mapping[str, str], target: TargetFacts | None
) -> tuple[Cause, ...]:
    """The target in force against the recorded one and against that of the promise.

    Args:
        state: What the engine says.
        manifest: The drafter's, or None.
        promised: "revision", "dtype" and "quantisation" of the nearest promise, as far as it states them.
        target: The target's own files, or None.
    """
    arguments = state.arguments
    path = str(arguments.get("model_path") or state.conditions.target_model)
    record = manifest.target if manifest is not None else None
    rows: list[tuple[str, str, str]] = []
    if record is not None:
        rows.append(("name", _short(record.model), _hub_name(state)))
        rows.append(("revision", record.revision, revision_of(state)))
    rows.append(("revision", promised.get("revision", ""), revision_of(state)))
    rows.append(("dtype", promised.get("dtype", ""), _dtype(state, target)))
    rows.append(("quantisation", promised.get("quantisation", ""), quantization_of(state, target) or _none(target)))
    found = {}
    for what, wanted, runs in rows:
        if wanted and runs and not _same(what, wanted, runs) and what not in found:
            found[what] = _differs(what, wanted, runs, path)
    return tuple(found.values())


def _none(target: TargetFacts | None) -> str:
    """That no quantisation is stated means that there is none, where the target's own files say so."""
    return "none" if target is not None and target.config else ""


def _same(what: str, wanted: str, runs: str) -> bool:
    """Whether these are one: by all their names, and an abbreviated commit is what it abbreviates."""
    if what == "dtype":
        return dtype_name(wanted) == dtype_name(runs)
    short = min(len(wanted), len(runs)) if what == "revision" else 0
    return wanted.lower() == runs.lower() or (short >= _SHORTEST and wanted[:short].lower() == runs[:short].lower())


def _differs(what: str, wanted: str, runs: str, path: str) -> Cause:
    return Cause(
        code=f"TARGET_{what.upper()}_DIFFERS",
        message=f"the target's {what} is {runs}, and the drafter's record says {wanted}",
        confidence=POSSIBLE,
        evidence=(f"recorded: {wanted}", f"runs: {runs} (model_path {path})"),
        next="serve the recorded target, or measure this pair and promise that (drafters acceptance add)",
        catalogue=("R06", "R24") if what == "name" else ("R24",),
    )


def served_otherwise(state: EngineState) -> tuple[Cause, ...]:
    """Options that change what is accepted, or what is asked, without a sign."""
    arguments = state.arguments
    found = []
    template = arguments.get("chat_template")
    if template:
        found.append(
            Cause(
                code="TEMPLATE_REPLACED",
                message="requests are written with a chat template other than the target's own",
                confidence=POSSIBLE,
                evidence=(f"chat_template: {str(template)[:120]}",),
                next="compare it with the template of the training data",
                catalogue=("R24",),
            )
        )
    tokenizer, model = arguments.get("tokenizer_path"), arguments.get("model_path")
    if tokenizer and model and tokenizer != model:
        found.append(
            Cause(
                code="TOKENIZER_REPLACED",
                message="the engine reads another tokenizer than the target's own",
                confidence=POSSIBLE,
                evidence=(f"tokenizer_path: {tokenizer}", f"model_path: {model}"),
                next="launch it without --tokenizer-path, or compare the two tokenizer.json",
                catalogue=("R23",),
            )
        )
    loose = [name for name in _THRESHOLDS if isinstance(arguments.get(name), (int, float)) and arguments[name] != 1]
    if loose:
        told = ", ".join(f"{name} {arguments[name]}" for name in loose)
        found.append(
            Cause(
                code="ACCEPTANCE_THRESHOLD",
                message=f"drafts are accepted by a threshold other than 1 ({told}): lengths do not compare",
                confidence=POSSIBLE,
                evidence=(told,),
                next="leave --speculative-accept-threshold-single and -acc at 1 where lengths are compared",
                catalogue=("R24",),
            )
        )
    return tuple(found)


def conditions(judgement: Judgement | None, *, told: bool) -> tuple[Cause | Open, ...]:
    """Conditions in which what runs differs from the promise, and those that one of the two does not say.

    Args:
        judgement: Seen against promised.
        told: Whether what differs of the target is a cause of its own already.
    """
    if judgement is None:
        return ()
    unsaid = tuple(line for line in judgement.differs if line.endswith(_NOT_SAID) or _PROMISE_SILENT in line)
    other = [line for line in judgement.differs if line not in unsaid]
    if told:
        other = [line for line in other if not line.startswith("target ")]
    found: list[Cause | Open] = []
    if other:
        found.append(
            Cause(
                code="CONDITIONS_DIFFER",
                message=f"the promise was measured under other conditions: {'; '.join(other)}",
                confidence=POSSIBLE,
                evidence=(f"promise: {judgement.promise}",) if judgement.promise else (),
                next="measure under the promise's conditions, or promise these (drafters acceptance add)",
                catalogue=("R24", "R26"),
            )
        )
    if unsaid:
        why, settle = "; ".join(unsaid), "promise it with all its conditions (drafters acceptance add)"
        found.append(Open(what="the promise's conditions", why=why, settle=settle))
    return tuple(found)


def revision_of(state: EngineState) -> str:
    """Commit of the target in force: stated, or in the path of a Hub cache; "" if nothing tells."""
    stated = state.conditions.target_revision or str(state.arguments.get("revision") or "")
    inside = _SNAPSHOT.search(str(state.arguments.get("model_path") or ""))
    return stated or (inside[1] if inside else "")


def quantization_of(state: EngineState, target: TargetFacts | None) -> str:
    """The target's quantisation in force, "" for none."""
    stated = state.conditions.target_quantization or str(state.arguments.get("quantization") or "")
    return stated or (target.quantization if target is not None else "")


def _dtype(state: EngineState, target: TargetFacts | None) -> str:
    stated = state.conditions.target_dtype or str(state.arguments.get("dtype") or "")
    if stated == "auto":
        return target.dtype if target is not None else ""
    return stated


def _hub_name(state: EngineState) -> str:
    """The target's own name, where the engine names it by its id; a directory may be called anything: then "" ."""
    name = state.conditions.target_model
    return "" if name.count("/") != 1 or name.startswith((".", "/", "~")) else _short(name)


def _short(name: str) -> str:
    return posixpath.basename(name.rstrip("/"))
