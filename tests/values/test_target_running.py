"""A target run by hooks: every boundary, the raw last one, the final norm, and the head's choices."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
import torch
from making import architectures
from making.targets import random_llama
from safetensors.torch import load_file, save_file

from drafter_contracts.errors import CaptureError, PickleRefusedError
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.captures import read_capture
from drafter_contracts.values.targets import open_target, record_target, run_target, running

N = architectures.LAYERS
TOKENS = torch.tensor([1, 5, 99, 7, 7, 42, 3, 11, 64, 20, 33, 2])


def reference(model, tokens, layer):
    """What transformers itself says: states, the last layer's raw output, and logits."""
    raw = []
    handle = layer.register_forward_hook(lambda _m, _g, out: raw.append(out[0] if isinstance(out, tuple) else out))
    with torch.no_grad():
        out = model(tokens[None], output_hidden_states=True)
    handle.remove()
    return [state[0] for state in out.hidden_states], raw[0][0], out.logits[0]


def last_layer(model):
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == N]
    return lists[0][-1]


@pytest.mark.parametrize("shape", architectures.SHAPES)
def test_states_are_those_of_transformers_and_the_last_two_are_told_apart(shape, tmp_path):
    model = architectures.build(str(tmp_path), shape)
    found = run_target(str(tmp_path), TOKENS)
    states, raw, logits = reference(model, TOKENS, last_layer(model))
    assert found.missing() == ()
    assert len(found.states) == N + 2
    assert all(state.shape == (len(TOKENS), 32) for state in found.states.values())
    for boundary in range(N):
        torch.testing.assert_close(found.states[Tap(boundary)], states[boundary], rtol=0, atol=1e-5)
    final = found.states[Tap(N, FINAL_NORM)]
    torch.testing.assert_close(found.states[Tap(N)], raw, rtol=0, atol=1e-5)
    torch.testing.assert_close(final, states[N], rtol=0, atol=1e-5)
    assert (final - raw).norm() > 0.1 * final.norm(), "boundary N is not the state after the final norm"
    scale = getattr(model, "logit_scale", 1)
    torch.testing.assert_close(model.get_output_embeddings()(final) * scale, logits, rtol=0, atol=1e-4)
    assert torch.equal(found.choices, logits.argmax(-1))


def test_the_text_part_of_a_multimodal_target_is_run(tmp_path):
    import transformers

    text = architectures.config("Gemma3Text", sliding_window=8).to_dict()
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": N, "num_attention_heads": 2}
    vision |= {"image_size": 28, "patch_size": 14}
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    torch.manual_seed(0)
    model = transformers.Gemma3ForConditionalGeneration(config).float().eval()
    model.save_pretrained(str(tmp_path))
    found = run_target(str(tmp_path), TOKENS)
    with torch.no_grad():
        out = model(TOKENS[None], output_hidden_states=True)
    for boundary in range(N):  # the vision tower has a list of as many layers
        torch.testing.assert_close(found.states[Tap(boundary)], out.hidden_states[boundary][0], rtol=0, atol=1e-5)
    assert torch.equal(found.choices, out.logits[0].argmax(-1))


def test_it_runs_in_the_dtype_that_is_asked_for_and_says_so(tmp_path, random_target):
    half = str(tmp_path / "half")
    architectures.build(str(tmp_path / "f"), "Llama").to(torch.bfloat16).save_pretrained(half)
    tokens = torch.arange(20, 30)
    for path, dtype, seen in (
        (half, "auto", "bfloat16"),
        (random_target, "auto", "float32"),
        (half, "float16", "float16"),
    ):
        found = run_target(path, tokens, dtype=dtype)
        assert found.record.dtype == seen
        assert {str(state.dtype) for state in found.states.values()} == {f"torch.{seen}"}


def test_what_it_is_stands_in_the_record(random_target):
    import transformers

    record = run_target(random_target, torch.arange(4)).record
    assert (record.kind, record.layers, record.hidden_size, record.vocab_size) == ("target", 6, 64, 256)
    assert record.model == os.path.basename(random_target)
    assert record.made_with == f"transformers {transformers.__version__}, torch {torch.__version__.partition('+')[0]}"
    assert len(record.sha256) == 64


