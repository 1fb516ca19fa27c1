"""Which files of a drafter directory hold weights, and the headers of all of them.

Order of search, as SGLang's loader prefers them: the shard index, `model.safetensors`, any `*.safetensors`. A
checkpoint whose weights exist only as pickle or GGUF is refused with what to do about it.
"""

from __future__ import annotations

import os

import msgspec

from drafter_contracts import limits
from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.header import read_header
from drafter_contracts.checkpoint.regular import read_capped
from drafter_contracts.errors import CheckpointError, PickleRefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt")
#: Pickles beside the weights that trainers leave behind; they are no weights and no reason to refuse.
_NOT_WEIGHTS = ("training_args.", "optimizer.", "scheduler.", "rng_state", "trainer_state", "vocab_mapping.")
#: Mistral's own format. Where it lies beside the single file and nothing else does, engines leave it out.
_CONSOLIDATED = "consolidated.safetensors"
_SHOWN = 5


class Weights(msgspec.Struct, frozen=True):
    """The weight files of a directory, by their headers.

    Attributes:
        kind: "safetensors", "sharded safetensors" or "none".
        tensors: Of all files, sorted by name.
        metadata: `__metadata__` of all files together (a later shard's value wins).
        notes: What a reader should know about the files.
        beside: Weight files that were not read and that an engine reads too: those beside the single one, where no
            index says which count.
    """

    kind: str
    tensors: tuple[TensorFact, ...] = ()
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def read_weights(directory: str) -> Weights:
    """Read the headers of all weight files of a directory.

    Raises:
        CheckpointError: A file that cannot be read, a bad header, an index that does not agree with its shards or
            names a file outside the directory, one tensor in two files, or GGUF weights alone.
        PickleRefusedError: The weights are there as pickle only.
    """
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise CheckpointError("cannot be listed", where=directory, actual=error.strerror or str(error)) from None
    if INDEX in names:
        return _read_sharded(directory, names)
    shards = [SINGLE] if SINGLE in names else [name for name in names if name.endswith(".safetensors")]
    if shards:
        tensors, metadata = _read_all(directory, shards)
        beside = [name for name in names if name.endswith(".safetensors") and name not in shards]
        notes = (f"not read, as {SINGLE} is there: {', '.join(beside)}",) if beside else ()
        kind = "safetensors" if len(shards) == 1 else "sharded safetensors"
        read_too = () if beside == [_CONSOLIDATED] else tuple(beside)
        return Weights(kind, _sorted(tensors.values()), metadata, notes, read_too)
    _refuse_other_formats(directory, names)
    return Weights("none")


def pickles(directory: str) -> tuple[str, ...]:
    """Names of the pickled weight files of a directory."""
    return tuple(name for name in sorted(os.listdir(directory)) if _is_pickle(name))


def _is_pickle(name: str) -> bool:
    return name.endswith(_PICKLE_ENDINGS) and not name.startswith(_NOT_WEIGHTS)


def _refuse_other_formats(directory: str, names: list[str]) -> None:
    pickled = [name for name in names if _is_pickle(name)]
    if pickled:
        raise PickleRefusedError(
            "the weights are there as pickle only, which can run code when it is loaded and is never read here; "
            f"convert them once, in this directory: {_conversion(pickled)}",
            where=directory,
            expected=f"{SINGLE} or {INDEX}",
            actual=", ".join(pickled[:_SHOWN]),
        )
    gguf = [name for name in names if name.endswith(".gguf")]
    if gguf:
        raise CheckpointError(
            "GGUF is llama.cpp's format, with layer ids and d2t of its own meaning; "
            "give the safetensors checkpoint that it was converted from",
            where=directory,
            expected=f"{SINGLE} or {INDEX}",
            actual=", ".join(gguf[:_SHOWN]),
        )


