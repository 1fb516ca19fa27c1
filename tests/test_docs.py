"""The documentation says what is: its commands, targets, links and exit codes exist."""

from __future__ import annotations

import glob
import importlib
import os
import re
import shlex

import pytest

from drafter_cli import main
from drafter_cli.commandline import parse, wants_help
from drafter_cli.demo_files import write_drafter, write_target
from drafter_cli.errors import EXIT_CODES

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = sorted(
    os.path.relpath(path, ROOT)
    for pattern in ("*.md", "docs/*.md", "docs/adr/*.md", "examples/*.md")
    for path in glob.glob(os.path.join(ROOT, pattern))
)


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def shell_lines(page):
    """Every command of a page's code blocks, with continued lines joined."""
    for block in re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", read(page), flags=re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            words = re.split(r" (?:#|>|\|+ )", line.removeprefix("$ "))[0]
            if words.startswith(("drafters ", "make ")):
                yield words


def sessions(page):
    """(command, output) of every `$ drafters` line in a page's console blocks; output "" where none is shown."""
    for block in re.findall(r"^```console\n(.*?)^```", read(page), flags=re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            match = re.match(r"((?:[^\n]*\\\n)*[^\n]*\n)(.*)", part, flags=re.DOTALL)
            line = match[1].replace("\\\n", " ").strip()
            if line.startswith("drafters "):
                yield line, match[2]


def commands(page, program):
    return [line for line in shell_lines(page) if line.startswith(program + " ")]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", read(page)):
        if "://" not in target:
            assert os.path.exists(os.path.join(ROOT, os.path.dirname(page), target)), f"{page}: {target}"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page):
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE))
    for line in commands(page, "make"):
        words = [word for word in shlex.split(line)[1:] if "=" not in word]
        assert set(words) <= targets, f"{page}: {line}"
    assert {"demo", "test", "lint", "bench", "profiles", "docs"} <= targets


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_exist(page):
    for line in commands(page, "drafters"):
        argv = shlex.split(line.replace("[DRAFTER]", "d").replace("[options]", ""))[1:]
        if argv[0] == "COMMAND" or argv[0].startswith("--"):
            continue
        name, rest = main._find_command(argv)
        command = importlib.import_module(f"drafter_cli.{main.COMMANDS[name][0]}").COMMANDS[name]
        if not wants_help(rest):
            parse(command, rest)


@pytest.mark.parametrize("page", [page for page in PAGES if any(output for _, output in sessions(page))])
def test_shown_output_is_what_is_printed(page, drafters, tmp_path):
    """Run in a directory with the incident's target and drafter; regenerate by pasting what this test prints."""
    write_target(str(tmp_path / "Kimi-K2.5"))
    write_drafter(str(tmp_path / "kimi-k2.5-eagle3"), ids=[2, 30, 58])
    for line, output in sessions(page):
        if output:
            done = drafters(*shlex.split(line)[1:], cwd=tmp_path)
            assert done.stdout.rstrip("\n") == output.rstrip("\n"), line


def test_there_are_pages_that_show_output():
    assert any(output for page in ("README.md", "docs/quickstart.md") for _, output in sessions(page))


def test_every_command_is_shown_in_the_readme():
    shown = " ".join(commands("README.md", "drafters"))
    for name in main.COMMANDS:
        assert f"drafters {name}" in shown


def test_exit_codes_are_documented_as_they_are():
    rows = re.findall(r"^\| (\d+) \| (.*?) \|$", read("docs/exit-codes.md"), flags=re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == list(EXIT_CODES)
    for code, meaning in re.findall(r"^\| (\d+) \| (.*?) \|$", read("README.md"), flags=re.MULTILINE):
        assert (int(code), meaning) in EXIT_CODES


def test_ci_runs_the_test_command_of_the_readme():
    assert "make test" in [line.strip() for line in commands("README.md", "make")]
    assert re.search(r"^exec make test$", read(".ci/run"), flags=re.MULTILINE)


def test_no_page_shows_something_unfinished():
    for page in PAGES:
        assert not re.search(r"\b(TODO|TBD|FIXME|BENCH-TABLE|XXX)\b", read(page)), page
