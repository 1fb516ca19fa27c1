"""What of a target's config.json decides how it is run: read by transformers' own classes, without the network."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

from drafter_contracts import limits
from drafter_contracts.errors import CaptureError

#: Keys of targets with several residual streams: none of these streams is "the" state that enters a layer.
STREAM_KEYS = ("hc_mult", "hc_count", "altup_num_inputs", "num_residual_streams", "hyper_connection_rate")
#: Model families that multiply the embedding by sqrt(H) in their code, without a key of config.json.
ROOT_SCALED = ("gemma", "recurrent_gemma", "t5gemma", "vaultgemma")
#: Keys that multiply it.
FACTOR_KEYS = ("embedding_multiplier", "scale_emb", "embed_scale", "embedding_scale", "input_embedding_multiplier")


class Settings(NamedTuple):
    """A target's config.

    Attributes:
        config: As transformers read it.
        model_type: Of the language model.
        layers: N.
        hidden_size: H.
        vocab_size: Tokens that config.json knows.
        context: Most tokens of one text; 0 if it does not say.
        tied: Whether the head is the embedding.
        embedding_factor: What multiplies the embedding before the first layer, or "".
    """

    config: Any
    model_type: str
    layers: int
    hidden_size: int
    vocab_size: int
    context: int
    tied: bool
    embedding_factor: str


def read_settings(directory: str) -> Settings:
    """Read a target's config.json.

    Args:
        directory: The target, on this machine.

    Raises:
        CaptureError: It is not there, transformers does not know the class, it has several residual streams, or it
            lacks a depth, a width or a vocabulary.
    """
    import transformers

    where = os.path.join(directory, "config.json")
    if not os.path.isfile(where):
        raise CaptureError("no such file", where=where, expected="a target on this machine")
    try:
        config = transformers.AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        text = config.get_text_config(decoder=True)
    except Exception as error:  # noqa: BLE001 - whatever transformers raises, it cannot read this config
        raise CaptureError("transformers cannot read this target", where=where, actual=told(error)) from None
    faults = [
        f"{name} is {getattr(text, name, None)!r}"
        for name in ("num_hidden_layers", "hidden_size", "vocab_size")
        if not isinstance(getattr(text, name, None), int) or getattr(text, name) < 1
    ]
    if faults:
        raise CaptureError("the target's size is not known", where=where, actual="; ".join(faults))
    if text.num_hidden_layers > limits.target_max_layers:
        most = f"at most {limits.target_max_layers} layers"
        raise CaptureError("too many layers", where=where, expected=most, actual=str(text.num_hidden_layers))
    _refuse_streams(text, where)
    context = getattr(text, "max_position_embeddings", None)
    return Settings(
        config=config,
        model_type=str(text.model_type),
        layers=text.num_hidden_layers,
        hidden_size=text.hidden_size,
        vocab_size=text.vocab_size,
        context=context if isinstance(context, int) else 0,
        tied=bool(getattr(text, "tie_word_embeddings", False) or getattr(config, "tie_word_embeddings", False)),
        embedding_factor=_embedding_factor(text),
    )


def _refuse_streams(text: Any, where: str) -> None:
    for key in STREAM_KEYS:
        value = getattr(text, key, None)
        if isinstance(value, int) and value > 1:
            raise CaptureError(
                f"{text.model_type} has several residual streams: no one state enters a layer, and what an engine "
                "captures is a mixture of them that is not computed here",
                where=f"{where}: {key}",
                expected="1",
                actual=str(value),
            )


def _embedding_factor(text: Any) -> str:
    family = str(text.model_type)
    if family.startswith(ROOT_SCALED):
        return f"{family}: sqrt({text.hidden_size}) = {math.sqrt(text.hidden_size):g}"
    for key in FACTOR_KEYS:
        value = getattr(text, key, None)
        if isinstance(value, int | float) and not isinstance(value, bool) and value != 1:
            return f"{key} {value:g}"
    return ""


def told(error: BaseException) -> str:
    """An exception of somebody else's library in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
