"""What the engine would fill the drafter with is what was judged."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.verdict import REFUSE, UNKNOWN, WARN


def test_weights_beside_the_single_file_are_read_by_the_engine_and_were_not_by_the_check(scene):
    scene.edit("facts", beside=("zz.safetensors",))
    assert scene.codes() == {"DRAFT_FILES": UNKNOWN}
    (finding,) = scene.verdict().findings
    assert "zz.safetensors" in finding.message
    assert "zz.safetensors" in finding.remedy


@pytest.mark.parametrize(
    ("dtype", "more"),
    [
        ("F8_E4M3", ()),
        ("I8", (TensorFact("fc.weight_scale", "F32", (4096,)),)),
        ("BF16", (TensorFact("fc.weight_scale_inv", "F32", (32, 96)),)),
    ],
)
def test_a_quantised_fc_is_not_known_to_get_its_scales(scene, dtype, more):
    tensors = [replace(one, dtype=dtype) if one.name == "fc.weight" else one for one in scene.facts.tensors]
    scene.edit("facts", tensors=(*tensors, *more))
    assert scene.codes() == {"FC_QUANTIZED": UNKNOWN}


def test_a_quantised_layer_behind_a_plain_fc_is_no_matter_of_the_fc(scene):
    more = TensorFact("midlayer.mlp.up_proj.weight_scale", "F32", (1,))
    scene.edit("facts", tensors=(*scene.facts.tensors, more))
    assert scene.codes() == {}


@pytest.mark.parametrize(
    ("values", "severity"),
    [
        ({"load_format": "auto"}, None),
        ({"load_format": "dummy", "speculative_draft_load_format": "auto"}, None),
        ({"load_format": "dummy"}, WARN),
        ({"load_format": "dummy", "speculative_draft_load_format": "dummy"}, WARN),
        ({"load_format": "auto", "speculative_draft_load_format": "dummy"}, REFUSE),
    ],
)
def test_made_up_weights_are_no_drafter(scene, values, severity):
    scene.values |= values
    assert scene.codes() == ({"DUMMY_WEIGHTS": severity} if severity else {})


@pytest.mark.parametrize("name", ["adapter.weight", "midlayer.gate_x.weight", "model.layers.0.mlp.experts.3.up.weight"])
def test_a_tensor_that_no_class_was_asked_about_may_be_left_out(scene, name):
    scene.edit("facts", tensors=(*scene.facts.tensors, TensorFact(name, "BF16", (4096, 64))))
    assert scene.codes() == {"DRAFT_TENSORS": WARN}
    (finding,) = scene.verdict().findings
    assert name in finding.message
