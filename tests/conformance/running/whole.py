"""Whole engines: captured states returned to a client, and decoding with a drafter."""

from __future__ import annotations

import json
import os
import re
import tempfile

import environments
import plan
from compare import identified
from session import RunFailedError, models, read, run, tail

#: The release that returns captured states to a client, and whose drafting is run.
RELEASE = "0.5.23"
#: The boundaries that the drafter is trained on.
TRAINED = (1, 3, 5)
#: A start and a few tokens, on a busy machine.
SECONDS = 900


def answered(environment: environments.Environment, job: dict) -> dict:
    """What one engine answers; if it died, the exception that its log shows."""
    with tempfile.TemporaryDirectory(prefix="engine-") as folder:
        path, log = os.path.join(folder, "job.json"), os.path.join(folder, "log")
        answer = os.path.join(folder, "answer.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job | {"answer": answer}, file)
        try:
            run(environment, log, "engine.py", path, seconds=SECONDS)
        except RunFailedError:
            found = re.findall(r"^(\w*(?:Error|Exception)): (.*)$", tail(log, 100_000), flags=re.MULTILINE)
            if not found:
                raise
            return {"phase": "engine", "error": found[0][0], "text": found[0][1][:200]}
        return read(answer)


def returned(shape: str, ids: list[int]) -> dict:
    """Boundaries that the whole engine returns for a target's ids."""
    environment = environments.environment_for(RELEASE)
    folder = os.path.join(models(environment), shape)
    job = {"model": folder, "backend": "torch_native", "ids": ids, "prompt": plan.PROMPT}
    answer = answered(environment, job)
    return {"ids": ids} | (answer if answer.get("error") else identified(answer))


def drafters() -> str:
    """Folder of the trained drafters: `right`, `next` (every id one higher), `missing` (the last layer's id)."""
    environment = environments.environment_for(RELEASE)
    target = os.path.join(models(environment), "llama")
    digest = environments.digest_of(os.path.join(environments.HERE, "programs", "train_drafter.py"))
    name = f"drafters-{os.path.basename(os.path.dirname(target))}-{digest}"

    def make(folder: str) -> None:
        run(environment, os.path.join(folder, "log"), "train_drafter.py", target, folder, json.dumps(TRAINED))

    return environments.once(name, make)


def text() -> list[list[int]]:
    """The prompts that the drafters were trained on."""
    return read(os.path.join(drafters(), "text.json"))["prompts"]


def launch(name: str) -> list[str]:
    """The command of a launch with one of the drafters, as somebody would type it."""
    target = os.path.join(models(environments.environment_for(RELEASE)), "llama")
    command = ["python", "-m", "sglang.launch_server", "--model-path", target, "--device", "cpu"]
    command += ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", os.path.join(drafters(), name)]
    command += ["--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
    return [*command, "--attention-backend", "intel_amx"]


def decoded(name: str) -> dict:
    """Tokens and accepted length per prompt with one of the drafters; `none` decodes without."""
    environment = environments.environment_for(RELEASE)
    environment.variables["TRITON_INTERPRET"] = "1"  # the release's own tree kernels run in Triton's interpreter
    job = {"model": os.path.join(models(environment), "llama"), "backend": "intel_amx", "prompts": text()[:4]}
    if name != "none":
        job["drafter"] = os.path.join(drafters(), name)
    return answered(environment, job)
