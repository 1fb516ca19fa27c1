"""Drafter directories on disk: single file, shards, the Hub's cache, pickle, GGUF, and everything that is refused."""

import json
import os
from pathlib import Path

import pytest

from drafter_contracts import limits
from drafter_contracts.checkpoint.facts import EAGLE3, MEDUSA, TensorFact
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.checkpoint.skeleton import write_skeleton, write_sparse_weights
from drafter_contracts.errors import CheckpointError, PickleRefusedError

CONFIG = {"architectures": ["LlamaForCausalLMEagle3"], "hidden_size": 8, "vocab_size": 64, "draft_vocab_size": 16}
TENSORS = {
    "fc.weight": ("BF16", (8, 24)),
    "midlayer.self_attn.q_proj.weight": ("BF16", (8, 16)),
    "midlayer.hidden_norm.weight": ("BF16", (8,)),
    "norm.weight": ("BF16", (8,)),
    "lm_head.weight": ("BF16", (16, 8)),
    "d2t": ("I64", (16,)),
}


def write_shards(directory: Path, weight_map: dict[str, str] | None = None) -> dict[str, str]:
    """Two shards and their index; `weight_map` replaces the true one."""
    names = list(TENSORS)
    parts = {"model-00001-of-00002.safetensors": names[:3], "model-00002-of-00002.safetensors": names[3:]}
    for shard, members in parts.items():
        write_sparse_weights(str(directory / shard), {name: TENSORS[name] for name in members})
    true_map = {name: shard for shard, members in parts.items() for name in members}
    write_index(directory, true_map if weight_map is None else weight_map)
    return true_map


