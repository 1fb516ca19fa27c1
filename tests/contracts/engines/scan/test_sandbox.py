"""A release that attacks the scan: whatever it tries is contained, and reported as a scan that failed."""

from __future__ import annotations

import contextlib
import os
import sys
from types import SimpleNamespace

import pytest

from drafter_contracts.engines.scan import (
    assemble,
    buffers,
    drafters,
    graphs,
    inherited,
    launch,
    readings,
    sandbox,
    scan,
)
from drafter_contracts.engines.scan import targets as target_part
from drafter_contracts.engines.scan.sandbox import run_probe
from drafter_contracts.engines.scan.targets import derive
from drafter_contracts.engines.scan.tree import open_tree
from drafter_contracts.errors import ScanError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system-call filter is Linux's")

#: The usual way out of restricted builtins: any class whose functions come from a module that imported sys.
REACH = """
def _reach():
    for cls in ().__class__.__base__.__subclasses__():
        names = getattr(getattr(cls, "__init__", None), "__globals__", None)
        if names and "sys" in names:
            return names["sys"].modules
    raise RuntimeError("no way out")
"""


def release(tmp_path, body):
    """A release whose only model file is `body`."""
    models = tmp_path / "sglang" / "srt" / "models"
    models.mkdir(parents=True)
    (tmp_path / "sglang" / "version.py").write_text('__version__ = "9.9.9"\n')
    (models / "evil.py").write_text(body)
    return open_tree(str(tmp_path))


def attack(tmp_path, statement):
    """Run a release that reaches the real interpreter and executes `statement` with `modules` in hand."""
    body = (
        f"{REACH}\ndef _attack():\n    modules = _reach()\n    {statement}\n    return []\n\nEntryClass = _attack()\n"
    )
    return derive(release(tmp_path, body))


@pytest.mark.parametrize("name", ["open", "eval", "exec", "compile", "input", "breakpoint"])
def test_dangerous_builtins_do_not_exist(tmp_path, name):
    with pytest.raises(ScanError) as caught:
        derive(release(tmp_path, f"EntryClass = {name}('x')\n"))
    assert name in caught.value.actual


def test_modules_that_open_things_are_stand_ins(tmp_path):
    body = (
        "import os, socket, subprocess, pathlib, shutil, ctypes\n"
        "os.system('touch /tmp/never'); subprocess.run(['true']); pathlib.Path('/etc/passwd').read_text()\n"
        "EntryClass = [socket.socket(), ctypes.CDLL(None), shutil.rmtree('/')]\n"
    )
    captured, _ = derive(release(tmp_path, body))
    assert captured.targets == {}


@pytest.mark.parametrize(
    ("statement", "event"),
    [
        ("modules['io'].open('/etc/passwd')", "open"),
        ("modules['builtins'].open('written-by-the-release', 'w')", "open"),
        ("modules['os'].system('true')", "os.system"),
        ("modules['os'].fork()", "os.fork"),
        ("modules['os'].listdir('/')", "os.listdir"),
        ("modules['os'].kill(1, 9)", "os.kill"),
        ("modules['ctypes'].CDLL(None)", "ctypes.dlopen"),
    ],
)
def test_the_real_interpreter_is_watched(tmp_path, monkeypatch, statement, event):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScanError) as caught:
        attack(tmp_path, statement)
    assert caught.value.message == "the release tried something forbidden"
    assert caught.value.actual.startswith(event)
    assert sorted(os.listdir(tmp_path)) == ["sglang"]


@pytest.mark.parametrize(
    "statement",
    [
        "modules['os'].stat('/etc/passwd')",
        "modules['os'].getppid()",
        "modules['os'].pipe()",
        "modules['os'].dup(1)",
        "modules['time'].sleep(1)",
    ],
)
def test_system_calls_beyond_computing_kill_the_child(tmp_path, statement):
    with pytest.raises(ScanError) as caught:
        attack(tmp_path, statement)
    assert (caught.value.message, caught.value.actual) == ("the release made a forbidden system call", "SIGSYS")


def test_an_audit_hook_cannot_be_talked_out_of(tmp_path):
    with pytest.raises(ScanError, match="forbidden"):
        attack(tmp_path, "modules['sys'].addaudithook(print)")


def test_an_answer_that_is_not_ours_is_refused(tmp_path):
    forged = 'b\'{"result": {"architectures": {}, "failed": {}}, "files": []}\''
    with pytest.raises(ScanError, match="did not answer"):
        attack(tmp_path, f"modules['os'].write(1, {forged}); modules['os']._exit(0)")


def test_a_death_is_reported(tmp_path):
    with pytest.raises(ScanError) as caught:
        attack(tmp_path, "modules['os']._exit(3)")
    assert caught.value.actual == "exit status 3"


def test_flooding_the_output_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.limits, "scan_answer_max_bytes", 1 << 20)
    with pytest.raises(ScanError, match="more than an answer can be"):
        attack(tmp_path, "[modules['os'].write(1, b'x' * 65536) for _ in range(100000)]")


def test_an_endless_loop_is_stopped(tmp_path):
    tree = release(tmp_path, "def f():\n    while True:\n        pass\nEntryClass = f()\n")
    with pytest.raises(ScanError, match=r"ran for more than|took too long|too much time"):
        run_probe("census", tree.sources(), {}, seconds=2)


