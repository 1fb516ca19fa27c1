"""The forms in which flags are printed, taken by the real programs that they are for."""

from __future__ import annotations

import subprocess

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_cli.errors import UsageError
from drafter_cli.resolving.formats import text
from drafter_contracts.engines.store import load_profile, releases
from drafter_contracts.serving.config_file import merge
from drafter_registry.documents import Resolution

OVERRIDE = '{"eagle_config":{"eagle_aux_hidden_state_layer_ids":[3,31,59]}}'


def resolution(path="/srv/d", *more):
    flags = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", path)
    flags += ("--speculative-num-steps", "3", *more)
    return Resolution(
        name="k", version="1", digest="sha256:0", fingerprint="sha256:1", engine="sglang 0.5.23", flags=flags
    )


def run(*argv, given=None):
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


ARGUMENTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


@given(path=ARGUMENTS.filter(lambda one: not one.startswith("-")))
@settings(max_examples=30, deadline=None)
def test_args_and_shell_survive_shell_and_xargs(path):
    made = resolution(path, "--json-model-override-args", OVERRIDE)
    line = text(made, "args", None)
    assert "\n" not in line
    show = """printf '%s\\0' "$@" """
    assert run("sh", "-c", f'eval "set -- $1"; {show}', "sh", line) == list(made.flags)
    assert run("xargs", "printf", "%s\\0", given=line) == list(made.flags)
    array = text(made, "shell", None)
    assert run("bash", "-c", """eval "$1"; printf '%s\\0' "${DRAFTERS_ARGS[@]}" """, "bash", array) == list(made.flags)


def test_a_line_end_in_an_argument_is_refused():
    for shape in ("args", "shell", "env"):
        with pytest.raises(UsageError, match="line end"):
            text(resolution("/srv/a\nb"), shape, None)


@pytest.mark.parametrize("release", releases("sglang"))
def test_yaml_becomes_the_same_arguments_in_every_release_that_reads_files(tmp_path, release):
    profile = load_profile("sglang", release)
    rule = profile.launch.config_file
    for path in ("/srv/a b", "/srv/é: #", "007", "yes", "null"):
        made = resolution(path, "--json-model-override-args", OVERRIDE)
        if rule is None:
            with pytest.raises(UsageError, match="has no --config"):
                text(made, "yaml", profile)
            continue
        written = text(made, "yaml", profile)
        assert yaml.safe_load(written)["speculative-draft-model-path"] == path
        file = tmp_path / "launch.yaml"
        file.write_text(written, encoding="utf-8")
        assert tuple(merge(rule, profile.launch.flags, ["--config", str(file)]).argv) == made.flags


def test_a_switch_is_true_in_yaml_or_refused_where_the_release_refuses_it_there():
    made = resolution("/srv/d", "--disable-cuda-graph")
    assert "disable-cuda-graph: true" in text(made, "yaml", load_profile("sglang", "0.5.9")).splitlines()
    with pytest.raises(UsageError, match="does not take disable-cuda-graph"):
        text(made, "yaml", load_profile("sglang", "0.5.23"))


def test_yaml_for_a_release_that_is_not_known_here_is_refused():
    with pytest.raises(UsageError, match="not known here"):
        text(resolution(), "yaml", None)
