"""EAGLE-3 drafters with random weights, as their producers save them, and the same put together from transformers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import DynamicCache, LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes and switches of a made drafter."""

    hidden: int = 16
    target: int = 16
    taps: int = 3
    layers: int = 1
    heads: int = 4
    key_heads: int = 2
    head_width: int = 4
    inner: int = 24
    vocabulary: int = 40
    draft: int = 40
    norm: str = "none"
    residual: bool | None = False
    output: bool = False
    head_norms: bool = False
    bias: bool = False
    fc_bias: bool = False
    activation: str = "silu"
    epsilon: float = 1e-5
    theta: float | None = 500.0
    scaling: dict[str, Any] | None = None
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """config.json, as trainers write it."""
        config = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_width,
            "vocab_size": self.vocabulary,
            "draft_vocab_size": self.draft,
            "hidden_act": self.activation,
            "rms_norm_eps": self.epsilon,
            "max_position_embeddings": 128,
            "num_aux_hidden_states": self.taps,
            "norm_output": self.output,
            "tie_word_embeddings": False,
        }
        if self.target != self.hidden:
            config["target_hidden_size"] = self.target
        if self.residual is not None:
            config["norm_before_residual"] = self.residual
        if self.theta is not None:
            config["rope_theta"] = self.theta
        if self.scaling is not None:
            config["rope_scaling"] = self.scaling
        if self.norm == "concatenation":
            config["norm_before_fc"] = True
        if self.norm == "per_chunk":
            config["fc_norm"] = True
        return config | self.extra

    def tensors(self) -> dict[str, torch.Tensor]:
        """Random weights, float32, under the names that speculators writes."""
        random = torch.Generator().manual_seed(self.seed)

        def matrix(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=random) * shape[-1] ** -0.5

        def norm(width: int) -> torch.Tensor:
            return 1 + 0.3 * torch.randn(width, generator=random)

        width = self.taps * self.target
        tensors = {"fc.weight": matrix(self.hidden, width), "norm.weight": norm(self.hidden)}
        tensors["lm_head.weight"] = matrix(self.draft, self.hidden)
        if self.fc_bias:
            tensors["fc.bias"] = torch.randn(self.hidden, generator=random)
        if self.norm == "concatenation":
            tensors["input_norm.weight"] = norm(width)
        if self.norm == "per_chunk":
            tensors |= {f"fc_norm.{number}.weight": norm(self.target) for number in range(self.taps)}
        for number in range(self.layers):
            reads = 2 * self.hidden if number == 0 else self.hidden
            queries, keys = self.heads * self.head_width, self.key_heads * self.head_width
            shapes = {
                "self_attn.q_proj": (queries, reads),
                "self_attn.k_proj": (keys, reads),
                "self_attn.v_proj": (keys, reads),
                "self_attn.o_proj": (self.hidden, queries),
                "mlp.gate_proj": (self.inner, self.hidden),
                "mlp.up_proj": (self.inner, self.hidden),
                "mlp.down_proj": (self.hidden, self.inner),
            }
            layer = {f"{name}.weight": matrix(*shape) for name, shape in shapes.items()}
            if self.bias:
                attention = [name for name in shapes if "self_attn" in name]
                layer |= {f"{name}.bias": torch.randn(shapes[name][0], generator=random) for name in attention}
            layer["input_layernorm.weight"] = norm(self.hidden)
            layer["post_attention_layernorm.weight"] = norm(self.hidden)
            if number == 0:
                layer["hidden_norm.weight"] = norm(self.hidden)
            if self.head_norms:
                layer |= {f"self_attn.{one}_norm.weight": norm(self.head_width) for one in "qk"}
            tensors |= {f"layers.{number}.{name}": tensor for name, tensor in layer.items()}
        if self.target != self.hidden:
            tensors["embed_tokens.weight"] = torch.randn(self.vocabulary, self.hidden, generator=random)
        if self.draft != self.vocabulary:
            ids = torch.randperm(self.vocabulary, generator=random)[: self.draft].sort().values
            tensors["d2t"] = ids - torch.arange(self.draft)
            tensors["t2d"] = torch.zeros(self.vocabulary, dtype=torch.bool).index_fill(0, ids, True)
        return tensors

    def target_parts(self) -> dict[str, torch.Tensor]:
        """The target's embedding and head."""
        random = torch.Generator().manual_seed(self.seed + 1)
        embedding, head = (torch.randn(self.vocabulary, self.target, generator=random) for _ in range(2))
        return {"embedding": embedding, "head": head * self.target**-0.5}

    def recorded(self, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """States [T, k * H_t] and tokens [T]."""
        random = torch.Generator().manual_seed(self.seed + 2)
        states = torch.randn(length, self.taps * self.target, generator=random)
        return states, torch.randint(self.vocabulary, (length,), generator=random)


def write_drafter(folder: str, config: dict[str, Any], tensors: dict[str, torch.Tensor], *, shards: int = 1) -> str:
    """config.json and safetensors, with an index if there are several."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    if shards == 1:
        save_file(tensors, os.path.join(folder, "model.safetensors"))
        return folder
    places = {name: number % shards for number, name in enumerate(tensors)}
    names = [f"model-{number + 1:05}-of-{shards:05}.safetensors" for number in range(shards)]
    for number, name in enumerate(names):
        part = {key: tensor for key, tensor in tensors.items() if places[key] == number}
        save_file(part, os.path.join(folder, name))
    index = {"weight_map": {key: names[number] for key, number in places.items()}}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump(index, file)
    return folder


class Assembled:
    """The same drafter from transformers' own blocks, drafting one token after another with a cache."""

    def __init__(self, shape: Shape, tensors: dict[str, torch.Tensor], embedding: torch.Tensor) -> None:
        self.shape, self.tensors = shape, tensors
        self.embedding = tensors.get("embed_tokens.weight", embedding)
        rope = {"rope_type": "default", **(shape.scaling or {}), "rope_theta": shape.theta or 10000.0}
        config_class = Qwen3Config if shape.head_norms else LlamaConfig
        self.config = config_class(
            hidden_size=shape.hidden,
            intermediate_size=shape.inner,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.key_heads,
            head_dim=shape.head_width,
            hidden_act=shape.activation,
            rms_norm_eps=shape.epsilon,
            attention_bias=shape.bias,
            rope_parameters=rope,
            max_position_embeddings=128,
            attn_implementation="eager",
        )
        self.config.mlp_bias = False
        self.rotary = LlamaRotaryEmbedding(self.config)
        self.attentions, self.mlps = [], []
        for number in range(shape.layers):
            attention = (Qwen3Attention if shape.head_norms else LlamaAttention)(self.config, number)
            if number == 0:
                for name in ("q_proj", "k_proj", "v_proj"):
                    old = getattr(attention, name)
                    setattr(attention, name, nn.Linear(2 * shape.hidden, old.out_features, bias=shape.bias))
            _load(attention, tensors, f"layers.{number}.self_attn.")
            mlp = LlamaMLP(self.config)
            _load(mlp, tensors, f"layers.{number}.mlp.")
            self.attentions.append(attention.eval())
            self.mlps.append(mlp.eval())

    def norm(self, name: str, states: torch.Tensor) -> torch.Tensor:
        weight = self.tensors[f"{name}.weight"]
        norm = LlamaRMSNorm(len(weight), self.shape.epsilon)
        norm.load_state_dict({"weight": weight})
        return norm(states)

    def fuse(self, states: torch.Tensor) -> torch.Tensor:
        if self.shape.norm == "concatenation":
            states = self.norm("input_norm", states)
        if self.shape.norm == "per_chunk":
            chunks = states.split(self.shape.target, dim=-1)
            states = torch.cat([self.norm(f"fc_norm.{n}", chunk) for n, chunk in enumerate(chunks)], dim=-1)
        states = states @ self.tensors["fc.weight"].T
        return states + self.tensors["fc.bias"] if self.shape.fc_bias else states

    def run(self, states: torch.Tensor, tokens: torch.Tensor, first: int, cache: DynamicCache) -> torch.Tensor:
        """Rows after those in the cache: [rows, H_d] before the last norm."""
        rows = len(states)
        angles = self.rotary(states, torch.arange(first, first + rows)[None])
        mask = torch.full((rows, first + rows), float("-inf")).triu(first + 1)[None, None]
        embedded = self.norm("layers.0.input_layernorm", self.embedding[tokens])
        for number, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            name = f"layers.{number}"
            normed = self.norm(f"{name}.{'hidden_norm' if number == 0 else 'input_layernorm'}", states)
            residual = normed if number == 0 and self.shape.residual else states
            reads = torch.cat((embedded, normed), dim=-1) if number == 0 else normed
            states = residual + attention(reads[None], angles, mask, cache=cache)[0][0]
            states = states + mlp(self.norm(f"{name}.post_attention_layernorm", states))
        return states

    @torch.inference_mode()
    def draft(self, states: torch.Tensor, tokens: torch.Tensor, row: int, steps: int) -> torch.Tensor:
        """Logits [steps, D] of a draft that starts from one row and is fed with the tokens that followed."""
        cache = DynamicCache(config=self.config)
        outputs = self.run(self.fuse(states[: row + 1]), tokens[1 : row + 2], 0, cache)[-1:]
        logits = []
        for step in range(1, steps + 1):
            normed = self.norm("norm", outputs)
            logits.append(normed[0] @ self.tensors["lm_head.weight"].T)
            if step < steps:
                recycled = normed if self.shape.output else outputs
                place = row + step
                outputs = self.run(recycled, tokens[place + 1 : place + 2], place, cache)
        return torch.stack(logits)


def _load(module: nn.Module, tensors: dict[str, torch.Tensor], prefix: str) -> None:
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    module.load_state_dict(own)
