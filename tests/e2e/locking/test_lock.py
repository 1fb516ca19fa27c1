"""`drafters lock`: what is written, and what resolving again would change."""

from __future__ import annotations

import json
import os
import subprocess

import msgspec
import pytest

from drafter_contracts.engines.store import load_profile
from drafter_contracts.locking.document import decode

RELEASE = "0.5.12.post1"


def test_a_lock_names_version_files_engine_target_flags_and_verdict(site):
    done = site.lock()
    assert done.returncode == 0, done.stderr
    assert "tiny@prod is tiny@1.0" in done.stderr
    lock = site.document()
    assert lock["asked"]["reference"] == "tiny@prod"
    assert (lock["drafter"]["name"], lock["drafter"]["version"]) == ("tiny", "1.0")
    shown = json.loads(site.run("show", "tiny@1.0", "--json").stdout)
    assert lock["drafter"]["digest"] == shown["summary"]["digest"]
    stored = {file["path"]: file["sha256"] for file in shown["manifest"]["files"]}
    manifest = {"drafters-manifest.json": lock["drafter"]["digest"].removeprefix("sha256:")}
    assert lock["drafter"]["files"] == stored | manifest
    assert (lock["engine"]["release"], lock["engine"]["known_by"]) == (RELEASE, "published")
    assert len(lock["target"]["config_sha256"]) == 64
    assert lock["flags"][lock["flags"].index("--speculative-draft-model-path") + 1] == "{drafter}"
    assert lock["verdict"]["decision"] in {"allow", "warn"}
    assert done.stdout.startswith("drafters.lock  written\n")


def test_no_place_of_this_machine_is_in_it_but_what_was_written(site):
    os.rename(site.target, os.path.join(site.shop.folder, "model"))
    done = site.run("lock", "tiny@prod", "--engine", f"sglang=={RELEASE}", "--target", "model")
    assert done.returncode == 0, done.stderr
    with open(site.file, encoding="utf-8") as file:
        assert site.shop.folder not in file.read()


def test_locking_again_gives_the_same_bytes_from_anywhere(site, tmp_path):
    site.locked()
    with open(site.file, "rb") as file:
        first = file.read()
    again = site.lock()
    assert again.stdout.startswith("drafters.lock  is as it was\n")
    other = tmp_path / "elsewhere"
    other.mkdir()
    done = site.lock(cwd=other, variables={"DRAFTERS_CACHE": str(tmp_path / "cache2"), "TZ": "Asia/Tokyo"})
    assert done.returncode in {0, 5}, done.stderr
    site.shop.cache = str(tmp_path / "cache2")
    site.know(load_profile("sglang", RELEASE))
    done = site.lock(cwd=other)
    assert done.returncode == 0, done.stderr
    assert (other / "drafters.lock").read_bytes() == first


def test_a_launch_gives_engine_target_and_options(site):
    launch = site.launch([], "--page-size", "1")
    done = site.run("lock", "tiny@1.0", "--", *launch)
    assert done.returncode == 0, done.stderr
    lock = site.document()
    assert lock["options"] == ["--model-path", site.target, "--page-size", "1"]
    assert lock["target"]["config_sha256"]
    assert lock["engine"]["release"] == RELEASE
    assert site.guard([*launch, *site.flags()]).returncode == 0


def test_sglang_serve_with_its_positional_model_is_a_launch_too(site):
    serve = [os.path.join(site.bench.binaries, "sglang"), "serve", site.target, "--page-size", "1"]
    done = site.run("lock", "tiny@1.0", "--engine", "sglang==0.5.23", "--", *serve)
    assert done.returncode == 0, done.stderr
    assert site.document()["options"] == ["--model-path", site.target, "--page-size", "1"]
    assert site.document()["target"]["name"] == site.target


def test_more_options_are_judged_and_locked(site):
    lock = site.locked(launch=["--page-size", "1"])
    assert lock["options"] == ["--page-size", "1"]
    assert "--page-size" not in lock["flags"]


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (["docker", "run", "lmsysorg/sglang:v0.5.9", "python", "-m", "sglang.launch_server"], "only a guess"),
        (["/nowhere/bin/python", "-m", "sglang.launch_server", "--model-path", "M"], "no sglang installation found"),
        (["echo", "hello"], "no engine is started by echo"),
    ],
)
def test_a_launch_whose_engine_is_not_known_for_sure_is_not_locked(site, launch, said):
    done = site.run("lock", "tiny@1.0", "--", *launch)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert not os.path.exists(site.file)


def test_an_engine_whose_starts_are_not_guarded_is_not_locked(site):
    done = site.run("lock", "tiny@1.0", "--engine", "vllm==0.29.0", "--target", site.target)
    assert (done.returncode, "are not guarded" in done.stderr) == (2, True), done.stderr
    assert not os.path.exists(site.file)


def test_a_refused_launch_is_not_locked_and_an_older_lock_stays(site):
    before = site.locked()
    done = site.lock("--engine", "sglang==0.4.1")
    assert done.returncode in {3, 5}, done.stderr
    assert site.document() == before


def test_check_says_nothing_changed(site):
    site.locked()
    done = site.run("lock", "--check")
    assert (done.returncode, done.stdout) == (0, "drafters.lock is what resolving again gives\n"), done.stderr


