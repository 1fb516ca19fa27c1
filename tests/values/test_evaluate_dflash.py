"""`drafters evaluate` of a DFLASH drafter: blocks instead of steps, the same table and verdicts."""

from __future__ import annotations

import json
import os

import pytest
import torch
from making import formats
from making.drafters import Shape, write_drafter
from safetensors.torch import load_file, save_file

from drafter_cli import main
from drafter_contracts.evidence.documents import decode
from drafter_contracts.layout import Tap
from drafter_contracts.values.drafting import load_drafter
from drafter_contracts.values.records import SPECFORGE_DFLASH
from drafter_contracts.values.targets import embedding_and_head, open_target

BLOCK = 5
TAPS = (2, 5, 7)


def config(width, vocabulary):
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_size": width,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "vocab_size": vocabulary,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": False,
        "block_size": BLOCK,
        "dflash_config": {"mask_token_id": 300, "target_layer_ids": [boundary - 1 for boundary in TAPS]},
    }


def tensors(width):
    """Random weights as z-lab saves them, no head and no embeddings."""
    shape = Shape(hidden=width, target=width, heads=4, head_width=32, inner=64, vocabulary=320, draft=320, seed=3)
    made = {name: tensor for name, tensor in shape.tensors().items() if name != "lm_head.weight"}
    for name in ("q_proj", "k_proj", "v_proj"):
        key = f"layers.0.self_attn.{name}.weight"
        made[key] = made[key][:, :width].contiguous()
    made["hidden_norm.weight"] = made.pop("layers.0.hidden_norm.weight")
    return made


@pytest.fixture
def drafter(trained, tmp_path):
    return write_drafter(str(tmp_path / "drafter"), config(trained.hidden_size, 320), tensors(trained.hidden_size))


@pytest.fixture(scope="module")
def captures(trained):
    target = open_target(trained.target, dtype="float32")
    return [target.run(torch.tensor(text)) for text in trained.texts[:3]]


@pytest.fixture
def told(trained, captures, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    for number, capture in enumerate(captures):
        states = [capture.states[Tap(boundary)] for boundary in TAPS]
        formats.write(SPECFORGE_DFLASH, str(tmp_path / "data"), capture.tokens, states, name=f"data_{number}")

    def run(drafter, *words):
        sample = str(tmp_path / "data")
        code = main.main(["evaluate", drafter, sample, "--target", trained.target, "--json", *map(str, words)])
        out, error = capsys.readouterr()
        return code, out, error

    return run


def test_a_whole_block_is_drafted_and_counted(told, trained, captures, drafter):
    """A random drafter proves nothing; its rates are those of its own first choices."""
    code, out, error = told(drafter)
    assert code == 5, error
    document = decode(out.encode(), where="stdout")
    stated = document.scores[0]
    assert (document.method, document.verdict) == ("DFLASH", "unknown")
    assert "as by chance" in document.reason
    assert (stated.boundaries, len(stated.steps)) == (TAPS, BLOCK - 1)
    assert document.recorded.steps == pytest.approx(stated.steps)
    assert "order 2,1,0" in {score.name for score in document.scores}

    embedding, head = embedding_and_head(trained.target)
    one = load_drafter(drafter, embedding=embedding, head=head, target_hidden_size=trained.hidden_size)
    right = []
    for capture in captures:
        chosen = one.choices(torch.cat([capture.states[Tap(b)] for b in TAPS], dim=-1), capture.tokens, BLOCK - 1)
        rows = chosen.shape[1]
        right.append(torch.stack([capture.choices[j : j + rows] for j in range(1, BLOCK)]) == chosen)
    assert stated.steps == pytest.approx(torch.cat(right, dim=1).double().mean(1).tolist())


def test_no_more_than_a_block_is_drafted(told, drafter):
    code, out, _ = told(drafter, "--steps", BLOCK)
    assert code == 2
    assert f"--steps is at most {BLOCK - 1}" in json.loads(out)["error"]["hint"]
    _, out, _ = told(drafter, "--steps", 2, "--rows", 100)
    assert len(decode(out.encode(), where="stdout").scores[0].steps) == 2


def test_weights_that_hold_no_numbers_are_refused(told, drafter):
    path = os.path.join(drafter, "model.safetensors")
    broken = load_file(path)
    broken["norm.weight"][0] = float("nan")
    save_file(broken, path)
    code, out, _ = told(drafter)
    assert code == 7
    assert "computes no numbers" in json.loads(out)["error"]["message"]
