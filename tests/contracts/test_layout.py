"""Boundaries, taps and layouts: what can exist, and how it is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.errors import LayoutError
from drafter_contracts.layout import (
    FINAL_NORM,
    NORM_PER_CHUNK,
    STREAM_MEAN,
    STREAM_MIXTURE,
    CaptureLayout,
    Tap,
    describe_taps,
    layout_from_boundaries,
    layout_from_output_ids,
)


@given(st.integers(1, 128), st.data())
def test_boundaries_and_output_ids_name_the_same_taps(n: int, data: st.DataObject) -> None:
    boundaries = tuple(data.draw(st.lists(st.integers(0, n), min_size=1, max_size=8)))
    layout = layout_from_boundaries(boundaries, width=16, num_layers=n)
    assert layout.boundaries == boundaries
    assert layout.output_ids == tuple(b - 1 for b in boundaries)
    assert layout_from_output_ids(layout.output_ids, width=16, num_layers=n) == layout
    assert layout.fc_input_width == 16 * len(boundaries)
    assert layout.ascending == (list(boundaries) == sorted(set(boundaries)))


@given(st.integers(1, 128), st.integers(-200, 400))
def test_boundaries_out_of_range_are_refused_in_both_numberings(n: int, boundary: int) -> None:
    if 0 <= boundary <= n:
        assert layout_from_boundaries([boundary], num_layers=n).boundaries == (boundary,)
    else:
        with pytest.raises(LayoutError) as refused:
            layout_from_boundaries([boundary], num_layers=n)
        assert f"{boundary} (output of layer {boundary - 1})" in refused.value.diagnostics()


def test_order_is_part_of_a_layout() -> None:
    assert layout_from_boundaries([3, 31, 59]) != layout_from_boundaries([59, 31, 3])
    assert not layout_from_boundaries([59, 31, 3]).ascending
    assert not layout_from_boundaries([3, 3]).ascending


def test_the_final_norm_is_never_the_last_boundary() -> None:
    assert Tap(61) != Tap(61, FINAL_NORM)
    assert CaptureLayout((Tap(61, FINAL_NORM),)).check(61).boundaries == (61,)
    with pytest.raises(LayoutError, match="last boundary only"):
        CaptureLayout((Tap(60, FINAL_NORM),)).check(61)


def test_widths_may_differ_between_taps_and_add_up() -> None:
    assert CaptureLayout((Tap(2), Tap(5)), (8, 16), NORM_PER_CHUNK).check(6).fc_input_width == 24
    assert CaptureLayout((Tap(2), Tap(5))).fc_input_width is None


@pytest.mark.parametrize(
    ("layout", "complaint"),
    [
        (CaptureLayout(()), "at least one tap"),
        (CaptureLayout((Tap(1),) * (limits.layout_max_taps + 1)), "at least one tap"),
        (CaptureLayout((Tap(1), Tap(2)), (8,)), "one width per tap"),
        (CaptureLayout((Tap(1),), (0,)), "positive"),
        (CaptureLayout((Tap(1),), norm="layer"), "unknown norm"),
        (CaptureLayout((Tap(1, "query"),)), "unknown tap state"),
        (CaptureLayout((Tap(limits.target_max_layers + 1),)), "out of range"),
    ],
)
def test_layouts_that_cannot_exist_are_refused(layout: CaptureLayout, complaint: str) -> None:
    with pytest.raises(LayoutError, match=complaint):
        layout.check()


@pytest.mark.parametrize(
    ("taps", "said"),
    [
        ((Tap(3), Tap(31), Tap(59)), "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)"),
        ((Tap(5),), "boundary 5 (output of layer 4)"),
        ((Tap(0), Tap(3)), "boundaries 0, 3 (embedding output, output of layer 2)"),
        ((Tap(0), Tap(3), Tap(31)), "boundaries 0, 3, 31 (embedding output, outputs of layers 2, 30)"),
        ((Tap(3), Tap(0)), "boundaries 3, 0 (output of layer 2, embedding output)"),
        ((Tap(0),), "boundary 0 (embedding output)"),
        ((), "nothing"),
        ((Tap(61, FINAL_NORM),), "final norm (after boundary 61)"),
        ((Tap(41, STREAM_MEAN),), "boundary 41 (output of layer 40, mean over streams)"),
        ((Tap(41, STREAM_MIXTURE),), "boundary 41 (output of layer 40, mixed with earlier streams)"),
    ],
)
def test_taps_are_said_in_both_numberings(taps: tuple[Tap, ...], said: str) -> None:
    assert describe_taps(taps) == said