def test_check_finds_a_moved_alias_and_update_takes_it(site):
    before = site.locked()
    site.publish("2.0", "second", fill=b"other weights")
    done = site.run("lock", "--check", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit_code"]) == (8, 8)
    fields = {change["field"]: change for change in told["changes"]}
    assert fields["drafter"]["before"].startswith("tiny@1.0 (")
    assert fields["drafter"]["after"].startswith("tiny@2.0 (")
    assert "drafter.files: model.safetensors" in fields
    assert site.document() == before, "check writes nothing"
    assert site.run("lock", "--update").returncode == 0
    assert site.document()["drafter"]["version"] == "2.0"
    assert site.run("lock", "--check").returncode == 0


def test_check_finds_a_yanked_version(site):
    site.locked(reference="tiny@1.0")
    assert site.run("yank", "tiny@1.0", "--why", "trained on other layers").returncode == 0
    done = site.run("lock", "--check")
    assert done.returncode == 3, done.stderr
    assert "tiny@1.0 is yanked: trained on other layers" in " ".join(done.stdout.split())


def test_check_finds_that_an_alias_leads_to_a_yanked_version(site):
    site.locked()
    assert site.run("yank", "tiny@1.0", "--why", "wrong").returncode == 0
    done = site.run("lock", "--check", "--json")
    assert done.returncode == 3, done.stdout
    assert [change["field"] for change in json.loads(done.stdout)["changes"]] == ["state", "asked.reference"]
    assert site.run("lock", "--update").returncode == 2


def test_check_finds_a_changed_engine_and_a_changed_target(site):
    site.locked()
    with open(os.path.join(site.bench.package, "srt", "stand_in.py"), "a", encoding="utf-8") as file:
        file.write("# patched\n")
    profile = load_profile("sglang", RELEASE)
    site.know(msgspec.structs.replace(profile, sources=profile.sources | {"stand_in.py": "0" * 16}))
    change_config(site.target, eos_token_id=7)
    done = site.run("lock", "--check", "--json")
    assert done.returncode == 3, done.stderr
    fields = [change["field"] for change in json.loads(done.stdout)["changes"]]
    assert sorted(fields) == ["engine", "target"]


def change_config(directory, **more):
    path = os.path.join(directory, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config | more, file)


def test_without_its_registry_an_alias_cannot_be_checked_and_a_version_can(site):
    site.locked()
    assert site.run("lock", "--check", variables={"DRAFTERS_URL": "http://127.0.0.1:9"}).returncode == 6
    site.locked(reference="tiny@1.0")
    assert site.run("lock", "--check", "--offline").returncode == 0


def test_a_file_that_is_no_lock_is_not_overwritten(site, tmp_path):
    script = tmp_path / "launch.sh"
    script.write_text("exec sglang serve\n")
    done = site.lock("-o", script)
    assert (done.returncode, "is no lock file" in done.stderr) == (2, True)
    assert script.read_text() == "exec sglang serve\n"


def test_a_lock_of_another_schema_may_be_written_anew(site):
    with open(site.file, "w", encoding="utf-8") as file:
        file.write('{"schema": "drafters.lock.v0"}')
    assert site.locked()["schema"] == "drafters.lock.v1"


def test_a_directory_that_cannot_be_written_is_told_and_nothing_is_left(site, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if os.access(closed, os.W_OK):  # a user who may write anywhere
        closed = "/proc"
    done = site.lock("-o", os.path.join(closed, "drafters.lock"))
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True), done.stderr
    assert not [name for name in os.listdir(closed) if "drafters" in name]


def test_two_that_lock_at_once_leave_one_whole_lock(site, command):
    site.locked()
    os.remove(site.file)
    environment = {k: v for k, v in os.environ.items() if site.shop.variables.get(k, "") is not None}
    environment |= {k: v for k, v in site.shop.variables.items() if v is not None}
    argv = [command, "lock", "tiny@1.0", "--engine", site.bench.package, "--target", site.target]
    both = [
        subprocess.Popen(argv, cwd=site.shop.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    for one in both:
        assert one.wait(timeout=60) == 0, one.communicate()[1]
        one.communicate()
    with open(site.file, "rb") as file:
        assert decode(file.read()).name == "tiny@1.0"
    assert not [name for name in os.listdir(site.shop.folder) if name.endswith(".part")]


def test_json_is_one_document(site):
    told = json.loads(site.lock("--json").stdout)
    assert told["lock"] == site.document()
    assert (told["file"], told["written"]) == ("drafters.lock", True)


@pytest.mark.parametrize(
    "argv",
    [
        ("lock",),
        ("lock", "--check", "--update"),
        ("lock", "--check", "--engine", "sglang==0.5.9"),
        ("lock", "--update", "-o", "other.lock"),
        ("lock", "--check", "--", "--page-size", "1"),
        ("lock", "tiny@1.0", "--steps", "none"),
        ("lock", "--check", "absent.lock"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(site, argv):
    site.locked()
    done = site.run(*argv)
    assert done.returncode == 2, done.stdout


def tampered(path):
    """Change the last bytes of a file of the cache, and hide it: its modification time stays what it was."""
    status = os.stat(path)
    os.chmod(path, 0o644)
    with open(path, "r+b") as file:
        file.seek(-16, os.SEEK_END)
        file.write(b"other weights, 16")
        file.truncate(status.st_size)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("more", [(), ("--prefer", "render")])
def test_files_that_are_not_as_published_are_not_locked_and_fetched_anew(site, more):
    locked = site.locked(*more)
    directory = site.flags()[3]
    tampered(os.path.join(directory, "model.safetensors"))
    os.remove(site.file)
    done = site.lock(*more)
    assert done.returncode == 7, done.stderr
    assert "model.safetensors" in done.stderr
    assert not os.path.exists(site.file)
    assert site.locked(*more) == locked


def test_an_update_takes_no_files_that_are_not_as_published(site):
    site.locked()
    with open(site.file, "rb") as file:
        before = file.read()
    tampered(os.path.join(site.flags()[3], "model.safetensors"))
    assert site.run("lock", "--check").returncode == 3
    done = site.run("lock", "--update")
    assert done.returncode == 7, done.stderr
    with open(site.file, "rb") as file:
        assert file.read() == before
