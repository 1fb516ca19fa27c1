"""What a manifest records of a drafter of the Hub, published or imported."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest
from hub_stand_in import COMMIT, CONFIG, REPOSITORY, point_at
from small_drafter import WIDTH


def manifest_of(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["manifest"]


def test_publishing_from_the_hub_records_where_from(hub, dry_run, drafter):
    manifest = manifest_of(dry_run("publish", f"hf://{REPOSITORY}"))
    assert manifest["provenance"] | {"source": f"hf://{REPOSITORY}", "revision": COMMIT} == manifest["provenance"]
    assert {file["path"]: file["sha256"] for file in manifest["files"]} == {
        path: sha256(drafter[path]).hexdigest() for path in ("README.md", "config.json", "model.safetensors")
    }
    assert all("elsewhere" not in file for file in manifest["files"])


def test_publishing_offline_gives_the_same_manifest(cached, dry_run, drafter):
    manifest = manifest_of(dry_run("publish", f"hf://{REPOSITORY}"))
    assert manifest["provenance"]["revision"] == COMMIT
    assert manifest["layout"]["boundaries"] == [3, 31, 59]
    assert len(manifest["files"]) == 3


def test_an_import_leaves_the_weights_where_they_are(hub, dry_run, drafter):
    manifest = manifest_of(dry_run("import-config", f"hf://{REPOSITORY}@main"))
    files = {file["path"]: file for file in manifest["files"]}
    weights = drafter["model.safetensors"]
    head = weights[: 8 + int.from_bytes(weights[:8], "little")]
    assert files["model.safetensors"] == {
        "path": "model.safetensors",
        "size": len(weights),
        "sha256": sha256(weights).hexdigest(),
        "elsewhere": f"hf://{REPOSITORY}@{COMMIT}/model.safetensors",
        "header_sha256": sha256(head).hexdigest(),
    }
    assert "elsewhere" not in files["config.json"]
    assert manifest["layout"]["boundaries"] == [3, 31, 59]
    assert manifest["layout"]["fc_input_width"] == 3 * WIDTH
    assert any("the Hub's" in note for note in manifest["provenance"]["notes"])
    assert {method for method, _ in hub.sent("model.safetensors")} == {"GET"}
    assert all(asked.startswith("bytes=0-") for _, asked in hub.sent("model.safetensors"))


def test_an_import_offline_takes_the_cached_files(cached, dry_run, drafter):
    files = {one["path"]: one for one in manifest_of(dry_run("import-config", f"hf://{REPOSITORY}"))["files"]}
    assert files["model.safetensors"]["elsewhere"] == f"hf://{REPOSITORY}@{COMMIT}/model.safetensors"
    assert files["model.safetensors"]["sha256"] == sha256(drafter["model.safetensors"]).hexdigest()
    assert "elsewhere" not in files["config.json"]


def test_an_import_with_a_config_of_ones_own(hub, dry_run, tmp_path):
    own = CONFIG | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3], "use_aux_hidden_state": True}}
    (tmp_path / "config.json").write_text(json.dumps(own))
    manifest = manifest_of(dry_run("import-config", "config.json", "--weights", f"hf://{REPOSITORY}"))
    assert manifest["layout"]["boundaries"] == [2, 3, 4]
    files = {file["path"]: file for file in manifest["files"]}
    assert files["config.json"]["sha256"] == sha256((tmp_path / "config.json").read_bytes()).hexdigest()
    assert len(files) == len(manifest["files"])
    assert any("not the repository's" in note for note in manifest["provenance"]["notes"])


def test_a_manifest_beside_the_weights_speaks(hub, dry_run):
    """It is a statement, not a file of the drafter, and so is neither listed nor lost."""
    said = {"schema": "drafters.manifest.v1", "draft": {"trained_context": 2048}}
    hub.files["drafters-manifest.json"] = json.dumps(said).encode()
    for command in ("publish", "import-config"):
        manifest = manifest_of(dry_run(command, f"hf://{REPOSITORY}"))
        assert manifest["draft"]["trained_context"] == 2048
        assert "drafters-manifest.json" not in {file["path"] for file in manifest["files"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("config.json",), "says nothing of the weights"),
        (("missing.json",), "does not exist"),
        ((".",), "is a directory"),
        (("config.json", "--weights", "org/name"), "no model on the Hub"),
        ((f"hf://{REPOSITORY}", "--weights", f"hf://{REPOSITORY}"), "both name a repository"),
    ],
)
def test_an_import_that_cannot_be(dry_run, tmp_path, arguments, message):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    done = dry_run("import-config", *arguments)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert message in error["message"]
    assert error["hint"]


def test_an_import_of_a_repository_without_weights(hub, dry_run):
    del hub.files["model.safetensors"]
    done = dry_run("import-config", f"hf://{REPOSITORY}")
    assert (done.returncode, "no safetensors weights" in done.stdout) == (2, True)


def test_an_import_of_weights_that_are_none(hub, dry_run):
    hub.files["model.safetensors"] = b"\x10\0\0\0\0\0\0\0 this is no header"
    done = dry_run("import-config", f"hf://{REPOSITORY}")
    assert done.returncode == 7
    assert "model.safetensors" in done.stdout


def test_a_hub_that_hangs_up_is_unreachable(dry_run, monkeypatch, tmp_path):
    point_at(monkeypatch, "http://127.0.0.1:9", str(tmp_path / "hub"), offline=False)
    for command in ("publish", "import-config"):
        assert dry_run(command, f"hf://{REPOSITORY}").returncode == 6


def test_a_fault_of_the_hubs_files_is_told_by_their_place(hub, drafter, dry_run):
    hub.files["config.json"] = b"[1]"
    done = dry_run("import-config", f"hf://{REPOSITORY}")
    assert done.returncode == 7
    told = json.loads(done.stdout)["error"]
    assert told["where"] == f"hf://{REPOSITORY}@{COMMIT}/config.json"


def test_evidence_by_values_counts_for_drafters_of_the_hub_too(hub, dry_run, drafter, tmp_path):
    def written(*boundaries):
        found = [
            {"number": number, "found": "identified", "boundary": boundary, "error": 1e-4, "tolerance": 1e-2}
            for number, boundary in enumerate(boundaries)
        ]
        document = {
            "schema": "drafters.identification.v1",
            "tool": "drafters/1",
            "created": "2026-01-01T00:00:00Z",
            "samples": [
                {"name": "s", "sha256": "1" * 64, "format": "modelopt", "tokens": 9, "compared": 9, "dtype": "bfloat16"}
            ],
            "reference": {"kind": "target", "layers": 61, "hidden_size": WIDTH},
            "states": found,
            "verdict": "identified",
            "boundaries": boundaries,
        }
        path = tmp_path / "identify.json"
        path.write_text(json.dumps(document))
        return path

    for command in ("publish", "import-config"):
        source = f"hf://{REPOSITORY}"
        layout = manifest_of(dry_run(command, source, "--evidence", str(written(3, 31, 59))))["layout"]
        assert layout["known_by"] == "identified by values"
        assert layout["identified"]["document_sha256"] == sha256((tmp_path / "identify.json").read_bytes()).hexdigest()
        done = dry_run(command, source, "--evidence", str(written(2, 30, 58)))
        assert done.returncode == 7
        assert "boundaries 3, 31, 59" in done.stdout
        assert "boundaries 2, 30, 58" in done.stdout
