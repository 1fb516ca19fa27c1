"""The examples run as they are."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess

import pytest

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "..", "examples")


@pytest.fixture
def path(bench, command):
    """A PATH with the stand-in engine's `python` and the command under test."""
    return os.pathsep.join((bench.binaries, os.path.dirname(command), os.environ["PATH"]))


def run(script, *arguments, **variables):
    return subprocess.run(
        [os.path.join(EXAMPLES, script), *arguments],
        env=os.environ | variables, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize(("drafter", "code"), [("right", 17), ("wrong", 3)])
def test_the_start_script_starts_only_what_its_manifest_allows(bench, path, drafter, code):
    directory = getattr(bench, drafter)
    shutil.copy(os.path.join(EXAMPLES, "drafters-manifest.json"), directory)
    done = run("serve.sh", "--tp", "8", PATH=path, TARGET=bench.target, DRAFTER=directory, **bench.variables("exit 17"))
    assert done.returncode == code, done.stderr
    assert bench.started is (drafter == "right")


@pytest.mark.parametrize(("alias", "code"), [("prod", 17), ("other", 2)])
def test_a_drafter_of_the_registry_is_served_or_nothing_is(bench, own_shop, path, alias, code):
    own_shop.publish(own_shop.drafter(), "--steps", "3", "--topk", "1", "--draft-tokens", "4", "--alias", "prod")
    # The session's cache: the stand-in engine's profile is kept there.
    shop = own_shop.variables | {"DRAFTERS_CACHE": None}
    variables = {name: value for name, value in shop.items() if value is not None}
    variables |= bench.variables("exit 17") | {"TARGET": own_shop.target, "DRAFTER": f"tiny@{alias}", "PATH": path}
    done = run("serve-from-registry.sh", **variables)
    assert done.returncode == code, done.stderr
    assert bench.started is (code == 17)


@pytest.mark.parametrize(("drafter", "code"), [("right", 43), ("wrong", 3)])
def test_a_script_with_the_hook_ends_where_it_is_refused(bench, path, tmp_path, drafter, code):
    """The health check is a file; the engine that is up is stopped from outside."""
    directory = getattr(bench, drafter)
    shutil.copy(os.path.join(EXAMPLES, "drafters-manifest.json"), directory)
    own = bench.variables("wait", PATH=path, VENV=os.path.dirname(bench.binaries), TARGET=bench.target)
    own |= {"HEALTH": f"file://{bench.record}", "LOG": str(tmp_path / "log")}
    argv = [os.path.join(EXAMPLES, "hooked.sh"), *bench.launch(directory)[5:]]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(argv, env=os.environ | own, **pipes) as script:
        line = script.stdout.readline()
        assert (line, bench.started) == ((f"serving, pid {bench.told()['pid']}\n", True) if code == 43 else ("", False))
        if bench.started:
            os.kill(bench.told()["pid"], signal.SIGTERM)
        _, talk = script.communicate(timeout=60)
    assert script.returncode == code, talk


def test_the_release_check_answers_with_the_worst(bench, path):
    shutil.copy(os.path.join(EXAMPLES, "drafters-manifest.json"), bench.right)
    launch = bench.launch(bench.right)
    assert run("check-in-ci.sh", "0.5.12.post1", "--", *launch, PATH=path).returncode == 0
    both = run("check-in-ci.sh", "0.5.12.post1", "0.5.23", "--", *launch, PATH=path)
    assert both.returncode == 3
    assert both.stdout.count("sglang 0.5.12.post1") >= 1
    assert "REFUSE" in both.stdout


@pytest.mark.parametrize("words", [(), ("0.5.23",), ("--", "sglang", "serve"), ("0.5.23", "--")])
def test_the_release_check_that_asks_nothing_is_no_success(path, words):
    assert run("check-in-ci.sh", *words, PATH=path).returncode == 2


def test_the_upgrade_check_without_drafters_says_how_it_is_called(path):
    done = run("check-upgrade.sh", "0.5.12.post1", "0.5.23", "LlamaForCausalLM", "32", PATH=path)
    assert (done.returncode, done.stderr.startswith("usage: ")) == (2, True)


@pytest.mark.parametrize(("after", "code"), [("0.5.23", 3), ("0.5.12.post1", 0)])
def test_the_upgrade_check_stops_at_a_move(bench, path, after, code):
    config_alone = os.path.join(bench.folder, "config-alone")
    os.mkdir(config_alone)
    shutil.copy(os.path.join(bench.right, "config.json"), config_alone)
    about = ("KimiK25ForConditionalGeneration", "61", config_alone, bench.right)
    assert run("check-upgrade.sh", "0.5.12.post1", after, *about, PATH=path).returncode == code
