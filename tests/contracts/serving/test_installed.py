"""The engine that a launch would start, found without running anything."""

import shutil
import sys

import pytest

from drafter_contracts.serving.installed import engine_at, find_engine
from drafter_contracts.serving.invocation import read_invocation


@pytest.fixture(autouse=True)
def quiet(monkeypatch, tmp_path):
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_EXE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def environment(root, release=None, *, isolated=True):
    """A virtual environment as `python -m venv` leaves it, with the engine's metadata."""
    (root / "bin").mkdir(parents=True)
    site = root / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (root / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = {str(not isolated).lower()}\nversion = 3.11.7\n"
    )
    shutil.copy(sys.executable, root / "bin" / "python3.11")
    (root / "bin" / "python").symlink_to("python3.11")
    if release:
        distribution(site, release)
    return site


def distribution(site, release):
    (site / "sglang" / "srt").mkdir(parents=True)
    (site / "sglang" / "__init__.py").touch()
    (site / f"sglang-{release}.dist-info").mkdir()
    (site / f"sglang-{release}.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n"
    )


def source(root, text, name="version.py"):
    (root / "sglang" / "srt").mkdir(parents=True)
    (root / "sglang" / "__init__.py").touch()
    (root / "sglang" / name).write_text(text)


def engine(*argv):
    found = find_engine(read_invocation(argv))
    return None if found is None else found.release


LAUNCH = ("-m", "sglang.launch_server", "--model-path", "m")


def test_named_interpreter(tmp_path):
    environment(tmp_path / "env", "0.5.9")
    assert engine(str(tmp_path / "env/bin/python"), *LAUNCH) == "0.5.9"
    found = find_engine(read_invocation([str(tmp_path / "env/bin/python"), *LAUNCH]))
    assert found.location.endswith("sglang-0.5.9.dist-info")


def test_path_of_the_launch_decides(tmp_path, monkeypatch):
    environment(tmp_path / "one", "0.5.9")
    environment(tmp_path / "two", "0.5.23")
    monkeypatch.setenv("PATH", str(tmp_path / "one/bin"))
    assert engine("python", *LAUNCH) == "0.5.9"
    assert engine("env", f"PATH={tmp_path}/two/bin", "python", *LAUNCH) == "0.5.23"


