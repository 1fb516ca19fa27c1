"""The registry's commands as people and scripts use them: without a server, and against a real one."""

from __future__ import annotations

import json
import os
import pty
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from functools import partial
from hashlib import sha256
from urllib.request import urlopen

import pytest

from drafter_cli import main
from drafter_contracts.checkpoint.skeleton import write_skeleton

WIDTH, VOCABULARY = 64, 256
CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "draft_vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
TENSORS = {
    "fc.weight": ("BF16", (WIDTH, 3 * WIDTH)),
    "midlayer.hidden_norm.weight": ("BF16", (WIDTH,)),
    "midlayer.input_layernorm.weight": ("BF16", (WIDTH,)),
    "midlayer.self_attn.q_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.k_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.v_proj.weight": ("BF16", (64, 2 * WIDTH)),
    "midlayer.self_attn.o_proj.weight": ("BF16", (WIDTH, 64)),
    "midlayer.post_attention_layernorm.weight": ("BF16", (WIDTH,)),
    "norm.weight": ("BF16", (WIDTH,)),
    "lm_head.weight": ("BF16", (VOCABULARY, WIDTH)),
}
TARGET = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": 61,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
}
#: Version to the output ids that it was trained on.
VERSIONS = {"1.0.0": "2,30,58", "1.1.0": "2,30,58", "2.0.0": "-1,2,30"}
NAME = "kimi-eagle3"


@pytest.fixture(scope="module")
def published(command, tmp_path_factory):
    """A registry's directory with three versions and an alias, published by the command itself."""
    folder = tmp_path_factory.mktemp("published")
    drafter, target, data = (str(folder / name) for name in ("drafter", "target", "data"))
    write_skeleton(drafter, CONFIG, TENSORS)
    write_skeleton(target, TARGET, {})
    variables = os.environ | {"DRAFTERS_DATA": data, "HOME": str(folder), "DRAFTERS_CACHE": str(folder / "cache")}
    for version, ids in VERSIONS.items():
        said = ("--name", NAME, "--version", version, "--target", target, "--target-name", "org/kimi")
        argv = [command, "publish", drafter, *said, "--output-ids", ids, "--steps", version[0]]
        subprocess.run(argv, env=variables, check=True, capture_output=True, timeout=60)
    alias = [command, "alias", "set", f"{NAME}@prod", "1.0.0", "--why", "first"]
    subprocess.run(alias, env=variables, check=True, capture_output=True, timeout=60)
    return data


@pytest.fixture
def data(published, tmp_path):
    """A copy of it, this test's own."""
    return shutil.copytree(published, tmp_path / "data")


def started(command, *arguments, variables):
    """The command as a process of its own, as the fixture `drafters` of one test starts it."""
    environment = {name: value for name, value in (os.environ | variables).items() if value is not None}
    argv = [command, *map(str, arguments)]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def local(drafters, data, tmp_path):
    """Runs a command on it without a server."""
    home = {"HOME": str(tmp_path), "DRAFTERS_DATA": str(data), "DRAFTERS_URL": None, "DRAFTERS_TOKEN": None}

    def run(*arguments, variables=None, **keywords):
        return drafters(*arguments, variables=home | (variables or {}), **keywords)

    return run


