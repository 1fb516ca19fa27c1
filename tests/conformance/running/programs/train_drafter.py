"""Overfit a tiny EAGLE-3 drafter on a tiny target's own greedy text, so that acceptance tells right layers from wrong.

Usage: train_drafter.py TARGET FOLDER BOUNDARIES, the last as JSON: [1, 3, 5]. Writes FOLDER/right with the ids of these
boundaries, FOLDER/next with every id one higher and FOLDER/missing with an id that is never captured (same weights in
all), and FOLDER/text.json: prompts and the target's own continuations.
"""

import json
import math
import os
import shutil
import sys

import torch
import torch.nn.functional as F  # noqa: N812
import transformers
from safetensors.torch import save_file

STEPS = 1200
DEPTH = 3
WIDTH = 256


def text(model, vocabulary):
    """Six prompts and what the target makes of them."""
    draw = torch.Generator().manual_seed(7)
    prompts = torch.randint(3, vocabulary, (6, 8), generator=draw)
    prompts[:, 0] = 1
    made = model.generate(prompts, max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0)
    return prompts, made


class Drafter:
    """The head's parameters and its forward pass, as the engine computes it."""

    def __init__(self, config, embedding, taps):
        h, v, d = config.hidden_size, config.vocab_size, config.head_dim
        self.heads, self.kv, self.d, self.eps = config.num_attention_heads, config.num_key_value_heads, d, 1e-5
        shapes = {"fc": (h, taps * h), "q": (self.heads * d, 2 * h)}
        shapes |= {"k": (self.kv * d, 2 * h), "v": (self.kv * d, 2 * h)}
        shapes |= {"o": (h, self.heads * d), "gate": (WIDTH, h), "up": (WIDTH, h), "down": (h, WIDTH), "head": (v, h)}
        self.p = {n: torch.nn.Parameter(torch.randn(*s) / math.sqrt(s[-1])) for n, s in shapes.items()}
        self.p |= {name: torch.nn.Parameter(torch.ones(h)) for name in ("hidden", "input", "post", "norm")}
        self.embedding = embedding
        self.frequencies = 1 / (10000.0 ** (torch.arange(0, d, 2).float() / d))

    def rms(self, x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.p[name]

    def rotate(self, x, positions):
        angle = positions[:, None].float() * self.frequencies
        cos, sin = angle.cos()[None, :, None, :], angle.sin()[None, :, None, :]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def attend(self, q, cache):
        """Own past in the first step's keys, then one key per further step."""
        length, scale = q.shape[1], math.sqrt(self.d)
        keys, values = cache[0]
        scores = torch.einsum("nihd,njhd->nhij", q, keys) / scale
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        parts = [scores.masked_fill(~mask, -1e9)]
        parts += [(torch.einsum("nihd,nihd->nhi", q, k) / scale)[..., None] for k, _ in cache[1:]]
        weights = torch.softmax(torch.cat(parts, -1), -1)
        out = torch.einsum("nhij,njhd->nihd", weights[..., :length], values)
        for number, (_, value) in enumerate(cache[1:]):
            out = out + weights[..., length + number].transpose(1, 2)[..., None] * value
        return out

    def layer(self, hidden, tokens, positions, cache):
        x = torch.cat([self.rms(self.embedding[tokens], "input"), self.rms(hidden, "hidden")], -1)
        n, length = tokens.shape
        q = self.rotate((x @ self.p["q"].T).view(n, length, self.heads, self.d), positions)
        k = self.rotate((x @ self.p["k"].T).view(n, length, self.kv, self.d), positions)
        v = (x @ self.p["v"].T).view(n, length, self.kv, self.d)
        cache.append(tuple(t.repeat_interleave(self.heads // self.kv, 2) for t in (k, v)))
        hidden = hidden + self.attend(q, cache).reshape(n, length, -1) @ self.p["o"].T
        y = self.rms(hidden, "post")
        return hidden + (F.silu(y @ self.p["gate"].T) * (y @ self.p["up"].T)) @ self.p["down"].T

    def loss(self, features, tokens):
        """Cross entropy of the next tokens over the first steps of drafting."""
        length = tokens.shape[1] - 1 - DEPTH
        hidden, cache, total = (features @ self.p["fc"].T)[:, :length], [], 0
        for step in range(DEPTH):
            given, wanted = tokens[:, 1 + step : 1 + step + length], tokens[:, 2 + step : 2 + step + length]
            hidden = self.layer(hidden, given, torch.arange(length) + step, cache)
            logits = self.rms(hidden, "norm") @ self.p["head"].T
            total = total + F.cross_entropy(logits.reshape(-1, logits.shape[-1]), wanted.reshape(-1))
        return total

    def tensors(self):
        """Under the names that the engine loads."""
        attention = {name: f"midlayer.self_attn.{name}_proj.weight" for name in "qkvo"}
        mlp = {name: f"midlayer.mlp.{name}_proj.weight" for name in ("gate", "up", "down")}
        norms = {"hidden": "midlayer.hidden_norm.weight", "input": "midlayer.input_layernorm.weight"}
        norms |= {"post": "midlayer.post_attention_layernorm.weight", "norm": "norm.weight"}
        names = {"fc": "fc.weight", "head": "lm_head.weight"} | attention | mlp | norms
        found = {names[key]: value.detach().clone().contiguous() for key, value in self.p.items()}
        return found | {"embed_tokens.weight": self.embedding.clone()}


def write(folder, config, tensors, ids):
    """One drafter's directory."""
    os.makedirs(folder)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    own = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": WIDTH,
        "num_hidden_layers": 1,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "draft_vocab_size": config.vocab_size,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "attention_bias": False,
        "mlp_bias": False,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True},
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(own, file, indent=1)


def main():
    """Make the text, train, write."""
    target, folder, taps = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        prompts, made = text(model.eval(), model.config.vocab_size)
        states = model(made, output_hidden_states=True).hidden_states
    features = torch.cat([states[tap] for tap in taps], -1)
    drafter = Drafter(model.config, model.get_input_embeddings().weight.data, len(taps))
    optimizer = torch.optim.AdamW(drafter.p.values(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    for step in range(STEPS):
        loss = drafter.loss(features, made)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(drafter.p.values()), 1.0)
        optimizer.step()
        schedule.step()
        if step % 300 == 0:
            sys.stdout.write(f"{step} {loss.item():.3f}\n")
    sys.stdout.write(f"last {loss.item():.4f}\n")
    right = [tap - 1 for tap in taps]
    lists = {"right": right, "next": taps, "missing": [*right[:-1], model.config.num_hidden_layers - 1]}
    for name, ids in lists.items():
        place = os.path.join(folder, name)
        shutil.rmtree(place, ignore_errors=True)
        write(place, model.config, drafter.tensors(), ids)
    with open(os.path.join(folder, "text.json"), "w", encoding="utf-8") as file:
        json.dump({"prompts": prompts.tolist(), "tokens": made.tolist()}, file)


if __name__ == "__main__":
    main()
