"""Whole launches, read as real releases read them."""

import json
import shlex

import pytest

from drafter_contracts.engines.launch_rules import ServeRule, SpeculativeRules
from drafter_contracts.engines.store import load_profile
from drafter_contracts.serving.adjust import with_target
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.launch import TargetFacts
from drafter_contracts.serving.read import read_serving, serve_arguments
from drafter_contracts.serving.speculation import Request, resolve

LLAMA = TargetFacts("target", architecture="LlamaForCausalLM")
KIMI = TargetFacts("target", architecture="KimiK25ForConditionalGeneration")
EAGLE3 = "--speculative-algorithm EAGLE3 --speculative-draft-model-path draft"


def read(release, text, target=LLAMA, **about):
    profile = load_profile("sglang", release)
    argv = shlex.split(
        text if text.startswith("sglang ") else f"python -m sglang.launch_server --model-path target {text}"
    )
    return with_target(read_serving(read_invocation(argv), profile), profile, target=target, **about)


def problems(serving):
    return [(problem.kind, problem.flag) for problem in serving.arguments.problems]


def test_plain_launch_has_no_speculation():
    serving = read("0.5.9", "--tp 8 --trust-remote-code")
    assert problems(serving) == []
    assert serving.speculation.algorithm == ""
    assert (serving.target_path, serving.value("tp_size") or serving.value("tensor_parallel_size")) == ("target", 8)


@pytest.mark.parametrize("release", ["0.4.6.post5", "0.5.2", "0.5.9", "0.5.12.post1"])
def test_topk_one_makes_a_chain(release):
    serving = read(
        release, f"{EAGLE3} --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 16"
    )
    speculation = serving.speculation
    assert (speculation.stated, speculation.effective) == ((1, 1, 16), (1, 1, 2))
    (change,) = [a for a in speculation.adjustments if a.what == "num_draft_tokens"]
    assert (change.stated, change.effective) == ("16", "2")
    assert "server_args.py" in change.source


@pytest.mark.parametrize(
    ("release", "llama", "kimi"),
    [
        ("0.4.6.post5", (5, 4, 8), (5, 4, 8)),
        ("0.5.2", (5, 4, 8), (5, 4, 8)),
        ("0.5.9", (5, 4, 8), (3, 1, 4)),
        ("0.5.12.post1", (5, 4, 8), (3, 1, 4)),
    ],
)
def test_automatic_triples(release, llama, kimi):
    assert read(release, EAGLE3, LLAMA).speculation.effective == llama
    assert read(release, EAGLE3, KIMI).speculation.effective == kimi


def test_an_unknown_target_leaves_the_automatic_triple_unknown():
    speculation = read("0.5.9", EAGLE3, None).speculation
    assert speculation.effective == (None, None, None)
    assert "architecture" in speculation.unknown
    assert read("0.4.6.post5", EAGLE3, None).speculation.effective == (5, 4, 8)


@pytest.mark.parametrize(
    ("release", "triple", "failure"),
    [
        ("0.5.9", "--speculative-num-steps 3", "TypeError"),
        ("0.5.9", "--speculative-eagle-topk 4", "AssertionError"),
        ("0.5.9", "--speculative-num-draft-tokens 8", "AssertionError"),
        ("0.5.9", "--speculative-num-steps 3 --speculative-eagle-topk 1", ""),
        ("0.4.6.post5", "--speculative-num-steps 3", ""),
        ("0.4.6.post5", "--speculative-eagle-topk 4", "AssertionError"),
    ],
)
def test_partial_triples(release, triple, failure):
    speculation = read(release, f"{EAGLE3} {triple}").speculation
    assert speculation.failure == failure
    assert (speculation.effective == (None, None, None)) == bool(failure)


def test_a_release_that_fails_at_choosing_the_triple_itself():
    rules = SpeculativeRules(algorithms=("EAGLE3",), chain=("EAGLE3",), partial={"": "AttributeError"})
    refused = resolve(rules, Request("EAGLE3", architecture="LlamaForCausalLM"))
    assert (refused.failure, refused.triple) == ("AttributeError", (None, None, None))
    assert resolve(rules, Request("EAGLE3", (3, 4, 16))).failure == ""


