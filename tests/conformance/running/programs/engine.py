"""Start a whole engine, with all its processes, and write down what it returns; a program, run in its environment.

Usage: engine.py JOB, a JSON file. A job with `ids` starts a target alone that returns its captured states with the flag
of the release; one with `drafter` decodes with EAGLE-3 on; one with neither decodes without. An engine whose scheduler
dies ends this program too: the log then has the exception.
"""

# ruff: noqa: BLE001 - what the release raises is the answer
import json
import os
import sys
import traceback

import numpy as np
from adaptations import keep_intel_amx
from capture import distances, told


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


def states(engine, job):
    """What one prefill returns: the captured states of every prompt token."""
    sampling = {"max_new_tokens": 1, "temperature": 0}
    answer = engine.generate(input_ids=job["prompt"], sampling_params=sampling, return_hidden_states=True)
    found = np.array(answer["meta_info"]["hidden_states"][0], dtype=np.float32)
    return {"phase": "", "width": found.shape[-1]} | distances(job, found)


def tokens(engine, job):
    """What greedy decoding gives, and how many tokens each verify step accepted."""
    sampling = {"max_new_tokens": 32, "temperature": 0, "ignore_eos": True}
    answers = engine.generate(input_ids=job["prompts"], sampling_params=sampling)
    steps = [answer["meta_info"].get("spec_verify_ct") for answer in answers]
    made = [answer["meta_info"]["completion_tokens"] for answer in answers]
    lengths = [round(m / s, 2) for m, s in zip(made, steps, strict=True) if s]
    return {"phase": "", "tokens": [answer["output_ids"] for answer in answers], "accepted": lengths}


def main():
    """Run the job."""
    import sglang

    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    if job["backend"] == "intel_amx":
        keep_intel_amx()
    try:
        engine = sglang.Engine(**options(job))
        try:
            content = states(engine, job) if "ids" in job else tokens(engine, job)
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
