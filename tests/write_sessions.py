"""Run every `$ drafters` line of pages whose output is shown, and write that output anew: `make docs`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile

from drafter_cli.demo_files import write_drafter, write_target

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_BLOCK = re.compile(r"^```console\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
_SESSION = re.compile(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)\n((?:(?!\$ ).*\n)*)", flags=re.MULTILINE)


def output_of(line: str, folder: str) -> str:
    """What a command prints in a directory with the incident's target and drafter."""
    command = os.path.join(os.path.dirname(sys.executable), "drafters")
    words = shlex.split(line.replace("\\\n", " "))[1:]
    done = subprocess.run([command, *words], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.rstrip("\n") + "\n"


def fill(page: str, folder: str) -> None:
    """Write the output below each command of a page that has some."""
    path = os.path.join(ROOT, page)
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def session(match: re.Match[str]) -> str:
        if not match[1].startswith("drafters ") or not match[2]:
            return match[0]
        return f"$ {match[1]}\n{output_of(match[1], folder)}"

    filled = _BLOCK.sub(lambda block: f"```console\n{_SESSION.sub(session, block[1])}```", text)
    with open(path, "w", encoding="utf-8") as file:
        file.write(filled)


def main() -> None:
    """Fill the pages named."""
    with tempfile.TemporaryDirectory() as folder:
        write_target(os.path.join(folder, "Kimi-K2.5"))
        write_drafter(os.path.join(folder, "kimi-k2.5-eagle3"), ids=[2, 30, 58])
        for page in sys.argv[1:]:
            fill(page, folder)


if __name__ == "__main__":
    main()
