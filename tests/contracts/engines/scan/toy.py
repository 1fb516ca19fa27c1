"""A small release in SGLang's shape, for tests: one model file in whatever variant a test needs."""

from __future__ import annotations

from drafter_contracts.engines.scan.tree import SourceTree

LAYERNORM = """
from torch import nn
class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
    def forward(self, x, residual=None):
        raise AssertionError("norms are modelled")
"""

LOGITS = """
from torch import nn
class LogitsProcessor(nn.Module):
    def __init__(self, config):
        super().__init__()
    def forward(self, input_ids, hidden_states, lm_head, logits_metadata, aux_hidden_states=None):
        raise AssertionError("the logits processor is modelled")
"""

DISTRIBUTED = """
import torch.distributed
_PP = None
def get_pp_group():
    assert _PP is not None, "no process group"
    return _PP
"""

AUX = """
class AuxHiddenStatePacker:
    def __init__(self, num_captures):
        self._num_captures = num_captures
        self._buffer = None
        self._idx = 0
    def append(self, hidden):
        width = hidden.shape[-1]
        if self._buffer is None:
            self._buffer = hidden.new_empty((*hidden.shape[:-1], width * self._num_captures))
        self._buffer[..., self._idx * width : (self._idx + 1) * width].copy_(hidden)
        self._idx += 1
    def __len__(self):
        return self._idx
    def finalize(self):
        if self._idx != self._num_captures:
            raise RuntimeError(f"captured {self._idx} of {self._num_captures}")
        return self._buffer
"""

LAYER = """
        if residual is None:
            residual = hidden_states
            hidden_states = self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.self_attn(positions, hidden_states, forward_batch)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        hidden_states = self.mlp(hidden_states)
        return hidden_states, residual
"""

LOOP = """
        aux_hidden_states = []
        for i in range(len(self.layers)):
            if i in self.layers_to_capture:
                aux_hidden_states.append(hidden_states + residual)
            hidden_states, residual = self.layers[i](positions, hidden_states, forward_batch, residual)
"""

FINISH = """
        hidden_states, _ = self.norm(hidden_states, residual)
        if len(aux_hidden_states) == 0:
            return hidden_states
        return hidden_states, aux_hidden_states
"""

SETTER = """
        if not self.pp_group.is_last_rank:
            return
        self.capture_aux_hidden_states = True
        if layer_ids is None:
            n = self.config.num_hidden_layers
            self.model.layers_to_capture = [2, n // 2, n - 3]
        else:
            self.model.layers_to_capture = [val + 1 for val in layer_ids]
"""

MODEL = """
from __future__ import annotations
import torch
from torch import nn
from sglang.srt.distributed import get_pp_group
from sglang.srt.layers.aux_hidden_states import AuxHiddenStatePacker
from sglang.srt.layers.layernorm import RMSNorm
from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.layers.vocab_parallel_embedding import VocabParallelEmbedding, ParallelLMHead

class ToyAttention(nn.Module):
    def __init__(self, config, layer_id):
        super().__init__()
        self.qkv_proj = torch.nn.Linear(config.hidden_size, 3 * config.hidden_size)
    def forward(self, positions, hidden_states, forward_batch):
        return self.attn(self.qkv_proj(hidden_states))

class ToyMLP(nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x)

class ToyDecoderLayer(nn.Module):
    def __init__(self, config, layer_id):
        super().__init__()
        self.self_attn = ToyAttention(config, layer_id)
        self.mlp = ToyMLP()
        self.input_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
    def forward(self, positions, hidden_states, forward_batch, residual):
@LAYER@

class ToyModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList([ToyDecoderLayer(config, layer_id=i) for i in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.layers_to_capture = []
    def forward(self, input_ids, positions, forward_batch, input_embeds=None):
        hidden_states = self.embed_tokens(input_ids) if input_embeds is None else input_embeds
        residual = None
@LOOP@
@FINISH@

class ToyForCausalLM(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.pp_group = get_pp_group()
        self.config = config
        self.model = ToyModel(config)
        self.lm_head = ParallelLMHead(config.vocab_size, config.hidden_size)
        self.logits_processor = LogitsProcessor(config)
        self.capture_aux_hidden_states = False
    def forward(self, input_ids, positions, forward_batch, input_embeds=None):
        hidden_states = self.model(input_ids, positions, forward_batch, input_embeds)
        aux_hidden_states = None
        if self.capture_aux_hidden_states:
            hidden_states, aux_hidden_states = hidden_states
        return self.logits_processor(input_ids, hidden_states, self.lm_head, forward_batch, aux_hidden_states)
    def set_eagle3_layers_to_capture(self, layer_ids=None):
@SETTER@

EntryClass = ToyForCausalLM
"""


def model(*, layer=LAYER, loop=LOOP, finish=FINISH, setter=SETTER, extra=""):
    """Text of the model file."""
    parts = {"LAYER": layer, "LOOP": loop, "FINISH": finish, "SETTER": setter}
    text = MODEL
    for name, body in parts.items():
        text = text.replace(f"@{name}@", body)
    return text + extra


def release(text, **more):
    """The release: the model file, and what it imports."""
    files = {
        "models/toy.py": text,
        "layers/layernorm.py": LAYERNORM,
        "layers/logits_processor.py": LOGITS,
        "layers/aux_hidden_states.py": AUX,
        "layers/vocab_parallel_embedding.py": "from torch import nn\n"
        "class VocabParallelEmbedding(nn.Module):\n    pass\n\nclass ParallelLMHead(nn.Module):\n    pass\n",
        "distributed/__init__.py": "from .parallel_state import *\n",
        "distributed/parallel_state.py": DISTRIBUTED,
        **more,
    }
    return SourceTree("a toy release", "9.9.9", {path: body.encode() for path, body in files.items()})
