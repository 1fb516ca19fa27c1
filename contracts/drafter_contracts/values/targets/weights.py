"""A target's weight files: which they are, their digest, and two of their tensors without reading the others."""

from __future__ import annotations

import hashlib
import json
import os

import torch

from drafter_contracts import limits
from drafter_contracts.checkpoint.header import LENGTH_BYTES, header_length
from drafter_contracts.checkpoint.regular import open_regular, read_capped
from drafter_contracts.errors import CaptureError, CheckpointError, PickleRefusedError
from drafter_contracts.values.mapped import MappedFile
from drafter_contracts.values.targets.settings import Settings, read_settings

#: Where transformers looks, in this order (`modeling_utils.py`, `_get_resolved_checkpoint_files`).
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

#: Last parts of the names of the embedding and of the head, by model family.
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight", "tok_embeddings.weight")
HEADS = ("lm_head.weight", "embed_out.weight", "output.weight")
#: Parts of a multi-modal or multi-token target that have tensors of the same names.
ASIDE = ("vision", "visual", "audio", "mtp", "per_layer")


def weight_files(directory: str) -> tuple[str, ...]:
    """Names of a target's weight files, sorted: those that transformers loads.

    Args:
        directory: The target.

    Raises:
        PickleRefusedError: There are weights, but none as safetensors.
        CaptureError: There are none, or the index of the shards cannot be read.
    """
    if not os.path.isdir(directory):
        raise CaptureError("no such directory", where=directory, expected="a target on this machine")
    if os.path.exists(os.path.join(directory, SINGLE)):
        return (SINGLE,)
    index = os.path.join(directory, INDEX)
    if os.path.exists(index):
        return _indexed(index)
    names = os.listdir(directory)
    pickles = sorted(name for name in names if name.endswith(PICKLES))
    if pickles and not any(name.endswith(".safetensors") for name in names):
        raise PickleRefusedError(
            "the target's weights exist only as pickle, which is never loaded",
            where=directory,
            expected=SINGLE,
            actual=pickles[0],
        )
    raise CaptureError("the target has no weights", where=directory, expected=f"{SINGLE} or {INDEX}")


def _indexed(index: str) -> tuple[str, ...]:
    try:
        content = json.loads(read_capped(index, limits.index_max_bytes))
        names = sorted(set(content["weight_map"].values()))
        outside = [name for name in names if os.path.basename(name) != name or not name.endswith(".safetensors")]
    except CheckpointError as error:
        raise CaptureError(error.message, where=error.where, expected=error.expected, actual=error.actual) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CaptureError("not an index of shards", where=index, actual=f"{type(error).__name__}: {error}") from None
    if outside or not names:
        actual = outside[0] if outside else "no file"
        raise CaptureError("not an index of shards", where=index, expected="names of safetensors files", actual=actual)
    return tuple(names)


def target_digest(directory: str) -> str:
    """Digest that tells targets apart without reading their weights.

    sha256 over one line "NAME SIZE SHA256" per weight file, sorted by name, each with a line end: the file's size in
    bytes and the sha256 of its safetensors header (the eight bytes of its length included), in hex. It covers names,
    shapes, dtypes and places of all tensors, not their values.

    Raises:
        CaptureError: A weight file that is missing or damaged.
        PickleRefusedError: See `weight_files`.
    """
    lines = []
    for name in weight_files(directory):
        head, size = _head(os.path.join(directory, name))
        lines.append(f"{name} {size} {hashlib.sha256(head).hexdigest()}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _head(path: str) -> tuple[bytes, int]:
    """A weight file's header as it lies there, and the file's size."""
    try:
        file, size = open_regular(path)
        with file:
            prefix = file.read(LENGTH_BYTES)
            return prefix + file.read(header_length(prefix, size, path)), size
    except CheckpointError as error:
        raise CaptureError(error.message, where=error.where, expected=error.expected, actual=error.actual) from None


def embedding_and_head(path: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The target's embedding and head, each [V, H], as views of its memory-mapped files.

    Args:
        path: The target's directory.

    Returns:
        The rows of the embedding as the file holds them, and the head; the same tensor twice if they are tied.

    Raises:
        CaptureError: They are not there, of another shape than config.json says, quantised, or the target multiplies
            its embedding before the first layer: whether a drafter was trained with or without that factor is
            not known.
        PickleRefusedError: See `weight_files`.
    """
    settings = read_settings(path)
    if settings.embedding_factor:
        raise CaptureError(
            f"the target multiplies its embedding ({settings.embedding_factor}), and whether a drafter that reads it "
            "does so too is not written anywhere",
            where=f"{path}: config.json",
            expected="a target whose embedding enters the first layer as it is",
        )
    places = _places(path)
    embedding = _tensor(path, places, EMBEDDINGS, "embedding", settings)
    if not any(_is_called(name, HEADS) for name in places):
        if not settings.tied:
            raise CaptureError(
                "the target's head is not in its weights, and config.json does not tie it to the embedding",
                where=path,
                expected=f"a tensor called {', '.join(HEADS)}",
            )
        return embedding, embedding
    head = _tensor(path, places, HEADS, "head", settings)
    if settings.tied:
        if not torch.equal(embedding, head):
            raise CaptureError(
                "config.json says that the head is the embedding, and the weights hold another head",
                where=f"{path}: tie_word_embeddings",
            )
        return embedding, embedding
    return embedding, head


def _places(directory: str) -> dict[str, MappedFile]:
    """Tensor to the file that holds it."""
    places: dict[str, MappedFile] = {}
    for name in weight_files(directory):
        try:
            file = MappedFile(os.path.join(directory, name))
        except CheckpointError as error:
            raise CaptureError(error.message, where=error.where, expected=error.expected, actual=error.actual) from None
        places |= dict.fromkeys((fact.name for fact in file.header.tensors), file)
    return places


def _is_called(name: str, endings: tuple[str, ...]) -> bool:
    return any(name == ending or name.endswith(f".{ending}") for ending in endings) and not any(
        part in name for part in (*ASIDE, "layers.")
    )


def _tensor(
    directory: str, places: dict[str, MappedFile], endings: tuple[str, ...], what: str, settings: Settings
) -> torch.Tensor:
    names = sorted(name for name in places if _is_called(name, endings))
    if len(names) != 1:
        raise CaptureError(
            f"the target's {what} cannot be told from its tensors",
            where=directory,
            expected=f"one tensor called {', '.join(endings)}",
            actual=", ".join(names[:5]) or "none",
        )
    file = places[names[0]]
    (fact,) = (fact for fact in file.header.tensors if fact.name == names[0])
    where = f"{file.path}: {names[0]}"
    if fact.dtype not in ("F32", "BF16", "F16"):
        raise CaptureError(
            f"the target's {what} is quantised", where=where, expected="F32, BF16 or F16", actual=fact.dtype
        )
    if len(fact.shape) != 2 or fact.shape[1] != settings.hidden_size:
        shape = f"[rows, {settings.hidden_size}]"
        raise CaptureError(f"not the target's {what}", where=where, expected=shape, actual=str(list(fact.shape)))
    try:
        return file.tensor(names[0])
    except CheckpointError as error:
        raise CaptureError(error.message, where=error.where, expected=error.expected, actual=error.actual) from None
