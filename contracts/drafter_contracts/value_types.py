"""Types of fields that documents share."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from drafter_contracts import limits

Count = Annotated[int, msgspec.Meta(ge=1)]
Boundary = Annotated[int, msgspec.Meta(ge=0, le=limits.target_max_layers)]
Size = Annotated[int, msgspec.Meta(ge=0)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")]
GivenSha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
State = Literal["residual", "final_norm", "stream_mean", "stream_mixture"]
