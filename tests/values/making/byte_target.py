"""A byte-level Llama trained for a minute on source text of the standard library: small, and not random."""

from __future__ import annotations

import importlib
import json
import math
import os

import torch
import torch.nn.functional as F  # noqa: N812
import transformers

#: Its text: short enough that the target learns much of it by heart, and a drafter cannot guess without its states.
#: Which release of Python it comes from is part of the cache's key.
MODULES = ("textwrap",)
#: A token is a byte; then padding, beginning and end; the rest is never used (engines like multiples of 64).
VOCABULARY, PADDING, BEGINNING, END = 320, 256, 257, 258
LAYERS, WIDTH, INNER = 8, 128, 256
LENGTH, BATCH, STEPS = 128, 8, 300


def source() -> torch.Tensor:
    """The modules' bytes, int64."""
    text = b""
    for name in MODULES:
        with open(str(importlib.import_module(name).__file__), "rb") as file:
            text += file.read()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def passages(text: torch.Tensor, count: int, length: int, seed: int) -> torch.Tensor:
    """Pieces of a text from seeded places, [count, length]."""
    draw = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(text) - length, (count,), generator=draw)
    return text[starts[:, None] + torch.arange(length)]


def config() -> transformers.LlamaConfig:
    """The model's shape."""
    return transformers.LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=WIDTH // 4,
        vocab_size=VOCABULARY,
        max_position_embeddings=2048,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        pad_token_id=PADDING,
        bos_token_id=BEGINNING,
        eos_token_id=END,
    )


def trained_target(text: torch.Tensor) -> transformers.LlamaForCausalLM:
    """The model, in float32."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config()).float()
    inside = [p for name, p in model.named_parameters() if p.dim() == 2 and ".layers." in name]
    others = [p for name, p in model.named_parameters() if not (p.dim() == 2 and ".layers." in name)]
    optimizers = [
        torch.optim.Muon(inside, lr=1e-2, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=4e-3, betas=(0.9, 0.95), weight_decay=0.0),
    ]
    rise = [torch.optim.lr_scheduler.LambdaLR(o, _rate) for o in optimizers]
    for step in range(STEPS):
        batch = passages(text, BATCH, LENGTH + 1, seed=1000 + step)
        logits = model(batch[:, :-1], use_cache=False).logits
        F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, rise, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return model.eval()


def _rate(step: int) -> float:
    return min(1.0, (step + 1) / 30) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / STEPS)))


def save_target(model: transformers.LlamaForCausalLM, folder: str) -> None:
    """As transformers saves it, with a tokenizer of bytes and the keys that engines read from a config."""
    model.save_pretrained(folder)
    _save_tokenizer(folder)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        written = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(written | {"torch_dtype": "float32", "rope_theta": 10000.0}, file, indent=1)


def _save_tokenizer(folder: str) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = _characters() | {"<pad>": PADDING, "<s>": BEGINNING, "</s>": END}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.save(os.path.join(folder, "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "model_max_length": 2048}
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", **names}, file)


def _characters() -> dict[str, int]:
    """The character that stands for each byte in byte-level tokenizers (GPT-2's table)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
