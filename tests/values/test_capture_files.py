"""Capture files: written whole or not at all, read as views, and every disagreement in them named."""

from __future__ import annotations

import hashlib
import json
import os
import stat

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from drafter_contracts.errors import CaptureError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, STREAM_MEAN, Tap
from drafter_contracts.values.capture_writer import CaptureWriter
from drafter_contracts.values.captures import read_capture, write_capture
from drafter_contracts.values.records import Capture

METADATA = {"format": "drafters.capture.v1", "layers": "3", "hidden_size": "4", "vocab_size": "10", "dtype": "float32"}


def record(layers=3, width=4, vocabulary=10, dtype="float32"):
    return ReferenceRecord(
        kind="target",
        model="ORG/Tiny",
        revision="abc",
        sha256="0" * 64,
        layers=layers,
        hidden_size=width,
        vocab_size=vocabulary,
        dtype=dtype,
        made_with="transformers 1, torch 2",
    )


EVERY = (Tap(0), Tap(1), Tap(2), Tap(3), Tap(3, FINAL_NORM))


def capture(rows=5, taps=EVERY, dtype=torch.float32, choices=True, **own):
    own = {"layers": 3, "width": 4, "vocabulary": 10} | own
    tokens = torch.arange(rows) % own["vocabulary"]
    states = {tap: torch.randn(rows, own["width"]).to(dtype) for tap in taps}
    return Capture(record=record(**own), tokens=tokens, states=states, choices=tokens.flip(0) if choices else None)


def tensors(rows=5, width=4):
    """What a good file holds."""
    return {
        "token_ids": torch.arange(rows),
        "boundary.0": torch.randn(rows, width),
        "boundary.3": torch.randn(rows, width),
        "final_norm": torch.randn(rows, width),
        "choices": torch.arange(rows),
    }


def saved(folder, content, **metadata):
    path = str(folder / "c.safetensors")
    save_file(content, path, {**METADATA, **metadata})
    return path


@settings(deadline=None, max_examples=25)
@given(
    data=st.data(),
    rows=st.integers(1, 7),
    width=st.integers(1, 5),
    layers=st.integers(1, 6),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    choices=st.booleans(),
)
def test_what_was_written_is_read_bit_for_bit(tmp_path_factory, data, rows, width, layers, dtype, choices):
    every = [*(Tap(boundary) for boundary in range(layers + 1)), Tap(layers, FINAL_NORM)]
    taps = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    made = capture(rows, taps, dtype, choices, layers=layers, width=width)
    path = str(tmp_path_factory.mktemp("capture") / "c.safetensors")
    write_capture(path, made)
    found = read_capture(path)
    assert found.taps() == made.taps()
    assert found.missing() == tuple(tap for tap in every if tap not in taps)
    assert torch.equal(found.tokens, made.tokens)
    assert (found.choices is None) is not choices
    if choices:
        assert torch.equal(found.choices, made.choices)
    others = load_file(path)  # as any other program reads it
    for tap in taps:
        name = "final_norm" if tap.state == FINAL_NORM else f"boundary.{tap.boundary}"
        assert found.states[tap].dtype == dtype
        assert torch.equal(found.states[tap].view(torch.uint8), made.states[tap].view(torch.uint8))
        assert torch.equal(others[name], made.states[tap])


def test_a_file_says_what_it_is_of(tmp_path):
    path = str(tmp_path / "c.safetensors")
    write_capture(path, capture(dtype=torch.bfloat16), tool="a test")
    found = read_capture(path).record
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    assert found == ReferenceRecord(
        kind="capture",
        model="ORG/Tiny",
        revision="abc",
        sha256=digest,
        layers=3,
        hidden_size=4,
        vocab_size=10,
        dtype="bfloat16",
        made_with="transformers 1, torch 2",
    )
    assert read_capture(path, digest=False).record.sha256 == ""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert header["__metadata__"]["reference_sha256"] == "0" * 64
    assert header["__metadata__"]["tool"] == "a test"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_states_are_read_when_they_are_used(tmp_path):
    """They are views of one map of the file, and a write to one never reaches the file."""
    path = str(tmp_path / "c.safetensors")
    write_capture(path, capture())
    found = read_capture(path)
    before = found.states[Tap(1)].clone()
    pointers = {state.untyped_storage().data_ptr() for state in found.states.values()}
    assert pointers == {found.tokens.untyped_storage().data_ptr()}
    found.states[Tap(1)][:] = 0
    assert torch.equal(read_capture(path).states[Tap(1)], before)


