"""Hostile safetensors headers: what the package refuses is refused here, with our own errors and in bounded memory."""

import json
import math
import tracemalloc
from pathlib import Path

import pytest
import safetensors
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.checkpoint.header import Header, parse_header, read_header
from drafter_contracts.errors import CheckpointError

#: The same examples on every run.
FUZZ = settings(derandomize=True, max_examples=600, deadline=None)
SIZES = {"U8": 1, "BOOL": 1, "F8_E4M3": 1, "F16": 2, "BF16": 2, "F32": 4, "I64": 8}


def whole_file(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


def ours(content: bytes) -> Header | None:
    """What the reader makes of it; None if it refuses. Any other exception is a failure."""
    length = int.from_bytes(content[:8], "little")
    try:
        return parse_header(content[: 8 + length] if length < len(content) else content, len(content), "file")
    except CheckpointError:
        return None


def theirs(content: bytes) -> dict[str, tuple[str, tuple[int, ...]]] | None:
    try:
        return {name: (str(t["dtype"]), tuple(t["shape"])) for name, t in safetensors.deserialize(content)}
    except safetensors.SafetensorError:
        return None


def assert_no_more_than_the_package_takes(content: bytes) -> None:
    read, reference = ours(content), theirs(content)
    if read is not None:
        assert reference is not None, f"accepted what the package refuses: {content[:200]!r}"
        assert {tensor.name: (tensor.dtype, tensor.shape) for tensor in read.tensors} == reference
        assert len(read.tensors) == len(reference)
    elif reference is not None:
        # The reader is stricter in two things only: one name twice, and entries that are written as arrays.
        length = int.from_bytes(content[:8], "little")
        entries = json.loads(content[8 : 8 + length], object_pairs_hook=list)
        names = [name for name, _ in entries]
        arrays = [v for n, v in entries if n != "__metadata__" and not (v and isinstance(v[0], list | tuple))]
        assert len(set(names)) < len(names) or arrays, f"refused what the package takes: {content[:200]!r}"


#: A number as somebody may write it, right or wrong.
NUMBERS = st.one_of(
    st.integers(0, 40).map(str),
    st.sampled_from(
        [
            *("true", "false", "null", "NaN", "Infinity", "-1", "-0", "0.0", "1.0", "1e0", "1E400", "01", "+1"),
            *(str(n) for n in (2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**128)),
            *('"1"', "[1]", "{}", "9" * 400, ""),
        ]
    ),
)
NAMES = st.sampled_from(
    [
        *('"a"', '"b"', '"\\u0061"', '"fc.weight"', '"data_offsets"', '"__metadata__"', '"\\u005f_metadata__"'),
        *('""', '"\\ud800"', '"\\ud83d\\ude00"', '"a\\u0000"', '"\x01"', "a", "1", "null"),
    ]
)
FIELDS = st.sampled_from(["dtype", "shape", "data_offsets", "dtype ", "Shape", "extra", "d\\u0074ype"])
DTYPES = st.sampled_from([*SIZES, "F31", "bf16", "F4", "F6_E2M3", "C64", "", "\\u0046\\u0033\\u0032"])
METADATA = st.sampled_from(
    [
        *('{"format":"pt"}', "{}", "null", "[]", "1", '""', '{"a":1}', '{"a":null}', '{"a":["b"]}', '{"a":{"b":"c"}}'),
        *('{"a":"b","a":"c"}', '{"a":true}', '{1:"a"}'),
    ]
)
DEEP = st.sampled_from(["[" * n + "]" * n for n in (1, 100, 126, 127, 128, 1000)] + ['{"a":' * 900 + "1" + "}" * 900])


@st.composite
def entries(draw: st.DrawFn, offset: int) -> tuple[str, int]:
    """One tensor's entry, wrong in at most one way, and where the next one begins."""
    dtype, shape = draw(st.sampled_from(sorted(SIZES))), draw(st.lists(st.integers(0, 3), max_size=3))
    size = SIZES[dtype] * math.prod(shape)
    numbers = [*map(str, shape)], [str(offset), str(offset + size)]
    wrong = draw(st.sampled_from(["", "", "", "dtype", "shape", "offsets", "add", "drop"]))
    if wrong == "shape":
        numbers[0].insert(draw(st.integers(0, len(shape))), draw(NUMBERS))
    elif wrong == "offsets":
        numbers[1][draw(st.integers(0, 1))] = draw(NUMBERS)
    fields = [
        f'"dtype":"{draw(DTYPES) if wrong == "dtype" else dtype}"',
        f'"shape":[{",".join(numbers[0])}]',
        f'"data_offsets":[{",".join(numbers[1])}]',
    ]
    if wrong == "add":
        fields.append(f'"{draw(FIELDS)}":{draw(NUMBERS | DEEP | METADATA)}')
    elif wrong == "drop":
        fields.pop(draw(st.integers(0, 2)))
    return "{" + ",".join(draw(st.permutations(fields))) + "}", offset + size


@st.composite
def hostile_files(draw: st.DrawFn) -> bytes:
    parts, offset = [], 0
    for i in range(draw(st.integers(0, 4))):
        written, offset = draw(entries(offset))
        name = draw(NAMES) if draw(st.integers(0, 4)) == 0 else f'"t{i}"'
        parts.append(f"{name}:{written}")
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), f'"__metadata__":{draw(METADATA)}')
    end = draw(st.sampled_from(["}"] * 12 + ["} ", "}\0", "},", "}}", "", "}\n", "]"]))
    header = ("{" + ",".join(draw(st.permutations(parts))) + end).encode("utf-8", "surrogatepass")
    return whole_file(header, bytes(max(0, offset + draw(st.sampled_from([0] * 8 + [1, -1])))))


