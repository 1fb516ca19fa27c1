"""The flags of a lock, printed where they would still be resolved so: `drafters resolve --locked`."""

from __future__ import annotations

from msgspec.structs import replace

from drafter_cli.errors import UsageError
from drafter_cli.gate_options import LOCK_NAME, Request
from drafter_cli.launched_engine import read_engine
from drafter_cli.locking import lock_file
from drafter_cli.locking.here import tool
from drafter_cli.locking.make import make
from drafter_cli.locking.question import ask
from drafter_cli.resolving.answering import answer
from drafter_contracts.locking import codes
from drafter_contracts.locking.differences import differences
from drafter_contracts.locking.document import PUBLISHED
from drafter_contracts.locking.drift import AGAIN, verdict_drift
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.verdict import REFUSE, Finding, conclude
from drafter_registry.errors import RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.commandline import Parsed
    from drafter_cli.launched_engine import Engine
    from drafter_cli.resolving.answering import Answer
    from drafter_cli.resolving.request import Asked
    from drafter_contracts.locking.document import Lock
    from drafter_contracts.verdict import Verdict

#: Options of `drafters resolve` that go with `--locked`: everything else is what the lock says.
_TOGETHER = frozenset({"--locked", "--format", "--json", "--offline"})
_TARGET, _VERDICT = "target", "verdict"


def locked_answer(parsed: Parsed) -> tuple[Asked, Answer]:
    """The locked question, its drafter by digest, and the answer, computed from the cache alone.

    Raises:
        UsageError: There is no lock file, or options beside it that say something else.
        LockError: The file is no lock that is known here, or was changed.
        RefusedError: Resolving the locked version again gives something else; with a finding for each difference.
        UnreachableError: The locked version was not pulled to this machine.
    """
    stated = sorted({*parsed.values} - _TOGETHER)
    if stated or parsed.words or parsed.launch is not None:
        told = ", ".join([*parsed.words, *stated]) or "--"
        raise UsageError(f"--locked takes everything from the lock, and {told} says something else", "leave it out")
    lock = lock_file.read(parsed.value("--locked") or LOCK_NAME)
    reference = f"{lock.drafter.name}@{lock.drafter.digest}"
    asking = ask(lock.asked, reference=reference, engine=_engine(lock), offline=True, shape=parsed)
    found = answer(asking.asked, parsed)
    findings = _drift(lock, make(asking, found), found.resolution.verdict)
    if findings:
        verdict = conclude(findings, (finding.code for finding in findings), {"drafter": lock.name, "lock": lock.tool})
        message = f"the locked flags of {lock.name} are not what resolving it gives here"
        raise RefusedError(message, verdict=verdict, hint=findings[0].remedy)
    if lock.tool != tool():
        told = f"the lock was written by {lock.tool}; the flags were judged again by {tool()}"
        notices = (told, *found.resolution.notices)
        found = replace(found, resolution=replace(found.resolution, notices=notices))
    return replace(asking.asked, reference=lock.name), found


def _engine(lock: Lock) -> Engine | None:
    """The locked release as published; None for the engine that the question names, whose files were locked."""
    if lock.engine.known_by != PUBLISHED:
        return None
    asked = Request((), engine=lock.engine.release)
    return read_engine(asked, read_invocation(("python", "-m", "sglang.launch_server")))


def _drift(lock: Lock, now: Lock, verdict: Verdict | None) -> tuple[Finding, ...]:
    """What differs. The start itself is held against a target that is not here, and then the rules with it."""
    unseen = bool(lock.target.config_sha256) and not now.target.config_sha256
    worse = () if unseen or verdict is None else verdict_drift(lock, verdict) or ()
    changed = tuple(
        Finding(
            _code(change.field),
            REFUSE,
            f"{change.field} of {lock.name} on {lock.engine_name} is not as it was locked",
            change.before,
            change.after,
            remedy=AGAIN,
        )
        for change in differences(lock, now)
        if change.field != _VERDICT and not (unseen and change.field == _TARGET)
    )
    return (*changed, *worse)


def _code(field: str) -> str:
    first = field.partition(".")[0].partition(":")[0]
    return {"engine": codes.ENGINE, "target": codes.TARGET, "drafter": codes.FILES}.get(first, codes.OPTION)
