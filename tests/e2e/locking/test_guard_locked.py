"""`drafters guard --locked`: what starts, and every drift that keeps a launch from starting. Always offline."""

from __future__ import annotations

import json
import os
import shutil

import msgspec
import pytest

from drafter_contracts.engines.store import load_profile
from drafter_contracts.locking.document import Lock, canonical, sealed

RELEASE = "0.5.12.post1"


def rewritten(site, change):
    """The lock as another version of the tool, or another day, would have written it."""
    with open(site.file, "rb") as file:
        lock = msgspec.json.decode(file.read(), type=Lock)
    with open(site.file, "wb") as file:
        file.write(canonical(sealed(change(lock))))


def change_json(path, **more):
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document | more, file)


def test_the_locked_launch_starts_without_registry_and_network(site, flags):
    shutil.rmtree(site.shop.data)
    done = site.guard(site.launch(flags, "--page-size", "1"), variables=site.bench.variables("exit 41"))
    assert done.returncode == 41, done.stderr
    assert site.bench.told()["argv"] == ["--model-path", site.target, "--page-size", "1", *flags]
    assert "drafters.lock: tiny@1.0 on sglang 0.5.12.post1" in " ".join(done.stderr.split())


def test_check_locked_says_the_same_and_starts_nothing(site, flags):
    document = site.check(site.launch(flags))
    assert document["decision"] == site.document()["verdict"]["decision"]
    assert {"LOCK_FILES", "LOCK_ENGINE", "LOCK_TARGET", "LOCK_OPTION", "LOCK_VERDICT"} <= set(document["checked"])
    assert not site.bench.started


def test_another_directory_with_the_same_bytes_is_the_drafter(site, flags):
    _, copied = site.copy_of(flags)
    assert site.guard(site.launch(copied)).returncode == 0


def test_a_copy_without_its_manifest_is_judged_by_the_cached_one(site, flags):
    copy, copied = site.copy_of(flags)
    os.remove(os.path.join(copy, "drafters-manifest.json"))
    assert site.drift(site.launch(copied)) == []
    shutil.rmtree(os.path.join(site.shop.cache, "drafters"))
    assert ("LOCK_FILES", "refuse") in site.drift(site.launch(copied))


def test_weights_of_the_same_size_are_other_weights(site, flags):
    copy, copied = site.copy_of(flags)
    assert site.drift(site.launch(copied)) == []
    path = os.path.join(copy, "model.safetensors")
    before = os.stat(path)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    done = site.guard(site.launch(copied))
    assert done.returncode == 3, done.stderr
    flat = " ".join(done.stderr.split())
    assert f"model.safetensors of {copy} is not as it was locked" in flat
    assert not site.bench.started


def test_verify_reads_what_is_remembered_again(site, flags):
    """A digest that is remembered for a file that is the same stands, until --verify."""
    copy, copied = site.copy_of(flags)
    notes = os.path.join(site.shop.cache, "digests")
    path = os.path.join(copy, "model.safetensors")
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.write(b"x")
    assert ("LOCK_FILES", "refuse") in site.drift(site.launch(copied))
    status = os.stat(path)
    keys = ("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")
    names = ("device", "inode", "size", "modified", "changed")
    identity = {name: getattr(status, key) for name, key in zip(names, keys, strict=True)}
    digest = site.document()["drafter"]["files"]["model.safetensors"]
    import hashlib

    note = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:40]
    os.makedirs(notes, exist_ok=True)
    with open(os.path.join(notes, note), "w", encoding="utf-8") as file:
        json.dump({"identity": identity, "sha256": digest}, file)
    assert ("LOCK_FILES", "refuse") not in site.drift(site.launch(copied)), "the note is believed"
    assert ("LOCK_FILES", "refuse") in site.drift(site.launch(copied), "--verify")


@pytest.mark.parametrize("stranger", ["model-00002.safetensors", "pytorch_model.bin", "generation_config.json"])
def test_a_file_more_that_an_engine_reads_is_drift(site, flags, stranger):
    copy, copied = site.copy_of(flags)
    with open(os.path.join(copy, stranger), "wb") as file:
        file.write(b"{}")
    document = site.check(site.launch(copied))
    found = [one for one in document["findings"] if one["code"] == "LOCK_FILES"]
    assert [(one["severity"], one["expected"]) for one in found] == [("refuse", "no file of that name")]
    assert found[0]["source"] == f"{copy}: {stranger}"


def test_a_file_that_no_engine_reads_is_none_of_its_business(site, flags):
    copy, copied = site.copy_of(flags)
    for name in ("NOTES.md", ".gitattributes"):
        with open(os.path.join(copy, name), "w", encoding="utf-8") as file:
            file.write("x")
    os.mkdir(os.path.join(copy, ".cache"))
    assert site.drift(site.launch(copied)) == []