def test_who_reads_a_file_that_is_written_anew_keeps_the_old_one(tmp_path):
    path = str(tmp_path / "c.safetensors")
    first, second = capture(rows=2000), capture(rows=2000)
    write_capture(path, first)
    kept = read_capture(path)
    write_capture(path, second)
    assert torch.equal(kept.states[Tap(2)], first.states[Tap(2)])
    assert torch.equal(read_capture(path).states[Tap(2)], second.states[Tap(2)])


def test_a_file_whose_tensors_are_not_aligned_is_read_too(tmp_path):
    made, path = capture(rows=3), str(tmp_path / "c.safetensors")
    write_capture(path, made)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header, data = file.read(length).rstrip(b" "), file.read()
    header += b" " * (1 - len(header) % 2)  # an odd place
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header + data)
    found = read_capture(path)
    assert all(torch.equal(found.states[tap], made.states[tap]) for tap in made.taps())


BAD = {
    "no tokens": (lambda t: t.pop("token_ids"), "token_ids: expected int64 [T], got none"),
    "tokens of 32 bits": (lambda t: t.update(token_ids=t["token_ids"].int()), "token_ids: expected I64 [T], got I32"),
    "tokens in two dimensions": (lambda t: t.update(token_ids=torch.zeros(5, 1, dtype=torch.int64)), "token_ids"),
    "no states": (lambda t: [t.pop(n) for n in list(t) if n not in ("token_ids", "choices")], "at least one, got none"),
    "a boundary too high": (
        lambda t: t.update({"boundary.4": t["final_norm"].clone()}),
        "boundary.4: expected boundaries 0",
    ),
    "a boundary written twice": (lambda t: t.update({"boundary.03": t["final_norm"].clone()}), "boundary.03: expected"),
    "an unknown tensor": (lambda t: t.update(logits=torch.ones(5)), "logits: expected"),
    "fewer rows": (
        lambda t: t.update({"boundary.0": torch.ones(4, 4)}),
        "boundary.0: expected float32 [5, 4], got F32 [4, 4]",
    ),
    "another width": (lambda t: t.update({"boundary.0": torch.ones(5, 3)}), "boundary.0: expected float32 [5, 4]"),
    "another dtype": (lambda t: t.update({"boundary.0": torch.ones(5, 4).half()}), "boundary.0: expected float32"),
    "fewer choices": (lambda t: t.update(choices=torch.arange(4)), "choices: expected I64 [5], got I64 [4]"),
    "choices of 32 bits": (lambda t: t.update(choices=torch.arange(5).int()), "choices: expected I64 [5]"),
    "nothing": (lambda t: t.update({n: v[:0] for n, v in t.items()}), "token_ids: expected I64 [T], got I64 [0]"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_agree_is_refused_by_name(tmp_path, name):
    change, told = BAD[name]
    content = tensors()
    change(content)
    path = saved(tmp_path, content)
    with pytest.raises(CaptureError) as caught:
        read_capture(path)
    assert caught.value.where.startswith(path)
    assert told in caught.value.diagnostics()


def test_every_fault_is_told_at_once(tmp_path):
    content = tensors() | {"boundary.0": torch.ones(4, 4), "boundary.9": torch.ones(5, 4), "x": torch.ones(1)}
    with pytest.raises(CaptureError) as caught:
        read_capture(saved(tmp_path, content))
    assert all(name in caught.value.actual for name in ("boundary.0", "boundary.9", "x:"))


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"format": "drafters.capture.v2"}, "drafters.capture.v1"),
        ({"layers": "many"}, "layers"),
        ({"layers": "0"}, "layers: expected 1"),
        ({"hidden_size": "-4"}, "hidden_size: expected 1"),
        ({"vocab_size": "-1"}, "vocab_size: expected 0"),
        ({"dtype": "float8"}, "dtype: expected float32"),
        ({"dtype": "bfloat16"}, "expected bfloat16 [5, 4], got F32"),
        ({"vocab_size": "4"}, "expected 0 to 3, got 4"),
    ],
)
def test_metadata_that_cannot_be_is_refused(tmp_path, metadata, told):
    with pytest.raises(CaptureError) as caught:
        read_capture(saved(tmp_path, tensors(), **metadata))
    assert told in caught.value.diagnostics()