@FUZZ
@given(hostile_files())
def test_no_header_is_taken_that_the_package_refuses(content: bytes) -> None:
    assert_no_more_than_the_package_takes(content)


@FUZZ
@given(st.binary(max_size=200), st.integers(0, 2**64 - 1) | st.integers(0, 200))
@example(b"", 0)
@example(b"{}", 2**64 - 1)
@example(b"\xff\xfe{}", 4)
def test_no_bytes_raise_anything_else(content: bytes, length: int) -> None:
    assert_no_more_than_the_package_takes(whole_file(content, length=length))
    assert_no_more_than_the_package_takes(content)


@st.composite
def laid_out_files(draw: st.DrawFn) -> bytes:
    """Right entries whose offsets are shifted: gaps, overlaps, swapped ends, wrong order, missing or trailing bytes."""
    offset, header = 0, {}
    for i in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from(sorted(SIZES)))
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        size = SIZES[dtype] * math.prod(shape)
        header[f"t{i}"] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    for name in draw(st.lists(st.sampled_from(sorted(header)), max_size=2)):
        ends = header[name]["data_offsets"]
        ends[0] = max(0, ends[0] + draw(st.integers(-3, 3)))
        ends[1] = max(0, ends[1] + draw(st.sampled_from([0, 0, -1, 1, -4, 4])))
    names = draw(st.permutations(sorted(header)))
    encoded = json.dumps({name: header[name] for name in names}).encode()
    return whole_file(encoded, bytes(max(0, offset + draw(st.sampled_from([0, 0, 0, 1, -1, 8])))))


@FUZZ
@given(laid_out_files())
def test_offsets_must_cover_the_data_once_and_whole(content: bytes) -> None:
    assert_no_more_than_the_package_takes(content)


@FUZZ
@given(laid_out_files(), st.data())
def test_files_cut_anywhere_are_refused(content: bytes, data: st.DataObject) -> None:
    if ours(content) is not None:
        assert ours(content[: data.draw(st.integers(0, len(content) - 1))]) is None
        assert ours(content + b"\0") is None


def entry(shape: str = "[1]", offsets: str = "[0,1]", dtype: str = "U8", extra: str = "") -> bytes:
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{extra}}}'.encode()


