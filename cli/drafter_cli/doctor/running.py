"""The launch that a running engine is, made from the arguments that it says are in force."""

from __future__ import annotations

import os
import shlex
import sys

import msgspec
from msgspec.structs import replace

from drafter_cli.gate_options import Request
from drafter_cli.launched_engine import ENGINE, Engine, read_engine
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.launch import Invocation, Speculation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.acceptance.records import EngineState

_SERVER = ("python3", "-m", "sglang.launch_server")
#: Variables of this shell that say something of an engine started from it, and nothing of one that runs.
_ENGINES = ("SGLANG_", "SGL_", "DRAFTERS_")
_MODEL, _DRAFT = "model_path", "speculative_draft_model_path"
#: A launch command as the engine repeats it: not of a shell's making, but its words joined.
_COMMAND = "launch_command"


class Running(msgspec.Struct, frozen=True):
    """An engine's launch, ready to be checked.

    Attributes:
        request: What is asked of the gate.
        invocation: The command.
        engine: The release, and its profile.
        stated: Speculation as it was asked for, where that is told apart from what is in force; else None.
        left: Arguments in force that no option of the release gives.
        is_up: Whether the engine runs.
    """

    request: Request
    invocation: Invocation
    engine: Engine
    stated: Speculation | None = None
    left: tuple[str, ...] = ()
    is_up: bool = False


def of_state(state: EngineState, asked: Request, environment: dict[str, str] | None = None) -> Running:
    """The launch of a running SGLang.

    Args:
        state: What it says of itself.
        asked: What is asked, but for the launch; an engine named there is believed before the one that answers.
        environment: The engine's own variables, where they could be read.
    """
    engine = _engine(state, asked)
    argv: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    if engine.profile is not None:
        from drafter_contracts.serving.arguments_of import arguments_of, stated_values

        flags = engine.profile.launch.flags
        written = arguments_of(flags, stated_values(flags, _judged(state)))
        argv, left = written.argv, tuple(written.unwritable)
    launch = (*_SERVER, *argv)
    here = {name: value for name, value in os.environ.items() if not name.startswith(_ENGINES)}
    invocation = replace(read_invocation(launch), environment=here | (environment or {}))
    request = replace(asked, launch=launch)
    return Running(request, invocation, engine, _stated(state, engine), left, is_up=True)


def of_launch(asked: Request) -> Running:
    """The launch that somebody gives, as `drafters check` reads it."""
    invocation = read_invocation(asked.launch)
    if not invocation.image:
        invocation = replace(invocation, environment=dict(os.environ) | invocation.environment)
    return Running(asked, invocation, read_engine(asked, invocation))


def with_environment(state: EngineState, environment: dict[str, str] | None) -> EngineState:
    """What the engine says of itself, and whether its environment makes its figures up."""
    from drafter_contracts.acceptance.simulation import simulated_in

    if state.simulated or not environment:
        return state
    return replace(state, simulated=simulated_in(environment, state.release))


def state_of_log(running: Running, arguments: dict[str, object]) -> EngineState:
    """What a launch and the log of its engine say together.

    Args:
        running: The launch.
        arguments: Arguments in force, as the log states them; empty if it does not.

    Returns:
        The log's arguments alone, and the conditions of both.
    """
    from drafter_contracts.acceptance.records import EngineState
    from drafter_contracts.acceptance.server_info import read_state
    from drafter_contracts.errors import InputError
    from drafter_contracts.serving.read import read_serving

    bare = EngineState(engine=ENGINE, release=running.engine.release, arguments=dict(arguments))
    launched: dict[str, object] = {}
    if running.engine.profile is not None:
        launched = read_serving(running.invocation, running.engine.profile).arguments.values
    document = {**launched, **arguments, "version": running.engine.release}
    try:
        told = read_state(document, where="the log and the launch")
    except InputError:  # numbers that no engine has: the check speaks of them
        return bare
    return replace(bare, conditions=told.conditions, simulated=_simulated(running))


def _simulated(running: Running) -> str:
    from drafter_contracts.acceptance.simulation import simulated_in

    return simulated_in(running.invocation.environment, running.engine.release)


def _engine(state: EngineState, asked: Request) -> Engine:
    if asked.engine or asked.engine_path:
        return read_engine(asked, read_invocation((sys.executable, *_SERVER[1:])))
    if not state.release:
        return Engine("", "the engine does not say its release", None, remedy="Say --engine sglang==VERSION.")
    found = read_engine(replace(asked, engine=state.release), read_invocation(_SERVER))
    return replace(found, taken_from="the running engine's own word")


def _judged(state: EngineState) -> dict[str, object]:
    """The arguments in force, without the draft path that a release fills in where the target brings the drafter."""
    values = dict(state.arguments)
    if values.get(_DRAFT) and values.get(_DRAFT) == values.get(_MODEL):
        del values[_DRAFT]
    return values


def _stated(state: EngineState, engine: Engine) -> Speculation | None:
    """Speculation as the engine's own record of its launch states it; None where it keeps none or it cannot be read."""
    command = state.arguments.get(_COMMAND)
    if not isinstance(command, str) or engine.profile is None:
        return None
    from drafter_contracts.serving.read import read_serving

    try:
        words = shlex.split(command)
    except ValueError:
        return None
    start = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    if start == len(words):  # a call of its Python interface, or no options at all
        return None
    return read_serving(read_invocation((*_SERVER, *words[start:])), engine.profile).speculation
