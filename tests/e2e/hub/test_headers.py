"""Headers of weights on the Hub: read by range, and no more than the header."""

from __future__ import annotations

import pytest
from hub_stand_in import CONFIG, REPOSITORY
from huggingface_hub.utils import close_session

from drafter_cli.hub import headers as hub_headers
from drafter_cli.hub import source as hub_source
from drafter_contracts import limits
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.errors import CheckpointError


def test_a_header_is_read_by_range(hub, drafter):
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    head = hub_headers.read_head(found, weights)
    assert drafter["model.safetensors"].startswith(head)
    assert len(head) == 8 + int.from_bytes(head[:8], "little")
    assert hub.sent("model.safetensors") == [("GET", f"bytes=0-{min(65536, weights.size) - 1}")]


def test_a_header_longer_than_the_first_range(hub, tmp_path):
    """And of a server that ignores ranges: the same bytes, with no more of the file kept than the header."""
    many = {f"layers.{i}.some.long.name.of.a.tensor.weight": ("BF16", (4,)) for i in range(1000)}
    write_skeleton(str(tmp_path / "long"), CONFIG, many)
    hub.files["model.safetensors"] = (tmp_path / "long" / "model.safetensors").read_bytes()
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    head = hub_headers.read_head(found, weights)
    assert [asked for _, asked in hub.sent("model.safetensors")] == ["bytes=0-65535", f"bytes=65536-{len(head) - 1}"]
    hub.ranges = False
    assert hub_headers.read_head(found, weights) == head


def test_no_more_than_the_header_is_taken_from_a_hub_that_ignores_ranges(hub, tmp_path):
    many = {f"layers.{i}.weight": ("F32", (64 * 1024,)) for i in range(256)}
    write_skeleton(str(tmp_path / "many"), CONFIG, many)
    hub.files["model.safetensors"] = (tmp_path / "many" / "model.safetensors").read_bytes()
    hub.ranges = False
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    before = hub.written
    assert hub.files["model.safetensors"].startswith(hub_headers.read_head(found, weights))
    close_session()
    assert hub.written - before < weights.size // 4, "what lies in the sockets' buffers, not the file"


@pytest.mark.parametrize("length", [limits.header_max_bytes + 1, 2**40, 2**63])
def test_a_header_that_claims_too_much_is_refused_before_it_is_fetched(hub, length):
    hub.files["model.safetensors"] = length.to_bytes(8, "little") + bytes(100_000)
    hub.stated["model.safetensors"] = (2**35, "0" * 64)
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    with pytest.raises(CheckpointError, match="header"):
        hub_headers.read_head(found, weights)
    assert hub.sent("model.safetensors") == [("GET", "bytes=0-65535")]


def test_a_size_that_does_not_fit_the_header_is_refused(hub, drafter):
    size = len(drafter["model.safetensors"]) + 1
    hub.stated["model.safetensors"] = (size, "0" * 64)
    found = hub_source.listing(f"hf://{REPOSITORY}")
    weights = next(file for file in found.files if file.path == "model.safetensors")
    with pytest.raises(CheckpointError):
        hub_headers.read_head(found, weights)


def test_the_hubs_token_goes_to_the_hub(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    found = hub_source.listing(f"hf://{REPOSITORY}")
    hub_headers.read_head(found, next(file for file in found.files if file.sha256))
    assert {authorization for *_, authorization in hub.asked} == {"Bearer hf_secret"}
