"""What a drafter inherits, derived from small releases that are written here: the sandbox is the real one."""

from __future__ import annotations

import pytest

from drafter_contracts.engines.scan.inherited import derive
from drafter_contracts.engines.scan.tree import SourceTree

METHODS = """
from sglang.srt.layers.quantization.all import Fp8, Fp4, Odd
BASE_QUANTIZATION_METHODS = {"fp8": Fp8, "fp4": Fp4, "odd": Odd}
"""
CLASSES = """
class Fp8:
    @staticmethod
    def get_config_filenames():
        return []
class Fp4:
    @classmethod
    def get_config_filenames(cls):
        return ["hf_quant_config.json"]
class Odd:
    @staticmethod
    def get_config_filenames():
        raise NotImplementedError
"""
OLD = """
class ModelConfig:
    def __init__(self, context_length, is_draft_model=False):
        derived_context_len = get_context_length(self.hf_text_config)
        if context_length is not None:
            if context_length > derived_context_len:
                if get_bool_env_var("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", default="{default}"):
                    logger.warning("longer")
                    self.context_len = context_length
                else:
                    raise ValueError("longer")
            else:
                self.context_len = context_length
    @staticmethod
    def from_server_args(server_args, **kwargs):
        return ModelConfig(model_path="x", quantization=server_args.quantization, **kwargs)
"""
NEW = """
class ModelConfig:
    @staticmethod
    def from_server_args(server_args, is_draft_model=False, **kwargs):
        quantization = (
            server_args.speculative_draft_model_quantization if is_draft_model else server_args.quantization
        )
        return ModelConfig(model_path="x", quantization=quantization, **kwargs)
    def _derive_context_length(self, context_length):
        is_draft_model = self.is_draft_model
        derived_context_len = get_context_length(self.hf_text_config)
        if context_length is not None:
            if context_length > derived_context_len:
                if envs.SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN.get() or is_in_ci():
                    self.context_len = context_length
                    if is_draft_model:
                        self.hf_text_config.max_position_embeddings = context_length
                else:
                    raise ValueError("longer")
"""
FILLED = """
class ServerArgs:
    def __post_init__(self):
        if self.speculative_draft_model_quantization is None:
            self.speculative_draft_model_quantization = self.quantization
"""


def release(**files):
    named = {
        "layers/quantization/__init__.py": METHODS,
        "layers/quantization/all.py": CLASSES,
        "configs/model_config.py": files["config"],
        "server_args.py": files.get("arguments", ""),
        "managers/tp_worker.py": files.get("worker", ""),
    }
    return SourceTree("here", "9.9.9", {path: text.encode() for path, text in named.items()})


@pytest.mark.parametrize(
    ("config", "arguments", "context", "quantization"),
    [
        (OLD.replace("{default}", "True"), "", "warn", "inherits"),
        (OLD.replace("{default}", "false"), "", "error,warn", "inherits"),
        (NEW, FILLED, "error,override", "inherits"),
        (NEW, "", "error,override", ""),
        ("class ModelConfig:\n    pass\n", "", "", ""),
    ],
)
def test_context_and_quantisation_are_what_the_release_makes_of_them(config, arguments, context, quantization):
    found, files = derive(release(config=config, arguments=arguments))
    assert (found.draft_context, found.draft_quantization) == (context, quantization)
    assert found.quantization_files == ("fp4",)
    assert "layers/quantization/__init__.py" in files


def test_a_worker_that_makes_the_drafter_s_config_itself_hands_the_quantisation_on():
    worker = (
        "class TpModelWorker:\n"
        "    def __init__(self, server_args, is_draft_worker):\n"
        "        self.model_config = ModelConfig('x', quantization=server_args.quantization)\n"
    )
    found, files = derive(release(config="class ModelConfig:\n    pass\n", worker=worker))
    assert found.draft_quantization == "inherits"
    assert "managers/tp_worker.py" in files