def _conversion(names: list[str]) -> str:
    """A command that turns pickled weights into safetensors without running what a pickle says.

    It finds the files by pattern: their names come from whoever made them and do not belong into a shell.
    """
    patterns = sorted({f"*{ending}" for name in names for ending in _PICKLE_ENDINGS if name.endswith(ending)})
    if all(name.startswith("pytorch_model") for name in names):
        patterns = ["pytorch_model*.bin"]
    return (
        'python -c "import glob, torch; from safetensors.torch import save_file; w = {}; '
        f"[w.update(torch.load(f, map_location='cpu', weights_only=True)) for p in {patterns} "
        "for f in sorted(glob.glob(p))]; "
        "save_file({k: v.clone().contiguous() for k, v in w.items()}, 'model.safetensors', {'format': 'pt'})\""
    )


def _read_all(directory: str, shards: Iterable[str]) -> tuple[dict[str, TensorFact], dict[str, str]]:
    tensors: dict[str, TensorFact] = {}
    metadata: dict[str, str] = {}
    found_in: dict[str, str] = {}
    for shard in shards:
        header = read_header(os.path.join(directory, shard))
        metadata.update(header.metadata)
        for tensor in header.tensors:
            if tensor.name in tensors:
                raise CheckpointError(
                    f"the tensor {tensor.name} is in two files",
                    where=directory,
                    actual=f"{found_in[tensor.name]} and {shard}",
                )
            tensors[tensor.name] = tensor
            found_in[tensor.name] = shard
    return tensors, metadata


def _read_sharded(directory: str, names: list[str]) -> Weights:
    path = os.path.join(directory, INDEX)
    weight_map = _read_index(path)
    shards = sorted(set(weight_map.values()))
    for shard in shards:
        _check_shard_name(directory, shard, path)
    tensors: dict[str, TensorFact] = {}
    metadata: dict[str, str] = {}
    wrong: list[str] = []
    for shard in shards:
        header = read_header(os.path.join(directory, shard))
        metadata.update(header.metadata)
        wrong += [f"{tensor.name} (in {shard})" for tensor in header.tensors if weight_map.get(tensor.name) != shard]
        tensors.update((tensor.name, tensor) for tensor in header.tensors)
    wrong += [f"{name} (not in {shard})" for name, shard in weight_map.items() if name not in tensors]
    if wrong:
        raise CheckpointError(
            "the shard index and the shards disagree: a file is missing, mixed up or of another revision",
            where=path,
            actual=", ".join(wrong[:_SHOWN]) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""),
        )
    beside = [name for name in names if name.endswith(".safetensors") and name not in shards]
    notes = (f"not named by the shard index: {', '.join(beside)}",) if beside else ()
    return Weights("sharded safetensors", _sorted(tensors.values()), metadata, notes)


def _read_index(path: str) -> Mapping[str, str]:
    try:
        index = msgspec.json.decode(read_capped(path, limits.index_max_bytes), type=_Index)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CheckpointError("not a shard index", where=path, expected="weight_map", actual=str(error)) from None
    if not index.weight_map:
        raise CheckpointError("the shard index names no tensor", where=path)
    return index.weight_map


def _check_shard_name(directory: str, shard: str, index: str) -> None:
    """Refuse what an index could use to reach outside its directory."""
    if shard != os.path.basename(shard) or "\\" in shard or "\0" in shard or not shard.endswith(".safetensors"):
        raise CheckpointError("a shard must be a file beside the index", where=index, actual=repr(shard))
    path = os.path.join(directory, shard)
    if not os.path.lexists(path):
        raise CheckpointError("a shard that the index names is missing", where=index, actual=shard)
    real = os.path.realpath(path)
    if os.path.dirname(real) not in _allowed_folders(os.path.realpath(directory)):
        raise CheckpointError(
            "a shard links out of the directory", where=index, expected="a file beside it", actual=f"{shard} -> {real}"
        )


def _allowed_folders(directory: str) -> tuple[str, ...]:
    """The directory itself and, in the Hub's cache (snapshots/<revision>), the blobs that its links point to."""
    snapshots, repository = os.path.dirname(directory), os.path.dirname(os.path.dirname(directory))
    if os.path.basename(snapshots) != "snapshots":
        return (directory,)
    return directory, os.path.join(repository, "blobs")


def _sorted(tensors: Iterable[TensorFact]) -> tuple[TensorFact, ...]:
    return tuple(sorted(tensors, key=lambda tensor: tensor.name))
