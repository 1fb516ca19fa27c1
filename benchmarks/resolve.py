"""Look-ups of a registry with many versions, beside a bare FastAPI endpoint that returns the same bytes.

    python benchmarks/resolve.py [--rounds 4] [--seconds 0.5] [--versions 10000] [--flat 100000]
        [--mlflow-python PYTHON]

One `drafters serve` process on SQLite, one on PostgreSQL, one bare application, and one MLflow server if its Python is
given; asked in turn, round after round, so that a noisy machine disturbs all alike. Medians of the rounds. `--flat`
asks the registries of 100 and of that many versions the same way; 0 leaves that out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from contextlib import ExitStack
from http.client import HTTPConnection

import msgspec
import processes
import stored_versions
from loadgen import Load, Task
from processes import Server
from stored_versions import ALIAS, Stored

ENGINE = "sglang==0.5.23"
CONNECTIONS = (1, 16)
SMALL = 100
BARE = "bare FastAPI"
TARGET_RATE = 1 / 3
TARGET_P99_MS = 10.0
TARGET_FLAT = 0.8
#: Versions that are asked about in turn.
_ASKED = 256
_PAGE = 50
#: More versions than plans are kept, so that each is worked out.
_NEVER_KEPT = 4096
#: How much further on among them each measurement begins.
_STEP = 1361


class Case(msgspec.Struct, frozen=True):
    """One kind of question.

    Attributes:
        name: What is asked.
        short: Name of the bare endpoint.
        questions: Whole requests.
        status: Of the answers.
        kept: Whether the questions repeat, so that their answers are kept.
    """

    name: str
    short: str
    questions: tuple[bytes, ...]
    status: int = 200
    kept: bool = True


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A whole request."""
    told = {"Host": "127.0.0.1", "Accept": "*/*", "User-Agent": "benchmark", **headers}
    if body:
        told |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in told.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


def cases(server: Server, stored: tuple[Stored, ...]) -> list[Case]:
    """The questions to a registry with these versions."""
    key = {"Authorization": f"Bearer {server.token}"}
    step = max(len(stored) // _ASKED, 1)
    asked = stored[::step][:_ASKED]

    def resolve(reference: str) -> bytes:
        body = msgspec.json.encode({"drafter": reference, "engine": ENGINE, "draft_path": "/models/drafter"})
        return request("POST", "/v1/resolve", body, **key)

    def show(reference: str, **more: str) -> bytes:
        name, _, rest = reference.partition("@")
        return request("GET", f"/v1/drafters/{name}/versions/{rest}", **key, **more)

    return [
        Case("resolve NAME@ALIAS for a release", "resolve", tuple(resolve(f"{one.name}@{ALIAS}") for one in asked)),
        Case("show NAME@ALIAS", "show", tuple(show(f"{one.name}@{ALIAS}") for one in asked)),
        Case(
            "show NAME@DIGEST, unchanged (304)",
            "unchanged/show",
            tuple(show(f"{one.name}@{one.digest}", If_None_Match=f'"{one.digest}"') for one in asked),
            304,
        ),
        Case(f"list, a page of {_PAGE}", "list", (request("GET", f"/v1/drafters?limit={_PAGE}", **key),)),
        Case("resolve, each plan worked out", "resolve", tuple(_all_versions(stored, resolve)), kept=False),
    ]


def _all_versions(stored: tuple[Stored, ...], resolve: object) -> list[bytes]:
    """One question for each of many versions."""
    names = [one.name for one in stored for _ in range(stored_versions.EACH)][:_NEVER_KEPT]
    return [resolve(f"{name}@1.{i % stored_versions.EACH}.0") for i, name in enumerate(names)]  # type: ignore[operator]


def answer(server: Server, question: bytes) -> bytes:
    """The body of one answer."""
    head, _, body = question.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, body or None, dict(line.split(": ", 1) for line in lines))
    response = connection.getresponse()
    data = response.read()
    connection.close()
    if response.status not in (200, 304):
        sys.exit(f"{first}: {response.status} {data.decode()[:2000]}")
    return data