@pytest.mark.parametrize("name", ["token_ids", "choices"])
def test_ids_below_zero_are_refused_where_the_vocabulary_is_not_known(tmp_path, name):
    content = tensors()
    content[name][2] = -1
    with pytest.raises(CaptureError) as caught:
        read_capture(saved(tmp_path, content, vocab_size="0"))
    assert name in caught.value.where
    assert caught.value.actual == "-1"


def test_a_file_that_is_cut_short_or_no_safetensors_is_refused(tmp_path):
    path = saved(tmp_path, tensors())
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 1)
    for bad in (path, str(tmp_path / "none"), str(tmp_path), __file__):
        with pytest.raises(CaptureError) as caught:
            read_capture(bad)
        assert bad in caught.value.where


def test_two_tensors_of_one_name_are_refused(tmp_path):
    path = saved(tmp_path, {name: tensor for name, tensor in tensors().items() if name != "final_norm"})
    with open(path, "r+b") as file:
        content = file.read().replace(b'"boundary.3"', b'"boundary.0"')
        file.seek(0)
        file.write(content)
    with pytest.raises(CaptureError, match=r"two tensors have one name|the safetensors package refuses") as caught:
        read_capture(path)
    assert caught.value.where == path


def test_a_capture_is_as_readable_as_any_file(tmp_path):
    (tmp_path / "plain").touch()
    write_capture(str(tmp_path / "c.safetensors"), capture())
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("plain", "c.safetensors")}
    assert len(modes) == 1


def test_nothing_half_written_stays(tmp_path):
    path = str(tmp_path / "c.safetensors")
    write_capture(path, capture())
    with open(path, "rb") as file:
        before = file.read()

    def fails(error):
        with CaptureWriter(path, record(), torch.arange(5), (Tap(0), Tap(1))) as file:
            file.put(Tap(0), torch.ones(5, 4))
            raise error

    for error in (ValueError(), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            fails(error)
    with (
        pytest.raises(CaptureError, match="not complete") as caught,
        CaptureWriter(path, record(), torch.arange(5), (Tap(0), Tap(1))) as file,
    ):
        file.put(Tap(1), torch.ones(5, 4))
    assert caught.value.actual == "boundary.0, choices"
    with pytest.raises(CaptureError, match="not complete"), CaptureWriter(path, record(), torch.arange(5), (Tap(0),)):
        pass
    assert os.listdir(tmp_path) == ["c.safetensors"]
    with open(path, "rb") as file:
        assert file.read() == before


@pytest.mark.parametrize(
    ("tap", "state", "told"),
    [
        (Tap(0), torch.ones(4, 4), "not a state"),
        (Tap(0), torch.ones(5, 4, dtype=torch.float64), "not a state"),
        (Tap(0), torch.ones(5, 4).half(), "two dtypes"),
        (Tap(2), torch.ones(5, 4), "twice"),
        (Tap(1), torch.ones(5, 4), "twice"),
    ],
)
def test_a_state_that_does_not_belong_is_refused(tmp_path, tap, state, told):
    def put():
        with CaptureWriter(str(tmp_path / "c"), record(), torch.arange(5), (Tap(0), Tap(1))) as file:
            file.put(Tap(1), torch.ones(5, 4))
            file.put(tap, state)

    with pytest.raises(CaptureError, match=told):
        put()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("taps", [(), (Tap(4),), (Tap(0), Tap(0)), (Tap(2, FINAL_NORM),), (Tap(1, STREAM_MEAN),)])
def test_states_that_no_capture_file_holds_are_refused(tmp_path, taps):
    with pytest.raises(CaptureError, match="not the states"):
        CaptureWriter(str(tmp_path / "c"), record(), torch.arange(5), taps)


@pytest.mark.parametrize("choices", [torch.arange(4), torch.arange(5).int()])
def test_choices_are_one_per_token(tmp_path, choices):
    made = capture()
    with pytest.raises(CaptureError, match="not choices"):
        write_capture(str(tmp_path / "c"), Capture(**{**vars(made), "choices": choices}))


@pytest.mark.parametrize("tokens", [torch.arange(0), torch.arange(5).int(), torch.ones(1, 5, dtype=torch.int64)])
def test_tokens_are_one_text(tmp_path, tokens):
    with pytest.raises(CaptureError, match="not a text"):
        CaptureWriter(str(tmp_path / "c"), record(), tokens, (Tap(0),))


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(CaptureError, match="cannot be written"):
        write_capture(str(tmp_path / "none" / "c"), capture())
