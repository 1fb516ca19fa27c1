"""The nearest promise, how its conditions differ, and when it cannot be compared at all."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.acceptance.promises import Promise, drafted_tokens, nearest
from drafter_contracts.acceptance.records import Conditions
from drafter_contracts.manifest_records import Acceptance

SEEN = Conditions(
    engine="sglang",
    release="0.5.23",
    steps=3,
    topk=1,
    draft_tokens=4,
    target_revision="0123456789abcdef",
    target_dtype="bfloat16",
    target_quantization="fp8",
    workload="chat",
    temperature=0.0,
)


def kept(**fields):
    same = {
        "length": 2.75,
        "engine": "sglang 0.5.23",
        "steps": 3,
        "topk": 1,
        "draft_tokens": 4,
        "target_revision": "0123456789abcdef",
        "target_dtype": "bfloat16",
        "target_quantization": "fp8",
        "dataset": "chat",
        "temperature": 0.0,
        "measured": "engine",
    }
    return Acceptance(**{**same, **fields})


def test_no_promise():
    assert nearest([], SEEN) is None


def test_the_same_conditions_differ_in_nothing():
    found = nearest([Promise(acceptance=kept(date="2026-11-01"), where="manifest")], SEEN)
    assert (found.length, found.drafted, found.differs, found.obstacle, found.settle) == (2.75, 3, (), "", "")
    assert found.shown() == (
        "2.75 on chat, sglang 0.5.23, steps 3, topk 1, draft tokens 4, engine, 2026-11-01 (manifest)"
    )


DIFFERENCES = (
    ({"engine": "vllm 0.12.0"}, "engine: promised for vllm, sglang is seen"),
    ({"target_dtype": "float16"}, "target dtype: promised for float16, bfloat16 is seen"),
    ({"target_quantization": ""}, "target quantization: the promise does not say, fp8 is seen"),
    (
        {"target_revision": "fedcba9876543210"},
        "target revision: promised for fedcba9876543210, 0123456789abcdef is seen",
    ),
    ({"engine": "sglang 0.5.9"}, "release: promised for 0.5.9, 0.5.23 is seen"),
    ({"dataset": "code"}, "workload: promised for code, chat is seen"),
    ({"temperature": 0.7}, "temperature: promised for 0.7, 0 is seen"),
)


@pytest.mark.parametrize(("fields", "words"), DIFFERENCES)
def test_every_difference_is_named(fields, words):
    found = nearest([kept(**fields)], SEEN)
    assert words in found.differs
    assert found.length == 2.75


@pytest.mark.parametrize(("nearer", "farther"), list(itertools.pairwise(reversed(DIFFERENCES))))
def test_differences_weigh_in_a_fixed_order(nearer, farther):
    one, other = kept(**nearer[0]), kept(**farther[0])
    assert nearest([other, one], SEEN).promise.acceptance is one
    assert nearest([one, other], SEEN).promise.acceptance is one


def test_a_setting_that_is_not_told_is_nearer_than_another_one():
    silent, other = kept(temperature=None), kept(temperature=1.0)
    assert nearest([other, silent], SEEN).promise.acceptance is silent


def test_what_runs_may_not_be_known():
    found = nearest([kept()], Conditions())
    assert "target dtype: promised for bfloat16, what runs is not known" in found.differs
    assert (found.length, found.drafted) == (2.75, 3)


def test_an_engine_is_believed_more_than_an_estimate_and_much_more_than_little():
    estimate = kept(measured="teacher-forced")
    few, many = kept(verify_steps=100), kept(verify_steps=5000)
    assert nearest([estimate, few, many], SEEN).promise.acceptance is many
    assert nearest([estimate], SEEN).teacher_forced
    assert not nearest([many], SEEN).teacher_forced


def test_the_later_one_of_two():
    undated, old, new = kept(), kept(date="2026-10-01"), kept(date="2026-11-01")
    for order in itertools.permutations((undated, old, new)):
        assert nearest(order, SEEN).promise.acceptance is new
    assert nearest([undated, old], SEEN).promise.acceptance is old


def test_an_estimate_ran_on_no_engine():
    found = nearest([kept(engine="drafters 0.9.0", measured="teacher-forced")], SEEN)
    assert found.differs == ("teacher-forced on recorded states, no engine ran: an estimate",)


@pytest.mark.parametrize(
    ("fields", "obstacle"),
    [
        ({"topk": 4, "draft_tokens": 16}, "it is for topk 4; topk 1 is in force"),
        ({"steps": 5, "draft_tokens": 6}, "it is for 5 drafted tokens; 3 are in force"),
        ({"steps": 2, "draft_tokens": 3}, "it is for 2 drafted tokens; 3 are in force"),
        ({"steps": None, "draft_tokens": None}, "it does not say how many tokens were drafted"),
        ({"length": 4.5}, "it promises 4.5 tokens per step of 3 drafted, which give 4 at most"),
    ],
)
def test_what_cannot_be_compared_promises_no_length(fields, obstacle):
    found = nearest([kept(**fields)], SEEN)
    assert (found.length, found.obstacle) == (None, obstacle)
    assert found.settle


def test_what_settles_it_names_the_settings():
    found = nearest([kept(topk=4)], SEEN)
    assert found.settle == "measure at these settings and record that: steps 3, topk 1, draft tokens 4"


def test_a_tree_of_another_size_cannot_be_compared():
    seen = Conditions(engine="sglang", steps=3, topk=4, draft_tokens=8)
    found = nearest([kept(topk=4, draft_tokens=16)], seen)
    assert (found.length, found.obstacle) == (None, "it is for 16 draft tokens; 8 are in force")
    assert nearest([kept(topk=4, draft_tokens=8)], seen).length == 2.75
    assert nearest([kept(topk=1, draft_tokens=16)], Conditions(steps=3, draft_tokens=4)).length is None


def test_a_comparable_promise_comes_before_a_nearer_one_that_is_not():
    near, far = kept(topk=4), kept(engine="vllm 0.12.0", dataset="code", temperature=1.0)
    assert nearest([near, far], SEEN).promise.acceptance is far


LONG = {"steps": 5, "draft_tokens": 6, "length": 3.5, "positions": (0.8, 0.6, 0.5, 0.35, 0.25)}


def test_positions_give_the_length_for_fewer_drafted_tokens():
    found = nearest([kept(**LONG)], SEEN)
    assert (found.length, found.drafted) == (pytest.approx(2.9), 3)
    assert found.differs[0] == "computed for 3 drafted tokens: 1 + the first 3 of its 5 positions"


def test_a_measured_length_comes_before_a_computed_one():
    assert nearest([kept(**LONG), kept(engine="vllm")], SEEN).promise.acceptance.engine == "vllm"


@pytest.mark.parametrize(
    "fields",
    [
        {"positions": (0.8, 0.6)},
        {"positions": (0.9, 0.9, 0.9, 0.9, 0.9)},
        {"topk": None},
        {"topk": 4},
        {"positions": ()},
    ],
)
def test_positions_that_do_not_say_it_are_not_used(fields):
    assert nearest([kept(**{**LONG, **fields})], SEEN).length is None


def test_more_drafted_tokens_than_promised_cannot_be_computed():
    assert nearest([kept(**LONG)], Conditions(engine="sglang", steps=7, topk=1)).length is None


def test_vllm_drafts_one_chain():
    assert nearest([kept(**LONG)], Conditions(engine="vllm", steps=2)).length == pytest.approx(2.4)
    assert nearest([kept(**LONG)], Conditions(engine="sglang", steps=2)).length is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
@settings(deadline=None, max_examples=60)
def test_fewer_drafted_tokens_never_promise_more(shares, data):
    positions = tuple(sorted(shares, reverse=True))
    steps = data.draw(st.integers(1, len(positions)))
    long = Acceptance(length=1 + sum(positions), steps=len(positions), topk=1, positions=positions)
    found = nearest([long], Conditions(steps=steps, topk=1))
    assert 1 <= found.length <= min(long.length, steps + 1) + 1e-9
    assert found.drafted == steps


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"target_dtype": "torch.bfloat16"}, {}),
        ({"target_dtype": "bf16"}, {}),
        ({"engine": "SGLang v0.5.23"}, {}),
        ({"engine": "sglang==0.5.23"}, {}),
        ({"target_quantization": "FP8"}, {}),
        ({"target_revision": "0123456"}, {}),
    ],
)
def test_one_thing_by_several_names(one, other):
    assert nearest([kept(**one)], SEEN).differs == ()


def test_a_short_beginning_is_no_commit():
    assert nearest([kept(target_revision="0123")], SEEN).differs


def test_dtype_auto_says_nothing():
    found = nearest([kept(target_dtype="auto")], SEEN)
    assert found.differs == ("target dtype: the promise does not say, bfloat16 is seen",)


def test_drafted_tokens():
    assert drafted_tokens(3, 16) == 3
    assert drafted_tokens(None, 4) == 3
    assert drafted_tokens(None, None, (0.5, 0.2)) == 2
    assert drafted_tokens(None, 1) is None
    assert drafted_tokens(None, None) is None


BLOCK = {"steps": 1, "topk": 1, "draft_tokens": 16}


@pytest.mark.parametrize("method", ["DFLASH", "dspark", ""])
@pytest.mark.parametrize("stated", [BLOCK, {"draft_tokens": 16}, {"draft_tokens": 16, "steps": 1}])
def test_steps_are_no_depth_where_a_block_is_drafted(method, stated):
    found = nearest([Acceptance(length=4.2, **stated)], Conditions(engine="sglang", method=method, **BLOCK))
    assert (found.length, found.drafted, found.obstacle) == (4.2, 15, "")


def test_a_block_that_is_cut_is_another_block():
    theirs = Acceptance(length=1.9, topk=1, draft_tokens=4, positions=(0.5, 0.3, 0.1))
    ours = Conditions(engine="sglang", method="DFLASH", steps=1, topk=1, draft_tokens=3)
    assert nearest([theirs], ours).length is None


def test_one_step_of_several_choices_is_one_step():
    found = nearest([kept(steps=1, topk=8, draft_tokens=9, length=1.7)], Conditions(steps=1, topk=8, draft_tokens=9))
    assert found.drafted == 1
