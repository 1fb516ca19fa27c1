"""`drafters guard` as a process: what it starts, what it never starts, and that it becomes what it starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import pytest

STATED = ("--output-ids", "2,30,58")


def test_matching_launch_runs_in_the_same_process_with_its_exit_status(bench, command):
    environment = os.environ | bench.variables("exit 41")
    process = subprocess.Popen(
        [command, "guard", *STATED, "--", *bench.launch(bench.right)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    output, talk = process.communicate(timeout=60)
    assert process.returncode == 41, talk
    assert bench.told()["pid"] == process.pid
    assert output == "engine output\n", "standard output belongs to the launch"
    assert talk.startswith(("ALLOW", "WARN"))


def test_mismatched_launch_never_starts(bench, drafters):
    done = drafters("guard", *STATED, "--", *bench.launch(bench.wrong), variables=bench.variables())
    assert done.returncode == 3, done.stderr
    assert not bench.started
    assert done.stdout == ""
    assert done.stderr.startswith("REFUSE")
    assert "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)" in done.stderr
    assert "the launch was not started" in done.stderr


def test_signals_reach_the_engine(bench, command):
    environment = os.environ | bench.variables("wait")
    process = subprocess.Popen(
        [command, "guard", *STATED, "--", *bench.launch(bench.right)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert bench.told()["pid"] == process.pid
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 43


def test_standard_input_passes_through(bench, drafters):
    launch = bench.launch(bench.right)
    done = drafters("guard", *STATED, "--", *launch, stdin=None, input="one\ntwo\n", variables=bench.variables("read"))
    assert done.returncode == 0, done.stderr
    assert bench.told()["stdin"] == "one\ntwo\n"


def test_arguments_and_environment_pass_unchanged(bench, drafters):
    launch = bench.launch(bench.right, "--served-model-name", "a b'c\"d", "--chat-template", "")
    variables = bench.variables(EXTRA="ü=\n", LANG=None, LC_ALL=None, LC_CTYPE=None)
    alone = subprocess.run(
        launch, env=_applied(variables), capture_output=True, check=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert alone.stdout == b"engine output\n"
    without_guard = bench.told()
    os.remove(bench.record)
    done = drafters("guard", *STATED, "--", *launch, variables=variables)
    assert done.returncode == 0, done.stderr
    with_guard = bench.told()
    for key in ("argv", "environment", "cwd"):
        assert _comparable(with_guard[key]) == _comparable(without_guard[key])


def _applied(variables):
    environment = {k: v for k, v in os.environ.items() if k not in {"DRAFTERS_GUARD", "NO_COLOR"}}
    for name, value in variables.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return environment


def _comparable(value):
    """Coverage measures a process that it follows through exec by variables of its own."""
    if not isinstance(value, dict):
        return value
    return {name: text for name, text in value.items() if not name.startswith("COVERAGE_")}


def test_the_locale_that_the_interpreter_sets_for_itself_is_not_passed_on(drafters, bench):
    """PEP 538: under LANG=C the interpreter sets LC_CTYPE in its own environment; a launch must not inherit that."""
    show = bench.script("show", 'echo "LC_CTYPE=${LC_CTYPE-unset}"')
    variables = {"LANG": "C", "LC_ALL": None, "LC_CTYPE": None}
    done = drafters("guard", "--mode", "off", "--", show, variables=variables)
    assert done.stdout == "LC_CTYPE=unset\n"


def test_no_speculation_passes_at_once_whatever_else_is_wrong(bench, drafters):
    done = drafters("guard", "--", *bench.plain("--tp", "8"), variables=bench.variables("exit 9"))
    assert done.returncode == 9
    assert done.stderr == ""
    assert bench.told()["argv"] == ["--model-path", "/nowhere/model", "--tp", "8"]


def test_a_drafter_that_is_named_and_not_loaded_is_told(bench, drafters):
    done = drafters("guard", bench.right, "--", *bench.plain(), variables=bench.variables("exit 9"))
    assert (done.returncode, "the launch does not speculate" in done.stderr) == (9, True)


def test_a_launch_that_loads_another_drafter_than_was_named_is_not_started(bench, drafters):
    done = drafters("guard", bench.right, *STATED, "--", *bench.launch(bench.wrong), variables=bench.variables())
    assert done.returncode == 3, done.stderr
    assert "DRAFT_OTHER" in done.stderr
    assert "config.json differs in eagle_config" in " ".join(done.stderr.split())
    assert not bench.started
    copy = shutil.copytree(bench.right, os.path.join(bench.folder, "copy"), copy_function=os.link)
    done = drafters("guard", bench.right, *STATED, "--", *bench.launch(copy), variables=bench.variables())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("loaded", "told"), [([2, 30, 58], "states another layout"), ([3, 31, 59], "")])
def test_a_copy_with_another_contract_is_another_drafter(bench, drafters, loaded, told):
    folders = []
    for name, boundaries in (("named", [3, 31, 59]), ("loaded", loaded)):
        folder = shutil.copytree(bench.right, os.path.join(bench.folder, name), copy_function=os.link)
        manifest = {
            "schema": "drafters.manifest.v1",
            "target": {"model": "m", "layers": 61, "hidden_size": 7168},
            "layout": {"boundaries": boundaries},
        }
        with open(os.path.join(folder, "drafters-manifest.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file)
        folders.append(folder)
    done = drafters("guard", folders[0], "--", *bench.launch(folders[1]), variables=bench.variables())
    assert ("DRAFT_OTHER" in done.stderr, bench.started) == (bool(told), not told), done.stderr
    assert told in " ".join(done.stderr.split())


def test_a_config_file_that_turns_speculation_on_does_not_pass_unseen(bench, drafters):
    config = os.path.join(bench.folder, "launch.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.write(
            f"model-path: {bench.target}\nspeculative-algorithm: EAGLE3\n"
            f"speculative-draft-model-path: {bench.wrong}\nspeculative-num-steps: 3\n"
            "speculative-eagle-topk: 1\nspeculative-num-draft-tokens: 4\n"
        )
    launch = [bench.python, "-m", "sglang.launch_server", "--config", config]
    done = drafters("guard", *STATED, "--", *launch, variables=bench.variables())
    assert done.returncode == 3, done.stderr
    assert not bench.started


def test_warn_mode_says_it_and_starts_anyway(bench, drafters):
    done = drafters("guard", "--mode", "warn", *STATED, "--", *bench.launch(bench.wrong), variables=bench.variables())
    assert done.returncode == 0
    assert bench.started
    assert done.stderr.startswith("REFUSE")
    assert "starting anyway" in done.stderr


def test_the_mode_comes_from_the_environment_and_the_option_wins(bench, drafters):
    variables = bench.variables(DRAFTERS_GUARD="warn")
    assert drafters("guard", *STATED, "--", *bench.launch(bench.wrong), variables=variables).returncode == 0
    os.remove(bench.record)
    launch = bench.launch(bench.wrong)
    done = drafters("guard", "--mode", "enforce", *STATED, "--", *launch, variables=variables)
    assert done.returncode == 3
    assert not bench.started


def test_mode_off_starts_at_once_and_says_nothing(bench, drafters):
    done = drafters("guard", "--", *bench.launch(bench.wrong), variables=bench.variables(DRAFTERS_GUARD="off"))
    assert (done.returncode, done.stderr) == (0, "")
    assert bench.started


def test_mode_off_looks_at_none_of_its_other_options(bench, drafters):
    done = drafters(
        "guard", "--mode", "off", "--engine", "vllm", "--", *bench.launch(bench.wrong), variables=bench.variables()
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert bench.started


def test_a_standard_error_that_cannot_be_written_stops_no_launch(bench, command):
    arguments = [command, "guard", "--mode", "warn", *STATED, "--", *bench.launch(bench.wrong)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            arguments, stderr=full, stdout=subprocess.PIPE, env=os.environ | bench.variables(), check=False
        )
    assert (done.returncode, done.stdout) == (0, b"engine output\n")
    assert bench.started


def test_paths_that_are_not_text_are_shown_escaped(bench, drafters):
    launch = bench.launch(bench.right + "/\udcff")
    done = drafters("guard", "--json", *STATED, "--", *launch, variables=bench.variables())
    assert (done.returncode, bench.started) == (5, False)
    assert "\\udcff" in done.stderr


def test_a_misspelt_mode_fails_closed(bench, drafters):
    done = drafters("guard", "--", *bench.launch(bench.right), variables=bench.variables(DRAFTERS_GUARD="wran"))
    assert done.returncode == 2
    assert not bench.started


@pytest.mark.parametrize("engine", [(), ("--engine", "sglang==0.5.12.post1")])
def test_a_launch_that_cannot_be_read_is_unknown_and_is_not_started(bench, drafters, engine):
    script = bench.script("serve.sh", f"exec {' '.join(bench.launch(bench.wrong))}")
    done = drafters("guard", *engine, *STATED, "--", script, variables=bench.variables())
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("UNKNOWN")
    assert not bench.started


def test_a_broken_manifest_fails_closed(bench, drafters):
    with open(os.path.join(bench.right, "drafters-manifest.json"), "w", encoding="utf-8") as file:
        file.write('{"schema": "drafters.manifest.v1", "layuot": {}}')
    done = drafters("guard", "--", *bench.launch(bench.right), variables=bench.variables())
    assert done.returncode == 7
    assert "layuot" in done.stderr
    assert not bench.started


def test_an_internal_error_fails_closed_and_warn_mode_starts_anyway(bench, drafters):
    """The drafter's config is a directory: nothing in this program expects that of a file that it found."""
    os.remove(os.path.join(bench.right, "config.json"))
    os.mkdir(os.path.join(bench.right, "config.json"))
    done = drafters("guard", *STATED, "--", *bench.launch(bench.right), variables=bench.variables())
    assert done.returncode != 0
    assert not bench.started
    launch = bench.launch(bench.right)
    done = drafters("guard", "--mode", "warn", *STATED, "--", *launch, variables=bench.variables())
    assert done.returncode == 0
    assert bench.started