def test_a_snapshot_in_the_hubs_cache_has_its_id_and_commit():
    assert running.named("/h/hub/models--ORG--NAME/snapshots/0123abc") == ("ORG/NAME", "0123abc")
    assert running.named("/models/Kimi-K2.5/") == ("Kimi-K2.5", "")


def test_the_choices_do_not_depend_on_how_many_logits_are_there_at_once(random_target, monkeypatch):
    tokens = torch.arange(11)
    whole = run_target(random_target, tokens).choices
    seen = []
    monkeypatch.setattr(running, "LOGITS_AT_ONCE", 3 * 256)
    target = open_target(random_target)
    target.parts.head.register_forward_hook(lambda _m, given, _o: seen.append(len(given[0])))
    assert torch.equal(target.run(tokens).choices, whole)
    assert seen == [3, 3, 3, 2]


def test_only_the_states_that_are_asked_for_are_kept(random_target):
    target = open_target(random_target)
    asked = (Tap(6, FINAL_NORM), Tap(2))
    found = target.run(torch.arange(9), taps=asked)
    assert set(found.states) == set(asked)
    assert torch.equal(found.states[Tap(2)], target.run(torch.arange(9)).states[Tap(2)])
    assert not target.parts.layers[0]._forward_pre_hooks, "no hook stays"


def test_a_model_that_changes_its_stream_in_place_later_does_not_change_what_was_kept(random_target):
    target, tokens = open_target(random_target), torch.arange(9)
    before = target.run(tokens).states

    def wipe(_module, given, _made):
        given[0].zero_()

    target.parts.layers[3].register_forward_hook(wipe)
    after = target.run(tokens).states
    assert all(torch.equal(before[tap], after[tap]) for tap in target.taps())


def test_states_reach_the_file_one_by_one_and_are_the_same(random_target, tmp_path):
    tokens, path = torch.arange(50, 90), str(tmp_path / "c.safetensors")
    target = open_target(random_target)
    record_target(target, tokens, path)
    kept, found = target.run(tokens), read_capture(path)
    assert found.taps() == kept.taps() == target.taps()
    assert all(torch.equal(found.states[tap], kept.states[tap]) for tap in kept.taps())
    assert torch.equal(found.choices, kept.choices)
    assert found.record.kind == "capture"


def test_a_run_that_fails_leaves_no_file(random_target, tmp_path):
    target = open_target(random_target)
    with pytest.raises(CaptureError, match="vocabulary"):
        record_target(target, torch.tensor([1, 256]), str(tmp_path / "c"))
    target.parts.layers[3].register_forward_hook(lambda _m, _g, out: out * float("nan"))
    with pytest.raises(CaptureError, match=r"boundary 4 \(output of layer 3\) is not finite"):
        record_target(target, torch.tensor([1, 2]), str(tmp_path / "c"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (torch.tensor([1, 256]), "expected 0 to 255, got 256"),
        (torch.tensor([1, -1]), "expected 0 to 255, got -1"),
        (torch.zeros(2049, dtype=torch.int64), "expected at most 2048, got 2049"),
        (torch.zeros(0, dtype=torch.int64), "T > 0"),
        (torch.zeros(1, 4, dtype=torch.int64), "[1, 4]"),
        (torch.zeros(4), "torch.float32"),
    ],
)
def test_tokens_that_the_target_cannot_read_are_refused_before_it_is_loaded(random_target, tokens, told, monkeypatch):
    monkeypatch.setattr(running, "load_model", lambda *_a: pytest.fail("loaded"))
    with pytest.raises(CaptureError) as caught:
        run_target(random_target, tokens)
    assert told in caught.value.diagnostics()


