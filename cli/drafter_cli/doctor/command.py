"""`drafters doctor`: why the drafter of a running engine is not accepted."""

from __future__ import annotations

import os
import sys
import time

from drafter_cli.client.registry_option import OPTIONS as REGISTRY
from drafter_cli.client.registry_option import of_registry
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNKNOWN, UsageError
from drafter_cli.gate_options import OPTIONS as GATE
from drafter_cli.gate_options import Request, is_path, release, stated_layout
from drafter_cli.terminal import Style, colours, write, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.doctor.examine import Patient
    from drafter_cli.doctor.seen import Seen
    from drafter_cli.observing.engine import EngineClient
    from drafter_contracts.acceptance.causes import Diagnosis, Open
    from drafter_contracts.acceptance.promises import Promise

#: Most seconds for which counters are looked at: they stop to be when the verdict on them is there.
_SECONDS = 60.0
#: Seconds without a byte: an engine answers between two forward passes, and a long prefill is one.
_TIMEOUT = 60.0

COMMANDS = {
    "doctor": Command(
        name="doctor",
        summary="why is the drafter of this running engine not accepted?",
        description=(
            "Reads what a running engine says of its arguments and version, makes the launch that is really running\n"
            "out of them, finds the drafter's contract, and checks the one against the other; compares acceptance\n"
            "with what was promised, the drafter's files with their digests, and, where the engine returns states,\n"
            "these with the drafter's fingerprint. Prints the causes, likeliest first, with the evidence for each and\n"
            "what to do next; what was looked at and found right; and what could not be looked at.\n"
            "REFERENCE is a stored version or a drafter's directory; without it the engine's own draft path is meant.\n"
            "Without an engine to ask, give its log and its launch. Nothing is started or changed. The engine's key,\n"
            "if it has one, goes into DRAFTERS_ENGINE_KEY. Exits with 0 where nothing wrong is found, with 3 where a\n"
            "cause is, with 5 where it cannot be told."
        ),
        words=("[REFERENCE]",),
        options=(
            Option("--url", "the running engine", "URL"),
            Option("--log", "its log, - for standard input; alone (then -- LAUNCH...) or beside --url", "FILE"),
            Option("--seconds", f"to look at its counters at most; default: {_SECONDS:g}, 0 for none", "SECONDS"),
            Option("--engine", "the release or installation, if it is other than the engine says", "RELEASE|PATH"),
            Option("--target", "directory or Hub id of the target; default: the engine's model path", "PATH"),
            *(option for option in GATE if option.name in ("--boundaries", "--output-ids", "--manifest")),
            JSON,
            *REGISTRY,
        ),
        examples=(
            ("drafters doctor --url http://localhost:30000", "everything from the engine, on its machine"),
            ("drafters doctor kimi-eagle3@prod --url http://engine:30000", "from anywhere, by the stored version"),
            ("drafters doctor --log engine.log -- $(cat launch.txt)", "without asking the engine"),
        ),
        launch=True,
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Print the diagnosis; returns its exit code."""
    patient = _patient(parsed)
    from drafter_cli.doctor.examine import examine
    from drafter_contracts.acceptance.causes import FOUND, NOTHING

    found = examine(patient)
    code = {NOTHING: EXIT_OK, FOUND: EXIT_REFUSED}.get(found.word, EXIT_UNKNOWN)
    if parsed.has("--json"):
        write_json(document(found, code))
    else:
        from drafter_cli.doctor.view import render

        write(render(found, Style(on=colours(sys.stdout))))
    return code


def document(found: Diagnosis, code: int) -> dict[str, object]:
    """The diagnosis for `--json`, with its exit code; described in docs/doctor.md."""
    import msgspec

    told: dict[str, object] = msgspec.to_builtins(found)
    always: dict[str, object] = {"causes": [], "checked": [], "open": [], "acceptance": None, "context": {}}
    opened = [{"decides": one.decides, **msgspec.to_builtins(one)} for one in found.open]
    return always | told | {"open": opened, "exit_code": code}


def _patient(parsed: Parsed) -> Patient:
    """Engine or log, and everything that is read before it is looked at.

    Raises:
        UsageError: Neither, or a launch that is not needed.
    """
    if not parsed.has("--url") and not parsed.has("--log"):
        raise UsageError("nothing to look at", "give --url http://HOST:PORT, or --log FILE -- LAUNCH...")
    if parsed.has("--url") and parsed.launch:
        raise UsageError("--url and a launch state the same thing", "the engine says its own arguments: leave one out")
    if not parsed.has("--url") and not parsed.launch:
        raise UsageError("no launch command", "it comes last: --log FILE -- python -m sglang.launch_server ...")
    seconds = _seconds(parsed)
    asked, promises, left_open = _drafter(parsed)
    if parsed.has("--url"):
        return _by_url(parsed, asked, seconds, promises, left_open)
    return _by_log(parsed, asked, promises, left_open)


def _by_url(
    parsed: Parsed, asked: Request, seconds: float, promises: tuple[Promise, ...], left_open: tuple[Open, ...]
) -> Patient:
    from drafter_cli.doctor.examine import Patient, promises_of
    from drafter_cli.doctor.running import of_state, with_environment
    from drafter_cli.doctor.seen import is_settled, of_engine
    from drafter_cli.observing.engine import EngineClient
    from drafter_contracts.acceptance.causes_of_engine import unseen_environment

    client = EngineClient(parsed.value("--url"), timeout=_TIMEOUT, patience=2 * _TIMEOUT)
    state = client.state()
    environment = _environment(client)
    state = with_environment(state, environment)
    running = of_state(state, asked, environment)
    if parsed.has("--log"):
        seen = _read_log(parsed)
    else:
        known = (*promises_of(running), *promises)
        seen = of_engine(client, state, seconds, time.sleep, lambda readings: is_settled(readings, state, known))
    if environment is None:
        left_open = (*left_open, unseen_environment())
    return Patient(client.url, running, state, seen, client.url, promises, _digests(parsed), left_open)


def _by_log(parsed: Parsed, asked: Request, promises: tuple[Promise, ...], left_open: tuple[Open, ...]) -> Patient:
    from msgspec.structs import replace

    from drafter_cli.doctor.examine import Patient
    from drafter_cli.doctor.running import of_launch, state_of_log

    running = of_launch(replace(asked, launch=parsed.launch or ()))
    seen = _read_log(parsed)
    state = state_of_log(running, seen.arguments)
    return Patient(parsed.value("--log"), running, state, seen, "", promises, _digests(parsed), left_open)


def _read_log(parsed: Parsed) -> Seen:
    """Everything that the log holds now; of a pipe, up to its end.

    Raises:
        UsageError: It cannot be read.
    """
    from drafter_cli.doctor.seen import of_log
    from drafter_cli.observing.follow import STANDARD_INPUT, Follower

    path = parsed.value("--log")
    if path == STANDARD_INPUT:
        return of_log(tuple(sys.stdin.read().splitlines()), "standard input")
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist", "--log names the engine's log file")
    follower = Follower(path, from_start=True)
    try:
        lines = follower.poll()
        while follower.behind:
            lines += follower.poll()
    finally:
        follower.close()
    return of_log(lines, path)


def _environment(client: EngineClient) -> dict[str, str] | None:
    """The engine's own variables, where it runs on this machine as the same user."""
    if not client.address.is_loopback:
        return None
    from drafter_cli.observing.environment import environments

    found = environments(client.address.port)
    if found is None:
        return None
    merged: dict[str, str] = {}
    for one in found:
        merged |= {name: value for name, value in one.items() if name.startswith(("SGLANG_", "SGL_", "SIMULATE_ACC"))}
    return merged


def _drafter(parsed: Parsed) -> tuple[Request, tuple[Promise, ...], tuple[Open, ...]]:
    """What is asked of the gate, promises attached to a stored version, and what of these could not be read.

    Raises:
        UsageError: Neither a registry nor the cache has it.
        RegistryError: The registry has no such version.
    """
    word, engine = parsed.word(0), parsed.value("--engine")
    boundaries, option = stated_layout(parsed)
    asked = Request(
        launch=(),
        drafter=word,
        engine=release(engine) if engine and not is_path(engine) else "",
        engine_path=engine if is_path(engine) else "",
        target=parsed.value("--target"),
        boundaries=boundaries,
        option=option,
        manifest=parsed.value("--manifest"),
        quiet=parsed.has("--json"),
    )
    if not word or os.path.isdir(word):
        return asked, (), ()
    from drafter_cli.doctor.stored import stored

    return stored(of_registry(parsed), asked)


def _digests(parsed: Parsed) -> str:
    from drafter_cli.client import configuration

    cache = os.path.abspath(os.path.expanduser(configuration.read(of_registry(parsed)).value("cache")))
    return os.path.join(cache, "digests")


def _seconds(parsed: Parsed) -> float:
    if not parsed.has("--seconds"):
        return _SECONDS
    try:
        value = float(parsed.value("--seconds"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 3600:
        raise UsageError(f"--seconds is {parsed.value('--seconds')!r}", "write seconds, 0 to 3600")
    return value