@pytest.mark.parametrize(
    ("header", "data"),
    [
        pytest.param(b'{"a":' + entry("[4294967296,4294967296]", "[0,0]") + b"}", 0, id="shape-overflows-to-0"),
        pytest.param(b'{"a":' + entry("[4611686018427387904]", "[0,0]", "F32") + b"}", 0, id="bytes-overflow-to-0"),
        pytest.param(b'{"a":' + entry("[18446744073709551615,2,0]", "[0,0]") + b"}", 0, id="overflow-before-0"),
        pytest.param(b'{"a":' + entry("[18446744073709551616]") + b"}", 1, id="2-to-the-64"),
        pytest.param(b'{"a":' + entry("[true]") + b"}", 1, id="bool-as-dimension"),
        pytest.param(b'{"a":' + entry(offsets="[false,true]") + b"}", 1, id="bool-as-offset"),
        pytest.param(b'{"a":' + entry("[1.0]") + b"}", 1, id="float-as-dimension"),
        pytest.param(b'{"a":' + entry("[NaN]") + b"}", 1, id="nan"),
        pytest.param(b'{"a":' + entry("[-1]") + b"}", 1, id="negative"),
        pytest.param(b'{"a":' + entry(offsets="[1,0]") + b"}", 1, id="ends-swapped"),
        pytest.param(b'{"a":' + entry() + b',"b":' + entry() + b"}", 1, id="overlap"),
        pytest.param(b'{"a":' + entry() + b',"b":' + entry(offsets="[2,3]") + b"}", 3, id="gap"),
        pytest.param(b'{"a":' + entry(offsets="[1,2]") + b"}", 2, id="gap-in-front"),
        pytest.param(b'{"a":' + entry() + b"}", 2, id="trailing-data"),
        pytest.param(b'{"a":' + entry() + b"}", 0, id="missing-data"),
        pytest.param(b'{"a":' + entry() + b"} x", 1, id="trailing-text"),
        pytest.param(b'{"a":' + entry() + b"}\0\0", 1, id="padded-with-nul"),
        pytest.param(b'{"\xff":' + entry() + b"}", 1, id="no-utf-8"),
        pytest.param(b'{"\\ud800":' + entry() + b"}", 1, id="half-a-surrogate-pair"),
        pytest.param(b'\xef\xbb\xbf{"a":' + entry() + b"}", 1, id="byte-order-mark"),
        pytest.param(b'{"__metadata__":{"a":1},"a":' + entry() + b"}", 1, id="metadata-number"),
        pytest.param(b'{"__metadata__":{"a":null},"a":' + entry() + b"}", 1, id="metadata-null"),
        pytest.param(b'{"__metadata__":{"a":{}},"a":' + entry() + b"}", 1, id="metadata-object"),
        pytest.param(b'{"__metadata__":["a"],"a":' + entry() + b"}", 1, id="metadata-list"),
        pytest.param(b'{"a":' + entry(extra=',"x":' + "[" * 200_000 + "]" * 200_000) + b"}", 1, id="deep-list"),
        pytest.param(b'{"a":' + entry(extra=',"x":' + '{"x":' * 99_999 + "1" + "}" * 99_999) + b"}", 1, id="deep"),
        pytest.param(b"[" * 400_000, 0, id="deep-and-open"),
        pytest.param(b'{"a":' + entry(extra=',"dtype":"U8"') + b"}", 1, id="field-twice"),
        pytest.param(b'{"a":' + entry() + b',"a":' + entry() + b"}", 1, id="name-twice"),
        pytest.param(b'{"a":' + entry() + b',"\\u0061":' + entry() + b"}", 1, id="name-twice-escaped"),
        pytest.param(b'{"a":' + entry("[" + "9" * 100_000 + "]") + b"}", 1, id="endless-number"),
        pytest.param(b"", 0, id="empty"),
        pytest.param(b"null", 0, id="null"),
    ],
)
def test_what_is_refused(tmp_path: Path, header: bytes, data: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(whole_file(header, bytes(data)))
    with pytest.raises(CheckpointError) as refused:
        read_header(str(path))
    assert refused.value.where == str(path)
    assert len(refused.value.diagnostics()) < 2000


@pytest.mark.parametrize(
    ("header", "data", "shape"),
    [
        pytest.param(b'{"a":' + entry("[]") + b"}", 1, (), id="scalar"),
        pytest.param(b'{"a":' + entry("[0]", "[0,0]") + b"}", 0, (0,), id="no-element"),
        pytest.param(b'{"a":' + entry("[" + ",".join(["1"] * 5000) + "]") + b"}", 1, (1,) * 5000, id="5000-dimensions"),
        pytest.param(b'{"a":' + entry(extra=',"x":' + "[" * 100 + "]" * 100) + b"}", 1, (1,), id="extra-nested"),
        pytest.param(b'{"__metadata__":null,"a":' + entry() + b"}   ", 1, (1,), id="padded"),
    ],
)
def test_odd_files_that_the_package_takes_are_read(
    tmp_path: Path, header: bytes, data: int, shape: tuple[int, ...]
) -> None:
    content = whole_file(header, bytes(data))
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert [tensor.shape for tensor in read_header(str(path)).tensors] == [shape]
    assert theirs(content) == {"a": ("U8", shape)}


@pytest.mark.parametrize("claim", [limits.header_max_bytes + 1, 2**30, 2**31, 2**40, 2**63, 2**64 - 1])
def test_a_header_of_any_size_costs_no_memory(tmp_path: Path, claim: int) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.write(claim.to_bytes(8, "little") + b'{"a":')
        file.truncate(2**32)  # a hole
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError):
            read_header(str(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
