"""Renders in the cache: the same bytes whoever makes them, whole or not at all, and never a change of a stored blob."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import stat
import struct

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drafter_cli.cache import drafters as cache
from drafter_cli.cache.fetched import Fetched
from drafter_cli.errors import UsageError
from drafter_cli.rendering import renders
from drafter_contracts.checkpoint.header import read_header
from drafter_contracts.manifest import FILE_NAME, SCHEMA, FileRecord, LayoutRecord, Manifest, digest, read_manifest
from drafter_contracts.rendering.record import NOTES_NAME, Wanted
from drafter_contracts.rendering.records import WeightChange

WIDTH, TAPS, ROWS = 4, 3, 2


def safetensors(tensors):
    """A file of float32 tensors by name."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded + data


FC = [float(10 * row + column) for row in range(ROWS) for column in range(WIDTH * TAPS)]
FILES = {
    "config.json": b'{"a": 1}',
    "model.safetensors": safetensors({"fc.weight": ([ROWS, WIDTH * TAPS], FC), "layers.0.x.weight": ([2], [1.0, 2.0])}),
    "sub/tokenizer.json": b"{}",
}


class Registry:
    name = "a registry"

    def stream_file(self, reference, path, start):
        return iter([FILES[path][start:]])


def manifest(files=FILES):
    listed = [
        FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        for path, data in sorted(files.items())
    ]
    layout = LayoutRecord(boundaries=(9, 3, 6))
    return Manifest(schema=SCHEMA, name="tiny", version="1.0", layout=layout, files=tuple(listed))


def pulled():
    made = manifest()
    return Fetched(cache.ensure(Registry(), "tiny", digest(made), made), made, digest(made))


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def content(directory):
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), directory)] = file.read()
    return found


CONFIG = Wanted("sglang 0.5.23", {"z": 1, "a": {"c": 1, "b": 2}}, changes=("z is set to 1: because",))
ORDER = Wanted("sglang 0.5.23", None, WeightChange((1, 2, 0)), ("another order: because",))
NAMES = Wanted("sglang 0.5.9", None, WeightChange((), {"layers.0.x.weight": "midlayer.x.weight"}), ("renamed",))
ALL = Wanted("sglang 0.5.9", {"b": 2}, WeightChange((1, 2, 0), {"layers.0.x.weight": "midlayer.x.weight"}), ("all",))


def test_a_config_of_its_own_beside_the_same_weights():
    source = pulled()
    made = renders.ensure(source, CONFIG)
    found = content(made.directory)
    assert json.loads(found["config.json"]) == CONFIG.config
    assert set(found) == {*FILES, FILE_NAME, NOTES_NAME}
    assert found["sub/tokenizer.json"] == FILES["sub/tokenizer.json"]
    weights = os.path.join(made.directory, "model.safetensors")
    assert os.path.samefile(weights, os.path.join(source.directory, "model.safetensors"))
    assert b"z is set to 1: because" in found[NOTES_NAME]
    assert read_manifest(made.directory) == made.manifest
    assert made.digest == digest(made.manifest)
    assert made.manifest.render.of == source.digest
    listed = {file.path: file.sha256 for file in made.manifest.files}
    assert listed == {path: hashlib.sha256(data).hexdigest() for path, data in found.items() if path != FILE_NAME}


def test_weights_in_another_order_are_rewritten_and_everything_else_stays():
    source = pulled()
    made = renders.ensure(source, ORDER)
    assert content(made.directory)["config.json"] == FILES["config.json"]
    data = content(made.directory)["model.safetensors"]
    assert data == safetensors(
        {"fc.weight": ([ROWS, WIDTH * TAPS], reordered(FC, (1, 2, 0))), "layers.0.x.weight": ([2], [1.0, 2.0])}
    )
    assert made.manifest.layout.boundaries == (3, 6, 9)
    assert content(source.directory)["model.safetensors"] == FILES["model.safetensors"]


def reordered(values, order):
    found = []
    for row in range(ROWS):
        start = row * WIDTH * TAPS
        for place in order:
            found += values[start + place * WIDTH : start + (place + 1) * WIDTH]
    return found


def test_tensors_get_other_names():
    made = renders.ensure(pulled(), NAMES)
    header = read_header(os.path.join(made.directory, "model.safetensors"))
    assert [one.name for one in header.tensors] == ["fc.weight", "midlayer.x.weight"]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations([CONFIG, ORDER, NAMES, ALL]))
