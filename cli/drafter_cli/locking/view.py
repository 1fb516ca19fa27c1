"""A lock, and what differs from it, as text."""

from __future__ import annotations

import shlex
import shutil
import sys

from drafter_cli.sheet import Sheet
from drafter_cli.terminal import Style, colours, printable, write
from drafter_cli.verdict_view import render
from drafter_cli.words import plural
from drafter_contracts.locking.document import PUBLISHED
from drafter_contracts.verdict import ALLOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.locking.differences import LockChange
    from drafter_contracts.locking.document import Lock
    from drafter_registry.documents import Resolution


def notices(lock: Lock, resolution: Resolution) -> None:
    """What whoever locks should know, to standard error: where the alias pointed, what was taken on word, warnings."""
    told = [*resolution.notices]
    if lock.asked.reference != lock.name:
        told.insert(0, f"{lock.asked.reference} is {lock.name}")
    told += [f"render: {change}" for change in resolution.config_changes]
    if not lock.target.config_sha256:
        told.append(
            "the target's config.json was not found and is not locked: give --target DIR or --target-config FILE"
        )
    for one in told:
        write(f"drafters: {printable(one)}", to_stderr=True)
    if resolution.verdict is not None and resolution.verdict.decision != ALLOW:
        write(render(resolution.verdict, Style(on=colours(sys.stderr))), to_stderr=True)


def summary(path: str, lock: Lock, *, changed: bool) -> str:
    """What a lock holds, in a few lines."""
    sheet = Sheet(Style(on=colours(sys.stdout)), shutil.get_terminal_size().columns)
    sheet.title(path, "written" if changed else "is as it was")
    files = plural(len(lock.drafter.files), "file")
    sheet.field("drafter", f"{lock.name}, {files}, {_short(lock.drafter.digest)}")
    sheet.field("render", "; ".join(lock.render.changes) if lock.render is not None else "")
    how = "as published" if lock.engine.known_by == PUBLISHED else f"by its own files, {_short(lock.engine.digest)}"
    sheet.field("engine", f"{lock.engine_name}, {how}")
    config = lock.target.config_sha256
    sheet.field("target", f"{lock.target.name}, {f'config {_short(config)}' if config else 'not locked'}")
    sheet.field("flags", shlex.join(lock.flags))
    sheet.field("options", shlex.join(lock.options))
    codes = ", ".join(finding.code for finding in lock.verdict.findings)
    sheet.field("verdict", f"{lock.verdict.decision} ({codes})" if codes else lock.verdict.decision)
    return sheet.text()


def changes_text(path: str, changes: Sequence[LockChange], *, updated: bool) -> str:
    """What resolving again changes, one block each."""
    if not changes:
        return f"{path} is what resolving again gives"
    verb = "changed" if updated else "would change"
    sheet = Sheet(Style(on=colours(sys.stdout)), shutil.get_terminal_size().columns)
    sheet.title(path, f"{plural(len(changes), 'thing')} {verb}")
    for change in changes:
        sheet.section(printable(change.field))
        sheet.field("locked", change.before)
        sheet.field("now", change.after)
    return sheet.text()


def _short(digest: str) -> str:
    return f"sha256:{digest.removeprefix('sha256:')[:12]}"
