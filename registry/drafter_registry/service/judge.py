"""Check and resolve: whether, and with which flags, an engine release serves a stored drafter.

The server judges by what it stores and what the request says. It never looks at an engine, a model or a file of its
own machine because of a request, and its own environment has no part in an answer.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256

import msgspec

from drafter_contracts import check as rules
from drafter_contracts import manifest as manifests
from drafter_contracts.engines.vllm.profile import VllmProfile
from drafter_contracts.errors import InputError
from drafter_contracts.launch import options, vllm_plan
from drafter_contracts.launch.others import others
from drafter_contracts.launch.plan import plan
from drafter_contracts.launch.plan_records import Plan, Wishes
from drafter_contracts.launch.target_facts import as_launched
from drafter_contracts.rendering.records import UNCHANGED
from drafter_contracts.rules import find_rule
from drafter_contracts.serving.launch import ServingConfig
from drafter_contracts.serving.read import read_serving
from drafter_contracts.situation import Situation
from drafter_contracts.verdict import REFUSE, Verdict, conclude
from drafter_registry.documents import YANKED, CheckRequest, Resolution, ResolveRequest
from drafter_registry.errors import Fault, InvalidError, RefusedError, UnknownError
from drafter_registry.names import Reference, read_reference
from drafter_registry.service import access, asked_launch, engines, versions
from drafter_registry.service.locate import Located, locate
from drafter_registry.service.plan_cache import Answer, Key, PlanCache
from drafter_registry.service.reread import facts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sqlalchemy import Row

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import TargetFacts
    from drafter_registry.service.context import Actor, Registry

_PLANS = PlanCache()


def resolve(registry: Registry, actor: Actor, request: ResolveRequest) -> Resolution:
    """The flags, files and config with which a release serves a drafter.

    Raises:
        InvalidError: The request cannot be read.
        NotFoundError: There is no such version, or the actor may not see it.
        NotAuthorisedError: There is no token.
        RefusedError: The release cannot serve it; with the whole verdict.
        UnknownError: Whether it can is not known; the verdict says what would settle it.
        IntegrityError: The stored files cannot be read any more.
        UnavailableError: Database or blob store do not answer.
    """
    reference, key = read_reference(request.drafter), _key(request)
    located = locate(registry, actor, reference)
    key = msgspec.structs.replace(key, digest=located.digest)
    answer = _PLANS.get(key)
    if answer is None:
        with registry.database.read() as connection:
            # by its exact version: the alias may have moved since
            row = versions.find(connection, Reference(located.name, version=located.version))
            facts = facts_of(registry, connection, row) if key.release else None
        engine = engines.find_resolved(key.release) if key.release else None
        answer = _answer(row, facts, key.release, engine, request, key.wishes)
        if not key.release or isinstance(engine, VllmProfile) or (engine is not None and engine.fixed):
            _PLANS.put(key, answer)
    return _resolution(located, answer)


def resolve_kept(actor: Actor, request: ResolveRequest, located: Located) -> Resolution | None:
    """What `resolve` says of a version that was looked up, if that was worked out before; asks no database.

    Raises:
        InvalidError, NotFoundError, NotAuthorisedError, RefusedError, UnknownError: As `resolve`.
    """
    reference = read_reference(request.drafter)
    access.require(actor, "read", reference.name, str(reference))
    answer = _PLANS.get(msgspec.structs.replace(_key(request), digest=located.digest))
    return None if answer is None else _resolution(located, answer)


def _key(request: ResolveRequest) -> Key:
    """What is asked, without the version.

    Raises:
        InvalidError: No engine release, or a path that is none.
    """
    release = engines.read_resolved(request.engine) if request.engine else ""
    wishes = Wishes(request.steps, request.topk, request.draft_tokens, request.extra, request.prefer)
    if request.draft_path.startswith("-"):
        raise InvalidError("an engine would read this path as an option", faults=(Fault("/draft_path", "a path"),))
    sent = _digest(request.target_config) + request.target_tokenizer_sha256
    return Key("", release, request.target, sent, wishes, request.draft_path)


def _digest(config: dict[str, object] | None) -> str:
    """Digest of a config that was sent, "" for none."""
    if config is None:
        return ""
    return sha256(msgspec.json.encode(config, order="deterministic")).hexdigest()


def _answer(
    row: Row[Any],
    facts: DrafterFacts | None,
    release: str,
    engine: engines.Known | VllmProfile | None,
    request: ResolveRequest,
    wishes: Wishes,
) -> Answer:
    """What follows from a version, a release and a question."""
    manifest = manifests.decode(row.manifest)
    if facts is None:
        return Answer(manifest, None)
    name = f"{row.name}@{row.version}"
    if engine is None:
        verdict = engines.unknown_release(release, name)
        return Answer(manifest, Plan(verdict.context.get("engine", release), verdict))
    if not isinstance(engine, VllmProfile):
        asked_launch.refuse_files(wishes.extra, engine.profile, "/extra")
    target, problem = asked_launch.read_target(request, request.target, manifest)
    if target is None:
        raise InvalidError("the target's config cannot be read", faults=(Fault("/target_config", problem),))
    try:
        made = _plan(engine, manifest, facts, target, request.draft_path, wishes, name)
    except InputError as error:
        raise _invalid(error) from error
    return Answer(manifest, made)


def _plan(
    engine: engines.Known | VllmProfile,
    manifest: Manifest,
    facts: DrafterFacts,
    target: TargetFacts,
    draft_path: str,
    wishes: Wishes,
    name: str,
) -> Plan:
    """The plan of one engine's release.

    Raises:
        InputError: A wish that no launch can have, or a layout that cannot exist on its target.
    """
    if isinstance(engine, VllmProfile):
        return vllm_plan.plan(
            manifest=manifest,
            facts=facts,
            profile=engine,
            target=target,
            draft_path=draft_path,
            wishes=wishes,
            name=name,
            sglang=engines.newest(),
        )
    return plan(
        manifest=manifest,
        facts=facts,
        profile=engine.profile,
        target=target,
        advisories=engine.advisories,
        draft_path=draft_path,
        wishes=wishes,
        name=name,
        others=partial(others, engine=engines.ENGINE, release=engine.profile.release),
    )


def _invalid(error: InputError) -> InvalidError:
    fault = Fault(error.where, error.message, expected=error.expected, actual=error.actual)
    return InvalidError("the request cannot be answered", faults=(fault,))


def _resolution(row: Located, answer: Answer) -> Resolution:
    """The document.

    Raises:
        RefusedError: The plan does not resolve.
        UnknownError: It is not known whether it would.
    """
    made = answer.plan
    name = f"{row.name}@{row.version}"
    if made is not None and not made.resolved:
        message, hint = made.why_not(name)
        kind = UnknownError if made.open else RefusedError
        raise kind(message, verdict=made.verdict, hint=hint)
    notices = made.notices if made is not None else ()
    if row.state == YANKED:
        why = f": {row.state_why}" if row.state_why else ""
        notices = (f"{name} was yanked{why}; it resolves by its exact version only", *notices)
    return Resolution(
        name=row.name,
        version=row.version,
        digest=row.digest,
        fingerprint=row.fingerprint,
        engine=made.engine if made is not None else "",
        flags=made.flags if made is not None else (),
        config=made.config if made is not None else None,
        config_changes=made.config_changes if made is not None else (),
        weights=made.weights if made is not None else UNCHANGED,
        files=answer.manifest.files,
        manifest=answer.manifest,
        verdict=made.verdict if made is not None else None,
        notices=notices,
    )


def check(registry: Registry, actor: Actor, request: CheckRequest) -> Verdict:
    """The verdict on a launch, by the request and the stored drafter alone.

    Raises:
        InvalidError: The request cannot be read.
        NotFoundError: There is no such version, or the actor may not see it.
        NotAuthorisedError: There is no token.
        IntegrityError: The stored files cannot be read any more.
        UnavailableError: Database or blob store do not answer.
    """
    asked_launch.check_shape(request)
    name, manifest, facts = _asked_drafter(registry, actor, request)
    release = engines.read_engine(request.engine)
    engine = engines.find(release)
    if engine is None:
        return engines.unknown_release(release, name)
    invocation = asked_launch.read_launch(request, engine.profile)
    if not invocation.entry:
        found = find_rule("LAUNCH_UNREADABLE").check(Situation(ServingConfig(invocation)))
        return conclude(found or (), (), {"launch": " ".join(invocation.argv)[:200]})
    try:
        situation = _situation(request, engine, read_serving(invocation, engine.profile), name, manifest, facts)
    except InputError as error:
        raise _invalid(error) from error
    verdict = rules.run(situation)
    if verdict.decision == REFUSE:
        elsewhere = others(situation, engines.ENGINE, release)
        verdict = rules.run(msgspec.structs.replace(situation, elsewhere=elsewhere))
    return verdict


def _asked_drafter(
    registry: Registry, actor: Actor, request: CheckRequest
) -> tuple[str, Manifest, DrafterFacts | None]:
    """The drafter of a request: its name, its manifest, and what is stored of its files."""
    if request.manifest is not None:
        access.require(actor, "read", request.manifest.name)
        return f"{request.manifest.name} {request.manifest.version}".strip() or "the drafter", request.manifest, None
    reference = read_reference(request.drafter)
    access.require(actor, "read", reference.name, str(reference))
    with registry.database.read() as connection:
        row = versions.find(connection, reference)
        facts = facts_of(registry, connection, row)
    return f"{row.name}@{row.version}", manifests.decode(row.manifest), facts


def _situation(
    request: CheckRequest,
    engine: engines.Known,
    serving: ServingConfig,
    name: str,
    manifest: Manifest,
    facts: DrafterFacts | None,
) -> Situation:
    """What the rules look at."""
    path = request.target or serving.target_path
    target, problem = asked_launch.read_target(request, path, manifest)
    if target is not None:
        target, problem = as_launched(target, serving, engine.profile)
    if facts is None:
        facts = asked_launch.facts_of_config(request.config, manifest, target)
    return rules.assemble(
        serving=options.effective(serving, engine.profile, target, facts),
        profile=engine.profile,
        drafter=facts,
        drafter_name=name,
        drafter_problem="" if facts is not None else "only its manifest was sent; its config.json would settle it",
        target=target,
        target_problem=problem,
        manifest=manifest,
        advisories=engine.advisories,
    )
