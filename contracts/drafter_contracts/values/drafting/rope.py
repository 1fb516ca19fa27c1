"""Rotary position embedding, half-split (NeoX), in the scalings that drafters use.

Formulas as in transformers 5.24 `modeling_rope_utils.py`, which engines follow for these types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from drafter_contracts.errors import InternalError

#: Base where a config states none: what Llama's config class and SGLang 0.5.23 (`models/llama.py`) fall back to.
DEFAULT_THETA = 10000.0
LINEAR, LLAMA3, YARN = "linear", "llama3", "yarn"
_NEEDS = {
    "default": (),
    LINEAR: ("factor",),
    LLAMA3: ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    YARN: ("factor", "original_max_position_embeddings"),
}
#: Keys of a scaling that change the angles or their scale in some reader and are not computed here.
_CHANGES = (
    "mrope_section",
    "mscale",
    "mscale_all_dim",
    "attn_factor",
    "extrapolation_factor",
    "short_factor",
    "long_factor",
    "use_fope",
    "full_attention",
    "sliding_attention",
)


@dataclass(frozen=True)
class Rope:
    """How positions are turned into angles.

    Attributes:
        theta: Base.
        scaling: `rope_scaling` as configs hold it, or None.
    """

    theta: float
    scaling: Mapping[str, object] | None = None

    @property
    def kind(self) -> str:
        """`rope_type` in lower case; "default" without a scaling."""
        scaling = self.scaling or {}
        stated = scaling.get("rope_type", scaling.get("type"))
        return str(stated).lower() if stated is not None else "default"

    def problems(self) -> list[str]:
        """What keeps it from being computed here; empty if nothing does."""
        scaling = self.scaling or {}
        if self.kind not in _NEEDS:
            return [f"RoPE scaling {self.kind!r} (default, linear, llama3 and yarn are computed)"]
        found = [f"RoPE scaling with {key}" for key in _CHANGES if scaling.get(key) is not None]
        found += [
            f"RoPE scaling {self.kind!r} whose {key} is {scaling.get(key)!r} and not a positive number"
            for key in _NEEDS[self.kind]
            if self._number(key) is None
        ]
        if (
            self.kind == LLAMA3
            and not found
            and self._required("low_freq_factor") >= self._required("high_freq_factor")
        ):
            found.append("RoPE scaling 'llama3' whose low_freq_factor is not below its high_freq_factor")
        return found

    def angles(self, positions: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each float32 [positions, width].

        Args:
            positions: How many, from 0.
            width: Of one head, even.
        """
        frequencies, scale = self.frequencies(width)
        angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequencies
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos() * scale, angles.sin() * scale

    def frequencies(self, width: int) -> tuple[torch.Tensor, float]:
        """Inverse frequencies, float32 [width / 2], and the factor on cosine and sine."""
        exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
        plain = 1.0 / self.theta**exponents
        if self.kind == LINEAR:
            return plain / self._required("factor"), 1.0
        if self.kind == LLAMA3:
            return self._llama3(plain), 1.0
        if self.kind == YARN:
            return self._yarn(plain, width)
        return plain, 1.0

    def _llama3(self, plain: torch.Tensor) -> torch.Tensor:
        """Long waves are slowed by the factor, short ones kept, those between blended."""
        factor, length = self._required("factor"), self._required("original_max_position_embeddings")
        low, high = self._required("low_freq_factor"), self._required("high_freq_factor")
        turns = length * plain / (2 * math.pi)
        blend = ((turns - low) / (high - low)).clamp(0.0, 1.0)
        return (1 - blend) * plain / factor + blend * plain

    def _yarn(self, plain: torch.Tensor, width: int) -> tuple[torch.Tensor, float]:
        factor, length = self._required("factor"), self._required("original_max_position_embeddings")
        fast, slow = self._number("beta_fast") or 32.0, self._number("beta_slow") or 1.0
        low, high = (
            width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(self.theta)) for turns in (fast, slow)
        )
        if (self.scaling or {}).get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        span = high - low or 0.001
        slowed = ((torch.arange(width // 2, dtype=torch.float32) - low) / span).clamp(0.0, 1.0)
        scale = self._number("attention_factor") or (0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0)
        return plain / factor * slowed + plain * (1 - slowed), scale

    def _number(self, key: str) -> float | None:
        value = (self.scaling or {}).get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
            return float(value)
        return None

    def _required(self, key: str) -> float:
        value = self._number(key)
        if value is None:  # `problems` names it before anything is computed
            raise InternalError("a RoPE scaling was used that nobody judged", where=key)
        return value


def rotate(states: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """States turned by their positions' angles.

    Args:
        states: [heads, rows, width].
        cosine: [rows, width].
        sine: [rows, width].
    """
    first, second = states.chunk(2, dim=-1)
    return states * cosine + torch.cat((-second, first), dim=-1) * sine
