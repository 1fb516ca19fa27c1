"""The options that `check` and `guard` share, and the request that they make."""

from __future__ import annotations

import msgspec

from drafter_cli.commandline import JSON, Option, Parsed
from drafter_cli.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.verdict import Verdict

#: The lock file that is meant where none is named: in the working directory.
LOCK_NAME = "drafters.lock"

OPTIONS = (
    Option(
        "--engine",
        "a release as published (sglang==0.5.9), or the path of an environment, a source tree, a wheel or a profile's "
        "file; default: what is installed in the launch's interpreter",
        "RELEASE|PATH",
    ),
    Option("--no-scan", "answer unknown where the engine's files differ from every known profile's, scan nothing"),
    Option("--target", "directory or Hub id of the target; default: the launch's model path", "PATH"),
    Option("--boundaries", "the layout trained on, as boundaries, in concatenation order: 3,31,59", "LIST"),
    Option("--output-ids", "the same as output ids (-1 is the embedding): 2,30,58", "LIST"),
    Option("--manifest", "the drafter's manifest; default: drafters-manifest.json beside its weights", "FILE"),
    Option(
        "--locked", "hold all of it against drafters.lock (or FILE), offline, and refuse what drifted", inline="FILE"
    ),
    Option("--verify", "with --locked: read every byte of the drafter again, whatever is remembered"),
    JSON,
)


class Request(msgspec.Struct, frozen=True):
    """What a gate is asked.

    Attributes:
        launch: The launch command, as it would be executed.
        drafter: Directory or Hub id of the drafter; "" for the launch's own draft path.
        called: What the caller calls that drafter, if not so: a reference whose files were fetched; else "".
        engine: Release, e.g. "0.5.9"; "" for the one installed in the launch's interpreter.
        engine_path: Where the engine is, instead of a release; "" for that installation.
        engine_called: How to say where that path was taken from; "" for the option.
        target: Directory or Hub id of the target; "" for the launch's own model path.
        boundaries: The layout trained on, if it was stated by option; else None.
        option: That option as written ("--output-ids 2,30,58"), for the output.
        manifest: File to read as the manifest; "" for the one beside the weights.
        may_scan: Whether the engine's files may be scanned where no known profile fits them.
        quiet: Whether nothing but the verdict may be written: standard error holds one document.
        lock: Lock file that the launch is held against, or "".
        verify: Whether the drafter's bytes are read again for that.
    """

    launch: tuple[str, ...]
    drafter: str = ""
    called: str = ""
    engine: str = ""
    engine_path: str = ""
    engine_called: str = ""
    target: str = ""
    boundaries: tuple[int, ...] | None = None
    option: str = ""
    manifest: str = ""
    may_scan: bool = True
    quiet: bool = False
    lock: str = ""
    verify: bool = False


def request(parsed: Parsed) -> Request:
    """The request that a command line makes.

    Raises:
        UsageError: No launch command, an engine or a list that cannot be read, two statements of one layout, or a lock
            and something that it states itself.
    """
    if not parsed.launch:
        raise UsageError("no launch command", "it comes last: -- python -m sglang.launch_server ...")
    boundaries, option = stated_layout(parsed)
    lock = _lock(parsed)
    engine = parsed.value("--engine") if parsed.has("--engine") else None
    path = engine if engine is not None and is_path(engine) else ""
    return Request(
        launch=parsed.launch,
        drafter=parsed.word(0),
        engine=release(engine) if engine is not None and not path else "",
        engine_path=path,
        target=parsed.value("--target"),
        boundaries=boundaries,
        option=option,
        manifest=parsed.value("--manifest"),
        may_scan=not parsed.has("--no-scan"),
        lock=lock,
        verify=parsed.has("--verify"),
    )


