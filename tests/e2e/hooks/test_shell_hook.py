"""A shell that has sourced the hook: what the engine gets, what else runs, who is ended, and how it is taken back."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

LAUNCH = 'python -m sglang.launch_server "$@"'
#: A program that says how often `drafters` was started.
COUNTING = '#!/bin/sh\necho started >>"$FOLDER/drafters-started"\nexit 0\n'


def counted(yard):
    """A hook that calls a program which only counts; returns the file that it counts in."""
    program = os.path.join(yard.bench.folder, "counting", "drafters")
    os.makedirs(os.path.dirname(program))
    with open(program, "w", encoding="utf-8") as file:
        file.write(COUNTING)
    os.chmod(program, 0o700)
    hooked_with(yard, program)
    return os.path.join(yard.bench.folder, "drafters-started")


def hooked_with(yard, program):
    from drafter_cli.hooks.shell import script

    with open(yard.hook, "w", encoding="utf-8") as file:
        file.write(script(program))


@pytest.mark.parametrize(
    "text", [LAUNCH, f"exec {LAUNCH}", f"nohup {LAUNCH}", '"$VENV/bin/python" -m sglang.launch_server "$@"']
)
def test_the_engine_gets_what_it_would_have_got(yard, shell, text):
    odd = ("--served-model-name", "a b'c\"d\\", "--chat-template", "", "--tokenizer-path", "two\nlines * $HOME `x`")
    keywords = {"stdin": None, "input": "one\ntwo\n", "does": "read", "variables": {"EXTRA": "ü=\n", "PWD": "/nowhere"}}
    if shell == "dash" and "VENV" in text:
        pytest.skip("a program named by its path is not caught there")
    told = []
    for hooked in (True, False):
        if not hooked:
            os.truncate(yard.hook, 0)
        done = yard.run(shell, text, yard.bench.right, *odd, **keywords)
        assert (done.returncode, done.stdout) == (0, "engine output\n"), done.stderr[-900:]
        told.append(yard.bench.told())
        os.remove(yard.bench.record)
    for one in told:
        del one["pid"]
        one["environment"] = {k: v for k, v in one["environment"].items() if k != "_" and not k.startswith("COVERAGE")}
    assert told[0] == told[1]
    assert told[0]["stdin"] == "one\ntwo\n"
    assert told[0]["argv"][-len(odd) :] == list(odd)


def test_a_here_document_is_the_engine_s_input(yard, shell):
    done = yard.run(shell, f"{LAUNCH} <<END\none $HOME\nEND", yard.bench.right, does="read")
    assert done.returncode == 0, done.stderr[-900:]
    assert yard.bench.told()["stdin"] == f"one {yard.bench.folder}\n"


def test_the_exit_status_is_the_engine_s(yard, shell):
    done = yard.run(shell, f'{LAUNCH}\necho "$?"', yard.bench.right, does="exit 17")
    assert done.stdout == "engine output\n17\n", done.stderr[-900:]


@pytest.mark.parametrize(
    "text", [f"{LAUNCH} &", f"nohup {LAUNCH} &", '"$VENV/bin/python" -m sglang.launch_server "$@" &']
)
def test_signals_reach_an_engine_in_the_background(yard, shell, text):
    """$! is the engine, a child of the shell, and nothing stands between them."""
    started = 'echo "$!" >"$FOLDER/pid"\nwhile ! [ -e "$ENGINE_RECORD" ]; do sleep 0.05; done'
    text = f'{text}\n{started}\nkill -s TERM "$!"; wait "$!"; echo "$?"'
    done = yard.run(shell, text, yard.bench.right, does="wait")
    assert done.stdout.endswith("43\n"), done.stderr[-900:]
    with open(os.path.join(yard.bench.folder, "pid"), encoding="utf-8") as file:
        assert int(file.read()) == yard.bench.told()["pid"]


def test_an_interrupt_from_the_keyboard_reaches_the_engine(yard, shell):
    argv = [shell, yard.script(LAUNCH), *yard.arguments(yard.bench.right)]
    with subprocess.Popen(
        argv, env=yard.variables("wait"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        engine = yard.bench.told()["pid"]
        os.killpg(process.pid, signal.SIGINT)
        process.wait(30)
    assert not os.path.exists(f"/proc/{engine}")


SETTINGS = ["set -eu; set -C; set -f", "IFS=/:", "set -a; IFS=", "umask 777; cd /"]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("drafter", "code"), [("right", 17), ("wrong", 3)])
def test_a_shell_s_settings_make_no_difference(yard, shell, setting, drafter, code):
    text = f'{setting}\n. "$HOOK"\n{LAUNCH}\nexit "$?"'
    own = {"DRAFTERS_CACHE": os.path.join(yard.bench.folder, "own cache")}
    done = yard.run(shell, text, getattr(yard.bench, drafter), does="exit 17", variables=own)
    assert (done.returncode, yard.bench.started) == (code, drafter == "right"), done.stderr[-900:]


@pytest.mark.parametrize("options", [("--posix",), ("-e", "-u", "-o", "pipefail"), ("-x",), ("-p",)])
@pytest.mark.parametrize(("drafter", "code"), [("right", 17), ("wrong", 3)])
def test_bash_with_options(yard, options, drafter, code):
    text = f'f() {{ {LAUNCH}; exit $?; }}; f "$@"'
    done = yard.run("bash", text, getattr(yard.bench, drafter), options=options, does="exit 17")
    assert (done.returncode, yard.bench.started) == (code, drafter == "right"), done.stderr[-900:]


@pytest.mark.parametrize("how", ['eval "$(drafters hook shell)"', '. "$(drafters hook shell --path)"', ""])
def test_every_way_to_source_it(yard, shell, how):
    text = how or (
        "source <(drafters hook shell)" if shell != "dash" else 'hook=$(drafters hook shell) && eval "$hook"'
    )
    os.truncate(yard.hook, 0)
    script = f'{text}\nnohup "$VENV/bin/python" -m sglang.launch_server "$@"\n: >"$MARKER"'
    path = os.path.dirname(yard.command) + os.pathsep + yard.variables()["PATH"]
    done = yard.run(shell, script, yard.bench.wrong, variables={"PATH": path})
    assert (done.returncode, yard.bench.started, yard.went_on) == (3, False, False), done.stderr[-900:]


def test_sourced_twice_is_sourced_once(yard, shell):
    text = f'before=$PATH:$_DRAFTERS_HOOK\n. "$HOOK"\n[ "$before" = "$PATH:$_DRAFTERS_HOOK" ] && echo same\n{LAUNCH}'
    done = yard.run(shell, text, yard.bench.wrong)
    assert (done.returncode, done.stdout, yard.bench.started) == (3, "same\n", False), done.stderr[-900:]
    assert done.stderr.count("the launch was not started") == 1


OTHERS = [
    "python train.py", "python -m pip --version", "python -c 'print(1)' sglang", "env true", "nohup true",
    "python -m sglang.bench_serving", "sglang version", "nice grep -m sglang x", "true sglang.launch_server",
    'echo "python -m sglang.launch_server"', "timeout 9 true", 'for i in 1 2 3; do "$VENV/bin/python" -c 1; done',
]  # fmt: skip


def test_what_is_no_launch_runs_as_it_is(yard, shell):
    started = counted(yard)
    with open(os.path.join(yard.bench.folder, "train.py"), "w", encoding="utf-8") as file:
        file.write('print("trained")\n')
    text = "\n".join(['cd "$FOLDER"', *OTHERS, "exit 5"])
    done = yard.run(shell, text, yard.bench.wrong)
    assert done.returncode == 5, done.stderr
    assert "trained\n" in done.stdout
    assert not os.path.exists(started)
    yard.run(shell, LAUNCH, yard.bench.wrong)
    assert os.path.exists(started), "the counting itself works"


def test_programs_that_are_not_there_are_not_made_up(yard, shell):
    text = "for p in srun mpirun uv python3.8; do ! command -v $p || exit 9; done; command -v numactl"
    done = yard.run(shell, text, yard.bench.wrong)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(yard.cache)


@pytest.mark.parametrize(("mode", "started", "code"), [("enforce", False, 127), ("warn", True, 17), ("off", True, 17)])
def test_without_drafters_nothing_is_started_that_must_be_judged(yard, shell, mode, started, code):
    hooked_with(yard, "/nowhere/drafters")
    text = f'{LAUNCH}\nexit "$?"'
    variables = {"DRAFTERS_GUARD": mode}
    done = yard.run(shell, text, yard.bench.right, does="exit 17", variables=variables)
    assert (done.returncode, yard.bench.started) == (code, started), done.stderr
    assert ("drafters was not found" in done.stderr) == (mode != "off")


@pytest.mark.parametrize("kind", ["not executable", "broken"])
def test_a_drafters_that_does_not_run_starts_nothing(yard, shell, kind):
    program = yard.bench.script("drafters", "exit 0" if kind == "not executable" else "kill -9 $$", 0o600)
    if kind == "broken":
        os.chmod(program, 0o700)
    hooked_with(yard, program)
    done = yard.run(shell, f'{LAUNCH}\n: >"$MARKER"', yard.bench.right)
    assert done.returncode == (127 if kind == "not executable" else 137), done.stderr
    assert (yard.bench.started, yard.went_on) == (False, False)


@pytest.mark.parametrize(("mode", "code"), [("warn", 17), ("off", 17), ("wran", 2)])
def test_the_mode_is_the_guard_s(yard, shell, mode, code):
    text = f'DRAFTERS_GUARD={mode} {LAUNCH}\nexit "$?"'
    done = yard.run(shell, text, yard.bench.wrong, does="exit 17")
    assert (done.returncode, yard.bench.started) == (code, code == 17), done.stderr
    assert ("REFUSE" in done.stderr) == (mode == "warn")


def test_options_of_the_guard_are_variables(yard):
    text = f'{LAUNCH}\n: >"$MARKER"'
    done = yard.run("bash", text, yard.bench.right, variables={"DRAFTERS_ENGINE": "sglang==0.5.23"})
    assert (done.returncode, "by --output-ids" in done.stderr, "sglang 0.5.23" in done.stderr) == (3, True, True)
    done = yard.run("bash", text, yard.bench.right, variables={"DRAFTERS_DRAFTER": yard.bench.wrong})
    assert (done.returncode, "DRAFT_OTHER" in done.stderr) == (3, True)
    done = yard.run("bash", text, yard.bench.right, variables={"DRAFTERS_MANIFEST": "/nowhere.json"})
    assert (done.returncode, "/nowhere.json" in done.stderr, yard.bench.started) == (2, True, False)
    alone = {"DRAFTERS_LOCK": "/nowhere.lock", "DRAFTERS_ENGINE": "", "DRAFTERS_OUTPUT_IDS": ""}
    done = yard.run("bash", text, yard.bench.right, variables=alone)
    assert (done.returncode, "/nowhere.lock" in done.stderr, yard.bench.started) == (2, True, False)
    named = {"DRAFTERS_TARGET": yard.bench.plain_target, "DRAFTERS_OUTPUT_IDS": "", "DRAFTERS_BOUNDARIES": "3,31,59"}
    done = yard.run("bash", text, yard.bench.right, variables=named)
    assert ("--boundaries 3,31,59" in done.stderr, yard.bench.plain_target in done.stderr) == (True, True)


def test_it_can_be_taken_back(yard, shell):
    text = (
        'before=$PATH\nset >"$FOLDER/before"\ntrap >"$FOLDER/traps"\n. "$FOLDER/hook"\n'
        '[ "$PATH" != "$before" ] || exit 8\n'
        'drafters_unhook\n[ "$PATH" = "$before" ] || exit 9\nset >"$FOLDER/after"\ntrap >"$FOLDER/traps-after"\n'
        'env | grep _DRAFTERS_ && exit 10\necho "$-"\n' + LAUNCH
    )
    hook = os.path.join(yard.bench.folder, "hook")
    os.rename(yard.hook, hook)
    with open(yard.hook, "w", encoding="utf-8") as file:
        file.write('echo "$-"\n')
    done = yard.run(shell, text, yard.bench.wrong)
    assert (done.returncode, yard.bench.started) == (0, True), done.stderr
    assert len(set(done.stdout.split("\n")[:2])) == 1, done.stdout
    left = {}
    for name in ("after", "traps", "traps-after"):
        with open(os.path.join(yard.bench.folder, name), encoding="utf-8") as file:
            left[name] = "".join(line for line in file if not line.startswith("BASH_COMMAND="))
    assert "_drafters" not in left["after"]
    assert left["traps"] == left["traps-after"]


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize("text", [LAUNCH, f"exec {LAUNCH}", 'exec "$VENV/bin/python" -m sglang.launch_server "$@"'])
def test_an_interactive_shell_is_not_ended(yard, name, text):
    if name == "zsh" and "exec python" in text:
        pytest.skip("exec of a stand-in replaces zsh")
    options = {"bash": ("--norc", "-i"), "zsh": ("-f", "-i")}[name]
    done = yard.run(name, f'{text}\necho "code $?"', yard.bench.wrong, options=options, start_new_session=True)
    assert not yard.bench.started
    assert "code 3\n" in done.stdout, done.stderr[-1200:]
    assert "_drafters_" not in done.stderr, "an error of the hook itself"


def test_traps_of_the_script_are_kept(yard, shell):
    text = f"trap 'echo cleaned up' EXIT\ntrap 'echo term' TERM\n{LAUNCH}\necho on"
    done = yard.run(shell, text, yard.bench.wrong)
    assert (done.returncode, done.stdout) == (3, "cleaned up\n"), done.stderr[-900:]
    before = f"trap 'echo cleaned up' EXIT\n. \"$HOOK\"\n{LAUNCH}\necho on"
    done = yard.run(shell, before, yard.bench.wrong)
    assert (done.returncode, done.stdout) == (3, "cleaned up\n"), done.stderr[-900:]


def test_scripts_inside_scripts_all_end(yard, shell):
    inner = yard.bench.script("inner.sh", f'. "$HOOK"\n{LAUNCH}\n: >"$MARKER"')
    done = yard.run(shell, f'"{inner}" "$@" || : >"$MARKER"\n: >"$MARKER"', yard.bench.wrong)
    assert (done.returncode, yard.bench.started, yard.went_on) == (3, False, False), done.stderr[-900:]


def test_what_has_nothing_to_do_with_the_script_is_left_alone(yard, shell):
    """A process that only inherited the variable, after the script it names is gone or is another program."""
    text = f'sleep 30 & other=$!\n(_DRAFTERS_HOOK="$other:1"; {LAUNCH}; echo "went on $?")\nkill "$other" && echo alive'
    done = yard.run(shell, text, yard.bench.wrong)
    assert done.stdout == "went on 3\nalive\n", done.stderr[-900:]


def test_a_cache_that_cannot_be_written_ends_the_script(yard, shell):
    blocked = os.path.join(yard.bench.folder, "file")
    with open(blocked, "w", encoding="utf-8"):
        pass
    variables = {"DRAFTERS_CACHE": blocked}
    done = yard.run(shell, f'{LAUNCH}\n: >"$MARKER"', yard.bench.right, variables=variables)
    assert (done.returncode, yard.bench.started, yard.went_on) == (2, False, False), done.stderr
    assert "set DRAFTERS_CACHE" in done.stderr
    done = yard.run(shell, LAUNCH, yard.bench.right, variables=variables | {"DRAFTERS_GUARD": "warn"})
    assert (done.returncode, yard.bench.started) == (0, True), done.stderr


def test_nothing_is_left_behind(yard, shell):
    folder = os.path.join(yard.bench.folder, "cache of its own")
    environment = {"DRAFTERS_CACHE": folder}
    yard.run(shell, f"{LAUNCH} &\nwait", yard.bench.wrong, variables=environment)
    kept = os.path.join(folder, "shell-hook")
    (stand_ins,) = os.listdir(kept)
    assert stand_ins.startswith("drafters-shims-")
    assert {os.readlink(entry.path) for entry in os.scandir(os.path.join(kept, stand_ins)) if entry.is_symlink()} == {
        "drafters_launch"
    }


def test_json(drafters, tmp_path):
    done = drafters("hook", "shell", "--json")
    assert "drafters_unhook" in json.loads(done.stdout)["script"]
    done = drafters("hook", "shell", "--path", "--json", variables={"DRAFTERS_CACHE": str(tmp_path)})
    path = json.loads(done.stdout)["path"]
    assert path == str(tmp_path / "shell-hook" / "drafters-hook.sh")
    with open(path, encoding="utf-8") as file:
        assert file.read() == drafters("hook", "shell").stdout
    assert drafters("hook", "shell", "--path", "--print").returncode == 2
    done = drafters("hook", "shell", "--path", variables={"DRAFTERS_CACHE": path})
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_a_program_named_by_its_path_is_a_function_for_one_launch_only(yard, name):
    launch = '"$VENV/bin/python" -m sglang.launch_server "$@"'
    other = f"{yard.bench.python} -c 1"
    text = f'{launch} & wait\n({other}; echo inside)\n{other} &\nwait "$!"; echo after'
    done = yard.run(name, text, yard.bench.right)
    assert done.stdout == "engine output\ninside\nafter\n", done.stderr[-900:]


@pytest.mark.parametrize("name", ["bash", "zsh"])
def test_a_variable_that_is_not_set_yet_does_no_harm(yard, name):
    """zsh shows the hook a group as a whole, before anything in it has run."""
    text = '{ d=$VENV; "$d/bin/python" -m sglang.launch_server "$@"; } | cat'
    done = yard.run(name, text, yard.bench.right, options=("-u",))
    assert (done.returncode, done.stdout) == (0, "engine output\n"), done.stderr[-900:]
    assert "not set" not in done.stderr


#: A directory with a program of which there is a stand-in, and none yet.
NEW = 'mkdir "$FOLDER/new"; cp /bin/true "$FOLDER/new/srun"\n'


@pytest.mark.parametrize("change", ['PATH="$FOLDER/new:$PATH"', 'PATH="$FOLDER/new"', "PATH=", "unset PATH"])
def test_a_script_goes_on_as_before_when_programs_come_and_go(yard, shell, change):
    """Stand-ins are made while a command is looked at: what makes them is not looked at, or it would never end."""
    text = f'{NEW}{change}\necho on\n(echo inside)\nsrun\nPATH=/usr/bin:/bin\necho "$(sleep 0; echo last)"'
    kept = {"DRAFTERS_CACHE": yard.bench.folder}
    options = ("--kill-after=1", "30", shell, "-u")  # it ends all that they start
    done = yard.run("timeout", text, yard.bench.right, options=options, variables=kept)
    assert done.stdout == "on\ninside\nlast\n", done.stderr[-900:]
    assert "srun" in done.stderr or "$FOLDER" in change


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize("change", ['PATH="$VENV/bin:$FOLDER/new"', "unset PATH"])
def test_a_refusal_ends_the_script_also_without_the_system_s_programs(yard, name, change):
    text = f'{NEW}venv=$VENV\n{change}\n"$venv/bin/python" -m sglang.launch_server "$@"\n: >"$MARKER"'
    done = yard.run(name, text, yard.bench.wrong, variables={"DRAFTERS_CACHE": yard.bench.folder})
    assert (done.returncode, yard.bench.started, yard.went_on) == (3, False, False), done.stderr[-900:]


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize("launch", [LAUNCH, f"nohup {LAUNCH}", '"$VENV/bin/python" -m sglang.launch_server "$@"'])
def test_a_cache_that_was_cleared_meanwhile_is_filled_again(yard, name, launch):
    text = f'rm -rf "$DRAFTERS_CACHE/shell-hook"\n{launch}\n: >"$MARKER"'
    kept = {"DRAFTERS_CACHE": os.path.join(yard.bench.folder, "kept")}
    done = yard.run(name, text, yard.bench.wrong, variables=kept)
    assert (done.returncode, yard.bench.started, yard.went_on) == (3, False, False), done.stderr[-900:]


def test_drafters_finds_the_engine_behind_the_stand_ins(yard, shell):
    asked = '--json -- python -m sglang.launch_server "$@"'
    text = f'"$DRAFTERS" check {asked} >"$FOLDER/hooked"\ndrafters_unhook\n"$DRAFTERS" check {asked} >"$FOLDER/plain"'
    yard.run(shell, text, yard.bench.right, variables={"DRAFTERS": yard.command})
    told = []
    for name in ("hooked", "plain"):
        with open(os.path.join(yard.bench.folder, name), encoding="utf-8") as file:
            told.append(file.read())
    assert told[0] == told[1]
    assert yard.bench.package.replace("/sglang", "") in told[0]


@pytest.mark.parametrize(("options", "code"), [("--output-ids 0,29,57", 3), ("--mode warn --output-ids 0,29,57", 0)])
def test_what_the_guard_decided_is_not_decided_again(yard, shell, options, code):
    """The hook knows of another layout, by its variable; the guard is told its own."""
    engine = "--engine sglang==0.5.12.post1"
    text = f'"$DRAFTERS" guard {options} {engine} -- python -m sglang.launch_server "$@"; echo "code $?"'
    done = yard.run(shell, text, yard.bench.right, variables={"DRAFTERS": yard.command})
    assert f"code {code}\n" in done.stdout, done.stderr[-900:]
    assert yard.bench.started is (code == 0)
    assert done.stderr.count("REFUSE") == 1
    if code == 0:
        assert "drafters-shims" not in yard.bench.told()["environment"]["PATH"]


def test_what_the_guard_does_not_know_as_an_engine_stays_hooked(yard, shell):
    """In mode off it becomes any command; engines that this one starts are the hook's."""
    start = yard.bench.script("inner.sh", LAUNCH)
    done = yard.run(
        shell, f'"$DRAFTERS" guard --mode off -- {start} "$@"', yard.bench.wrong, variables={"DRAFTERS": yard.command}
    )
    assert (done.returncode, yard.bench.started) == (3, False), done.stderr[-900:]
