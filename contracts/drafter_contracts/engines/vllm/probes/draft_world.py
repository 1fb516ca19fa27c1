"""The surroundings in which vLLM's drafter classes are built: layers become leaves, everything else is built."""

from __future__ import annotations

from drafter_contracts.engines.scan.probes import draft_world
from drafter_contracts.engines.scan.probes.layers import DraftModule, Leaf
from drafter_contracts.engines.scan.standins import Standin
from drafter_contracts.engines.vllm.probes import readings, world

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Decoder layers of the target that a drafter is built for.
TARGET_LAYERS = 40
#: Its vocabulary and width.
VOCABULARY, HIDDEN = 1024, 64


class CustomOp(DraftModule):
    """See `world.CustomOp`; here every such module is a leaf."""

    register = register_oot = world.CustomOp.register


def install(release: LazyRelease) -> None:
    """Put the stand-ins in place; before anything of the release is looked up."""
    world.install(release)
    draft_world.install(release)
    operations = release.import_module("vllm.model_executor.custom_op")
    operations.CustomOp = operations.PluggableLayer = CustomOp  # type: ignore[attr-defined]
    release.replace("get_current_vllm_config", lambda: CURRENT[0])
    release.replace("get_rope", lambda *_args, **_kwargs: Leaf("RotaryEmbedding", {}, torch=False))


#: The configuration that is being built with.
CURRENT: list[object] = [Standin("vllm_config")]


def instantiate(cls: type, config: Any) -> object:
    """Build a drafter as the release's loader does, for a target of `TARGET_LAYERS` layers."""
    made = world.VllmConfig(config)
    made.__dict__["speculative_config"] = readings.speculative(config)
    made.speculative_config.draft_model_config.quantization = None
    made.model_config.__dict__["get_total_num_hidden_layers"] = lambda: TARGET_LAYERS
    made.model_config.__dict__["get_num_layers"] = lambda _parallel=None: TARGET_LAYERS
    made.model_config.__dict__["get_vocab_size"] = lambda: VOCABULARY
    made.model_config.__dict__["get_hidden_size"] = lambda: HIDDEN
    CURRENT[0] = made
    return cls(vllm_config=made, prefix="")
