"""A small release in SGLang's shape, for tests: one EAGLE-3 class, its layers and its worker."""

from __future__ import annotations

from drafter_contracts.engines.scan.tree import SourceTree

LAYERS = """
import torch
from torch import nn

class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))

class QKVParallelLinear(nn.Module):
    def __init__(self, hidden_size, output_size, bias=True):
        super().__init__()

class ParallelLMHead(nn.Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()

class VocabParallelEmbedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
"""

EAGLE3 = """
import torch
from torch import nn
from sglang.srt.layers.all import ParallelLMHead, QKVParallelLinear, RMSNorm, VocabParallelEmbedding

class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.qkv_proj = QKVParallelLinear(2 * config.hidden_size, 3 * config.hidden_size, bias=False)

class Layer(nn.Module):
    def __init__(self, config, layer_id=0):
        super().__init__()
        self.self_attn = Attention(config)
        self.hidden_norm = RMSNorm(config.hidden_size)

class Inner(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        width = getattr(config, "target_hidden_size", config.hidden_size)
        eagle_config = getattr(config, "eagle_config", None) or {{}}
        ids = eagle_config.get("eagle_aux_hidden_state_layer_ids")
        count = getattr(config, "num_aux_hidden_states", None) or (len(ids) if ids else {default})
        self.fc = nn.Linear(count * width, config.hidden_size, bias=getattr(config, "bias", False))
        self.input_norm = None
        if eagle_config.get("norm_before_fc", getattr(config, "norm_before_fc", False)):
            self.input_norm = RMSNorm(count * width)
        self.fc_norm = None
        if {fc_norm}:
            self.fc_norm = nn.ModuleList([RMSNorm(width) for _ in range(count)])
        self.midlayer = Layer(config)
        self.norm = RMSNorm(config.hidden_size)
        self.norm_output = getattr(config, "norm_output", False)

    def forward(self, input_ids, positions, forward_batch):
        embeds = self.embed_tokens(input_ids)
        hidden_states = forward_batch.spec_info.hidden_states
        if {condition}:
            hidden_states = self.fc(hidden_states)
        hidden_states, residual = self.midlayer(positions, embeds, hidden_states)
        logits, aux = self.norm(hidden_states, residual)
        return logits, [logits if self.norm_output else aux]

class {name}(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        if config.num_hidden_layers != 1:
            raise ValueError("one layer only")
        self.model = Inner(config)
        self.load_lm_head_from_target = False
        if config.tie_word_embeddings:
            self.lm_head = self.model.embed_tokens
        else:
            size = config.draft_vocab_size
            if size is None:
                self.load_lm_head_from_target = True
                size = config.vocab_size
            self.lm_head = ParallelLMHead(size, config.hidden_size)
        self.hot_token_id = None

    def set_embed(self, embed):
        if getattr(self.config, "target_hidden_size", self.config.hidden_size) != self.config.hidden_size:
            return
        self.model.embed_tokens.weight = embed

    def set_embed_and_head(self, embed, head):
        self.model.embed_tokens.weight = embed
        self.lm_head.weight = head

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, tensor in weights:
            if "d2t" in name:
                self.hot_token_id = {mapping}
                continue
            if name.startswith("confidence_head"):
                raise KeyError(name)
            name = name.replace("q_proj", "qkv_proj")
            for candidate in (name, "model." + name):
                if candidate in params:
                    params[candidate].weight_loader(params[candidate], tensor)

EntryClass = [{name}]
"""

WORKER = """
class EAGLEWorker:
    def __init__(self, target_worker):
        embed, head = target_worker.get_embed_and_head()
        if self.speculative_algorithm.is_eagle3():
            if hasattr(self.draft_model_runner.model, "load_lm_head_from_target") and (
                self.draft_model_runner.model.load_lm_head_from_target
            ):
                self.draft_model_runner.model.set_embed_and_head(embed, head)
            else:
                self.draft_model_runner.model.set_embed(embed)
            {map_needed}
        else:
            self.draft_model_runner.model.set_embed_and_head(embed, head)
"""

SPEC_INFO = """
from enum import IntEnum, auto

class SpeculativeAlgorithm(IntEnum):
    EAGLE = auto()
    EAGLE3 = auto()

    def is_eagle3(self):
        return self == SpeculativeAlgorithm.EAGLE3

    @classmethod
    def from_string(cls, name):
        return cls[name]
"""

MODEL_CONFIG = """
GROUP = ["TargetB", "TargetC"]

class ModelConfig:
    def __init__(self, model_path, is_draft_model=False):
        self.hf_config = load(model_path)
        if is_draft_model and self.hf_config.architectures[0] == "TargetA":
            self.hf_config.num_experts = self.hf_config.mtp_num_experts
            self.hf_config.architectures[0] = "TargetANextN"
        if is_draft_model and self.hf_config.architectures[0] in GROUP:
            self.hf_config.architectures[0] = "OtherNextN"
"""


def release(extra: dict[str, str] | None = None, *, map_needed: str = "pass", **options: str) -> SourceTree:
    """A release with one EAGLE-3 class."""
    settings = {
        "name": "ToyForCausalLMEagle3",
        "default": "3",
        "condition": "hidden_states.shape[-1] != embeds.shape[-1]",
        "fc_norm": 'getattr(config, "fc_norm", False)',
        "mapping": "tensor + torch.arange(tensor.shape[0])",
        **options,
    }
    files = {
        "layers/all.py": LAYERS,
        "models/toy_eagle3.py": EAGLE3.format(**settings),
        "speculative/eagle_worker.py": WORKER.format(map_needed=map_needed),
        "speculative/spec_info.py": SPEC_INFO,
        "configs/model_config.py": MODEL_CONFIG,
        **(extra or {}),
    }
    return SourceTree("here", "9.9.9", {path: text.encode() for path, text in files.items()})
