"""The plugin in a process of the engine's own: what it stops, what it lets start, and that no fault lets one by."""

from __future__ import annotations

import json
import os
import shutil
import sys

import pytest

OURS = "drafters in SGLang: the launch was not started"


def stopped(done, engine, code):
    assert done.returncode == code, done.stderr
    assert not engine.started, "a worker was spawned"
    assert done.stdout == ""
    return done.stderr


def went_on(done, engine):
    assert done.returncode == 0, done.stderr
    assert engine.started
    assert done.stdout == "engine output\n"
    return done.stderr


# what is judged ------------------------------------------------------------------------------------------------------


def test_a_mismatched_command_line_is_refused_before_anything_is_spawned(engine):
    told = stopped(engine.serve(*engine.arguments("wrong")), engine, 3)
    assert "CAPTURE_LAYERS" in told
    assert "boundary 1 (output of layer 0) becomes boundary 2 (output of layer 1)" in " ".join(told.split())
    assert "the engine that runs here" in told
    assert told.rstrip().endswith(OURS)


def test_a_matching_command_line_is_judged_once_and_starts(engine):
    told = went_on(engine.serve(*engine.arguments("right")), engine)
    assert told.startswith("ALLOW")
    assert told.count("ALLOW") == 1


def test_what_is_not_known_does_not_start(engine):
    launch = engine.arguments("right", speculative_draft_model_path="/nowhere/drafter")
    told = stopped(engine.serve(*launch), engine, 5)
    assert told.startswith("UNKNOWN")


def test_sglang_serve_is_judged(engine):
    words = ["-c", "import sglang.serve; sglang.serve.main()", "serve"]
    path, *rest = engine.arguments("wrong")[1:]
    stopped(engine.run(*words, path, *rest), engine, 3)


def test_an_abbreviation_and_a_config_file_are_seen(engine):
    short = [word.replace("--speculative-algorithm", "--speculative-al") for word in engine.arguments("wrong")]
    stopped(engine.serve(*short), engine, 3)
    config = os.path.join(engine.folder, "launch.yaml")
    with open(config, "w", encoding="utf-8") as file:
        file.writelines(f"{name.replace('_', '-')}: {value}\n" for name, value in engine.options("wrong").items())
    stopped(engine.serve("--config", config), engine, 3)


def test_keywords_of_an_engine_are_judged(engine):
    told = stopped(engine.script("sgl.Engine(**options['wrong'])"), engine, 3)
    assert "CAPTURE_LAYERS" in told
    assert went_on(engine.script("sgl.Engine(**options['right'])"), engine).startswith("ALLOW")


def test_options_that_are_given_as_an_object_are_judged(engine):
    text = """
from sglang.srt.server_args import ServerArgs
sgl.Engine(server_args=ServerArgs(**options['{}'], own_object=object()))
"""
    stopped(engine.script(text.format("wrong")), engine, 3)
    told = went_on(engine.script(text.format("right")), engine)
    assert "own_object" in told, "what no option says is told"


def test_a_value_that_decides_and_that_no_option_takes_does_not_pass(engine):
    text = "options['right']['speculative_num_steps'] = [3]\nsgl.Engine(**options['right'])"
    told = stopped(engine.script(text), engine, 2)
    assert "speculative_num_steps" in told
    assert "expected int" in told


def test_a_launcher_that_catches_exceptions_does_not_get_past_the_refusal(engine):
    text = """
try:
    sgl.Engine(**options['wrong'])
except Exception:
    pass
"""
    stopped(engine.script(text), engine, 3)


def test_a_launcher_may_ask_for_the_verdict(engine):
    text = """
try:
    sgl.Engine(**options['wrong'])
except SystemExit as stop:
    sys.exit(f"{stop.code} {stop.verdict.decision} {stop.verdict.findings[0].code}")
"""
    told = stopped(engine.script(text), engine, 1)
    assert "3 refuse CAPTURE_LAYERS" in told