class Side(msgspec.Struct, frozen=True):
    """One server, and what it is asked in each case (by the case's name)."""

    name: str
    server: Server
    cases: dict[str, Case]


class Result(msgspec.Struct, frozen=True):
    """Medians of the rounds of one case: answers per second, milliseconds, the server's processor time, microseconds.

    `busy` is the largest part of the time that the load's own process was at work.
    """

    rate: float
    p50: float
    p99: float
    work: float
    busy: float


Key = tuple[str, str, int]


def measure(sides: list[Side], options: argparse.Namespace) -> dict[Key, Result]:
    """Side, case and connections to what came of the rounds; first of what is kept, which the rest drives out."""
    names = dict.fromkeys(name for side in sides for name in side.cases)
    kept = [name for name in names if all(side.cases[name].kept for side in sides if name in side.cases)]
    return _rounds(sides, kept, options) | _rounds(sides, [name for name in names if name not in kept], options)


def _rounds(sides: list[Side], names: list[str], options: argparse.Namespace) -> dict[Key, Result]:
    found: dict[Key, list[tuple[Load, float]]] = {}
    for turn in range(options.rounds):
        for connections in CONNECTIONS:
            for name in names:
                for side in sides if turn % 2 else reversed(sides):
                    case = side.cases.get(name)
                    if case is None:
                        continue
                    warm = 0 if turn or connections > 1 or not case.kept else len(case.questions)
                    first = 0 if case.kept else (2 * turn + (connections > 1)) * _STEP % len(case.questions)
                    questions = case.questions[first:] + case.questions[:first]
                    task = Task(side.server.port, questions, connections, options.seconds, warm, case.status)
                    before = side.server.used()
                    load = processes.load(task)
                    work = (side.server.used() - before) / (load.answers + min(warm, len(case.questions))) * 1e6
                    found.setdefault((side.name, name, connections), []).append((load, work))
    return {key: _middle(*zip(*rounds, strict=True)) for key, rounds in found.items()}


def _middle(loads: tuple[Load, ...], work: tuple[float, ...]) -> Result:
    return Result(
        statistics.median(load.rate for load in loads),
        statistics.median(load.p50 for load in loads),
        statistics.median(load.p99 for load in loads),
        statistics.median(work),
        max(load.busy for load in loads),
    )


def bare_side(server: Server, like: list[Case]) -> Side:
    """The bare application, asked for the same bytes."""
    made = {}
    for case in like:
        question = case.questions[0].partition(b" ")[0].decode()
        body = case.questions[0].partition(b"\r\n\r\n")[2]
        made[case.name] = Case(case.name, case.short, (request(question, f"/{case.short}", body),), case.status)
    return Side(BARE, server, made)


