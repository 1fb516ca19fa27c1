"""Which files of a drafter's directory are published, and why the others are not."""

from __future__ import annotations

import os

import msgspec

from drafter_cli.errors import UsageError
from drafter_contracts.checkpoint.files import INDEX, SINGLE
from drafter_contracts.manifest import FILE_NAME
from drafter_registry import limits
from drafter_registry.errors import InvalidError
from drafter_registry.names import check_path
from drafter_registry.service.kinds import told_by_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_WEIGHTS = ".safetensors"
#: Endings of what an engine, a tokenizer or a reader needs besides the weights.
_ENDINGS = (".json", ".txt", ".model", ".jinja", ".md", ".py", ".yaml", ".yml", ".tiktoken", ".toml")
_NAMES = frozenset({"LICENSE", "LICENCE", "NOTICE", "COPYING"})
#: What trainers leave behind; no engine reads it.
_OF_TRAINING = ("training_args", "optimizer", "scheduler", "rng_state", "trainer_state", "training_state", "events.out")
_OTHER_WEIGHTS = (".gguf", ".onnx", ".h5", ".msgpack", ".engine")


class Chosen(msgspec.Struct, frozen=True):
    """The choice.

    Attributes:
        paths: Relative paths to publish, sorted.
        left_out: (path, why), sorted.
        code: Those of `paths` that are Python code, which an engine may run.
    """

    paths: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    code: tuple[str, ...] = ()


class _Index(msgspec.Struct):
    weight_map: dict[str, str] = {}


def choose(directory: str, only: Collection[str] | None = None) -> Chosen:
    """Choose the files of a directory.

    Args:
        directory: The drafter's directory.
        only: Relative paths to choose from; None for all.

    Raises:
        UsageError: A file that the drafter was read from cannot be published: it links out of the directory.
    """
    read = weight_files(directory)
    paths: list[str] = []
    left_out: list[tuple[str, str]] = []
    for path in _walk(directory):
        if only is not None and path not in only:
            continue
        reason = _reason(directory, path, read)
        if not reason:
            paths.append(path)
        elif path == FILE_NAME:
            continue  # it is read as a statement, which the table says
        elif path in {*read, "config.json", INDEX}:
            raise UsageError(f"{os.path.join(directory, path)} cannot be published: {reason}", "copy the file there")
        else:
            left_out.append((path, reason))
    code = tuple(path for path in paths if path.endswith(".py"))
    return Chosen(tuple(sorted(paths)), tuple(sorted(left_out)), code)


def _walk(directory: str) -> Iterator[str]:
    """Every file by its relative path; hidden folders, links and other checkpoints are named, not entered."""
    for folder, folders, names in os.walk(directory):
        inside = os.path.relpath(folder, directory)
        prefix = "" if inside == "." else inside.replace(os.sep, "/") + "/"
        for name in sorted(folders):
            full = os.path.join(folder, name)
            if name.startswith(".") or os.path.islink(full) or _is_checkpoint(full):
                folders.remove(name)
                yield prefix + name
        for name in sorted(names):
            yield prefix + name


def _is_checkpoint(folder: str) -> bool:
    """Whether a folder is a checkpoint of its own, such as a trainer's earlier ones."""
    try:
        return any(name == "config.json" or name.endswith(_WEIGHTS) for name in os.listdir(folder))
    except OSError:
        return False


def _reason(directory: str, path: str, read: Collection[str]) -> str:
    """Why a file is not published, or ""."""
    name, full = os.path.basename(path), os.path.join(directory, path)
    rules = (
        (path.lower() == FILE_NAME, "it is the manifest, which the registry keeps itself"),
        (name.startswith("."), "hidden"),
        (not _is_inside(directory, full), "it links out of the directory"),
        (os.path.isdir(full), "a checkpoint of its own"),
        (not os.path.isfile(full), "not a regular file"),
        (name.lower().startswith(_OF_TRAINING), "what a trainer left behind"),
        (bool(told_by_name(path)), told_by_name(path)),
        (name.lower().endswith(_OTHER_WEIGHTS), "weights of a kind that is not read"),
        (path.endswith(_WEIGHTS) and path not in read, "weights that are not read: " + _preferred(read)),
        (not path.endswith((_WEIGHTS, *_ENDINGS)) and name.partition(".")[0] not in _NAMES, "no engine reads it"),
    )
    found = next((why for applies, why in rules if applies), "")
    if found:
        return found
    try:
        check_path(path)
    except InvalidError:
        return "the registry has no such paths"
    too_large = os.path.getsize(full) > limits.blob_max_bytes
    return f"larger than {limits.blob_max_bytes} bytes" if too_large else ""


def _preferred(read: Collection[str]) -> str:
    return f"{INDEX} names others" if len(read) != 1 else f"{next(iter(read))} is there"


def weight_files(directory: str) -> tuple[str, ...]:
    """The weight files that the drafter is read from, as `checkpoint.files` prefers them; it has checked the index."""
    names = sorted(os.listdir(directory))
    if INDEX in names:
        with open(os.path.join(directory, INDEX), "rb") as file:
            index = msgspec.json.decode(file.read(), type=_Index)
        return tuple(sorted(set(index.weight_map.values())))
    if SINGLE in names:
        return (SINGLE,)
    return tuple(name for name in names if name.endswith(_WEIGHTS))


def _is_inside(directory: str, path: str) -> bool:
    """Whether a file lies in the directory, or in the blobs of the Hub cache's snapshot that the directory is."""
    real, home = os.path.realpath(path), os.path.realpath(directory)
    if real.startswith(home + os.sep):
        return True
    while os.path.basename(os.path.dirname(home)) != "snapshots":
        if home == os.path.dirname(home):
            return False
        home = os.path.dirname(home)
    return os.path.dirname(real) == os.path.join(os.path.dirname(os.path.dirname(home)), "blobs")
