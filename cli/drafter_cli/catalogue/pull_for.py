"""`drafters pull --for`: a stored drafter as one engine release must see it, in the cache or elsewhere."""

from __future__ import annotations

import os
import sys

import msgspec

from drafter_cli.cache.placing import place
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.resolving import answering
from drafter_cli.resolving.command import refused, say_changes
from drafter_cli.resolving.formats import quoted
from drafter_cli.resolving.request import named_engine, read
from drafter_cli.terminal import Style, colours, printable, write, write_json
from drafter_cli.verdict_view import render as shown
from drafter_contracts.launch.plan_records import RENDER, placed
from drafter_contracts.verdict import ALLOW
from drafter_registry.errors import RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.commandline import Parsed
    from drafter_cli.resolving.answering import Answer
    from drafter_contracts.manifest import FileRecord
    from drafter_registry.documents import Resolution


def pull_for(parsed: Parsed, destination: str) -> int:
    """Put the files where they are wanted, and say what was changed and how to launch them; returns the exit code.

    Args:
        parsed: The command line, with `--for`.
        destination: The directory that is wanted; "" for the cache's.

    Raises:
        UsageError: Options that do not go together, or nothing there to answer.
        RegistryError: The registry does not give the drafter, or the directory holds something else.
        ContractsError: Files that cannot be read.
    """
    if parsed.has("--files"):
        raise UsageError("--files and --for do not go together", "what a release loads is whole or of no use")
    asked = read(parsed, named_engine(parsed.value("--for")))
    wishes = msgspec.structs.replace(asked.wishes, prefer=parsed.value("--prefer") or RENDER)
    try:
        found = answering.answer(msgspec.structs.replace(asked, wishes=wishes), parsed)
    except RefusedError as error:
        return refused(error, as_json=parsed.has("--json"))
    if destination:
        found = _placed(found, os.path.abspath(destination))
    if parsed.has("--json"):
        write_json(_document(found))
        return EXIT_OK
    _tell(found)
    write(found.directory)
    return EXIT_OK


def _placed(found: Answer, directory: str) -> Answer:
    """The answer with its files copied to a directory of the user's own."""
    place(found.directory, directory, _files(found))
    flags = placed(found.resolution.flags, directory, instead_of=found.directory)
    resolution = msgspec.structs.replace(found.resolution, flags=flags)
    return msgspec.structs.replace(found, directory=directory, resolution=resolution)


def _files(found: Answer) -> tuple[FileRecord, ...]:
    return found.render.manifest.files if found.render is not None else found.resolution.files


def _document(found: Answer) -> dict[str, object]:
    resolution, made = found.resolution, found.render
    return {
        "name": resolution.name,
        "version": resolution.version,
        "digest": resolution.digest,
        "engine": resolution.engine,
        "directory": found.directory,
        "files": [file.path for file in _files(found)],
        "render": None if made is None else {"digest": made.digest, "order": resolution.weights.order},
        "changes": resolution.config_changes,
        "flags": resolution.flags,
        "verdict": resolution.verdict,
        "notices": resolution.notices,
    }


def _tell(found: Answer) -> None:
    resolution: Resolution = found.resolution
    exact = f"{resolution.name}@{resolution.version}"
    if found.render is None:
        write(f"drafters: {exact} is right for {resolution.engine} as it is: nothing was changed", to_stderr=True)
    else:
        write(f"drafters: {exact} rendered for {resolution.engine} ({found.render.digest})", to_stderr=True)
    say_changes(resolution)
    for notice in resolution.notices:
        write(f"drafters: {printable(notice)}", to_stderr=True)
    if resolution.verdict is not None and resolution.verdict.decision != ALLOW:
        write(shown(resolution.verdict, Style(on=colours(sys.stderr))), to_stderr=True)
    write(f"drafters: launch it with {printable(quoted(resolution.flags))}", to_stderr=True)
