"""Reading a drafter's directory: config.json and weight headers. All files are opened here and in `files`."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from drafter_contracts import limits
from drafter_contracts.checkpoint.config_view import ConfigView
from drafter_contracts.checkpoint.facts import MEDUSA, DrafterFacts
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.checkpoint.files import Weights, pickles, read_weights
from drafter_contracts.checkpoint.method import is_medusa
from drafter_contracts.checkpoint.parts import quantization
from drafter_contracts.checkpoint.regular import read_capped
from drafter_contracts.errors import CheckpointError

#: Where ModelOpt states a quantisation that config.json does not; SGLang reads it too (configs/model_config.py).
_QUANTIZATION = "hf_quant_config.json"


def read_drafter(
    path: str, *, target_layers: int | None = None, target_hidden_size: int | None = None, target_model_type: str = ""
) -> DrafterFacts:
    """Read a drafter's directory; no weight is read and nothing is unpickled.

    Args:
        path: Directory that holds config.json and usually weights.
        target_layers: Decoder layers of the target, if known; default layouts depend on it.
        target_hidden_size: Width of the target's residual stream, if known.
        target_model_type: `model_type` of the target's config, if known.

    Returns:
        All facts. Contradictions between config.json and tensors are in `disagreements`, not raised: see
        `facts_from.require_consistent`.

    Raises:
        CheckpointError: No directory, no readable config.json, or weight files that cannot be read.
        PickleRefusedError: The weights are there as pickle only.
    """
    if not os.path.isdir(path):
        found = "a file" if os.path.exists(path) else "nothing of that name"
        raise CheckpointError("not a drafter's directory", where=path, expected="a directory", actual=found)
    config = read_config(os.path.join(path, "config.json"))
    separate = os.path.join(path, _QUANTIZATION)
    stated_elsewhere = {} if not os.path.exists(separate) else read_config(separate)
    weights = _medusa_weights(path) if is_medusa(config) else read_weights(path)
    facts = drafter_facts(
        config,
        weights.tensors,
        path=path,
        weights=weights.kind,
        metadata=weights.metadata,
        target_layers=target_layers,
        target_hidden_size=target_hidden_size,
        target_model_type=target_model_type,
    )
    return msgspec.structs.replace(
        facts,
        notes=(*facts.notes, *weights.notes),
        beside=weights.beside,
        quantization=facts.quantization or quantization(ConfigView(stated_elsewhere)),
    )


def read_config(path: str) -> dict[str, Any]:
    """Read a config.json.

    Raises:
        CheckpointError: No such file, too large, or not one JSON object.
    """
    content = read_capped(path, limits.config_max_bytes)
    try:
        config = msgspec.json.decode(content)
    except (msgspec.MsgspecError, RecursionError):
        config = _read_lenient(content, path)
    if not isinstance(config, dict):
        raise CheckpointError("not a config", where=path, expected="one JSON object", actual=type(config).__name__)
    return config


def _read_lenient(content: bytes, path: str) -> object:
    """As Transformers reads it: Python's parser also takes NaN and Infinity, which configs of SSM models hold."""
    import json

    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CheckpointError("not JSON", where=path, actual=str(error)) from None


def _medusa_weights(path: str) -> Weights:
    """Medusa heads are pickles and unsupported anyway: say so (`MEDUSA`) instead of refusing their format."""
    names = pickles(path)
    if not names:
        return read_weights(path)
    return Weights("none", notes=(f"{MEDUSA} heads as pickle, not read: {', '.join(names)}",))
