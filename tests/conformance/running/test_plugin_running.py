"""The plugin in real engines: a launch that must not start ends in its main process, before any worker."""

from __future__ import annotations

import os
import shutil

import environments
import plugged
import pytest

pytestmark = pytest.mark.running


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return plugged.site(str(tmp_path_factory.mktemp("site")))


def made(release, wheel, folder, packages):
    try:
        wheel(release)
        return plugged.Plugged(release, str(folder), packages)
    except environments.EnvironmentUnavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module", params=plugged.RELEASES)
def engine(request, wheel, packages, tmp_path_factory):
    return made(request.param, wheel, tmp_path_factory.mktemp("engine"), packages)


def refused(found, code=3):
    assert found.code == code, found.talk[-3000:]
    assert found.noted == "", "a process was started"
    assert found.left == []
    return found.talk


def reached(found):
    assert found.code == plugged.REACHED, found.talk[-3000:]
    assert found.noted.endswith("reached the workers\n")
    return found.talk


def test_a_mismatched_launch_is_refused_in_the_main_process(engine):
    for found in (engine.serve("wrong"), engine.console("wrong")):
        talk = refused(found)
        assert "CAPTURE_LAYERS" in talk
        assert "boundary 1 (output of layer 0) becomes boundary 2 (output of layer 1)" in talk
        assert talk.rstrip().endswith("drafters in SGLang: the launch was not started")


def test_a_matching_launch_is_judged_once_and_gets_to_its_workers(engine):
    assert reached(engine.serve("right")).count("ALLOW  drafter") == 1


def test_an_engine_in_python_is_judged_by_its_keywords(engine):
    text = """
import sglang as sgl
try:
    sgl.Engine(**options["{}"])
except Exception as error:
    sys.exit("caught " + repr(error))
"""
    assert "CAPTURE_LAYERS" in refused(engine.script(text.format("wrong")))
    assert "ALLOW  drafter" in reached(engine.script(text.format("right")))


def test_a_launch_without_speculation_hears_nothing_of_it(engine):
    assert "drafters" not in reached(engine.serve("", DRAFTERS_GUARD="nonsense"))


def test_mode_warn_says_it_and_goes_on(engine):
    talk = reached(engine.serve("wrong", DRAFTERS_GUARD="warn"))
    assert "CAPTURE_LAYERS" in talk
    assert "starting anyway" in talk


def test_faults_of_the_plugin_start_nothing_unjudged(engine, tmp_path):
    assert "DRAFTERS_GUARD is 'nonsense'" in refused(engine.serve("right", DRAFTERS_GUARD="nonsense"), 2)
    damaged = shutil.copytree(engine.packages, tmp_path / "damaged")
    lines = damaged / "drafter_contracts" / "engines" / "data" / "sglang" / "lines.txt"
    lines.write_bytes(lines.read_bytes()[::-1])
    words = ("-m", "sglang.launch_server", *engine.arguments("right"))
    refused(engine.run(*words, packages=str(damaged)), 7)
    talk = reached(engine.run(*words, packages=str(damaged), DRAFTERS_GUARD="warn"))
    assert "starting anyway" in talk
    os.remove(damaged / "drafter_cli" / "plugin" / "hooks.py")
    refused(engine.run(*words, packages=str(damaged)), 1)


BUILT = """
from sglang.srt.server_args import ServerArgs
from drafter_cli.guard import require_compatible
from drafter_cli.errors import IncompatibleError

for name in ("right", "wrong"):
    try:
        print(name, require_compatible(ServerArgs(**options[name])).decision)
    except IncompatibleError as error:
        print(name, error.verdict.decision, *sorted(f.code for f in error.verdict.findings if f.severity == "refuse"))
print("nothing", require_compatible(ServerArgs(**options[""])).decision)
"""


def judged(found):
    assert found.code == 0, found.talk[-3000:]
    return found.output.splitlines()[-3:]


EXPECTED = ["right allow", "wrong refuse CAPTURE_LAYERS", "nothing allow"]


def test_server_args_are_judged_as_they_are(engine):
    assert judged(engine.script(BUILT, DRAFTERS_GUARD="enforce")) == EXPECTED


def test_server_args_of_a_release_before_the_plugins_are_judged_too(wheel, packages, tmp_path):
    engine = made(plugged.BEFORE, wheel, tmp_path, packages)
    assert judged(engine.script(BUILT)) == EXPECTED
