"""Two locks of one question compared: what resolving again would change."""

from __future__ import annotations

import shlex

import msgspec

from drafter_contracts.locking.document import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.locking.document import LockedEngine, LockedVerdict

#: The field of the version itself: that an alias was moved shows here.
VERSION = "drafter"


class LockChange(msgspec.Struct, frozen=True):
    """One difference.

    Attributes:
        field: Field of the document, "flags".
        before: As locked, as text.
        after: As it would be now.
    """

    field: str
    before: str
    after: str


def differences(before: Lock, after: Lock) -> tuple[LockChange, ...]:
    """Everything that differs but the question, the tool and the seal.

    Args:
        before: As locked.
        after: As it would be locked now.
    """
    found = [
        LockChange(VERSION, _version(before), _version(after)),
        LockChange("drafter.fingerprint", before.drafter.fingerprint, after.drafter.fingerprint),
        LockChange("render", _render(before), _render(after)),
        LockChange("target", _target(before), _target(after)),
        LockChange("flags", _line(before.flags), _line(after.flags)),
        LockChange("options", _line(before.options), _line(after.options)),
        LockChange("verdict", _verdict(before.verdict), _verdict(after.verdict)),
    ]
    if not before.engine.same(after.engine):
        found.append(LockChange("engine", _engine(before.engine), _engine(after.engine)))
    old, new = before.drafter.files, after.drafter.files
    found += [
        LockChange(f"drafter.files: {path}", old.get(path, "not there"), new.get(path, "not there"))
        for path in sorted({*old, *new})
    ]
    return tuple(change for change in found if change.before != change.after)


def _version(lock: Lock) -> str:
    return f"{lock.name} ({lock.drafter.digest})"


def _render(lock: Lock) -> str:
    if lock.render is None:
        return "the version's own files"
    order = (f"fc blocks in the order {list(lock.render.order)}",) if lock.render.order else ()
    return "; ".join((*lock.render.changes, *order)) or "a render"


def _target(lock: Lock) -> str:
    target = lock.target
    told = (target.config_sha256 and f"config sha256:{target.config_sha256}", target.tokenizer_sha256)
    return ", ".join((target.name, *filter(None, told)))


def _verdict(verdict: LockedVerdict) -> str:
    codes = ", ".join(finding.code for finding in verdict.findings)
    return f"{verdict.decision}: {codes}" if codes else verdict.decision


def _engine(engine: LockedEngine) -> str:
    return f"{engine.name} {engine.release} ({engine.known_by}, {engine.digest})"


def _line(arguments: Sequence[str]) -> str:
    return shlex.join(arguments)