@pytest.mark.parametrize(("mode", "code"), [(None, 127), (0o600, 126)])
def test_a_program_that_cannot_run_answers_as_in_a_shell(bench, drafters, mode, code):
    program = os.path.join(bench.folder, "sglang") if mode is None else bench.script("sglang", "exit 0", mode)
    done = drafters("guard", "--", program, "serve", "--model-path", "m")
    assert done.returncode == code
    assert program in done.stderr


def test_the_program_is_found_on_the_path(bench, drafters):
    variables = bench.variables(PATH=bench.binaries + os.pathsep + os.environ["PATH"])
    done = drafters("guard", "--", "sglang", "serve", "--model-path", "m", variables=variables)
    assert done.returncode == 0
    assert bench.told()["argv"] == ["serve", "--model-path", "m"]


def test_json_goes_to_stderr_and_leaves_standard_output_to_the_launch(bench, drafters):
    import json

    launch = bench.launch(bench.right)
    done = drafters("guard", "--json", *STATED, "--", *launch, variables=bench.variables())
    assert done.stdout == "engine output\n"
    assert json.loads(done.stderr)["decision"] in {"allow", "warn"}


def test_descriptors_and_signals_are_as_without_guard(bench, drafters):
    """Open descriptors, ignored and blocked signals, limits: what a process inherits besides its environment."""
    signals = "grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status"
    show = bench.script("sglang", f"ls /proc/self/fd | wc -l; {signals}; ulimit -a; umask")
    launch = [show, "serve", "--model-path", "m"]
    alone = subprocess.run(launch, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert "SigIgn" in alone.stdout
    assert drafters("guard", "--", *launch).stdout == alone.stdout


def test_guard_leaves_no_process_of_its_own(bench, command):
    """The engine's parent is whoever started the guard."""
    environment = os.environ | bench.variables("wait")
    process = subprocess.Popen(
        [command, "guard", *STATED, "--", *bench.launch(bench.right)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        bench.told()
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            parent = int(file.read().rpartition(")")[2].split()[1])
        assert parent == os.getpid()
        with open(f"/proc/{process.pid}/cmdline", encoding="utf-8") as file:
            assert "launch_server" in file.read()
    finally:
        process.kill()
        process.wait(timeout=30)


@pytest.mark.parametrize("words", [("--", "true"), (), ("--mode", "x", "--", "true"), ("--manifest", "none")])
def test_with_json_standard_error_is_one_document(bench, drafters, words):
    launch = ("--", *bench.launch(bench.wrong)) if "none" in words else ()
    done = drafters("guard", "--json", *words, *launch, variables=bench.variables())
    assert done.stdout == ""
    assert json.loads(done.stderr)["exit_code"] == done.returncode
    assert not bench.started


@pytest.mark.parametrize(
    ("drafter", "mode", "code"), [("right", "enforce", 0), ("wrong", "enforce", 3), ("wrong", "warn", 0)]
)
def test_a_dry_run_says_what_would_be_done_and_starts_nothing(bench, drafters, drafter, mode, code):
    launch = bench.launch(getattr(bench, drafter))
    done = drafters("guard", "--dry-run", "--mode", mode, *STATED, "--", *launch, variables=bench.variables())
    assert (done.returncode, done.stdout, bench.started) == (code, "", False), done.stderr
    assert ("the launch was not started" in done.stderr) == (code == 3)
    off = drafters("guard", "--dry-run", "--", *launch, variables=bench.variables(DRAFTERS_GUARD="off"))
    assert (off.returncode, off.stderr, bench.started) == (0, "", False)
