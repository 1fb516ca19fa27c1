"""Weight files of renders, written by the real writer and read by the safetensors package."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import tracemalloc
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import TensorSpec, deserialize, serialize_file

from drafter_cli.errors import UsageError
from drafter_cli.rendering import weights_file
from drafter_cli.rendering.weights_file import read_weights_head, write_weights
from drafter_contracts.checkpoint.skeleton import write_sparse_weights
from drafter_contracts.errors import CheckpointError
from drafter_contracts.rendering.records import WeightChange
from drafter_contracts.rendering.weights import rewritten

SINGLE = "model.safetensors"
BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1}
TORCH_NAMES = {"BF16": "bfloat16", "F32": "float32", "F8_E4M3": "float8_e4m3fn", "I64": "int64"}


def write(path, tensors, metadata=None):
    """A file as the safetensors package writes it; tensors: name to (dtype, shape, data)."""
    kept = {name: ctypes.create_string_buffer(data, max(len(data), 1)) for name, (_, _, data) in tensors.items()}
    entries = {
        name: TensorSpec(
            dtype=TORCH_NAMES[dtype], shape=list(shape), data_ptr=ctypes.addressof(kept[name]), data_len=len(data)
        )
        for name, (dtype, shape, data) in tensors.items()
    }
    serialize_file(entries, str(path), metadata)
    return path


def read(path):
    return {
        name: (tensor["dtype"], tuple(tensor["shape"]), bytes(tensor["data"]))
        for name, tensor in deserialize(path.read_bytes())
    }


def render(paths, folder, change, widths=()):
    """Carry a change out; the files of the render by name, those that do not change being the old ones."""
    folder.mkdir(exist_ok=True)
    heads = [read_weights_head(str(path), name) for name, path in paths.items()]
    result = dict(paths)
    for plan in rewritten(heads, change, widths):
        written = write_weights(plan, {n: str(p) for n, p in paths.items()}, str(folder / plan.name))
        result[plan.name] = folder / plan.name
        content = result[plan.name].read_bytes()
        assert (written.size, written.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert plan.size == len(content)
    assert sorted(os.listdir(folder)) == sorted(p.name for p in result.values() if p.parent == folder)
    return result


def blocks(data, rows, widths, order, size):
    """Rows with their blocks in another order, element by element: no part of what is tested."""
    ends = list(accumulate(widths))
    out = bytearray()
    for row in range(rows):
        for place in order:
            for column in range(ends[place] - widths[place], ends[place]):
                at = (row * sum(widths) + column) * size
                out += data[at : at + size]
    return bytes(out)


class Drafter:
    """A small drafter of random shape, in one or several files."""

    def __init__(self, data):
        count = data.draw(st.integers(1, 5), label="taps")
        widths = st.integers(1, 5)
        self.widths = data.draw(
            st.one_of(widths.map(lambda w: [w] * count), st.lists(widths, min_size=count, max_size=count)), label="w"
        )
        self.order = tuple(data.draw(st.permutations(range(count)), label="order"))
        self.dtype = data.draw(st.sampled_from(sorted(BYTES)), label="dtype")
        self.rows = data.draw(st.integers(1, 6).filter(lambda rows: rows != count), label="rows")
        self.prefix = data.draw(st.sampled_from(["", "model."]))
        self.family = data.draw(st.sampled_from(["", "fc_norm.", "aux_hidden_norms."]))
        total = sum(self.widths)
        self.tensors = {}
        self._add(f"{self.prefix}fc.weight", self.dtype, (self.rows, total))
        if data.draw(st.booleans()):
            self._add("fc.bias", "F32", (self.rows,))
        if data.draw(st.booleans()):
            self._add("input_norm.weight", "BF16", (total,))
        if data.draw(st.booleans()):
            self._add("mask_hidden", "F32", (1, total))
        for place, width in enumerate(self.widths if self.family else ()):
            self._add(f"{self.family}{place}.weight", "BF16", (width,))
        self._add("midlayer.mlp.up_proj.weight", "BF16", (total, 2))
        self._add("lm_head.weight", "F32", (7, 3))
        self._add("d2t", "I64", (0,))
        self.metadata = data.draw(st.sampled_from([None, {"format": "pt"}, {"ä": '"\\', "format": "pt"}]))
        shards = data.draw(st.integers(1, 3), label="shards")
        self.shard_of = {name: data.draw(st.integers(0, shards - 1)) for name in self.tensors}

    def _add(self, name, dtype, shape):
        size = {"I64": 8}.get(dtype) or BYTES[dtype]
        for length in shape:
            size *= length
        seed = hashlib.shake_128(name.encode()).digest(size)
        self.tensors[name] = (dtype, shape, seed)

    def write(self, folder):
        folder.mkdir()
        paths = {}
        for shard in sorted({*self.shard_of.values()}):
            name = f"model-{shard}.safetensors"
            mine = {tensor: self.tensors[tensor] for tensor in self.tensors if self.shard_of[tensor] == shard}
            paths[name] = write(folder / name, mine, self.metadata)
        return paths

    def expected(self, order):
        """Every tensor of the render."""
        result = dict(self.tensors)
        total = sum(self.widths)
        wide = {f"{self.prefix}fc.weight": self.rows, "input_norm.weight": 1, "mask_hidden": 1}
        for name, rows in wide.items():
            if name in result:
                dtype, shape, data = result[name]
                assert shape[-1] == total
                result[name] = (dtype, shape, blocks(data, rows, self.widths, order, BYTES[dtype]))
        for place, source in enumerate(order if self.family else ()):
            result[f"{self.family}{place}.weight"] = self.tensors[f"{self.family}{source}.weight"]
        return result


def contents(paths):
    return {name: path.read_bytes() for name, path in paths.items()}


def inverse(order):
    return tuple(sorted(range(len(order)), key=order.__getitem__))


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from([1, 7, 64, 8 * 1024 * 1024]))
def test_a_render_holds_the_drafters_blocks_in_the_new_order_and_the_inverse_gives_the_files_back(
    tmp_path_factory, data, chunk
):
    drafter = Drafter(data)
    folder = tmp_path_factory.mktemp("drafter")
    paths = drafter.write(folder / "own")
    before = contents(paths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights_file, "_CHUNK_BYTES", chunk)
        there = render(paths, folder / "there", WeightChange(drafter.order), drafter.widths)
        widths = [drafter.widths[place] for place in drafter.order]
        back = render(there, folder / "back", WeightChange(inverse(drafter.order)), widths)
        again = render(paths, folder / "again", WeightChange(drafter.order), drafter.widths)
    assert contents(paths) == before, "the drafter's own files are never touched"
    assert contents(back) == before
    assert contents(again) == contents(there), "the same plan gives the same bytes"
    held = {name: tensor for path in there.values() for name, tensor in read(path).items()}
    assert held == drafter.expected(drafter.order)
    for name, path in there.items():
        if len(set(drafter.widths)) == 1:
            length = int.from_bytes(before[name][:8], "little") + 8
            assert path.read_bytes()[:length] == before[name][:length], "the header stays as it is"


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_names_change_and_data_do_not(tmp_path_factory, data):
    drafter = Drafter(data)
    folder = tmp_path_factory.mktemp("drafter")
    paths = drafter.write(folder / "own")
    chosen = data.draw(st.lists(st.sampled_from(sorted(drafter.tensors)), unique=True), label="renamed")
    names = {name: f"new.{place}" for place, name in enumerate(chosen)}
    there = render(paths, folder / "there", WeightChange(drafter.order, names), drafter.widths)
    held = {name: tensor for path in there.values() for name, tensor in read(path).items()}
    assert held == {names.get(n, n): tensor for n, tensor in drafter.expected(drafter.order).items()}
    untouched = render(paths, folder / "names", WeightChange((), names))
    assert {n: t for p in untouched.values() for n, t in read(p).items()} == {
        names.get(n, n): tensor for n, tensor in drafter.tensors.items()
    }
    assert set(untouched) == set(paths)
    assert {n for n, p in untouched.items() if p.parent.name == "names"} == {
        f"model-{drafter.shard_of[name]}.safetensors" for name in chosen
    }, "a file without a renamed tensor is the drafter's own"


FC = {"fc.weight": ("F32", (2, 4), bytes(range(32))), "norm.weight": ("F32", (2,), b"norm" * 2)}


@pytest.fixture
def own(tmp_path):
    path = write(tmp_path / SINGLE, FC)
    (plan,) = rewritten([read_weights_head(str(path), SINGLE)], WeightChange((1, 0)))
    return path, plan


def test_the_first_block_and_the_second_change_places(own, tmp_path):
    path, plan = own
    write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "new"))
    data = read(tmp_path / "new")
    assert data["fc.weight"][2] == bytes([*range(8, 16), *range(8), *range(24, 32), *range(16, 24)])
    assert data["norm.weight"] == read(path)["norm.weight"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"norm.weight", b"morn.weight")),
        lambda path: path.unlink(),
    ],
)
def test_a_file_that_is_not_the_planned_one_is_refused_and_nothing_is_left(own, tmp_path, damage):
    path, plan = own
    damage(path)
    with pytest.raises(CheckpointError) as error:
        write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "new"))
    assert error.value.where == str(path)
    assert [name for name in os.listdir(tmp_path) if name != SINGLE] == []


def test_a_file_that_grows_while_it_is_copied_is_refused(own, tmp_path, monkeypatch):
    path, plan = own
    write_one = weights_file._write

    def grows(*arguments):
        digest = write_one(*arguments)
        with path.open("ab") as file:
            file.write(b"x")
        return digest

    monkeypatch.setattr(weights_file, "_write", grows)
    with pytest.raises(CheckpointError, match="planned with"):
        write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "new"))
    assert os.listdir(tmp_path) == [SINGLE]


def test_a_file_that_is_cut_short_while_it_is_copied_is_refused(own, tmp_path, monkeypatch):
    path, plan = own
    check = weights_file._check_size

    def cuts(*arguments):
        check(*arguments)
        os.truncate(path, plan.size - 1)

    monkeypatch.setattr(weights_file, "_check_size", cuts)
    with pytest.raises(CheckpointError, match="cut short"):
        write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "new"))
    assert os.listdir(tmp_path) == [SINGLE]


def test_a_source_that_nobody_named_is_refused(own, tmp_path):
    with pytest.raises(CheckpointError, match="was not said"):
        write_weights(own[1], {}, str(tmp_path / "new"))


def test_where_it_cannot_be_written_is_told_and_nothing_is_left(own, tmp_path, monkeypatch):
    path, plan = own
    with pytest.raises(UsageError, match="cannot be written"):
        write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "missing" / "new"))

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "new"))
    assert os.listdir(tmp_path) == [SINGLE]


def test_an_older_file_of_that_name_is_replaced_whole(own, tmp_path):
    path, plan = own
    (tmp_path / "new").write_bytes(b"older")
    write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "new"))
    assert len((tmp_path / "new").read_bytes()) == plan.size
    assert sorted(os.listdir(tmp_path)) == [SINGLE, "new"]


def test_no_more_is_held_in_memory_than_a_few_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(weights_file, "_CHUNK_BYTES", 64 * 1024)
    path = tmp_path / SINGLE
    tensors = {
        "fc.weight": ("BF16", (1024, 3 * 1024)),
        "mask_hidden": ("F32", (1, 3 * 1024)),
        "x.y": ("F32", (1 << 20,)),
    }
    write_sparse_weights(str(path), tensors)
    (plan,) = rewritten([read_weights_head(str(path), SINGLE)], WeightChange((2, 0, 1)))
    tracemalloc.start()
    try:
        write_weights(plan, {SINGLE: str(path)}, str(tmp_path / "new"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert plan.size > 10_000_000
    assert peak < 1_000_000
