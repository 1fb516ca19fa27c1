"""Which tensors another order of the taps concerns, and what stands in its way."""

from __future__ import annotations

import pytest

from drafter_cli.demo_files import drafter_tensors
from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.errors import RenderError
from drafter_contracts.rendering.blocks import Move, moves, order_faults

H, TAPS = 8, 3
ORDER = (2, 0, 1)
FC = ("fc.weight", (6, TAPS * H))


def facts(*tensors, dtype="BF16"):
    return tuple(TensorFact(name, *(rest if len(rest) == 2 else (dtype, *rest))) for name, *rest in tensors)


def moved(*tensors, order=ORDER, widths=()):
    return {move.name: move for move in moves(facts(*tensors), order, widths)}


def test_of_a_plain_head_only_fc_moves_though_other_widths_are_the_same_number():
    layer = [("midlayer.mlp.down_proj.weight", (6, TAPS * H)), ("midlayer.hidden_norm.weight", (TAPS * H,))]
    found = moved(FC, *layer, ("norm.weight", (TAPS,)), ("d2t", (TAPS * H,)), ("lm_head.weight", (TAPS * H, 6)))
    assert found == {"fc.weight": Move("fc.weight", "fc.weight", 6, (H, H, H))}


def test_the_incidents_drafter_is_understood():
    tensors = tuple(TensorFact(name, dtype, tuple(shape)) for name, (dtype, shape) in drafter_tensors().items())
    assert [move.name for move in moves(tensors, ORDER)] == ["fc.weight"]
    assert order_faults(tensors, ORDER, (7168,) * 3) == ()


@pytest.mark.parametrize("name", ["fc.weight", "model.fc.weight", "draft_model.fc.weight", "mtp.0.main_proj.weight"])
def test_the_fusion_goes_by_every_name_that_it_has(name):
    assert list(moved((name, (6, 24)), ("mtp.0.main_norm.weight", (24,)))) == [name]


def test_taps_of_different_widths_are_blocks_of_those_widths():
    found = moved(("fc.weight", (5, 12)), ("input_norm.weight", (12,)), order=(1, 2, 0), widths=(3, 7, 2))
    assert found["fc.weight"].widths == found["input_norm.weight"].widths == (3, 7, 2)
    assert (found["fc.weight"].rows, found["input_norm.weight"].rows) == (5, 1)


@pytest.mark.parametrize("shape", [(24,), (1, 24), (1, 1, 24), (3, 8), (1, 3, 8)])
@pytest.mark.parametrize("name", ["mask_hidden", "model.mask_hidden", "mask_hidden.weight"])
def test_the_state_of_masked_positions_moves_like_the_input_that_it_stands_for(name, shape):
    assert moved(FC, (name, shape))[name] == Move(name, name, 1, (H, H, H))


@pytest.mark.parametrize(
    "names",
    [
        ("fc_norm.0.weight", "fc_norm.1.weight", "fc_norm.2.weight"),
        ("model.fc_norm.0.weight", "model.fc_norm.1.weight", "model.fc_norm.2.weight"),
        ("aux_hidden_norms.0.weight", "aux_hidden_norms.1.weight", "aux_hidden_norms.2.weight"),
        ("aux_norm_low.weight", "aux_norm_mid.weight", "aux_norm_high.weight"),
    ],
)
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 2), (0, 2, 1)])
def test_the_norm_at_each_place_becomes_that_of_the_tap_that_comes_there(names, order):
    found = moved(FC, *((name, (H,)) for name in names), order=order)
    found.pop("fc.weight")
    assert {name: move.source for name, move in found.items()} == {
        names[place]: names[source] for place, source in enumerate(order) if place != source
    }
    assert all(move.widths == () for move in found.values())


