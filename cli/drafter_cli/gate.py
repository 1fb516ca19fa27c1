"""The gate: reads everything that a verdict needs, once, and hands it to the rules.

One function per thing that is read. What cannot be read becomes the verdict's own finding (`unknown`, with what would
settle it); only what the caller wrote wrongly is raised.
"""

from __future__ import annotations

import os

import msgspec

from drafter_cli.errors import UsageError
from drafter_cli.launched_engine import ENGINE, Engine, read_engine
from drafter_contracts import check
from drafter_contracts.engines.store import advisories_for, load_advisories
from drafter_contracts.errors import CheckpointError, InputError, ManifestError, TargetError
from drafter_contracts.hub_cache import find
from drafter_contracts.layout import layout_from_boundaries
from drafter_contracts.rules import find_rule
from drafter_contracts.serving.adjust import with_target
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.launch import ServingConfig
from drafter_contracts.serving.read import read_serving
from drafter_contracts.serving.target import read_target
from drafter_contracts.situation import Situation, StatedLayout
from drafter_contracts.verdict import REFUSE, conclude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.gate_options import Request
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import Invocation, TargetFacts
    from drafter_contracts.verdict import Verdict

#: The one finding of a command that is no launch as far as can be read.
UNREADABLE = "LAUNCH_UNREADABLE"


class Drafter(msgspec.Struct, frozen=True):
    """A drafter as far as it can be read.

    Attributes:
        name: As asked for: path or Hub id.
        directory: Where its files are; "" if they are not on this machine.
        facts: What they say; None if they cannot be read.
        problem: Why not.
    """

    name: str = ""
    directory: str = ""
    facts: DrafterFacts | None = None
    problem: str = ""


class Judged(msgspec.Struct, frozen=True):
    """A verdict, and what it rests on.

    Attributes:
        verdict: The verdict.
        engine: The engine; None for a command that is no launch as far as can be read.
        situation: Everything that the rules looked at; None likewise.
    """

    verdict: Verdict
    engine: Engine | None = None
    situation: Situation | None = None


def judge(request: Request, engine: Engine | None = None) -> Verdict:
    """The verdict on a request; arguments and errors as of `look`."""
    return look(request, engine).verdict


def look(request: Request, engine: Engine | None = None) -> Judged:
    """The verdict on a request, and what it rests on.

    Args:
        request: What is asked.
        engine: The engine that the launch would run, where it has been read already.

    Raises:
        InputError: The launch, a layout option or a manifest cannot be read.
    """
    invocation = _with_surroundings(read_invocation(request.launch))
    if not invocation.entry:
        return Judged(_unreadable(invocation))
    engine = engine or read_engine(request, invocation)
    situation = read_situation(request, invocation, engine)
    situation = msgspec.structs.replace(situation, plugins=_left_out(invocation, engine))
    verdict = check.run(situation)
    if verdict.decision == REFUSE and engine.profile is not None:
        from drafter_contracts.launch.others import others

        # Whether another release could serve this drafter is worth a look at all the others only now.
        verdict = check.run(msgspec.structs.replace(situation, elsewhere=others(situation, ENGINE, engine.release)))
    verdict = msgspec.structs.replace(verdict, context=_context(verdict, request, engine, situation))
    return Judged(verdict, engine, situation)


def _with_surroundings(invocation: Invocation) -> Invocation:
    """The launch with the variables that it inherits from here; a container inherits none."""
    if invocation.image:
        return invocation
    return msgspec.structs.replace(invocation, environment=dict(os.environ) | invocation.environment)


def _left_out(invocation: Invocation, engine: Engine) -> str:
    """The launch's selection of the engine's plugins, where it leaves out this project's, which is installed."""
    selection = invocation.environment.get("SGLANG_PLUGINS", "")
    if not selection or engine.profile is None or not engine.profile.launch.plugins:
        return ""
    from drafter_cli.plugin.handover import installed, left_out

    return selection if left_out(selection) and installed(invocation) else ""