def test_a_directory_that_is_not_here_is_unknown(site, flags):
    gone = [flag if not flag.startswith("/") else "/nowhere/drafter" for flag in flags]
    done = site.guard(site.launch(gone))
    assert done.returncode == 5, done.stderr
    assert "LOCK_FILES" in done.stderr
    assert not site.bench.started


def test_the_drafter_argument_does_not_stand_for_what_the_launch_loads(site, flags):
    """Other weights of the same shape: headers and configs agree, so that only the lock tells them apart."""
    good = flags[flags.index("--speculative-draft-model-path") + 1]
    copy, copied = site.copy_of(flags)
    path = os.path.join(copy, "model.safetensors")
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    assert ("LOCK_FILES", "refuse") in site.drift(site.launch(copied), good)


def test_in_a_container_the_drafter_argument_stands_for_its_path(site, flags):
    good = flags[flags.index("--speculative-draft-model-path") + 1]
    inside = ["/mnt/drafter" if flag == good else flag for flag in flags]
    engine = ["docker", "run", "registry.example/inference:7", "python", "-m", "sglang.launch_server"]
    launch = [*engine, "--model-path", site.target, *inside]
    assert ("LOCK_FILES", "unknown") in site.drift(launch, "--engine", f"sglang=={RELEASE}")
    assert "LOCK_FILES" not in [code for code, _ in site.drift(launch, good, "--engine", f"sglang=={RELEASE}")]


def test_another_release_is_drift(site, flags):
    document = site.check(site.launch(flags), "--engine", "sglang==0.5.11")
    found = next(one for one in document["findings"] if one["code"] == "LOCK_ENGINE")
    assert found["severity"] == "refuse"
    assert found["expected"] == "sglang 0.5.12.post1 (as published)"
    assert found["actual"] == "sglang 0.5.11 (as published)"


def test_a_patched_engine_is_drift_though_its_metadata_says_the_same(site, flags):
    patch_engine(site)
    assert site.drift(site.launch(flags)) == [("LOCK_ENGINE", "refuse")]
    assert site.guard(site.launch(flags)).returncode == 3
    assert not site.bench.started


def patch_engine(site):
    with open(os.path.join(site.bench.package, "srt", "stand_in.py"), "a", encoding="utf-8") as file:
        file.write("# patched\n")
    profile = load_profile("sglang", RELEASE)
    site.know(msgspec.structs.replace(profile, sources=profile.sources | {"stand_in.py": "0" * 16}))


def test_a_patched_engine_may_be_what_is_locked(site):
    patch_engine(site)
    assert site.locked()["engine"]["known_by"] == "files"
    flags = site.flags()
    assert site.guard(site.launch(flags)).returncode == 0
    profile = load_profile("sglang", RELEASE)
    site.know(msgspec.structs.replace(profile, sources=profile.sources | {"stand_in.py": "1" * 16}))
    assert site.drift(site.launch(flags)) == [("LOCK_ENGINE", "refuse")]


def test_an_engine_that_cannot_be_told_is_unknown(site, flags):
    launch = site.launch(flags)
    launch[0] = "/nowhere/bin/python"
    done = site.guard(launch)
    assert done.returncode == 5, done.stderr
    assert "LOCK_ENGINE" in done.stderr
    assert not site.bench.started


def test_a_file_that_only_this_machine_added_does_not_make_another_engine(site, flags):
    """A newer drafters may derive a release's profile from more files: the release is the same."""

    def older(lock):
        return msgspec.structs.replace(lock, engine=msgspec.structs.replace(lock.engine, digest="sha256:" + "0" * 64))

    rewritten(site, older)
    assert site.drift(site.launch(flags)) == []


@pytest.mark.parametrize("change", [{"num_hidden_layers": 62}, {"eos_token_id": 7}])
def test_a_changed_target_is_drift_whether_the_key_matters_or_not(site, flags, change):
    change_json(os.path.join(site.target, "config.json"), **change)
    document = site.check(site.launch(flags))
    found = next(one for one in document["findings"] if one["code"] == "LOCK_TARGET")
    assert found["severity"] == "refuse"
    assert "in what it differs is not known" in found["message"]
    codes = {one["code"] for one in document["findings"]}
    assert ("num_hidden_layers" in change) == bool(codes - {"LOCK_TARGET"}), "the rules find what matters besides"


def test_a_target_written_otherwise_is_the_same(site, flags):
    path = os.path.join(site.target, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(reversed(config.items())), file, indent=7)
    assert site.drift(site.launch(flags)) == []


def test_a_target_that_is_not_here_is_unknown_and_an_option_may_name_it(site, flags):
    launch = site.launch(flags, target="some/model")
    assert ("LOCK_TARGET", "unknown") in site.drift(launch)
    assert not [code for code, _ in site.drift(launch, "--target", site.target) if code == "LOCK_TARGET"]


