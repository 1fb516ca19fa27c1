"""Run a release's targets in its environment, and write down what was seen."""

from __future__ import annotations

import glob
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile

import environments
import plan
from compare import identified

PROGRAMS = os.path.join(environments.HERE, "programs")
#: A release's targets, all shapes, on a busy machine; and one shape.
RELEASE_SECONDS = 5400
SHAPE_SECONDS = 900


class RunFailedError(Exception):
    """A program died or took too long; the message has the end of its log."""


def run(environment: environments.Environment, log: str, *command: str, seconds: int = RELEASE_SECONDS) -> float:
    """Run one of the programs; CPU seconds that it and its children took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(log, "wb") as file:
        try:
            done = subprocess.run(
                [environment.python, "-W", "ignore", os.path.join(PROGRAMS, command[0]), *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment.environ(),
                timeout=seconds,
                check=False,
                cwd=os.path.dirname(log),
            ).returncode
        except subprocess.TimeoutExpired:
            done = f"nothing after {seconds} s"
    if done:
        raise RunFailedError(f"{command[0]}: {done}\n{tail(log)}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tail(log: str, characters: int = 3000) -> str:
    """End of a log."""
    with open(log, "rb") as file:
        return file.read().decode(errors="replace")[-characters:]


def models(environment: environments.Environment) -> str:
    """Folder of the tiny targets, made by this environment's transformers; from the cache if they are there."""
    program = os.path.join(PROGRAMS, "make_models.py")
    digest = environments.digest_of(program)
    name = f"models-{os.path.basename(environment.path[-1])}-{digest}"

    def make(folder: str) -> None:
        run(environment, os.path.join(folder, "log"), "make_models.py", folder)

    return environments.once(name, make)


def packages(environment: environments.Environment) -> dict[str, str]:
    """Versions of the packages that matter, as the environment itself says."""
    code = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({n: m.version(n).partition('+')[0] for n in ('sglang','torch','transformers','triton')}))"
    )
    done = subprocess.run(
        [environment.python, "-c", code], env=environment.environ(), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def run_release(release: str, shapes: tuple[str, ...] = tuple(plan.SHAPES)) -> dict:
    """Everything about one release, as it goes into the results."""
    environment = environments.environment_for(release)
    made = models(environment)
    with tempfile.TemporaryDirectory(prefix=f"sglang-{release}-") as folder:
        jobs = [
            {
                "shape": shape,
                "model": os.path.join(made, shape),
                "drafter": os.path.join(made, "drafter"),
                "architecture": plan.SHAPES[shape],
                "dtype": plan.dtype(release),
                "prompt": plan.PROMPT,
                "lists": plan.id_lists(release, shape),
                "answers": os.path.join(folder, shape),
                "seconds": SHAPE_SECONDS,
                "ways": plan.ways(release, shape),
            }
            for shape in shapes
        ]
        for job in jobs:
            os.makedirs(job["answers"])
        path = os.path.join(folder, "jobs.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(jobs, file)
        cpu = run(environment, os.path.join(folder, "log"), "capture.py", path)
        kept = os.environ.get("DRAFTERS_KEEP_ANSWERS")
        if kept:
            shutil.copytree(folder, os.path.join(kept, release), dirs_exist_ok=True)
        found = {job["shape"]: outcome(job) for job in jobs}
    return {"packages": packages(environment), "cpu seconds": round(cpu), "shapes": found}


def read(path: str) -> dict:
    """A JSON file, or nothing."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def outcome(job: dict) -> dict:
    """One shape: how it was run, what failed before that, and every list."""
    tried = sorted(glob.glob(os.path.join(glob.escape(job["answers"]), "[0-9]")))
    answers = tried[-1]
    way = job["ways"][int(os.path.basename(answers))]
    started, launched = read(os.path.join(answers, "start.json")), read(os.path.join(answers, "launch.json"))
    found = {
        "how": plan.NAMES[way["backend"], way["attention"]],
        "megabytes": max(read(os.path.join(a, "cost.json")).get("kilobytes", 0) for a in tried) // 1024,
        "not so": [
            failure(place) | {"how": plan.NAMES[given["backend"], given["attention"]]}
            for place, given in zip(tried[:-1], job["ways"], strict=False)
        ],
        "lists": [],
    }
    if started.get("error") or not started:
        found["start"] = told(started) if started else {"error": "died", "text": tail_line(answers)}
        return found
    if not started["setter called"]:
        found["start"] = {"phase": "start", "error": "set_eagle3_layers_to_capture was not called"}
        return found
    ids = launched.get("ids", list(plan.DRAFTER_IDS))
    found["launch"] = {"ids": ids} | observed(os.path.join(answers, "launch.json"))
    found["lists"] = [
        {"ids": ids} | observed(os.path.join(answers, f"list-{number:03d}.json"))
        for number, ids in enumerate(job["lists"])
    ]
    return found


def failure(answers: str) -> dict:
    """Why a way was not taken."""
    for name in ("start", "launch"):
        content = read(os.path.join(answers, f"{name}.json"))
        if content.get("error"):
            return told(content)
    return {"error": "died", "text": tail_line(answers)}


def tail_line(answers: str) -> str:
    """Last line of a way's log."""
    path = os.path.join(answers, "log")
    lines = tail(path).strip().splitlines() if os.path.exists(path) else []
    return plain(lines[-1]) if lines else ""


def observed(path: str) -> dict:
    """What the engine did with one list."""
    content = read(path)
    if not content:
        return {"error": "no answer", "phase": "forward"}
    return told(content) if content.get("error") else identified(content)


def told(content: dict) -> dict:
    """An exception without anything of this machine."""
    kept = {name: content[name] for name in ("phase", "error", "where") if content.get(name)}
    return kept | {"text": plain(content.get("text", ""))}


def plain(text: str) -> str:
    """First line of a message, paths cut to their last part."""
    return re.sub(r"(?:/[\w.+-]+)+/", "", text.strip().partition("\n")[0])[:160]
