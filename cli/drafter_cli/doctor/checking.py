"""The check on what is really running, and the drafter's contract that it is held against."""

from __future__ import annotations

import os

import msgspec
from msgspec.structs import replace

from drafter_cli.gate import drafter_directory, read_situation
from drafter_cli.launched_engine import ENGINE
from drafter_contracts import check
from drafter_contracts.errors import CheckpointError
from drafter_contracts.manifest import FILE_NAME, Manifest, read_manifest
from drafter_contracts.verdict import REFUSE, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.doctor.running import Running
    from drafter_contracts.situation import Situation


class Contract(msgspec.Struct, frozen=True):
    """The drafter's record.

    Attributes:
        manifest: What it was trained on and promises; None if nothing states it.
        directory: Files that were judged; "" if they are not on this machine.
        served: Files that the engine loads, where they are on this machine; else "".
        reference: The stored version, if one was named; else "".
        found_by: Where the manifest was taken from.
    """

    manifest: Manifest | None = None
    directory: str = ""
    served: str = ""
    reference: str = ""
    found_by: str = ""


def contract_of(running: Running) -> Contract:
    """The drafter's contract: of the named version or directory, else beside the files that the engine loads.

    Raises:
        ManifestError: There is one and it cannot be read.
    """
    from drafter_contracts.serving.read import read_serving

    asked = running.request
    served, directory = "", asked.drafter
    if running.engine.profile is not None:
        serving = read_serving(running.invocation, running.engine.profile)
        served = drafter_directory(replace(asked, drafter=""), serving) or ""
    directory = directory if os.path.isdir(directory) else ("" if asked.drafter else served)
    if asked.manifest:
        from drafter_contracts import limits
        from drafter_contracts.checkpoint.regular import read_capped
        from drafter_contracts.manifest import decode

        manifest = decode(read_capped(asked.manifest, limits.manifest_max_bytes), where=asked.manifest)
        return Contract(manifest, directory, served, asked.called, asked.manifest)
    found = read_manifest(directory) if directory else None
    where = asked.called or (f"beside the drafter's files, {directory}" if found is not None else "")
    return Contract(found, directory, served, asked.called, where)


def check_running(running: Running, contract: Contract) -> tuple[Verdict, Situation]:
    """The verdict on what runs.

    Where the engine loads other files than those that were asked for, and they are on this machine, they are judged: by
    their own record, else by that of those that were asked for. Where the target's files are not on this machine, its
    record in the manifest is believed.

    Raises:
        InputError: A layout option or a manifest cannot be read.
    """
    situation = read_situation(running.request, running.invocation, running.engine)
    directory = contract.directory
    if situation.drafter_served and contract.served and contract.directory:
        situation, directory = _as_loaded(situation, running, contract), contract.served
    if situation.target is None and contract.manifest is not None and contract.manifest.target.layers:
        situation = _with_record(situation, running, contract.manifest, directory)
    verdict = check.run(situation)
    if verdict.decision == REFUSE and running.engine.profile is not None:
        from drafter_contracts.launch.others import others

        elsewhere = others(situation, ENGINE, running.engine.release)
        verdict = check.run(replace(situation, elsewhere=elsewhere))
    return verdict, situation


def _as_loaded(s: Situation, running: Running, contract: Contract) -> Situation:
    """The situation with the drafter that the engine loads; that it is another than was asked for is still said."""
    own, asked = (os.path.join(directory, FILE_NAME) for directory in (contract.served, contract.directory))
    manifest = running.request.manifest
    if not manifest and not os.path.isfile(own) and os.path.isfile(asked):
        manifest = asked
    loaded = read_situation(replace(running.request, drafter="", manifest=manifest), running.invocation, running.engine)
    if loaded.drafter is None:
        return s
    return replace(loaded, drafter_name=s.drafter_name, drafter_served=s.drafter_served)


def _with_record(s: Situation, running: Running, manifest: Manifest, directory: str) -> Situation:
    """The situation with the target as the manifest records it."""
    from drafter_contracts.checkpoint.read import read_drafter
    from drafter_contracts.launch.target_facts import target_of_record
    from drafter_contracts.serving.adjust import with_target

    target = target_of_record(manifest.target, s.serving.target_path)
    facts = s.drafter
    if directory:
        try:
            facts = read_drafter(
                directory,
                target_layers=target.num_layers,
                target_hidden_size=target.hidden_size,
                target_model_type=target.text_model_type,
            )
        except CheckpointError:  # said already, of the same files
            facts = s.drafter
    serving = s.serving
    if s.profile is not None:
        serving = with_target(
            serving,
            s.profile,
            target=target,
            draft_architecture=facts.architectures[0] if facts is not None and facts.architectures else "",
            draft_config=facts.config if facts is not None else None,
        )
    return check.assemble(
        serving=serving,
        profile=s.profile,
        engine=s.engine,
        engine_guess=s.engine_guess,
        engine_problem=s.engine_problem,
        engine_remedy=s.engine_remedy,
        drafter=facts,
        drafter_name=s.drafter_name,
        drafter_problem=s.drafter_problem,
        drafter_served=s.drafter_served,
        target=target,
        manifest=manifest,
        stated_option=s.stated if running.request.boundaries is not None else None,
        advisories=s.advisories,
    )
