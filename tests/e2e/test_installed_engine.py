"""The gate in front of an engine whose files are not those of its release: scanned, or unknown with the reason."""

from __future__ import annotations

import json
import os

import pytest

STATED = ("--output-ids", "2,30,58")


def verdict_of(done):
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"], done.stderr
    return document


def patch(bench, name, text):
    """Change a file of the engine that the bench's launch would start."""
    path = os.path.join(bench.package, "srt", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def test_the_verdict_says_whose_profile_it_rests_on(bench, drafters):
    context = verdict_of(drafters("check", "--json", *STATED, "--", *bench.launch(bench.right)))["context"]
    assert context["engine profile"].startswith(f"derived from the files in {bench.package} (")
    assert "differ from the 0.5.12.post1 release" in context["engine profile"]
    named = verdict_of(
        drafters("check", "--json", "--engine", "sglang==0.5.12.post1", *STATED, "--", *bench.launch(bench.right))
    )["context"]
    assert named["engine profile"] == "shipped for 0.5.12.post1, as published"


def test_an_engine_that_cannot_be_scanned_is_unknown_with_the_reason(bench, drafters):
    patch(bench, "models/hostile.py", "import os\nos.system('true')\nEntryClass = __import__('os').system('true')\n")
    done = drafters("check", *STATED, "--", *bench.launch(bench.right))
    flat = " ".join(done.stdout.split())
    assert done.returncode == 5
    assert "ENGINE_UNKNOWN" in flat
    assert "cannot be profiled" in flat
    assert "--engine sglang==0.5.12.post1" in flat
    assert f"scanning {bench.package}" in done.stderr


def test_a_launch_that_cannot_be_judged_is_not_started(bench, drafters):
    patch(bench, "models/broken.py", "EntryClass = (\n")
    done = drafters("guard", "--json", *STATED, "--", *bench.launch(bench.right), variables=bench.variables())
    assert done.returncode == 5
    document = json.loads(done.stderr)
    assert document["findings"][0]["code"] == "ENGINE_UNKNOWN", "one document, and no word of the scan before it"
    assert "cannot be profiled" in document["findings"][0]["message"]
    assert not bench.started


def test_nothing_is_scanned_where_that_was_asked_for(bench, drafters):
    patch(bench, "models/mine.py", "EntryClass = object\n")
    done = drafters("check", "--json", "--no-scan", *STATED, "--", *bench.launch(bench.right))
    finding = verdict_of(done)["findings"][0]
    assert (done.returncode, finding["code"], done.stderr) == (5, "ENGINE_UNKNOWN", "")
    assert "models/mine.py (new)" in finding["message"]
    assert "--no-scan" in finding["remedy"]


def test_metadata_without_files_is_no_engine_that_is_known(bench, drafters):
    os.rename(bench.package, os.path.join(bench.folder, "gone"))
    done = drafters("check", "--json", *STATED, "--", *bench.launch(bench.right))
    assert done.returncode == 5
    assert "files are not found" in verdict_of(done)["findings"][0]["message"]


@pytest.mark.parametrize("named", ["environment", "site", "package"])
def test_an_engine_may_be_named_by_its_place(bench, drafters, named):
    site = os.path.dirname(bench.package)
    path = {"environment": os.path.dirname(bench.binaries), "site": site, "package": bench.package}[named]
    launch = bench.launch(bench.wrong, python="/nowhere/bin/python")
    document = verdict_of(drafters("check", "--json", "--engine", path, *STATED, "--", *launch))
    assert document["decision"] == "refuse"
    assert document["context"]["engine"] == "sglang 0.5.12.post1"
    assert document["context"]["engine from"] == f"option --engine {path}"


def test_a_checkout_on_the_module_path_is_the_engine(bench, drafters):
    checkout = os.path.join(bench.folder, "checkout", "python")
    os.makedirs(checkout)
    os.rename(bench.package, os.path.join(checkout, "sglang"))
    with open(os.path.join(checkout, "sglang", "version.py"), "w", encoding="utf-8") as file:
        file.write('__version__ = "0.5.12.post1"\n')
    launch = bench.launch(bench.right)
    done = drafters("check", "--json", "--no-scan", *STATED, "--", *launch, variables={"PYTHONPATH": checkout})
    assert f"{checkout}/sglang" in verdict_of(done)["findings"][0]["message"]
    done = drafters("check", "--json", "--no-scan", "--engine", os.path.dirname(checkout), *STATED, "--", *launch)
    assert f"{checkout}/sglang" in verdict_of(done)["findings"][0]["message"]


def test_an_engine_may_be_named_by_a_profile_s_file(bench, drafters, tmp_path):
    path = str(tmp_path / "mine.json")
    profile = drafters("engine", "show", "0.5.23", "--json").stdout
    with open(path, "w", encoding="utf-8") as file:
        file.write(profile)
    launch = bench.launch(bench.right)
    document = verdict_of(drafters("check", "--json", "--engine", path, *STATED, "--", *launch))
    assert document["context"]["engine"] == "sglang 0.5.23"
    assert document["context"]["engine profile"] == f"the file {path}"
    with open(path, "w", encoding="utf-8") as file:
        file.write(profile[:1000])
    assert drafters("check", "--engine", path, *STATED, "--", *launch).returncode == 7


@pytest.mark.parametrize("path", ["/nowhere/sglang", "./absent.whl", "."])
def test_a_place_without_an_engine_is_a_usage_error(bench, drafters, path, tmp_path):
    done = drafters("check", "--engine", path, *STATED, "--", *bench.launch(bench.right), cwd=tmp_path)
    assert done.returncode == 2
    assert path in done.stderr


def test_something_that_is_no_wheel_is_unknown(bench, drafters, tmp_path):
    (tmp_path / "x.whl").write_bytes(b"no archive")
    done = drafters("check", "--engine", str(tmp_path / "x.whl"), *STATED, "--", *bench.launch(bench.right))
    assert done.returncode == 5
    assert "cannot be read as a wheel" in " ".join(done.stdout.split())


@pytest.mark.parametrize("how", [["--engine", "sglang==0.5.77"], []])
def test_an_unknown_release_is_unknown_with_the_advice_to_add_it(bench, drafters, how):
    inner = ["python3", "-m", "sglang.launch_server", *bench.launch(bench.right)[3:]]
    launch = ["docker", "run", "lmsysorg/sglang:v0.5.77", *inner]
    finding = verdict_of(drafters("check", "--json", *how, *STATED, "--", *launch))["findings"][0]
    assert finding["code"] == "ENGINE_UNKNOWN"
    assert "drafters engine update 0.5.77" in finding["remedy"]
    for command in (["show", "0.5.77"], ["diff", "0.5.9", "0.5.77"]):
        done = drafters("engine", *command)
        assert done.returncode == 5
        assert "drafters engine update 0.5.77" in done.stderr


def test_a_launch_without_speculation_looks_at_no_installation(bench, drafters):
    patch(bench, "models/broken.py", "EntryClass = (\n")
    done = drafters("guard", "--", *bench.plain(), variables=bench.variables())
    assert (done.returncode, done.stderr) == (0, "")
    assert bench.started
