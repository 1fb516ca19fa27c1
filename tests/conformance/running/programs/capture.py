"""Run many lists of capture ids through one running target; a program, run in an engine's environment.

The release's own ModelRunner is started with EAGLE3 and a drafter's directory, reads the ids of its config and calls
the model's setter. Every list is then set on the model as it was before its setter was first called, and a prefill is
run. Usage: capture.py JOBS, a JSON file with a list of jobs, one target each. The release is imported once, and each
job is run in a fork of its own with a time limit; its answers are written to the folder that it names, one file per
list, so that a run that dies leaves those before.
"""

# ruff: noqa: BLE001 - what the release raises is the answer
import argparse
import copy
import importlib
import inspect
import json
import os
import signal
import traceback

import numpy as np
import torch
from adaptations import (
    keep_intel_amx,
    load_expert_biases,
    norm_in_place,
    unpacked_latent_attention,
    use_reference_attention,
)

PLAIN = (bool, int, str, list, tuple, set, frozenset, type(None))


def snapshot(model):
    """Plain attributes of every module, which is where setters write."""
    return {
        name: {key: copy.copy(value) for key, value in vars(module).items() if plain(key, value)}
        for name, module in model.named_modules()
    }


def plain(key, value):
    """Whether this attribute is one that a setter may have written."""
    return isinstance(value, PLAIN) and not key.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called"))


def restore(model, before):
    """Put all plain attributes back, and remove new ones."""
    for name, module in model.named_modules():
        for key in [key for key, value in vars(module).items() if plain(key, value) and key not in before[name]]:
            del module.__dict__[key]
        module.__dict__.update({key: copy.copy(value) for key, value in before[name].items()})


def watch_setter(architecture, seen):
    """Keep the state of the model from before the first call of its setter, and the ids of each call."""
    from sglang.srt.models.registry import ModelRegistry

    cls, _ = ModelRegistry.resolve_model_cls([architecture])
    original = getattr(cls, "set_eagle3_layers_to_capture", None)
    if original is None:
        return  # the release itself says what comes of that

    def setter(self, *arguments, **keywords):
        if "before" not in seen:
            seen["before"] = snapshot(self)
        given = [*arguments, *keywords.values()]
        seen["ids"] = list(given[0]) if given and given[0] is not None else None
        return original(self, *arguments, **keywords)

    cls.set_eagle3_layers_to_capture = setter
    seen["original"] = original


def benchmark():
    """The release's single-batch benchmark."""
    try:
        return importlib.import_module("sglang.benchmark.one_batch")
    except ModuleNotFoundError:
        return importlib.import_module("sglang.bench_one_batch")


#: Options of every run, as they are written on a command line; a switch has no value.
OPTIONS = {
    "device": "cpu",
    "max_total_tokens": 4096,
    "mem_fraction_static": 0.3,
    "disable_overlap_schedule": True,
    "disable_radix_cache": True,
}


def asked(job):
    """Arguments for a launch with the drafter that a job names."""
    from sglang.srt.server_args import ServerArgs

    return ServerArgs(
        model_path=job["model"],
        attention_backend=job.get("declared", job["backend"]),
        dtype=job["dtype"],
        speculative_algorithm="EAGLE3",
        speculative_draft_model_path=job["drafter"],
        speculative_num_steps=3,
        speculative_eagle_topk=1,
        speculative_num_draft_tokens=4,
        **OPTIONS,
    )


def launched(job):
    """Arguments as the release's parser reads them from a command line: the flags of a job come last, unchanged."""
    from sglang.srt.server_args import prepare_server_args

    own = {"model_path": job["model"], "attention_backend": job.get("declared", job["backend"]), "dtype": job["dtype"]}
    return prepare_server_args([*words(own | OPTIONS), *job["flags"]])


def words(options):
    """Options on a command line."""
    found = []
    for name, value in options.items():
        found += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
    return found


