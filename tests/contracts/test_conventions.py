"""What layer numbers mean: each rule of the reading, each known suspicion, and what stays undecided."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.checkpoint.facts import (
    CONTRADICTORY,
    DECLARED,
    DFLASH,
    DFLASH2,
    DSPARK,
    EAGLE,
    EAGLE3,
    ENGINE_DEFAULT,
    MEDUSA,
    METHODS,
    NEXTN,
    P_EAGLE,
    PRODUCER_RULE,
    STANDALONE,
    UNDECIDABLE,
    UNKNOWN_METHOD,
    LayoutReading,
)
from drafter_contracts.conventions import read_layout
from drafter_contracts.conventions.statements import KEYS
from drafter_contracts.layout import FINAL_NORM, STREAM_MEAN, Tap

LLAMA, DEEPSEEK = "LlamaForCausalLMEagle3", "Eagle3DeepseekV2ForCausalLM"


def nested(ids: object, architecture: str = LLAMA, **more: object) -> dict:
    return {"architectures": [architecture], "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids, **more}}


def eagle3(config: dict, n: int | None = None, **known: object) -> LayoutReading:
    return read_layout(config, method=EAGLE3, target_layers=n, **known)


def boundaries(reading: LayoutReading) -> tuple[int, ...] | None:
    return reading.layout.boundaries if reading.layout is not None else None


def test_nested_ids_are_outputs() -> None:
    reading = eagle3(nested([24, 30, 35]), 36)
    assert reading.confidence == PRODUCER_RULE
    assert boundaries(reading) == (25, 31, 36)
    assert reading.key == "eagle_config.eagle_aux_hidden_state_layer_ids"
    assert reading.ids == (24, 30, 35)
    assert not reading.alternatives
    assert boundaries(eagle3(nested([-1, 2, 30]), 61)) == (0, 3, 31)


def test_nested_ids_whose_largest_is_the_depth_are_boundaries() -> None:
    assert boundaries(eagle3(nested([24, 30, 36]), 36)) == (24, 30, 36)
    assert boundaries(eagle3(nested([24, 30, 36]), 48)) == (25, 31, 37)


def test_without_a_depth_the_exception_is_named_instead_of_excluded() -> None:
    reading = eagle3(nested([24, 30, 36]))
    assert boundaries(reading) == (25, 31, 37)
    assert reading.needs_depth
    assert reading.alternatives == ((24, 30, 36),)
    assert "boundaries instead if the target has 36 layers" in reading.reason


@pytest.mark.parametrize(
    ("prefixes", "read", "other"),
    [
        ((), (2, 30, 58), (3, 31, 59)),
        (("layers.N",), (2, 30, 58), (3, 31, 59)),
        # TorchSpec's export for vLLM, the one that writes boundaries, renames midlayer: these are outputs.
        (("midlayer",), (3, 31, 59), (2, 30, 58)),
    ],
)
def test_the_ambiguous_list_of_deepseek_shaped_heads(
    prefixes: tuple[str, ...], read: tuple[int, ...], other: tuple[int, ...]
) -> None:
    reading = eagle3(nested([2, 30, 58], DEEPSEEK), 61, layer_prefixes=prefixes)
    assert boundaries(reading) == read
    assert reading.alternatives == (other,)
    assert reading.settle
    assert boundaries(eagle3(nested([2, 30, 58], DEEPSEEK), 64, layer_prefixes=prefixes)) == (3, 31, 59)
    assert boundaries(eagle3(nested([1, 29, 57], DEEPSEEK), 61, layer_prefixes=prefixes)) == (2, 30, 58)


def test_a_copied_engine_default_is_read_by_the_rule_and_flagged() -> None:
    reading = eagle3(nested([2, 44, 85]), 88)
    assert boundaries(reading) == (3, 45, 86)
    assert reading.alternatives == ((2, 44, 85),)
    assert "copied" in reading.reason
    mixed = eagle3(nested([1, 17, 33]), 36)
    assert boundaries(mixed) == (2, 18, 34)
    assert mixed.alternatives == ((2, 18, 33),)
    # The same shape of list is the plain default one layer deeper: only the depth can tell.
    assert eagle3(nested([1, 17, 33]), 37).alternatives == ()


def test_no_aux_states_means_the_final_norm() -> None:
    reading = eagle3(nested([1, 17, 32], use_aux_hidden_state=False), 36)
    assert reading.layout.taps == (Tap(36, FINAL_NORM),)
    assert reading.key == "eagle_config.use_aux_hidden_state"
    assert read_layout({}, method=EAGLE, target_layers=32).layout.taps == (Tap(32, FINAL_NORM),)
    undepthed = read_layout({}, method=EAGLE)
    assert undepthed.layout is None
    assert undepthed.needs_depth


@pytest.mark.parametrize("method", [NEXTN, STANDALONE, MEDUSA])
def test_drafters_without_aux_states_have_no_layout_and_say_why(method: str) -> None:
    reading = read_layout(nested([1, 2, 3]), method=method, target_layers=36)
    assert reading.layout is None
    assert reading.reason


def test_speculators_states_boundaries() -> None:
    config = {"speculators_model_type": "eagle3", "eagle_aux_hidden_state_layer_ids": [2, 24, 45]}
    reading = eagle3(config, 48)
    assert boundaries(reading) == (2, 24, 45)
    assert reading.numbering == "speculators"
    assert reading.alternatives == ()
    dflash = {"speculators_model_type": "dflash", "aux_hidden_state_layer_ids": [2, 40, 48]}
    assert boundaries(read_layout(dflash, method=DFLASH, target_layers=48)) == (2, 40, 48)


@pytest.mark.parametrize(
    ("ids", "n", "version", "other"),
    [
        ([1, 23, 44], 48, "0.9.0", (2, 24, 45)),
        ([1, 23, 44], None, "0.9.0", (2, 24, 45)),
        ([1, 9, 17, 25, 33], 36, "0.9.0", (2, 10, 18, 26, 34)),
        ([2, 24, 45], 48, "0.4.0", (3, 25, 46)),
    ],
)
def test_speculators_ids_that_look_unshifted_are_flagged(
    ids: list[int], n: int | None, version: str, other: tuple[int, ...]
) -> None:
    config = {
        "speculators_model_type": "eagle3",
        "speculators_version": version,
        "eagle_aux_hidden_state_layer_ids": ids,
    }
    reading = eagle3(config, n)
    assert boundaries(reading) == tuple(ids)
    assert reading.alternatives == (other,)


def test_a_top_level_list_without_a_producer_is_read_as_vllm_does_and_flagged() -> None:
    reading = eagle3({"architectures": [LLAMA], "eagle_aux_hidden_state_layer_ids": [2, 46, 89]}, 92)
    assert boundaries(reading) == (2, 46, 89)
    assert reading.alternatives == ((3, 47, 90),)
    assert "SGLang ignores it" in reading.reason


def both(first: list[int], second: list[int]) -> dict:
    return {"dflash_config": {"target_layer_ids": first}, "eagle_aux_hidden_state_layer_ids": second}


def test_two_spellings_that_agree_declare_the_layout() -> None:
    reading = read_layout(both([1, 13, 39], [2, 14, 40]), method=DFLASH, target_layers=40)
    assert reading.confidence == DECLARED
    assert boundaries(reading) == (2, 14, 40)
    angel = {"aux_hidden_states_layer_ids": [1, 5], "eagle_aux_hidden_state_layer_ids": [2, 6]}
    assert eagle3(angel, 40).confidence == DECLARED
    written = {**nested([1, 29, 57]), "eagle_aux_hidden_state_layer_ids": [2, 30, 58]}
    assert (eagle3(written, 61).confidence, boundaries(eagle3(written, 61))) == (DECLARED, (2, 30, 58))


def test_two_spellings_that_differ_are_contradictory_and_name_both() -> None:
    reading = read_layout(both([1, 13, 39], [1, 13, 39]), method=DFLASH, target_layers=40)
    assert reading.confidence == CONTRADICTORY
    assert reading.layout is None
    assert reading.alternatives == ((1, 13, 39), (2, 14, 40))
    assert "dflash_config.target_layer_ids = [1, 13, 39]" in reading.reason
    assert "eagle_aux_hidden_state_layer_ids = [1, 13, 39]" in reading.reason
    order = read_layout(both([13, 1, 39], [2, 14, 40]), method=DFLASH, target_layers=40)
    assert order.confidence == CONTRADICTORY, "the same taps in another order are another layout"


def test_one_spelling_twice_declares_nothing() -> None:
    config = {"dflash_config": {"target_layer_ids": [1, 9]}, "target_layer_ids": [1, 9]}
    reading = read_layout(config, method=DFLASH, target_layers=36)
    assert reading.confidence == PRODUCER_RULE
    config["target_layer_ids"] = [1, 10]
    assert read_layout(config, method=DFLASH, target_layers=36).confidence == CONTRADICTORY


def test_a_repeated_list_is_two_boundaries_only_where_sglang_reads_it_so() -> None:
    config = {**nested([2, 30, 58], "Other"), "eagle_aux_hidden_state_layer_ids": [2, 30, 58]}
    assert eagle3(config, 61, target_model_type="kimi_k2").confidence == DECLARED
    assert eagle3(config, 61, target_model_type="llama").confidence == CONTRADICTORY


def test_dflash_and_dspark_keys_are_outputs() -> None:
    for config in ({"dflash_config": {"target_layer_ids": [1, 8, 15]}}, {"target_layer_ids": [1, 8, 15]}):
        assert boundaries(read_layout(config, method=DFLASH, target_layers=24)) == (2, 9, 16)
    assert boundaries(read_layout({"target_layer_ids": [-1, 8]}, method=DSPARK, target_layers=24)) == (0, 9)
    shifted = read_layout({"target_layer_ids": [2, 17, 32, 47, 62]}, method=DSPARK, target_layers=64)
    assert boundaries(shifted) == (3, 18, 33, 48, 63)
    assert shifted.alternatives == ((2, 17, 32, 47, 62),)
    last = read_layout({"target_layer_ids": [3, 31]}, method=DFLASH, target_layers=32)
    assert boundaries(last) == (4, 32)
    assert "final norm" in last.reason


def test_deepspec_is_undecided_about_the_last_layer_only() -> None:
    config = {"architectures": ["Qwen3DSparkModel"], "target_layer_ids": [-1, 17, 34]}
    assert boundaries(read_layout(config, method=DSPARK, target_layers=36)) == (0, 18, 35)
    config["target_layer_ids"] = [1, 35]
    assert read_layout(config, method=DSPARK, target_layers=36).confidence == UNDECIDABLE


def test_a_drafter_inside_deepseek_v4_reads_means_over_streams() -> None:
    config = {"model_type": "deepseek_v4", "dspark_target_layer_ids": [40, 41, 42]}
    assert read_layout(config, method=DSPARK, target_layers=43).layout.taps == tuple(
        Tap(b, STREAM_MEAN) for b in (41, 42, 43)
    )
    later = {"model_type": "deepseek_v41", "dspark_target_layer_ids": [37, 38, 39]}
    assert boundaries(read_layout(later, method=DSPARK, target_layers=40)) == (37, 38, 39)


def test_angelslim_reads_the_tuple_of_transformers() -> None:
    config = {"aux_hidden_states_layer_ids": [1, 15, 31]}
    reading = eagle3(config, 32)
    assert reading.layout.taps == (Tap(2), Tap(16), Tap(32, FINAL_NORM))
    assert reading.producer == "AngelSlim"


def test_vllm_and_gguf_keys_are_boundaries() -> None:
    assert boundaries(eagle3({"eagle_config": {"layer_ids": [2, 16, 29]}}, 32)) == (2, 16, 29)
    gguf = {"general.architecture": "eagle3", "eagle3.target_layers": [6, 34, 62]}
    assert (boundaries(eagle3(gguf, 64)), eagle3(gguf, 64).numbering) == ((6, 34, 62), "llama.cpp")


@pytest.mark.parametrize(
    ("config", "known", "n", "read", "others"),
    [
        ({"architectures": [LLAMA]}, {}, 36, (2, 18, 33), ((2, 19, 33),)),
        ({"architectures": ["Eagle3LlamaForCausalLM"]}, {}, 36, (2, 18, 33), ((2, 18, 34),)),
        ({"architectures": ["Eagle3LlamaForCausalLM"]}, {}, 61, (2, 30, 58), ((2, 31, 59),)),
        ({"architectures": ["LlamaForCausalLM"], "draft_vocab_size": 9}, {}, 32, (2, 16, 29), ((3, 17, 30),)),
        ({"speculators_model_type": "eagle3", "speculators_version": "0.9.0"}, {}, 36, (2, 18, 33), ()),
        ({"speculators_model_type": "eagle3", "speculators_version": "0.3.0"}, {}, 36, (3, 19, 34), ((2, 18, 33),)),
        ({"speculators_model_type": "eagle3"}, {}, 36, (2, 18, 33), ((3, 19, 34),)),
        ({"_torchspec_version": "0.1"}, {}, 61, (2, 30, 58), ()),
        ({}, {"tap_count": 3}, 61, (2, 30, 58), ()),
        (
            {"architectures": [LLAMA]},
            {"target_model_type": "minimax_m3_vl"},
            60,
            (3, 31, 58),
            ((2, 31, 57), (2, 30, 57)),
        ),
        (nested(None), {}, 36, (2, 18, 33), ((2, 19, 33),)),
        ({"architectures": [LLAMA]}, {}, 8, (2, 4, 5), ()),  # too shallow for the other version's formula
    ],
)
def test_without_ids_the_producers_default_is_assumed_and_its_other_versions_named(
    config: dict, known: dict, n: int, read: tuple[int, ...], others: tuple[tuple[int, ...], ...]
) -> None:
    reading = eagle3(config, n, **known)
    assert reading.confidence == ENGINE_DEFAULT
    assert boundaries(reading) == read
    assert reading.alternatives == others
    assert reading.settle
    undepthed = eagle3(config, **known)
    assert undepthed.layout is None
    assert undepthed.needs_depth


@pytest.mark.parametrize("method", [DFLASH, DFLASH2, DSPARK])
def test_nothing_stated_is_never_defaulted_for_the_dflash_family(method: str) -> None:
    reading = read_layout({"num_hidden_layers": 5, "num_target_layers": 36}, method=method, target_layers=36)
    assert reading.confidence == UNDECIDABLE
    assert reading.layout is None
    assert reading.settle


@pytest.mark.parametrize(
    ("config", "known", "why"),
    [
        ({"architectures": [LLAMA]}, {"tap_count": 5}, "three taps are not the 5 of fc"),
        ({"architectures": ["Qwen3Eagle3Model"]}, {}, "DeepSpec has no default"),
        (nested("1,17,32"), {}, "is not a list of layer numbers"),
        (nested([1, "17", 32]), {}, "is not a list of layer numbers"),
        (nested([1, True, 32]), {}, "is not a list of layer numbers"),
        (nested([1, 17.0, 32]), {}, "is not a list of layer numbers"),
        (nested([]), {}, "is not a list of layer numbers"),
        ({"architectures": [LLAMA]}, {"n": 5}, "too shallow"),
    ],
)
def test_what_nothing_decides_is_undecidable_with_the_reason(config: dict, known: dict, why: str) -> None:
    reading = eagle3(config, known.pop("n", 36), **known)
    assert reading.confidence == UNDECIDABLE
    assert why in reading.reason
    assert reading.settle


def test_an_id_that_the_target_does_not_have_is_a_contradiction() -> None:
    for config in (
        nested([1, 17, 40]),
        {"speculators_model_type": "eagle3", "eagle_aux_hidden_state_layer_ids": [2, 37]},
    ):
        reading = eagle3(config, 36)
        assert reading.confidence == CONTRADICTORY
        assert "36-layer target" in reading.reason
    assert eagle3(nested([-2, 17, 30]), 36).confidence == CONTRADICTORY
    assert eagle3(nested(list(range(1, 400))), 1000).confidence == CONTRADICTORY


def test_repeated_and_unsorted_ids_are_kept_and_said() -> None:
    assert "listed twice" in eagle3(nested([1, 1, 30]), 36).reason
    reading = eagle3(nested([30, 1, 17]), 36)
    assert boundaries(reading) == (31, 2, 18)
    assert "not in ascending order" in reading.reason


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
IDS = st.lists(st.integers(-3, 70), min_size=1, max_size=5)
LEAVES = sorted({key.rpartition(".")[2] for key, _ in KEYS} | {"use_aux_hidden_state"})
PLAIN = st.sampled_from(
    ["architectures", "speculators_model_type", "speculators_version", "model_type", "eagle3.target_layers", *LEAVES]
)
NESTS = st.dictionaries(st.sampled_from(LEAVES), IDS | VALUES, max_size=3)
CONFIGS = st.builds(
    lambda plain, nests: {**plain, **nests},
    st.dictionaries(PLAIN, IDS | VALUES, max_size=5),
    st.dictionaries(st.sampled_from(["eagle_config", "dflash_config", "model", "text_config"]), NESTS, max_size=2),
)


@given(CONFIGS, st.sampled_from(METHODS), st.none() | st.integers(1, 70), st.none() | st.integers(0, 6))
def test_any_config_gets_a_reading_and_what_is_read_exists(
    config: dict, method: str, n: int | None, tap_count: int | None
) -> None:
    reading = read_layout(config, method=method, target_layers=n, tap_count=tap_count)
    if reading.layout is not None:
        assert reading.confidence in (DECLARED, PRODUCER_RULE, ENGINE_DEFAULT)
        reading.layout.check(n)
    else:
        assert reading.reason
        assert reading.settle or method in (NEXTN, STANDALONE, MEDUSA)
    if reading.confidence in (UNDECIDABLE, CONTRADICTORY):
        assert reading.layout is None


def test_an_unknown_kind_of_drafter_with_nothing_stated_is_undecidable() -> None:
    assert read_layout({}, method=UNKNOWN_METHOD, target_layers=36).confidence == UNDECIDABLE
    assert read_layout({"architectures": ["PEagleDraftModel"]}, method=P_EAGLE, target_layers=36).layout is not None
