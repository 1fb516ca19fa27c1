"""The settings in force and where each came from."""

from __future__ import annotations

import json

from small_registry import good, read


def test_the_settings_and_their_sources(local, tmp_path):
    folder = tmp_path / ".config" / "drafter-registry"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('timeout = 5\ndata = "/from/the/file"\n')
    variables = {"DRAFTERS_TOKEN": "drf_secret", "DRAFTERS_DATA": None, "XDG_CONFIG_HOME": None}
    variables["DRAFTERS_DATABASE"] = "postgresql://me:hunter2@db/registry"
    done = good(local("config", "--url", "https://registry.example", variables=variables))
    document = read(local("config", "--url", "https://registry.example", "--json", variables=variables))
    settings = document["settings"]
    assert settings["url"]["source"] == "option --url"
    assert settings["token"] == {"value": "(set)", "source": "environment DRAFTERS_TOKEN", "variable": "DRAFTERS_TOKEN"}
    assert (settings["timeout"]["value"], settings["data"]["value"]) == ("5", "/from/the/file")
    assert settings["timeout"]["source"] == f"file {document['file']}"
    assert settings["blob_max_bytes"]["source"] == "default"
    for text in (done.stdout, done.stderr, json.dumps(document)):
        assert "drf_secret" not in text
        assert "hunter2" not in text
    assert "postgresql://me:***@db/registry" in done.stdout