def write_index(directory: Path, weight_map: object) -> None:
    (directory / "config.json").write_text(json.dumps(CONFIG))
    (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_one_file_and_two_shards_give_the_same_facts(tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    write_skeleton(str(tmp_path / "one"), CONFIG, TENSORS)
    write_shards(tmp_path / "two")
    one = read_drafter(str(tmp_path / "one"), target_layers=32)
    two = read_drafter(str(tmp_path / "two"), target_layers=32)
    assert (one.weights, two.weights) == ("safetensors", "sharded safetensors")
    assert one.tensors == two.tensors
    assert one.tensors == tuple(TensorFact(name, *TENSORS[name]) for name in sorted(TENSORS))
    assert one.method == EAGLE3
    assert one.layout.layout == two.layout.layout
    assert one.layout.layout.boundaries == (2, 16, 29)
    assert one.disagreements == ()


def test_a_config_alone_is_read_and_says_that_nothing_confirms_it(tmp_path: Path) -> None:
    write_skeleton(str(tmp_path), CONFIG, {})
    facts = read_drafter(str(tmp_path))
    assert facts.weights == "none"
    assert facts.has_lm_head is None
    assert any("nothing is confirmed" in note for note in facts.notes)


def test_the_hubs_cache_of_links_into_blobs_is_followed(tmp_path: Path) -> None:
    repository = tmp_path / "models--org--head"
    snapshot, blobs = repository / "snapshots" / "0123abc", repository / "blobs"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (tmp_path / "made").mkdir()
    write_shards(tmp_path / "made")
    for file in (tmp_path / "made").iterdir():
        file.rename(blobs / f"sha-{file.name}")
        (snapshot / file.name).symlink_to(Path("..") / ".." / "blobs" / f"sha-{file.name}")
    assert len(read_drafter(str(snapshot)).tensors) == len(TENSORS)


def test_a_shard_that_links_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "head").mkdir()
    write_shards(tmp_path / "head")
    shard = tmp_path / "head" / "model-00001-of-00002.safetensors"
    shard.rename(tmp_path / "elsewhere.safetensors")
    shard.symlink_to(tmp_path / "elsewhere.safetensors")
    with pytest.raises(CheckpointError, match="links out of the directory"):
        read_drafter(str(tmp_path / "head"))


@pytest.mark.parametrize(
    "shard",
    [
        "../model.safetensors",
        "/etc/model.safetensors",
        "sub/model.safetensors",
        "..",
        "",
        "a\\b.safetensors",
        "a\0.safetensors",
        "pytorch_model.bin",
    ],
)
def test_an_index_cannot_reach_out_of_its_directory(tmp_path: Path, shard: str) -> None:
    write_index(tmp_path, {"fc.weight": shard})
    with pytest.raises(CheckpointError, match="a shard must be a file beside the index"):
        read_drafter(str(tmp_path))


def test_an_index_that_disagrees_with_its_shards_is_refused_naming_all_of_it(tmp_path: Path) -> None:
    true_map = write_shards(tmp_path)
    first, second = sorted(set(true_map.values()))
    wrong = {**true_map, "fc.weight": second, "extra.weight": first}
    del wrong["d2t"]
    write_index(tmp_path, wrong)
    with pytest.raises(CheckpointError, match="disagree") as refused:
        read_drafter(str(tmp_path))
    for part in (f"fc.weight (in {first})", f"extra.weight (not in {first})", f"d2t (in {second})"):
        assert part in refused.value.actual
    write_index(tmp_path, {**true_map, "x": "model-00003-of-00003.safetensors"})
    with pytest.raises(CheckpointError, match="missing"):
        read_drafter(str(tmp_path))


@pytest.mark.parametrize("weight_map", [{}, [], {"fc.weight": 3}, None])
def test_a_bad_index_is_refused(tmp_path: Path, weight_map: object) -> None:
    write_index(tmp_path, weight_map)
    with pytest.raises(CheckpointError, match="shard index"):
        read_drafter(str(tmp_path))


def test_several_files_without_an_index_are_read_together_unless_a_tensor_is_in_two(tmp_path: Path) -> None:
    write_skeleton(str(tmp_path), CONFIG, {})
    write_sparse_weights(str(tmp_path / "a.safetensors"), {"fc.weight": TENSORS["fc.weight"]})
    write_sparse_weights(str(tmp_path / "b.safetensors"), {"norm.weight": TENSORS["norm.weight"]})
    assert [tensor.name for tensor in read_drafter(str(tmp_path)).tensors] == ["fc.weight", "norm.weight"]
    write_sparse_weights(str(tmp_path / "c.safetensors"), {"norm.weight": TENSORS["norm.weight"]})
    with pytest.raises(CheckpointError, match=r"norm\.weight is in two files"):
        read_drafter(str(tmp_path))
    write_sparse_weights(str(tmp_path / "model.safetensors"), {"fc.weight": TENSORS["fc.weight"]})
    assert any("not read" in note for note in read_drafter(str(tmp_path)).notes)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "head.pth", "epoch_3.ckpt"])
def test_pickle_is_never_opened_and_the_refusal_says_how_to_convert(tmp_path: Path, name: str) -> None:
    write_skeleton(str(tmp_path), CONFIG, {})
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (tmp_path / name).chmod(0)
    with pytest.raises(PickleRefusedError) as refused:
        read_drafter(str(tmp_path))
    assert name in refused.value.diagnostics()
    assert "weights_only=True" in refused.value.message
    assert "save_file" in refused.value.message


def test_the_conversion_command_is_one_line_of_valid_python(tmp_path: Path) -> None:
    write_skeleton(str(tmp_path), CONFIG, {})
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(PickleRefusedError) as refused:
        read_drafter(str(tmp_path))
    program = refused.value.message.split('python -c "')[1].rsplit('"', 1)[0]
    compile(program, "conversion", "exec")
    (tmp_path / "$(touch owned)`id`'\";.bin").write_bytes(b"")
    with pytest.raises(PickleRefusedError) as refused:
        read_drafter(str(tmp_path))
    assert "touch owned" not in refused.value.message, "a file's name must not reach a command to paste"


