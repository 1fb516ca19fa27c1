"""A drafter in another order computes the same: its files, rewritten, on the states in the order of the files.

Floating-point sums depend on their order, so "the same" is proved without leaving it to chance: every product is the
same pair of factors, bit by bit; sums that are rounded once, after everything was added exactly, are equal to the last
bit; and so are sums that take the taps in one fixed order, as torch computes them block by block.
"""

from __future__ import annotations

import array
import importlib.util
import math
import os
import struct
import subprocess
import sys
from glob import glob
from itertools import chain
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import deserialize

from drafter_cli.rendering.weights_file import read_weights_head, write_weights
from drafter_contracts.rendering.records import WeightChange
from drafter_contracts.rendering.weights import rewritten

NAME = "model.safetensors"
PROGRAM = Path(__file__).parent / "programs" / "same_function.py"
weights = st.floats(-8, 8, width=32)


def float32(value):
    """A number rounded once to single precision."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def joined(lists):
    return list(chain.from_iterable(lists))


def bits(numbers):
    """Numbers as they are stored: -0.0 is not 0.0."""
    return array.array("d", numbers).tobytes()


def write(path, tensors):
    """An F32 file; tensors: name to (shape, numbers)."""
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        content = array.array("f", numbers).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (len(data), len(data) + len(content))}
        data += content
    head = msgspec.json.encode(header)
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def read(path):
    return {name: array.array("f", bytes(tensor["data"])).tolist() for name, tensor in deserialize(path.read_bytes())}


def permute(source, target, order, widths):
    (plan,) = rewritten([read_weights_head(str(source), NAME)], WeightChange(order), widths) or (None,)
    if plan is None:
        target.write_bytes(source.read_bytes())
    else:
        write_weights(plan, {NAME: str(source)}, str(target))


def exactly(rows, state):
    """A matrix times a state, as bits: sums are added exactly and rounded once; products of singles are doubles."""
    width = len(state)
    return bits(
        math.fsum(w * x for w, x in zip(rows[at : at + width], state, strict=True)) for at in range(0, len(rows), width)
    )


def normed(state, scale):
    """RMSNorm in single precision, its mean square rounded once."""
    mean = float32(math.fsum(x * x for x in state) / len(state))
    factor = float32(1 / math.sqrt(mean + 1e-5))
    return [float32(float32(x * factor) * w) for x, w in zip(state, scale, strict=True)]


class Case:
    """A drafter with every kind of norm, a state for it, and both in another order."""

    def __init__(self, data, folder):
        count = data.draw(st.integers(2, 4), label="taps")
        self.widths = data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count), label="widths")
        self.order = tuple(data.draw(st.permutations(range(count)), label="order"))
        self.rows = data.draw(st.integers(1, 3), label="rows")
        total = sum(self.widths)

        def numbers(length, kind=weights):
            return data.draw(st.lists(kind, min_size=length, max_size=length))

        norms = {f"fc_norm.{place}.weight": ([width], numbers(width)) for place, width in enumerate(self.widths)}
        tensors = {
            "fc.weight": ([self.rows, total], numbers(self.rows * total)),
            "input_norm.weight": ([total], numbers(total)),
            "mask_hidden": ([1, total], numbers(total)),
        }
        write(folder / "own", tensors | norms)
        permute(folder / "own", folder / "render", self.order, self.widths)
        self.own, self.render = read(folder / "own"), read(folder / "render")
        self.taps = [numbers(width, st.floats(-1000, 1000, width=32)) for width in self.widths]

    def states(self):
        """What the drafter was trained on, and what the release feeds."""
        return joined(self.taps), joined(self.taps[place] for place in self.order)

    def back(self, state):
        """A vector over the render's concatenation in the drafter's own order, tap by tap."""
        found, at = {}, 0
        for place in self.order:
            found[place] = state[at : at + self.widths[place]]
            at += self.widths[place]
        return [found[place] for place in range(len(self.order))]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_product_is_of_the_same_two_numbers(tmp_path_factory, data):
    case = Case(data, tmp_path_factory.mktemp("case"))
    state, fed = case.states()
    width = len(state)
    for row in range(case.rows):
        own = case.own["fc.weight"][row * width : (row + 1) * width]
        render = case.render["fc.weight"][row * width : (row + 1) * width]
        products = [w * x for w, x in zip(own, state, strict=True)]
        theirs = [w * x for w, x in zip(render, fed, strict=True)]
        assert bits(joined(case.back(theirs))) == bits(products)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_sums_that_are_rounded_once_are_equal_to_the_last_bit(tmp_path_factory, data):
    case = Case(data, tmp_path_factory.mktemp("case"))
    state, fed = case.states()
    own, render = case.own, case.render
    assert exactly(own["fc.weight"], state) == exactly(render["fc.weight"], fed)
    one, other = normed(state, own["input_norm.weight"]), normed(fed, render["input_norm.weight"])
    assert bits(joined(case.back(other))) == bits(one)
    assert exactly(own["fc.weight"], one) == exactly(render["fc.weight"], other)
    assert exactly(own["fc.weight"], own["mask_hidden"]) == exactly(render["fc.weight"], render["mask_hidden"])
    chunks = [normed(case.taps[place], own[f"fc_norm.{place}.weight"]) for place in range(len(case.order))]
    others = [normed(case.taps[source], render[f"fc_norm.{place}.weight"]) for place, source in enumerate(case.order)]
    assert [chunks[place] for place in case.order] == others
    assert exactly(own["fc.weight"], joined(chunks)) == exactly(render["fc.weight"], joined(others))


def test_without_the_permutation_another_function_is_computed(tmp_path):
    """The proof would not hold for weights that stay as they are: the fault that the project is about."""
    write(tmp_path / "own", {"fc.weight": ([1, 4], [1, 2, 3, 4])})
    permute(tmp_path / "own", tmp_path / "render", (1, 0), (2, 2))
    own, render = read(tmp_path / "own")["fc.weight"], read(tmp_path / "render")["fc.weight"]
    assert exactly(own, [1, 10, 100, 1000]) == exactly(render, [100, 1000, 1, 10])
    assert exactly(own, [1, 10, 100, 1000]) != exactly(own, [100, 1000, 1, 10])


def python_with_torch():
    """An interpreter that has torch and safetensors: this one, or that of the engines that run here."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    cache = os.environ.get("DRAFTERS_ENGINE_ENVS") or os.path.expanduser("~/.cache/drafter-registry/engines")
    found = [python for python in glob(os.path.join(cache, "common-*", "bin", "python")) if os.access(python, os.X_OK)]
    return found[0] if found else pytest.skip("no torch here, and no engine's environment that has it")


