"""The small registry of these tests: what is in it, a server of it, and how the answers of commands are read."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager

#: Version to the output ids that it was trained on.
VERSIONS = {"1.0.0": "2,30,58", "1.1.0": "2,30,58", "2.0.0": "-1,2,30"}
NAME = "kimi-eagle3"


def started(command, *arguments, variables):
    """The command as a process of its own, as the fixture `drafters` of one test starts it."""
    environment = {name: value for name, value in (os.environ | variables).items() if value is not None}
    argv = [command, *map(str, arguments)]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def serving(command, drafters, data, folder):
    """A server of that registry; yields what runs a command through it."""
    token = folder / "token"
    argv = [command, "serve", "--port", "0", "--json", "--data", str(data), "--admin-token-file", str(token)]
    environment = os.environ | {"HOME": str(folder)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            url = json.loads(server.stdout.readline())["url"]
            remote = {"HOME": str(folder), "DRAFTERS_URL": url, "DRAFTERS_TOKEN": token.read_text().strip()}
            remote["DRAFTERS_DATA"] = str(folder / "nobody")

            def run(*arguments, more=None):
                return drafters(*arguments, variables=remote | (more or {}))

            run.url = url
            yield run
            assert not (folder / "nobody").exists(), "a command that has a server makes no registry of its own"
        finally:
            server.terminate()


def good(done):
    """The same, which succeeded."""
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def read(done):
    """The document that it printed."""
    return json.loads(good(done).stdout)


def versions(done):
    """Versions of the list that it printed."""
    return [item["version"] for item in read(done)["items"]]
