"""The gate for launchers in Python: judge a launch before it is started.

    import sglang as sgl
    from drafter_cli.guard import require_compatible

    arguments = {"model_path": "./Kimi-K2.5", "speculative_algorithm": "EAGLE3", ...}
    require_compatible(arguments)
    engine = sgl.Engine(**arguments)

Nothing of torch or SGLang is imported: an engine is read, not run.
"""

from __future__ import annotations

import os
import sys

from drafter_cli.errors import IncompatibleError, UsageError, exit_code_of_decision
from drafter_cli.guard_mode import ENFORCE, OFF, mode_of
from drafter_cli.light_imports import import_msgspec

import_msgspec()

from drafter_contracts.errors import ContractsError, LaunchError  # noqa: E402 - after msgspec was imported lightly
from drafter_contracts.verdict import NOTE, Finding, Verdict, conclude  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from drafter_cli.gate_options import Request
    from drafter_cli.launched_engine import Engine
    from drafter_contracts.engines.profile import Profile

#: Start of a launch that is given by its values: the interpreter is this one.
_SERVER = ("-m", "sglang.launch_server")
#: Fields of a `ServerArgs` one of which is set if it speculates.
SPEAKING = ("speculative_algorithm", "speculative_draft_model_path")
#: Names of values that decide what is captured, beside all that begin so.
_DECIDING = ("model_path", "revision", "json_model_override_args")
_SPECULATIVE = "speculative"


def require_compatible(
    launch: Sequence[str] | Mapping[str, object] | object,
    *,
    drafter: str | None = None,
    engine: str | None = None,
    target: str | None = None,
    output_ids: Sequence[int] | None = None,
    manifest: str | None = None,
    mode: str | None = None,
) -> Verdict:
    """Judge a launch as `drafters guard` does, and raise if it must not start.

    Args:
        launch: A command (`["python", "-m", "sglang.launch_server", ...]`), the keyword arguments of `sgl.Engine`, or
            a `ServerArgs`. Values are judged as they are. A `ServerArgs` of a release that resolves when it is made
            (before 0.5.20) thus is judged by what is in force, silent adjustments included; later ones, and keyword
            arguments, are what was stated, and the release's adjustments are applied to them.
        drafter: Directory, Hub id or reference of the drafter; None for the launch's own.
        engine: Release (`"sglang==0.5.23"`) or the path of an engine; None for the one that the command's interpreter
            has, or for values the one that this process would import.
        target: Directory or Hub id of the target; None for the launch's own.
        output_ids: The layout trained on, as output ids in concatenation order (-1 is the embedding); None for what
            the drafter's manifest or config states.
        manifest: The drafter's manifest; None for the one beside its weights.
        mode: "enforce", "warn" (say it on standard error and return) or "off" (judge nothing); None for what
            `DRAFTERS_GUARD` says, and "enforce" if it says nothing.

    Returns:
        The verdict: "allow" or "warn"; in mode "warn" whatever it is. In mode "off", and in mode "warn" where the
        launch cannot be read, an "unknown" verdict without findings: nothing was checked.

    Raises:
        IncompatibleError: The verdict is "refuse" or "unknown"; it is attached as `verdict`.
        UsageError: The launch is of no kind that can be judged, or the mode, the engine or the ids are none.
        InputError: Something that the launch names cannot be read: a value, a manifest, a profile.
    """
    chosen = mode_of(mode or "")
    if chosen == OFF:
        return conclude((), ())
    try:
        verdict = _judged(launch, _request(drafter, engine, target, output_ids, manifest))
    except (UsageError, ContractsError) as error:
        if chosen == ENFORCE:  # a traceback shows the message alone: the note says which value, and what to do
            error.add_note(error.diagnostics() if isinstance(error, ContractsError) else error.hint)
            raise
        from drafter_cli.main import report

        report(error, to_stderr=True)
        return conclude((), ())
    if exit_code_of_decision(verdict.decision):
        from drafter_cli.terminal import Style, write
        from drafter_cli.verdict_view import render

        told = render(verdict, Style(on=False))
        if chosen == ENFORCE:
            raise IncompatibleError(verdict, told)
        write(told, to_stderr=True)
    return verdict


def _request(
    drafter: str | None,
    engine: str | None,
    target: str | None,
    output_ids: Sequence[int] | None,
    manifest: str | None,
) -> Request:
    """What is asked, but for the launch.

    Raises:
        UsageError: The engine or the ids are none.
    """
    from drafter_cli.gate_options import Request, is_path, release

    if output_ids is not None and not (output_ids and all(type(one) is int and one >= -1 for one in output_ids)):
        raise UsageError(f"output_ids is {output_ids!r}", "whole numbers from -1 (the embedding) on")
    path = engine if engine and is_path(engine) else ""
    return Request(
        launch=(),
        drafter=drafter or "",
        engine=release(engine) if engine and not path else "",
        engine_path=path,
        target=target or "",
        boundaries=None if output_ids is None else tuple(number + 1 for number in output_ids),
        option="" if output_ids is None else f"output_ids={list(output_ids)}",
        manifest=manifest or "",
    )