def start(job):
    """The release's own way to a ModelRunner without a server: its single-batch benchmark."""
    from sglang.srt.server_args import PortArgs

    bench = benchmark()
    server = launched(job) if "flags" in job else asked(job)
    if hasattr(server, "resolve_once"):
        server.resolve_once()
    if job.get("declared"):
        try:
            server.attention_backend = job["backend"]
        except AttributeError:  # read-only once it is resolved
            object.__setattr__(server, "attention_backend", job["backend"])
    if hasattr(bench, "publish"):
        if hasattr(bench, "SpawnRanks"):
            rank = bench.spawn_world_rank(server, tp_rank=0, pp_rank=0)
            bench.publish(server, role="scheduler", ranks=bench.SpawnRanks(world_rank=rank, gpu_id=0))
        else:
            bench.publish(server, role="scheduler")
    if hasattr(bench, "_init_process_global_configs"):
        bench._init_process_global_configs()
    ports = PortArgs.init_new(server)
    ranks = [0] * (len(inspect.signature(bench.load_model).parameters) - 2)
    runner, _tokenizer = bench.load_model(server, ports, *ranks)
    return bench, getattr(runner, "torch_runner", runner)


def requests(bench, prompt):
    """One request with the prompt, made by the release's own function."""
    make = bench.prepare_synthetic_inputs_for_latency_test
    if len(inspect.signature(make).parameters) == 3:
        return make(1, len(prompt), [prompt])
    drawn, np.random.randint = np.random.randint, lambda *_arguments, **_keywords: np.array([prompt], dtype=np.int32)
    try:
        return make(1, len(prompt))
    finally:
        np.random.randint = drawn


def want_hidden_states():
    """Ask each forward pass for the hidden states of all tokens, as a speculative worker's prefill does."""
    from sglang.srt.model_executor.forward_batch_info import CaptureHiddenMode, ForwardBatch

    original = ForwardBatch.init_new.__func__

    def init_new(cls, *arguments, **keywords):
        batch = original(cls, *arguments, **keywords)
        batch.capture_hidden_mode = CaptureHiddenMode.FULL
        return batch

    ForwardBatch.init_new = classmethod(init_new)


def prefill(bench, runner, prompt):
    """Hidden states [tokens, width] that one prefill returns."""
    got = []
    forward = type(runner).forward

    def kept(*arguments, **keywords):
        output = forward(runner, *arguments, **keywords)
        logits = getattr(output, "logits_output", output[0] if isinstance(output, tuple) else output)
        got.append(logits.hidden_states)
        return output

    runner.forward = kept
    try:
        bench.extend(requests(bench, prompt), runner)
    finally:
        del runner.forward
        runner.req_to_token_pool.clear()
        allocator = getattr(runner, "token_to_kv_pool_allocator", None)
        (allocator if allocator is not None else runner.token_to_kv_pool).clear()
    return got[0]


def where(error):
    """The innermost line of the release that raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/sglang/" in frame.filename]
    if not frames:
        return ""
    return f"{frames[-1].filename.rpartition('/sglang/')[2]}:{frames[-1].lineno}"


def told(phase, error):
    """An exception, as data."""
    return {"phase": phase, "error": type(error).__name__, "text": str(error)[:300], "where": where(error)}


def answer(bench, runner, seen, ids, prompt):
    """What becomes of one list."""
    model = runner.model
    restore(model, seen["before"])
    takes = len(inspect.signature(seen["original"]).parameters) > 1
    try:
        seen["original"](model, ids) if takes else seen["original"](model)
    except Exception as error:
        return told("setter", error), None
    try:
        states = prefill(bench, runner, prompt)
    except Exception as error:
        return told("forward", error), None
    return {"phase": ""}, states.float().numpy()


def listen(model, kept):
    """Keep what enters each decoder layer of the running engine, and what leaves the last one."""

    def entering(number):
        def hook(module, arguments, keywords):
            given = inspect.signature(module.forward).bind(*arguments, **keywords).arguments
            hidden, residual = given.get("hidden_states"), given.get("residual")
            if isinstance(hidden, torch.Tensor):
                kept[number] = (hidden + residual if isinstance(residual, torch.Tensor) else hidden).float().clone()

        return hook

    def leaving(_module, _arguments, output):
        parts = [part for part in output if isinstance(part, torch.Tensor)] if isinstance(output, tuple) else [output]
        kept[len(layers)] = sum(part.float() for part in parts[:2])

    layers = model.model.layers
    for number, layer in enumerate(layers):
        layer.register_forward_pre_hook(entering(number), with_kwargs=True)
    layers[-1].register_forward_hook(leaving)


def apart(states, reference):
    """Per part of the states [tokens, width], its distance to every boundary: root mean square, and at most."""
    width = reference.shape[-1]
    parts = [np.abs(reference - states[None, :, i : i + width]) for i in range(0, states.shape[1], width)]
    return [{"square": np.sqrt((p**2).mean((1, 2))).tolist(), "most": p.max((1, 2)).tolist()} for p in parts]


def distances(job, states, kept=None):
    """Distances to what transformers computes, and to what the engine's own layers were given."""
    reference = np.load(os.path.join(job["model"], "boundaries.npy"))
    if states.shape[0] != reference.shape[1] or states.shape[1] % reference.shape[-1]:
        return {"parts": []}
    found = {"parts": apart(states, reference)}
    if kept and len(kept) == len(reference) - 1 and all(k.shape == reference.shape[1:] for k in kept.values()):
        found["own"] = apart(states, np.stack([kept[number].numpy() for number in range(len(kept))]))
    return found