def test_aliases_and_case():
    assert read("0.5.9", "--speculative-algorithm NEXTN").speculation.algorithm == "EAGLE"
    assert problems(read("0.5.9", "--speculative-algorithm eagle3")) == [("bad_choice", "--speculative-algorithm")]
    serving = read("0.5.12.post1", "--speculative-algorithm eagle3 --speculative-draft-model draft")
    assert (serving.speculation.algorithm, problems(serving)) == ("EAGLE3", [])


def test_an_open_release_cannot_judge_other_names():
    speculation = read("0.5.12.post1", "--speculative-algorithm my_plugin").speculation
    assert (speculation.known, speculation.algorithm) == (None, "MY_PLUGIN")
    assert "plugin" in speculation.unknown


def test_a_drafter_class_may_change_the_algorithm():
    text = "--speculative-algorithm NEXTN --speculative-draft-model-path draft"
    speculation = read("0.5.12.post1", text, draft_architecture="Gemma4AssistantForCausalLM").speculation
    assert speculation.algorithm == "FROZEN_KV_MTP"
    refused = read("0.5.12.post1", EAGLE3, draft_architecture="Gemma4AssistantForCausalLM").speculation
    assert refused.failure == "ValueError"


def test_a_bundled_drafter_is_the_target_itself():
    target = TargetFacts("target", architecture="DeepseekV3ForCausalLM")
    speculation = read("0.5.9", "--speculative-algorithm NEXTN --revision v1", target).speculation
    assert (speculation.draft_path, speculation.stated_draft_path, speculation.draft_revision) == ("target", "", "v1")
    assert read("0.5.9", "--speculative-algorithm EAGLE3", LLAMA).speculation.draft_path == ""


def test_a_drafter_revision_of_main_is_filled_in():
    assert read("0.5.9", EAGLE3).speculation.draft_revision == "main"
    assert read("0.5.2", EAGLE3).speculation.draft_revision == ""


@pytest.mark.parametrize(
    ("options", "config", "tokens"),
    [
        ("", {"block_size": 8}, 8),
        ("", {"dflash_config": {"block_size": 10}, "block_size": 8}, 10),
        ("", {}, 16),
        ("--speculative-dflash-block-size 4", {"block_size": 8}, 4),
        ("--speculative-num-draft-tokens 12", {"block_size": 8}, 12),
    ],
)
def test_block_sizes(options, config, tokens):
    text = f"--speculative-algorithm DFLASH --speculative-draft-model-path draft --speculative-num-steps 5 {options}"
    speculation = read("0.5.12.post1", text, draft_config=config).speculation
    assert speculation.effective == (1, 1, tokens)


def test_block_sizes_that_disagree_stop_the_launch():
    text = (
        "--speculative-algorithm DFLASH --speculative-draft-model-path draft "
        "--speculative-dflash-block-size 4 --speculative-num-draft-tokens 8"
    )
    assert read("0.5.12.post1", text, draft_config={}).speculation.failure == "ValueError"


def test_an_unreadable_drafter_leaves_the_block_size_unknown():
    text = "--speculative-algorithm DFLASH --speculative-draft-model-path draft"
    assert "drafter's config" in read("0.5.12.post1", text).speculation.unknown


@pytest.mark.parametrize(
    ("release", "options", "failure"),
    [
        ("0.5.9", "--attention-backend trtllm_mha", "ValueError"),
        ("0.5.9", "--attention-backend triton --page-size 64", "ValueError"),
        ("0.5.9", "--attention-backend fa3 --page-size 64", ""),
        ("0.5.9", "--attention-backend flashmla", "ValueError"),
        ("0.5.9", "--pp-size 2", "AssertionError"),
        ("0.5.9", "--tp 2", ""),
    ],
)
def test_refusals_of_the_release(release, options, failure):
    triple = "--speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 16"
    assert read(release, f"{EAGLE3} {triple} {options}").speculation.failure == failure


