"""Write tiny drafters with seeded random weights; a program, run in an engine's environment.

Usage: make_drafters.py JOBS, a JSON list of {"folder", "config", "tensors": name to [dtype, shape], "weights"}. Where
`weights` names a drafter's directory, its tensors are taken instead, under the names of `renames` and with the column
blocks of `fc` in the order of `order`.
"""

import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file


def drawn(tensors):
    """Random tensors: norms about one, everything else about as wide as a state."""
    draw = torch.Generator().manual_seed(11)
    found = {}
    for name, (_, shape) in sorted(tensors.items()):
        made = torch.randn(*shape, generator=draw)
        found[name] = 1 + 0.1 * made if len(shape) == 1 else made / shape[-1] ** 0.5
    return found


def taken(job):
    """A drafter's tensors under other names, its `fc` for another order of the same states."""
    found = load_file(os.path.join(job["weights"], "model.safetensors"))
    order = job.get("order")
    if order:
        blocks = found["fc.weight"].chunk(len(order), -1)
        found["fc.weight"] = torch.cat([blocks[place] for place in order], -1).contiguous()
    return {renamed(name, job.get("renames", {})): value for name, value in found.items()}


def renamed(name, renames):
    """A tensor's name with one of its first parts exchanged."""
    for old, new in renames.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


def main():
    """Write them all."""
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        os.makedirs(job["folder"])
        found = taken(job) if "weights" in job else drawn(job["tensors"])
        save_file(found, os.path.join(job["folder"], "model.safetensors"), metadata={"format": "pt"})
        with open(os.path.join(job["folder"], "config.json"), "w", encoding="utf-8") as file:
            json.dump(job["config"], file, indent=1)


if __name__ == "__main__":
    main()