@pytest.fixture
def inside(published, tmp_path, monkeypatch, capsys):
    """Runs a command in this process, on what was published: for lines that change nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DRAFTERS_DATA", published)
    for name in ("DRAFTERS_URL", "DRAFTERS_TOKEN", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments):
        code = main.main(list(arguments))
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@contextmanager
def serving(command, drafters, data, folder):
    """A server of that registry; yields what runs a command through it."""
    token = folder / "token"
    argv = [command, "serve", "--port", "0", "--json", "--data", str(data), "--admin-token-file", str(token)]
    environment = os.environ | {"HOME": str(folder)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            url = json.loads(server.stdout.readline())["url"]
            remote = {"HOME": str(folder), "DRAFTERS_URL": url, "DRAFTERS_TOKEN": token.read_text().strip()}
            remote["DRAFTERS_DATA"] = str(folder / "nobody")

            def run(*arguments, more=None):
                return drafters(*arguments, variables=remote | (more or {}))

            run.url = url
            yield run
            assert not (folder / "nobody").exists(), "a command that has a server makes no registry of its own"
        finally:
            server.terminate()


@pytest.fixture(scope="module", params=["embedded", "server"])
def look(request, command, published, tmp_path_factory):
    """Runs a command that changes nothing, in this process or through a server."""
    folder = tmp_path_factory.mktemp("look")
    home = {"HOME": str(folder), "DRAFTERS_DATA": published, "DRAFTERS_URL": None, "DRAFTERS_TOKEN": None}
    if request.param == "embedded":
        yield lambda *arguments: started(command, *arguments, variables=home)
        return
    copy = shutil.copytree(published, folder / "data")
    with serving(command, partial(started, command), copy, folder) as run:
        yield run


def good(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def read(done):
    return json.loads(good(done).stdout)


def versions(done):
    return [item["version"] for item in read(done)["items"]]


def test_a_list_for_people(look):
    done = good(look("list"))
    heading, *rows = done.stdout.splitlines()
    assert heading.split()[:2] == ["DRAFTER", "ALIASES"]
    assert [row.split()[0] for row in rows] == [f"{NAME}@{version}" for version in reversed(VERSIONS)]
    assert "prod" in rows[-1]
    assert "3,31,59" in rows[-1]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((), ["2.0.0", "1.1.0", "1.0.0"]),
        (("--name", NAME, "--output-ids", "58"), None),
        (("--output-id", "58"), ["1.1.0", "1.0.0"]),
        (("--output-id", "-1,2"), ["2.0.0"]),
        (("--boundary", "0"), ["2.0.0"]),
        (("--boundary", "3", "--output-id", "58"), ["1.1.0", "1.0.0"]),
        (("--alias", "prod"), ["1.0.0"]),
        (
            ("--target", "org/kimi", "--method", "eagle3", "--architecture", "LlamaForCausalLM"),
            ["2.0.0", "1.1.0", "1.0.0"],
        ),
        (("--name", "kimi-*", "--state", "all"), ["2.0.0", "1.1.0", "1.0.0"]),
        (("--state", "yanked"), []),
        (("--name", "other"), []),
    ],
)
def test_filters(inside, filters, expected):
    done = inside("list", *filters, "--json")
    if expected is None:
        assert done.returncode == 2
        assert "did you mean --output-id" in json.loads(done.stdout)["error"]["hint"]
    else:
        assert versions(done) == expected


def test_versions_of_one_contract_are_found_by_its_fingerprint(look):
    first = read(look("show", f"{NAME}@1.0.0", "--json"))["summary"]["fingerprint"]
    assert versions(look("list", "--fingerprint", first, "--json")) == ["1.1.0", "1.0.0"]


def test_pages(look):
    page = read(look("list", "--limit", "2", "--json"))
    assert [item["version"] for item in page["items"]] == ["2.0.0", "1.1.0"]
    rest = read(look("list", "--limit", "2", "--cursor", page["next"], "--json"))
    assert ([item["version"] for item in rest["items"]], rest["next"]) == (["1.0.0"], "")
    assert versions(look("list", "--limit", "1", "--all", "--json")) == ["2.0.0", "1.1.0", "1.0.0"]
    people = good(look("list", "--limit", "2"))
    assert f"--cursor {page['next']}" in people.stderr
    assert page["next"] not in people.stdout


def test_an_empty_list_says_what_to_do(local, tmp_path):
    done = local("list", variables={"DRAFTERS_DATA": str(tmp_path / "new")})
    assert (done.returncode, done.stdout) == (6, "")
    assert "drafters publish" in done.stderr
    assert "leave out a filter" in good(local("list", "--name", "other")).stderr
    assert read(local("list", "--name", "other", "--json")) == {"items": [], "next": ""}


@pytest.mark.parametrize(
    "arguments", [("--limit", "0"), ("--limit", "501"), ("--limit", "x"), ("--boundary", "-1"), ("--output-id", "-2")]
)
def test_numbers_that_cannot_be(inside, arguments):
    done = inside("list", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert arguments[0] in done.stderr


def test_a_version_for_people(look):
    shown = good(look("show", f"{NAME}@prod")).stdout
    for expected in (
        f"{NAME}@1.0.0  live",
        "boundaries    3, 31, 59",
        "output ids    2, 30, 58",
        "192 wide, 3 taps in this order",
        "columns 64 to 127: boundary 31 (output of layer 30)",
        "known by      declared",
        "model         org/kimi",
        "aliases       prod",
        "with drafters/",
        "recommended   1 steps",
        "model.safetensors",
    ):
        assert expected in shown
    assert "-1 is the embedding" in good(look("show", f"{NAME}@2.0.0")).stdout


def test_the_manifest_is_printed_byte_for_byte(look):
    digest = read(look("show", f"{NAME}@1.0.0", "--json"))["summary"]["digest"]
    data = good(look("show", f"{NAME}@{digest}", "--manifest")).stdout.encode()
    assert "sha256:" + sha256(data).hexdigest() == digest


def test_references_that_lead_nowhere(look):
    for reference, code in ((f"{NAME}@9.9.9", "NOT_FOUND"), (NAME, "INVALID"), ("Kimi@1", "INVALID")):
        done = look("show", reference, "--json")
        assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (2, code)
    assert look("show", NAME).stderr.splitlines()[1].strip().startswith(f"write {NAME}@VERSION")


def test_differences_in_words(look):
    other = look("diff", NAME, "1.0.0", "2.0.0", "--exit-code")
    assert other.returncode == 3
    assert "another contract" in other.stdout
    assert "layout.boundaries" in other.stdout
    assert "captures boundary 0" in other.stdout
    same = good(look("diff", f"{NAME}@prod", f"{NAME}@1.1.0", "--exit-code"))
    assert "the same contract" in same.stdout
    assert read(look("diff", NAME, "1.0.0", "2.0.0", "--json"))["same_contract"] is False


def test_two_drafters_are_not_compared(inside):
    done = inside("diff", f"{NAME}@1.0.0", "other@1.0.0")
    assert (done.returncode, "two drafters" in done.stderr) == (2, True)


def test_an_alias_moves_and_its_moves_are_kept(local):
    assert good(local("alias", "set", f"{NAME}@prod", "1.1.0", "--expect", "1.0.0", "--why", "canary")).stdout == ""
    moved = read(local("alias", "set", f"{NAME}@prod", "2.0.0", "--expect-revision", "2", "--json"))
    assert (moved["version"], moved["revision"]) == ("2.0.0", 3)
    good(local("alias", "rm", f"{NAME}@prod", "--expect", "2.0.0", "--why", "gone"))
    moves = read(local("alias", "history", f"{NAME}@prod", "--json"))["items"]
    assert [(move.get("from_version", ""), move.get("to_version", "")) for move in moves] == [
        ("2.0.0", ""),
        ("1.1.0", "2.0.0"),
        ("1.0.0", "1.1.0"),
        ("", "1.0.0"),
    ]
    assert [move.get("why", "") for move in moves] == ["gone", "", "canary", "first"]
    table = good(local("alias", "history", f"{NAME}@prod")).stdout
    assert "(removed)" in table
    assert "(made)" in table
    told = {line.split()[0]: line for line in table.splitlines()[1:]}
    assert "0,3,31" in told["3"]
    assert "3,31,59" in told["2"]
    assert told["1"].split()[-2] == told["2"].split()[-2] != told["3"].split()[-1]  # the contract


def test_a_move_to_another_contract_is_warned_of(local):
    assert "warning" not in good(local("alias", "set", f"{NAME}@prod", "1.1.0")).stderr
    done = good(local("alias", "set", f"{NAME}@prod", "2.0.0"))
    assert "2.0.0 has another contract than 1.1.0: layout.boundaries" in done.stderr
    assert f"drafters diff {NAME} 1.1.0 2.0.0" in done.stderr
    assert "warning" not in good(local("alias", "set", f"{NAME}@new", "2.0.0")).stderr


@pytest.mark.parametrize(
    ("belief", "version"),
    [(("--expect", "2.0.0"), "1.1.0"), (("--expect", "none"), "1.1.0"), (("--expect-revision", "7"), "1.1.0")],
)
def test_an_alias_that_is_elsewhere_does_not_move(local, belief, version):
    done = local("alias", "set", f"{NAME}@prod", version, *belief, "--json")
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (8, "PRECONDITION_FAILED")
    assert versions(local("list", "--alias", "prod", "--json")) == ["1.0.0"]


def test_an_alias_that_is_not_there_yet(local):
    done = local("alias", "set", f"{NAME}@new", "1.1.0", "--expect", "1.0.0")
    assert (done.returncode, "there is no such alias" in done.stderr) == (8, True)
    good(local("alias", "set", f"{NAME}@new", "1.1.0", "--expect", "none"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", NAME, "1.0.0"),
        ("set", f"{NAME}@1.0.0", "1.0.0"),
        ("set", f"{NAME}@prod", "latest"),
        ("set", f"{NAME}@prod", "1.0.0", "--expect", "1.0.0", "--expect-revision", "1"),
        ("set", f"{NAME}@prod", "1.0.0", "--expect-revision", "x"),
        ("set", f"{NAME}@prod", "1.0.0", "--expect", "latest"),
    ],
)
def test_alias_lines_that_cannot_be(inside, arguments):
    assert inside("alias", *arguments).returncode == 2


def test_a_yanked_version_resolves_by_its_exact_name_and_says_why(local):
    done = good(local("yank", f"{NAME}@1.0.0", "--why", "wrong labels"))
    assert done.stdout == ""
    assert f"{NAME}@prod points to it and resolves no more" in done.stderr
    assert "yanked" in good(local("alias", "history", f"{NAME}@prod")).stdout
    assert "warning" not in good(local("yank", f"{NAME}@1.1.0", "--why", "nobody uses it")).stderr
    good(local("yank", f"{NAME}@1.1.0", "--undo"))
    assert versions(local("list", "--json")) == ["2.0.0", "1.1.0"]
    shown = good(local("show", f"{NAME}@1.0.0")).stdout
    assert "yanked" in shown.splitlines()[0]
    assert "wrong labels" in shown
    assert local("show", f"{NAME}@prod").returncode == 2
    assert read(local("yank", f"{NAME}@1.0.0", "--undo", "--json"))["state"] == "live"
    good(local("show", f"{NAME}@prod"))


def test_a_deleted_version_is_gone_for_ever(local):
    good(local("delete", f"{NAME}@2.0.0", "--why", "holds customer data", "--yes"))
    assert versions(local("list", "--json")) == ["1.1.0", "1.0.0"]
    assert versions(local("list", "--state", "deleted", "--json")) == ["2.0.0"]
    assert local("show", f"{NAME}@2.0.0").returncode == 2


def test_a_version_that_an_alias_points_to_is_not_deleted(inside):
    done = inside("delete", f"{NAME}@1.0.0", "--why", "x", "--yes")
    assert (done.returncode, "prod" in done.stderr) == (8, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("yank", f"{NAME}@1.0.0"), "needs --why"),
        (("yank", f"{NAME}@prod", "--why", "x"), "names no version exactly"),
        (("delete", f"{NAME}@1.0.0", "--why", "x"), "cannot be undone"),
        (("delete", f"{NAME}@1.0.0", "--yes"), "needs --why"),
        (("delete", f"{NAME}@prod", "--why", "x", "--yes"), "names no version exactly"),
    ],
)
def test_what_is_not_taken_away_by_mistake(inside, arguments, message):
    done = inside(*arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert len(versions(inside("list", "--json"))) == 3


@pytest.mark.parametrize(("typed", "code", "left"), [(f"{NAME}@2.0.0", 0, 2), ("yes", 2, 3), ("", 2, 3)])
def test_on_a_terminal_the_name_must_be_typed(command, data, local, tmp_path, typed, code, left):
    ours, theirs = pty.openpty()
    argv = [command, "delete", f"{NAME}@2.0.0", "--why", "x"]
    environment = os.environ | {"DRAFTERS_DATA": str(data), "HOME": str(tmp_path)}
    with subprocess.Popen(argv, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        os.write(ours, f"{typed}\n".encode())
        assert process.wait(timeout=60) == code
        os.close(ours)
    assert len(versions(local("list", "--json"))) == left


def test_a_token_is_printed_once_and_alone(local):
    made = good(local("token", "create", "trainer", "--scope", "read", "publish:kimi-*", "--expires", "30d"))
    assert len(made.stdout.split()) == 1
    token = made.stdout.strip()
    assert token not in made.stderr
    assert "publish:kimi-*" in made.stderr
    listed = good(local("token", "list"))
    assert "trainer" in listed.stdout
    assert token not in listed.stdout
    (record,) = [one for one in read(local("token", "list", "--json"))["items"] if one["name"] == "trainer"]
    assert record["expires_at"] > record["created_at"]
    good(local("token", "revoke", record["id"]))
    assert "revoked" in next(line for line in good(local("token", "list")).stdout.splitlines() if "trainer" in line)
    assert token not in good(local("audit", "--all", "--json")).stdout


def test_a_token_without_an_end(local):
    record = read(local("token", "create", "launcher", "--scope", "read", "--expires", "never", "--json"))["record"]
    assert record["expires_at"] == ""


def test_servers_go_on_after_the_next_releases_upgrade_and_none_of_this_one_starts(
    command, drafters, local, data, tmp_path
):
    with serving(command, drafters, data, tmp_path) as run:
        with closing(sqlite3.connect(data / "registry.db")) as database, database:
            database.execute("UPDATE alembic_version SET version_num = 'drafters_9999'")
        with urlopen(run.url + "/readyz", timeout=30) as answer:  # noqa: S310 - the server started above
            assert json.load(answer)["ready"] is True
        assert versions(run("list", "--json")) == ["2.0.0", "1.1.0", "1.0.0"]
    for arguments in (("db", "check"), ("db", "upgrade"), ("serve", "--port", "0"), ("list",)):
        done = local(*arguments)
        assert (done.returncode, "newer than this release's" in done.stderr) == (6, True), done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "t"),
        ("create", "t", "--scope", "write"),
        ("create", "t", "--scope", "read", "--expires", "soon"),
        ("create", "t", "--scope", "read", "--expires", "12h"),
        ("create", "t", "--scope", "read", "--expires", "0d"),
        ("revoke", "nothing"),
    ],
)
def test_tokens_that_cannot_be(inside, arguments):
    done = inside("token", *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr


def test_the_audit_log(local):
    good(local("yank", f"{NAME}@1.0.0", "--why", "wrong labels"))
    newest = read(local("audit", "--limit", "1", "--json"))
    assert newest["items"][0]["subject"] == f"{NAME}@1.0.0"
    assert newest["items"][0]["detail"]["why"] == "wrong labels"
    assert newest["next"]
    everything = read(local("audit", "--limit", "2", "--all", "--json"))
    assert len(everything["items"]) > len(VERSIONS)
    assert everything["next"] == ""
    subjects = {item["subject"] for item in read(local("audit", "--subject", f"{NAME}@1.0.0", "--json"))["items"]}
    assert subjects == {f"{NAME}@1.0.0"}
    assert "wrong labels" in good(local("audit")).stdout


def test_every_change_against_a_server(command, drafters, data, tmp_path):
    with serving(command, drafters, data, tmp_path) as run:
        assert read(run("alias", "set", f"{NAME}@prod", "1.1.0", "--expect", "1.0.0", "--json"))["revision"] == 2
        moved = run("alias", "set", f"{NAME}@prod", "2.0.0", "--expect", "1.0.0")
        assert (moved.returncode, "1.1.0" in moved.stderr) == (8, True)
        assert len(read(run("alias", "history", f"{NAME}@prod", "--json"))["items"]) == 2
        good(run("alias", "rm", f"{NAME}@prod", "--expect-revision", "2"))
        good(run("yank", f"{NAME}@1.0.0", "--why", "wrong labels"))
        assert "wrong labels" in good(run("show", f"{NAME}@1.0.0")).stdout
        good(run("delete", f"{NAME}@1.0.0", "--why", "gone", "--yes"))
        made = read(run("token", "create", "reader", "--scope", "read", "--json"))
        other = {"DRAFTERS_TOKEN": made["token"]}
        assert good(run("list", more=other)).stdout
        assert run("delete", f"{NAME}@2.0.0", "--why", "x", "--yes", more=other).returncode == 2, (
            "as if it were missing"
        )
        good(run("token", "revoke", made["record"]["id"]))
        refused = run("list", more=other)
        assert (refused.returncode, made["token"] in refused.stderr) == (4, False)
        actions = [entry["action"] for entry in read(run("audit", "--limit", "4", "--json"))["items"]]
        assert actions == ["token.revoke", "token.create", "version.delete", "version.yank"]


def blobs_of(data):
    return [os.path.join(folder, name) for folder, _, names in os.walk(data / "blobs") for name in names]


def test_gc_removes_what_no_version_names_once_it_is_old(local, data):
    good(local("alias", "rm", f"{NAME}@prod"))
    for version in VERSIONS:
        good(local("delete", f"{NAME}@{version}", "--why", "x", "--yes"))
    assert read(local("gc", "--json")).get("blobs_removed", []) == []
    dry = read(local("gc", "--dry-run", "--grace", "0", "--json"))
    assert len(dry["blobs_removed"]) == 2
    good(local("fsck"))
    wet = good(local("gc", "--grace", "0"))
    assert "removed 2 blobs" in wet.stdout
    assert "may have to start again" in wet.stderr
    assert "removed 0 blobs" in good(local("gc", "--grace", "0")).stdout


def test_gc_keeps_what_versions_name(local):
    good(local("delete", f"{NAME}@2.0.0", "--why", "x", "--yes"))
    report = read(local("gc", "--grace", "0", "--json"))
    assert (report.get("blobs_removed", []), report["blobs_live"]) == ([], 2)
    assert read(local("fsck", "--json"))["ok"] is True


def test_fsck_finds_a_flipped_bit(local, data):
    assert "everything agrees" in good(local("fsck")).stdout
    path = max(blobs_of(data), key=os.path.getsize)
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        file.seek(5000)
        file.write(b"\x01")
    done = local("fsck", "--json")
    assert done.returncode == 7
    report = json.loads(done.stdout)
    assert report["ok"] is False
    assert all(problem["kind"] and problem["remedy"] for problem in report["problems"])
    table = local("fsck")
    assert (table.returncode, report["problems"][0]["kind"] in table.stdout) == (7, True)


def test_a_backup_becomes_a_registry_again(local, tmp_path):
    backup, restored = str(tmp_path / "backup"), str(tmp_path / "restored")
    assert read(local("backup", backup, "--json"))["backup"]["blobs"] == 2
    good(local("restore", backup, "--data", restored))
    there = {"DRAFTERS_DATA": restored}
    assert read(local("show", f"{NAME}@prod", "--json", variables=there)) == read(
        local("show", f"{NAME}@prod", "--json")
    )
    assert read(local("fsck", "--json", variables=there))["ok"] is True
    again = local("restore", backup, "--data", restored)
    assert (again.returncode, "not empty" in again.stderr) == (8, True)
    assert local("backup", backup).returncode == 8
    assert local("restore", str(tmp_path / "nothing"), "--data", str(tmp_path / "new")).returncode == 2


def test_the_schema_is_made_and_checked(local, tmp_path):
    new = {"DRAFTERS_DATA": str(tmp_path / "new")}
    missing = local("db", "check", variables=new)
    assert (missing.returncode, missing.stdout) == (6, "")
    assert not (tmp_path / "new").exists()
    assert len(read(local("db", "upgrade", "--json", variables=new))["run"]) >= 1
    assert read(local("db", "upgrade", "--json", variables=new))["run"] == []
    assert "this release's schema" in good(local("db", "check", variables=new)).stderr


@pytest.mark.parametrize(
    "words", [("gc",), ("fsck",), ("backup", "there"), ("restore", "there"), ("db", "upgrade"), ("db", "check")]
)
def test_a_command_on_files_does_not_guess_which_registry_is_meant(local, data, words, tmp_path):
    url = {"DRAFTERS_URL": "https://user:secret@registry.example"}
    done = local(*words, variables=url, cwd=tmp_path)
    assert done.returncode == 2
    assert "registry.example is a server (environment DRAFTERS_URL)" in done.stderr
    assert "--data DIR" in done.stderr
    assert "secret" not in done.stderr
    if words == ("fsck",):
        good(local(*words, "--data", data, variables=url))


@pytest.mark.parametrize("words", [("gc",), ("fsck",), ("backup", "there")])
def test_a_command_on_files_makes_no_registry(local, tmp_path, words):
    done = local(*words, variables={"DRAFTERS_DATA": str(tmp_path / "new")}, cwd=tmp_path)
    assert (done.returncode, "there is no registry" in done.stderr) == (6, True)
    assert not (tmp_path / "new").exists()


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


def test_tables_fit_the_terminal(command, data, tmp_path):
    """On a terminal columns leave and names are cut; in a pipe everything stays."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"DRAFTERS_DATA": str(data), "HOME": str(tmp_path), "COLUMNS": "60", "NO_COLOR": "1"}
    with subprocess.Popen([command, "list"], stdout=theirs, stdin=subprocess.DEVNULL, env=environment) as process:
        assert process.wait(timeout=60) == 0
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert all(len(line) <= 60 for line in shown.splitlines())
    assert NAME in shown


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize("arguments", [("list", "--json"), ("show", f"{NAME}@1.0.0", "--manifest")])
def test_output_that_cannot_be_written(command, data, tmp_path, arguments):
    environment = os.environ | {"DRAFTERS_DATA": str(data), "HOME": str(tmp_path), "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [command, *arguments], stdout=full, stderr=subprocess.PIPE, env=environment, timeout=60, check=False
        )
    assert (done.returncode, b"cannot be written" in done.stderr) == (2, True)
