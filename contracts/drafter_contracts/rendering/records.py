"""What a render changes of a drafter's weights."""

from __future__ import annotations

import msgspec


class WeightChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the weights of a render differ from the drafter's own. Every tensor not concerned keeps its bytes.

    Attributes:
        order: Block j of the columns of `fc.weight` in the render is the drafter's own block `order[j]`, and so is
            whatever else belongs to one tap (norms per chunk, one norm over the concatenation, a mask's state).
            Empty: as they are.
        renames: Name of a tensor in the checkpoint to its name in the render.
    """

    order: tuple[int, ...] = ()
    renames: dict[str, str] = {}

    @property
    def any(self) -> bool:
        """Whether anything changes."""
        return bool(self.order or self.renames)


#: Weights as they are.
UNCHANGED = WeightChange()
