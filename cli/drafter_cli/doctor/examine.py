"""Everything that can be looked at of one engine, looked at once, and what follows."""

from __future__ import annotations

import msgspec

from drafter_cli.doctor import files, states
from drafter_cli.doctor.checking import Contract, check_running, contract_of
from drafter_cli.doctor.seen import Seen, judged
from drafter_contracts.acceptance import causes_of_check, causes_of_engine
from drafter_contracts.acceptance.causes import STATES, Cause, Diagnosis, Open, conclude
from drafter_contracts.acceptance.records import NOT_PROMISED, TOO_LITTLE, EngineState
from drafter_contracts.errors import ContractsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.doctor.running import Running
    from drafter_contracts.acceptance.promises import Promise
    from drafter_contracts.acceptance.records import Judgement
    from drafter_contracts.serving.launch import Speculation
    from drafter_contracts.situation import Situation
    from drafter_contracts.verdict import Verdict


class Patient(msgspec.Struct, frozen=True):
    """What is known of an engine before it is looked at.

    Attributes:
        source: Its URL, or the log.
        running: Its launch.
        state: What it, or its log, says of itself.
        seen: Its acceptance.
        url: Its URL, "" where there is only a log.
        promises: Promises that were attached to the version, beside its manifest's own.
        digests: Where digests of files are remembered.
        open: What could not be read so far.
    """

    source: str
    running: Running
    state: EngineState
    seen: Seen
    url: str = ""
    promises: tuple[Promise, ...] = ()
    digests: str = ""
    open: tuple[Open, ...] = ()


class _Notes:
    """What is found on the way."""

    def __init__(self, patient: Patient) -> None:
        self.causes: list[Cause] = list(patient.seen.causes)
        self.checked: list[str] = []
        self.open: list[Open] = [*patient.open, *patient.seen.open]

    def add(self, found: Cause | Open | str | None) -> None:
        if isinstance(found, Cause):
            self.causes.append(found)
        elif isinstance(found, Open):
            self.open.append(found)
        elif found:
            self.checked.append(found)


def examine(patient: Patient) -> Diagnosis:
    """The diagnosis.

    Raises:
        InputError: A manifest or an option that cannot be read.
        UnreachableError: The engine stopped to answer.
    """
    notes = _Notes(patient)
    running, state = patient.running, patient.state
    contract = contract_of(running)
    verdict, situation = check_running(running, contract)
    stated = running.stated if running.is_up else situation.serving.speculation
    promises = patient.promises or promises_of(running, contract)
    judgement = judged(patient.seen, state, promises)
    _check(notes, running, verdict, state)
    _engine(notes, patient, contract, situation, _Stated(stated, promises))
    _acceptance(notes, judgement, patient, promises)
    notes.add(files.compare(contract, patient.digests))
    if patient.url:
        notes.add(_states(patient, contract, situation))
    word, ranked = conclude(notes.causes, notes.open, judgement)
    context = _context(patient, contract, verdict)
    return Diagnosis(
        schema="drafters.diagnosis.v1",
        word=word,
        source=patient.source,
        engine=situation.engine if state.engine == "sglang" else f"{state.engine} {state.release}".strip(),
        drafter=running.request.called or situation.drafter_name,
        target=verdict.context.get("target", "") or state.conditions.target_model,
        causes=ranked,
        checked=tuple(dict.fromkeys(notes.checked)),
        open=_once(notes.open),
        acceptance=judgement,
        context=context,
    )


def promises_of(running: Running, contract: Contract | None = None) -> tuple[Promise, ...]:
    """What the drafter's manifest promises.

    Args:
        running: The launch.
        contract: The drafter's record, where it has been found already.
    """
    from drafter_contracts.acceptance.promises import Promise

    manifest = (contract or contract_of(running)).manifest
    return tuple(Promise(acceptance=one, where="manifest") for one in (manifest.acceptance if manifest else ()))


def _check(notes: _Notes, running: Running, verdict: Verdict, state: EngineState) -> None:
    """The rules' word on what runs."""
    if state.engine != "sglang":
        name = f"{state.engine}=={state.release or 'VERSION'}"
        notes.add(
            Open(
                what="the check of its launch",
                why=f"{state.engine} does not say its arguments over HTTP",
                settle=f"compare them with what drafters resolve REFERENCE --engine {name} prints",
                decides=True,
            )
        )
        return
    found = causes_of_check.causes_of(verdict, running=running.is_up)
    if running.is_up:  # words of a launch that nobody wrote so
        found = tuple(one for one in found if not one.code.startswith("ARGUMENT_") or one.code == "ARGUMENT_REFUSED")
    if state.simulated:  # said of the engine itself
        found = tuple(one for one in found if one.code != "SIMULATED_ACCEPTANCE")
    every: tuple[Cause | Open | str, ...] = (
        *found,
        *causes_of_check.open_of(verdict),
        *causes_of_check.right_of(verdict),
    )
    for one in every:
        notes.add(one)
    crashes = [one.code for one in found if one.code in causes_of_check.CRASHES] if running.is_up else []
    if crashes:
        notes.add(
            Open(
                what="whether these files and this release are what runs",
                why=f"an engine launched so does not start ({', '.join(crashes)}), and this one runs",
                settle="run this beside the engine, with --engine PATH of its own installation",
                decides=True,
            )
        )
    if running.left:
        names = ", ".join(running.left)
        why = f"{running.engine.name} has no option that gives its values of {names}"
        notes.add(
            Open(what="some arguments in force", why=why, settle="drafters check -- LAUNCH, with its own command")
        )


