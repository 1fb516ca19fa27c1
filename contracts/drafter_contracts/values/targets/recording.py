"""A target's states straight into a capture file: what is in memory is one state, not all of them."""

from __future__ import annotations

import torch

from drafter_contracts.values.capture_writer import CaptureWriter
from drafter_contracts.values.targets.running import Target


def record_target(target: Target, tokens: torch.Tensor, path: str) -> None:
    """Run a target and write every state, and its choices, to a capture file as they come.

    Args:
        target: See `open_target`.
        tokens: int64 [T].
        path: The capture file; one of that name is replaced when all is written, and kept if something fails.

    Raises:
        CaptureError: See `Target.stream`; or the file cannot be written.
    """
    with CaptureWriter(path, target.record, tokens, target.taps()) as file:
        file.put_choices(target.stream(tokens, file.put))
