"""A small release in vLLM's shape: one target, one drafter, both runners, in the variants that a test needs."""

from __future__ import annotations

import os

REGISTRY = """
_TEXT_GENERATION_MODELS = {"ToyForCausalLM": ("toy", "ToyForCausalLM"), "BareForCausalLM": ("toy", "BareForCausalLM")}
_SPECULATIVE_DECODING_MODELS = {"Eagle3ToyForCausalLM": ("toy_eagle3", "Eagle3ToyForCausalLM")}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_SPECULATIVE_DECODING_MODELS}
"""

INTERFACES = """
from typing import Protocol, runtime_checkable
@runtime_checkable
class SupportsEagle3(Protocol):
    supports_eagle3 = True
    def set_aux_hidden_state_layers(self, layers): self.model.aux_hidden_state_layers = tuple(layers)
    def get_eagle3_default_aux_hidden_state_layers(self):
        n = len(self.model.layers)
        return (2, n // 2, n - 3)
def supports_eagle3(model):
    return isinstance(model, SupportsEagle3)
"""

LAYERS = """
from torch import nn
class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6): super().__init__()
    def forward(self, x, residual=None): raise AssertionError("norms are modelled")
class ReplicatedLinear(nn.Module):
    def __init__(self, input_size, output_size, bias=False): super().__init__()
    def forward(self, x): raise AssertionError("layers are modelled")
class VocabParallelEmbedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim): super().__init__()
    def forward(self, x): raise AssertionError("layers are modelled")
"""

TOY = """
from torch import nn
from vllm.model_executor.layers.toy import ReplicatedLinear, RMSNorm, VocabParallelEmbedding
from .interfaces import SupportsEagle3
from .utils import make_layers
class ToyLayer(nn.Module):
    def __init__(self, config, prefix=""):
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size)
        self.mlp = ReplicatedLinear(config.hidden_size, config.hidden_size)
    def forward(self, positions, hidden_states, residual):
        if residual is None:
            residual = hidden_states
            hidden_states = self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        return self.mlp(hidden_states), residual
class ToyModel(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        config = vllm_config.model_config.hf_config
        self.aux_hidden_state_layers = ()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        self.start_layer, self.end_layer, self.layers = make_layers(
            config.num_hidden_layers, lambda prefix: ToyLayer(config, prefix=prefix), prefix="layers")
        self.norm = RMSNorm(config.hidden_size)
    def forward(self, input_ids, positions, intermediate_tensors, inputs_embeds=None):
        hidden_states, residual, aux = self.embed_tokens(input_ids), None, []
        for idx, layer in enumerate(self.layers):
            %BEFORE%
            hidden_states, residual = layer(positions, hidden_states, residual)
            %AFTER%
        hidden_states, _ = self.norm(hidden_states, residual)
        return (hidden_states, aux) if aux else hidden_states
class ToyForCausalLM(nn.Module, SupportsEagle3):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.model = ToyModel(vllm_config=vllm_config, prefix="model")
    def forward(self, input_ids, positions, intermediate_tensors=None, inputs_embeds=None):
        return self.model(input_ids, positions, intermediate_tensors, inputs_embeds)
class BareForCausalLM(nn.Module):
    pass
"""
BEFORE = "if idx in self.aux_hidden_state_layers: aux.append(hidden_states + residual)"
AFTER = "if idx + 1 in self.aux_hidden_state_layers: aux.append(hidden_states + residual)"

DRAFTER = """
from torch import nn
from vllm.model_executor.layers.toy import ReplicatedLinear, RMSNorm
class ToyDraft(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = getattr(config, "target_hidden_size", config.hidden_size)
        self.fc = ReplicatedLinear(width * %TAPS%, config.hidden_size)
        self.norm_output = %OUTPUT%
class Eagle3ToyForCausalLM(nn.Module):
    def __init__(self, *, vllm_config, prefix=""):
        super().__init__()
        self.model = ToyDraft(vllm_config.speculative_config.draft_model_config.hf_config)
"""

FIRST = """
from vllm.model_executor.models.interfaces import supports_eagle3
class GPUModelRunner:
    def load_model(self):
        if self.use_aux_hidden_state_outputs:
            if not supports_eagle3(self.get_model()):
                raise RuntimeError("no")
            ids = self._ids()
            self.model.set_aux_hidden_state_layers(ids or self.model.get_eagle3_default_aux_hidden_state_layers())
    def _ids(self):
        config = self.speculative_config.draft_model_config.hf_config
        %FIRST%
"""

SECOND = """
def set_eagle3_aux_hidden_state_layers(model, spec_config):
    ids = get_eagle3_aux_layers_from_config(spec_config)
    model.set_aux_hidden_state_layers(ids or model.get_eagle3_default_aux_hidden_state_layers())
def get_eagle3_aux_layers_from_config(spec_config):
    config = spec_config.draft_model_config.hf_config
    return tuple(getattr(config, "ids", None) or ())
"""

SPECULATIVE = """
from typing import Literal
Others = Literal["ngram"]
SpeculativeMethod = Literal["eagle3", Others]
class SpeculativeConfig:
    method: SpeculativeMethod | None = None
    model: str | None = None
    parallel_drafting: bool = False
"""

EAGLE = """
from transformers import PretrainedConfig
class EAGLEConfig(PretrainedConfig):
    def __init__(self, model=None, method="eagle", **kwargs):
        if method != "eagle3":
            raise ValueError(method)
        kwargs["architectures"] = [a if a.startswith("Eagle3") else "Eagle3" + a for a in model.architectures]
        super().__init__(**kwargs)
"""

PLAIN = {
    "%FIRST%": 'return tuple(getattr(config, "ids", None) or ())',
    "%BEFORE%": "pass",
    "%AFTER%": AFTER,
    "%TAPS%": '(getattr(config, "taps", None) or 3)',
    "%OUTPUT%": 'getattr(config, "norm_output", False)',
}


def write(folder, **variants):
    """The release in a folder; `first`, `before`, `after`, `taps` and `output` replace parts of its text."""
    filled = PLAIN | {f"%{name.upper()}%": text for name, text in variants.items()}
    files = {
        "__init__.py": "", "version.py": '__version__ = "0.99.0"\n',
        "model_executor/models/registry.py": REGISTRY, "model_executor/models/interfaces.py": INTERFACES,
        "model_executor/models/utils.py": "def make_layers(n, layer_fn, prefix): raise AssertionError\n",
        "model_executor/models/toy.py": TOY, "model_executor/models/toy_eagle3.py": DRAFTER,
        "model_executor/layers/toy.py": LAYERS, "config/speculative.py": SPECULATIVE,
        "transformers_utils/configs/eagle.py": EAGLE, "v1/worker/gpu_model_runner.py": FIRST,
        "v1/worker/gpu/spec_decode/eagle/eagle3_utils.py": SECOND,
    }  # fmt: skip
    for path, text in files.items():
        for mark, body in filled.items():
            text = text.replace(mark, body)  # noqa: PLW2901 - filled in step by step
        full = os.path.join(folder, "vllm", *path.split("/"))
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)
    return str(folder)