class _Stated(msgspec.Struct, frozen=True):
    """What was asked for, and what was promised."""

    speculation: Speculation | None
    promises: tuple[Promise, ...]


def _engine(notes: _Notes, patient: Patient, contract: Contract, situation: Situation, asked: _Stated) -> None:
    """What the engine says of itself."""
    state, stated = patient.state, asked.speculation
    causes = [causes_of_engine.simulated(state)]
    if state.arguments.get("aux_hidden_state_capture"):
        notes.add(causes_of_engine.returns_states())
    else:
        off = causes_of_engine.off(state, stated, patient.running.request.called or patient.running.request.drafter)
        causes.append(off)
        if off is None and state.arguments.get("speculative_algorithm"):
            notes.add(f"speculation is on: {state.arguments['speculative_algorithm']}")
    if stated is not None:
        causes.append(causes_of_engine.changed(state, stated))
    promised = _promised_target(asked.promises, state)
    different = causes_of_engine.other_target(state, contract.manifest, promised, situation.target)
    for one in (*causes, *different, *causes_of_engine.served_otherwise(state)):
        notes.add(one)
    for what in causes_of_engine.comparable(contract.manifest, promised, state):
        notes.add(what)


def _promised_target(promises: tuple[Promise, ...], state: EngineState) -> dict[str, str]:
    """What the nearest promise, which is the one that is judged by, says of its target."""
    from drafter_contracts.acceptance.promises import nearest

    found = nearest(promises, state.conditions)
    if found is None:
        return {}
    kept = found.promise.acceptance
    return {
        "revision": kept.target_revision,
        "dtype": kept.target_dtype,
        "quantisation": kept.target_quantization,
    }


def _acceptance(notes: _Notes, judgement: Judgement | None, patient: Patient, promises: tuple[Promise, ...]) -> None:
    told = any(one.code.startswith("TARGET_") and one.code.endswith("_DIFFERS") for one in notes.causes)
    for one in causes_of_engine.conditions(judgement, told=told):
        notes.add(one)
    if judgement is None:
        return
    if judgement.word == TOO_LITTLE:
        settle = judgement.settle or "send it more requests, then ask again"
        if patient.url and not patient.state.simulated:
            settle += "; look longer with --seconds N, or give the log of the last hours with --log FILE"
        notes.add(Open(what="acceptance", why=judgement.reason, settle=settle, decides=True))
    elif promises and judgement.word == NOT_PROMISED:
        notes.add(Open(what="acceptance against a promise", why=judgement.reason, settle=judgement.settle))
    elif not promises:
        notes.add(
            Open(
                what="acceptance against a promise",
                why="the drafter's record promises nothing",
                settle="drafters acceptance add REFERENCE FILE, measured where it works",
            )
        )
    else:
        notes.add(f"acceptance: {judgement.word}, from {patient.seen.told}")


def _states(patient: Patient, contract: Contract, situation: Situation) -> Cause | Open | str:
    name = contract.reference or contract.directory or situation.drafter_name or "REFERENCE"
    try:
        return states.compare(patient.state, contract, patient.url, name)
    except ContractsError as error:
        settle = f"drafters verify {name} --url {patient.url}"
        return Open(what=STATES, why=error.diagnostics(), settle=settle)


def _context(patient: Patient, contract: Contract, verdict: Verdict) -> dict[str, str]:
    running = patient.running
    told = {
        "engine from": running.engine.taken_from,
        "engine profile": running.engine.profiled,
        "contract from": contract.found_by,
        "acceptance from": patient.seen.told,
    }
    kept = ("algorithm", "trained on", "stated by", "captures", "graph replay")
    return {key: value for key, value in told.items() if value} | {
        key: verdict.context[key] for key in kept if verdict.context.get(key)
    }


def _once(found: list[Open]) -> tuple[Open, ...]:
    """What is open, what decides first; each once."""
    once = {(one.what, one.why): one for one in found}
    return tuple(sorted(once.values(), key=lambda one: not one.decides))
