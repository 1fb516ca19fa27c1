"""A lock held against what is there now: everything that differs, each as a finding."""

from __future__ import annotations

import msgspec

from drafter_contracts.locking import codes
from drafter_contracts.locking.document import PUBLISHED, Lock, LockedEngine
from drafter_contracts.verdict import DECISIONS, NOTE, REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.verdict import Verdict

    #: None: nothing to decide. Empty: it was looked at and is as it was locked.
    Outcome = tuple[Finding, ...] | None

#: The one thing to do where the change is meant.
AGAIN = "If that is meant, lock it again and review what changes: `drafters lock --update`."


class Seen(msgspec.Struct, frozen=True):
    """What a start finds.

    Attributes:
        tool: This program and version.
        engine: The engine; None if it cannot be told.
        engine_problem: Why not.
        directory: Where the drafter's files lie, "" if the launch names none that is here.
        files: Path of every locked file that is there to its sha256; None if they cannot be read.
        names: Names of all that lies in the directory itself.
        files_problem: Why not.
        may_lack: Files whose content is known from elsewhere: they need not lie there.
        target: What the launch calls its target.
        config_sha256: Digest of the target's config; "" if it cannot be read.
        tokenizer_sha256: Of its tokenizer; "" if there is none.
        target_problem: Why its config cannot be read.
    """

    tool: str
    engine: LockedEngine | None = None
    engine_problem: str = ""
    directory: str = ""
    files: dict[str, str] | None = None
    names: tuple[str, ...] = ()
    files_problem: str = ""
    may_lack: frozenset[str] = frozenset()
    target: str = ""
    config_sha256: str = ""
    tokenizer_sha256: str = ""
    target_problem: str = ""


def engine_drift(lock: Lock, seen: Seen) -> Outcome:
    """Whether the engine is the locked one."""
    expected = _engine(lock.engine)
    if seen.engine is None:
        message = f"{lock.name} is locked for {expected}, and which engine this launch starts is not known"
        remedy = f"Say --engine {lock.engine.name}=={lock.engine.release} if that is what starts."
        return (Finding(codes.ENGINE, UNKNOWN, message, expected, seen.engine_problem, remedy=remedy),)
    if lock.engine.same(seen.engine):
        return ()
    message = f"{lock.name} is locked for {expected}, and this launch starts {_engine(seen.engine)}"
    remedy = f"Install {lock.engine_name}. {_again(lock, seen.engine)}"
    return (Finding(codes.ENGINE, REFUSE, message, expected, _engine(seen.engine), remedy=remedy),)


def _again(lock: Lock, engine: LockedEngine) -> str:
    """What takes another engine: asking again for one that was named gives that one again."""
    if not lock.asked.engine:
        return AGAIN
    option = f"{engine.name}=={engine.release}" if engine.known_by == PUBLISHED else "the engine's own path"
    return (
        f"If that is meant, lock it anew and review what changes: `drafters lock {lock.asked.reference}` with --engine "
        f"{option} (`--update` would ask for {lock.asked.engine} again)."
    )


def _engine(engine: LockedEngine) -> str:
    how = "as published" if engine.known_by == PUBLISHED else f"with files of its own, {_short(engine.digest)}"
    return f"{engine.name} {engine.release} ({how})"


def files_drift(lock: Lock, seen: Seen) -> Outcome:
    """Whether the drafter's directory holds the locked files, and no other that an engine reads."""
    if seen.files is None:
        message = f"whether the launch loads {lock.name} as it was locked cannot be told"
        expected = f"a directory with the {len(lock.drafter.files)} files of the lock"
        return (Finding(codes.FILES, UNKNOWN, message, expected, seen.files_problem, remedy=_own_files(lock)),)
    found: list[Finding] = []
    for path, digest in sorted(lock.drafter.files.items()):
        actual = seen.files.get(path)
        if actual != digest and not (actual is None and path in seen.may_lack):
            told = "no file of that name" if actual is None else f"sha256:{actual}"
            found.append(_file(lock, seen, path, f"sha256:{digest}", told))
    strangers = [name for name in seen.names if name not in lock.drafter.files and read_by_engines(name)]
    found += [_file(lock, seen, path, "no file of that name", "one that an engine may read") for path in strangers]
    return tuple(found)


