"""The real 0.5.9 as an installation: its own profile where it is as published, another where it was patched.

The patch is the incident's: id -1 stands for the embedding, which the release itself cannot capture.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile

import pytest

from drafter_cli.demo_files import DEEPSEEK, EVERY_OPTION, write_drafter, write_target
from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.local import installation
from drafter_contracts.engines.store import load_profile

pytestmark = pytest.mark.conformance

RELEASE = "0.5.9"
MODEL = "models/deepseek_v2.py"
SETTER = "self.model.layers_to_capture = [val + 1 for val in layer_ids]\n"
APPEND = "aux_hidden_states.append(hidden_states + residual)\n"
#: The sentinel as a mapping: -1 becomes boundary 0, at which there is no residual yet.
MAPPED = (
    (SETTER, "self.model.layers_to_capture = [0 if val == -1 else val + 1 for val in layer_ids]\n"),
    (APPEND, "aux_hidden_states.append(hidden_states if residual is None else hidden_states + residual)\n"),
)


class Environment:
    """A virtual environment as an installer leaves it, with the release's own wheel in it."""

    def __init__(self, folder: str, wheel: str) -> None:
        minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = os.path.join(folder, "lib", minor, "site-packages")
        os.makedirs(site)
        os.makedirs(os.path.join(folder, "bin"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        base = os.path.realpath(sys.executable)
        with open(os.path.join(folder, "pyvenv.cfg"), "w", encoding="utf-8") as file:
            file.write(f"home = {os.path.dirname(base)}\n")
        self.python = os.path.join(folder, "bin", "python")
        os.symlink(base, self.python)
        self.package = os.path.join(site, "sglang")

    def patch(self, *changes) -> None:
        path = os.path.join(self.package, "srt", MODEL)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for before, after in changes:
            assert text.count(before) == 1
            text = text.replace(before, after)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


@pytest.fixture
def environment(wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    return Environment(str(tmp_path / "environment"), wheel(RELEASE))


@pytest.fixture
def ask(environment, drafters, tmp_path):
    """The verdict on a launch of that environment, with a drafter whose config has these ids."""
    target = write_target(str(tmp_path / "target"), DEEPSEEK)

    def ask(ids, *stated, gate="check"):
        name = "drafter" + "".join(f"_{one}" for one in ids)
        drafter = write_drafter(str(tmp_path / name), ids=ids)
        launch = [environment.python, "-m", "sglang.launch_server", "--model-path", target, "--disable-cuda-graph"]
        launch += ["--speculative-draft-model-path", drafter, *EVERY_OPTION]
        return drafters(gate, "--json", *stated, "--", *launch, timeout=1200)

    return ask


def test_the_release_as_published_is_not_scanned(environment, ask):
    done = ask([2, 30, 58], "--output-ids", "2,30,58", "--no-scan")
    document = json.loads(done.stdout)
    assert done.returncode == 0, document
    assert done.stderr == ""
    assert document["context"]["engine profile"].startswith("shipped for 0.5.9")
    wrong = json.loads(ask([-1, 2, 30], "--output-ids", "-1,2,30", "--no-scan").stdout)
    assert wrong["decision"] == "refuse", "as published, the embedding cannot be captured: the first batch crashes"


def test_a_patched_embedding_sentinel_is_profiled_as_it_works(environment, ask):
    environment.patch(*MAPPED)
    first = ask([-1, 2, 30], "--output-ids", "2,30,58")
    document = json.loads(first.stdout)
    assert first.returncode == 3
    assert "1 file differs from the 0.5.9 release: models/deepseek_v2.py" in first.stderr
    assert document["context"]["captures"] == "boundaries 0, 3, 31 (embedding output, outputs of layers 2, 30)"
    assert document["context"]["engine profile"].startswith(f"derived from the files in {environment.package} (1 file")

    again = ask([-1, 2, 30], "--output-ids", "-1,2,30")
    assert (again.returncode, again.stderr) == (0, ""), "from what was kept"
    plain = json.loads(ask([2, 30, 58], "--output-ids", "2,30,58").stdout)
    assert plain["context"]["captures"] == "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)"

    guarded = ask([-1, 2, 30], "--output-ids", "2,30,58", gate="guard")
    assert guarded.returncode == 3, "the launch was not started"
    refused = json.loads(guarded.stderr)
    assert "kept from an earlier scan" in refused["context"]["engine profile"]

    found = installation.profile_of_package(environment.package, RELEASE, may_scan=False)
    published = load_profile("sglang", RELEASE)
    family = {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM"}
    for name in family:
        rule = found.profile.capture_method(name, "EAGLE3")
        assert [tap.boundary for tap in capture_once(rule, 61, [-1, 2, 30]).taps] == [0, 3, 31]
        assert capture_once(published.capture_method(name, "EAGLE3"), 61, [-1, 2, 30]).error == "TypeError"
    kept = found.profile.capture_method("LlamaForCausalLM", "EAGLE3")
    assert kept == published.capture_method("LlamaForCausalLM", "EAGLE3"), "the patch touches no other class"

    environment.patch((MAPPED[0][1], SETTER.replace("val + 1", "val")))
    moved = ask([2, 30, 58], "--output-ids", "2,30,58")
    assert "scanning" in moved.stderr, "other files, another profile"
    assert json.loads(moved.stdout)["context"]["captures"] == "boundaries 2, 30, 58 (outputs of layers 1, 29, 57)"


def test_a_wheel_is_compared_like_an_installation(wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    found = installation.profile_of_wheel(wheel(RELEASE), may_scan=False)
    assert (found.source, found.profile) == ("shipped", load_profile("sglang", RELEASE))
