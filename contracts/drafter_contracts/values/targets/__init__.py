"""A target run with transformers: every boundary, the final norm and the target's own choices; and its weight files.

Shapes: T tokens, H width of the residual stream, N decoder layers, V rows of the embedding.
"""

from __future__ import annotations

from drafter_contracts.values.targets.recording import record_target
from drafter_contracts.values.targets.running import Target, open_target, run_target
from drafter_contracts.values.targets.weights import embedding_and_head, target_digest

__all__ = ["Target", "embedding_and_head", "open_target", "record_target", "run_target", "target_digest"]
