"""Drafters of the Hub in a registry: what it keeps of them, shows and gives back."""

from __future__ import annotations

import os

from hub_stand_in import COMMIT, REPOSITORY


def test_what_stays_on_the_hub_is_shown_scrubbed_and_pulled(hub, registry, drafter, tmp_path):
    done = registry("import-config", f"hf://{REPOSITORY}")
    assert done.returncode == 0, done.stderr
    assert "drafters-manifest" not in done.stdout
    shown = registry("show", "kimi-eagle3@1.0.0")
    assert f"not kept here: hf://{REPOSITORY}@{COMMIT}/model.safetensors" in shown.stdout
    assert registry("fsck").returncode == 0
    stored = [
        os.path.getsize(os.path.join(at, one)) for at, _, names in os.walk(tmp_path / "data/blobs") for one in names
    ]
    assert sum(stored) < len(drafter["model.safetensors"]), "the registry keeps headers, not weights"
    pulled = registry("pull", "kimi-eagle3@1.0.0", "pulled")
    assert pulled.returncode == 0, pulled.stderr
    assert (tmp_path / "pulled" / "model.safetensors").read_bytes() == drafter["model.safetensors"]


def test_weights_that_changed_on_the_hub_are_not_pulled(hub, registry, tmp_path):
    assert registry("import-config", f"hf://{REPOSITORY}").returncode == 0
    hub.files["model.safetensors"] = hub.files["model.safetensors"][:-1] + b"\x01"
    assert registry("pull", "kimi-eagle3@1.0.0", "pulled").returncode == 7
    assert not (tmp_path / "pulled" / "model.safetensors").exists()


def test_publishing_from_the_hub_stores_everything(hub, registry, drafter, tmp_path):
    done = registry("publish", f"hf://{REPOSITORY}")
    assert done.returncode == 0, done.stderr
    hub.files = {}
    assert registry("pull", "kimi-eagle3@1.0.0", "pulled").returncode == 0
    assert (tmp_path / "pulled" / "model.safetensors").read_bytes() == drafter["model.safetensors"]


def test_a_digest_that_the_hub_states_is_believed_by_nobody(hub, registry):
    hub.stated["model.safetensors"] = (len(hub.files["model.safetensors"]), "0" * 64)
    done = registry("publish", f"hf://{REPOSITORY}")
    assert done.returncode == 7, done.stderr
    assert registry("show", "kimi-eagle3@1.0.0").returncode == 2
