"""Each cause of the field catalogue that is visible from outside is named; docs/doctor.md has the table."""

from __future__ import annotations

import importlib.util
import json
import os
import re

import pytest

from drafter_cli.doctor.seen import Seen
from drafter_contracts.acceptance.records import COLLAPSED, DEGRADED, NOT_PROMISED, TOO_LITTLE


def _load(name, *path):
    place = os.path.join(os.path.dirname(__file__), *path)
    spec = importlib.util.spec_from_file_location(name, place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scenes = _load("doctor_scene", "doctor_scene.py")
field = _load("doctor_field_cases", "..", "cases", "test_field_cases.py")
IDS = "eagle_aux_hidden_state_layer_ids"


def ids(*numbers):
    def spoil(scene):
        scene.config["eagle_config"][IDS] = list(numbers)

    return spoil


def config(**values):
    return lambda scene: scene.config.update(values)


def flags(*words):
    return lambda scene: scene.flags.extend(words)


def info(**values):
    return lambda scene: scene.info.update(values)


def record(part, **values):
    def spoil(scene):
        scene.manifest[part] = scene.manifest.get(part, {}) | values

    return spoil


def without(name):
    return lambda scene: scene.tensors.pop(name)


def tensors(**shapes):
    return lambda scene: scene.tensors.update({name.replace("__", "."): shape for name, shape in shapes.items()})


def algorithm(name):
    def spoil(scene):
        scene.flags[1] = name

    return spoil


def topk(scene):
    scene.release = "0.5.9"
    scene.flags = ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3", "--speculative-eagle-topk", "4"]
    scene.flags += ["--speculative-num-draft-tokens", "16", "--attention-backend", "triton", "--page-size", "64"]


def unstated(scene):
    del scene.manifest["layout"]
    del scene.config["eagle_config"]


def promised(**values):
    def spoil(scene):
        scene.manifest["acceptance"][0] |= values

    return spoil


def reduced(scene):
    scene.config["draft_vocab_size"] = 128
    scene.tensors["lm_head.weight"] = (128, scenes.WIDTH)


def other_tokenizer(scene):
    scene.manifest["target"]["tokenizer_sha256"] = "0" * 64
    os.makedirs(scene.target_path, exist_ok=True)
    with open(os.path.join(scene.target_path, "tokenizer.json"), "w", encoding="utf-8") as file:
        file.write("{}")


COMMIT, OTHER = "a" * 40, "b" * 40
#: Catalogue entry, what is wrong, and the code under which it is named.
CASES = [
    ("R01", ids(2, 16, 29), "CAPTURE_LAYERS"),
    ("R01", unstated, "CAPTURE_DEFAULT"),
    ("R02", ids(1, 15, 31), "CAPTURE_DROPPED"),
    ("R03", tensors(fc__weight=(64, 128)), "FC_WIDTH"),
    ("R04", lambda scene: scene.manifest.pop("layout"), "NUMBERING_UNDECLARED"),
    ("R05", ids(1, 15, 15), "CAPTURE_DROPPED"),
    ("R06", record("target", layers=40), "TARGET_DEPTH"),
    ("R06", record("target", architecture="Qwen3ForCausalLM"), "TARGET_ARCHITECTURE"),
    ("R07", without("lm_head.weight"), "DRAFT_HEAD"),
    ("R08", reduced, "DRAFT_VOCABULARY"),
    ("R09", record("draft", embeddings="own"), "DRAFT_EMBEDDINGS"),
    ("R10", config(architectures=["LlamaForCausalLMEagle9"]), "DRAFT_CLASS"),
    ("R11", algorithm("EAGLE"), "METHOD_MISMATCH"),
    ("R12", info(speculative_algorithm=None), "SPECULATION_OFF"),
    ("R13", info(speculative_num_draft_tokens=16, speculative_eagle_topk=4), "SPECULATION_CHANGED"),
    ("R14", record("draft", block_size=2), "TRAINED_BLOCK"),
    ("R15", record("recommended", speculative_tokens=4), "COPIED_K"),
    ("R16", topk, "TOPK_BACKEND"),
    ("R17", flags("--attention-backend", "trtllm_mla"), "DRAFT_ATTENTION"),
    ("R18", flags("--quantization", "fp8"), "QUANTIZATION"),
    ("R20", record("draft", trained_context=2048), "CONTEXT"),
    ("R21", record("draft", rope_theta=5000.0), "ROPE"),
    ("R22", record("draft", norm_output=True), "NORM_OUTPUT"),
    ("R23", other_tokenizer, "TARGET_TOKENIZER"),
    ("R23", info(tokenizer_path="/elsewhere"), "TOKENIZER_REPLACED"),
    ("R24", record("draft", thinking_mode="off"), "THINKING_MODE"),
    ("R24", promised(target_dtype="float16"), "TARGET_DTYPE_DIFFERS"),
    ("R24", promised(target_quantization="fp8"), "TARGET_QUANTISATION_DIFFERS"),
    (
        "R24",
        lambda scene: (promised(target_revision=COMMIT)(scene), info(revision=OTHER)(scene)),
        "TARGET_REVISION_DIFFERS",
    ),
    (
        "R24",
        lambda scene: (record("target", revision=COMMIT)(scene), info(revision=OTHER)(scene)),
        "TARGET_REVISION_DIFFERS",
    ),
    ("R06", info(model_path="Org/other"), "TARGET_NAME_DIFFERS"),
    ("R24", info(chat_template="/templates/plain.jinja"), "TEMPLATE_REPLACED"),
    ("R25", flags("--pp-size", "2"), "PIPELINE_PARALLEL"),
    ("R26", tensors(midlayer__self_attn__q_proj__bias=(64,)), "ADVISORY"),
    ("R28", tensors(norm2__weight=(64,)), "DRAFT_TENSORS"),
    (
        "R30",
        flags("--speculative-num-steps", "1", "--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "64"),
        "SPECULATION_TREE",
    ),
]


@pytest.mark.parametrize(("entry", "spoil", "code"), CASES, ids=[f"{entry}-{code}" for entry, _, code in CASES])
def test_what_is_wrong_is_named(entry, spoil, code, tmp_path, monkeypatch):
    """A pair that is right but for one thing: that thing is among the causes, or among what cannot be looked at."""
    scene = scenes.Scene(tmp_path)
    spoil(scene)
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(COLLAPSED))
    named = {one.code: one for one in found.causes}
    assert code in named, (list(named), found.open)
    assert entry in named[code].catalogue
    assert named[code].evidence
    assert named[code].next
    assert found.word == "cause found"


def test_a_pair_that_is_right_has_nothing_wrong(tmp_path, monkeypatch):
    found = scenes.Scene(tmp_path).examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    assert (found.word, found.causes) == ("nothing wrong found", ())
    assert "captured layers, their order and number" in found.checked
    assert {one.what for one in found.open} >= {"bytes of the drafter's files", "the states fed, by their numbers"}
    assert all(one.settle for one in found.open)


def test_simulated_acceptance_is_named_first(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    ids(2, 16, 29)(scene)
    scene.states = [{"avg_spec_accept_length": 3.0, "env_vars": {"SGLANG_SIMULATE_ACC_LEN": "3"}}]
    found = scene.examine(Seen(()), monkeypatch=monkeypatch)
    assert found.causes[0].code == "CAPTURE_LAYERS"  # proved, and what is made up is not
    assert [one.confidence for one in found.causes[:2]] == ["proved", "seen"]
    assert found.causes[1].code == "ACCEPTANCE_SIMULATED"
    assert "SGLANG_SIMULATE_ACC_LEN=3" in found.causes[1].evidence[0]


def test_simulation_in_the_environment_of_the_processes_is_named_too(tmp_path, monkeypatch):
    found = scenes.Scene(tmp_path).examine(
        environment={"SGLANG_SIMULATE_ACC_LEN": "2.5"}, monkeypatch=monkeypatch, judged=scenes.judgement()
    )
    assert [(one.code, one.confidence) for one in found.causes] == [("SIMULATED_ACCEPTANCE", "seen")]


def test_the_shell_that_asks_is_not_the_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "2.5")
    found = scenes.Scene(tmp_path).examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    assert found.word == "nothing wrong found"


def test_layers_are_named_in_both_numberings(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    ids(2, 16, 29)(scene)
    late = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(DEGRADED)).causes[0]
    assert "boundary 2 (output of layer 1) becomes boundary 3 (output of layer 2)" in late.message
    assert "trained: boundaries 2, 16, 29 (outputs of layers 1, 15, 28)" in late.evidence[0]
    assert "[1, 15, 28]" in late.next


def test_what_is_only_possible_is_no_cause_where_acceptance_is_as_promised(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    info(chat_template="/templates/plain.jinja")(scene)
    fine = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    bad = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(DEGRADED))
    assert [one.code for one in fine.causes] == [one.code for one in bad.causes] == ["TEMPLATE_REPLACED"]
    assert (fine.word, bad.word) == ("nothing wrong found", "cause found")


def test_bad_acceptance_that_nothing_explains_is_a_finding(tmp_path, monkeypatch):
    found = scenes.Scene(tmp_path).examine(monkeypatch=monkeypatch, judged=scenes.judgement(COLLAPSED))
    assert [one.code for one in found.causes] == ["UNEXPLAINED"]
    assert "drafters fingerprint" in found.causes[0].next


def test_too_little_traffic_cannot_be_told(tmp_path, monkeypatch):
    judged = scenes.judgement(TOO_LITTLE, settle="about 90 more readings")
    found = scenes.Scene(tmp_path).examine(monkeypatch=monkeypatch, judged=judged)
    assert found.word == "cannot be told"
    assert [one.settle for one in found.open if one.decides] == [
        "about 90 more readings; look longer with --seconds N, or give the log of the last hours with --log FILE"
    ]


def test_an_engine_whose_launch_would_not_start_is_not_what_was_read(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    scene.flags = ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"]
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    assert [(one.code, one.confidence) for one in found.causes] == [("SPECULATION_FAILS", "possible")]
    assert "this one runs" in found.causes[0].evidence[0]
    assert found.word == "cannot be told"
    assert "--engine" in next(one.settle for one in found.open if one.decides)


def test_speculation_that_the_engine_switched_off(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    info(speculative_algorithm=None)(scene)
    found = scene.examine(monkeypatch=monkeypatch)
    assert found.causes[0].code == "SPECULATION_OFF"
    assert "launched with --speculative-algorithm EAGLE3" in found.causes[0].message
    assert found.word == "cause found"


def test_a_canary_that_returns_states_does_not_speculate(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    info(speculative_algorithm=None, aux_hidden_state_capture="eagle3")(scene)
    found = scene.examine(monkeypatch=monkeypatch)
    assert found.causes == ()
    assert found.word == "cannot be told"
    assert any("drafters verify" in one.settle for one in found.open if one.decides)


def test_the_arguments_that_the_engine_changed(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    scene.info = {"speculative_num_steps": 5, "speculative_num_draft_tokens": 6}
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    changed = next(one for one in found.causes if one.code == "SPECULATION_CHANGED")
    assert "steps: 3 asked for, 5 in force; draft tokens: 4 asked for, 6 in force" in changed.message


def test_a_release_that_is_not_known_cannot_be_checked(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    info(version="0.9.9")(scene)
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    assert found.word == "cannot be told"
    assert any("0.9.9" in one.why and one.settle for one in found.open if one.decides)


def test_without_the_targets_files_its_record_is_believed(tmp_path, monkeypatch):
    """Asked from another machine: neither model path nor draft path is here, the stored version is."""
    scene = scenes.Scene(tmp_path)
    ids(2, 16, 29)(scene)
    scene.manifest["target"] |= {"architecture": "LlamaForCausalLM", "model_type": "llama", "vocab_size": 256}
    scene.named = scene.drafter
    scene.info = {"model_path": "/elsewhere/target", "speculative_draft_model_path": "/elsewhere/head"}
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(DEGRADED))
    assert found.causes[0].code == "CAPTURE_LAYERS"
    assert {one.what for one in found.open if not one.decides} >= {"bytes of the drafter's files"}


@pytest.mark.parametrize("change", ["size", "bytes", "gone"])
def test_files_that_changed_on_disk_are_told_by_their_digests(change, tmp_path, monkeypatch):
    import hashlib

    scene = scenes.Scene(tmp_path)
    scene.write()
    path = os.path.join(scene.drafter, "model.safetensors")
    with open(path, "rb") as file:
        data = file.read()
    record_of = {"path": "model.safetensors", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    scene.manifest["files"] = [record_of]
    right = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(COLLAPSED))
    assert "all 1 files of the drafter by their digests" in right.checked
    if change == "gone":
        scene.manifest["files"] = [record_of, record_of | {"path": "other.safetensors"}]
    else:
        scene.manifest["files"] = [record_of | ({"size": 7} if change == "size" else {"sha256": "0" * 64})]
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(COLLAPSED))
    assert [(one.code, one.confidence) for one in found.causes] == [("DRAFTER_CHANGED", "seen")]
    expected = {"size": "recorded 7", "bytes": "sha256", "gone": "other.safetensors: not there"}[change]
    assert expected in found.causes[0].message


def test_every_file_of_a_wrong_pair_is_listed_once(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    ids(2, 16, 29)(scene)
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(COLLAPSED))
    assert len({(one.code, one.message) for one in found.causes}) == len(found.causes)
    assert len({(one.what, one.why) for one in found.open}) == len(found.open)


#: A field case's expected entries, under the doctor's eyes: the launch is what the engine says of itself.
@pytest.mark.parametrize("name", field.CASES)
def test_a_field_case_is_named_by_what_the_engine_says_of_itself(name, tmp_path, monkeypatch):
    from drafter_cli.doctor import running
    from drafter_cli.doctor.examine import Patient, examine
    from drafter_cli.gate_options import Request
    from drafter_contracts.acceptance.server_info import read_state
    from drafter_contracts.engines.store import load_profile
    from drafter_contracts.serving.invocation import read_invocation
    from drafter_contracts.serving.read import read_serving

    case = field.CASES[name]
    asked = field.request(case, tmp_path, raw=name in field.RAW)
    if asked.boundaries:
        path = tmp_path / "drafter" / field.FILE_NAME
        document = json.loads(path.read_text()) if path.exists() else {"schema": "drafters.manifest.v1"}
        path.write_text(json.dumps(document | {"layout": {"boundaries": list(asked.boundaries)}}))
    invocation = read_invocation(asked.launch)
    values = read_serving(invocation, load_profile("sglang", asked.engine)).arguments.values
    state = read_state(json.loads(json.dumps({**values, "version": asked.engine})), where="the engine")
    monkeypatch.setattr("drafter_cli.doctor.examine.judged", lambda *_: scenes.judgement(COLLAPSED))
    environment = dict(word.split("=") for word in field.ENVIRONMENTS.get(name, ()))
    here = running.of_state(state, Request(()), environment)
    found = examine(Patient("http://engine", here, state, Seen(), "http://engine", digests=str(tmp_path / "digests")))
    named = {entry for one in found.causes if one.code != "UNEXPLAINED" for entry in one.catalogue}
    assert set(case["expected"]["codes"]) <= named
    if case["expected"]["verdict"] == "allow":
        assert [one.code for one in found.causes] == ["UNEXPLAINED"]


PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "doctor.md")


def test_the_page_says_of_every_entry_whether_it_is_visible():
    """Every row of the table that claims to be visible has a case here that shows it."""
    with open(PAGE, encoding="utf-8") as file:
        rows = dict(re.findall(r"^\| (R\d\d) \| [^|]+ \| ([^|]+) \|", file.read(), re.MULTILINE))
    assert list(rows) == [f"R{number:02}" for number in range(1, 31)]
    shown = {entry for entry, _, _ in CASES} | {
        entry for case in field.CASES.values() for entry in case["expected"]["codes"]
    }
    shown |= {"R26", "R27"}  # an unknown release above; states below, in test_doctor_command
    claimed = {entry for entry, how in rows.items() if not how.startswith("not visible")}
    assert claimed == shown
    for entry, _, code in CASES:
        assert f"`{code}`" in rows[entry], (entry, code)


def test_a_loose_threshold_is_said(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    info(speculative_accept_threshold_single=0.9)(scene)
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement(DEGRADED))
    assert [(one.code, one.confidence) for one in found.causes] == [("ACCEPTANCE_THRESHOLD", "possible")]
    assert "speculative_accept_threshold_single 0.9" in found.causes[0].message


def test_a_drafter_inside_the_target_is_launched_without_a_path(tmp_path):
    """The engine fills its own target in as the draft path: nobody stated one."""
    from drafter_cli.doctor import running
    from drafter_cli.gate_options import Request

    scene = scenes.Scene(tmp_path)
    scene.info = {"speculative_draft_model_path": scene.target_path}
    assert "--speculative-draft-model-path" not in running.of_state(scene.state(), Request(())).invocation.arguments
    scene.info = {}
    assert "--speculative-draft-model-path" in running.of_state(scene.state(), Request(())).invocation.arguments


def test_overrides_in_force_are_part_of_what_runs(tmp_path, monkeypatch):
    """The config's ids are late, and the engine was launched with the right ones: nothing is wrong."""
    scene = scenes.Scene(tmp_path)
    ids(2, 16, 29)(scene)
    right = {"eagle_config": {IDS: [1, 15, 28], "use_aux_hidden_state": True}}
    info(json_model_override_args=json.dumps(right))(scene)
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    assert "CAPTURE_LAYERS" not in {one.code for one in found.causes}
    assert found.context["captures"] == found.context["trained on"]


def test_a_render_has_digests_of_its_own(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    scene.manifest["files"] = [{"path": "model.safetensors", "size": 7, "sha256": "0" * 64}]
    scene.manifest["render"] = {"of": "sha256:" + "0" * 64, "engine": "sglang 0.5.23"}
    found = scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement())
    assert "DRAFTER_CHANGED" not in {one.code for one in found.causes}
    assert "is a render" in next(one.why for one in found.open if one.what == "bytes of the drafter's files")


def codes(scene, monkeypatch):
    return [one.code for one in scene.examine(monkeypatch=monkeypatch, judged=scenes.judgement()).causes]


def test_numbers_that_the_engine_does_not_say_are_not_changed(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    scene.info = {"speculative_eagle_topk": None}
    assert "SPECULATION_CHANGED" not in codes(scene, monkeypatch)


def test_speculation_that_is_off_has_no_numbers(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    scene.info = {"speculative_algorithm": None, "speculative_num_steps": 5}
    assert codes(scene, monkeypatch) == ["SPECULATION_OFF"]


def test_a_directory_may_be_called_anything(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    record("target", model="Org/other")(scene)
    assert codes(scene, monkeypatch) == []


def test_a_name_is_the_same_in_any_case(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    record("target", architecture="LlamaForCausalLM", model_type="llama", vocab_size=256)(scene)
    info(model_path="mirror/Target")(scene)
    assert "TARGET_NAME_DIFFERS" not in codes(scene, monkeypatch)


def test_a_dtype_that_is_left_to_the_engine_is_the_targets_own(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    promised(target_dtype="bfloat16")(scene)
    assert codes(scene, monkeypatch) == []
    promised(target_dtype="float16")(scene)
    assert codes(scene, monkeypatch) == ["TARGET_DTYPE_DIFFERS"]


def test_the_nearest_promise_is_the_one_that_what_runs_is_compared_with(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    first = scene.manifest["acceptance"][0] | {"target_quantization": "fp8", "target_dtype": "float16"}
    scene.manifest["acceptance"] = [first, first | {"target_quantization": "", "target_dtype": "bf16"}]
    info(dtype="bfloat16")(scene)
    assert codes(scene, monkeypatch) == []


def test_a_commit_may_be_abbreviated(tmp_path, monkeypatch):
    scene = scenes.Scene(tmp_path)
    promised(target_revision=COMMIT[:8])(scene)
    info(revision=COMMIT)(scene)
    assert codes(scene, monkeypatch) == []
    info(revision=OTHER)(scene)
    assert codes(scene, monkeypatch) == ["TARGET_REVISION_DIFFERS"]


def test_a_target_that_is_elsewhere_may_be_quantised(tmp_path, monkeypatch):
    """Whether its files are, its arguments do not say: `--quantization` is not needed where the config has it."""
    scene = scenes.Scene(tmp_path)
    promised(target_quantization="fp8")(scene)
    record("target", architecture="LlamaForCausalLM", model_type="llama", vocab_size=256)(scene)
    info(model_path="Org/target")(scene)
    assert "TARGET_QUANTISATION_DIFFERS" not in codes(scene, monkeypatch)


def test_a_promise_that_cannot_be_compared_is_open(tmp_path, monkeypatch):
    words = {"reason": "the nearest promise cannot be compared", "settle": "measure at these settings"}
    found = scenes.Scene(tmp_path).examine(monkeypatch=monkeypatch, judged=scenes.judgement(NOT_PROMISED, **words))
    told = {one.what: (one.why, one.settle) for one in found.open}
    assert told["acceptance against a promise"] == tuple(words.values())
    assert not any("nothing promised" in one for one in found.checked)
