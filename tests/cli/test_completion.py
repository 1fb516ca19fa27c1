"""Completion, asked of the shell itself: what it offers after a key press."""

import json
import os
import shutil
import subprocess

import pytest

from drafter_cli import main
from drafter_cli.completion.every_command import every_command
from drafter_cli.completion.scripts import SHELLS, bash, fish, zsh
from drafter_cli.completion.words import names_a_path

#: Sources the script, completes the words given (the last one is under the cursor), prints what is offered.
ASK_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_drafters drafters "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "drafters.bash"
    path.write_text(bash(), encoding="utf-8")
    return str(path)


@pytest.fixture
def ask(script, tmp_path):
    """What bash offers for the words of a command line."""
    (tmp_path / "weights dir").mkdir()
    (tmp_path / "file.json").write_text("{}")

    def offered(*words):
        done = subprocess.run(
            ["bash", "--norc", "-c", ASK_BASH, "ask", script, "drafters", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        assert done.stderr == ""
        return set(done.stdout.split("\n")) - {""}

    return offered


def test_bash_offers_every_command(ask):
    assert ask("") >= {name.partition(" ")[0] for name in main.COMMANDS}
    assert ask("alias", "") == {"set", "rm", "history"}
    assert ask("yan") == {"yank"}
    assert "check" in ask("help", "")


@pytest.mark.parametrize("command", every_command(), ids=lambda command: command.name.replace(" ", "-"))
def test_bash_offers_every_option_of_every_command(ask, command):
    assert ask(*command.name.split(), "-") == {*(option.name for option in command.options), "--help"}


def test_bash_offers_the_values_of_an_option(ask):
    assert ask("list", "--state", "") == {"live", "yanked", "deleted", "all"}
    assert ask("list", "--state", "ya") == {"yanked"}
    assert ask("list", "--state", "=", "ya") == {"yanked"}
    assert ask("list", "--state", "=") == {"live", "yanked", "deleted", "all"}
    assert ask("completion", "") == {"bash", "zsh", "fish"}


def test_bash_offers_files_where_a_file_is_meant(ask):
    assert ask("inspect", "") == {"weights dir", "file.json"}
    assert ask("list", "--data", "wei") == {"weights dir"}
    assert ask("guard", "--", "fi") == {"file.json"}
    assert ask("guard", "--", "--st") == set()


@pytest.mark.parametrize(
    "words", [("show", ""), ("list", "--limit", ""), ("list", ""), ("nonsense", ""), ("list", "--", "")]
)
def test_bash_offers_nothing_where_it_knows_nothing(ask, words):
    assert ask(*words) == set()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_another_shell_reads_its_script(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(SHELLS[shell](), encoding="utf-8")
    subprocess.run([shell, "-n", path], check=True, capture_output=True, timeout=30)


def test_the_other_scripts_name_every_command_and_option():
    for command in every_command():
        first, _, second = command.name.partition(" ")
        assert f"'{second or first}:" in zsh()
        assert f"-a '{second or first}'" in fish()
        for option in command.options:
            assert f"'{option.name}:" in zsh()
            assert f"-l {option.name.removeprefix('--')}" in fish()


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_command_prints_the_script_alone(drafters, shell):
    done = drafters("completion", shell)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", SHELLS[shell]())


def test_an_unknown_shell(drafters):
    done = drafters("completion", "tcsh")
    assert done.returncode == 2
    assert "one of bash, zsh, fish" in done.stderr


def test_the_evaluated_script_completes_in_an_interactive_shell(command, tmp_path):
    """As in ~/.bashrc, with the real command on the path and a real key press."""
    path = os.pathsep.join([os.path.dirname(command), os.environ["PATH"]])
    keys = 'bind "set show-all-if-ambiguous on" 2>/dev/null; eval "$(drafters completion bash)"; complete -p drafters'
    done = subprocess.run(
        ["bash", "--norc", "-i", "-c", keys],
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert done.stdout.strip() == "complete -F _drafters drafters"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("FILE", True),
        ("[DRAFTER]", True),
        ("DIR...", True),
        ("RELEASE|PATH", True),
        ("REF", False),
        ("NAME@ALIAS", False),
    ],
)
def test_which_words_are_paths(word, expected):
    assert names_a_path(word) is expected


def test_the_script_is_a_document_with_json(drafters):
    done = drafters("completion", "bash", "--json")
    document = json.loads(done.stdout)
    assert document["shell"] == "bash"
    assert document["script"].strip() == drafters("completion", "bash").stdout.strip()