def test_pickles_beside_safetensors_or_without_weights_in_them_do_not_matter(tmp_path: Path) -> None:
    write_skeleton(str(tmp_path), CONFIG, TENSORS)
    (tmp_path / "training_args.bin").write_bytes(b"")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    assert read_drafter(str(tmp_path)).weights == "safetensors"
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "pytorch_model.bin").unlink()
    assert read_drafter(str(tmp_path)).weights == "none"


def test_gguf_is_refused_by_name(tmp_path: Path) -> None:
    write_skeleton(str(tmp_path), CONFIG, {})
    (tmp_path / "eagle3-q8_0.gguf").write_bytes(b"GGUF")
    with pytest.raises(CheckpointError, match=r"llama\.cpp"):
        read_drafter(str(tmp_path))


def test_medusa_is_named_although_its_heads_are_pickles(tmp_path: Path) -> None:
    write_skeleton(str(tmp_path), {"medusa_num_heads": 5, "medusa_num_layers": 1}, {})
    (tmp_path / "medusa_lm_head.pt").write_bytes(b"")
    facts = read_drafter(str(tmp_path))
    assert facts.method == MEDUSA
    assert "no release of SGLang serves" in facts.layout.reason
    assert any("medusa_lm_head.pt" in note for note in facts.notes)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"[1]", "not a config"), (b"{", "not JSON"), (b"\xff", "not JSON"), (b"[" * 100_000, "not JSON")],
)
def test_a_config_that_cannot_be_read_is_refused_naming_it(tmp_path: Path, content: bytes, complaint: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=complaint) as refused:
        read_drafter(str(tmp_path))
    assert refused.value.where.endswith("config.json")


def test_infinity_in_a_config_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"time_step_limit": [0.0, Infinity], "eagle_config": {}}')
    assert read_drafter(str(tmp_path)).method == EAGLE3


@pytest.mark.parametrize(
    ("content", "quantization"),
    [
        ('{"quantization": {"quant_algo": "FP8"}}', "FP8"),
        ('{"quantization": {"quant_algo": null}}', ""),
    ],
)
def test_modelopts_own_quantisation_file_is_read(tmp_path: Path, content: str, quantization: str) -> None:
    write_skeleton(str(tmp_path), CONFIG, TENSORS)
    (tmp_path / "hf_quant_config.json").write_text(content)
    assert read_drafter(str(tmp_path)).quantization == quantization
    (tmp_path / "hf_quant_config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="not a config"):
        read_drafter(str(tmp_path))


def test_an_oversized_config_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(limits.config_max_bytes + 1)
    with pytest.raises(CheckpointError, match="too large"):
        read_drafter(str(tmp_path))


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "missing"):
        with pytest.raises(CheckpointError, match="not a drafter's directory"):
            read_drafter(str(tmp_path / name))
    with pytest.raises(CheckpointError, match="cannot be opened"):
        read_drafter(str(tmp_path))
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_drafter(str(tmp_path))


def test_a_number_that_no_float_holds_is_told_and_not_taken(tmp_path):
    write_skeleton(str(tmp_path), {**CONFIG, "rope_theta": 10**400}, TENSORS)
    facts = read_drafter(str(tmp_path))
    assert facts.rope_theta is None
    assert any("rope_theta is not a number" in note for note in facts.notes)


def test_weights_beside_the_single_file_are_named_where_an_engine_reads_them(tmp_path: Path) -> None:
    write_skeleton(str(tmp_path), CONFIG, TENSORS)
    assert read_drafter(str(tmp_path)).beside == ()
    (tmp_path / "consolidated.safetensors").write_bytes(b"")
    assert read_drafter(str(tmp_path)).beside == (), "engines leave Mistral's own format out"
    (tmp_path / "older.safetensors").write_bytes(b"")
    assert read_drafter(str(tmp_path)).beside == ("consolidated.safetensors", "older.safetensors")
