"""What an EAGLE-3 class does with configs and weights: on small releases written here, shaped as SGLang's are."""

from __future__ import annotations

import pytest
from scan_toy_drafters import SPEC_INFO, release

from drafter_contracts.engines.scan.drafters import WELL_KNOWN, derive


def toy(**options):
    return derive(release(**options))[0].drafters["ToyForCausalLMEagle3"]


def test_width_and_number_of_taps_are_fitted_with_their_precedence():
    found, files = derive(release())
    drafter = found.drafters["ToyForCausalLMEagle3"]
    assert (drafter.kind, drafter.status, drafter.reason) == ("EAGLE3", "fitted", "")
    assert drafter.taps == ("num_aux_hidden_states", "len(eagle_config.eagle_aux_hidden_state_layer_ids)", "3")
    assert drafter.width == ("target_hidden_size", "hidden_size")
    assert drafter.bias == "bias"
    assert (drafter.source.file, drafter.source.function) == ("models/toy_eagle3.py", "Inner.__init__")
    assert {"models/toy_eagle3.py", "layers/all.py"} <= files | {"layers/all.py"}
    assert {"num_aux_hidden_states", "eagle_config.norm_before_fc", "norm_output"} <= set(drafter.keys)


def test_the_literal_number_of_taps_is_the_release_s_own():
    assert toy(default="5").taps[-1] == "5"


def test_norms_and_the_recycled_state_are_found_by_what_they_change():
    drafter = toy()
    assert drafter.norm_before_fc == ("eagle_config.norm_before_fc", "norm_before_fc")
    assert drafter.fc_norm == ("fc_norm",)
    assert drafter.norm_output == ("norm_output",)


@pytest.mark.parametrize(
    ("fc_norm", "keys", "either"),
    [
        (
            'getattr(config, "fc_norm", None) or getattr(config, "use_aux_norm", False)',
            ("fc_norm", "use_aux_norm"),
            True,
        ),
        ('getattr(config, "use_aux_norm", getattr(config, "fc_norm", False))', ("use_aux_norm", "fc_norm"), False),
    ],
)
def test_of_two_keys_either_will_do_or_the_first_that_is_present_decides(fc_norm, keys, either):
    drafter = toy(fc_norm=fc_norm)
    assert drafter.fc_norm == keys
    assert drafter.either == (("fc_norm",) if either else ())
    assert drafter.norm_before_fc == ("eagle_config.norm_before_fc", "norm_before_fc")


@pytest.mark.parametrize(
    ("condition", "skips"), [("hidden_states.shape[-1] != embeds.shape[-1]", True), ("True", False)]
)
def test_whether_fc_is_skipped_is_told_by_running_the_forward_pass(condition, skips):
    assert toy(condition=condition).skips_fc is skips


def test_a_class_whose_fc_never_runs_is_opaque():
    drafter = toy(condition="False")
    assert drafter.status == "opaque"
    assert "model.fc is not called" in drafter.reason


def test_one_layer_only_is_recorded():
    assert toy().max_layers == 1


def test_tensors_are_loaded_dropped_or_refused_as_the_loader_does():
    drafter = toy()
    assert {"fc.weight", "model.fc.weight", "d2t", "lm_head.weight", "norm.weight"} <= set(drafter.loads)
    assert {"input_norm.weight", "fc_norm.0.weight", "midlayer.self_attn.q_proj.weight"} <= set(drafter.loads)
    assert {"layers.0", "layers.1", "t2d", "aux_norm_low.weight"} <= set(drafter.ignores)
    assert set(drafter.refuses) == {"confidence_head.proj.bias", "confidence_head.proj.weight"}
    assert not set(drafter.loads) & set(drafter.ignores)


def test_every_well_known_name_has_exactly_one_fate():
    drafter = toy()
    names = [name for group in WELL_KNOWN for name in group]
    assert len(set(names)) == len(names)
    for name in names:
        fates = [
            what
            for what in ("loads", "ignores", "refuses")
            if any(name == word or name.startswith(word + ".") for word in getattr(drafter, what))
        ]
        assert len(fates) == 1, (name, fates)


def test_embeddings_and_head_are_whose_the_worker_makes_them():
    drafter = toy()
    assert drafter.embed == "target unless target_hidden_size differs"
    assert drafter.lm_head == {
        "own": "own",
        "tied": "embed",
        "draft_vocab_null": "target",
        "draft_vocab_missing": "error",
    }
    assert (drafter.vocab_map, drafter.vocab_encoding) == ("d2t", "offset")


def test_a_map_that_is_taken_as_it_is_is_absolute():
    assert toy(mapping="tensor").vocab_encoding == "absolute"


def test_a_worker_that_cannot_do_without_the_map_is_recorded():
    needed = "self.hot = self.draft_model_runner.model.hot_token_id.to(embed.device)"
    assert toy(map_needed=needed).lm_head["unmapped"] == "error"


def test_a_class_that_cannot_be_built_is_opaque_and_says_why():
    broken = "class BrokenEagle3:\n    def __init__(self, **_):\n        raise ValueError('not here')\n"
    found, _ = derive(release({"models/broken_eagle3.py": broken + "EntryClass = BrokenEagle3\n"}))
    assert found.drafters["BrokenEagle3"].status == "opaque"
    assert "not here" in found.drafters["BrokenEagle3"].reason
    assert found.drafters["ToyForCausalLMEagle3"].status == "fitted"


def test_a_class_of_another_name_for_the_same_code_is_recorded_under_both():
    alias = "from sglang.srt.models.toy_eagle3 import ToyForCausalLMEagle3\n"
    alias += "class OtherEagle3(ToyForCausalLMEagle3):\n    pass\nEntryClass = [OtherEagle3]\n"
    found, _ = derive(release({"models/other_eagle3.py": alias}))
    assert found.drafters["OtherEagle3"] == found.drafters["ToyForCausalLMEagle3"]


def test_a_release_without_one_of_the_algorithms_is_scanned_all_the_same():
    spec_info = SPEC_INFO.replace("return cls[name]", "raise ValueError(name)")
    found, _ = derive(release({"speculative/spec_info.py": spec_info}))
    assert found.drafters["ToyForCausalLMEagle3"].status == "fitted"


def test_a_target_s_own_checkpoint_becomes_another_class_in_draft_mode():
    found, _ = derive(release())
    assert found.rewrites == {"TargetA": "TargetANextN", "TargetB": "OtherNextN", "TargetC": "OtherNextN"}


def test_scanning_again_gives_the_same():
    assert derive(release()) == derive(release())
