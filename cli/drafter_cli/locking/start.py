"""A start held against a lock: no registry and no network, only what lies here."""

from __future__ import annotations

import os

from msgspec.structs import replace

from drafter_cli.errors import UsageError
from drafter_cli.gate import Judged, drafter_directory, look, target_path
from drafter_cli.locking import lock_file
from drafter_cli.locking.directory import digests, names
from drafter_cli.locking.here import engine_of, pulled_directory, tool
from drafter_contracts.errors import TargetError
from drafter_contracts.locking import codes
from drafter_contracts.locking.document import config_digest
from drafter_contracts.locking.drift import Seen, engine_drift, files_drift, target_drift, tool_drift, verdict_drift
from drafter_contracts.locking.options import option_drift
from drafter_contracts.manifest import FILE_NAME
from drafter_contracts.serving.target import read_target
from drafter_contracts.verdict import UNKNOWN, conclude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.gate_options import Request
    from drafter_contracts.locking.document import Lock
    from drafter_contracts.locking.drift import Outcome
    from drafter_contracts.serving.launch import ServingConfig
    from drafter_contracts.situation import Situation
    from drafter_contracts.verdict import Finding, Verdict


def judge_locked(asked: Request) -> Verdict:
    """The verdict on a launch by every rule, and by everything in which it differs from a lock.

    Args:
        asked: The request, with the lock's file.

    Raises:
        UsageError: There is no lock file, or the drafter is no directory.
        InputError: The lock, the launch or a manifest cannot be read.
    """
    lock = lock_file.read(asked.lock)
    if asked.drafter and not os.path.isdir(asked.drafter):
        is_file = os.path.isfile(asked.drafter)
        hint = f"--locked={asked.drafter} names the lock's file" if is_file else "name a directory"
        raise UsageError(f"{asked.drafter} is no directory, and a locked launch asks no registry", hint)
    pulled = pulled_directory(lock) if lock.render is None else ""
    found = look(replace(asked, manifest=os.path.join(pulled, FILE_NAME)) if pulled else asked)
    verdict = found.verdict
    context = verdict.context | {"lock": f"{asked.lock}: {lock.name} on {lock.engine_name}, by {lock.tool}"}
    if found.situation is None:
        return replace(verdict, context=context)
    findings: list[Finding] = []
    checked: list[str] = []
    for code, outcome in _compared(lock, asked, found, found.situation, may_lack=bool(pulled)).items():
        findings += outcome or ()
        if outcome is not None and not any(finding.severity == UNKNOWN for finding in outcome):
            checked.append(code)
    return conclude((*findings, *verdict.findings), (*checked, *verdict.checked), context)


def _compared(lock: Lock, asked: Request, found: Judged, situation: Situation, *, may_lack: bool) -> dict[str, Outcome]:
    """Code to what it says, in the order of the output."""
    seen = _see(lock, asked, found, situation, may_lack=may_lack)
    return {
        codes.FILES: files_drift(lock, seen),
        codes.ENGINE: engine_drift(lock, seen),
        codes.TARGET: target_drift(lock, seen),
        codes.OPTION: option_drift(lock, situation) if situation.profile is not None else None,
        codes.VERDICT: verdict_drift(lock, found.verdict),
        codes.TOOL: tool_drift(lock, seen),
    }


def _see(lock: Lock, asked: Request, found: Judged, situation: Situation, *, may_lack: bool) -> Seen:
    """Everything that is compared, read."""
    serving = situation.serving
    path = target_path(asked, serving)
    config, tokenizer, target_problem = _target(lock, asked, serving, path)
    directory = _directory(asked, serving)
    files, inside, problem = _files(lock, directory, asked, serving)
    profile = situation.profile
    return Seen(
        tool=tool(),
        engine=engine_of(profile) if profile is not None else None,
        engine_problem=(found.engine.problem or found.engine.taken_from) if found.engine is not None else "",
        directory=directory,
        files=files,
        names=inside,
        files_problem=problem,
        may_lack=frozenset({FILE_NAME}) if may_lack else frozenset(),
        target=path,
        config_sha256=config,
        tokenizer_sha256=tokenizer,
        target_problem=target_problem,
    )


def _directory(asked: Request, serving: ServingConfig) -> str:
    """Where the files are that the launch loads; else, where its paths are a container's, those that stand for them."""
    own = drafter_directory(replace(asked, drafter=""), serving)
    if asked.drafter and (own is None or serving.invocation.image):
        own = drafter_directory(asked, serving)
    return own or ""


def _files(
    lock: Lock, directory: str, asked: Request, serving: ServingConfig
) -> tuple[dict[str, str] | None, tuple[str, ...], str]:
    """Digests of the locked files, names of all that lies beside them; or why they cannot be read."""
    if not directory:
        path = asked.drafter or serving.speculation.draft_path
        why = f"{path} is neither a directory nor in this machine's Hub cache" if path else "the launch names none"
        return None, (), why
    try:
        return digests(directory, lock.drafter.files, verify=asked.verify), tuple(names(directory)), ""
    except UsageError as error:
        return None, (), error.message


def _target(lock: Lock, asked: Request, serving: ServingConfig, path: str) -> tuple[str, str, str]:
    """Digests of the target's config and tokenizer, without the launch's overrides; and why they cannot be read."""
    if not path:
        return "", "", "the launch names no target"
    try:
        facts = read_target(
            path,
            revision="" if asked.target else serving.target_revision,
            environment=serving.invocation.environment or None,
            with_tokenizer=bool(lock.target.tokenizer_sha256),
        )
    except TargetError as error:
        return "", "", error.diagnostics()
    return config_digest(facts.config), facts.tokenizer_sha256, ""
