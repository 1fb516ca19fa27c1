"""Which command lines are a launch, and what the engine itself sees of them."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.release_hint import release_in

ARGS = ("--model-path", "m", "--tp", "8")
PLAIN = "python -m sglang.launch_server --model-path m --tp 8"

LAUNCHES = {
    PLAIN: "launch_server",
    "python3.11 -u -m sglang.launch_server --model-path m --tp 8": "launch_server",
    "python3 -X dev -W ignore -O -msglang.launch_server --model-path m --tp 8": "launch_server",
    "python3 -Bum sglang.launch_server --model-path m --tp 8": "launch_server",
    "/opt/venv/bin/python3 -m sglang.launch_server --model-path m --tp 8": "launch_server",
    "python /opt/sglang/python/sglang/launch_server.py --model-path m --tp 8": "launch_server",
    "sglang serve --model-path m --tp 8": "serve",
    "/opt/venv/bin/sglang serve --model-path m --tp 8": "serve",
    "python3 /usr/local/bin/sglang serve --model-path m --tp 8": "serve",
    "python3 -m sglang.cli.main serve --model-path m --tp 8": "serve",
    "A=1 B=two " + PLAIN: "launch_server",
    "env A=B -u X -C /srv C=D " + PLAIN: "launch_server",
    "env -i PATH=/bin " + PLAIN: "launch_server",
    "numactl --cpunodebind=0 --membind 0 " + PLAIN: "launch_server",
    "numactl -N 0 -m 0 -l " + PLAIN: "launch_server",
    "taskset -c 0-31 " + PLAIN: "launch_server",
    "taskset 0xff " + PLAIN: "launch_server",
    "nohup nice -n 5 stdbuf -oL -e 0 setsid " + PLAIN: "launch_server",
    "nice -10 ionice -c2 -n 0 " + PLAIN: "launch_server",
    "time -f %e timeout -k 10 3600s " + PLAIN: "launch_server",
    "sudo -E -u serve A=1 " + PLAIN: "launch_server",
    "exec -a server " + PLAIN: "launch_server",
    "torchrun --nproc_per_node 8 --nnodes=1 -m sglang.launch_server --model-path m --tp 8": "launch_server",
    "torchrun --standalone /srv/launch_server.py --model-path m --tp 8": "launch_server",
    "python -m torch.distributed.run --nnodes 1 -m sglang.launch_server --model-path m --tp 8": "launch_server",
    "uv run --with sglang[all]==0.5.9 --python 3.12 " + PLAIN: "launch_server",
    "uv run -m sglang.launch_server --model-path m --tp 8": "launch_server",
    "uvx --from sglang sglang serve --model-path m --tp 8": "serve",
    "uv tool run --from sglang sglang serve --model-path m --tp 8": "serve",
    "conda run -n serving --no-capture-output " + PLAIN: "launch_server",
    "srun -N 1 --gres gpu:8 --container-image=lmsysorg/sglang:v0.5.9-cu126 " + PLAIN: "launch_server",
    "mpirun -np 2 -H a,b -x A=1 --mca btl self " + PLAIN: "launch_server",
    "kubectl exec -it pod -c main -- " + PLAIN: "launch_server",
    "docker run --gpus all --rm -it -e A=1 -v /a:/b -p 30000:30000 --ipc=host lmsysorg/sglang:latest "
    + PLAIN: "launch_server",
    "docker run --entrypoint python3 lmsysorg/sglang -m sglang.launch_server --model-path m --tp 8": "launch_server",
    "docker exec -e A=1 box " + PLAIN: "launch_server",
    "apptainer exec --nv --bind /data sglang.sif " + PLAIN: "launch_server",
    "accelerate launch --num_processes 1 -m sglang.launch_server --model-path m --tp 8": "launch_server",
    f"bash -lc '{PLAIN}'": "launch_server",
    f"sh -c 'cd /srv && export A=1; exec {PLAIN} > log 2>&1'": "launch_server",
    f"bash -c 'set -e; source /opt/venv/bin/activate\nnumactl -l {PLAIN} | tee log'": "launch_server",
    f"my-launcher --retries 3 {PLAIN}": "launch_server",
    "my-launcher -- sglang serve --model-path m --tp 8": "serve",
}

OTHERS = (
    "",
    "ls -l",
    "python -c 'import sglang'",
    "python -m sglang.bench_serving --model m",
    "python train.py --launcher sglang",
    "vllm serve m",
    "sglang generate --model-path m",
    "sglang",
    "docker run lmsysorg/sglang:latest",
    "docker ps",
    "bash script.sh",
    "bash -c 'echo hello'",
    "bash -c 'python -m sglang.launch_server --served-model-name \"open quote'",
    "env A=1",
    "python",
    "echo python -m sglang.launch_server and python -m sglang.launch_server",
    f"parallel {PLAIN} ::: {PLAIN}",
)


@pytest.mark.parametrize("text", LAUNCHES)
def test_launch_is_found_behind(text):
    invocation = read_invocation(shlex.split(text))
    assert (invocation.entry, invocation.arguments) == (LAUNCHES[text], ARGS)
    assert invocation.argv == tuple(shlex.split(text))


@pytest.mark.parametrize("text", OTHERS)
def test_other_commands_are_no_launch(text):
    assert read_invocation(shlex.split(text)).entry == ""


def test_wrapper_and_interpreter_are_told_apart():
    invocation = read_invocation(
        shlex.split("env CUDA_VISIBLE_DEVICES=0 numactl -N 0 /opt/x/bin/python -m " + "sglang.launch_server --port 1")
    )
    assert invocation.wrapper == ("env", "CUDA_VISIBLE_DEVICES=0", "numactl", "-N", "0")
    assert invocation.interpreter == "/opt/x/bin/python"
    assert invocation.environment == {"CUDA_VISIBLE_DEVICES": "0"}


def test_container_image_and_release_hint():
    invocation = read_invocation(
        shlex.split("docker run --gpus all -e HF_HOME=/hf -w /work lmsysorg/sglang:v0.5.9-cu126 " + PLAIN)
    )
    assert invocation.image == "lmsysorg/sglang:v0.5.9-cu126"
    assert invocation.release_hint == "0.5.9"
    assert invocation.environment == {"HF_HOME": "/hf"}
    assert invocation.working_directory == "/work"


def test_shell_text_sets_directory_and_variables():
    invocation = read_invocation(["bash", "-c", "cd /srv && export A=1 && B=2 exec " + PLAIN])
    assert invocation.working_directory == "/srv"
    assert invocation.environment == {"A": "1", "B": "2"}
    assert invocation.wrapper == ("bash", "-c")


def test_json_in_a_shell_text_survives():
    value = '{"eagle_config": {"eagle_aux_hidden_state_layer_ids":\n [2, 30, 58]}}'
    text = "python -m sglang.launch_server \\\n  --json-model-override-args " + shlex.quote(value)
    assert read_invocation(["bash", "-c", text]).arguments == ("--json-model-override-args", value)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("lmsysorg/sglang:v0.5.9-cu126", "0.5.9"),
        ("lmsysorg/sglang:v0.5.12.post1", "0.5.12.post1"),
        ("registry:5000/sglang:v0.5.2-rocm630@sha256:abc", "0.5.2"),
        ("sglang[all]==0.5.23", "0.5.23"),
        ("sglang == 0.5.9 ; python_version > '3'", "0.5.9"),
        ("lmsysorg/sglang:v0.5.9-cu129-amd64", "0.5.9"),
        ("lmsysorg/sglang:v0.5.9-cann8.2.rc1-910b", "0.5.9"),
        ("lmsysorg/sglang:v0.5.12.post1-rc0", ""),
        ("lmsysorg/sglang:v0.5.12.post1-nightly", ""),
        ("lmsysorg/sglang:v0.5.12.post1-1-gabcdef", ""),
        ("lmsysorg/sglang:0.5.12-post1", ""),
        ("lmsysorg/sglang:v0.5.23-dev", ""),
        ("lmsysorg/sglang:latest", ""),
        ("lmsysorg/sglang:dev-cu13", ""),
        ("vllm/vllm-openai:v0.11.0", ""),
        ("registry:5000/sglang", ""),
        ("transformers==5.0.0", ""),
    ],
)
def test_release_hints(text, release):
    assert release_in(text) == release


def test_what_chooses_the_python_environment():
    def environment(text):
        return read_invocation(shlex.split(text)).python_environment

    assert environment(PLAIN) == ""
    assert environment("conda run -n x " + PLAIN) == "conda:x"
    assert environment("conda run -p /opt/x " + PLAIN) == "prefix:/opt/x"
    assert environment("uv run " + PLAIN) == "uv"
    assert environment("my-launcher " + PLAIN) == "unknown"


@given(st.lists(st.text(max_size=12), max_size=12))
def test_any_argv_gives_an_answer(argv):
    assert read_invocation(argv).argv == tuple(argv)


_WORD = st.sampled_from(
    ["-n", "0", "-c", "-m", "--membind=0", "A=1", "--", "-e", "docker", "run", "bash", "-lc", "env", "python", "exec"]
)


@given(st.lists(_WORD, max_size=8))
def test_wrappers_in_any_order_end(prefix):
    read_invocation([*prefix, *shlex.split(PLAIN)])


START = "python -m sglang.launch_server --model-path m"


@pytest.mark.parametrize(
    "text",
    [
        f"{START} $EXTRA_OF_NOBODY",
        f'{START} "$@"',
        f"{START} & {START} --tp 2",
        f"if x; then {START}; else {START} --tp 2; fi",
        f"xargs {START}",
        f"bash -c '{START}'; {START}",
        f"cd $NOBODY_KNOWS && {START}",
    ],
)
def test_a_shell_text_whose_launch_only_the_shell_can_tell_is_no_launch(text):
    assert read_invocation(["bash", "-c", text]).entry == ""


def test_variables_of_a_shell_text_that_are_known(monkeypatch):
    monkeypatch.setenv("PORT", "30000")
    text = f"set -euo pipefail; EXTRA='--tp 8'; {START} --port $PORT $EXTRA --dist-init-addr \"$NOBODY:1\""
    arguments = ("--model-path", "m", "--port", "30000", "--tp", "8", "--dist-init-addr", "$NOBODY:1")
    assert read_invocation(["bash", "-euo", "pipefail", "-c", text]).arguments == arguments
    inside = read_invocation(
        ["docker", "run", "-itp", "1:2", "-e", "PORT=1", "img", "sh", "-c", f"{START} --port $PORT"]
    )
    assert (inside.image, inside.arguments[-1]) == ("img", "1")
    assert read_invocation(["docker", "run", "img", "sh", "-c", f"{START} --port $PORT"]).entry == ""


def test_what_other_commands_of_a_text_wrap_says_nothing_of_the_engine():
    found = read_invocation(["bash", "-c", f"uv run prepare.py && env A=1 true; cd a; cd b; {START} & export C=2"])
    assert (found.python_environment, found.environment, found.working_directory) == ("", {}, "a/b")
