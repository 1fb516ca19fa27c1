"""A target's model, loaded from this machine: safetensors only, whole, and no code of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from drafter_contracts.errors import CaptureError
from drafter_contracts.values.targets.settings import Settings, told
from drafter_contracts.values.targets.weights import weight_files

AUTO = "auto"
#: Tensors that a message names.
_MOST_NAMED = 5
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(directory: str, settings: Settings, dtype: str, device: str) -> Any:
    """Load a target.

    Args:
        directory: The target, on this machine.
        settings: Its config.
        dtype: A key of `DTYPES`, or "auto" for that of its config.
        device: "cpu", "cuda", "cuda:1", ...

    Returns:
        The causal language model of transformers, not training.

    Raises:
        CaptureError: An unknown dtype or device, a part of a model only, weights that are missing, or whatever
            transformers says.
        PickleRefusedError: The weights exist only as pickle.
    """
    import transformers

    if dtype != AUTO and dtype not in DTYPES:
        raise CaptureError("unknown dtype", where="dtype", expected="|".join((AUTO, *DTYPES)), actual=dtype)
    weight_files(directory)
    adapter = os.path.join(directory, "adapter_config.json")
    if os.path.exists(adapter):  # transformers would load another model below it
        raise CaptureError("an adapter is no target", where=adapter, expected="a model with its adapter merged")
    try:
        with _quiet():
            model, report = transformers.AutoModelForCausalLM.from_pretrained(
                directory,
                config=settings.config,
                dtype=DTYPES.get(dtype, AUTO),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are told below, by name
            )
            model = model.to(device).eval()
    except Exception as error:  # noqa: BLE001 - whatever transformers raises, this target does not run here
        raise CaptureError("transformers cannot load this target", where=directory, actual=told(error)) from None
    _check_complete(report, type(model).__name__, directory)
    return model


def _check_complete(report: dict[str, Any], name: str, where: str) -> None:
    """That every tensor is there and of the model's shape: transformers fills the others with random numbers."""
    mismatched = {key: f"{key} {list(ours)}, not {list(wanted)}" for key, ours, wanted in report["mismatched_keys"]}
    missing = sorted(set(report["missing_keys"]) - set(mismatched))
    told = []
    for found, what in ((missing, "missing"), (sorted(mismatched.values()), "of another shape")):
        more = ", ..." if len(found) > _MOST_NAMED else ""
        told += [f"{len(found)} {what}: {', '.join(found[:_MOST_NAMED])}{more}"] if found else []
    if told:
        message, expected = "the target's weights are not all there", f"{name}'s tensors"
        raise CaptureError(message, where=where, expected=expected, actual="; ".join(told))


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars of transformers, no report: what is said here goes through this project's own words."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
