"""Drafters published, resolved by the command, and launched in a real release with exactly what it printed."""

from __future__ import annotations

import glob
import json
import os
import subprocess
import tempfile
from typing import NamedTuple

import environments
import plan
import served_cases
import session
import whole
from compare import identified
from served_cases import CASES, Case

#: What the drafters are made by.
MADE_BY = (("programs", "make_drafters.py"), ("served_cases.py",))
#: The trained drafter's states in another order than engines concatenate them in.
ORDER = (5, 1, 3)
#: How it is left by producers, and what `resolve` is told to prefer.
TRAINED = (("next", "flags"), ("next", "render"), ("order", "flags"), ("speculators", "flags"))


class Printed(NamedTuple):
    """What `drafters resolve` answered.

    Attributes:
        code: Its exit code.
        flags: What it printed, split as a shell splits it; empty where it refused.
        answer: The same question's `--json` document.
    """

    code: int
    flags: list[str]
    answer: dict

    @property
    def order(self) -> list[int]:
        """Order in which the blocks of the drafter's own `fc` lie in what is served; empty for their own."""
        return self.answer["weights"].get("order", [])

    @property
    def directory(self) -> str:
        """Where the engine finds the drafter."""
        return self.flags[self.flags.index("--speculative-draft-model-path") + 1]

    def at(self, directory: str) -> list[str]:
        """The flags with the drafter in another directory."""
        return [directory if flag == self.directory else flag for flag in self.flags]

    def kept(self) -> dict:
        """The answer without anything of this machine."""
        rendered = self.answer["config"] is not None or bool(self.answer["weights"])
        return {"flags": self.at("DRAFTER"), "rendered": rendered} | ({"order": self.order} if self.order else {})


class Registry:
    """An embedded registry of its own.

    Args:
        folder: Where it and its cache lie.
        command: The `drafters` command.
    """

    def __init__(self, folder: str, command: str) -> None:
        self.folder, self.command = folder, command
        self.known: dict[str, str] = {}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTERS_")}
        data, cache = os.path.join(folder, "data"), os.path.join(folder, "cache")
        self.environ = kept | {"DRAFTERS_DATA": data, "DRAFTERS_CACHE": cache}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command."""
        return subprocess.run(
            [self.command, *words], env=self.environ, capture_output=True, text=True, check=False, timeout=300
        )

    def publish(self, directory: str, name: str, target: str, boundaries: tuple[int, ...], method: str = "") -> str:
        """Publish a drafter; its reference."""
        stated = ",".join(map(str, boundaries))
        words = ["publish", directory, "--name", name, "--version", "1.0.0", "--target", target]
        words += ["--boundaries", stated, *served_cases.RECOMMENDED, *(("--method", method) if method else ())]
        done = self.run(*words)
        assert not done.returncode, done.stderr
        return f"{name}@1.0.0"

    def pull(self, reference: str, directory: str, *words: str) -> str:
        """A drafter's files in a directory of one's own, its manifest beside them."""
        done = self.run("pull", reference, "-o", directory, *words)
        assert not done.returncode, done.stderr
        return directory

    def resolve(self, reference: str, release: str, target: str, prefer: str, extra: tuple[str, ...] = ()) -> Printed:
        """The flags of a reference: what a script would read, and the document that says why."""
        words = ["resolve", reference, "--engine", f"sglang=={release}", "--target", target]
        words += [] if prefer == "flags" else ["--prefer", prefer]
        tail = ("--", *extra) if extra else ()
        document = self.run(*words, "--json", *tail)
        plain = self.run(*words, *tail)
        assert plain.returncode == document.returncode, (plain.stderr, document.stderr)
        # As `eval "set -- $flags"` splits it.
        split = subprocess.run(
            ["sh", "-c", 'eval "set -- $1"; for word; do printf "%s\\0" "$word"; done', "sh", plain.stdout.strip()],
            capture_output=True,
            text=True,
            check=True,
        )
        return Printed(plain.returncode, split.stdout.split("\0")[:-1], json.loads(document.stdout))


def drafters(release: str) -> str:
    """Folder of the drafters of all cases, with random weights, a folder each; made by a release's environment."""
    environment = environments.environment_for(release)
    digests = [environments.digest_of(os.path.join(environments.HERE, *name)) for name in MADE_BY]

    def make(folder: str) -> None:
        jobs = [
            {"folder": os.path.join(folder, slug(name)), "config": served_cases.config(case),
             "tensors": served_cases.tensors(case)}
            for name, case in CASES.items()
        ]  # fmt: skip
        write(os.path.join(folder, "jobs.json"), jobs)
        session.run(environment, os.path.join(folder, "log"), "make_drafters.py", os.path.join(folder, "jobs.json"))

    return environments.once(f"served-{'-'.join(digests)}", make)