def test_options_that_change_after_their_command_line_was_judged_are_judged_again(engine):
    text = """
from sglang.launch_server import run_server
from sglang.srt.plugins import load_plugins
import sglang.srt.server_args as module
load_plugins()
made = module.prepare_server_args({})
made.speculative_draft_model_path = options['wrong']['speculative_draft_model_path']
run_server(made)
""".format(engine.arguments("right"))
    told = stopped(engine.script(text), engine, 3)
    assert told.startswith("ALLOW")
    assert "REFUSE" in told


def test_an_engine_that_a_process_of_somebody_elses_starts_is_judged_there(engine):
    """As trainers do it: the engine's main process is itself a spawned one."""
    text = """
import multiprocessing
from sglang.launch_server import run_server
from sglang.srt.server_args import ServerArgs
process = multiprocessing.get_context("spawn").Process(target=run_server, args=(ServerArgs(**options['wrong']),))
process.start()
process.join()
sys.exit(process.exitcode)
"""
    told = stopped(engine.script(text), engine, 3)
    assert "CAPTURE_LAYERS" in told


# what costs nothing --------------------------------------------------------------------------------------------------

PROBE = """
sgl.Engine(model_path="m")
loaded = [name for name in sys.modules if name.startswith(("drafter_", "msgspec"))]
sys.exit(" ".join(sorted(loaded)))
"""


@pytest.mark.parametrize("mode", ["enforce", "warn", "nonsense"])
def test_without_speculation_nothing_is_imported_and_nothing_said(engine, mode):
    done = engine.script(PROBE, DRAFTERS_GUARD=mode)
    assert engine.started
    own = {"drafter_cli", "drafter_cli.plugin", "drafter_cli.plugin.entry", "drafter_cli.plugin.hooks"}
    assert set(done.stderr.split()) == own


def test_mode_off_registers_nothing(engine):
    done = engine.script(PROBE, DRAFTERS_GUARD="off")
    assert set(done.stderr.split()) == {"drafter_cli", "drafter_cli.plugin", "drafter_cli.plugin.entry"}
    assert went_on(engine.serve(*engine.arguments("wrong"), DRAFTERS_GUARD="off"), engine) == ""


def test_a_worker_loads_no_part_of_the_gate(engine):
    went_on(engine.serve(*engine.arguments("right")), engine)
    own = ["drafter_cli", "drafter_cli.plugin", "drafter_cli.plugin.entry", "drafter_cli.plugin.hooks"]
    assert engine.site.worker_modules == own


HEAVY = {"torch", "numpy", "pydantic", "fastapi", "sqlalchemy", "httpx", "rich", "click", "typer", "transformers"}


def test_what_a_verdict_imports_is_light(engine):
    text = PROBE.replace('model_path="m"', "**options['right']")
    done = engine.script(text)
    loaded = set(done.stderr.split())
    assert not loaded & HEAVY
    assert "drafter_contracts.check" in loaded, "the gate did run"


# modes ---------------------------------------------------------------------------------------------------------------


def test_mode_warn_says_it_and_starts(engine):
    told = went_on(engine.serve(*engine.arguments("wrong"), DRAFTERS_GUARD="warn"), engine)
    assert told.startswith("REFUSE")
    assert "starting anyway (mode warn)" in told


def test_a_misspelt_mode_fails_closed(engine):
    told = stopped(engine.serve(*engine.arguments("right"), DRAFTERS_GUARD="wran"), engine, 2)
    assert "DRAFTERS_GUARD is 'wran'" in told


# faults --------------------------------------------------------------------------------------------------------------


def no_msgspec(site):
    site.write("msgspec/__init__.py", "raise ImportError('no msgspec here')\n")
    return "no msgspec here"


def no_rules(site):
    site.write("drafter_contracts/__init__.py", "raise RuntimeError('damaged')\n")
    return "damaged"


def no_registry(site):
    site.write("sglang/srt/plugins/hook_registry.py", "class HookRegistry:\n    apply_hooks = staticmethod(bool)\n")
    return "has no registry of hooks"


def no_function(site):
    site.change("sglang/srt/server_args.py", "check_server_args", "check_options")
    site.change("sglang/srt/entrypoints/engine.py", "check_server_args", "check_options")
    return "has no sglang.srt.server_args.ServerArgs.check_server_args"