def test_pages_once_silently_lowered_topk():
    triple = "--speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 16 --page-size 64"
    assert read("0.4.6.post5", f"{EAGLE3} {triple}").speculation.effective == (3, 1, 4)


@pytest.mark.parametrize(
    ("release", "options", "on"),
    [
        ("0.5.9", "", True),
        ("0.5.9", "--disable-cuda-graph", False),
        ("0.5.9", "--attention-backend torch_native", False),
        ("0.5.9", "--disaggregation-mode prefill", False),
        ("0.5.9", "--disable-cuda-graph-padding", True),
        ("0.4.6.post5", "--disable-cuda-graph", False),
    ],
)
def test_cuda_graphs(release, options, on):
    serving = read(release, f"{EAGLE3} {options}")
    assert serving.cuda_graphs is on
    assert bool(serving.graphs_reason) is not on
    if options:
        assert on or options.split()[0] in serving.graphs_reason


def test_overrides():
    value = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]}}
    serving = read("0.5.9", f"--json-model-override-args {shlex.quote(json.dumps(value))}")
    assert serving.overrides == value
    assert problems(read("0.5.9", "--json-model-override-args '{'")) == [("bad_override", "--json-model-override-args")]
    assert problems(read("0.5.9", "--json-model-override-args '[1]'")) == [
        ("bad_override", "--json-model-override-args")
    ]


def test_a_config_file_and_the_form_that_is_ignored(tmp_path):
    file = tmp_path / "launch.yaml"
    file.write_text("speculative-algorithm: EAGLE3\nspeculative-draft-model-path: draft\n")
    serving = read("0.5.9", f"--config {file}")
    assert serving.speculation.stated_draft_path == "draft"
    assert serving.arguments.given["speculative_algorithm"] == str(file)
    ignored = read("0.5.9", f"--config={file}")
    assert ignored.speculation.stated_algorithm == ""
    assert "two words" in ignored.arguments.ignored["config"]
    assert problems(read("0.5.2", f"--config {file}")) == [("unknown_flag", "--config")]


def test_serve_differs_by_release():
    assert problems(read("0.5.9", "sglang serve --model-path m")) == []
    assert problems(read("0.5.9", "sglang serve m"))[0] == ("required", "--model-path")
    assert problems(read("0.5.9", "sglang serve --model m")) == [("required", "--model-path")]
    assert ("unknown_flag", "--model-type") in problems(read("0.5.9", "sglang serve --model-path m --model-type llm"))
    assert problems(read("0.5.12.post1", "sglang serve --model-path m --model-type llm")) == []
    assert problems(read("0.5.12.post1", "sglang serve --model-path m --model-type diffusion")) == [
        ("bad_choice", "--model-type")
    ]
    for later in ("0.5.12.post1", "0.5.15", "0.5.23"):
        assert problems(read(later, "sglang serve --model m")) == [], later
        assert problems(read(later, "sglang serve --model-pa m")) == [("required", "--model-path")], later
    assert problems(read("0.5.2", "sglang serve --model-path m"))[0] == ("unknown_flag", "serve")


def test_serve_arguments():
    rule = ServeRule(positional=True, model_type=True)
    assert serve_arguments(rule, ["m", "--tp", "8", "--model-type=llm"]) == (["--model-path", "m", "--tp", "8"], [])
    assert serve_arguments(rule, ["m", "--model-type", "diffusion", "--model-type=auto"])[1] == []
    assert [p.value for p in serve_arguments(rule, ["m", "--model-type=llm", "--model-type", "x"])[1]] == ["x"]
    assert serve_arguments(rule, ["--tp", "8", "m"])[0] == ["--tp", "8", "m"]
    assert serve_arguments(ServeRule(), ["m"])[0] == ["m"]


def test_every_shipped_release_reads_a_typical_launch():
    from drafter_contracts.engines.store import releases

    for release in releases("sglang"):
        serving = read(release, f"{EAGLE3} --tp 8 --mem-fraction-static 0.8 --trust-remote-code --host 0.0.0.0")
        assert problems(serving) == [], release
        assert serving.speculation.algorithm == "EAGLE3"
