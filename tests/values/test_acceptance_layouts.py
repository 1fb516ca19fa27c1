"""Which layouts a drafter is tried under."""

from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.layout import FINAL_NORM, NORM_PER_CHUNK, CaptureLayout, Tap, layout_from_boundaries
from drafter_contracts.values.acceptance import neighbours
from drafter_contracts.values.acceptance.layouts import is_single_step


def boundaries_by_name(layout, layers):
    return {name: other.boundaries for name, other in neighbours(layout, layers)}


def test_the_layouts_of_the_incident():
    assert boundaries_by_name(layout_from_boundaries([3, 31, 59]), 61) == {
        "tap 0 one lower": (2, 31, 59),
        "tap 0 one higher": (4, 31, 59),
        "tap 1 one lower": (3, 30, 59),
        "tap 1 one higher": (3, 32, 59),
        "tap 2 one lower": (3, 31, 58),
        "tap 2 one higher": (3, 31, 60),
        "all one lower": (2, 30, 58),
        "all one higher": (4, 32, 60),
        "embedding first": (0, 3, 31),
        "embedding instead of tap 0": (0, 31, 59),
        "embedding instead of tap 1": (3, 0, 59),
        "embedding instead of tap 2": (3, 31, 0),
        "order 0,2,1": (3, 59, 31),
        "order 1,0,2": (31, 3, 59),
        "order 1,2,0": (31, 59, 3),
        "order 2,0,1": (59, 3, 31),
        "order 2,1,0": (59, 31, 3),
    }


def test_the_default_is_tried_where_another_is_stated():
    assert boundaries_by_name(layout_from_boundaries([3, 31, 59]), 64)["default"] == (2, 32, 61)
    assert "default" not in boundaries_by_name(layout_from_boundaries([2, 30, 58]), 61)
    assert "default" not in boundaries_by_name(layout_from_boundaries([2, 31]), 64)


def test_of_more_than_three_taps_the_reversal_and_swaps_of_neighbours():
    orders = {n: b for n, b in boundaries_by_name(layout_from_boundaries([2, 5, 9, 14]), 20).items() if "order" in n}
    assert orders == {
        "order 3,2,1,0": (14, 9, 5, 2),
        "order 1,0,2,3": (5, 2, 9, 14),
        "order 0,2,1,3": (2, 9, 5, 14),
        "order 0,1,3,2": (2, 5, 14, 9),
    }


def test_a_final_norm_stays_where_it_is():
    layout = CaptureLayout((Tap(3), Tap(6, FINAL_NORM)), (8, 8), NORM_PER_CHUNK)
    found = dict(neighbours(layout, 6))
    assert {name: other.taps for name, other in found.items()} == {
        "one lower": (Tap(2), Tap(6, FINAL_NORM)),
        "one higher": (Tap(4), Tap(6, FINAL_NORM)),
        "embedding instead of tap 0": (Tap(0), Tap(6, FINAL_NORM)),
        "order 1,0": (Tap(6, FINAL_NORM), Tap(3)),
    }
    assert all(other.widths == (8, 8) and other.norm == NORM_PER_CHUNK for other in found.values())


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(1, 12))
def test_every_neighbour_can_exist_and_is_another(data, layers):
    boundaries = data.draw(st.lists(st.integers(0, layers), min_size=1, max_size=6, unique=True))
    layout = layout_from_boundaries(boundaries)
    found = neighbours(layout, layers)
    taps = [other.taps for _, other in found]
    assert len(set(taps)) == len(taps)
    assert layout.taps not in taps
    assert len({name for name, _ in found}) == len(found)
    for _, other in found:
        other.check(layers)
        assert len(other.taps) == len(layout.taps) == len(set(other.taps))


def test_a_state_that_is_stated_twice_is_tried_twice():
    assert boundaries_by_name(layout_from_boundaries([2, 2]), 4)["tap 0 one higher"] == (3, 2)
    assert (3, 3) not in boundaries_by_name(layout_from_boundaries([2, 3]), 4).values()


def test_a_single_step_is_one_tap_among_several():
    names = [name for name, _ in neighbours(layout_from_boundaries([3, 31, 59]), 61)]
    single = [name for name in names if is_single_step(name)]
    assert single == [f"tap {at} one {way}" for at in range(3) for way in ("lower", "higher")]
    assert not any(is_single_step(name) for name, _ in neighbours(layout_from_boundaries([3]), 61))
    assert boundaries_by_name(layout_from_boundaries([3]), 61) == {
        "one lower": (2,),
        "one higher": (4,),
        "embedding first": (0,),
    }
