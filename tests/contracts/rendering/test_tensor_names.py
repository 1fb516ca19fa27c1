"""Renaming: only what the profile proves, a layer as a whole, and never onto a name that is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.engines.profile import Drafter
from drafter_contracts.engines.store import load_profile
from drafter_contracts.rendering.tensor_names import canonical, loads, renames, told

PROFILES = [load_profile("sglang", release) for release in ("0.4.5", "0.5.9", "0.5.12", "0.5.23")]
CLASSES = [known for profile in PROFILES for known in profile.drafters.values() if known.kind == "EAGLE3"]
PARTS = (
    "fc.weight", "norm.weight", "embed_tokens.weight", "lm_head.weight", "d2t", "t2d", "input_norm.weight",
    "aux_norm_low.weight", "fc_norm.1.weight", "layers.0.mlp.up_proj.weight", "midlayer.self_attn.k_proj.weight",
    "layers.1.input_layernorm.weight", "fc.weight_scale", "mask_hidden", "strange.weight",
)  # fmt: skip
NAMES = st.builds(lambda top, part: top + part, st.sampled_from(("", "model.", "draft_model.")), st.sampled_from(PARTS))


def facts(*names):
    return [TensorFact(name, "BF16", (1,)) for name in names]


def known(release, name="LlamaForCausalLMEagle3"):
    return load_profile("sglang", release).drafters[name]


@given(st.lists(NAMES, unique=True), st.sampled_from(CLASSES))
def test_names_stay_distinct_and_every_new_one_is_loaded_where_the_old_was_not(names, drafter):
    found = renames(drafter, facts(*names))
    after = [found.get(name, name) for name in names]
    assert len(set(after)) == len(after)
    for old, new in found.items():
        assert loads(drafter, new)
        assert not loads(drafter, old)
        assert canonical(old) == canonical(new), "another name of the same tensor"
    assert renames(drafter, facts(*after)) == {}, "once is enough"


def test_a_layer_is_renamed_as_a_whole_with_tensors_that_no_profile_names():
    names = ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight", "layers.0.anything.scale")
    found = renames(known("0.5.9"), facts(*names))
    assert found == {name: name.replace("layers.0", "midlayer") for name in names}
    assert renames(known("0.5.23"), facts(*names)) == {}


def test_a_prefix_goes_where_only_the_bare_name_is_loaded():
    mla = known("0.5.23", "Eagle3DeepseekV2ForCausalLM")
    names = ("model.fc.weight", "model.fc.weight_scale", "model.lm_head.weight", "t2d", "d2t")
    assert renames(mla, facts(*names)) == {
        "model.fc.weight": "fc.weight", "model.fc.weight_scale": "fc.weight_scale",
        "model.lm_head.weight": "lm_head.weight",
    }  # fmt: skip


def test_norms_of_chunks_under_their_old_names():
    mla = known("0.5.23", "Eagle3DeepseekV2ForCausalLM")
    names = ("aux_norm_low.weight", "aux_norm_mid.weight", "aux_norm_high.weight")
    assert list(renames(mla, facts(*names)).values()) == ["fc_norm.2.weight", "fc_norm.0.weight", "fc_norm.1.weight"]
    assert renames(known("0.5.23"), facts(*names)) == {}, "that class knows both"


def test_a_name_that_is_taken_is_not_given_twice():
    names = ("layers.0.mlp.up_proj.weight", "midlayer.mlp.up_proj.weight")
    assert renames(known("0.5.9"), facts(*names)) == {}
    both = ("model.layers.0.mlp.up_proj.weight", "layers.0.mlp.up_proj.weight")
    assert len(set(renames(known("0.5.9"), facts(*both)).values())) == 2


def test_nothing_is_renamed_of_a_class_that_nobody_asked_about():
    assert renames(Drafter("EAGLE3"), facts("layers.0.mlp.up_proj.weight", "model.fc.weight")) == {}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            {"layers.0.a.weight": "midlayer.a.weight", "layers.0.b": "midlayer.b"},
            "2 tensors layers.0.* are renamed midlayer.*",
        ),
        ({"model.fc.weight": "fc.weight"}, "model.fc.weight is renamed fc.weight"),
    ],
)
def test_renames_are_told_in_groups(found, sentence):
    assert [line.partition(": ")[0] for line in told(found, "sglang 0.5.9")] == [sentence]
