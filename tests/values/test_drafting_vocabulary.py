"""Draft tokens as target tokens: the map as offset and absolute, and maps that cannot be right."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making.drafters import Shape, write_drafter

from drafter_contracts.errors import ContradictionError, UnsupportedDrafterError
from drafter_contracts.manifest_records import DraftRecord
from drafter_contracts.values.drafting import load_drafter
from drafter_contracts.values.drafting.vocabulary import Maps, target_ids

IDS = st.sets(st.integers(0, 39), min_size=1, max_size=39).map(sorted).map(torch.tensor)


def mask(ids, size=40):
    return torch.zeros(size, dtype=torch.bool).index_fill(0, ids, True)


def maps(ids, **others):
    """Of a drafter for a target of 40 tokens."""
    return Maps(**({"where": "here", "size": len(ids), "target_size": 40, "config_size": 40} | others))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(ids=IDS, with_mask=st.booleans(), kind=st.sampled_from([torch.int64, torch.int32]))
def test_both_encodings_name_the_same_tokens(ids, with_mask, kind):
    t2d = mask(ids) if with_mask else None
    offset = (ids - torch.arange(len(ids))).to(kind)
    if with_mask or offset.any():
        for encoding in ("offset", ""):
            assert torch.equal(target_ids(maps(ids, d2t=offset, t2d=t2d, encoding=encoding)), ids)
    if with_mask or ids.any():
        assert torch.equal(target_ids(maps(ids, d2t=ids.to(kind), t2d=t2d, encoding="absolute")), ids)
    assert torch.equal(target_ids(maps(ids, t2d=mask(ids))), ids)


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(ids=IDS)
def test_the_mask_tells_a_wrong_encoding(ids):
    offset = ids - torch.arange(len(ids))
    if torch.equal(ids, offset):
        return
    with pytest.raises(ContradictionError, match="read as offset it fits"):
        target_ids(maps(ids, d2t=offset, t2d=mask(ids), encoding="absolute"))
    with pytest.raises(ContradictionError, match="read as absolute it fits"):
        target_ids(maps(ids, d2t=ids, t2d=mask(ids), encoding="offset"))


REFUSED = [
    ({"d2t": [0, 1]}, "not one entry per draft token"),
    ({"d2t": [0, 0, 0, 40]}, "ids from 0 to 43"),
    ({"d2t": [-1, 0, 0, 0]}, "ids from -1 to 3"),
    ({"d2t": [0, 2, 1, 0]}, "more than once"),
    ({"d2t": [5, 5, 5, 5], "t2d": [1, 2, 3, 4]}, "other target ids than t2d"),
    ({"d2t": [5, 5, 5, 5], "encoding": "none"}, "the vocabularies are one"),
    ({"d2t": [5, 5, 5, 40], "encoding": "absolute"}, "from 5 to 40"),
]


@pytest.mark.parametrize(("change", "named"), REFUSED)
def test_maps_that_cannot_be_right_are_refused(change, named):
    change = {key: torch.tensor(value) if key == "d2t" else value for key, value in change.items()}
    if "t2d" in change:
        change["t2d"] = mask(torch.tensor(change["t2d"]))
    with pytest.raises(ContradictionError, match=named) as caught:
        target_ids(maps(range(4), **change))
    assert caught.value.where == "here"


def test_a_map_of_zeros_was_never_filled_in():
    zeros = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(UnsupportedDrafterError, match="nobody filled it in"):
        target_ids(maps(range(4), d2t=zeros))
    with pytest.raises(UnsupportedDrafterError, match="nobody filled it in"):
        target_ids(maps(range(4), d2t=zeros, t2d=torch.zeros(40, dtype=torch.bool)))
    first = target_ids(maps(range(4), d2t=zeros, t2d=mask(torch.arange(4))))
    assert torch.equal(first, torch.arange(4))
    whole = target_ids(maps(range(40), d2t=torch.zeros(40, dtype=torch.int64)))
    assert torch.equal(whole, torch.arange(40))


def test_without_a_map_the_vocabularies_must_be_one():
    assert target_ids(maps(range(40))) is None
    assert target_ids(maps(range(40), target_size=48)) is None  # a padded target
    for size, t2d in ((25, None), (25, mask(torch.arange(24))), (50, None)):
        with pytest.raises(UnsupportedDrafterError, match="no d2t"):
            target_ids(maps(range(size), t2d=t2d))


@pytest.mark.parametrize("encoding", ["offset", "absolute"])
def test_a_loaded_drafter_maps_its_choices(tmp_path, encoding):
    shape = Shape(draft=25)
    tensors = shape.tensors()
    ids = tensors["t2d"].nonzero().flatten()
    if encoding == "absolute":
        tensors["d2t"] = ids
    path = write_drafter(str(tmp_path), shape.config(), tensors)
    parts = shape.target_parts()
    one = load_drafter(path, target_hidden_size=16, stated=DraftRecord(vocab_mapping=encoding), **parts)
    assert torch.equal(one.to_target(torch.tensor([[0, 24], [3, 3]])), ids[torch.tensor([[0, 24], [3, 3]])])
    states, tokens = shape.recorded(12)
    assert torch.equal(one.choices(states, tokens, 2), ids[one.forward(states, tokens, 2).argmax(-1)])


def test_a_full_vocabulary_is_its_own_map(tmp_path):
    shape = Shape()
    path = write_drafter(str(tmp_path), shape.config(), shape.tensors())
    one = load_drafter(path, target_hidden_size=16, **shape.target_parts())
    assert torch.equal(one.to_target(torch.tensor([3, 39])), torch.tensor([3, 39]))
