"""Many processes that work on one registry at the same time.

The first line of standard input is a list of jobs, one for each process: `work`, the `environment` that says which
registry, and what the work needs. Each opens the registry by itself and says "ready"; when standard input ends, all
begin. Each prints one answer, a JSON object. Collectors and readers work until all others have ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import sys
import time
from collections import Counter
from datetime import UTC, datetime

import httpx2  # noqa: F401 - imported once, before the processes part
import msgspec
import obstore  # noqa: F401
import psycopg  # noqa: F401

from drafter_cli.client import configuration
from drafter_cli.client.connect import local_actor
from drafter_cli.client.embedded import Embedded
from drafter_cli.client.remote import Remote
from drafter_cli.publishing import carry_out as publishing
from drafter_contracts.manifest import Manifest
from drafter_registry.errors import IncompleteError, MovedError, NotFoundError, RegistryError
from drafter_registry.service.collect import collect
from drafter_registry.service.open import open_registry

SECONDS = 120


def registry_of(settings):
    return open_registry(configuration.registry_settings(settings))


def backend_of(settings):
    return Remote(settings) if settings.value("url") else Embedded(registry_of(settings), local_actor())


def plan_of(job):
    manifest = msgspec.convert(job["manifest"], Manifest)
    files = (publishing.PlannedFile(one, os.path.join(job["directory"], one.path)) for one in manifest.files)
    return publishing.Plan(manifest, tuple(files))


def publish(backend, job, counted):
    """Until it is there; a collection may remove the blobs again and again, but not for ever."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return publishing.publish(backend, plan_of(job))
        except IncompleteError:
            counted["sent again"] += 1
            if time.monotonic() > deadline:
                raise


def work_publish(backend, job, over):
    done = publishing.publish(backend, plan_of(job))
    return {"answer": "created" if done.created else "same", "digest": done.digest}


def work_publish_many(backend, job, over):
    counted = Counter()
    for one in job["publications"]:
        counted["published"] += publish(backend, one, counted).created
    return counted


def work_delete(backend, job, over):
    """Delete versions as soon as they are there."""
    for name, version in job["versions"]:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                backend.delete(name, version, why="soak")
            except NotFoundError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                break
    return {"deleted": len(job["versions"])}


def work_move(backend, job, over):
    """Move an alias so many times, each by compare-and-swap; lost races are tried again."""
    lost, made = 0, []
    for number in range(job["moves"]):
        why = f"{job['who']} {number}"
        while True:
            try:
                revision = backend.alias(job["name"], "prod").revision
            except NotFoundError:
                revision = 0
            try:
                version = job["versions"][number % len(job["versions"])]
                state = backend.set_alias(job["name"], "prod", version, expected=revision, why=why)
            except MovedError:
                lost += 1
            else:
                made.append([state.revision, why])
                break
    return {"made": made, "lost": lost}


def work_read(backend, job, over):
    """Read files of versions that come and go, until the others are through. What is there is whole."""
    counted = Counter()
    while not select.select([over], [], [], 0)[0]:
        for name, version, path, sha256 in job["files"]:
            running = hashlib.sha256()
            try:
                for data in backend.stream_file(f"{name}@{version}", path, 0):
                    running.update(data)
            except NotFoundError:
                counted["not there"] += 1
            else:
                counted["read" if running.hexdigest() == sha256 else "torn"] += 1
    return counted


def work_collect(registry, job, over):
    """Collect until the others are through."""
    settings = msgspec.structs.replace(registry.settings, gc_grace_seconds=job["grace"])
    registry = msgspec.structs.replace(registry, settings=settings, now=lambda: datetime.now(UTC))
    counted = Counter()
    while not select.select([over], [], [], 0)[0]:
        time.sleep(0.03)  # or nobody else would ever have the lock
        report = collect(registry, local_actor())
        counted["collections"] += 1
        counted["removed"] += len(report.blobs_removed) + len(report.orphans_removed)
    return counted


def child(job, gate, over):
    settings = configuration.read(None, job["environment"])
    opened = registry_of(settings) if job["work"] == "collect" else backend_of(settings)
    os.write(1, b"ready\n")
    os.read(gate, 1)
    try:
        answer = globals()["work_" + job["work"]](opened, job, over)
    except RegistryError as error:
        answer = {"answer": error.code, "message": error.message}
    except BaseException as error:  # noqa: BLE001 - told to the test
        answer = {"answer": "UNEXPECTED", "message": repr(error)}
    os.write(1, json.dumps({"work": job["work"], **answer}).encode() + b"\n")


def main():
    jobs = json.loads(sys.stdin.readline())
    gate, go = os.pipe()
    over, end = os.pipe()
    children = {}
    for job in jobs:
        number = os.fork()
        if number == 0:
            os.close(go)
            os.close(end)
            child(job, gate, over)
            os._exit(0)
        children[number] = job["work"]
    sys.stdin.read()
    os.close(go)
    while children:
        if set(children.values()) <= {"collect", "read"} and end >= 0:
            os.close(end)
            end = -1
        children.pop(os.wait()[0])


main()
