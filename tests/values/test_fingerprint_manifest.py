"""A fingerprint in a manifest: what is refused, what publishing carries on, and what the command writes."""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct

import msgspec
import pytest
import torch

from drafter_contracts.errors import ManifestError
from drafter_contracts.fingerprint_check import check_fingerprint
from drafter_contracts.layout import CaptureLayout, Tap, layout_from_boundaries
from drafter_contracts.manifest import SCHEMA, canonical, decode
from drafter_contracts.manifest_records import TargetRecord
from drafter_contracts.manifest_values import FingerprintRecord, TapFingerprint
from drafter_contracts.rendering.reorder import reordered
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.fingerprints import make_fingerprint, probe
from drafter_contracts.values.targets import run_target

TOKENS = probe(256)


def floats(count, value=0.5):
    return base64.b64encode(struct.pack("<f", value) * count).decode()


def record(boundaries=(1, 3, 5), tokens=TOKENS, layers=6, width=64, **other):
    taps = tuple(
        TapFingerprint(
            boundary=boundary,
            norms=(1.0,) * len(tokens),
            first=((0.0,) * min(5, width),) * len(tokens),
            projection=floats(64 * len(tokens)),
        )
        for boundary in boundaries
    )
    fields = {"tokens": tokens, "taps": taps, "landmarks": floats(64 * (layers + 2)), "layers": layers, "width": width}
    return FingerprintRecord(spec="drafters.fingerprint.v1", **fields | other)


def with_tap(**other):
    made = record()
    return msgspec.structs.replace(made, taps=(msgspec.structs.replace(made.taps[0], **other), *made.taps[1:]))


LAYOUT = layout_from_boundaries([5, 1, 3])
TARGET = TargetRecord(layers=6, hidden_size=64, vocab_size=256)


def test_a_whole_fingerprint_goes_with_its_layout_in_any_order_and_with_nothing_known():
    check_fingerprint(record(), LAYOUT, TARGET)
    check_fingerprint(record(landmarks=""))
    check_fingerprint(record(width=3))
    check_fingerprint(record(), layout_from_boundaries([1, 3, 5, 3]))