def _lock(parsed: Parsed) -> str:
    """The lock file, or ""; the contract comes from it alone.

    Raises:
        UsageError: Options that do not go with it.
    """
    if not parsed.has("--locked"):
        if parsed.has("--verify"):
            raise UsageError("--verify is for locked launches", "write --locked --verify")
        return ""
    for name in ("--boundaries", "--output-ids", "--manifest"):
        if parsed.has(name):
            raise UsageError(f"--locked and {name} state the same thing", "give one of them")
    return parsed.value("--locked") or LOCK_NAME


def judged(asked: Request) -> Verdict:
    """The verdict on a request, held against a lock if it names one.

    Raises:
        UsageError: Something that it names is not there.
        RegistryError: The drafter is named by reference, and the registry does not give it.
        InputError: The launch, a layout option, a manifest or the lock cannot be read.
    """
    if asked.lock:
        from drafter_cli.locking.start import judge_locked

        return judge_locked(asked)
    from drafter_cli.gate import judge

    return judge(with_drafter_here(asked))


def with_drafter_here(asked: Request) -> Request:
    """The request with the drafter's directory, where it is named by a reference to a registry: then it is fetched.

    What lies under such a name on this machine is meant first.

    Raises:
        UsageError: Neither a registry nor the cache has it.
        RegistryError: The registry has no such version, or does not give it.
    """
    if "@" not in asked.drafter:
        return asked
    import os

    from drafter_registry.names import is_reference

    if os.path.lexists(asked.drafter) or not is_reference(asked.drafter):
        return asked
    from msgspec.structs import replace

    from drafter_cli.cache.fetched import referenced

    return replace(asked, drafter=referenced(asked.drafter).directory, called=asked.drafter)


def is_path(text: str) -> bool:
    """Whether an engine is named by its place: with a slash in it, or as a file of a kind that can be read."""
    return "/" in text or text.endswith((".whl", ".json")) or text in (".", "..")


def release(text: str) -> str:
    """The release in "sglang==0.5.9", "sglang-0.5.9", "sglang 0.5.9" or "0.5.9".

    Raises:
        UsageError: It names another engine, or no version.
    """
    engine, version = "", text.strip()
    for separator in ("==", "@", "-", " "):
        left, found, right = version.partition(separator)
        if found and left.isalpha():
            engine, version = left.lower(), right.strip()
            break
    version = version.removeprefix("v")
    if engine not in ("", "sglang"):
        raise UsageError(f"engine {engine!r} is not known", "write sglang==VERSION")
    if not version[:1].isdigit():
        raise UsageError(f"{text!r} names no release", "write sglang==VERSION, for example sglang==0.5.9")
    return version


def stated_layout(parsed: Parsed) -> tuple[tuple[int, ...] | None, str]:
    """The layout stated by option as boundaries, and that option as written; None and "" if none is given.

    Raises:
        UsageError: Two statements of one layout, or numbers that are none.
    """
    if parsed.has("--boundaries") and parsed.has("--output-ids"):
        raise UsageError("--boundaries and --output-ids state the same thing", "give one of them")
    for name, offset in (("--boundaries", 0), ("--output-ids", 1)):
        if parsed.has(name):
            stated = numbers(name, parsed.value(name))
            lowest = min(stated)
            if lowest + offset < 0:
                what = "the embedding is output id -1" if offset else "the embedding is boundary 0"
                raise UsageError(f"{name} {lowest} does not exist", what)
            return tuple(number + offset for number in stated), f"{name} {parsed.value(name)}"
    return None, ""


def numbers(name: str, text: str) -> tuple[int, ...]:
    """A list of whole numbers: "3,31,59", "[3, 31, 59]".

    Raises:
        UsageError: It is none.
    """
    parts = text.strip("[]() ").replace(",", " ").split()
    try:
        found = tuple(int(part) for part in parts)
    except ValueError:
        found = ()
    if not found:
        raise UsageError(f"{name} is {text!r}", f"write whole numbers with commas: {name} 3,31,59")
    return found