def test_a_lock_without_a_target_says_so_and_holds_none(site):
    done = site.run("lock", "tiny@1.0", "--engine", site.bench.package)
    assert done.returncode == 0, done.stderr
    assert "is not locked: give --target" in done.stderr
    assert ("LOCK_TARGET", "note") in site.drift(site.launch(site.flags()))


@pytest.mark.parametrize(
    ("change", "expected", "actual"),
    [
        (
            lambda flags: [*flags, "--speculative-num-steps", "5"],
            "--speculative-num-steps 3",
            "--speculative-num-steps 5",
        ),
        (
            lambda flags: [*flags, "--speculative-accept-threshold-single", "0.5"],
            "--speculative-accept-threshold-single is not given (then 1.0)",
            "--speculative-accept-threshold-single 0.5",
        ),
        (
            lambda flags: [*flags, "--json-model-override-args", '{"eagle_config": {"use_aux_hidden_state": true}}'],
            None,
            '--json-model-override-args {"eagle_config":{"use_aux_hidden_state":true}}',
        ),
        (
            lambda flags: [flag if flag != "4" else "8" for flag in flags],
            "--speculative-num-draft-tokens 4",
            "--speculative-num-draft-tokens 8",
        ),
    ],
)
def test_an_option_in_effect_that_differs_is_drift(site, flags, change, expected, actual):
    document = site.check(site.launch(change(flags)))
    found = [one for one in document["findings"] if one["code"] == "LOCK_OPTION"]
    assert [one["actual"] for one in found] == [actual]
    if expected:
        assert found[0]["expected"] == expected
    assert found[0]["severity"] == "refuse"
    assert "drafters resolve --locked" in found[0]["remedy"]


def test_the_same_options_spelled_and_ordered_otherwise_are_the_same(site, flags):
    pairs = [(flags[at], flags[at + 1]) for at in range(0, len(flags), 2)]
    shuffled = [f"{name}={value}" for name, value in reversed(pairs)]
    shuffled = [text.replace("--speculative-num-steps", "--speculative-num-step") for text in shuffled]
    assert site.drift(site.launch(shuffled, "--speculative-num-steps", "9")) == []


def test_a_launch_that_lost_its_flags_is_not_started(site, flags):
    """`flags=$(...)` that failed leaves an empty variable: the engine would start, and not speculate."""
    done = site.guard(site.launch([]))
    assert done.returncode == 3, done.stderr
    assert "--speculative-algorithm is not given" in done.stderr
    assert not site.bench.started


def test_locked_options_must_be_there_and_others_are_judged(site):
    site.locked(launch=["--page-size", "1", "--served-model-name", "m"])
    flags = site.flags()
    assert site.drift(site.launch(flags, "--page-size", "1", "--served-model-name", "m", "--log-level", "debug")) == []
    assert site.drift(site.launch(flags, "--page-size", "1")) == [("LOCK_OPTION", "refuse")]
    done = site.guard(site.launch(flags, "--page-size", "1", "--served-model-name", "m", "--no-such-option"))
    assert (done.returncode, "ARGUMENT_REFUSED" in done.stderr) == (3, True), done.stderr


def test_several_drifts_are_all_told(site, flags):
    copy, copied = site.copy_of(flags)
    os.remove(os.path.join(copy, "config.json"))
    with open(os.path.join(copy, "pytorch_model.bin"), "wb"):
        pass
    patch_engine(site)
    change_json(os.path.join(site.target, "config.json"), eos_token_id=7)
    launch = site.launch([*copied, "--speculative-num-steps", "5"])
    found = site.drift(launch)
    assert [code for code, _ in found] == [
        "LOCK_ENGINE", "LOCK_FILES", "LOCK_FILES", "LOCK_OPTION", "LOCK_TARGET", "LOCK_VERDICT",
    ]  # fmt: skip
    done = site.guard(launch)
    assert done.returncode == 3
    for code, _ in found:
        assert f"refuse {code}" in done.stderr or f"unknown {code}" in done.stderr
    for one in site.check(launch)["findings"]:
        if one["code"].startswith("LOCK_"):
            assert one["expected"] and one["actual"] and one["remedy"]  # noqa: PT018


def test_a_warning_that_was_not_locked_is_drift(site, flags):
    """The image's name is a guess at the engine, and the gate warns of that; the lock knew of no warning."""
    assert site.document()["verdict"] == {"decision": "allow", "findings": []}
    engine = ["docker", "run", f"lmsysorg/sglang:v{RELEASE}", "python", "-m", "sglang.launch_server"]
    launch = [*engine, "--model-path", site.target, *flags]
    document = site.check(launch)
    warned = [one["code"] for one in document["findings"] if one["severity"] == "warn"]
    assert len(warned) == 1
    found = next(one for one in document["findings"] if one["code"] == "LOCK_VERDICT")
    assert (found["severity"], warned[0] in found["message"]) == ("refuse", True)
    assert site.drift(launch, "--engine", f"sglang=={RELEASE}") == []