def no_command_line(site):
    for name in ("srt/server_args.py", "launch_server.py"):
        site.change(f"sglang/{name}", "prepare_server_args", "make_options")
    return "has no sglang.srt.server_args.prepare_server_args"


def hooks_that_fail(site):
    site.change("sglang/srt/plugins/hook_registry.py", "setattr(owner, name, found)", "raise TypeError(name)")
    return "did not apply the hook"


def another_registry(site):
    """Its hooks are applied by a function of its own module."""
    name = "sglang/srt/plugins/hook_registry.py"
    site.change(name, "    @classmethod\n    def apply_hooks(cls):", "    @staticmethod\n    def apply_hooks():")
    site.change(name, "cls.hooks.items()", "HookRegistry.hooks.items()")
    site.change(name, "cls.done", "HookRegistry.done")
    return "applies its hooks in another way"


def half_installed(site):
    site.write("drafter_cli/__init__.py", "")
    site.write("drafter_cli/plugin/__init__.py", "")
    with open(sys.modules["plugin_stand_in"].ROOT + "/cli/drafter_cli/plugin/entry.py", encoding="utf-8") as file:
        site.write("drafter_cli/plugin/entry.py", file.read())
    return "cannot import name 'hooks'"


def half_of_the_rest(site):
    half_installed(site)
    with open(sys.modules["plugin_stand_in"].ROOT + "/cli/drafter_cli/plugin/hooks.py", encoding="utf-8") as file:
        site.write("drafter_cli/plugin/hooks.py", file.read())
    return "cannot import name 'launches'"


