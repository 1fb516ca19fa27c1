"""Values that the tensor code passes on: samples of recorded states, and the target's own states to compare them with.

Shapes: T tokens, H width of the target's residual stream, N decoder layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from drafter_contracts.errors import SampleError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, Tap

#: Formats of recorded states, told apart by content (docs/samples.md).
SPECULATORS_V0 = "speculators v0"
SPECULATORS_V1 = "speculators v1"
STACKED = "stacked safetensors"  # speculators now, and vLLM's extraction: the same file
SPECFORGE_EAGLE3 = "specforge eagle3"
SPECFORGE_DFLASH = "specforge dflash"
SPECFORGE_DSPARK = "specforge dspark"
MODELOPT = "modelopt"
TENSORRT_LLM = "tensorrt-llm"
ANGELSLIM = "angelslim"
DEEPSPEC = "deepspec cache"
PLAIN = "plain safetensors"
FORMATS = (
    SPECULATORS_V0,
    SPECULATORS_V1,
    STACKED,
    SPECFORGE_EAGLE3,
    SPECFORGE_DFLASH,
    SPECFORGE_DSPARK,
    MODELOPT,
    TENSORRT_LLM,
    ANGELSLIM,
    DEEPSPEC,
    PLAIN,
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One recorded sample. Tensors are views of a memory-mapped file where the format allows it: slice, do not copy.

    Attributes:
        path: The file.
        entry: Which sample of a file or folder that holds several, else "".
        format: One of `FORMATS`.
        tokens: int64 [T].
        blocks: What feeds `fc`, in concatenation order: either one [T, H] per state, or a single [T, k*H] where the
            file does not separate them (`split` does).
        last: The target's last state [T, H] recorded beside them, or None.
        last_may_be_inside: The last of `blocks` may be the target's last state: such files do not say.
        last_norm: Norm state of `last` that the format promises: "residual", "final_norm", or "" if it does not.
        loss_mask: bool [T], or None.
        labels: Layer ids that files beside it claim, as they write them.
        label_source: Which file and key claim them, "data_config.json: layer_ids".
    """

    path: str
    format: str
    tokens: torch.Tensor
    blocks: tuple[torch.Tensor, ...]
    entry: str = ""
    last: torch.Tensor | None = None
    last_may_be_inside: bool = False
    last_norm: str = ""
    loss_mask: torch.Tensor | None = None
    labels: tuple[int, ...] = ()
    label_source: str = ""

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the states."""
        return self.blocks[0].dtype

    def split(self, hidden_size: int) -> tuple[torch.Tensor, ...]:
        """The states that feed `fc`, one [T, H] each, in concatenation order.

        Args:
            hidden_size: H.

        Raises:
            SampleError: A width that is no multiple of H.
        """
        states: list[torch.Tensor] = []
        for block in self.blocks:
            if block.shape[-1] % hidden_size:
                raise SampleError(
                    "the states are no multiple of the target's width",
                    where=self.path,
                    expected=f"a multiple of {hidden_size}",
                    actual=str(block.shape[-1]),
                )
            states += torch.split(block, hidden_size, dim=-1)
        return tuple(states)


@dataclass(frozen=True, kw_only=True)
class Capture:
    """A target's own states on some tokens: all of them, or those that whoever recorded them could take.

    Attributes:
        record: What the target is and how it ran.
        tokens: int64 [T].
        states: [T, H] per tap: the residual stream at boundary 0 (embedding output) to N (last layer's output before
            the final norm), and at N also the state after the final norm, the input of the target's head.
        choices: int64 [T]: the target's first choice for the token after each, or None.
    """

    record: ReferenceRecord
    tokens: torch.Tensor
    states: Mapping[Tap, torch.Tensor]
    choices: torch.Tensor | None = None

    def taps(self) -> tuple[Tap, ...]:
        """Every state there is: boundaries in ascending order, the final norm last."""
        return tuple(sorted(self.states, key=lambda tap: (tap.boundary, tap.state == FINAL_NORM)))

    def missing(self) -> tuple[Tap, ...]:
        """States of the target that are not here: nothing can be said to be none of these."""
        layers = self.record.layers
        every = (*(Tap(boundary) for boundary in range(layers + 1)), Tap(layers, FINAL_NORM))
        return tuple(tap for tap in every if tap not in self.states)
