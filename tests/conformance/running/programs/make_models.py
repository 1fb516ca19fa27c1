"""Make tiny random targets and what transformers computes with them; a program, run in an engine's environment.

Usage: make_models.py FOLDER. Writes per shape, in a folder of its own, the model, its config, a byte tokenizer and
`boundaries.npy`: the residual stream [N + 2, tokens, hidden] at the boundaries 0 to N for the prompt, and the state
after the final norm. Two drafters without weights lie beside them: `drafter` with ids, and `drafter_without_ids`.
"""

import json
import os
import sys

import numpy as np
import torch
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = 320
LAYERS = 8
HIDDEN = 64
PROMPT = [1, *range(10, 40)]
COMMON = {
    "hidden_size": HIDDEN,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.2,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True}
LATENT = {
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 64,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": 48,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "n_shared_experts": 1,
}
#: Shape to the model's class prefix and what its config says beside `COMMON`.
SHAPES = {
    "llama": ("Llama", {}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {}),
    "qwen3_moe": ("Qwen3Moe", EXPERTS),
    "deepseek_v3": ("DeepseekV3", LATENT),
    "gpt_oss": ("GptOss", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}),
}
#: What the engines read from a config that transformers' own class does not write, per shape.
YARN = {
    "type": "yarn",
    "rope_type": "yarn",
    "factor": 1.0,
    "original_max_position_embeddings": 2048,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
}
WRITTEN = {
    "deepseek_v3": {
        "moe_layer_freq": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "rope_scaling": YARN,
        "rope_theta": 10000.0,
    },
    "gpt_oss": {"swiglu_limit": 7.0},
}


def make(folder, shape):
    """One model with seeded random weights, in float32."""
    prefix, own = SHAPES[shape]
    extra = {"rope_scaling": YARN} if shape == "deepseek_v3" else {}
    config = getattr(transformers, f"{prefix}Config")(**{**COMMON, **own, **extra})
    torch.manual_seed(0)
    model = getattr(transformers, f"{prefix}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            if "sinks" in name or "e_score_correction" in name:
                parameter.normal_(0, 0.5)
        for name, buffer in model.named_buffers():
            if "e_score_correction" in name:
                buffer.normal_(0, 0.5)
    model.save_pretrained(folder)
    tokenizer(folder)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        written = json.load(file)
    written.update(WRITTEN.get(shape, {}), torch_dtype="float32")
    written.setdefault("rope_theta", 10000.0)
    if "rope_scaling" in written and shape == "gpt_oss":  # the name that later releases read
        written.setdefault("rope_parameters", {**written["rope_scaling"], "rope_theta": written["rope_theta"]})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(written, file, indent=1)


def tokenizer(folder):
    """A tokenizer of single bytes: the engines want one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2}
    for character in pre_tokenizers.ByteLevel.alphabet():
        vocabulary.setdefault(character, len(vocabulary))
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(os.path.join(folder, "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "model_max_length": 2048}
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", **names}, file)


def boundaries(folder):
    """What enters each decoder layer, what leaves the last one, and that after the final norm."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, torch_dtype=torch.float32, attn_implementation="eager"
    ).eval()
    last = []
    model.model.layers[-1].register_forward_hook(
        lambda _module, _inputs, output: last.append(output[0] if isinstance(output, tuple) else output)
    )
    with torch.no_grad():
        states = model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
    assert len(states) == LAYERS + 1, len(states)
    raw = last[0][0] if last[0].dim() == 3 else last[0]
    return torch.stack([*(state[0] for state in states[:-1]), raw, states[-1][0]]).float().numpy()


def drafter(folder, ids):
    """An EAGLE-3 head's config: a launch reads its ids."""
    os.makedirs(folder)
    config = {**COMMON, "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "num_hidden_layers": 1}
    config |= {"draft_vocab_size": VOCABULARY, "torch_dtype": "float32", "rope_theta": 10000.0}
    if ids is not None:
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": ids, "use_aux_hidden_state": True}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


def main():
    """Make one model per shape."""
    folder = sys.argv[1]
    for shape in SHAPES:
        place = os.path.join(folder, shape)
        make(place, shape)
        np.save(os.path.join(place, "boundaries.npy"), boundaries(place))
    drafter(os.path.join(folder, "drafter"), [0, 2, 4])
    drafter(os.path.join(folder, "drafter_without_ids"), None)


if __name__ == "__main__":
    main()
