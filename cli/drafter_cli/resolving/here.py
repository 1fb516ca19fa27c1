"""A resolution computed on this machine, by the files that were pulled and the engine that is here."""

from __future__ import annotations

from functools import partial

from drafter_cli.launched_engine import ENGINE
from drafter_contracts import check
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.engines.store import advisories_for, load_advisories, load_profile, releases
from drafter_contracts.errors import InternalError
from drafter_contracts.launch import vllm_plan
from drafter_contracts.launch.others import others
from drafter_contracts.launch.plan import plan
from drafter_contracts.launch.plan_records import Plan
from drafter_contracts.launch.target_facts import target_of_record
from drafter_contracts.recording.fingerprint import fingerprint
from drafter_contracts.serving.launch import Invocation, ServingConfig
from drafter_registry.documents import Resolution
from drafter_registry.errors import RefusedError, UnknownError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.cache.fetched import Fetched
    from drafter_cli.launched_engine import Engine
    from drafter_cli.resolving.request import Asked


def resolve_here(asked: Asked, found: Fetched) -> Resolution:
    """The flags for the engine that is asked for, its draft path left open.

    Args:
        asked: The question.
        found: The drafter's files.

    Raises:
        RefusedError: The engine cannot serve it; with the whole verdict.
        UnknownError: Whether it can is not known.
        ContractsError: Files that cannot be read, or options that no launch can have.
    """
    manifest = found.manifest
    made = _plan(asked, found, f"{manifest.name}@{manifest.version}")
    _require(made, f"{manifest.name}@{manifest.version}")
    return Resolution(
        name=manifest.name,
        version=manifest.version,
        digest=found.digest,
        fingerprint=fingerprint(manifest),
        engine=made.engine,
        flags=made.flags,
        config=made.config,
        config_changes=made.config_changes,
        weights=made.weights,
        files=manifest.files,
        manifest=manifest,
        verdict=made.verdict,
        notices=made.notices,
    )


def require_known(engine: Engine, name: str) -> None:
    """Whether anything is known of the engine: nothing need be fetched for the answer that nothing is.

    Raises:
        UnknownError: Nothing is; the verdict says what would give it.
    """
    if not engine.known:
        situation = check.assemble(
            serving=ServingConfig(Invocation(())),
            engine=engine.name,
            engine_problem=engine.problem,
            engine_remedy=engine.remedy,
            drafter_name=name,
        )
        _require(Plan(engine.name, check.run(situation)), name)


def _require(made: Plan, name: str) -> None:
    """Raise if there are no flags."""
    if not made.resolved:
        message, hint = made.why_not(name)
        kind = UnknownError if made.open else RefusedError
        raise kind(message, verdict=made.verdict, hint=hint)


def _plan(asked: Asked, found: Fetched, name: str) -> Plan:
    engine, manifest = asked.engine, found.manifest
    require_known(engine, name)
    target = asked.target_here(with_tokenizer=bool(manifest.target.tokenizer_sha256)) or target_of_record(
        manifest.target, asked.target
    )
    facts = read_drafter(
        found.directory,
        target_layers=target.num_layers,
        target_hidden_size=target.hidden_size,
        target_model_type=target.text_model_type,
    )
    if engine.vllm is not None:
        return vllm_plan.plan(
            manifest=manifest,
            facts=facts,
            profile=engine.vllm,
            target=target,
            draft_path=asked.draft_path,
            wishes=asked.wishes,
            name=name,
            sglang=load_profile(ENGINE, releases(ENGINE)[-1]),
        )
    if engine.profile is None:
        raise InternalError("an engine of which nothing is known was let through", where=name)
    return plan(
        manifest=manifest,
        facts=facts,
        profile=engine.profile,
        target=target,
        advisories=advisories_for(load_advisories(ENGINE), engine.release),
        draft_path=asked.draft_path,
        wishes=asked.wishes,
        name=name,
        others=partial(others, engine=ENGINE, release=engine.release),
    )