def test_norms_of_taps_of_different_widths_take_their_shape_along():
    norms = [(f"fc_norm.{place}.weight", (width,)) for place, width in enumerate((3, 7, 2))]
    found = moved(("fc.weight", (5, 12)), *norms, order=(1, 2, 0), widths=(3, 7, 2))
    assert [found[f"fc_norm.{place}.weight"].source for place in range(3)] == [
        "fc_norm.1.weight", "fc_norm.2.weight", "fc_norm.0.weight",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "scale",
    [
        ("fc.weight_scale", "F32", (6,)),
        ("fc.weight_scale", "F32", (6, 1)),
        ("fc.weight_scale", "F32", ()),
        ("fc.weight_scale", "F32", (1,)),
        ("fc.weight_scale_inv", "F32", (6, 1)),
        ("fc.input_scale", "F32", (1,)),
        ("fc.weight_zero_point", "I8", (6, 1)),
        ("fc.bias", "BF16", (6,)),
    ],
)
@pytest.mark.parametrize("dtype", ["F8_E4M3", "I8", "BF16", "F32"])
def test_scales_per_row_and_single_ones_stay_as_they_are(scale, dtype):
    assert list(moved(("fc.weight", dtype, (6, 24)), scale)) == ["fc.weight"]


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ([("fc.weight", "F8_E4M3", (6, 24)), ("fc.weight_scale", "F32", (2, 3))], ["fc.weight_scale [2, 3] F32"]),
        ([("fc.weight", "F8_E4M3", (6, 24)), ("fc.weight_scale", "F32", (24,))], ["fc.weight_scale [24]"]),
        ([("fc.weight", "F8_E4M3", (24, 24)), ("fc.weight_scale", "F32", (24,))], ["not one for each row"]),
        ([("fc.weight", "F8_E4M3", (6, 24)), ("fc.input_scale", "F32", (24,))], ["fc.input_scale"]),
        ([("fc.weight", "F8_E4M3", (6, 24)), ("fc.weight_scale_inv", "F32", (1, 3))], ["quantised fc"]),
        ([("fc.weight", "U8", (6, 12))], ["fc.weight [6, 12] U8", "packed"]),
        ([("fc.weight", "I32", (6, 3))], ["packed"]),
        ([("fc.weight", "BF16", (144,))], ["flat"]),
        ([("fc.qweight", "I32", (3, 6)), ("fc.scales", "F16", (1, 6))], ["one fc.weight", "fc.qweight, fc.scales"]),
        ([("fc.weight_packed", "I32", (6, 3))], ["fc.weight_packed"]),
        ([FC, ("fc.weight_packed", "I32", (6, 3))], ["fc.weight_packed [6, 3] I32"]),
        ([FC, ("fc.weight_g_idx", "I32", (24,))], ["fc.weight_g_idx"]),
        ([FC, ("fc.lora_A.weight", (4, 24))], ["fc.lora_A.weight"]),
        ([FC, ("fc.bias", (24,))], ["fc.bias"]),
        ([FC, ("fc.bias", (1,))], ["fc.bias"]),
        ([FC, ("model.fc.weight", (6, 24))], ["fc.weight, model.fc.weight"]),
        ([("norm.weight", (6,))], ["found none"]),
        ([("fc.weight", (6, 25))], ["columns", "3 taps of one width"]),
        ([FC, ("input_norm.weight", (8,))], ["input_norm.weight [8]", "24 elements"]),
        ([FC, ("input_norm.bias", (24,))], ["input_norm.bias"]),
        ([FC, ("mask_hidden", (3, 16))], ["mask_hidden"]),
        ([FC, ("mask_hidden", (24, 1))], ["mask_hidden"]),
        ([FC, ("mask_hidden.scale", (1,))], ["mask_hidden.scale"]),
        ([FC, ("fc_norm.0.weight", (8,)), ("fc_norm.1.weight", (8,))], ["fc_norm.*", "found [0, 1]"]),
        ([FC, *((f"fc_norm.{i}.weight", (8,)) for i in (1, 2, 3))], ["found [1, 2, 3]"]),
        ([FC, *((f"fc_norm.{i}.weight", (4,)) for i in range(3))], ["fc_norm.0.weight [4]", "width 8"]),
        ([FC, ("fc_norm.weight", (3, 8))], ["fc_norm.weight", "which tap"]),
        ([FC, ("fc_norm.00.weight", (8,))], ["which tap"]),
        ([FC, ("fc_norm.0.bias", (8,))], ["fc_norm.0.bias"]),
        ([FC, ("aux_norm_middle.weight", (8,))], ["which tap"]),
        ([FC, ("eagle_head.fc_norm.0.weight", (8,))], ["eagle_head.fc_norm.0.weight"]),
        ([FC, ("layers.0.fc.weight", (6, 24))], ["layers.0.fc.weight", "not known"]),
        ([FC, ("tap_gate", (3,))], ["tap_gate", "not known"]),
        ([FC, ("layer_mix.weight", (24,))], ["layer_mix.weight"]),
        ([FC, ("layer_mix.weight", (4, 6))], ["layer_mix.weight"]),
        ([FC, ("context_proj.weight", (6, 24))], ["context_proj.weight"]),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tensors, words):
    told = "; ".join(order_faults(facts(*tensors), ORDER))
    assert all(word in told for word in words), told
    with pytest.raises(RenderError) as error:
        moves(facts(*tensors), ORDER)
    assert all(word in error.value.diagnostics() for word in words)


def test_an_unknown_tensor_that_cannot_depend_on_the_taps_is_left_alone():
    assert list(moved(FC, ("rotary_emb.inv_freq", (4,)), ("logit_scale", ()))) == ["fc.weight"]


def test_everything_in_the_way_is_named_at_once():
    tensors = [("fc.weight", "F8_E4M3", (6, 24)), ("fc.weight_scale", "F32", (2, 3)), ("tap_gate", (3,))]
    tensors += [("fc_norm.0.weight", (8,)), ("input_norm.weight", (9,))]
    assert len(order_faults(facts(*tensors), ORDER)) == 4


@pytest.mark.parametrize("order", [(), (0, 1, 1), (1, 2, 3), (0, 2)])
def test_an_order_names_every_place_once(order):
    assert "no order of places" in order_faults(facts(FC), order)[0]


@pytest.mark.parametrize("widths", [(8, 8), (8, 8, 9), (0, 16, 8), (24,)])
def test_widths_must_be_those_of_fc(widths):
    assert "columns" in order_faults(facts(FC), ORDER, widths)[0]