def test_console_script_follows_its_shebang(tmp_path, monkeypatch):
    environment(tmp_path / "env", "0.5.15")
    script = tmp_path / "env/bin/sglang"
    script.write_text(f"#!{tmp_path}/env/bin/python\nimport sys\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "env/bin"))
    assert engine("sglang", "serve", "m") == "0.5.15"
    script.write_text(f"#!/bin/sh\n'''exec' {tmp_path}/env/bin/python \"$0\" \"$@\"\n' '''\n")
    assert engine(str(script), "serve", "m") == "0.5.15"


def test_pythonpath_comes_before_site_packages(tmp_path):
    environment(tmp_path / "env", "0.5.9")
    source(tmp_path / "checkout", '__version__ = "0.5.12.post1"\n')
    python = str(tmp_path / "env/bin/python")
    assert engine("env", f"PYTHONPATH={tmp_path}/checkout", python, *LAUNCH) == "0.5.12.post1"


def test_the_start_directory_comes_first_for_a_module(tmp_path, quiet):
    environment(tmp_path / "env", "0.5.9")
    source(quiet, "__version__ = version = '0.5.24.dev1'\n", "_version.py")
    python = str(tmp_path / "env/bin/python")
    assert engine(python, *LAUNCH) == "0.5.24.dev1"
    assert engine("env", "-C", str(tmp_path), python, *LAUNCH) == "0.5.9"


def test_a_script_imports_the_engine_that_its_interpreter_has(tmp_path):
    """Python puts the script's own directory on the module path, not the one that the package lies in."""
    environment(tmp_path / "env", "0.5.9")
    source(tmp_path / "src/python", '__version__ = "0.5.2"\n')
    script = tmp_path / "src/python/sglang/launch_server.py"
    script.touch()
    launch = (str(tmp_path / "env/bin/python"), str(script), "--model-path", "m")
    assert engine(*launch) == "0.5.9"
    assert engine("env", f"PYTHONPATH={tmp_path}/src/python", *launch) == "0.5.2"


def test_isolation_switches_of_the_interpreter(tmp_path, quiet):
    environment(tmp_path / "env", "0.5.9")
    source(quiet, '__version__ = "0.5.2"\n')
    source(tmp_path / "path", '__version__ = "0.5.15"\n')
    python = str(tmp_path / "env/bin/python")
    path = f"PYTHONPATH={tmp_path}/path"
    assert engine("env", path, python, *LAUNCH) == "0.5.2"
    assert engine("env", path, python, "-P", *LAUNCH) == "0.5.15"
    assert engine("env", path, "PYTHONSAFEPATH=1", python, *LAUNCH) == "0.5.15"
    assert engine("env", path, python, "-E", *LAUNCH) == "0.5.2"
    assert engine("env", path, python, "-Im", *LAUNCH[1:]) == "0.5.9"


def test_a_console_command_inside_a_shell_text_is_the_one_that_it_names(tmp_path, monkeypatch):
    for name, release in (("one", "0.5.9"), ("two", "0.5.23")):
        environment(tmp_path / name, release)
        script = tmp_path / name / "bin" / "sglang"
        script.write_text(f"#!{tmp_path}/{name}/bin/python\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/one/bin")
    assert engine("bash", "-c", "sglang serve m") == "0.5.9"
    assert engine("bash", "-c", f"{tmp_path}/two/bin/sglang serve m") == "0.5.23"
    assert engine("bash", "-c", f"export PATH={tmp_path}/two/bin:$PATH; sglang serve m") == "0.5.23"
    assert engine("env", "PATH=$HOME/bin:" + str(tmp_path / "one/bin"), "sglang", "serve", "m") is None


def test_a_shell_that_may_have_changed_path_leaves_only_programs_named_by_path(tmp_path, monkeypatch):
    environment(tmp_path / "env", "0.5.9")
    monkeypatch.setenv("PATH", f"{tmp_path}/env/bin")
    launch = " ".join(LAUNCH)
    assert engine("bash", "-c", f"python {launch}") == "0.5.9"
    for before in ("source x/activate", "module load cuda", "conda activate x", 'eval "$(x)"'):
        assert engine("bash", "-c", f"{before} && python {launch}") is None
        assert engine("bash", "-c", f"{before} && {tmp_path}/env/bin/python {launch}") == "0.5.9"
    environment(tmp_path / "other", "0.5.2")
    activate = f"cd {tmp_path} && . other/bin/activate"
    assert engine("bash", "-c", f"{activate} && python {launch}") == "0.5.2"
    assert engine("bash", "-c", f"{activate} && env/bin/python {launch}") == "0.5.9"
    assert engine("bash", "-lc", f"python {launch}") is None
    assert engine("bash", "-c", f"pip install -U sglang && {tmp_path}/env/bin/python {launch}") is None
    assert engine("env", "PYTHONPATH=$HOME/x", "python", *LAUNCH) is None


def test_left_over_metadata(tmp_path):
    site = environment(tmp_path / "env", "0.5.12")
    (site / "sglang-0.5.9.dist-info").mkdir()
    (site / "sglang-0.5.9.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 0.5.9\n")
    python = str(tmp_path / "env/bin/python")
    assert engine(python, *LAUNCH) == ""
    (site / "sglang" / "_version.py").write_text("__version__ = version = '0.5.9'\n")
    assert engine(python, *LAUNCH) == "0.5.9"


def test_editable_installs(tmp_path):
    site = environment(tmp_path / "env")
    source(tmp_path / "src/python", "raise SystemExit\n")
    (site / "sglang-0.5.9.dist-info").mkdir()
    (site / "sglang-0.5.9.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 0.5.9\n")
    (site / "__editable__.sglang-0.5.9.pth").write_text(f"{tmp_path}/src/python\n")
    found = find_engine(read_invocation([str(tmp_path / "env/bin/python"), *LAUNCH]))
    assert (found.release, found.location) == ("0.5.9", f"{tmp_path}/src/python/sglang")


def test_an_engine_without_a_version_is_there_all_the_same(tmp_path):
    environment(tmp_path / "env", "0.5.9")
    source(tmp_path / "src", "import importlib.metadata\n")
    assert engine("env", f"PYTHONPATH={tmp_path}/src", str(tmp_path / "env/bin/python"), *LAUNCH) == ""


def test_other_tools_environments(tmp_path, quiet, monkeypatch):
    environment(tmp_path / "conda/envs/serving", "0.5.9")
    environment(quiet / ".venv", "0.5.2")
    monkeypatch.setenv("CONDA_EXE", str(tmp_path / "conda/bin/conda"))
    assert engine("conda", "run", "-n", "serving", "python", *LAUNCH) == "0.5.9"
    assert engine("conda", "run", "-p", str(tmp_path / "conda/envs/serving"), "python", *LAUNCH) == "0.5.9"
    assert engine("uv", "run", "python", *LAUNCH) == "0.5.2"


def test_what_cannot_be_told(tmp_path, monkeypatch):
    environment(tmp_path / "empty")
    shim = tmp_path / "shims/python"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\nexec something\n")
    shim.chmod(0o755)
    python = str(tmp_path / "empty/bin/python")
    assert engine(python, *LAUNCH) is None
    assert engine(str(shim), *LAUNCH) is None
    assert engine("/no/such/python", *LAUNCH) is None
    assert engine("docker", "run", "lmsysorg/sglang:v0.5.9", python, *LAUNCH) is None
    assert engine("poetry", "run", "python", *LAUNCH) is None
    assert engine("ls") is None


def test_an_editable_install_with_a_finder(tmp_path):
    site = environment(tmp_path / "env")
    source(tmp_path / "src/python", '__version__ = version = "0.5.24.dev3"\n', "_version.py")
    (site / "sglang-0.5.9.dist-info").mkdir()
    (site / "sglang-0.5.9.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 0.5.9\n")
    (site / "__editable__.sglang-0.5.9.pth").write_text("import __editable___sglang_0_5_9_finder\n")
    finder = f"MAPPING: dict[str, str] = {{'sglang': '{tmp_path}/src/python/sglang'}}\n"
    (site / "__editable___sglang_0_5_9_finder.py").write_text(finder)
    assert engine(str(tmp_path / "env/bin/python"), *LAUNCH) == "0.5.24.dev3"


def test_uv_runs_another_engine_than_the_projects(quiet, monkeypatch, tmp_path):
    environment(quiet / ".venv", "0.5.23")
    environment(tmp_path / "other", "0.5.2")
    python = ("python", *LAUNCH)
    assert engine("uv", "run", *python) == "0.5.23"
    for options in (("--with", "sglang[all]==0.5.9"), ("--isolated",), ("--no-project",), ("--project", "x")):
        assert engine("uv", "run", *options, *python) is None
    assert engine("uvx", "--from", "sglang", "sglang", "serve", "m") is None
    monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", str(tmp_path / "other"))
    assert engine("uv", "run", *python) == "0.5.2"


def test_where_the_package_lies(tmp_path):
    site = environment(tmp_path / "env", "0.5.9")
    python = str(tmp_path / "env/bin/python")
    found = find_engine(read_invocation([python, *LAUNCH]))
    assert (found.release, found.package) == ("0.5.9", str(site / "sglang"))
    shutil.rmtree(site / "sglang")
    assert find_engine(read_invocation([python, *LAUNCH])).package == "", "only metadata"
    source(tmp_path / "checkout", "")
    (site / "sglang.pth").write_text(f"{tmp_path}/checkout\n")
    found = find_engine(read_invocation([python, *LAUNCH]))
    assert (found.release, found.package) == ("0.5.9", f"{tmp_path}/checkout/sglang")
    found = find_engine(read_invocation(["env", f"PYTHONPATH={tmp_path}/checkout", python, *LAUNCH]))
    assert found.package == f"{tmp_path}/checkout/sglang"


def test_an_engine_is_found_in_a_place_that_is_named(tmp_path):
    site = environment(tmp_path / "env", "0.5.9")
    for place in (tmp_path / "env", site, site / "sglang"):
        found = engine_at(str(place))
        assert (found.release, found.package) == ("0.5.9", str(site / "sglang"))
    source(tmp_path / "checkout" / "python", '__version__ = "0.5.24.dev1"\n')
    found = engine_at(str(tmp_path / "checkout"))
    assert (found.release, found.package) == ("0.5.24.dev1", f"{tmp_path}/checkout/python/sglang")
    shutil.rmtree(site / "sglang")
    assert engine_at(str(site)) is None, "metadata is no engine"
    assert engine_at(str(tmp_path / "nowhere")) is None