def _judged(launch: object, asked: Request) -> Verdict:
    """The verdict on a launch of any kind.

    Raises:
        UsageError: It is of no kind that can be judged.
        InputError: Something that it names cannot be read.
    """
    from msgspec.structs import replace

    from drafter_contracts.serving.arguments_of import record_fields

    if isinstance(launch, dict) and launch.get("server_args") is not None:
        launch = launch["server_args"]
    if isinstance(launch, (list, tuple)) and launch and all(isinstance(word, str) for word in launch):
        return _of_command(replace(asked, launch=tuple(launch)))
    if hasattr(launch, "keys") and hasattr(launch, "__getitem__"):
        return _of_keywords({str(name): launch[name] for name in launch.keys()}, asked)  # noqa: SIM118
    if not isinstance(launch, type) and record_fields(launch) is not None:
        return judge_record(launch, asked)
    raise UsageError(
        f"a launch cannot be read from a {type(launch).__name__}",
        "give the command as a list of words, the keyword arguments of sgl.Engine, or a ServerArgs",
    )


def _of_command(asked: Request) -> Verdict:
    from drafter_cli.plain_launch import speaks_of_speculation

    if not speaks_of_speculation(asked.launch):
        return _silent()
    from drafter_cli.gate import judge
    from drafter_cli.gate_options import with_drafter_here

    return judge(with_drafter_here(asked))


def judge_record(record: object, asked: Request) -> Verdict:
    """The verdict on a `ServerArgs`, by the values of its fields.

    Args:
        record: Any object with its fields.
        asked: What is asked, but for the launch.

    Raises:
        UsageError: It has no such fields, or the engine or drafter that is named is not there.
        InputError: A value that decides cannot be written as an option of this release, or something that it names
            cannot be read.
    """
    if not hasattr(record, SPEAKING[0]):
        raise UsageError(f"a {type(record).__name__} has no {SPEAKING[0]}", "give a ServerArgs")
    if not any(getattr(record, name, None) for name in SPEAKING):
        return _silent()
    from drafter_contracts.serving.arguments_of import stated_values

    return _of_values(asked, lambda profile: stated_values(profile.launch.flags, record), typed=False)


def _of_keywords(values: Mapping[str, object], asked: Request) -> Verdict:
    """The verdict on the keyword arguments of `sgl.Engine`; errors as of `judge_record`."""
    if not any(name.startswith(_SPECULATIVE) and value for name, value in values.items()):
        return _silent()
    return _of_values(asked, lambda _: values, typed=True)


def _of_values(asked: Request, values: Callable[[Profile], Mapping[str, object]], *, typed: bool) -> Verdict:
    """The verdict on a launch that is given by its option values."""
    from msgspec.structs import replace

    from drafter_cli.gate import judge
    from drafter_cli.gate_options import with_drafter_here

    asked = with_drafter_here(_with_engine_here(asked))
    engine = _read_engine(asked)
    argv: tuple[str, ...] = ()
    left = ""
    if engine.profile is not None:
        argv, left = _arguments(engine.profile, values(engine.profile), typed=typed)
    verdict = judge(replace(asked, launch=(sys.executable, *_SERVER, *argv)), engine)
    return replace(verdict, context=verdict.context | {"not judged": left}) if left else verdict


def _silent() -> Verdict:
    """The verdict on a launch that says nothing of speculation; no profile, target or engine is looked at."""
    code = "NO_SPECULATION"
    finding = Finding(code, NOTE, "the launch does not speculate; there is no drafter to check")
    return conclude((finding,), (code,))


def _with_engine_here(asked: Request) -> Request:
    """The request about the engine that this process would import, if it names none."""
    if asked.engine or asked.engine_path:
        return asked
    from importlib.util import find_spec

    from msgspec.structs import replace

    try:
        spec = find_spec("sglang")
    except (ImportError, ValueError):  # ValueError: something else stands under that name
        spec = None
    place = next(iter((spec and spec.submodule_search_locations) or ()), "")
    if not place or not os.path.isdir(os.path.join(place, "srt")):
        return asked
    return replace(asked, engine_path=place, engine_called=f"the package that this process imports, {place}")


def _read_engine(asked: Request) -> Engine:
    from msgspec.structs import replace

    from drafter_cli.launched_engine import read_engine
    from drafter_contracts.serving.invocation import read_invocation

    launch = (sys.executable, *_SERVER)
    return read_engine(replace(asked, launch=launch), read_invocation(launch))


def _arguments(profile: Profile, values: Mapping[str, object], *, typed: bool) -> tuple[tuple[str, ...], str]:
    """The values as arguments, and in words which of them no argument gives.

    Raises:
        LaunchError: A value that decides is among these.
    """
    from drafter_contracts.serving.arguments_of import arguments_of

    written = arguments_of(profile.launch.flags, values)
    for name, takes in written.unwritable.items():
        if name.startswith(_SPECULATIVE) or name in _DECIDING:
            message = f"{profile.name} has no option that takes this value"
            raise LaunchError(message, where=name, expected=takes, actual=repr(values[name])[:120])
    for name, nearest in written.unknown.items():
        if typed and name.startswith(_SPECULATIVE):
            message = f"{profile.name} has no such option"
            raise LaunchError(message, where=name, expected=nearest, actual=repr(values[name])[:120])
    left = ", ".join((*written.unknown, *written.unwritable))
    return written.argv, f"{left}: no option of {profile.name} gives such a value" if left else ""