def published(registry: Registry, release: str, name: str) -> tuple[str, str]:
    """A case's reference in a registry, and its target's directory."""
    case = CASES[name]
    target = target_of(release, case.shape)
    called = f"{slug(name)}-{slug(release)}"
    if called not in registry.known:
        directory = os.path.join(drafters(whole.RELEASE), slug(name))
        registry.known[called] = registry.publish(directory, called, target, case.boundaries)
    return registry.known[called], target


def content(directory: str) -> dict[str, str]:
    """Every file of a directory and its digest."""
    return {name: environments.digest_of(os.path.join(directory, name)) for name in sorted(os.listdir(directory))}


def slug(name: str) -> str:
    """A case's name as a drafter's."""
    return name.replace(", ", "-").replace(" ", "-").replace("_", "-").replace(".", "-")


def write(path: str, content: object) -> None:
    """Write JSON."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)


def target_of(release: str, shape: str) -> str:
    """The tiny target's directory."""
    return os.path.join(session.models(environments.environment_for(release)), shape)


def configs(release: str) -> dict[str, dict]:
    """The targets' configs by shape, for the kept results: what is printed depends on them."""
    shapes = sorted({case.shape for case in CASES.values()})
    return {shape: session.read(os.path.join(target_of(release, shape), "config.json")) for shape in shapes}


def captured(release: str, launches: dict[str, tuple[Case, list[str]]]) -> dict[str, dict]:
    """What a release's ModelRunner captures, per launch: the boundaries that one prefill returns."""
    environment = environments.environment_for(release)
    with tempfile.TemporaryDirectory(prefix=f"served-{release}-") as folder:
        jobs = [
            {
                "shape": case.shape,
                "model": target_of(release, case.shape),
                "architecture": plan.SHAPES[case.shape],
                "dtype": plan.dtype(release),
                "prompt": plan.PROMPT,
                "flags": flags,
                "lists": [],
                "answers": os.path.join(folder, slug(name)),
                "seconds": session.SHAPE_SECONDS,
                "ways": plan.ways(release, case.shape),
            }
            for name, (case, flags) in launches.items()
        ]
        for job in jobs:
            os.makedirs(job["answers"])
        write(os.path.join(folder, "jobs.json"), jobs)
        session.run(environment, os.path.join(folder, "log"), "capture.py", os.path.join(folder, "jobs.json"))
        found = {name: session.outcome(job) for name, job in zip(launches, jobs, strict=True)}
        for name, job in zip(launches, jobs, strict=True):
            if "launch" not in found[name]:
                logs = sorted(glob.glob(os.path.join(glob.escape(job["answers"]), "*", "log")))
                found[name]["log"] = session.tail(logs[-1]) if logs else ""
        return found


def trained() -> dict[str, str]:
    """Directories of the trained drafter as other producers would leave it, made from the one with the right ids.

    `next`: ids of boundaries in a config that SGLang reads as outputs; `order`: trained on the same states in another
    order; `speculators`: in that format, with ids of boundaries.
    """
    release = whole.RELEASE
    environment, source = environments.environment_for(release), os.path.join(whole.drafters(), "right")
    order = Case("llama", ORDER, tuple(boundary - 1 for boundary in ORDER))
    speculators = Case("llama", whole.TRAINED, whole.TRAINED, speculators=True)
    own = {"weights": source}
    jobs = {
        "order": own | {"config": served_cases.config(order), "order": [whole.TRAINED.index(b) for b in ORDER]},
        "speculators": own | {"config": served_cases.config(speculators), "renames": {"midlayer.": "layers.0."}},
    }

    def make(folder: str) -> None:
        places = [job | {"folder": os.path.join(folder, kind)} for kind, job in jobs.items()]
        write(os.path.join(folder, "jobs.json"), places)
        session.run(environment, os.path.join(folder, "log"), "make_drafters.py", os.path.join(folder, "jobs.json"))

    digests = [environments.digest_of(os.path.join(environments.HERE, *name)) for name in MADE_BY]
    place = environments.once(f"trained-{os.path.basename(os.path.dirname(source))}-{'-'.join(digests)}", make)
    return {"next": os.path.join(whole.drafters(), "next")} | {kind: os.path.join(place, kind) for kind in jobs}


def served(model: str, flags: list[str], prompts: list[list[int]], **more: object) -> dict:
    """What the whole engine does with flags: tokens, accepted lengths, and with `record` what entered `fc`."""
    environment = environments.environment_for(whole.RELEASE)
    environment.variables["TRITON_INTERPRET"] = "1"  # the release's own tree kernels run in Triton's interpreter
    job = {"model": model, "backend": "intel_amx", "prompts": prompts, "flags": flags, **more}
    with tempfile.TemporaryDirectory(prefix="record-") as folder:
        if "original" in more:
            job["record"] = os.path.join(folder, "fc.npz")
        answer = whole.answered(environment, job)
        return answer | (identified(answer) if "parts" in answer else {})
