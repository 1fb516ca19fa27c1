"""Where the plugin stands in real releases: on the way of every start, after plugins are loaded, before any process."""

from __future__ import annotations

import ast
import zipfile

import pytest
from compared_releases import RELEASES

from drafter_cli.plugin import hooks
from drafter_contracts.engines.store import load_profile

pytestmark = pytest.mark.conformance

WITH_PLUGINS = [release for release in RELEASES if load_profile("sglang", release).launch.plugins]
WITHOUT = [release for release in RELEASES if release not in WITH_PLUGINS]
each_release = pytest.mark.parametrize("release", WITH_PLUGINS)


@pytest.fixture
def source(wheel):
    """A function from a release and a file of it to its parsed source."""

    def parse(release, path):
        with zipfile.ZipFile(wheel(release)) as archive:
            return ast.parse(archive.read(f"sglang/{path}"))

    return parse


def functions(tree):
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def calls(node):
    """Names of what is called, in the order of the source."""
    found = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    found.sort(key=lambda call: (call.lineno, call.col_offset))
    return [call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "") for call in found]


@each_release
def test_both_functions_are_where_they_are_hooked(release, source):
    tree = source(release, "srt/server_args.py")
    assert hooks.PREPARE == "sglang.srt.server_args.prepare_server_args"
    assert hooks.CHECK == "sglang.srt.server_args.ServerArgs.check_server_args"
    (prepare,) = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "prepare_server_args"
    ]
    assert [argument.arg for argument in prepare.args.args] == ["argv"]
    (options,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ServerArgs"]
    assert functions(options)["check_server_args"].args.args[0].arg == "self"


@each_release
def test_options_are_checked_after_plugins_are_loaded_and_before_a_process_is_started(release, source):
    launch = calls(functions(source(release, "srt/entrypoints/engine.py"))["_launch_subprocesses"])
    order = [launch.index(name) for name in ("load_plugins", "check_server_args", "_launch_scheduler_processes")]
    assert order == sorted(order)
    starting = {
        "_launch_scheduler_processes",
        "_launch_detokenizer_subprocesses",
        "_launch_weight_cache_daemons",
        "Process",
    }
    assert not starting & set(launch[: launch.index("check_server_args")])


@each_release
@pytest.mark.parametrize(
    "path", ["srt/entrypoints/engine.py", "srt/entrypoints/http_server.py", "srt/ray/http_server.py"]
)
def test_every_server_and_engine_starts_by_that_function(release, source, path):
    assert "_launch_subprocesses" in calls(source(release, path))
    defined = [name for name in functions(source(release, path)) if name == "_launch_subprocesses"]
    assert defined == (["_launch_subprocesses"] if path.endswith("engine.py") else []), "there is one, and no other"


@each_release
@pytest.mark.parametrize(("path", "start"), [("launch_server.py", "run_server"), ("cli/serve.py", "run_server")])
def test_command_lines_load_plugins_before_they_make_options(release, source, path, start):
    called = calls(source(release, path))
    assert {"load_plugins", "prepare_server_args", start} <= set(called)
    if path == "launch_server.py":
        assert called.index("load_plugins") < called.index("prepare_server_args")


@each_release
def test_no_worker_calls_what_is_hooked(release, source):
    for path in (
        "srt/managers/scheduler.py",
        "srt/managers/detokenizer_manager.py",
        "srt/managers/data_parallel_controller.py",
    ):
        assert not {"check_server_args", "prepare_server_args"} & set(calls(source(release, path))), path


@each_release
def test_the_loader_passes_over_exceptions_and_lets_an_exit_through(release, source):
    """What the plugin's own faults must not rely on: handlers catch `Exception`, never more."""
    for path, name in (("srt/plugins/__init__.py", "load_plugins"), ("srt/plugins/hook_registry.py", "apply_hooks")):
        tree = source(release, path)
        handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
        caught = {getattr(handler.type, "id", "tuple") for handler in handlers}
        assert "Exception" in caught
        assert not {"BaseException", "SystemExit"} & caught
        assert name in functions(tree)
    loader = functions(source(release, "srt/plugins/__init__.py"))["load_plugins"]
    assert calls(loader)[-1] == "apply_hooks"
    registry = functions(source(release, "srt/plugins/hook_registry.py"))["apply_hooks"]
    assert [decorator.id for decorator in registry.decorator_list] == ["classmethod"]


@pytest.mark.parametrize("release", WITHOUT)
def test_releases_without_the_group_have_no_loader(release, wheel):
    with zipfile.ZipFile(wheel(release)) as archive:
        assert "sglang/srt/plugins/__init__.py" not in archive.namelist()
