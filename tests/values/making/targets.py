"""Small targets, saved as transformers saves them."""

from __future__ import annotations

import torch
import transformers


def random_llama(folder: str, *, layers: int = 6, width: int = 64, vocabulary: int = 256, seed: int = 0) -> str:
    """A Llama with random weights, large enough that every layer changes the stream."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=width // 4,
        vocab_size=vocabulary,
        max_position_embeddings=2048,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = transformers.LlamaForCausalLM(config).to(torch.float32).eval()
    model.save_pretrained(folder)
    return folder
