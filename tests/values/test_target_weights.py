"""A target's weight files: their digest without their weights, and embedding and head as views of them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest
import torch
from making import architectures
from making.targets import random_llama
from safetensors.torch import load_file, save_file

from drafter_contracts.errors import CaptureError, CheckpointError, PickleRefusedError
from drafter_contracts.values.mapped import MappedFile
from drafter_contracts.values.targets import embedding_and_head, target_digest
from drafter_contracts.values.targets.weights import weight_files


@pytest.fixture
def target(tmp_path, random_target):
    """A copy of the random Llama that a test may change."""
    return shutil.copytree(random_target, str(tmp_path / "target"))


def rewritten(path, change, name="model.safetensors"):
    """Change the tensors of a weight file."""
    file = os.path.join(path, name)
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, {"format": "pt"})


def configured(path, **values):
    name = os.path.join(path, "config.json")
    with open(name, encoding="utf-8") as file:
        content = json.load(file) | values
    with open(name, "w", encoding="utf-8") as file:
        json.dump(content, file)


def indexed(path, *names):
    os.unlink(os.path.join(path, "model.safetensors"))
    with open(os.path.join(path, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"weight_map": {str(number): name for number, name in enumerate(names)}}, file)


def test_the_digest_is_what_is_documented(target):
    file = os.path.join(target, "model.safetensors")
    with open(file, "rb") as opened:
        content = opened.read()
    head = content[: 8 + int.from_bytes(content[:8], "little")]
    line = f"model.safetensors {len(content)} {hashlib.sha256(head).hexdigest()}\n"
    assert target_digest(target) == hashlib.sha256(line.encode()).hexdigest()


def test_the_digest_of_shards_covers_each_in_order_of_its_name(tmp_path):
    lines = []
    for name in ("b.safetensors", "a.safetensors"):
        save_file({name: torch.ones(len(lines) + 1)}, str(tmp_path / name))
        content = (tmp_path / name).read_bytes()
        head = content[: 8 + int.from_bytes(content[:8], "little")]
        lines.append(f"{name} {len(content)} {hashlib.sha256(head).hexdigest()}\n")
    (tmp_path / "model.safetensors").touch()
    indexed(str(tmp_path), "b.safetensors", "a.safetensors", "b.safetensors")
    assert weight_files(str(tmp_path)) == ("a.safetensors", "b.safetensors")
    assert target_digest(str(tmp_path)) == hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def test_targets_of_other_shapes_have_other_digests(tmp_path):
    paths = [random_llama(str(tmp_path / str(layers)), layers=layers) for layers in (2, 3)]
    assert target_digest(paths[0]) != target_digest(paths[1])


def test_embedding_and_head_are_views_of_the_file(target):
    embedding, head = embedding_and_head(target)
    file = load_file(os.path.join(target, "model.safetensors"))
    assert torch.equal(embedding, file["model.embed_tokens.weight"])
    assert torch.equal(head, file["lm_head.weight"])
    assert embedding.untyped_storage().data_ptr() == head.untyped_storage().data_ptr()
    assert embedding.untyped_storage().nbytes() == os.path.getsize(os.path.join(target, "model.safetensors"))


def test_a_tied_head_is_the_embedding(tmp_path):
    model = architectures.build(str(tmp_path), "Llama", tie_word_embeddings=True)
    embedding, head = embedding_and_head(str(tmp_path))
    assert head is embedding
    assert torch.equal(head, model.lm_head.weight)


def test_a_head_that_is_not_there_is_not_made_up(target):
    rewritten(target, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(CaptureError, match="does not tie it"):
        embedding_and_head(target)
    configured(target, tie_word_embeddings=True)
    embedding, head = embedding_and_head(target)
    assert head is embedding


def test_a_tied_head_that_differs_is_refused(target):
    configured(target, tie_word_embeddings=True)
    with pytest.raises(CaptureError, match="another head") as caught:
        embedding_and_head(target)
    assert caught.value.where == f"{target}: tie_word_embeddings"
    rewritten(target, lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}))
    embedding, head = embedding_and_head(target)
    assert head is embedding


def test_shards_are_searched_and_towers_are_passed_by(target):
    tensors = load_file(os.path.join(target, "model.safetensors"))
    head = tensors.pop("lm_head.weight")
    tensors["model.vision_tower.embed_tokens.weight"] = torch.ones(3, 64)
    tensors["model.layers.7.embed_tokens.weight"] = torch.ones(3, 64)
    save_file({"lm_head.weight": head}, os.path.join(target, "two.safetensors"))
    save_file(tensors, os.path.join(target, "one.safetensors"))
    indexed(target, "one.safetensors", "two.safetensors")
    found = embedding_and_head(target)
    assert torch.equal(found[0], tensors["model.embed_tokens.weight"])
    assert torch.equal(found[1], head)


@pytest.mark.parametrize(
    ("shape", "own", "told"),
    [
        ("Gemma3Text", {}, "sqrt(32) = 5.65685"),
        ("Granite", {"embedding_multiplier": 3.0}, "embedding_multiplier 3"),
    ],
)
def test_a_multiplied_embedding_is_refused(tmp_path, shape, own, told):
    architectures.build(str(tmp_path), shape, **own)
    with pytest.raises(CaptureError, match="multiplies its embedding") as caught:
        embedding_and_head(str(tmp_path))
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("tensor", "told"),
    [
        (torch.ones(256, 64, dtype=torch.uint8), "quantised (expected F32, BF16 or F16, got U8)"),
        (torch.ones(256, 63), "expected [rows, 64], got [256, 63]"),
        (torch.ones(64), "expected [rows, 64], got [64]"),
    ],
)
def test_an_embedding_of_another_kind_is_refused(target, tensor, told):
    rewritten(target, lambda tensors: tensors.update({"model.embed_tokens.weight": tensor}))
    with pytest.raises(CaptureError) as caught:
        embedding_and_head(target)
    assert told in caught.value.diagnostics()
    assert "model.embed_tokens.weight" in caught.value.where


def test_two_embeddings_are_ambiguous(target):
    rewritten(target, lambda tensors: tensors.update({"other.embed_tokens.weight": torch.ones(256, 64)}))
    with pytest.raises(CaptureError, match="embedding cannot be told") as caught:
        embedding_and_head(target)
    assert caught.value.actual == "model.embed_tokens.weight, other.embed_tokens.weight"


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}'])
def test_an_index_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CaptureError, match="not an index of shards"):
        weight_files(str(tmp_path))


@pytest.mark.parametrize("name", ["../a.safetensors", "/etc/passwd", "a.bin"])
def test_shards_are_files_of_the_directory(tmp_path, name):
    (tmp_path / "model.safetensors").touch()
    indexed(str(tmp_path), "a.safetensors", name)
    with pytest.raises(CaptureError, match="not an index of shards") as caught:
        weight_files(str(tmp_path))
    assert caught.value.actual == name


def test_damaged_and_missing_shards_are_told(target):
    with open(os.path.join(target, "model.safetensors"), "r+b") as file:
        file.truncate(20)
    for read in (target_digest, embedding_and_head):
        with pytest.raises(CaptureError, match="cut short"):
            read(target)
    indexed(target, "none.safetensors")
    for read in (target_digest, embedding_and_head):
        with pytest.raises(CaptureError, match="cannot be opened"):
            read(target)


def test_pickles_and_nothing_at_all_are_told(tmp_path):
    with pytest.raises(CaptureError, match="no such directory"):
        weight_files(str(tmp_path / "none"))
    with pytest.raises(CaptureError, match="no weights"):
        weight_files(str(tmp_path))
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(PickleRefusedError) as caught:
        weight_files(str(tmp_path))
    assert caught.value.actual == "pytorch_model.bin"


def test_a_mapped_file_gives_every_dtype_and_tells_what_it_cannot(tmp_path):
    path = str(tmp_path / "m.safetensors")
    kinds = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8)
    content = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in kinds}
    content |= {"none": torch.empty(0, 3), "one": torch.tensor(2.5), "eight": torch.ones(2, dtype=torch.int8)}
    content["bool"] = torch.tensor([True, False])
    save_file(content, path)
    file = MappedFile(path)
    for name in content.keys() - {"eight"}:
        assert file.tensor(name).dtype == content[name].dtype
        assert torch.equal(file.tensor(name), content[name]), name
    with pytest.raises(CheckpointError, match="not a dtype") as caught:
        file.tensor("eight")
    assert caught.value.actual == "I8"
    with pytest.raises(CheckpointError, match="no such tensor"):
        file.tensor("two")
