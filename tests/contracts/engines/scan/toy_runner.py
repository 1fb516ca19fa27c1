"""Small releases in SGLang's shape, for tests: what reads a drafter's ids, records graphs and hands overrides on."""

from __future__ import annotations

import textwrap

from drafter_contracts.engines.scan.tree import SourceTree

NESTED = "eagle_config.eagle_aux_hidden_state_layer_ids"

SPEC_INFO = """
from enum import IntEnum, auto

class SpeculativeAlgorithm(IntEnum):
    NONE = auto()
    EAGLE3 = auto()
    {more}

    def is_none(self):
        return self == SpeculativeAlgorithm.NONE

    def is_eagle3(self):
        return self == SpeculativeAlgorithm.EAGLE3

    def is_dflash(self):
        return self.name == "DFLASH"

    @classmethod
    def from_string(cls, name):
        return cls[name]
"""

GRAPH_RUNNER = """
class CudaGraphRunner:
    def __init__(self, model_runner):
        {reset}
        self.capture()

    def capture(self):
        pass
"""

RESET = "model_runner.model.set_eagle3_layers_to_capture()"

RUNNER = """
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner

class ModelRunner:
    def __init__(self, server_args, spec_algorithm):
        self.server_args = server_args
        self.spec_algorithm = spec_algorithm
        self.use_aux = False
        if self.spec_algorithm.is_eagle3() and not self.is_draft_worker:
            draft_model_config = ModelConfig.from_server_args(server_args, is_draft_model=True)
{read}
{order}

    def init_device_graphs(self):
        if self.server_args.disable_cuda_graph:
            return
        self.graph_runner = CudaGraphRunner(self)

    def set_layers(self):
        if self.use_aux:
            self.model.set_eagle3_layers_to_capture(self.layer_ids)
"""

READ = """
            self.use_aux = True
            try:
                eagle_config = getattr(draft_model_config.hf_config, "eagle_config", None)
                self.use_aux = eagle_config.get("use_aux_hidden_state", True)
                self.layer_ids = eagle_config["eagle_aux_hidden_state_layer_ids"]
            except:
                self.layer_ids = None
"""

AFTER = """
        self.init_device_graphs()
        self.set_layers()
"""
BEFORE = """
        self.set_layers()
        self.init_device_graphs()
"""

MODEL_CONFIG = """
class ModelConfig:
    @staticmethod
    def from_server_args(server_args, is_draft_model=False):
        return ModelConfig(model_override_args={given})
"""

GET_CONFIG = """
def get_config(model, model_override_args=None):
    config = load(model)
    if model_override_args:
{apply}
    return config
"""


def release(
    *,
    read: str = READ,
    order: str = AFTER,
    reset: str = RESET,
    more: str = "",
    given: str = "server_args.json_model_override_args",
    apply: str = "config.update(model_override_args)",
    extra: dict[str, str] | None = None,
) -> SourceTree:
    """A release of the shape that SGLang's have."""
    files = {
        "speculative/spec_info.py": SPEC_INFO.format(more=more),
        "model_executor/cuda_graph_runner.py": GRAPH_RUNNER.format(reset=reset),
        "model_executor/model_runner.py": RUNNER.format(read=read, order=order),
        "configs/model_config.py": MODEL_CONFIG.format(given=given),
        "utils/hf_transformers/config.py": GET_CONFIG.format(apply=textwrap.indent(apply, " " * 8)),
        **(extra or {}),
    }
    return SourceTree("here", "9.9.9", {path: text.encode() for path, text in files.items()})


DFLASH_UTILS = """
def build_target_layer_ids(num_target_layers, num_draft_layers):
    if num_draft_layers == 1:
        return [num_target_layers // 2]
    start, end = 1, num_target_layers - {margin}
    if num_target_layers < 4:
        raise ValueError("too shallow")
    return [int(round(start + i * (end - start) / (num_draft_layers - 1))) for i in range(num_draft_layers)]

class Parsed:
    def __init__(self, config):
        nested = getattr(config, "dflash_config", None)
        nested = nested if isinstance(nested, dict) else {{}}
        self.ids = nested.get("target_layer_ids", getattr(config, "target_layer_ids", None))
        if self.ids is not None:
            self.ids = [int(i) for i in self.ids]
        self.depth = config.num_hidden_layers

    def resolve(self, layers):
        if self.ids is None:
            return build_target_layer_ids(layers, self.depth)
        if not self.ids or any(i < 0 or i >= layers for i in self.ids):
            raise ValueError("out of range")
        return self.ids

def parse_dflash_draft_config(config):
    return Parsed(config)
"""

DFLASH_READ = """
        if self.spec_algorithm.is_dflash():
            from sglang.srt.speculative.dflash_utils import parse_dflash_draft_config
            draft_model_config = self._build_model_config(server_args)
            parsed = parse_dflash_draft_config(draft_model_config.hf_config)
            self.dflash_ids = parsed.resolve(self.model_config.hf_text_config.num_hidden_layers)
            if self.model_config.hf_config.model_type == "oddity" and "ShiftedDraft" in (
                getattr(draft_model_config.hf_config, "architectures", None) or []
            ):
                self.dflash_ids = [i + 1 for i in self.dflash_ids]
"""
DFLASH_ORDER = """
        if self.spec_algorithm.is_dflash():
            if hasattr(self.model, "set_dspark_layers_to_capture"):
                self.model.set_dspark_layers_to_capture(self.dflash_ids)
            elif hasattr(self.model, "set_dflash_layers_to_capture"):
                self.model.set_dflash_layers_to_capture(self.dflash_ids)
            else:
                raise ValueError("no hook")
        self.init_device_graphs()
"""


def dflash_release(margin: int = 3, read: str = DFLASH_READ, **extra: str) -> SourceTree:
    runner = RUNNER.format(read="            pass", order=read + DFLASH_ORDER)
    utils = DFLASH_UTILS.format(margin=margin)
    files = {"model_executor/model_runner.py": runner, "speculative/dflash_utils.py": utils, **extra}
    return release(more="DFLASH = auto()", extra=files)