def write(job, name, content, states=None, kept=None):
    """One answer, whole or not at all."""
    path = os.path.join(job["answers"], name)
    if states is not None:
        content = content | distances(job, states, kept)
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(content, file)
    os.replace(f"{path}.part", f"{path}.json")


def run(job):
    """One job, in its own process."""
    if job["backend"] == "intel_amx":
        keep_intel_amx()
    if os.environ.get("STANDIN_OPERATORS") != "1":  # the stand-in's own operator writes in place
        norm_in_place()
    if job["attention"] == "reference":
        use_reference_attention()
        if job["backend"] == "intel_amx":
            unpacked_latent_attention()
    if "declared" in job:
        load_expert_biases()
    seen = {}
    try:
        watch_setter(job["architecture"], seen)
        bench, runner = start(job)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        write(job, "start", told("start", error))
        return
    write(job, "start", {"phase": "", "model": type(runner.model).__name__, "setter called": "before" in seen})
    if "before" not in seen:
        return
    want_hidden_states()
    kept = {}
    listen(runner.model, kept)
    try:
        states = prefill(bench, runner, job["prompt"])
        write(job, "launch", {"phase": "", "ids": seen["ids"]}, states.float().numpy(), kept)
    except Exception as error:
        traceback.print_exc()
        write(job, "launch", told("forward", error) | {"ids": seen["ids"]})
        if job["probe"]:
            return
    for number, ids in enumerate(job["lists"]):
        kept.clear()
        content, states = answer(bench, runner, seen, ids, job["prompt"])
        write(job, f"list-{number:03d}", content | {"ids": ids}, states, kept)
    write(job, "done", {})


def child(job):
    """Never returns: the engine leaves threads behind, and the parent's clean-up is not this process's."""
    log = os.open(os.path.join(job["answers"], "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    signal.alarm(job["seconds"])  # ends the process: what is not answered by then is missing
    try:
        with torch.no_grad():
            run(job)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def main():
    """Import the release, and fork for each job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs")
    with open(parser.parse_args().jobs, encoding="utf-8") as file:
        jobs = json.load(file)
    try:
        benchmark()
    except Exception as error:
        traceback.print_exc()
        for job in jobs:
            job["answers"] = os.path.join(job["answers"], "0")
            os.makedirs(job["answers"])
            write(job, "start", told("import", error))
        return
    for job in jobs:
        for number, way in enumerate(job["ways"]):
            last = number == len(job["ways"]) - 1
            place = os.path.join(job["answers"], str(number))
            os.makedirs(place)
            process = os.fork()
            if not process:
                child(job | way | {"answers": place, "probe": not last})
            _, status, used = os.wait4(process, 0)
            code = os.waitstatus_to_exitcode(status)
            cost = {"code": code, "cpu": used.ru_utime + used.ru_stime, "kilobytes": used.ru_maxrss}
            write({"answers": place}, "cost", cost)
            if os.path.exists(os.path.join(place, "done.json")):
                break


if __name__ == "__main__":
    main()