def test_two_caches_and_any_order_make_the_same_bytes(tmp_path_factory, monkeypatch, order):
    seen = []
    for wanted in (order, [CONFIG, ORDER, NAMES, ALL]):
        monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path_factory.mktemp("cache")))
        source = pulled()
        made = {index: renders.ensure(source, one) for index, one in enumerate(wanted)}
        seen.append(
            {
                wanted[index].engine + str(wanted[index]): (one.digest, content(one.directory))
                for index, one in made.items()
            }
        )
        assert len({one.digest for one in made.values()}) == 4
        assert len({one.directory for one in made.values()}) == 4
    assert seen[0] == seen[1]


def in_another_process(folder, queue):
    os.environ["DRAFTERS_CACHE"] = folder
    made = renders.ensure(pulled(), ALL)
    queue.put((made.digest, made.directory))


def test_processes_at_once_make_one_directory(root):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    running = [context.Process(target=in_another_process, args=(str(root), queue)) for _ in range(3)]
    for one in running:
        one.start()
    found = {queue.get(timeout=120) for _ in running}
    for one in running:
        one.join()
    made = renders.ensure(pulled(), ALL)
    assert found == {(made.digest, made.directory)}
    assert not [name for name in os.listdir(os.path.dirname(made.directory)) if ".tmp" in name or ".weights" in name]


def test_keys_of_a_config_in_any_order_are_one_render():
    source = pulled()
    turned = msgspec.structs.replace(CONFIG, config={"a": {"b": 2, "c": 1}, "z": 1})
    made = renders.ensure(source, CONFIG)
    assert renders.ensure(source, turned) == made
    shutil.rmtree(made.directory)
    assert renders.ensure(source, turned) == made, "made anew, of the other order"


@pytest.mark.parametrize("path", ["config.json", NOTES_NAME, FILE_NAME, "sub/tokenizer.json"])
def test_a_render_that_was_touched_is_made_again(path):
    source = pulled()
    made = renders.ensure(source, ALL)
    before = content(made.directory)
    with open(os.path.join(made.directory, path), "wb") as file:
        file.write(b"{}")
    assert renders.ensure(source, ALL) == made
    assert content(made.directory) == before


def test_a_file_edited_in_a_render_is_no_file_of_the_cache():
    source = pulled()
    made = renders.ensure(source, CONFIG)
    for path in ("config.json", "sub/tokenizer.json"):
        with open(os.path.join(made.directory, path), "ab") as file:
            file.write(b" ")
    assert content(source.directory) == content(pulled().directory)
    assert content(source.directory)["sub/tokenizer.json"] == FILES["sub/tokenizer.json"]


def test_weights_are_read_only_and_a_change_of_theirs_is_noticed():
    source = pulled()
    made = renders.ensure(source, CONFIG)
    weights = os.path.join(made.directory, "model.safetensors")
    assert not os.stat(weights).st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    os.chmod(weights, 0o644)
    with open(weights, "r+b") as file:  # as whoever insists; it is the blob, too
        file.seek(-1, os.SEEK_END)
        file.write(b"\x7f")
    assert content(pulled().directory)["model.safetensors"] == FILES["model.safetensors"], "fetched anew"
    again = renders.ensure(pulled(), CONFIG)
    assert (again.digest, content(again.directory)["model.safetensors"]) == (made.digest, FILES["model.safetensors"])


def test_rewritten_weights_are_read_only_too():
    made = renders.ensure(pulled(), ORDER)
    assert not os.stat(os.path.join(made.directory, "model.safetensors")).st_mode & stat.S_IWUSR


def test_a_version_s_own_notes_give_way(monkeypatch):
    more = {**FILES, NOTES_NAME: b"mine"}
    monkeypatch.setitem(FILES, NOTES_NAME, b"mine")
    version = manifest(more)
    source = Fetched(cache.ensure(Registry(), "tiny", digest(version), version), version, digest(version))
    made = renders.ensure(source, CONFIG)
    assert content(made.directory)[NOTES_NAME].startswith(b"# Render of tiny@1.0")
    assert content(source.directory)[NOTES_NAME] == b"mine"


def test_a_cache_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    source = pulled()
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UsageError, match="cannot be written"):
        renders.ensure(source, CONFIG)


def test_nothing_half_made_is_left(monkeypatch, root):
    source = pulled()

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.os, "rename", fails)
    with pytest.raises(UsageError, match="No space left"):
        renders.ensure(source, ALL)
    folder = os.path.join(root, "renders", "tiny")
    assert [name for name in os.listdir(folder) if not name.endswith(".lock")] == []
