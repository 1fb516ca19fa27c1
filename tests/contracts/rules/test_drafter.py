"""Class, parts and vocabulary of the drafter."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.checkpoint.facts import Disagreement, DraftVocabulary, TensorFact
from drafter_contracts.engines.profile import Drafter
from drafter_contracts.manifest import DraftRecord, Manifest
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN


def manifest(**draft):
    return Manifest(schema="drafters.manifest.v1", draft=DraftRecord(**draft))


def test_a_config_that_names_the_base_model_is_refused_with_the_class_to_name(scene):
    scene.edit("facts", architectures=("LlamaForCausalLM",))
    found = scene.finding("DRAFT_CLASS")
    assert found.severity == REFUSE
    assert "names LlamaForCausalLM, a target class" in found.message
    assert found.expected == "one of LlamaForCausalLMEagle3"


def test_a_class_unknown_to_this_release_names_the_releases_that_know_it(scene):
    scene.others = (scene.profile("8.8.8"),)
    scene.drafters = {"OtherEagle3": Drafter("EAGLE3")}
    found = scene.finding("DRAFT_CLASS")
    assert found.severity == REFUSE
    assert "Known to sglang 8.8.8" in found.remedy


def test_a_standalone_model_needs_any_registered_class(scene):
    scene.edit("speculation", algorithm="STANDALONE", stated_algorithm="STANDALONE")
    scene.edit("facts", method="STANDALONE", architectures=("LlamaForCausalLM",), fc=None)
    assert scene.verdict().decision == "allow", scene.verdict().findings
    scene.edit("facts", architectures=("NovelForCausalLM",))
    assert scene.codes()["DRAFT_CLASS"] == REFUSE


def test_speculators_format_is_refused_where_dimensions_are_nested(scene):
    scene.config["speculators_config"] = {}
    assert scene.codes()["DRAFT_FORMAT"] == WARN
    scene.config["transformer_layer_config"] = {"hidden_size": scene.config.pop("hidden_size")}
    assert scene.codes()["DRAFT_FORMAT"] == REFUSE
    scene.edit("draft_class", keys=("transformer_layer_config.hidden_size",))
    assert "DRAFT_FORMAT" not in scene.codes()


@pytest.mark.parametrize(
    ("algorithm", "method", "severity"),
    [
        ("EAGLE", "EAGLE3", REFUSE),
        ("NEXTN", "EAGLE3", REFUSE),
        ("EAGLE3", "EAGLE", REFUSE),
        ("EAGLE3", "DFLASH", REFUSE),
        ("DFLASH", "EAGLE3", REFUSE),
        ("EAGLE3", "MEDUSA", REFUSE),
        ("EAGLE", "NEXTN", None),
        ("DFLASH", "DFLASH2", None),
        ("EAGLE3", "EAGLE3", None),
    ],
)
def test_the_algorithm_must_serve_the_kind_of_drafter(scene, algorithm, method, severity):
    scene.edit("speculation", algorithm=algorithm, stated_algorithm=algorithm)
    scene.edit("facts", method=method)
    assert scene.codes().get("METHOD_MISMATCH") == severity


def test_an_eagle3_head_launched_as_eagle_says_what_happens_and_what_to_write(scene):
    scene.edit("speculation", algorithm="EAGLE", stated_algorithm="NEXTN")
    found = scene.finding("METHOD_MISMATCH")
    assert "skips fc without a message" in found.message
    assert found.actual == "--speculative-algorithm NEXTN"
    assert found.remedy == "Launch with --speculative-algorithm EAGLE3."


def test_a_drafter_of_unknown_kind_is_unknown(scene):
    scene.edit("facts", method="UNKNOWN", architectures=("Novel",))
    assert scene.codes()["METHOD_MISMATCH"] == UNKNOWN


def test_a_release_that_takes_one_layer_refuses_two(scene):
    scene.edit("draft_class", max_layers=1)
    assert scene.verdict().decision == "allow"
    scene.config["num_hidden_layers"] = 2
    scene.edit("facts", config_layers=2, real_layers=2)
    assert scene.codes() == {"DRAFT_LAYERS": REFUSE}
    scene.edit("draft_class", max_layers=0)
    assert scene.verdict().decision == "allow"


def test_a_config_that_lies_about_the_layers_says_so(scene):
    scene.config["num_hidden_layers"] = 40
    found = scene.finding("DRAFT_LAYERS")
    assert "whose weights fill 1" in found.message
    assert found.remedy == "Correct num_hidden_layers to 1."
    scene.edit("draft_class", max_layers=1)
    assert "its weights hold 1" in scene.finding("DRAFT_LAYERS").message


def test_tensors_that_the_class_drops_are_refused_but_masks_are_not(scene):
    scene.edit("draft_class", ignores=("t2d", "midlayer"))
    found = scene.finding("DRAFT_WEIGHTS")
    assert found.severity == REFUSE
    assert "midlayer.mlp.up_proj.weight" in found.message
    assert "t2d" not in found.message


@pytest.mark.parametrize(("trained", "does"), [(True, False), (False, True)])
def test_the_recycled_state_must_be_the_trained_one(scene, trained, does):
    scene.edit("facts", norm_output=trained)
    scene.config["norm_output"] = does
    assert scene.codes() == {"NORM_OUTPUT": REFUSE}
    scene.config["norm_output"] = trained
    assert scene.verdict().decision == "allow"


def test_a_manifest_knows_the_recycled_state_better_than_the_config(scene):
    scene.edit("facts", norm_output=True)
    scene.config["norm_output"] = True
    scene.manifest = manifest(norm_output=False)
    assert "by drafters-manifest.json" in scene.finding("NORM_OUTPUT").expected


def test_a_residual_after_the_norm_is_refused_where_the_release_has_no_such_option(scene):
    scene.edit("facts", norm_before_residual=True)
    assert scene.codes() == {"NORM_BEFORE_RESIDUAL": REFUSE}
    scene.edit("facts", norm_before_residual=None)
    assert scene.verdict().decision == "allow"
    scene.manifest = manifest(norm_before_residual=True)
    assert scene.codes() == {"NORM_BEFORE_RESIDUAL": REFUSE}
    scene.edit("draft_class", keys=("norm_before_residual",))
    assert scene.verdict().decision == "allow"


def test_files_that_cannot_be_read_are_unknown(scene):
    scene.facts = None
    verdict = scene.verdict()
    assert verdict.decision == "unknown"
    assert scene.codes() == {"DRAFTER_UNREADABLE": UNKNOWN}
    assert "CAPTURE_LAYERS" not in verdict.checked


@pytest.mark.parametrize(("fatal", "severity"), [(False, WARN), (True, REFUSE)])
def test_contradictions_are_shown_with_both_sides(scene, fatal, severity):
    one = Disagreement("draft vocabulary", "config.json 32000", "lm_head 6054", fatal)
    scene.edit("facts", disagreements=(one,))
    found = scene.finding("DRAFTER_CONTRADICTION")
    assert (found.severity, found.actual, found.expected) == (severity, "config.json 32000", "lm_head 6054")


def test_a_drafter_inside_the_target_is_noted_and_not_looked_up(scene):
    scene.edit("speculation", algorithm="EAGLE", draft_path="/models/target", stated_draft_path="")
    scene.facts = None
    assert scene.codes() == {"DRAFT_BUNDLED": NOTE}


def test_a_missing_head_is_borrowed_or_random(scene):
    scene.edit("facts", has_lm_head=False, tensors=(), vocabulary=DraftVocabulary(128256, 128256))
    scene.config["draft_vocab_size"] = 128256
    found = scene.finding("DRAFT_HEAD")
    assert found.severity == REFUSE
    assert "random" in found.message
    assert "set draft_vocab_size to null" in found.remedy
    scene.config["draft_vocab_size"] = None
    assert scene.verdict().decision == "allow"


def test_tied_embeddings_replace_the_head_of_a_reduced_vocabulary(scene):
    scene.config["tie_word_embeddings"] = True
    assert scene.codes() == {"DRAFT_HEAD": REFUSE}


def test_a_head_replaced_by_the_targets_is_refused_if_it_was_trained(scene):
    scene.config["draft_vocab_size"] = None
    scene.edit("facts", vocabulary=DraftVocabulary(128256, 128256), tensors=())
    assert scene.codes() == {"DRAFT_HEAD": NOTE}
    scene.manifest = manifest(lm_head="own")
    assert scene.codes() == {"DRAFT_HEAD": REFUSE}


@pytest.mark.parametrize(("trained", "severity"), [("", NOTE), ("target", WARN), ("own", REFUSE)])
def test_replaced_embeddings_weigh_by_whose_were_trained_with(scene, trained, severity):
    scene.edit("facts", has_embedding=True)
    scene.manifest = manifest(embeddings=trained)
    assert scene.codes() == {"DRAFT_EMBEDDINGS": severity}


def test_embeddings_that_the_release_keeps_must_be_there(scene):
    scene.edit("draft_class", embed="own")
    assert scene.codes() == {"DRAFT_EMBEDDINGS": REFUSE}
    scene.edit("facts", has_embedding=True)
    assert scene.verdict().decision == "allow"


@pytest.mark.parametrize(
    ("d2t", "rows", "size", "words"),
    [
        (16000, 32000, 32000, "d2t has 16000 entries"),
        (None, 32000, 32000, "no map d2t"),
        (32000, 32000, 16000, "draft_vocab_size is 16000"),
    ],
)
def test_a_draft_vocabulary_that_does_not_fit_is_refused(scene, d2t, rows, size, words):
    scene.config["draft_vocab_size"] = size
    head = TensorFact("lm_head.weight", "BF16", (rows, 4096))
    scene.edit("facts", tensors=(head,), vocabulary=replace(scene.facts.vocabulary, d2t=d2t))
    found = scene.finding("DRAFT_VOCABULARY")
    assert found.severity == REFUSE
    assert words in found.message


def test_a_release_without_a_map_refuses_a_reduced_vocabulary(scene):
    scene.edit("draft_class", vocab_map="")
    assert "loads no map" in scene.finding("DRAFT_VOCABULARY").message


def test_an_algorithm_without_rules_is_unknown_and_one_without_a_drafter_is_fine(scene):
    scene.facts = None
    scene.edit("speculation", algorithm="UNO", stated_algorithm="UNO", draft_path="", stated_draft_path="")
    assert scene.codes() == {"METHOD_UNCHECKED": UNKNOWN}
    scene.edit("speculation", algorithm="NGRAM", stated_algorithm="NGRAM")
    assert scene.verdict().decision == "allow"


def test_a_tensor_at_which_the_loader_raises_is_refused(scene):
    scene.edit("draft_class", refuses=("midlayer",))
    found = scene.finding("DRAFT_WEIGHTS")
    assert found.actual == "an exception"
    assert "midlayer.mlp.up_proj.weight" in found.message


def test_a_config_without_the_draft_vocabulary_fails_where_the_class_reads_it_bare(scene):
    scene.config.pop("draft_vocab_size")
    scene.edit("facts", vocabulary=DraftVocabulary(128256, 128256), tensors=())
    assert scene.codes() == {"DRAFT_HEAD": NOTE}
    scene.edit("draft_class", lm_head={**scene.draft_class.lm_head, "draft_vocab_missing": "error"})
    found = scene.finding("DRAFT_HEAD")
    assert found.severity == REFUSE
    assert "has no draft_vocab_size" in found.message


def test_a_map_of_another_encoding_or_a_map_that_must_be_there_is_refused(scene):
    scene.edit("draft_class", vocab_encoding="absolute")
    assert "its map holds offset ids" in scene.finding("DRAFT_VOCABULARY").message
    scene.edit("draft_class", vocab_encoding="offset", lm_head={"own": "own", "unmapped": "error"})
    assert scene.verdict().decision == "allow"
    scene.edit("facts", vocabulary=DraftVocabulary(128256, 128256))
    scene.config["draft_vocab_size"] = 32000
    assert "without a map" in scene.finding("DRAFT_VOCABULARY").message


def test_a_class_that_takes_another_number_for_the_depth_refuses_ids_beyond_it(scene):
    scene.edit("draft_class", ids_below=("num_target_layers", "num_hidden_layers"))
    found = scene.finding("DRAFT_IDS_RANGE")
    assert found.severity == REFUSE
    assert "num_hidden_layers = 1" in found.message
    assert "Set num_target_layers to the target's depth, 32," in found.remedy
    scene.config["num_target_layers"] = 32
    assert scene.verdict().decision == "allow"


def test_a_class_of_another_kind_than_the_tensors_is_refused(scene):
    scene.drafters = {"LlamaForCausalLMEagle": Drafter("EAGLE"), "LlamaForCausalLMEagle3": scene.draft_class}
    scene.edit("facts", architectures=("LlamaForCausalLMEagle",))
    found = scene.finding("DRAFT_CLASS")
    assert found.severity == REFUSE
    assert "runs as EAGLE" in found.message
    assert found.expected == "one of LlamaForCausalLMEagle3"


def test_a_head_named_like_its_target_is_the_class_that_the_release_loads_for_it(scene):
    scene.edit("speculation", algorithm="EAGLE", stated_algorithm="NEXTN")
    scene.edit("facts", method="NEXTN", architectures=("LlamaForCausalLM",), fc=None, tensors=())
    scene.drafters = {"LlamaForCausalLMNextN": Drafter("NEXTN", source=scene.draft_class.source)}
    scene.rewrites = {"LlamaForCausalLM": "LlamaForCausalLMNextN"}
    assert scene.situation().draft_class.kind == "NEXTN"
    assert scene.verdict().decision == "allow"


def test_later_layers_are_judged_only_where_the_class_was_seen_to_load_some(scene):
    tensors = (
        TensorFact("layers.0.mlp.up_proj.weight", "BF16", (8, 4096)),
        TensorFact("layers.1.mlp.up_proj.weight", "BF16", (8, 4096)),
    )
    scene.config |= {"draft_vocab_size": 128256, "num_hidden_layers": 2}
    scene.edit("facts", tensors=tensors, real_layers=2, vocabulary=DraftVocabulary(128256, 128256))
    scene.edit("draft_class", ignores=("layers.1",), loads=("layers.0",))
    assert scene.verdict().decision == "allow"
    scene.edit("draft_class", ignores=("layers.1.mlp.up_proj.weight",), loads=("layers.0", "layers.1.norm.weight"))
    assert scene.codes() == {"DRAFT_WEIGHTS": REFUSE}


def test_a_drafter_without_weights_is_not_allowed_unseen(scene):
    verdict = scene.edit("facts", weights="none", tensors=(), fc=None, real_layers=None).verdict()
    assert verdict.decision == "unknown"
    found = scene.finding("DRAFTER_UNREADABLE")
    assert found.severity == UNKNOWN
    assert "only config.json" in found.message
