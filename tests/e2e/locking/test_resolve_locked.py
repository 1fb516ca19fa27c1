"""`drafters resolve --locked`: flags from the lock and the cache, in a script that a real shell runs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess

import msgspec
import pytest

from drafter_contracts.engines.store import load_profile

RELEASE = "0.5.12.post1"


def test_the_locked_flags_are_printed_with_the_directory_of_this_machine(site):
    lock = site.locked()
    shutil.rmtree(site.shop.data)
    flags = site.flags()
    directory = flags[flags.index("--speculative-draft-model-path") + 1]
    assert [directory if flag == "{drafter}" else flag for flag in lock["flags"]] == flags
    assert os.path.isfile(os.path.join(directory, "model.safetensors"))
    told = json.loads(site.run("resolve", "--locked", "--json").stdout)
    assert (told["name"], told["version"]) == ("tiny", "1.0")
    assert site.run("resolve", "--locked", "--format", "shell").stdout.startswith("DRAFTERS_ARGS=(")


def test_a_moved_alias_changes_nothing_that_is_locked(site):
    site.locked()
    before = site.flags()
    site.publish("2.0", "second", fill=b"other weights")
    assert site.flags() == before


def test_a_script_with_a_lock_beside_it_starts_the_engine(site, command):
    site.locked()
    script = os.path.join(site.shop.folder, "launch.sh")
    with open(script, "w", encoding="utf-8") as file:
        file.write(
            f'cd "$(dirname "$0")"\nflags=$({command} resolve --locked) || exit\n'
            f'eval "exec {command} guard --locked -- {shlex.join(site.launch([]))} $flags"\n'
        )
    environment = {k: v for k, v in os.environ.items() if site.shop.variables.get(k, "") is not None}
    environment |= {k: v for k, v in {**site.shop.variables, **site.bench.variables("exit 5")}.items() if v}
    done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 5, done.stderr
    assert "--speculative-algorithm" in site.bench.told()["argv"]


def test_what_was_not_pulled_to_this_machine_is_told(site, tmp_path):
    site.locked()
    done = site.run("resolve", "--locked", variables={"DRAFTERS_CACHE": str(tmp_path / "empty")})
    assert (done.returncode, done.stdout) in {(6, ""), (5, "")}, done.stderr
    named = site.run("lock", "tiny@prod", "--engine", "sglang==0.5.23", "--target", site.target)
    assert named.returncode == 0, named.stderr
    done = site.run("resolve", "--locked", variables={"DRAFTERS_CACHE": str(tmp_path / "empty")})
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert "was not pulled to this machine" in done.stderr


def test_an_engine_that_is_not_here_need_not_be_where_flags_are_printed(site):
    """The locked release is asked by its name: the start itself is held against what is installed."""
    named = site.run("lock", "tiny@1.0", "--", *site.launch([]))
    assert named.returncode == 0, named.stderr
    shutil.rmtree(os.path.dirname(site.bench.binaries))
    assert "--speculative-algorithm" in site.flags()


def test_files_that_were_damaged_in_the_cache_are_told_or_made_anew(site):
    lock = site.locked()
    directory = site.flags()[3]
    path = os.path.join(directory, "model.safetensors")
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"x")
    done = site.run("resolve", "--locked", variables={"DRAFTERS_DATA": "/nowhere"})
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert lock["drafter"]["version"] == "1.0"


def test_a_changed_engine_gives_no_flags(site):
    with open(os.path.join(site.bench.package, "srt", "stand_in.py"), "a", encoding="utf-8") as file:
        file.write("# patched\n")
    profile = load_profile("sglang", RELEASE)
    site.know(msgspec.structs.replace(profile, sources=profile.sources | {"stand_in.py": "0" * 16}))
    assert site.locked()["engine"]["known_by"] == "files"
    site.know(msgspec.structs.replace(profile, sources=profile.sources | {"stand_in.py": "1" * 16}))
    done = site.run("resolve", "--locked")
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "LOCK_ENGINE" in done.stderr


def test_a_changed_target_gives_no_flags_and_one_that_is_not_here_does(site):
    site.locked()
    path = os.path.join(site.target, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config | {"eos_token_id": 7}, file)
    done = site.run("resolve", "--locked", "--json")
    assert done.returncode == 3
    assert [one["code"] for one in json.loads(done.stdout)["verdict"]["findings"]] == ["LOCK_TARGET"]
    os.remove(path)
    os.rmdir(site.target)
    done = site.run("resolve", "--locked")
    assert done.returncode in {0, 3}, done.stderr


@pytest.mark.parametrize("more", [("tiny@1.0",), ("--engine", "sglang==0.5.9"), ("--steps", "2"), ("--", "--tp", "2")])
def test_a_lock_says_everything_itself(site, more):
    site.locked()
    at = ("resolve", "--locked")
    done = site.run(*at, *more)
    assert (done.returncode, done.stdout, "says something else" in done.stderr) == (2, "", True), done.stderr


def test_without_a_lock_there_are_no_flags(site):
    done = site.run("resolve", "--locked")
    assert (done.returncode, done.stdout) == (2, "")
    assert site.run("resolve").returncode == 2