def _file(lock: Lock, seen: Seen, path: str, expected: str, actual: str) -> Finding:
    message = f"{path} of {seen.directory} is not as it was locked for {lock.name} on {lock.engine_name}"
    return Finding(codes.FILES, REFUSE, message, expected, actual, f"{seen.directory}: {path}", _own_files(lock))


def _own_files(lock: Lock) -> str:
    kind = "render" if lock.render is not None else "files"
    return f"Launch with the {kind} of {lock.name}: `drafters resolve --locked` prints where. {AGAIN}"


#: Ends of names that engines and their libraries open in a model's folder.
_READ = (".safetensors", ".json", ".bin", ".pt", ".pth", ".gguf", ".py", ".model", ".tiktoken", ".jinja")


def read_by_engines(name: str) -> bool:
    """Whether an engine may open a file of that name in a drafter's directory: of the folders in it they read none."""
    return not name.startswith(".") and name.lower().endswith(_READ)


def target_drift(lock: Lock, seen: Seen) -> Outcome:
    """Whether the target is the locked one, by its config and tokenizer."""
    locked = lock.target
    if not locked.config_sha256:
        message = f"the lock of {lock.name} does not record its target's config.json: any target of its shape fits"
        remedy = "Lock it with --target DIR or --target-config FILE."
        return (Finding(codes.TARGET, NOTE, message, remedy=remedy),)
    expected = f"sha256:{locked.config_sha256} (content of config.json)"
    if not seen.config_sha256:
        message = f"whether the target is the one that {lock.name} was locked for cannot be told: {seen.target_problem}"
        remedy = "Say --target DIR, where its config.json lies."
        return (Finding(codes.TARGET, UNKNOWN, message, expected, seen.target_problem, remedy=remedy),)
    found = []
    if seen.config_sha256 != locked.config_sha256:
        message = (
            f"the config.json of {seen.target} is not the one that {lock.name} was locked for; in what it differs is "
            "not known, a lock keeps no more than its digest"
        )
        actual = f"sha256:{seen.config_sha256}"
        found.append(Finding(codes.TARGET, REFUSE, message, expected, actual, f"{seen.target}: config.json", AGAIN))
    if locked.tokenizer_sha256 and seen.tokenizer_sha256 != locked.tokenizer_sha256:
        message = f"the tokenizer.json of {seen.target} is not the one that {lock.name} was locked for"
        actual = f"sha256:{seen.tokenizer_sha256}" if seen.tokenizer_sha256 else "no tokenizer.json"
        wanted = f"sha256:{locked.tokenizer_sha256}"
        found.append(Finding(codes.TARGET, REFUSE, message, wanted, actual, f"{seen.target}: tokenizer.json", AGAIN))
    return tuple(found)


def tool_drift(lock: Lock, seen: Seen) -> Outcome:
    """Whether the rules at hand are those that judged when it was locked."""
    if lock.tool == seen.tool:
        return ()
    message = f"the lock was written by {lock.tool}, this is {seen.tool}: its rules may judge otherwise, and did judge"
    return (Finding(codes.TOOL, WARN, message, lock.tool, seen.tool, remedy="`drafters lock --update`"),)


def verdict_drift(lock: Lock, now: Verdict) -> Outcome:
    """Whether the rules say nothing worse than when it was locked."""
    allowed = {finding.code for finding in lock.verdict.findings if finding.severity != NOTE}
    fresh = sorted({one.code for one in now.findings if one.severity != NOTE and one.code not in allowed})
    worse = DECISIONS.index(now.decision) > DECISIONS.index(lock.verdict.decision)
    if not worse and not fresh:
        return ()
    message = f"{lock.name} on {lock.engine_name} was locked as {lock.verdict.decision}, and is now {now.decision}"
    message += f" for {', '.join(fresh)}" if fresh else ""
    expected = f"{lock.verdict.decision}, with {', '.join(sorted(allowed)) or 'no warning'}"
    actual = f"{now.decision}, with {', '.join(fresh) or 'no other warning'} besides"
    remedy = f"See the findings named. {AGAIN}"
    severity = UNKNOWN if now.decision == UNKNOWN else REFUSE
    return (Finding(codes.VERDICT, severity, message, expected, actual, remedy=remedy),)


def _short(digest: str) -> str:
    return digest[: len("sha256:") + 12]