def test_a_memory_bomb_is_stopped(tmp_path):
    with pytest.raises(ScanError) as caught:
        derive(release(tmp_path, "EntryClass = [bytearray(1 << 36)]\n"))
    assert "MemoryError" in caught.value.actual


def test_leaving_the_interpreter_is_reported(tmp_path):
    with pytest.raises(ScanError) as caught:
        derive(release(tmp_path, "def f():\n    raise SystemExit(0)\nEntryClass = f()\n"))
    assert "SystemExit" in caught.value.actual


def test_without_a_filter_nothing_is_executed(tmp_path, monkeypatch):
    path, work = sandbox._BOOT.split("from drafter_contracts", 1)
    cleared = "from drafter_contracts.engines.scan import confine; confine._CALLS.clear(); from drafter_contracts"
    monkeypatch.setattr(sandbox, "_BOOT", path + cleared + work)
    tree = release(tmp_path, "class Model:\n    pass\nEntryClass = Model\n")
    with pytest.raises(ScanError, match="cannot lock a scan in"):
        run_probe("census", tree.sources(), {})
    allowed = run_probe("census", tree.sources(), {}, allow_unconfined=True)
    assert allowed["architectures"] == {"Model": "models/evil.py"}


def test_an_answer_repeats_exactly(tmp_path):
    tree = release(tmp_path, "class Model:\n    pass\nEntryClass = [Model, type('Other', (), {})]\n")
    assert run_probe("census", tree.sources(), {}) == run_probe("census", tree.sources(), {})


FORGE = """
def _forge():
    modules = _reach()
    frame = modules["sys"]._getframe()
    while "seal" not in frame.f_locals:
        frame = frame.f_back
    modules["os"].write(1, (frame.f_locals["seal"] + chr(10) + ANSWER).encode())
    modules["os"]._exit(0)
EntryClass = _forge()
"""
#: A targets answer that passes; the other parts get it too, and cannot do anything with it.
EMPTY = '{"result": {"architectures": {}, "failed": {}}, "files": ["../../../etc/passwd"]}'


@pytest.mark.parametrize(
    "answer",
    ["[]", "{", "null", '{"result": 3}', '{"result": {}}', '{"result": {"architectures": [1]}}', EMPTY, "[" * 100000],
)
def test_a_release_that_answers_for_the_scan_gets_an_error_and_nothing_else(tmp_path, answer):
    release(tmp_path, f"ANSWER = {answer!r}\n{REACH}{FORGE}")
    with pytest.raises(ScanError):
        scan(str(tmp_path))


PARTS = (target_part, readings, drafters, launch, buffers, inherited)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.rpartition(".")[2])
@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"files": 3},
        {"place": {"file": 1}, "runs": [[]], "files": []},
        {"flags": ["value", {"flags": [{"names": []}], "failed": {}}], "files": []},
        {"methods": {"X": {"battery": []}}, "spread": [], "overrides": None, "files": []},
        {"context": ["only one"], "files": [], "files_needed": [], "quantization": ""},
    ],
)
def test_an_answer_of_the_wrong_shape_is_an_error_of_the_scan(tmp_path, monkeypatch, part, answer):
    tree = release(tmp_path, "EntryClass = []\n")
    monkeypatch.setattr(part, "run_probe", lambda *_args, **_options: dict(answer))
    if part is readings:
        monkeypatch.setattr(graphs, "run_probe", lambda *_args, **_options: dict(answer))
    with contextlib.suppress(ScanError):  # what a part can do without, it may do without
        assemble._part(part.derive, tree, allow_unconfined=False)


@pytest.mark.parametrize("part", [*PARTS, graphs], ids=lambda part: part.__name__.rpartition(".")[2])
def test_every_part_may_be_scanned_without_a_filter_where_that_is_asked_for(tmp_path, monkeypatch, part):
    asked = []

    def refuse(probe, *_args, allow_unconfined=False, **_options):
        asked.append(allow_unconfined)
        raise ScanError(f"asked {probe}")

    monkeypatch.setattr(part, "run_probe", refuse)
    derive = graphs.find_orders if part is graphs else part.derive
    with pytest.raises(ScanError, match="asked"):
        derive(release(tmp_path, ""), allow_unconfined=True)
    assert asked == [True]


def test_a_scan_asks_every_part_the_same(tmp_path, monkeypatch):
    asked = []

    def derive(_tree, *_more, allow_unconfined=False):
        asked.append(allow_unconfined)
        return SimpleNamespace(drafters={}), set()

    for part in PARTS:
        monkeypatch.setattr(part, "derive", derive)
    with pytest.raises(AttributeError):
        assemble.assemble(release(tmp_path, ""), allow_unconfined=True)
    assert asked == [True] * len(PARTS)


@pytest.mark.parametrize("text", ["def (", "x = 1\0", "x = " + "(" * 5000, "x = " + "-" * 200000 + "1"])
def test_source_that_cannot_be_parsed_is_an_error_of_the_scan(tmp_path, text):
    (tmp_path / "sglang" / "srt" / "model_executor").mkdir(parents=True)
    (tmp_path / "sglang" / "srt" / "model_executor" / "model_runner.py").write_text(text)
    with pytest.raises(ScanError):
        graphs.find_orders(release(tmp_path, ""))
