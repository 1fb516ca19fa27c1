"""One release's argument parser in a process of its own, asked by line."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "answer.py")


class ReleaseProcess:
    """A running `programs/answer.py`.

    Args:
        environment: Where the release runs (`environments.environment_for`).
        variables: Variables to add, or to take away (None).
    """

    def __init__(self, environment, variables=None):
        environ = environment.environ()
        for name, value in (variables or {}).items():
            environ.pop(name, None) if value is None else environ.update({name: value})
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [environment.python, "-W", "ignore", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environ,
            cwd=tempfile.gettempdir(),
        )

    def ask(self, **question):
        """One question, one answer."""
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.errors.seek(0)
            raise RuntimeError(f"the release's process ended: {self.errors.read()[-3000:]}")
        return json.loads(line)

    def close(self):
        """End it."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()