@pytest.mark.parametrize(
    ("shape", "own", "key"),
    [
        ("DeepseekV4", architectures.LATENT, "hc_mult"),
        ("HYV4", {}, "hc_mult"),
        ("Qwen4ExpText", {}, "hc_count"),
        ("Gemma3nText", {"num_kv_shared_layers": 0}, "altup_num_inputs"),
    ],
)
def test_several_residual_streams_are_refused_by_name(shape, own, key, tmp_path):
    config = architectures.config(shape, **own)
    config.save_pretrained(str(tmp_path))
    with pytest.raises(CaptureError, match=f"{config.model_type} has several residual streams") as caught:
        run_target(str(tmp_path), TOKENS)
    assert caught.value.where.endswith(f"config.json: {key}")


def watched(random_target):
    return open_target(random_target), torch.arange(5)


def test_a_layer_that_is_entered_by_several_streams_is_refused(random_target):
    target, tokens = watched(random_target)
    target.parts.layers[2].register_forward_pre_hook(
        lambda _m, given, named: ((given[0].unsqueeze(0).expand(4, -1, -1, -1),), named), with_kwargs=True
    )
    with pytest.raises(CaptureError, match="is no single residual stream") as caught:
        target.run(tokens)
    assert (caught.value.expected, caught.value.actual) == ("[1, 5, 64]", "[4, 1, 5, 64]")


def test_layers_that_run_twice_are_refused(random_target):
    target, tokens = watched(random_target)
    first, second = target.parts.layers[:2]

    def again(_module, given, _made):
        handle.remove()
        return second(given[0], position_embeddings=kept[0])

    kept = []
    first.register_forward_pre_hook(lambda _m, _g, named: kept.append(named["position_embeddings"]), with_kwargs=True)
    handle = second.register_forward_hook(again)
    with pytest.raises(CaptureError, match="once each, in order"):
        target.run(tokens)


def test_layers_that_do_not_run_are_refused(random_target):
    target, tokens = watched(random_target)
    for number, told in (
        (2, "expected boundary 2, got boundary 3"),
        (5, "expected boundary 5, got the end of the run"),
    ):
        parts = target.parts._replace(decoder=Skipping(target.parts.decoder, target.parts.layers[number]))
        with pytest.raises(CaptureError, match="once each, in order") as caught:
            dataclasses.replace(target, parts=parts).run(tokens)
        assert told in caught.value.diagnostics()


class Skipping(torch.nn.Module):
    """A decoder that leaves one of its layers out."""

    def __init__(self, decoder, layer):
        super().__init__()
        self.decoder, self.layer = decoder, layer

    def forward(self, **given):
        kept = self.decoder.layers
        self.decoder.layers = torch.nn.ModuleList(one for one in kept if one is not self.layer)
        try:
            return self.decoder(**given)
        finally:
            self.decoder.layers = kept


def test_a_norm_that_does_not_read_the_last_layer_is_no_final_norm(random_target):
    target, tokens = watched(random_target)
    target.parts.norms[0].register_forward_pre_hook(lambda _m, given: (given[0] * 2,))
    with pytest.raises(CaptureError, match="final norm cannot be found"):
        target.run(tokens)


def test_what_the_model_raises_is_told_in_one_line(random_target):
    target, tokens = watched(random_target)

    def fail(*_):
        raise RuntimeError("out of everything\nand more")

    target.parts.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(CaptureError) as caught:
        target.run(tokens)
    assert caught.value.actual == "RuntimeError: out of everything"
    assert caught.value.where == random_target


def test_a_model_without_a_list_of_its_layers_is_refused(tmp_path):
    from types import SimpleNamespace

    from drafter_contracts.values.targets.structure import find_parts

    model = architectures.build(str(tmp_path), "Llama")
    with pytest.raises(CaptureError, match="cannot be told from its other modules") as caught:
        find_parts(model, SimpleNamespace(layers=N + 1), "here")
    assert (caught.value.expected, caught.value.actual) == (f"one list of {N + 1} modules beside the embedding", "0")
    model.model.norm = torch.nn.Identity()
    with pytest.raises(CaptureError, match="no final norm"):
        find_parts(model, SimpleNamespace(layers=N), "here")
    model.lm_head = None
    with pytest.raises(CaptureError, match="no head"):
        find_parts(model, SimpleNamespace(layers=N), "here")