def test_a_lock_of_another_version_warns_and_is_judged_again(site, flags):
    rewritten(site, lambda lock: msgspec.structs.replace(lock, tool="drafter-registry 0.0.9"))
    assert site.drift(site.launch(flags)) == [("LOCK_TOOL", "warn")]
    assert site.guard(site.launch(flags)).returncode == 0
    assert site.bench.started


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"3"', '"5"', 7),
        ('"decision": "allow"', '"decision": "warn"', 7),
        ('"schema": "drafters.lock.v1"', '"schema": "drafters.lock.v2"', 7),
        ('"options": []', '"options": [], "extra": 1', 7),
        ('"name": "tiny"', '"name": 7', 7),
        ("{", "", 7),
    ],
)
def test_a_lock_that_was_changed_by_hand_starts_nothing(site, flags, old, new, code):
    with open(site.file, encoding="utf-8") as file:
        text = file.read()
    assert old in text
    with open(site.file, "w", encoding="utf-8") as file:
        file.write(text.replace(old, new, 1))
    done = site.guard(site.launch(flags))
    assert done.returncode == code, done.stderr
    assert "drafters.lock" in done.stderr
    assert not site.bench.started
    assert site.run("resolve", "--locked").returncode == code
    assert site.run("lock", "--check").returncode == code


def test_a_reformatted_lock_is_the_same_lock(site, flags):
    document = site.document()
    with open(site.file, "w", encoding="utf-8") as file:
        json.dump(document, file)
    assert site.drift(site.launch(flags)) == []


@pytest.mark.parametrize("named", ["--locked", "--locked=other.lock"])
def test_without_a_lock_file_nothing_is_started(site, flags, named):
    os.remove(site.file)
    for launch in (site.launch(flags), site.bench.plain()):
        done = site.run("guard", named, "--", *launch)
        assert (done.returncode, "there is no lock file" in done.stderr) == (2, True)
        assert not site.bench.started


def test_a_lock_of_another_place_is_named_with_an_equals_sign(site, flags):
    os.rename(site.file, os.path.join(site.shop.folder, "other.lock"))
    launch = site.launch(flags)
    assert site.run("guard", "--locked=other.lock", "--", *launch).returncode == 0
    done = site.run("guard", "--locked", "other.lock", "--", *launch)
    assert done.returncode == 2
    os.rename(os.path.join(site.shop.folder, "other.lock"), site.file)
    done = site.run("guard", "--locked", "drafters.lock", "--", *launch)
    assert (done.returncode, "--locked=drafters.lock" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("more", [("--output-ids", "2,30,58"), ("--boundaries", "3"), ("--manifest", "m.json")])
def test_a_lock_states_the_contract_itself(site, flags, more):
    done = site.guard(site.launch(flags), *more)
    assert (done.returncode, "state the same thing" in done.stderr) == (2, True)


def test_a_reference_beside_a_lock_asks_no_registry(site, flags):
    done = site.guard(site.launch(flags), "tiny@prod")
    assert (done.returncode, "asks no registry" in done.stderr) == (2, True)
    assert not site.bench.started


def test_verify_without_a_lock_is_a_usage_error(site, flags):
    assert site.run("check", "--verify", "--", *site.launch(flags)).returncode == 2


def test_modes_are_as_ever(site, flags):
    launch = site.launch([*flags, "--speculative-num-steps", "5"])
    assert site.guard(launch, "--mode", "warn", variables=site.bench.variables("exit 9")).returncode == 9
    os.remove(site.file)
    done = site.guard(launch, "--mode", "off", variables=site.bench.variables("exit 8"))
    assert done.returncode == 8


def test_a_command_that_is_no_launch_is_unknown(site, flags):
    done = site.guard(["./launch.sh"])
    assert (done.returncode, "LAUNCH_UNREADABLE" in done.stderr) == (5, True)


def test_a_changed_tokenizer_is_drift_where_the_manifest_asks_for_one(site):
    path = os.path.join(site.target, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"model": 1}')
    site.publish("3.0", "third", alias="")
    lock = site.locked(reference="tiny@3.0")
    assert lock["target"]["tokenizer_sha256"]
    flags = site.flags()
    assert site.drift(site.launch(flags)) == []
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"model": 2}')
    assert ("LOCK_TARGET", "refuse") in site.drift(site.launch(flags))
    os.remove(path)
    assert ("LOCK_TARGET", "refuse") in site.drift(site.launch(flags))
