"""A capture file that the example makes of a running SGLang is the one that transformers makes here."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import environments
import guarded
import plan
import pytest
import session
import whole

pytestmark = pytest.mark.running

SCRIPT = os.path.join(guarded.ROOT, "examples", "capture_with_sglang.py")
#: What the machine of the test needs beside the flags that the script plans.
MACHINE = (
    *("--device", "cpu", "--attention-backend", "torch_native", "--max-total-tokens", "4096"),
    *("--mem-fraction-static", "0.3", "--disable-overlap-schedule", "--skip-server-warmup", "--host", "127.0.0.1"),
)
#: Greatest relative error against transformers; that against any other state is far greater.
SAME = 1e-4
TOKENS = [1, *(3 + 7 * number % 317 for number in range(63))]


@pytest.fixture
def environment(wheel):
    """Where the release runs, or why it does not."""
    try:
        wheel(whole.RELEASE)
        return environments.environment_for(whole.RELEASE)
    except environments.EnvironmentUnavailable as error:
        pytest.skip(str(error))


def script(*arguments):
    """What the example says."""
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=guarded.SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def serving(environment, folder, target, flags):
    """A server with these flags, and its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [environment.python, "-m", "sglang.launch_server", "--model-path", target, *MACHINE]
    launch = guarded.Launch([*command, "--port", str(port), *flags], environment.environ(), folder)
    url = f"http://127.0.0.1:{port}"
    until = time.monotonic() + guarded.SECONDS
    while not _answers(f"{url}/health"):
        assert launch.process.poll() is None, launch.told()[-3000:]
        assert time.monotonic() < until, launch.told()[-3000:]
        time.sleep(1)
    return launch, url


def _answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - the loopback
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False


@pytest.mark.parametrize("shape", ["llama", "qwen3_moe"])
def test_the_file_made_with_sglang_is_the_one_made_with_transformers(environment, shape, tmp_path):
    import torch

    from drafter_contracts.layout import Tap
    from drafter_contracts.values.captures import read_capture
    from drafter_contracts.values.targets import run_target

    target = os.path.join(session.models(environment), shape)
    tokens, output = tmp_path / "ids.json", str(tmp_path / "capture.safetensors")
    tokens.write_text(json.dumps(TOKENS))
    planned = script("plan", "--target", target, "--release", whole.RELEASE, "--most", "99")
    launches = [shlex.split(line) for line in planned.splitlines() if not line.startswith("#")]
    assert len(launches) == 2, planned
    for flags in launches:
        launch, url = serving(environment, str(tmp_path), target, [*flags, "--dtype", "float32"])
        try:
            script("add", "--target", target, "--tokens", str(tokens), "-o", output, "--url", url)
        finally:
            launch.end(signal.SIGTERM)
            launch.wait()
    found = read_capture(output)
    here = run_target(target, torch.tensor(TOKENS), dtype="float32")
    assert found.missing() == (Tap(plan.LAYERS),), "the classes of SGLang do not return their last layer's output"
    errors = {}
    for tap, state in found.states.items():
        distances = {one: _error(state, other) for one, other in here.states.items()}
        right = distances.pop(tap)
        errors[tap.label()] = [right, min(distances.values())]
    sys.stdout.write(json.dumps(errors, indent=1))
    worst, nearest = (pick(pair[at] for pair in errors.values()) for at, pick in ((0, max), (1, min)))
    assert worst < SAME
    assert nearest > 0.1
    assert torch.equal(found.choices, here.choices)


def _error(state, other):
    return float((state.float() - other.float()).norm() / other.float().norm())