def mlflow_side(server: Server, versions: int) -> Side:
    """An MLflow server, asked for the same: by alias, by version, a page."""
    drafters = versions // stored_versions.EACH
    names = [f"drafter-{i:05d}-eagle3" for i in range(0, drafters, max(drafters // _ASKED, 1))][:_ASKED]
    api = "/api/2.0/mlflow"
    by_alias = tuple(request("GET", f"{api}/registered-models/alias?name={name}&alias={ALIAS}") for name in names)
    page = request("GET", f"{api}/model-versions/search?max_results={_PAGE}")
    return Side(
        "MLflow, SQLite",
        server,
        {
            "show NAME@ALIAS": Case("", "", by_alias),
            f"list, a page of {_PAGE}": Case("", "", (page,)),
        },
    )


def report(sides: list[Side], found: dict[Key, Result]) -> None:
    """Print a table per case; the processor time of the server alone tells more than the rate on a busy machine."""
    for name in dict.fromkeys(case for side in sides for case in side.cases):
        print(f"\n{name}")
        for connections in CONNECTIONS:
            base = found.get((BARE, name, connections))
            for side in sides:
                one = found.get((side.name, name, connections))
                if one is None:
                    continue
                beside = f"{one.rate / base.rate:7.2f} of bare" if base is not None and side.name != BARE else ""
                work = f"{one.work:>5.0f} us" if one.work else "       -"  # MLflow works in processes of its own
                print(
                    f"  {side.name:<28}{connections:>3} open{one.rate:>8.0f}/s  p50{one.p50:>7.2f} ms"
                    f"  p99{one.p99:>7.2f} ms  cpu {work}{beside}"
                )


def verdict(found: dict[Key, Result], name: str) -> None:
    """Hold the registries against the targets, by what launchers ask."""
    print()
    for side in dict.fromkeys(key[0] for key in found if key[0].startswith("drafters")):
        ratio = min(found[side, name, n].rate / found[BARE, name, n].rate for n in CONNECTIONS)
        print(
            f"{side}: resolve at {ratio:.2f} of bare at the least (target {TARGET_RATE:.2f}),"
            f" p99 with one connection {found[side, name, 1].p99:.2f} ms (target {TARGET_P99_MS:.0f} ms)"
        )


def flatness(found: dict[Key, Result], largest: int) -> None:
    """Rates with many versions beside those with few."""
    print(f"\nrate with {largest} versions beside {SMALL} (target: at least {TARGET_FLAT})")
    for database in ("SQLite", "PostgreSQL"):
        small, large = _side(database, SMALL), _side(database, largest)
        for name in dict.fromkeys(key[1] for key in found if key[0] == small):
            ratios = [f"{found[large, name, n].rate / found[small, name, n].rate:6.2f} ({n} open)" for n in CONNECTIONS]
            print(f"  {database:<12}{name:<40}{'  '.join(ratios)}")


def _side(database: str, versions: int) -> str:
    return f"drafters, {database}, {versions}"


def registries(stack: ExitStack, versions: int, postgresql: str) -> list[tuple[Side, list[Case]]]:
    """A server on each database with so many versions."""
    made = []
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="drafters-bench-"))
    urls = {"SQLite": f"sqlite:///{folder}/registry.db"}
    if postgresql:
        urls["PostgreSQL"] = processes.new_database(postgresql, f"v{versions}")
    for database, url in urls.items():
        stored = stored_versions.fill(url, versions)
        inside = os.path.join(folder, database)
        os.makedirs(inside)
        server = stack.enter_context(processes.registry(inside, "--database", url))
        asked = cases(server, stored)
        made.append((Side(_side(database, versions), server, {case.name: case for case in asked}), asked))
        print(f"{versions} versions in {database}", file=sys.stderr)
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.5, help="of one measurement")
    parser.add_argument("--versions", type=int, default=10_000)
    parser.add_argument("--flat", type=int, default=100_000, help="versions to hold against 100; 0: not measured")
    parser.add_argument("--mlflow-python", default="", help="Python of an environment with MLflow")
    parser.add_argument("--sqlite-only", action="store_true")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with ExitStack() as stack:
        url = "" if options.sqlite_only else stack.enter_context(processes.postgresql())
        made = registries(stack, options.versions, url)
        asked = made[0][1]
        answers = {case.short: answer(made[0][0].server, case.questions[0]) for case in asked if case.status == 200}
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="drafters-bench-"))
        sides = [side for side, _ in made]
        sides.append(bare_side(stack.enter_context(processes.bare(folder, answers)), asked))
        if options.mlflow_python:
            sides.append(
                mlflow_side(
                    stack.enter_context(processes.mlflow(options.mlflow_python, folder, options.versions)),
                    options.versions,
                )
            )
        print("bytes of an answer:", json.dumps({name: len(data) for name, data in answers.items()}))
        found = measure(sides, options)
        report(sides, found)
        verdict(found, asked[0].name)
        print(f"the load's own process was busy {max(load.busy for load in found.values()):.0%} at most")
        if options.flat:
            few = [side for n in (SMALL, options.flat) for side, _ in registries(stack, n, url)]
            kept = [msgspec.structs.replace(one, cases={k: c for k, c in one.cases.items() if c.kept}) for one in few]
            flatness(measure(kept, options), options.flat)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
