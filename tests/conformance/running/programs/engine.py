"""Start a whole engine, with all its processes, and write down what it returns; a program, run in its environment.

Usage: engine.py JOB, a JSON file. A job with `ids` starts a target alone that returns its captured states with the flag
of the release; one with `drafter` decodes with EAGLE-3 on; one with `flags` does so as the release's own parser reads
them; one with none of these decodes without. What enters the drafter's `fc` while the first prompt of a job with
`record` is prefilled is kept there by the process that computes it. An engine whose scheduler dies ends this program
too: the log then has the exception.
"""

# ruff: noqa: BLE001 - what the release raises is the answer
import json
import os
import sys
import traceback

import numpy as np
import torch
from adaptations import keep_intel_amx
from capture import distances, told, words

#: Names the file for what enters `fc`; what it is recognised by is its shape, which nothing else in the engine has.
RECORD, SHAPE, ROWS = "DRAFTERS_TEST_RECORD", "DRAFTERS_TEST_FC", "DRAFTERS_TEST_ROWS"


def record():
    """Keep the drafter's `fc` and what goes through it for the first prompt: by a hook, the engine unchanged."""
    path, (rows, columns), tokens = os.environ[RECORD], json.loads(os.environ[SHAPE]), int(os.environ[ROWS])

    def hook(module, given, made):
        weight = getattr(module, "weight", None)
        if weight is None or tuple(weight.shape) != (rows, columns) or os.path.exists(path):
            return
        if not given or given[0].shape != (tokens, columns):
            return
        made = made[0] if isinstance(made, tuple) else made
        kept = {"given": given[0], "made": made, "weight": weight}
        with open(f"{path}.part", "wb") as file:
            np.savez(file, **{name: value.detach().float().cpu().numpy() for name, value in kept.items()})
        os.replace(f"{path}.part", path)

    torch.nn.modules.module.register_module_forward_hook(hook)


if os.environ.get(RECORD):  # the engine's processes import this program again
    record()


def options(job):
    """Arguments of the engine."""
    found = {
        "model_path": job["model"],
        "device": "cpu",
        "attention_backend": job["backend"],
        "dtype": "float32",
        "max_total_tokens": 4096,
        "mem_fraction_static": 0.3,
        "disable_overlap_schedule": True,
        "disable_radix_cache": True,
        "skip_server_warmup": True,
        "max_running_requests": 4,
        "log_level": "warning",
    }
    if "ids" in job:
        found |= {"enable_return_aux_hidden_states": True, "speculative_algorithm": "EAGLE3"}
        if job["ids"] is not None:
            found["return_aux_hidden_state_layer_ids"] = job["ids"]
    elif job.get("drafter"):
        found |= {
            "speculative_algorithm": "EAGLE3",
            "speculative_draft_model_path": job["drafter"],
            "speculative_num_steps": 3,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": 4,
        }
    return found


def launched(job):
    """Arguments as the release's parser reads them from a command line: the flags of a job come last, unchanged."""
    from sglang.srt.server_args import prepare_server_args

    own = {name: value for name, value in options({**job, "drafter": ""}).items() if value is not False}
    return prepare_server_args([*words(own), *job["flags"]])


def states(engine, job):
    """What one prefill returns: the captured states of every prompt token."""
    sampling = {"max_new_tokens": 1, "temperature": 0}
    answer = engine.generate(input_ids=job["prompt"], sampling_params=sampling, return_hidden_states=True)
    found = np.array(answer["meta_info"]["hidden_states"][0], dtype=np.float32)
    return {"phase": "", "width": found.shape[-1]} | distances(job, found)


def tokens(engine, job):
    """What greedy decoding gives, and how many tokens each verify step accepted."""
    sampling = {"max_new_tokens": job.get("new", 32), "temperature": 0, "ignore_eos": True}
    answers = engine.generate(input_ids=job["prompts"], sampling_params=sampling)
    steps = [answer["meta_info"].get("spec_verify_ct") for answer in answers]
    made = [answer["meta_info"]["completion_tokens"] for answer in answers]
    lengths = [round(m / s, 2) for m, s in zip(made, steps, strict=True) if s]
    return {"phase": "", "tokens": [answer["output_ids"] for answer in answers], "accepted": lengths}


def recorded(job):
    """Which states entered `fc`, and how far what left it is from what the drafter itself makes of its own states.

    `original` names the drafter as it was published, `order` the order of its own states in what the engine feeds.
    """
    from safetensors.numpy import load_file

    kept = np.load(job["record"])
    fc = load_file(os.path.join(job["original"], "model.safetensors"))["fc.weight"]
    order = job["order"] or list(range(job["taps"]))
    blocks = np.split(kept["given"], job["taps"], axis=1)
    own = np.concatenate([blocks[order.index(place)] for place in range(job["taps"])], axis=1)
    columns = np.split(fc, job["taps"], axis=1)
    return distances(job, kept["given"]) | {
        "fc is the drafter's own, in order": bool(
            np.array_equal(kept["weight"], np.concatenate([columns[place] for place in order], axis=1))
        ),
        "fc apart": float(np.abs(own.astype(np.float64) @ fc.astype(np.float64).T - kept["made"]).max()),
        "fc scale": float(np.abs(kept["made"]).max()),
    }


def main():
    """Run the job."""
    import sglang

    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    if job["backend"] == "intel_amx":
        keep_intel_amx()
    if "record" in job:
        os.environ |= {RECORD: job["record"], SHAPE: json.dumps(job["fc"]), ROWS: str(len(job["prompts"][0]))}
    try:
        engine = sglang.Engine(**({"server_args": launched(job)} if "flags" in job else options(job)))
        try:
            content = states(engine, job) if "ids" in job else tokens(engine, job)
            content |= recorded(job) if "record" in job else {}
        finally:
            engine.shutdown()
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        content = told("engine", error)
    with open(job["answer"], "w", encoding="utf-8") as file:
        json.dump(content, file)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
