from __future__ import annotations

import os

import pytest

from drafter_cli.plain_launch import speaks_of_speculation
from drafter_contracts.engines.store import load_profile
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.read import read_serving

PLAIN = ["python", "-m", "sglang.launch_server", "--model-path", "m"]


@pytest.mark.parametrize(
    "launch",
    [
        PLAIN,
        [*PLAIN, "--context-length", "8192", "--constrained-json-whitespace-pattern", "x", "--chat-template", "spec"],
        ["env", "A=B", "numactl", "-N", "0", "sglang", "serve", "--model-path", "speculative"],
        ["bash", "-c", "exec python -m sglang.launch_server --model-path m"],
        ["bash", "-euxo", "pipefail", "-c", "echo sglang serve; cd /x && nohup sglang serve m > log 2>&1 &"],
        ["nice", *PLAIN, "--api-key", "pa$$word"],
    ],
)
def test_says_nothing_of_speculation(launch):
    assert not speaks_of_speculation(launch)


@pytest.mark.parametrize(
    "more",
    [
        ["--speculative-algorithm", "EAGLE3"],
        ["--speculative-algo=EAGLE3"],
        ["--speculative-draft-model-path", "d"],
        ["--spec", "x"],
    ],
)
def test_any_flag_of_speculation_is_looked_at(more):
    assert speaks_of_speculation([*PLAIN, *more])


@pytest.mark.parametrize(
    "launch",
    [
        ["./serve.sh"],
        ["vllm", "serve", "m"],
        ["bash", "-c", "python -m sglang.launch_server --model-path m $EXTRA"],
        ["bash", "-c", 'python -m sglang.launch_server "$@"', "_", "--model-path", "m", "--speculative-algorithm", "X"],
        ["bash", "-c", "python -m sglang.launch_server --host $(hostname) --speculative-algorithm EAGLE3"],
        ["bash", "-c", "python -m sglang.launch_server --model-path m {--speculative-algorithm,EAGLE3}"],
        ["bash", "-c", f"{' '.join(PLAIN)} & {' '.join(PLAIN)} --speculative-algorithm EAGLE3"],
        ["bash", "-c", f"echo --speculative-algorithm EAGLE3 | xargs {' '.join(PLAIN)}"],
        ["nohup", "xargs", *PLAIN],
        ["ssh", "host", *PLAIN, "$EXTRA"],
    ],
)
def test_what_cannot_be_read_is_looked_at(launch):
    assert speaks_of_speculation(launch)


@pytest.mark.parametrize("form", [["--config", "{}"], ["--config={}"], ["--conf", "{}"]])
@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ("model-path: m\ntp-size: 8\n", False),
        ("speculative-algorithm: EAGLE3\n", True),
        ("speculative_algorithm: EAGLE3\n", True),
        ('"\\x73peculative-algorithm": EAGLE3\n', True),
        ("model-path: [m, --speculative-algorithm, EAGLE3]\n", True),
        ("{broken", True),
        ("", False),
    ],
)
def test_a_config_file_is_read(tmp_path, form, text, speaks):
    path = tmp_path / "launch.yaml"
    path.write_text(text)
    assert speaks_of_speculation([*PLAIN, *(part.format(path) for part in form)]) is speaks


def test_a_config_file_is_read_where_the_launch_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "launch.yaml").write_text("model-path: m\n")
    (tmp_path / "run" / "launch.yaml").write_text("speculative-algorithm: EAGLE3\n")
    text = "python -m sglang.launch_server --config launch.yaml"
    assert not speaks_of_speculation(text.split())
    assert speaks_of_speculation(["bash", "-c", f"cd run && {text}"])
    assert speaks_of_speculation(["env", "--chdir", "run", *text.split()])


def test_a_config_file_that_is_not_there_is_looked_at(tmp_path):
    assert speaks_of_speculation([*PLAIN, "--config", str(tmp_path / "none.yaml")])
    assert speaks_of_speculation([*PLAIN, "--config"])


def test_a_pipe_is_left_for_the_launch_to_read(tmp_path):
    pipe = tmp_path / "launch.yaml"
    os.mkfifo(pipe)
    launch = [*PLAIN, "--config", str(pipe)]
    assert speaks_of_speculation(launch)
    serving = read_serving(read_invocation(launch), load_profile("sglang", "0.5.23"))
    assert [problem.kind for problem in serving.arguments.problems] == ["config_file"]