ORDERS = ((2, 0, 1), (1, 0, 2), (2, 1, 0), (0, 1, 2))


def test_torch_computes_the_same_bits_tap_by_tap(tmp_path):
    python = python_with_torch()

    def run(*arguments):
        done = subprocess.run(
            [python, "-I", str(PROGRAM), *map(str, arguments)],
            capture_output=True, text=True, check=False, timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [msgspec.json.decode(line) for line in done.stdout.splitlines()]

    own = {dtype: tmp_path / f"{dtype}.safetensors" for dtype in ("float32", "bfloat16")}
    run("make", *chain.from_iterable((path, dtype) for dtype, path in own.items()))
    cases = [(path, path.with_suffix(f".{order}"), order) for path in own.values() for order in ORDERS]
    for path, render, order in cases:
        permute(path, render, order, ())
    texts = [(path, render, ",".join(map(str, order))) for path, render, order in cases]
    compared = run("compare", *chain.from_iterable([*texts, *((path, path, order) for path, _, order in texts)]))
    assert len(compared) == 2 * len(cases)
    for result, unlike, (_, _, order) in zip(compared[: len(cases)], compared[len(cases) :], cases, strict=True):
        assert result.pop("plain fc, largest difference") < 1e-9
        assert set(result.values()) == {True}
        assert set(result) == {"fc", "input_norm and fc", "fc_norm and fc", "mask", "the rest"}
        moved = {name: unlike[name] for name in result if name != "the rest"}
        assert set(moved.values()) == {order == (0, 1, 2)}, "weights that stay as they are compute something else"