def test_weights_that_are_not_all_there_are_refused_and_never_made_up(tmp_path):
    path = random_llama(str(tmp_path))
    file = os.path.join(path, "model.safetensors")
    tensors = load_file(file)
    del tensors["model.layers.2.mlp.up_proj.weight"]
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(CaptureError, match="not all there") as caught:
        run_target(path, torch.arange(4))
    assert caught.value.actual == "1 missing: model.layers.2.mlp.up_proj.weight"


def test_weights_of_another_shape_are_refused_by_name_and_nothing_else_is_said(tmp_path, capfd):
    path = random_llama(str(tmp_path))
    file = os.path.join(path, "model.safetensors")
    tensors = load_file(file)
    tensors["model.layers.2.mlp.up_proj.weight"] = torch.zeros(3, 64)
    tensors["model.layers.99.mlp.up_proj.weight"] = torch.zeros(3, 64)
    save_file(tensors, file, {"format": "pt"})
    capfd.readouterr()
    with pytest.raises(CaptureError, match="not all there") as caught:
        run_target(path, torch.arange(4))
    assert "1 of another shape: model.layers.2.mlp.up_proj.weight [3, 64], not [" in caught.value.actual
    assert capfd.readouterr() == ("", "")  # transformers has a report of its own


def test_pickled_weights_alone_are_refused(tmp_path):
    path = random_llama(str(tmp_path))
    os.unlink(os.path.join(path, "model.safetensors"))
    with open(os.path.join(path, "pytorch_model.bin"), "wb") as file:
        file.write(b"\x80\x04K\x01.")
    with pytest.raises(PickleRefusedError, match="only as pickle"):
        run_target(path, torch.arange(4))
    os.unlink(os.path.join(path, "pytorch_model.bin"))
    with pytest.raises(CaptureError, match="no weights"):
        run_target(path, torch.arange(4))


def changed(path, **values):
    name = os.path.join(path, "config.json")
    with open(name, encoding="utf-8") as file:
        content = json.load(file)
    with open(name, "w", encoding="utf-8") as file:
        json.dump(content | values, file)


def test_code_in_the_targets_directory_is_never_run(tmp_path):
    path = random_llama(str(tmp_path))
    with open(os.path.join(path, "own.py"), "w", encoding="utf-8") as file:
        file.write("raise SystemExit('run')\n")
    changed(path, model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"})
    with pytest.raises(CaptureError, match="cannot read this target"):
        run_target(path, torch.arange(4))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_hidden_layers": 5000}, "too many layers"),
        ({"hidden_size": 32}, "the target's weights are not all there"),
        ({"model_type": "nothing"}, "cannot read this target"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(tmp_path, values, told):
    path = random_llama(str(tmp_path))
    changed(path, **values)
    with pytest.raises(CaptureError) as caught:
        run_target(path, torch.arange(4))
    assert told in caught.value.diagnostics()


def test_what_is_no_target_is_refused(tmp_path, random_target):
    for path in (str(tmp_path), str(tmp_path / "none"), "ORG/NAME"):
        with pytest.raises(CaptureError, match="no such file"):
            run_target(path, torch.arange(4))
    with pytest.raises(CaptureError, match="unknown dtype"):
        run_target(random_target, torch.arange(4), dtype="int8")
    with pytest.raises(CaptureError, match="cannot load this target"):
        run_target(random_target, torch.arange(4), device="nowhere")
    with open(tmp_path / "config.json", "w", encoding="utf-8") as file:
        file.write("{")
    with pytest.raises(CaptureError, match="cannot read this target"):
        run_target(str(tmp_path), torch.arange(4))


def test_an_adapter_is_refused(tmp_path):
    path = random_llama(str(tmp_path))
    with open(os.path.join(path, "adapter_config.json"), "w", encoding="utf-8") as file:
        file.write("{}")
    with pytest.raises(CaptureError, match="an adapter is no target"):
        run_target(path, torch.arange(4))
