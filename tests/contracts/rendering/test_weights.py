"""Plans of rewritten weight files: what is in them, what is left alone, and what is refused."""

from __future__ import annotations

import msgspec
import pytest

from drafter_contracts import limits
from drafter_contracts.errors import CheckpointError, RenderError
from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.rendering.weights import Piece, WeightsHead, renamed_index, rewritten


def head(name, tensors, metadata=None):
    """A file of these tensors, without its data: name to (dtype, shape, bytes)."""
    document = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for tensor, (dtype, shape, size) in tensors.items():
        document[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": (offset, offset + size)}
        offset += size
    encoded = msgspec.json.encode(document)
    first = len(encoded).to_bytes(8, "little") + encoded
    return WeightsHead(name, first, len(first) + offset)


FC = {"fc.weight": ("BF16", (4, 6), 48)}
ONE = head("a.safetensors", {"d2t": ("I64", (5,), 40), **FC, "lm_head.weight": ("BF16", (3, 2), 12)}, {"by": "x"})
DATA = len(ONE.head)


def test_data_that_stay_are_one_range_each_side_of_those_that_move():
    (plan,) = rewritten([ONE], WeightChange((2, 0, 1)))
    assert plan.head == ONE.head
    assert plan.pieces == (
        Piece("a.safetensors", DATA, 1, (40,)),
        Piece("a.safetensors", DATA + 40, 4, (4, 4, 4), (2, 0, 1)),
        Piece("a.safetensors", DATA + 88, 1, (12,)),
    )
    assert plan.size == ONE.size
    assert plan.sources == (ONE,)


def test_a_rename_changes_the_header_alone():
    (plan,) = rewritten([ONE], WeightChange((), {"lm_head.weight": "model.lm_head.weight"}))
    assert plan.pieces == (Piece("a.safetensors", DATA, 1, (100,)),)
    header = msgspec.json.decode(plan.head[8:])
    assert list(header) == ["__metadata__", "d2t", "fc.weight", "model.lm_head.weight"]
    assert header["__metadata__"] == {"by": "x"}
    assert header["model.lm_head.weight"]["data_offsets"] == [88, 100]
    assert len(plan.head) % 8 == 0


@pytest.mark.parametrize("change", [UNCHANGED, WeightChange((0, 1, 2)), WeightChange((), {"d2t": "d2t"})])
def test_what_changes_nothing_rewrites_no_file(change):
    assert rewritten([ONE], change) == ()


def test_only_the_shard_that_holds_something_of_a_tap_is_rewritten():
    other = head("b.safetensors", {"norm.weight": ("BF16", (4,), 8)})
    assert [plan.name for plan in rewritten([other, ONE], WeightChange((1, 2, 0)))] == ["a.safetensors"]


def test_a_norm_comes_from_the_shard_that_it_lies_in():
    first = head("a.safetensors", FC | {"fc_norm.0.weight": ("BF16", (2,), 4), "fc_norm.1.weight": ("BF16", (2,), 4)})
    second = head("b.safetensors", {"norm.weight": ("F32", (1,), 4), "fc_norm.2.weight": ("BF16", (2,), 4)})
    plans = {plan.name: plan for plan in rewritten([first, second], WeightChange((0, 2, 1)))}
    assert plans["b.safetensors"].pieces == (
        Piece("b.safetensors", len(second.head), 1, (4,)),
        Piece("a.safetensors", len(first.head) + 52, 1, (4,)),
    )
    assert [source.name for source in plans["b.safetensors"].sources] == ["a.safetensors", "b.safetensors"]
    assert plans["a.safetensors"].pieces[-1] == Piece("b.safetensors", len(second.head) + 4, 1, (4,))


def test_norms_of_other_widths_take_their_shape_and_dtype_along():
    tensors = {
        "fc.weight": ("BF16", (4, 3), 24),
        "fc_norm.0.weight": ("BF16", (1,), 2),
        "fc_norm.1.weight": ("F32", (2,), 8),
        "t2d": ("BOOL", (9,), 9),
    }
    (plan,) = rewritten([head("a", tensors)], WeightChange((1, 0)), (1, 2))
    header = msgspec.json.decode(plan.head[8:])
    assert header["fc_norm.0.weight"] == {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]}
    assert header["fc_norm.1.weight"] == {"dtype": "BF16", "shape": [1], "data_offsets": [32, 34]}
    assert header["t2d"]["data_offsets"] == [34, 43]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"gone": "here"}, "no such tensor"),
        ({"d2t": "fc.weight"}, "cannot be given"),
        ({"d2t": "new", "fc.weight": "new"}, "cannot be given"),
        ({"d2t": "__metadata__"}, "cannot be given"),
        ({"d2t": ""}, "cannot be given"),
    ],
)
def test_a_name_that_cannot_be_given_is_refused(names, words):
    with pytest.raises(RenderError, match=words):
        rewritten([ONE], WeightChange((), names))


def test_two_tensors_can_exchange_their_names():
    (plan,) = rewritten([ONE], WeightChange((), {"d2t": "fc.weight", "fc.weight": "d2t"}))
    assert list(msgspec.json.decode(plan.head[8:]))[1:3] == ["fc.weight", "d2t"]


def test_an_order_that_a_tensor_cannot_follow_is_refused_before_anything_is_planned():
    scaled = head("a", {"fc.weight": ("F8_E4M3", (4, 6), 24), "fc.weight_scale": ("F32", (4, 3), 48)})
    with pytest.raises(RenderError, match=r"fc\.weight_scale \[4, 3\] F32"):
        rewritten([scaled], WeightChange((1, 0, 2)))


def test_one_tensor_in_two_files_is_refused():
    with pytest.raises(CheckpointError, match="two files"):
        rewritten([ONE, head("b", FC)], WeightChange((1, 0, 2)))


def test_a_bad_header_is_refused():
    with pytest.raises(CheckpointError):
        rewritten([msgspec.structs.replace(ONE, size=ONE.size + 1)], UNCHANGED)


def test_a_file_over_the_cap_is_refused(monkeypatch):
    monkeypatch.setattr(limits, "rewritten_file_max_bytes", ONE.size - 1)
    with pytest.raises(CheckpointError, match="too large"):
        rewritten([ONE], WeightChange((1, 0, 2)))
    assert rewritten([ONE], UNCHANGED) == ()


def test_a_name_over_the_headers_cap_is_refused():
    with pytest.raises(CheckpointError, match="header"):
        rewritten([ONE], WeightChange((), {"d2t": "x" * limits.header_max_bytes}))


INDEX = msgspec.json.encode({"metadata": {"total_size": 9}, "weight_map": {"b": "2.safetensors", "a": "1.safetensors"}})


def test_an_index_names_tensors_as_the_render_does():
    changed = msgspec.json.decode(renamed_index(INDEX, {"a": "c"}, "index"))
    assert changed == {"metadata": {"total_size": 9}, "weight_map": {"c": "1.safetensors", "b": "2.safetensors"}}
    assert renamed_index(INDEX, {"other": "c"}, "index") == INDEX


@pytest.mark.parametrize("document", [b"{", b"[]", b'{"weight_map": {"a": 1}}', b"{}"])
def test_what_is_no_index_is_refused(document):
    with pytest.raises(CheckpointError, match="shard index"):
        renamed_index(document, {"a": "c"}, "index")
