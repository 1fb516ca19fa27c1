"""`--config FILE`, as a release merges it."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.engines.launch_rules import ConfigFile, Flag
from drafter_contracts.serving.config_file import arguments_of, merge
from drafter_contracts.serving.parse import parse_arguments

FLAGS = (
    Flag(("--model-path", "--model"), required=True),
    Flag(("--tp-size",), type="int", default=1),
    Flag(("--lora-paths",), nargs="*"),
    Flag(("--disable-cuda-graph",), action="store_true", default=False),
    Flag(("--old-name", "--older-name"), dest="new_name", action="store_true", default=False),
    Flag(("--json-model-override-args",), default="{}"),
    Flag(("--config",)),
)
RULE = ConfigFile(forms=("two-token",), rejects=("lora_paths",))


@pytest.fixture
def write(tmp_path):
    def write(config, name="launch.yaml"):
        file = tmp_path / name
        file.write_text(config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False))
        return str(file)

    return write


def test_the_command_line_wins_and_origins_are_kept(write):
    path = write({"model-path": "file-model", "tp-size": 4})
    merged = merge(RULE, FLAGS, ["--tp-size", "8", "--config", path, "--disable-cuda-graph"])
    assert merged.argv == ["--model-path", "file-model", "--tp-size", "4", "--tp-size", "8", "--disable-cuda-graph"]
    read = parse_arguments(FLAGS, merged.argv, merged.origins)
    assert (read.values["model_path"], read.values["tp_size"]) == ("file-model", 8)
    assert read.given == {"model_path": path, "tp_size": "command line", "disable_cuda_graph": "command line"}


def test_conversions():
    config = {"a": True, "disable-cuda-graph": True, "b": False, "c": [1, "x"], "d": [], "e": None, "f": 1.5}
    argv, refused = arguments_of(RULE, FLAGS, config)
    assert argv == ["--a", "true", "--disable-cuda-graph", "--b", "false", "--c", "1", "x", "--e", "None", "--f", "1.5"]
    assert refused == []


def test_a_false_switch_is_left_out():
    assert arguments_of(RULE, FLAGS, {"disable_cuda_graph": False}) == ([], [])


@pytest.mark.parametrize(("spellings", "argv"), [("dest", ["--older-name", "true"]), ("names", ["--older-name"])])
def test_which_keys_are_switches(spellings, argv):
    rule = ConfigFile(key_spellings=spellings)
    assert arguments_of(rule, FLAGS, {"older-name": True})[0] == argv


def test_a_release_that_writes_every_truth_value_as_a_switch():
    rule = ConfigFile(key_spellings="any")
    argv, refused = arguments_of(rule, FLAGS, {"tp-size": True, "disable_cuda_graph": True, "lora-paths": False})
    assert (argv, refused) == (["--tp-size", "--disable_cuda_graph"], [])


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.booleans(), st.text(max_size=5)), min_size=1))
def test_mappings_are_json_or_python_text(value):
    as_json, _ = arguments_of(ConfigFile(mapping="json"), FLAGS, {"json-model-override-args": value})
    assert json.loads(as_json[1]) == value
    as_text, _ = arguments_of(ConfigFile(mapping="repr"), FLAGS, {"json-model-override-args": value})
    assert as_text[1] == str(value)


def test_rejected_and_odd_keys_name_file_and_key(write):
    path = write("lora-paths: [a]\n1: x\n")
    found = merge(RULE, FLAGS, ["--config", path]).problems
    assert [(p.kind, p.flag, p.value) for p in found] == [
        ("config_file", "--lora-paths", path),
        ("config_file", "--1", path),
    ]


def test_unknown_keys_are_found_by_the_parser(write):
    merged = merge(RULE, FLAGS, ["--config", write({"model_path": "m"})])
    first = parse_arguments(FLAGS, merged.argv, merged.origins).problems[0]
    assert (first.kind, first.flag, first.nearest) == ("unknown_flag", "--model_path", "--model-path")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--config"], "a file after it"),
        (["--config", "a.yaml", "--config", "b.yaml"], "one file"),
        (["--config", "launch.json"], "a file named *.yaml or *.yml"),
        (["--config", "missing.yaml"], "a readable file"),
    ],
)
def test_what_stops_the_launch(argv, expected):
    (problem,) = merge(RULE, FLAGS, argv).problems
    assert problem.flag == "--config"
    assert problem.expected.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"), [("a: [", "valid YAML"), ("- a\n", "a mapping"), ("!!python/name:os.x", "valid YAML")]
)
def test_bad_files(write, text, expected):
    (problem,) = merge(RULE, FLAGS, ["--config", write(text)]).problems
    assert problem.expected.startswith(expected)


def test_a_file_above_the_limit_is_not_read(write):
    path = write("# " + "x" * limits.launch_config_max_bytes)
    (problem,) = merge(RULE, FLAGS, ["--config", path]).problems
    assert str(limits.launch_config_max_bytes) in problem.expected


def test_an_empty_file_adds_nothing(write):
    assert merge(RULE, FLAGS, ["--config", write(""), "--tp-size", "2"]).argv == ["--tp-size", "2"]


def test_a_relative_path_is_below_the_launch_directory(write, tmp_path):
    write({"tp-size": 2}, "x.yml")
    assert merge(RULE, FLAGS, ["--config", "x.yml"], directory=str(tmp_path)).argv == ["--tp-size", "2"]


def test_other_forms_and_releases_without_the_option_change_nothing(write):
    path = write({"tp-size": 2})
    assert merge(RULE, FLAGS, [f"--config={path}"]).argv == [f"--config={path}"]
    assert merge(None, FLAGS, ["--config", path]).argv == ["--config", path]
