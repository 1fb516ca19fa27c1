"""The wheel: what is in it, that it works alone in a fresh environment, and beside what SGLang pins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
import zipfile

import pytest

from drafter_cli.demo_files import EVERY_OPTION, write_drafter, write_target
from drafter_contracts.engines.store import releases
from drafter_registry.db.schema import REVISIONS

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = "drafter_contracts/engines/data/sglang/"
#: The releases whose pins the bare package must fit beside.
BESIDE = ("0.5.9", "0.5.23")


@pytest.fixture(scope="module")
def project() -> dict:
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (path,) = folder.iterdir()
    return str(path)


def test_the_bare_package_needs_a_handful_of_small_packages(project):
    assert len(project["dependencies"]) <= 4
    assert set(project["optional-dependencies"]) >= {"server", "values", "hub", "sglang"}


def test_one_wheel_holds_the_four_packages_their_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"drafter_contracts", "drafter_registry", "drafter_migrations", "drafter_cli"}
    for top in tops:
        assert f"{top}/py.typed" in names
    revisions = {name for name in names if name.startswith("drafter_migrations/versions/revision_")}
    assert revisions == {f"drafter_migrations/versions/revision_{name[-4:]}.py" for name in REVISIONS}
    assert "drafter_migrations/env.py" in names
    data = {name.removeprefix(DATA) for name in names if name.startswith(DATA)}
    assert data == {"advisories.json", "lines.txt"} | {f"recipes/{release}.json" for release in releases("sglang")}
    assert len(releases("sglang")) >= 6
    assert sum(archive.getinfo(name).compress_size for name in names if name.startswith(DATA)) < 1_500_000
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name]


def test_a_fresh_environment_has_a_working_gate(wheel, tmp_path):
    venv.create(tmp_path / "fresh", with_pip=True, symlinks=True)
    binaries = tmp_path / "fresh" / "bin"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COVERAGE", "VIRTUAL_ENV"))}
    install = [binaries / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel]
    subprocess.run(install, check=True, capture_output=True, timeout=300, env=environment)

    listed = subprocess.run(
        [binaries / "python", "-m", "pip", "list", "--format=json"],
        check=True, capture_output=True, text=True, timeout=60, env=environment,
    )  # fmt: skip
    installed = {entry["name"].lower() for entry in json.loads(listed.stdout)} - {"pip", "setuptools"}
    assert installed == {"drafter-registry", "msgspec", "safetensors", "pyyaml"}

    target = write_target(str(tmp_path / "target"))
    wrong = write_drafter(str(tmp_path / "wrong"), ids=[-1, 2, 30])
    launch = ["python", "-m", "sglang.launch_server", "--model-path", target, *EVERY_OPTION]
    launch += ["--speculative-draft-model-path", wrong]
    check = [binaries / "drafters", "check", "--json", "--engine", "sglang==0.5.12.post1", "--output-ids", "2,30,58"]
    done = subprocess.run(
        [*check, "--", *launch], capture_output=True, text=True, timeout=60, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["decision"] == "refuse"


@pytest.mark.conformance
@pytest.mark.parametrize("release", BESIDE)
def test_our_ranges_move_nothing_that_sglang_pins(project, tmp_path, release):
    """The resolution of SGLang alone and of SGLang with ours are the same versions of the same packages."""
    alone = resolve(tmp_path, "alone", [f"sglang=={release}"])
    beside = resolve(tmp_path, "beside", [f"sglang=={release}", *project["dependencies"]])
    assert alone["sglang"] == release
    assert beside | alone == beside, "a pin of SGLang moved"
    assert {"msgspec", "safetensors", "pyyaml"} <= set(beside)


def resolve(folder, name: str, requirements: list[str]) -> dict[str, str]:
    """Package to version, as a resolver would install them on Linux with Python 3.11."""
    wanted, found = folder / f"{name}.in", folder / f"{name}.txt"
    wanted.write_text("\n".join(requirements))
    tool = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "-q",
        "--no-header",
        "--no-annotate",
        "--only-binary",
        ":all:",
    ]
    where = ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_35"]
    done = subprocess.run(
        [*tool, *where, str(wanted), "-o", str(found)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    pins = (line.partition(";")[0].strip().partition("==") for line in found.read_text().splitlines())
    return {package: version for package, _, version in pins}
