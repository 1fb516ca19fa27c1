"""Safetensors headers: what is read, what is refused, and agreement with the safetensors package itself."""

import json
import os
from pathlib import Path

import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.checkpoint.header import parse_header, read_header
from drafter_contracts.checkpoint.skeleton import DTYPE_BYTES, write_skeleton, write_sparse_weights
from drafter_contracts.errors import CheckpointError


def whole_file(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def ours(content: bytes) -> tuple[TensorFact, ...] | None:
    """What the reader makes of a file with this content; None if it refuses it."""
    if len(content) < 8:
        return None
    length = int.from_bytes(content[:8], "little")
    try:
        return parse_header(content[: 8 + length], len(content), "file").tensors
    except CheckpointError:
        return None


def theirs(content: bytes) -> dict[str, tuple[str, tuple[int, ...]]] | None:
    """What the package makes of it."""
    try:
        return {name: (str(t["dtype"]), tuple(t["shape"])) for name, t in safetensors.deserialize(content)}
    except safetensors.SafetensorError:
        return None


def assert_agree(content: bytes) -> None:
    tensors, reference = ours(content), theirs(content)
    if tensors is not None:
        assert reference is not None, "accepted a file that the package refuses"
        assert {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors} == reference
    elif reference is not None:
        # The only files that the package takes and the reader does not: repeated names, entries written as arrays.
        length = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + length], object_pairs_hook=list)
        names = [name for name, _ in entries]
        arrays = [v for n, v in entries if n != "__metadata__" and not (v and isinstance(v[0], (list, tuple)))]
        assert len(set(names)) < len(names) or arrays


SHAPES = st.lists(st.integers(0, 4), max_size=3)
NAMES = st.text(min_size=1, max_size=8) | st.sampled_from(["data_offsets", "dtype", "fc.weight", "a\\b", 'q"q'])
TENSORS = st.dictionaries(
    NAMES.filter(lambda name: name != "__metadata__"),
    st.tuples(st.sampled_from(sorted(DTYPE_BYTES)), SHAPES),
    max_size=5,
)
METADATA = st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)


@st.composite
def valid_files(draw: st.DrawFn) -> bytes:
    header: dict[str, object] = {}
    metadata = draw(METADATA)
    if metadata is not None:
        header["__metadata__"] = metadata
    offset = 0
    for name, (dtype, shape) in draw(TENSORS).items():
        size = DTYPE_BYTES[dtype]
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(
        header, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    )
    try:
        encoded = text.encode()
    except UnicodeEncodeError:  # lone surrogates cannot be written unescaped
        encoded = json.dumps(header).encode()
    return whole_file(encoded + b" " * draw(st.integers(0, 9)), bytes(offset))


@given(valid_files())
def test_valid_files_are_read_as_the_package_reads_them(content: bytes) -> None:
    assert_agree(content)


@given(valid_files(), st.data())
def test_damaged_files_are_refused_whenever_the_package_refuses_them(content: bytes, data: st.DataObject) -> None:
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 3))):
        kind = data.draw(st.sampled_from(["byte", "cut", "append", "swap"]))
        if kind == "byte" and damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del damaged[data.draw(st.integers(0, len(damaged))) :]
        elif kind == "append":
            damaged += data.draw(st.binary(max_size=4))
        else:
            old, new = data.draw(
                st.sampled_from([(b"F32", b"F99"), (b"[", b"{"), (b"0", b"1"), (b"1", b"-1"), (b'"', b"")])
            )
            damaged = bytearray(bytes(damaged).replace(old, new, 1))
    assert_agree(bytes(damaged))


ENTRY = b'{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'


@pytest.mark.parametrize(
    ("header", "data", "complaint"),
    [
        (b'{"a":' + ENTRY + b',"a":' + ENTRY + b"}", b"1234", "two tensors have one name"),
        (b'{"a":' + ENTRY + b',"\\u0061":' + ENTRY + b"}", b"1234", "two tensors have one name"),
        (b'{"a":' + ENTRY + b"}", b"123", "not as long as its header says"),
        (b'{"a":' + ENTRY + b"}", b"12345", "not as long as its header says"),
        (b"{}", b"1", "not as long as its header says"),
        (b'{"a":["F32",[1],[0,4]]}', b"1234", "not a safetensors header"),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}', b"12345678", "the safetensors package refuses"),
        (b'{"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}', b"1234", "the safetensors package refuses"),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', b"12345678", "the safetensors package refuses"),
        (b'{"\xff":1}', b"", "the safetensors package refuses"),
        (b"[" * 3000, b"", "the safetensors package refuses"),
    ],
)
def test_what_is_refused_names_the_file_and_the_fault(
    tmp_path: Path, header: bytes, data: bytes, complaint: str
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(whole_file(header, data))
    with pytest.raises(CheckpointError, match=complaint) as refused:
        read_header(str(path))
    assert refused.value.where == str(path)


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (b"{}", b""),
        (b'{"__metadata__":{"format":"pt"}}', b""),
        (b'{"a":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}}', b""),
        (b'{"data_offsets":' + ENTRY + b"}", b"1234"),
    ],
)
def test_files_without_data_and_odd_names_are_read(header: bytes, data: bytes) -> None:
    assert ours(whole_file(header, data)) is not None


def test_a_header_over_the_cap_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write((limits.header_max_bytes + 1).to_bytes(8, "little"))
        file.truncate(limits.header_max_bytes * 3)
    with pytest.raises(CheckpointError, match="too large"):
        read_header(str(path))
    path.write_bytes(b"\x00" * 7)
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        read_header(str(path))
    path.write_bytes((10**15).to_bytes(8, "little"))
    with pytest.raises(CheckpointError, match="cut short"):
        read_header(str(path))


def test_a_pipe_or_folder_in_place_of_the_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "missing"):
        with pytest.raises(CheckpointError, match=r"not a regular file|cannot be opened"):
            read_header(str(tmp_path / name))


def test_a_skeleton_of_full_size_is_a_valid_file_that_holds_no_blocks(tmp_path: Path) -> None:
    write_skeleton(
        str(tmp_path), {"hidden_size": 7168}, {"fc.weight": ("BF16", (7168, 21504)), "d2t": ("I64", (32000,))}
    )
    path = tmp_path / "model.safetensors"
    header = read_header(str(path))
    assert header.tensors == (TensorFact("fc.weight", "BF16", (7168, 21504)), TensorFact("d2t", "I64", (32000,)))
    assert header.metadata == {"format": "pt"}
    status = path.stat()
    assert status.st_size > 7168 * 21504 * 2
    assert status.st_blocks * 512 < 100_000
    with pytest.raises(CheckpointError, match="unknown dtype"):
        write_sparse_weights(str(path), {"a": ("float32", (1,))})
    with pytest.raises(CheckpointError, match="negative"):
        write_sparse_weights(str(path), {"a": ("F32", (-1,))})