def _unreadable(invocation: Invocation) -> Verdict:
    """A command in which no engine's start can be found: whether it speculates is anybody's guess."""
    findings = find_rule(UNREADABLE).check(Situation(ServingConfig(invocation)))
    return conclude(findings or (), (), {"launch": invocation.argv[0]})


def read_situation(request: Request, invocation: Invocation, engine: Engine) -> Situation:
    """Everything that the rules look at."""
    profile = engine.profile
    serving = read_serving(invocation, profile) if profile is not None else ServingConfig(invocation)
    target, target_problem = _read_target(request, serving, profile)
    drafter, other = _as_served(request, serving, _read_drafter(request, serving, target), target)
    manifest = _read_manifest(request, drafter.directory)
    if target is not None and manifest is not None and manifest.requirements().target_tokenizer_sha256:
        target, target_problem = _read_target(request, serving, profile, with_tokenizer=True)
    if profile is not None:
        facts = drafter.facts
        serving = with_target(
            serving,
            profile,
            target=target,
            draft_architecture=facts.architectures[0] if facts and facts.architectures else "",
            draft_config=facts.config if facts else None,
        )
    return check.assemble(
        serving=serving,
        profile=profile,
        engine=engine.name,
        engine_guess=engine.guess,
        engine_problem=engine.problem,
        engine_remedy=engine.remedy,
        drafter=drafter.facts,
        drafter_name=drafter.name,
        drafter_problem=drafter.problem,
        drafter_served=other,
        target=target,
        target_problem=target_problem,
        manifest=manifest,
        stated_option=_stated_option(request, target),
        advisories=advisories_for(load_advisories(ENGINE), engine.release) if profile is not None else (),
    )


def _read_target(
    request: Request, serving: ServingConfig, profile: Profile | None, *, with_tokenizer: bool = False
) -> tuple[TargetFacts | None, str]:
    path = target_path(request, serving)
    if not path or not (serving.speculation.algorithm or request.target):
        return None, "the launch names no target" if not path else ""
    revision = "" if request.target else serving.target_revision
    rules = profile.launch.overrides if profile is not None else None
    try:
        facts = read_target(
            path,
            revision=revision,
            overrides=serving.overrides if rules is not None and rules.target else None,
            merged=rules.merged if rules is not None else (),
            environment=serving.invocation.environment or None,
            with_tokenizer=with_tokenizer,
        )
    except TargetError as error:
        return None, error.diagnostics()
    return facts, ""


def _read_drafter(request: Request, serving: ServingConfig, target: TargetFacts | None) -> Drafter:
    asked = request.drafter or serving.speculation.draft_path
    if not asked:
        return Drafter()
    directory = drafter_directory(request, serving)
    called = request.called or asked
    if directory is None:
        return Drafter(called, problem=f"{asked} is neither a directory nor in this machine's Hub cache")
    return _read_directory(called, directory, target)


def _read_directory(called: str, directory: str, target: TargetFacts | None) -> Drafter:
    from drafter_contracts.checkpoint.read import read_drafter

    try:
        facts = read_drafter(
            directory,
            target_layers=target.num_layers if target else None,
            target_hidden_size=target.hidden_size if target else None,
            target_model_type=target.text_model_type if target else "",
        )
    except CheckpointError as error:
        return Drafter(called, directory, problem=error.diagnostics())
    return Drafter(called, directory, facts)


def target_path(request: Request, serving: ServingConfig) -> str:
    """Path or Hub id of the target, as it is found from here; "" if nothing names one."""
    return _in_launch_directory(request.target or serving.target_path, serving)


def drafter_directory(request: Request, serving: ServingConfig) -> str | None:
    """Where the files of the drafter that is judged lie on this machine; None if they do not."""
    path = _in_launch_directory(request.drafter or serving.speculation.draft_path, serving)
    revision = "" if request.drafter else serving.speculation.draft_revision
    return find(path, revision, environment=serving.invocation.environment or None)


