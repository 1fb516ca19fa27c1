"""Plans on releases of vLLM: which config every runner reads rightly, and what is refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm_bench import FLAT, IDS, SPECULATORS, WIDTH, codes, facts_of, manifest_of, planned

from drafter_contracts.engines.capture import capture_once, read_ids
from drafter_contracts.engines.store import load_profile as load_sglang
from drafter_contracts.engines.store import releases as sglang_releases
from drafter_contracts.engines.vllm import reading
from drafter_contracts.engines.vllm.store import load_profile, releases
from drafter_contracts.errors import LaunchError
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER, Wishes, placed

NESTED = {"eagle_config": {IDS: [2, 10, 20]}}


def test_the_option_says_method_directory_and_number():
    made = planned("0.33.0", manifest_of([3, 11, 21]), facts_of(FLAT | {IDS: [3, 11, 21]}, 3))
    option, text = made.flags
    assert option == "--speculative-config"
    assert json.loads(text) == {"method": "eagle3", "model": PATH_PLACEHOLDER, "num_speculative_tokens": 3}
    assert made.config is None


def test_the_directory_is_put_inside_the_option():
    made = planned("0.33.0", manifest_of([3, 11, 21]), facts_of(FLAT | {IDS: [3, 11, 21]}, 3))
    assert json.loads(placed(made.flags, "/a b")[1])["model"] == "/a b"
    assert placed(("--x", "{not json", PATH_PLACEHOLDER), "/p") == ("--x", "{not json", "/p")


@pytest.mark.parametrize("release", ["0.18.0", "0.22.0", "0.29.0", "0.33.0"])
def test_the_key_that_only_sglang_reads_gets_one_beside_it(release):
    made = planned(release, manifest_of([3, 11, 21]), facts_of(FLAT | NESTED, 3))
    assert made.config[IDS] == [3, 11, 21]
    assert made.config["eagle_config"] == {IDS: [2, 10, 20]}
    assert {k: v for k, v in made.config.items() if k not in {IDS, "eagle_config"}} == FLAT


def test_what_the_drafter_says_to_sglang_is_its_own_affair():
    own = {"eagle_config": {IDS: [3, 11, 21]}}  # boundaries, as some targets of SGLang want: never overwritten
    made = planned("0.33.0", manifest_of([3, 11, 21], architecture="DeepseekV3ForCausalLM"), facts_of(FLAT | own, 3))
    assert (made.config[IDS], made.config["eagle_config"]) == ([3, 11, 21], own["eagle_config"])
    assert any("stays as it is" in notice for notice in made.notices)


def test_a_default_that_one_runner_misses_because_of_the_nested_key_is_rendered():
    config = FLAT | {"eagle_config": {IDS: [1, 15, 28]}}  # boundaries 2, 16, 29: the default of 32 layers
    assert planned("0.18.0", manifest_of([2, 16, 29]), facts_of(config, 3)).config is None
    assert planned("0.22.0", manifest_of([2, 16, 29]), facts_of(config, 3)).config[IDS] == [2, 16, 29]


def test_no_release_says_ids_in_0_11_so_only_its_default_is_served():
    assert planned("0.11.0", manifest_of([2, 16, 29]), facts_of(FLAT, 3)).resolved
    made = planned("0.11.0", manifest_of([3, 16, 29]), facts_of(FLAT | {IDS: [3, 16, 29]}, 3))
    assert codes(made) == {"CAPTURE_LAYERS"}


def test_a_drafter_without_any_ids_gets_both_keys():
    made = planned("0.33.0", manifest_of([3, 11, 21]), facts_of(FLAT, 3))
    assert (made.config[IDS], made.config["eagle_config"][IDS]) == ([3, 11, 21], [2, 10, 20])


def test_another_order_becomes_an_order_of_blocks_and_both_engines_agree_on_it():
    made = planned("0.33.0", manifest_of([21, 3, 11]), facts_of(FLAT, 3))
    assert made.weights.order == (1, 2, 0)
    assert (made.config[IDS], made.config["eagle_config"][IDS]) == ([3, 11, 21], [2, 10, 20])


@pytest.mark.parametrize(("release", "boundary"), [("0.18.0", 0), ("0.33.0", 0)])
def test_what_a_target_class_cannot_hand_out_is_refused_with_the_reason(release, boundary):
    manifest = manifest_of([boundary, 11, 21], architecture="DeepseekV3ForCausalLM")
    made = planned(release, manifest, facts_of(FLAT | {IDS: [boundary, 11, 21]}, 3))
    assert codes(made) == {"CAPTURE_CRASH"}
    assert "No ids help" in made.verdict.findings[0].remedy


def test_the_last_layer_is_dropped_by_some_classes_and_handed_out_by_others():
    ids = {IDS: [3, 11, 32]}
    assert planned("0.33.0", manifest_of([3, 11, 32]), facts_of(FLAT | ids, 3)).resolved
    lost = manifest_of([3, 11, 32], architecture="DeepseekV32ForCausalLM")
    assert codes(planned("0.33.0", lost, facts_of(FLAT | ids, 3))) == {"CAPTURE_DROPPED"}


def test_a_target_without_the_hook_and_one_that_nobody_registers_differ():
    without = planned("0.11.0", manifest_of([2, 16, 29], architecture="DeepseekV3ForCausalLM"), facts_of(FLAT, 3))
    nobody = planned("0.33.0", manifest_of([2, 16, 29], architecture="NobodyForCausalLM"), facts_of(FLAT, 3))
    assert (codes(without), without.open) == ({"CAPTURE_NO_HOOK"}, False)
    assert "CAPTURE_OPAQUE" in codes(nobody)
    assert nobody.open


def test_four_taps_need_a_release_whose_class_sizes_fc_by_the_config():
    config = FLAT | {IDS: [3, 11, 21, 26]}
    manifest = manifest_of([3, 11, 21, 26])
    assert codes(planned("0.18.0", manifest, facts_of(config, 4))) == {"FC_SIZE"}
    made = planned("0.22.0", manifest, facts_of(config, 4))
    assert made.config["num_aux_hidden_states"] == 4


def test_speculators_keys_are_written_where_the_translation_reads_them():
    config = SPECULATORS | {IDS: [3, 11, 21, 26]}
    made = planned("0.33.0", manifest_of([3, 11, 21, 26]), facts_of(config, 4))
    assert made.config["transformer_layer_config"]["num_aux_hidden_states"] == 4
    assert "num_aux_hidden_states" not in made.config
    other = planned("0.33.0", manifest_of([3, 11, 22]), facts_of(SPECULATORS | {IDS: [3, 11, 21]}, 3))
    assert other.config[IDS] == [3, 11, 22]


def test_what_a_speculators_config_leaves_out_is_not_guessed():
    config = {key: value for key, value in SPECULATORS.items() if key != "norm_before_residual"} | {IDS: [3, 11, 21]}
    assert codes(planned("0.33.0", manifest_of([3, 11, 21]), facts_of(config, 3))) == {"NORM_BEFORE_RESIDUAL"}
    told = manifest_of([3, 11, 21], norm_before_residual=False)
    assert planned("0.33.0", told, facts_of(config, 3)).config["norm_before_residual"] is False


@pytest.mark.parametrize(
    ("release", "config", "draft", "expected"),
    [
        ("0.18.0", FLAT, {"norm_output": True}, {"NORM_OUTPUT"}),
        ("0.33.0", FLAT, {"norm_output": True}, set()),
        ("0.22.0", SPECULATORS, {"norm_output": True}, {"NORM_OUTPUT"}),
        ("0.33.0", FLAT, {"norm_before_residual": True}, set()),
    ],
)
def test_norms_are_set_where_the_class_has_them_and_refused_by_name_where_not(release, config, draft, expected):
    made = planned(release, manifest_of([2, 16, 29], **draft), facts_of(config, 3))
    if not expected:
        (name,) = draft
        assert made.config[name] is True
    elif config is SPECULATORS:  # the class has it, and the translation loses it unless the decoder's part says it
        assert made.config["transformer_layer_config"]["norm_output"] is True
    else:
        assert codes(made) == expected


def test_a_norm_before_fc_that_an_old_class_lacks_is_refused():
    tensors = {"input_norm.weight": (3 * WIDTH,)}
    manifest, config = manifest_of([2, 16, 29], norm="concatenation"), FLAT | {"norm_before_fc": True}
    assert codes(planned("0.11.0", manifest, facts_of(config, 3, **tensors))) == {"NORM_BEFORE_FC"}
    assert planned("0.33.0", manifest, facts_of(config, 3, **tensors)).resolved


def test_methods_and_classes_that_a_release_lacks_are_named():
    dflash = manifest_of([2, 16, 29], method="DFLASH")
    assert "ALGORITHM_UNKNOWN" in codes(planned("0.18.0", dflash, facts_of(FLAT, 3)))
    unknown = planned("0.33.0", manifest_of([2, 16, 29], method="MEDUSA"), facts_of(FLAT, 3))
    assert "METHOD_UNCHECKED" in codes(unknown)
    strange = facts_of(FLAT | {"architectures": ["StrangeForCausalLM"]}, 3)
    assert "DRAFT_CLASS" in codes(planned("0.33.0", manifest_of([2, 16, 29]), strange))
    assert "DRAFT_OPAQUE" not in codes(planned("0.33.0", manifest_of([2, 16, 29]), facts_of(FLAT, 3)))


def test_parallel_drafting_is_said_where_a_release_has_it():
    manifest = manifest_of([2, 16, 29], method="P-EAGLE")
    config = SPECULATORS | {"speculators_model_type": "peagle", "mask_token_id": 7}
    made = planned("0.33.0", manifest, facts_of(config, 3))
    assert json.loads(made.flags[1])["parallel_drafting"] is True
    assert "METHOD_MISMATCH" in codes(planned("0.11.0", manifest, facts_of(config, 3)))
    del config["mask_token_id"]
    assert "DRAFT_FORMAT" in codes(planned("0.33.0", manifest, facts_of(config, 3)))


def test_a_class_is_looked_up_under_the_name_that_the_release_makes_of_it():
    facts = facts_of(FLAT | {"architectures": ["PEagleDraftModel"]}, 3)  # registered, and looked up as Eagle3PEagle...
    made = planned("0.33.0", manifest_of([2, 16, 29], method="P-EAGLE"), facts)
    assert "DRAFT_CLASS" in codes(made)


def test_the_number_is_the_callers_else_the_recommended_and_a_tree_is_refused():
    manifest, facts = manifest_of([2, 16, 29]), facts_of(FLAT, 3)

    def number(**wishes):
        return json.loads(planned("0.33.0", manifest, facts, wishes=Wishes(**wishes)).flags[1])[
            "num_speculative_tokens"
        ]

    assert (number(), number(steps=5), number(draft_tokens=5)) == (3, 5, 4)
    for wishes in (Wishes(topk=4), Wishes(steps=3, draft_tokens=7)):
        assert codes(planned("0.33.0", manifest, facts, wishes=wishes)) == {"SPECULATION_TREE"}
    silent = manifest_of([2, 16, 29])
    silent = type(silent)(**{f: getattr(silent, f) for f in silent.__struct_fields__ if f != "recommended"})
    made = planned("0.33.0", silent, facts)
    assert (codes(made), made.missing) == ({"SPECULATION_FAILS"}, ("num_speculative_tokens",))


def test_options_of_the_launch_that_are_the_answer_itself_are_refused():
    for word in ("--speculative-config={}", "-sc", "--speculative-config.method"):
        with pytest.raises(LaunchError):
            planned("0.33.0", manifest_of([2, 16, 29]), facts_of(FLAT, 3), wishes=Wishes(extra=(word,)))
    made = planned("0.33.0", manifest_of([2, 16, 29]), facts_of(FLAT, 3), wishes=Wishes(extra=("--port", "1")))
    assert any("not looked at" in notice for notice in made.notices)


_IDS = st.lists(st.integers(0, 40), max_size=5)
_CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        IDS: _IDS,
        "eagle_config": st.fixed_dictionaries({}, optional={IDS: _IDS, "use_aux_hidden_state": st.booleans()}),
        "num_aux_hidden_states": st.integers(1, 6),
    },
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(releases()),
    st.sampled_from(["LlamaForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM", "DeepseekV32ForCausalLM"]),
    st.lists(st.integers(0, 36), min_size=1, max_size=5, unique=True),
    _CONFIGS,
)
def test_what_resolves_is_read_rightly_by_every_runner_and_by_sglang(release, architecture, boundaries, config):
    made = planned(
        release,
        manifest_of(boundaries, architecture=architecture, layers=36),
        facts_of(FLAT | config, len(boundaries), layers=36),
    )
    if not made.resolved:
        assert made.flags == ()
        return
    profile = load_profile(release)
    seen = FLAT | config if made.config is None else made.config
    order = made.weights.order or tuple(range(len(boundaries)))
    wanted = tuple(boundaries[place] for place in order)
    rule = profile.rules[profile.targets[architecture]]
    for runner in profile.runners.values():
        ids, _ = reading.read_ids(runner, seen)
        assert tuple(tap.boundary for tap in capture_once(rule, 36, ids).taps) == wanted
    known = profile.drafters["LlamaForCausalLMEagle3"]
    assert reading.taps_of(known, seen)[0] == len(boundaries)
    if made.config is not None and "eagle_config" not in config and IDS in seen.get("eagle_config", {}):
        sglang = load_sglang("sglang", sglang_releases("sglang")[-1])
        ids, _, _ = read_ids(sglang.readings["EAGLE3"], seen, n=36)
        hook = sglang.capture_method(architecture, "EAGLE3")
        assert tuple(tap.boundary for tap in capture_once(hook, 36, ids).taps) == wanted
