"""An EAGLE-3 head and its training in plain PyTorch, small enough to read: what the examples and the tests train with.

The head reads the target's residual stream at a few boundaries (the "taps"), concatenated, and the token that follows;
it drafts the one after that. Shapes: S texts, T tokens, H the target's width, k taps, D tokens of the draft vocabulary.
Row t of step j (from 1) has seen x_0 to x_{t+j} and is trained towards what the target says at position t + j.
"""

from __future__ import annotations

import json
import math
import os
import time
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import save_file
from torch import nn


class Text(NamedTuple):
    """What a head is trained on.

    Attributes:
        tokens: int64 [S, T].
        states: [S, T, k*H]: the taps' states, concatenated.
        finals: [S, T, H]: after the target's final norm; with the target's own head they give its distribution.
    """

    tokens: torch.Tensor
    states: torch.Tensor
    finals: torch.Tensor


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Over the last dimension."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    """Attention over what the target has confirmed, and over one's own drafted tokens."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        width, self.d = config["hidden_size"], config["head_dim"]
        self.heads, self.kv = config["num_attention_heads"], config["num_key_value_heads"]
        self.q_proj = nn.Linear(2 * width, self.heads * self.d, bias=False)
        self.k_proj = nn.Linear(2 * width, self.kv * self.d, bias=False)
        self.v_proj = nn.Linear(2 * width, self.kv * self.d, bias=False)
        self.o_proj = nn.Linear(self.heads * self.d, width, bias=False)
        self.theta = config["rope_theta"]

    def rotate(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Rotary embedding, the halves apart."""
        frequencies = self.theta ** (-torch.arange(0, self.d, 2).float() / self.d)
        angle = positions[:, None].float() * frequencies
        cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, x: torch.Tensor, step: int, cache: list) -> torch.Tensor:
        """One step's rows [S, R, 2*H]; `cache` holds the keys and values of the steps before.

        Row t sees the rows 0 to t of the first step, and of each later step its own: what serial drafting sees.
        """
        rows, positions = x.shape[1], torch.arange(x.shape[1]) + step
        q = self.rotate(self.q_proj(x).unflatten(-1, (self.heads, self.d)), positions)
        k = self.rotate(self.k_proj(x).unflatten(-1, (self.kv, self.d)), positions)
        v = self.v_proj(x).unflatten(-1, (self.kv, self.d))
        cache.append(tuple(t.repeat_interleave(self.heads // self.kv, 2) for t in (k, v)))
        keys, values = cache[0]
        mask = torch.ones(rows, rows, dtype=torch.bool).tril()
        scores = torch.einsum("sihd,sjhd->shij", q, keys).masked_fill(~mask, -1e9)
        own = [torch.einsum("sihd,sihd->shi", q, key)[..., None] for key, _ in cache[1:]]
        weights = torch.softmax(torch.cat([scores, *own], -1) / math.sqrt(self.d), -1)
        out = torch.einsum("shij,sjhd->sihd", weights[..., :rows], values)
        for number, (_, value) in enumerate(cache[1:]):
            out = out + weights[..., rows + number].transpose(1, 2)[..., None] * value
        return self.o_proj(out.flatten(-2))


class Mlp(nn.Module):
    """A gated MLP."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., H] to [..., H]."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """The one decoder layer: it reads the token's embedding beside the stream."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        width, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm, self.hidden_norm = Norm(width, eps), Norm(width, eps)
        self.post_attention_layernorm = Norm(width, eps)
        self.self_attn, self.mlp = Attention(config), Mlp(width, config["intermediate_size"])

    def forward(self, hidden: torch.Tensor, embedded: torch.Tensor, step: int, cache: list) -> torch.Tensor:
        """The stream after the layer, [S, R, H]."""
        x = torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], -1)
        hidden = hidden + self.self_attn(x, step, cache)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Head(nn.Module):
    """An EAGLE-3 head whose parameters have the names that engines load.

    Args:
        config: What goes into its config.json.
        taps: k.
        embedding: The target's, [V, H]: used, never trained, not kept with the head.
        vocabulary: int64 [D], ascending: the tokens that it can draft.
    """

    def __init__(self, config: dict, taps: int, embedding: torch.Tensor, vocabulary: torch.Tensor) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.config, self.embedding, self.vocabulary = config, embedding, vocabulary
        self.fc = nn.Linear(taps * width, width, bias=False)
        self.midlayer, self.norm = Layer(config), Norm(width, config["rms_norm_eps"])
        self.lm_head = nn.Linear(width, len(vocabulary), bias=False)

    def forward(self, states: torch.Tensor, tokens: torch.Tensor, steps: int) -> list[torch.Tensor]:
        """Logits [S, T - steps, D] per step, each given the true tokens before it."""
        rows = tokens.shape[1] - steps
        hidden, cache, found = self.fc(states[:, :rows]), [], []
        for step in range(steps):
            # The last row of the last step has no following token to be given: it is x_{T-1} and predicts beyond.
            given = tokens[:, 1 + step : 1 + step + rows]
            hidden = self.midlayer(hidden, F.embedding(given, self.embedding), step, cache)
            found.append(self.lm_head(self.norm(hidden)))
        return found


def loss_of(head: Head, text: Text, target_head: torch.Tensor, steps: int) -> torch.Tensor:
    """Cross entropy against the target's own distribution over the draft vocabulary, summed over the steps.

    Args:
        head: The head.
        text: A batch.
        target_head: [V, H].
        steps: Drafted tokens.
    """
    logits = head(text.states, text.tokens, steps)
    rows, total = logits[0].shape[1], torch.zeros(())
    wanted = torch.softmax(text.finals @ target_head[head.vocabulary].T, -1)
    for step, guess in enumerate(logits, 1):
        log = torch.log_softmax(guess, -1)
        total = total - (wanted[:, step : step + rows] * log).sum(-1).mean()
    return total


def train(
    head: Head,
    text: Text,
    target_head: torch.Tensor,
    *,
    steps: int,
    batch: int,
    depth: int = 3,
    rate: float = 1e-2,
    seconds: float = math.inf,
) -> list[float]:
    """Train a head; the loss of every step.

    Args:
        head: Trained in place.
        text: All of the text.
        target_head: [V, H].
        steps: Optimizer steps.
        batch: Texts per step.
        depth: Drafted tokens that are trained.
        rate: Learning rate of `fc` and the layer's matrices (Muon); everything else learns at a fifth of it (AdamW).
        seconds: Stop after so much CPU time, wherever the schedule is; a limit makes the result depend on the machine.
    """
    named = list(head.named_parameters())
    inside = [p for name, p in named if p.dim() == 2 and name.startswith(("fc", "midlayer"))]
    others = [p for name, p in named if not (p.dim() == 2 and name.startswith(("fc", "midlayer")))]
    optimizers = [
        torch.optim.Muon(inside, lr=rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate / 5, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    schedules = [torch.optim.lr_scheduler.LambdaLR(o, lambda step: warm_cosine(step, steps)) for o in optimizers]
    draw, began, losses = torch.Generator().manual_seed(0), time.process_time(), []
    for _ in range(steps):
        chosen = torch.randint(0, len(text.tokens), (batch,), generator=draw)
        part = Text(text.tokens[chosen], text.states[chosen].float(), text.finals[chosen].float())
        loss = loss_of(head, part, target_head, depth)
        loss.backward()
        nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        if time.process_time() - began > seconds:
            break
    return losses


def warm_cosine(step: int, steps: int) -> float:
    """Factor of the learning rate: a short rise, then down to a twentieth along a cosine."""
    return min(1.0, (step + 1) / 20) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(step, steps) / steps)))


@torch.no_grad()
def acceptance(head: Head, text: Text, target_head: torch.Tensor, steps: int = 3) -> tuple[list[float], float]:
    """How often the head's first choice is the target's, per step and given the true tokens; and the expected length.

    The length counts the target's own token: 1 + the mean number of right first choices in a row.
    """
    logits = head(text.states, text.tokens, steps)
    choices = (text.finals @ target_head.T).argmax(-1)
    rows = logits[0].shape[1]
    hits = [head.vocabulary[guess.argmax(-1)] == choices[:, step : step + rows] for step, guess in enumerate(logits, 1)]
    run = torch.stack(hits).float().cumprod(0).sum(0)
    return [hit.float().mean().item() for hit in hits], 1 + run.mean().item()


def save(head: Head, folder: str, ids: list[int]) -> None:
    """The head as SpecForge leaves it and SGLang loads it: its own config with output ids, `d2t` as offsets, `t2d`.

    Args:
        head: The head.
        folder: Where to; must not exist.
        ids: Output ids of its taps: boundary less one.
    """
    os.makedirs(folder)
    tensors = {name: value.detach().contiguous() for name, value in head.state_dict().items()}
    tensors["d2t"] = head.vocabulary - torch.arange(len(head.vocabulary))
    tensors["t2d"] = torch.zeros(head.config["vocab_size"], dtype=torch.bool)
    tensors["t2d"][head.vocabulary] = True
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    config = head.config | {
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True},
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


def config_for(target: dict, *, vocabulary: int, intermediate: int) -> dict:
    """A head's config from its target's, as a dictionary: same width, heads and context, one layer.

    Args:
        target: The target's config.
        vocabulary: D.
        intermediate: Inner width of its MLP.
    """
    kept = ("hidden_size", "num_attention_heads", "num_key_value_heads", "vocab_size", "max_position_embeddings")
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "intermediate_size": intermediate,
        "draft_vocab_size": vocabulary,
        "head_dim": target.get("head_dim") or target["hidden_size"] // target["num_attention_heads"],
        "rms_norm_eps": target["rms_norm_eps"],
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": target["bos_token_id"],
        "eos_token_id": target["eos_token_id"],
        "attention_bias": False,
        "mlp_bias": False,
    } | {name: target[name] for name in kept}
