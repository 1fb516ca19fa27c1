"""The demo's registry: a server of its own on this machine, a drafter published to it, and what it resolves to.

All of it through the `drafters` command, each one a process of its own, over HTTP on the loopback interface.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import msgspec

from drafter_cli.demo_files import TRAINED_OUTPUT_IDS
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "kimi-k2.5-eagle3"
_ENDS_WITHIN = 30


class Asked(msgspec.Struct, frozen=True):
    """A command that was run: as one would write it, what it printed, and its exit code."""

    line: str
    output: str
    errors: str
    code: int


class Customer:
    """Runs `drafters` commands against one server.

    Args:
        url: The server.
        token: Its admin token.
    """

    def __init__(self, url: str, token: str) -> None:
        self.variables = _surroundings() | {"DRAFTERS_URL": url, "DRAFTERS_TOKEN": token}

    def ask(self, *arguments: str) -> Asked:
        """Run one command to its end."""
        done = subprocess.run(  # noqa: S603 - this program itself
            _command(*arguments), env=self.variables, capture_output=True, text=True, check=False
        )
        return Asked(" ".join(("drafters", *arguments)), done.stdout.strip(), done.stderr.strip(), done.returncode)


def registry_story(target: str, text_model: str, drafter: str, tell: Callable[[Asked], None]) -> bool:
    """Publish over HTTP, resolve for two releases, be refused once; then a render, vLLM, and a lock.

    Args:
        target: Directory of the target.
        text_model: Directory of its text model alone, for a release that has no hook for the whole.
        drafter: Directory of the drafter.
        tell: Called with each command.

    Returns:
        Whether everything was answered as the story has it.
    """
    stated = ("--output-ids", ",".join(map(str, TRAINED_OUTPUT_IDS)), "--producer", "specforge==0.2.0")
    recommended = ("--steps", "3", "--topk", "1", "--draft-tokens", "4")
    version = ("--name", NAME, "--version", "1.0.0", "--target", target, "--alias", "prod")
    questions = (
        (("publish", drafter, *version, *stated, *recommended), EXIT_OK),
        (("resolve", f"{NAME}@prod", "--engine", "sglang==0.5.23", "--target", target), EXIT_OK),
        (("resolve", f"{NAME}@prod", "--engine", "sglang==0.5.9", "--target", text_model), EXIT_OK),
        (("resolve", f"{NAME}@prod", "--engine", "sglang==0.5.9", "--target", target), EXIT_REFUSED),
        (("resolve", f"{NAME}@prod", "--engine", "sglang==0.5.23", "--target", target, "--prefer", "render"), EXIT_OK),
        (("resolve", f"{NAME}@prod", "--engine", "vllm==0.33.0", "--target", target), EXIT_OK),
        (("lock", f"{NAME}@prod", "--engine", "sglang==0.5.23", "--target", target), EXIT_OK),
    )
    with _server("registry") as customer:
        for arguments, expected in questions:
            asked = customer.ask(*arguments)
            tell(asked)
            if asked.code != expected or (bool(asked.output) != (expected == EXIT_OK)):
                return False
    return True


@contextmanager
def _server(data: str) -> Iterator[Customer]:
    """A registry's server on embedded defaults, until the story is over."""
    token_file = os.path.abspath("admin-token")
    command = _command("serve", "--port", "0", "--data", data, "--admin-token-file", token_file, "--json")
    with open("server.log", "wb") as log:
        process = subprocess.Popen(  # noqa: S603 - this program itself
            command, env=_surroundings(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
    if process.stdout is None:  # never so: it was asked for
        raise AssertionError
    try:
        url = str(msgspec.json.decode(process.stdout.readline())["url"])
        with open(token_file, encoding="utf-8") as file:
            yield Customer(url, file.read().strip())
    finally:
        process.terminate()
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from drafter_cli.main import entry; entry()", *arguments]


def _surroundings() -> dict[str, str]:
    """This process's variables, without those that would lead the story to somebody's real registry."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTERS_")}
    return own | {"DRAFTERS_CONFIG": "", "DRAFTERS_CACHE": os.path.abspath("cache")}
