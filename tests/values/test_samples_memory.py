"""Files far larger than what a reader may take: nothing is copied, and what is not looked at is not touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from making.formats import INDEX_RECORD, write

from drafter_contracts.values import records

MIB = 1 << 20
#: Rows of a sample of 6 GB: k = 3 taps of width 4096 and the last state, bf16.
ROWS, WIDTH = 200_000, 4096

CHILD = """
import json, sys
import torch
from drafter_contracts.values.samples import read_samples

torch.set_num_threads(1)

def memory(kind):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(kind))

def look(path):
    for sample in read_samples(path):
        rows = len(sample.tokens)
        some = [0, rows // 2, rows - 1]
        total = sum(float(block[row].float().sum()) for block in (*sample.blocks, sample.last) for row in some
                    if block is not None)
    return rows, total

small, *large = sys.argv[1:]
look(small)
for path in large:
    anonymous, mapped, peak = memory("RssAnon"), memory("RssFile"), memory("VmHWM")
    rows, total = look(path)
    found = memory("RssAnon") - anonymous, memory("RssFile") - mapped, memory("VmHWM") - peak
    print(json.dumps([rows, total, *found]))
"""


def measured(*paths, **environment):
    """Per path: rows, sum of some rows, growth of anonymous and of mapped resident memory, and of its peak."""
    result = subprocess.run(
        [sys.executable, "-c", CHILD, *paths],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    return [json.loads(line) for line in result.stdout.splitlines()]


def sparse_ckpt(path):
    with torch.serialization.skip_data():
        content = {"hidden_state": torch.empty(1, ROWS, WIDTH, dtype=torch.bfloat16)}
        content["aux_hidden_state"] = torch.empty(1, ROWS, 3 * WIDTH, dtype=torch.bfloat16)
        torch.save({"input_ids": torch.empty(ROWS, dtype=torch.int64), **content}, path)


def sparse_safetensors(path, rows):
    states, end = rows * 4 * WIDTH * 2, rows * 4 * WIDTH * 2 + rows * 8
    header = {
        "hidden_states": {"dtype": "BF16", "shape": [rows, 4, WIDTH], "data_offsets": [0, states]},
        "token_ids": {"dtype": "I64", "shape": [rows], "data_offsets": [states, end]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def sparse_cache(folder, rows):
    tiny = write(records.DEEPSPEC, folder, [1], [torch.ones(1, WIDTH)] * 3, name="cache", dtype=torch.bfloat16)
    sizes = (rows * 4, rows, rows, rows * 3 * WIDTH * 2, rows * WIDTH * 2)
    offsets = [sum(sizes[:place]) for place in range(5)]
    with open(f"{tiny}/samples.idx", "wb") as file:
        file.write(INDEX_RECORD.pack(0, 0, rows, *offsets))
    with open(f"{tiny}/shard-00000.bin", "wb") as file:
        file.seek(rows * 4)
        file.write(b"\1" * (2 * rows))
        file.truncate(sum(sizes))
    return tiny


def packed(folder, container):
    """A file that has to be unpacked, of 64 MiB: 15 rows of zeros and one of ones."""
    state = torch.zeros(16, MIB)
    state[15] = 1.0
    return write(records.SPECFORGE_DFLASH, folder, range(16), [state], name=container, **{container: True})


def test_gigabytes_are_read_in_constant_memory_and_only_where_somebody_looks(tmp_path):
    small = write(records.SPECFORGE_EAGLE3, str(tmp_path), range(3), [torch.randn(3, 8)] * 3)
    ckpt, stacked, far = (str(tmp_path / name) for name in ("big.ckpt", "big.safetensors", "far.safetensors"))
    sparse_ckpt(ckpt)
    sparse_safetensors(stacked, ROWS)
    # More than the memory of most machines, and than their kernels promise.
    sparse_safetensors(far, 20 * ROWS)
    cache = sparse_cache(str(tmp_path), ROWS)
    large = (ckpt, stacked, f"{cache}/shard-00000.bin")
    assert all(os.path.getsize(path) > 6e9 for path in large)
    assert os.path.getsize(far) > 120e9
    assert sum(os.stat(path).st_blocks * 512 for path in (*large, far)) < 16 * MIB
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    unnamed = [packed(str(tmp_path), container) for container in ("gz", "legacy")]
    found = measured(small, ckpt, stacked, cache, *unnamed, far, TMPDIR=str(unpacked))
    assert [rows for rows, *_ in found] == [ROWS, ROWS, ROWS, 16, 16, 20 * ROWS]
    for _, total, anonymous, mapped, peak in found[:3]:
        assert total == 0
        assert anonymous < 16 * MIB
        assert mapped < 32 * MIB
        assert peak < 48 * MIB
    # Unpacked into a file that has no name, and mapped from there.
    for _, total, anonymous, _, peak in found[3:5]:
        assert total == MIB
        assert anonymous < 24 * MIB
        assert peak < 48 * MIB
    assert os.listdir(unpacked) == []
    # Its tokens alone are 32 MB, and are looked at.
    assert found[5][2] < 160 * MIB
    assert found[5][3] < 160 * MIB


def test_no_space_to_unpack_is_said(tmp_path, monkeypatch):
    from drafter_contracts.errors import SampleError
    from drafter_contracts.values.samples import container, read_samples

    def full(*_):
        return open("/dev/full", "w+b", buffering=0)

    monkeypatch.setattr(container.tempfile, "TemporaryFile", full)
    for name in ("gz", "legacy"):
        path = write(records.SPECFORGE_DFLASH, str(tmp_path), range(3), [torch.randn(3, 8)], **{name: True})
        with pytest.raises(SampleError, match="no space"):
            list(read_samples(path))