def _as_served(
    request: Request, serving: ServingConfig, drafter: Drafter, target: TargetFacts | None
) -> tuple[Drafter, str | None]:
    """The drafter to judge, and in what the launch's own differs from it: "" if in nothing, None if unknown.

    Where the launch's drafter is a render of the one that is asked about, the render is judged, by its own manifest.
    """
    path = serving.speculation.stated_draft_path
    if not request.drafter or not path or not drafter.directory:
        return drafter, ""
    from drafter_cli.served_drafter import difference, rendered

    path = _in_launch_directory(path, serving)
    render, why_not = ("", "") if request.manifest else rendered(drafter.directory, drafter.facts, serving, path)
    if render:
        return _read_directory(f"{drafter.name} (a render of it)", render, target), ""
    return drafter, why_not or difference(drafter.directory, drafter.facts, serving, path)


def _in_launch_directory(path: str, serving: ServingConfig) -> str:
    """A relative path as the launch would find it: below the directory that its wrapper changes to."""
    directory = serving.invocation.working_directory
    if not path or not directory or os.path.isabs(path):
        return path
    below = os.path.join(directory, path)
    # A folder of that name here, and none there, is another one: the launch would not see it.
    return below if os.path.isdir(below) or os.path.isdir(path) else path


def _read_manifest(request: Request, directory: str) -> Manifest | None:
    """The manifest named by option, else the one beside the weights, else None.

    Raises:
        UsageError: The option names a file that is not there.
        ManifestError: There is one and it cannot be read: a contract that cannot be read is no contract.
    """
    path = request.manifest or (os.path.join(directory, "drafters-manifest.json") if directory else "")
    if not path or not (request.manifest or os.path.lexists(path)):
        return None
    from drafter_contracts import limits, manifest
    from drafter_contracts.checkpoint.regular import read_capped

    try:
        data = read_capped(path, limits.manifest_max_bytes)
    except CheckpointError as error:
        if request.manifest and not os.path.lexists(path):
            raise UsageError(f"{path} does not exist", "--manifest names a manifest file") from None
        why = ": ".join(filter(None, (error.message, error.actual)))
        raise ManifestError("the manifest cannot be read", where=path, expected=error.expected, actual=why) from None
    return manifest.decode(data, where=path)


def _stated_option(request: Request, target: TargetFacts | None) -> StatedLayout | None:
    """The layout stated by option.

    Raises:
        InputError: A boundary that the target does not have.
    """
    if request.boundaries is None:
        return None
    width = target.hidden_size if target else None
    layers = target.num_layers if target else None
    try:
        layout = layout_from_boundaries(request.boundaries, width=width, num_layers=layers)
    except InputError as error:
        raise type(error)(error.message, where=request.option, expected=error.expected, actual=error.actual) from error
    return StatedLayout(layout, "option", request.option)


def _context(verdict: Verdict, request: Request, engine: Engine, situation: Situation) -> dict[str, str]:
    """The verdict's context, and what only the gate knows: where engine, drafter and target were taken from."""
    context = {"engine": engine.name} | verdict.context
    context["engine from"] = engine.taken_from
    if engine.profiled:
        context["engine profile"] = engine.profiled
    target = request.target or situation.serving.target_path
    if target:
        shape = verdict.context.get("target", "")
        context["target"] = f"{target} ({shape})" if shape else target
        context["target from"] = "option --target" if request.target else "the launch's model path"
    if context.get("drafter"):
        context["drafter from"] = "the DRAFTER argument" if request.drafter else "the launch's draft path"
        if request.called:
            context["drafter from"] = f"the DRAFTER argument, fetched into {request.drafter}"
    image = situation.serving.invocation.image
    if image:
        context["files from"] = f"this machine; the launch runs in {image}"
    return context