FAULTS = [
    no_msgspec, no_rules, no_registry, no_function, no_command_line, hooks_that_fail, another_registry, half_installed,
    half_of_the_rest,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_plugin_starts_nothing_unjudged(engine, fault):
    text = fault(engine.site)
    done = engine.serve(*engine.arguments("right"))
    assert text in stopped(done, engine, 1)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_mode_warn_is_told_and_the_launch_goes_on(engine, fault):
    text = fault(engine.site)
    assert text in went_on(engine.serve(*engine.arguments("right"), DRAFTERS_GUARD="warn"), engine)


@pytest.mark.parametrize(
    "fault", [no_registry, no_function, no_command_line, hooks_that_fail, another_registry, half_installed]
)
def test_a_fault_does_not_touch_a_server_that_does_not_speculate(engine, fault):
    fault(engine.site)
    went_on(engine.serve("--model-path", "m"), engine)


@pytest.mark.parametrize("fault", [no_function, hooks_that_fail, no_msgspec])
def test_a_fault_starts_no_engine_from_python_either(engine, fault):
    text = fault(engine.site)
    assert text in stopped(engine.script("sgl.Engine(**options['right'])"), engine, 1)


def test_a_manifest_that_cannot_be_read_has_its_own_exit_code(engine, tmp_path):
    drafter = shutil.copytree(os.path.join(engine.files, "right"), tmp_path / "broken")
    (drafter / "drafters-manifest.json").write_text('{"schema": "drafters.manifest.v1", "layuot": {}}')
    told = stopped(engine.serve(*engine.arguments("right", speculative_draft_model_path=drafter)), engine, 7)
    assert "layuot" in told


# beside others -------------------------------------------------------------------------------------------------------

OTHER = """
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

TARGETS = ("sglang.srt.server_args.prepare_server_args", "sglang.srt.server_args.ServerArgs.check_server_args")


def register():
    for target in TARGETS:
        HookRegistry.register(target, lambda original, *a, **k: original(*a, **k), HookType.AROUND)


def broken():
    raise RuntimeError("not ours")
"""


@pytest.mark.parametrize("name", ["a_before", "z_after"])
def test_other_plugins_on_the_same_functions_take_nothing_away(engine, name):
    engine.site.write("other.py", OTHER)
    engine.site.write(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    points = f"[sglang.srt.plugins]\n{name} = other:register\n{name}_broken = other:broken\n"
    engine.site.write(f"{name}-1.dist-info/entry_points.txt", points)
    stopped(engine.serve(*engine.arguments("wrong")), engine, 3)
    told = went_on(engine.serve(*engine.arguments("right")), engine)
    assert told.count("ALLOW") == 1


def test_sglangs_own_selection_leaves_the_plugin_out(engine):
    """Nothing of ours runs then."""
    assert went_on(engine.serve(*engine.arguments("wrong"), SGLANG_PLUGINS="others"), engine) == ""
    os.remove(engine.site.record)
    stopped(engine.serve(*engine.arguments("wrong"), SGLANG_PLUGINS="others, drafters"), engine, 3)


@pytest.mark.parametrize(
    ("selection", "told"), [("others", True), ("my_drafters", True), ("others,drafters", False), ("", False)]
)
def test_the_gate_tells_that_the_plugin_is_left_out(engine, command, selection, told):
    launch = ["--", sys.executable, "-m", "sglang.launch_server", *engine.arguments("right")]
    done = engine.run(command, "check", "--json", *launch, SGLANG_PLUGINS=selection)
    found = {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert ("PLUGIN_LEFT_OUT" in found) is told, done.stdout
    assert done.returncode == 0
    if told:
        assert found["PLUGIN_LEFT_OUT"]["remedy"] == f"Set SGLANG_PLUGINS={selection},drafters."
    metadata = os.path.join(engine.site.folder, "drafter_registry-0.dist-info")
    shutil.rmtree(metadata)
    launch[1] = os.path.realpath(sys.executable)  # the virtual environment has the project itself, and its plugin
    alone = {"SGLANG_PLUGINS": selection, "PYTHONPATH": engine.site.folder}
    done = engine.run(command, "check", "--json", *launch, **alone)
    assert "PLUGIN_LEFT_OUT" not in done.stdout, "it is not installed there"
    assert json.loads(done.stdout)["context"]["engine from"].startswith("installed in"), done.stdout


def test_what_the_guard_decided_is_not_decided_again(engine, command):
    """The guard is told another layout than the drafter's manifest states, which the plugin cannot know."""
    launch = ["--", sys.executable, "-m", "sglang.launch_server", *engine.arguments("wrong")]
    told = went_on(engine.run(command, "guard", "--output-ids", "1,3,5", *launch), engine)
    assert told.startswith("ALLOW")
    assert "REFUSE" not in told
    os.remove(engine.site.record)
    told = went_on(engine.run(command, "guard", "--mode", "warn", *launch), engine)
    assert told.count("REFUSE") == 1
    assert "drafters in SGLang" not in told
    os.remove(engine.site.record)
    assert went_on(engine.run(command, "guard", "--mode", "off", *launch), engine) == ""
    os.remove(engine.site.record)
    stopped(engine.run(command, "guard", *launch), engine, 3)


def test_other_arguments_than_the_guards_are_judged(engine):
    from drafter_cli.plugin import handover

    noted = handover._mark(engine.arguments("wrong"))
    went_on(engine.serve(*engine.arguments("wrong"), DRAFTERS_GUARDED=noted), engine)
    os.remove(engine.site.record)
    again = engine.arguments("wrong", speculative_num_steps=4, speculative_num_draft_tokens=5)
    stopped(engine.serve(*again, DRAFTERS_GUARDED=noted), engine, 3)


# is it active? -------------------------------------------------------------------------------------------------------


def told_inactive(done):
    assert (done.returncode, done.stderr) == (3, ""), done.stderr
    return done.stdout


def test_whether_the_plugin_is_active_can_be_asked(engine):
    ask = ("-m", "drafter_cli.plugin")
    done = engine.run(*ask)
    assert (done.returncode, done.stdout.partition(":")[0]) == (0, "active"), done.stdout
    assert engine.run(*ask, SGLANG_PLUGINS="others, drafters").returncode == 0
    assert "SGLANG_PLUGINS=others leaves it out" in told_inactive(engine.run(*ask, SGLANG_PLUGINS="others"))
    assert "DRAFTERS_GUARD is off" in told_inactive(engine.run(*ask, DRAFTERS_GUARD="off"))
    shutil.rmtree(os.path.join(engine.site.folder, "sglang", "srt", "plugins"))
    assert "has no plugins" in told_inactive(engine.run(*ask))
    shutil.rmtree(os.path.join(engine.site.folder, "sglang"))
    assert "no SGLang in this environment" in told_inactive(engine.run(*ask))
