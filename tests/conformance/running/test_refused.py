"""Launches of the real server that would feed a drafter other states: refused by every gate, nothing left running."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.error
import urllib.request

import environments
import guarded
import plan
import pytest
import served
import whole
from served_cases import CASES

pytestmark = pytest.mark.running

WAYS = ("guard", "shell hook", "plugin")
NUMBERS = ["--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
OPERATOR = ["--device", "cpu", "--attention-backend", "intel_amx", "--dtype", "float32", "--max-total-tokens", "4096"]
OPERATOR += ["--mem-fraction-static", "0.3", "--disable-overlap-schedule", "--disable-radix-cache"]
OPERATOR += ["--skip-server-warmup", "--max-running-requests", "4"]
#: Mismatches: which drafter, for which release its files were made ready (or none), flags, and the finding.
MISMATCHES = {
    "as it came": ("gpt_oss, another layout", "", (), "CAPTURE_LAYERS"),
    "overrides of another layout": ("llama, ids of boundaries", "", (2, 4, 5), "CAPTURE_LAYERS"),
    "an order that only a render gives": ("llama, another order", "", (0, 2, 4), "CAPTURE_ORDER"),
    "a render for another release": ("deepseek_v3, ids moved", "0.5.9", (), "CAPTURE_LAYERS"),
}


@pytest.fixture(autouse=True, scope="module")
def _environment(wheel):
    """The wheel is in the cache, and the environment is built; or the tests say why not."""
    try:
        wheel(whole.RELEASE)
        environments.environment_for(whole.RELEASE)
    except environments.EnvironmentUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def registry(command, tmp_path_factory):
    """An embedded registry."""
    return served.Registry(str(tmp_path_factory.mktemp("registry")), command)


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """The project, installed for the engine's interpreter."""
    return guarded.installed(str(tmp_path_factory.mktemp("installed")))


@pytest.fixture
def start(command, plugin, tmp_path):
    """Starts a launch in one of the ways; everything of it is ended afterwards."""
    running = []

    def one(way, arguments, *, also_plugin=False):
        installed = plugin if way == "plugin" or also_plugin else ""
        variables = guarded.variables(command, str(tmp_path), installed)
        full = guarded.command_of(way, command, str(tmp_path), arguments)
        running.append(guarded.Launch(full, variables, str(tmp_path)))
        return running[-1]

    yield one
    for launch in running:
        launch.end(signal.SIGKILL)
        launch.process.wait(30)


def arguments(target, directory, ids=()):
    """What follows the program, for a drafter in a directory."""
    found = ["--model-path", target, *OPERATOR, "--speculative-algorithm", "EAGLE3"]
    found += ["--speculative-draft-model-path", directory, *NUMBERS]
    if ids:
        own = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids), "use_aux_hidden_state": True}}
        found += ["--json-model-override-args", json.dumps(own)]
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_a_mismatched_launch_is_refused_and_no_process_is_left(registry, start, keep, tmp_path, mismatch, way):
    name, release, ids, code = MISMATCHES[mismatch]
    reference, target = served.published(registry, whole.RELEASE, name)
    ready = ("--for", f"sglang=={release}", "--target", target) if release else ()
    directory = registry.pull(reference, str(tmp_path / "drafter"), *ready)
    launch = start(way, arguments(target, directory, ids))
    exit_code = launch.wait()
    told = launch.told()
    assert exit_code == 3, told[-3000:]
    assert f"refuse {code}" in told, told[-3000:]
    assert "fell through" not in told
    assert guarded.gone(launch), launch.left()
    keep("refused", f"{whole.RELEASE}, {mismatch}, {way}", {"exit": exit_code, "code": code, "left running": 0})


def free_port():
    """A port that is free now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def asked(url, body=None, seconds=5):
    """The answer of a server, or nothing while there is none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - the loopback
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:  # noqa: S310
            return answer.read()
    except (OSError, urllib.error.URLError):
        return None


@pytest.mark.parametrize("way", WAYS)
def test_the_same_gates_let_the_right_launch_serve(registry, start, keep, way):
    reference, target = served.published(registry, whole.RELEASE, "llama, ids of boundaries")
    printed = registry.resolve(reference, whole.RELEASE, target, "flags")
    assert not printed.code, printed.answer
    url = f"http://127.0.0.1:{(port := free_port())}"
    given = ["--model-path", target, *OPERATOR, "--host", "127.0.0.1", "--port", str(port), *printed.flags]
    launch = start(way, given, also_plugin=way == "guard")
    until = time.monotonic() + guarded.SECONDS
    while asked(f"{url}/health") is None:
        assert launch.process.poll() is None, launch.told()[-3000:]
        assert time.monotonic() < until, launch.told()[-3000:]
        time.sleep(1)
    sampling = {"max_new_tokens": 16, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": list(plan.PROMPT), "sampling_params": sampling}
    answer = json.loads(asked(f"{url}/generate", body, seconds=120) or b"{}")
    assert len(answer["output_ids"]) == 16
    assert answer["meta_info"]["spec_verify_ct"] > 0, "it speculates"
    assert len(launch.left()) > 1, "an engine's processes are seen while they run"
    launch.end(signal.SIGTERM)
    launch.wait()
    assert guarded.gone(launch), launch.left()
    keep("refused", f"{whole.RELEASE}, the right launch, {way}", {"served": CASES["llama, ids of boundaries"].shape})
