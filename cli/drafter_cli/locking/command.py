"""`drafters lock`: a resolved launch written down, or held against what resolving again would give."""

from __future__ import annotations

import msgspec

from drafter_cli.client.connect import OPTIONS as REGISTRY_OPTIONS
from drafter_cli.commandline import JSON, Command, Option
from drafter_cli.errors import EXIT_CONFLICT, EXIT_OK, EXIT_REFUSED, UsageError
from drafter_cli.gate_options import LOCK_NAME
from drafter_cli.locking import lock_file
from drafter_cli.locking.again import changes_now, resolved
from drafter_cli.locking.question import FIELDS, written
from drafter_cli.locking.view import changes_text, notices, summary
from drafter_cli.resolving import command as resolving
from drafter_cli.terminal import write, write_json
from drafter_contracts.locking.differences import VERSION, differences
from drafter_registry.errors import RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_cli.commandline import Parsed
    from drafter_contracts.locking.differences import LockChange
    from drafter_contracts.locking.document import Lock

_ASKED = tuple(option for option in resolving.COMMANDS["resolve"].options if option.name in FIELDS)

COMMANDS = {
    "lock": Command(
        name="lock",
        summary="write down a resolved launch, for starts that must not differ from it",
        description=(
            "Resolves as `drafters resolve` does, fetches the drafter, and writes drafters.lock: the version, the\n"
            "digests of its files, the engine, the target's digests, the flags and the verdict. Keep it beside the\n"
            "launch script: `drafters resolve --locked` prints the flags and `drafters guard --locked` starts nothing\n"
            "that differs, both without a registry. What follows -- is the launch, or more of its options; its\n"
            "engine and target are then those that are locked.\n"
            "--check says what resolving again would change: exit code 8 where the reference is another version now,\n"
            "3 where anything else differs. --update writes it."
        ),
        words=("[NAME@VERSION|ALIAS|sha256:DIGEST|FILE]",),
        options=(
            Option("--output", f"the file to write; default: {LOCK_NAME}", "FILE", "-o"),
            *_ASKED,
            Option("--check", f"resolve what FILE ({LOCK_NAME}) was asked again, and say what differs; write nothing"),
            Option("--update", f"resolve what FILE ({LOCK_NAME}) was asked again, and write it"),
            Option("--offline", "ask no registry: an exact version or digest that was pulled before"),
            *REGISTRY_OPTIONS,
            JSON,
        ),
        examples=(
            ("drafters lock kimi-eagle3@prod --engine sglang==0.5.23 --target /models/K2.5", "write drafters.lock"),
            ("drafters lock kimi-eagle3@prod -- python -m sglang.launch_server --model-path M", "for this very launch"),
            ("drafters lock --check", "in CI: has the alias moved, or the engine changed?"),
            ("drafters lock --update", "take the change; then review its diff"),
        ),
        launch=True,
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Write or check a lock; returns the exit code."""
    try:
        if parsed.has("--check") or parsed.has("--update"):
            return _again(parsed)
        return _lock(parsed)
    except RefusedError as error:
        return resolving.refused(error, as_json=parsed.has("--json"))


def _lock(parsed: Parsed) -> int:
    if not parsed.word(0):
        raise UsageError("lock needs NAME@VERSION", "or --check, or --update, of a file that is there")
    path = parsed.value("--output") or LOCK_NAME
    lock, resolution = resolved(written(parsed), parsed)
    notices(lock, resolution)
    changed = lock_file.write(path, lock)
    if parsed.has("--json"):
        _document(path, lock, written_now=changed)
    else:
        write(summary(path, lock, changed=changed))
    return EXIT_OK


def _again(parsed: Parsed) -> int:
    """Ask again what a lock file was asked.

    Raises:
        UsageError: Options that belong to another question.
    """
    verb = "--check" if parsed.has("--check") else "--update"
    stated = [name for name in (*FIELDS, "--output") if parsed.has(name)]
    stated += ["--check"] if parsed.has("--check") and parsed.has("--update") else []
    if stated or parsed.launch is not None:
        raise UsageError(
            f"{verb} asks what the file says, and {', '.join(stated) or '--'} says something else",
            "lock it anew: drafters lock NAME@VERSION ...",
        )
    path = parsed.word(0) or LOCK_NAME
    lock = lock_file.read(path)
    return _check(path, lock, parsed) if verb == "--check" else _update(path, lock, parsed)


def _check(path: str, lock: Lock, parsed: Parsed) -> int:
    changes = changes_now(lock, parsed)
    code = _code(changes)
    if parsed.has("--json"):
        _document(path, lock, written_now=False, changes=msgspec.to_builtins(changes), exit_code=code)
    else:
        write(changes_text(path, changes, updated=False))
    return code


def _update(path: str, lock: Lock, parsed: Parsed) -> int:
    now, resolution = resolved(lock.asked, parsed)
    changes = differences(lock, now)
    notices(now, resolution)
    changed = lock_file.write(path, now)
    if parsed.has("--json"):
        _document(path, now, written_now=changed, changes=msgspec.to_builtins(changes), exit_code=EXIT_OK)
    else:
        write(changes_text(path, changes, updated=True))
    return EXIT_OK


def _code(changes: Sequence[LockChange]) -> int:
    if any(change.field == VERSION for change in changes):
        return EXIT_CONFLICT
    return EXIT_REFUSED if changes else EXIT_OK


def _document(path: str, lock: Lock, *, written_now: bool, **more: object) -> None:
    write_json({"file": path, "written": written_now, **more, "lock": msgspec.to_builtins(lock)})
