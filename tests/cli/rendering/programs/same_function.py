"""Makes a drafter's fusion with torch, and compares what two files of it compute, bit by bit.

    python same_function.py make FILE DTYPE [FILE DTYPE ...]
    python same_function.py compare OWN RENDER ORDER [OWN RENDER ORDER ...]

Runs wherever torch and safetensors are; it knows nothing of how files are rewritten. The states of the taps come in the
drafter's own order to OWN and in ORDER to RENDER. Products of blocks are added in the drafter's own order of taps both
times: every block is the same numbers, so that its product must be the same bits. One JSON document for each pair.
"""

import json
import sys

import torch
from safetensors.torch import load_file, save_file

ROWS, WIDTH, TAPS, TOKENS = 96, 64, 3, 5


def make(path, dtype):
    torch.manual_seed(7)
    kind = getattr(torch, dtype)

    def numbers(*shape):
        return torch.randn(*shape).to(kind)

    tensors = {"fc.weight": numbers(ROWS, TAPS * WIDTH), "input_norm.weight": numbers(TAPS * WIDTH)}
    tensors |= {f"fc_norm.{place}.weight": numbers(WIDTH) for place in range(TAPS)}
    tensors |= {
        "mask_hidden": numbers(1, TAPS * WIDTH),
        "norm.weight": numbers(ROWS),
        "lm_head.weight": numbers(7, ROWS),
    }
    save_file(tensors, path, {"format": "pt"})


def blockwise(weight, chunks, places):
    """`fc` as a sum over taps in the drafter's own order; block j of the file is the tap `places[j]`."""
    blocks = [block.contiguous() for block in weight.chunk(TAPS, dim=1)]
    total = torch.zeros(TOKENS, ROWS, dtype=weight.dtype)
    for tap in range(TAPS):
        place = places.index(tap)
        total = total + chunks[place].contiguous() @ blocks[place].T
    return total


def rms(chunks, scales, mean):
    """RMSNorm of chunks with a mean square that is given, in single precision."""
    factor = torch.rsqrt(mean + 1e-6)
    return [((chunk.float() * factor).to(chunk.dtype)) * scale for chunk, scale in zip(chunks, scales, strict=True)]


def squares(chunks, places):
    """The mean square over all taps, added in the drafter's own order."""
    sums = {tap: chunks[place].float().pow(2).sum(-1, keepdim=True) for place, tap in enumerate(places)}
    return sum(sums[tap] for tap in range(TAPS)) / (TAPS * WIDTH)


def outputs(path, taps, places):
    """What one file computes of the taps in its own order."""
    tensors = load_file(path)
    weight = tensors["fc.weight"]
    chunks = [taps[place] for place in places]
    joined = torch.cat(chunks, dim=-1)
    split = list(joined.chunk(TAPS, dim=-1))
    whole = rms(split, tensors["input_norm.weight"].chunk(TAPS), squares(split, places))
    single = [
        rms([chunk], [tensors[f"fc_norm.{place}.weight"]], chunk.float().pow(2).mean(-1, keepdim=True))[0]
        for place, chunk in enumerate(split)
    ]
    mask = tensors["mask_hidden"].chunk(TAPS, dim=-1)
    rest = {name: tensor for name, tensor in tensors.items() if name in ("norm.weight", "lm_head.weight")}
    return (
        {
            "fc": blockwise(weight, split, places),
            "input_norm and fc": blockwise(weight, whole, places),
            "fc_norm and fc": blockwise(weight, single, places),
            "mask": torch.cat([mask[places.index(tap)] for tap in range(TAPS)], dim=-1),
        },
        rest,
        torch.nn.functional.linear(joined.double(), weight.double()),
    )


def same(one, other):
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.numpy(force=True).tobytes() == other.numpy(force=True).tobytes()
    )


def compare(own, render, order):
    torch.manual_seed(11)
    kind = load_file(own)["fc.weight"].dtype
    taps = [torch.randn(TOKENS, WIDTH).to(kind) for _ in range(TAPS)]
    mine, rest, plain = outputs(own, taps, list(range(TAPS)))
    theirs, others, permuted = outputs(render, taps, order)
    result = {name: same(mine[name].float(), theirs[name].float()) for name in mine}
    result["the rest"] = all(same(rest[name].float(), others[name].float()) for name in rest)
    result["plain fc, largest difference"] = (plain - permuted).abs().max().item()
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    given = iter(sys.argv[2:])
    if sys.argv[1] == "make":
        for path, dtype in zip(given, given, strict=True):
            make(path, dtype)
    else:
        for own, render, order in zip(given, given, given, strict=True):
            compare(own, render, [int(place) for place in order.split(",")])