WRONG = {
    "order": (record((3, 1, 5)), "taps", "boundaries 1, 3, 5"),
    "repeated": (record((1, 3, 3, 5)), "taps", "boundaries 1, 3, 5"),
    "other taps": (record((1, 3, 6)), "taps", "boundaries 1, 3, 5"),
    "fewer taps": (record((1, 3)), "taps", "boundaries 1, 3, 5"),
    "too deep": (record((1, 3, 7)), "taps[2].boundary", "0 to 6"),
    "final norm inside": (with_tap(state="final_norm"), "taps[0].boundary", "0 to 6"),
    "another depth": (record(layers=7), "layers", "6"),
    "another width": (record(width=32), "width", "64"),
    "another vocabulary": (record(tokens=(*TOKENS[:15], 256)), "tokens", "0 to 255"),
    "norms": (with_tap(norms=(1.0,) * 15), "taps[0].norms", "16"),
    "negative": (with_tap(norms=(-1.0,) * 16), "taps[0].norms", "0 or more"),
    "first": (with_tap(first=((0.0,) * 4,) * 16), "taps[0].first", "16 tokens, 5 elements"),
    "first of fewer": (with_tap(first=((0.0,) * 5,) * 15), "taps[0].first", "16 tokens, 5 elements"),
    "no base64": (with_tap(projection="!" * 8), "taps[0].projection", "base64 of 4096 bytes"),
    "not even text": (with_tap(projection="é"), "taps[0].projection", "base64 of 4096 bytes"),
    "short": (with_tap(projection=floats(1023)), "taps[0].projection", "4096 bytes: 1024 float32"),
    "infinite": (with_tap(projection=floats(1024, float("inf"))), "taps[0].projection", "finite numbers"),
    "landmarks": (record(landmarks=floats(64 * 7)), "landmarks", "2048 bytes: 512 float32"),
    "landmarks nan": (record(landmarks=floats(64 * 8, float("nan"))), "landmarks", "finite numbers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_by_name(case):
    made, where, expected = WRONG[case]
    layout = None if "boundary" in where else LAYOUT
    with pytest.raises(ManifestError) as caught:
        check_fingerprint(made, layout, TARGET)
    assert caught.value.where == f"state_fingerprint.{where}"
    assert caught.value.expected.startswith(expected)
    assert caught.value.actual != caught.value.expected


def test_unbounded_numbers_are_refused_where_no_vocabulary_is_known():
    with pytest.raises(ManifestError, match="not a token"):
        check_fingerprint(record(tokens=(*TOKENS[:15], 2**31)))
    with pytest.raises(ManifestError, match="not the target's"):
        check_fingerprint(record(width=0))


def test_a_manifest_is_read_with_its_fingerprint_or_not_at_all():
    document = {"schema": SCHEMA, "layout": {"boundaries": [5, 3, 1]}, "target": {"layers": 6, "hidden_size": 64}}
    whole = document | {"state_fingerprint": msgspec.to_builtins(record())}
    manifest = decode(json.dumps(whole).encode())
    assert manifest.state_fingerprint == record()
    assert decode(canonical(manifest)) == manifest
    assert decode(json.dumps(document).encode()).state_fingerprint is None
    other = document | {"layout": {"boundaries": [1, 3, 6]}, "state_fingerprint": whole["state_fingerprint"]}
    with pytest.raises(ManifestError, match="not the layout's") as caught:
        decode(json.dumps(other).encode(), where="m.json")
    assert caught.value.where == "m.json: state_fingerprint.taps"


def test_a_render_in_another_order_keeps_it():
    document = {"schema": SCHEMA, "name": "d", "version": "1", "layout": {"boundaries": [5, 1, 3]}}
    manifest = decode(json.dumps(document | {"state_fingerprint": msgspec.to_builtins(record())}).encode())
    rendered = reordered(manifest, (1, 2, 0))
    assert rendered.layout is not None
    assert rendered.layout.boundaries == (1, 3, 5)
    assert decode(canonical(rendered)).state_fingerprint == record()


@pytest.fixture
def drafter(tmp_path, random_target):
    """A directory of a drafter of the random target, trained on the outputs of layers 0, 2 and 4."""
    from drafter_contracts.checkpoint.skeleton import write_skeleton

    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
        "draft_vocab_size": 64,
        "torch_dtype": "float32",
    }
    tensors = {"fc.weight": ("F32", (64, 192)), "lm_head.weight": ("F32", (64, 64)), "d2t": ("I64", (64,))}
    tensors |= {"norm.weight": ("F32", (64,)), "midlayer.hidden_norm.weight": ("F32", (64,))}
    tensors |= {"midlayer.self_attn.q_proj.weight": ("F32", (64, 128))}
    folder = str(tmp_path / "drafter")
    write_skeleton(folder, config, tensors)
    return folder


def cli(*words):
    from drafter_cli import main

    return main.main([str(word) for word in words])


def beside(folder):
    with open(os.path.join(folder, "drafters-manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def test_the_command_adds_the_fingerprint_and_leaves_every_other_field(drafter, random_target, capsys):
    before = {"schema": SCHEMA, "name": "d", "layout": {"boundaries": [5, 1, 3]}, "draft": {"rope_theta": 1e4}}
    path = os.path.join(drafter, "drafters-manifest.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(before | {"provenance": {"notes": ["ä"]}}, file)
    assert cli("fingerprint", drafter, "--target", random_target) == 0
    told = capsys.readouterr().out
    assert "boundaries 5, 1, 3 (outputs of layers 4, 0, 2) on 16 tokens in float32" in told
    after = beside(drafter)
    made = after.pop("state_fingerprint")
    assert after == before | {"provenance": {"notes": ["ä"]}}
    expected = make_fingerprint(run_target(random_target, torch.tensor(TOKENS)), layout_from_boundaries([1, 3, 5]))
    assert msgspec.convert(made, FingerprintRecord) == expected
    assert cli("fingerprint", drafter, "--target", random_target, "--json") == 0
    assert json.loads(capsys.readouterr().out)["state_fingerprint"] == made
    assert beside(drafter)["state_fingerprint"] == made
    with open(path, encoding="utf-8") as file:
        assert file.read().count('"state_fingerprint"') == 1
    assert sorted(os.listdir(drafter)) == ["config.json", "drafters-manifest.json", "model.safetensors"]


def test_a_layout_that_nothing_says_is_asked_for(drafter, random_target, capsys):
    assert cli("fingerprint", drafter, "--target", random_target) == 5
    assert "--output-ids or --boundaries" in capsys.readouterr().err
    assert cli("fingerprint", drafter, "--target", random_target, "--json") == 5
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "UNDECIDED"
    assert not os.path.exists(os.path.join(drafter, "drafters-manifest.json"))
    assert cli("fingerprint", drafter, "--target", random_target, "--output-ids", "0,2,4") == 0
    assert set(beside(drafter)) == {"schema", "state_fingerprint"}
    assert [tap["boundary"] for tap in beside(drafter)["state_fingerprint"]["taps"]] == [1, 3, 5]


def test_a_render_gets_none_of_its_own(drafter, random_target, capsys):
    render = {"of": "sha256:" + "a" * 64, "engine": "sglang 0.5.23"}
    with open(os.path.join(drafter, "drafters-manifest.json"), "w", encoding="utf-8") as file:
        json.dump({"schema": SCHEMA, "layout": {"boundaries": [1, 3, 5]}, "render": render}, file)
    assert cli("fingerprint", drafter, "--target", random_target) == 2
    assert "a render" in capsys.readouterr().err
    assert "state_fingerprint" not in beside(drafter)


def test_other_taps_than_the_manifests_are_not_written(drafter, random_target, capsys):
    with open(os.path.join(drafter, "drafters-manifest.json"), "w", encoding="utf-8") as file:
        json.dump({"schema": SCHEMA, "layout": {"boundaries": [1, 3, 5]}}, file)
    assert cli("fingerprint", drafter, "--target", random_target, "--boundaries", "1,3,6") == 7
    assert "the taps are not the layout's" in capsys.readouterr().err
    assert "state_fingerprint" not in beside(drafter)


def test_a_capture_of_the_probe_does_as_well_as_the_target_and_no_other_capture(
    drafter, random_target, tmp_path, capsys
):
    whole, other, made = (str(tmp_path / name) for name in ("probe.safetensors", "other.safetensors", "made.json"))
    write_capture(whole, run_target(random_target, torch.tensor(TOKENS)))
    write_capture(other, run_target(random_target, torch.tensor(TOKENS[::-1])))
    words = ("fingerprint", drafter, "--boundaries", "1,3,5")
    assert cli(*words, "--reference", whole, "-o", made) == 0
    with open(made, "rb") as file:
        alone = msgspec.json.decode(file.read(), type=FingerprintRecord)
    assert not os.path.exists(os.path.join(drafter, "drafters-manifest.json"))
    expected = make_fingerprint(run_target(random_target, torch.tensor(TOKENS)), layout_from_boundaries([1, 3, 5]))
    assert (alone.taps, alone.landmarks) == (expected.taps, expected.landmarks)
    capsys.readouterr()
    assert cli(*words, "--reference", other, "-o", made) == 7
    assert "the capture is not of the probe" in capsys.readouterr().err
    assert cli(*words, "--reference", whole, "--vocab-size", "512", "-o", made) == 7
    assert cli(*words) == 2
    assert cli(*words, "--target", random_target, "--reference", whole) == 2


def test_the_probe_is_printed_and_needs_a_vocabulary(capsys):
    assert cli("fingerprint", "--print-probe", "--vocab-size", "256") == 0
    assert capsys.readouterr().out.strip() == ",".join(map(str, TOKENS))
    assert cli("fingerprint", "--print-probe", "--vocab-size", "163840", "--json") == 0
    assert json.loads(capsys.readouterr().out)["tokens"] == list(probe(163840))
    assert cli("fingerprint", "--print-probe") == 2


def test_publishing_carries_it_on_and_refuses_another_layouts(drafter, random_target, drafters, tmp_path):
    data = ("--data", tmp_path / "registry")
    assert cli("fingerprint", drafter, "--target", random_target, "--boundaries", "1,3,5") == 0
    words = ("publish", drafter, "--name", "d", "--version", "1", "--target", random_target, *data)
    done = drafters(*words, "--boundaries", "1,3,6")
    assert done.returncode == 7
    assert "the taps are not the layout's" in done.stdout + done.stderr
    done = drafters(*words, "--boundaries", "5,1,3")
    assert done.returncode == 0, done.stderr
    assert "3 taps on 16 tokens" in done.stderr + done.stdout
    stored = json.loads(drafters("show", "d@1", "--manifest", *data).stdout)
    assert stored["state_fingerprint"]["taps"] == beside(drafter)["state_fingerprint"]["taps"]
    shutil.rmtree(drafter)
    probed = str(tmp_path / "probe.safetensors")
    write_capture(probed, run_target(random_target, torch.tensor(TOKENS), dtype="bfloat16"))
    done = drafters("verify", "d@1", probed, *data)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"SAME  d@1: {probed}\n")


def test_a_layout_with_a_final_norm_has_its_fingerprint(random_target):
    capture = run_target(random_target, torch.tensor(TOKENS))
    layout = CaptureLayout((Tap(6, "final_norm"), Tap(6)))
    made = make_fingerprint(capture, layout)
    check_fingerprint(made, layout, TARGET)
    assert [tap.state for tap in made.taps] == ["final_norm", "residual"]
