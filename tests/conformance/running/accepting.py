"""A real server that drafts and is watched: its traffic, what `drafters observe` and `doctor` say of it, the table."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import answering
import environments
import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from incident import Models

#: Requests at once: each line of the log is the mean of so many verify steps.
AT_ONCE = 8
#: What an operator adds to be able to watch: counters, and a line per step. Later flags win over `answering`'s.
WATCHED = ("--enable-metrics", "--decode-log-interval", "1", "--max-running-requests", str(AT_ONCE))
WATCHED += ("--attention-backend", "intel_amx", "--disable-radix-cache")
#: The release's own tree kernels run in Triton's interpreter, and its attention on the stand-in's operators.
MACHINE = {"TRITON_INTERPRET": "1", "STANDIN_KEEP_INTEL_AMX": "1"}
#: The switch that makes figures up.
SIMULATED = {"SGLANG_SIMULATE_ACC_LEN": "2.5"}
#: A wait for readings, on a busy machine.
SECONDS = 1800
REPORT = "accept len"
#: Reports after which it answers questions in time: the first passes compile.
WARM = 10
HEADINGS = ("The drafter is fed", "boundaries", "by its log", "by its counters", "against the estimate")
HEADINGS += ("against the measurement", "doctor")


class Engine(NamedTuple):
    """A server that drafts, under traffic.

    Attributes:
        url: Where it answers.
        log: Its log.
        fresh: Its `/metrics` before the first request.
    """

    url: str
    log: str
    fresh: bytes

    def wait(self, reports: int) -> None:
        """Until its log has so many reports of a decoding batch.

        Raises:
            TimeoutError: It has not, after half an hour.
        """
        until = time.monotonic() + SECONDS
        while self.reports() < reports:
            if time.monotonic() > until:
                raise TimeoutError(f"{self.reports()} of {reports} reports after {SECONDS} s")
            time.sleep(1)

    def reports(self) -> int:
        """Reports in its log."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return sum(REPORT in line for line in file)


@contextlib.contextmanager
def engine(models: Models, flags: list[str], folder: str, variables: dict[str, str] | None = None) -> Iterator[Engine]:
    """A server with a drafter, and requests for the held-out texts until the end of the block."""
    log = os.path.join(folder, "engine.log")
    given = MACHINE | (variables or {})
    server = answering.server(whole.RELEASE, models.target, log, *WATCHED, *flags, variables=given)
    with server as url:
        fresh = got(url, "metrics")
        with _traffic(models, url):
            engine = Engine(url, log, fresh)
            engine.wait(WARM)
            yield engine


@contextlib.contextmanager
def _traffic(models: Models, url: str) -> Iterator[None]:
    over, failures = threading.Event(), []

    def ask(number: int) -> None:
        while not over.is_set():
            try:
                generate(url, models.texts[number % len(models.texts)][: models.prompts[0]], models.new)
            except (OSError, http.client.HTTPException) as error:
                failures.append(error)
                return
            number += AT_ONCE

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    try:
        yield
        assert not failures, failures
    finally:
        over.set()
        for thread in threads:
            thread.join(answering.SECONDS)


def generate(url: str, tokens: list[int], new: int) -> dict:
    """One greedy request, to its end."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=answering.SECONDS)
    sampling = {"max_new_tokens": new, "temperature": 0, "ignore_eos": True}
    body = json.dumps({"input_ids": tokens, "sampling_params": sampling})
    try:
        connection.request("POST", "/generate", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == http.client.OK, answer.read()
        return json.loads(answer.read())
    finally:
        connection.close()


def got(url: str, path: str) -> bytes:
    """What the server answers to a question."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=answering.SECONDS)
    try:
        connection.request("GET", f"/{path}")
        return connection.getresponse().read()
    finally:
        connection.close()


def table(kept: dict) -> str:
    """The table of a page, from what was kept."""
    rows = [HEADINGS, ("---", "---", "---:", "---:", "---", "---", "---")]
    for one in sorted(kept.values(), key=lambda one: -one["log"]):
        lengths = (f"{one['log']:.2f}", f"{one['counters']:.2f}")
        words = (one["estimate"], one["measured"], ", ".join(f"`{code}`" for code in one["doctor"]) or "no cause")
        rows.append((one["name"], ", ".join(map(str, one["boundaries"])), *lengths, *words))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def release() -> str:
    """The release, as promises name it; its environment is built now if it is not in the cache."""
    environments.environment_for(whole.RELEASE)
    return f"sglang {whole.RELEASE}"
