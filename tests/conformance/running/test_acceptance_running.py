"""Real servers under traffic, right and wrong: what `drafters observe` and `drafters doctor` say of each.

The promises are of two kinds, and of other runs: `drafters evaluate --acceptance` estimated one on the held-out texts,
and an engine measured the other.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from typing import NamedTuple

import accepting
import environments
import incident
import pytest
import results
import served
import served_cases
import whole

pytestmark = pytest.mark.running

SEEN = ("log", "counters")
VERDICT = ("--until-verdict", "--for", "40m")
#: Exit codes: a verdict that was asked for, a cause found, no verdict to be had.
OK, FOUND, UNKNOWN = 0, 3, 5
#: An operator's own options, for `resolve`.
OPERATOR = ("--device", "cpu", "--attention-backend", "intel_amx")
BAD = ("degraded", "collapsed")


class Scene(NamedTuple):
    """A registry with the drafter, promised by an estimate and by a measurement; and its files, with the estimate."""

    models: incident.Models
    registry: served.Registry
    reference: str
    directory: str


@pytest.fixture
def scene(wheel, command, tmp_path):
    try:
        wheel(whole.RELEASE)
        engine = accepting.release()
    except environments.EnvironmentUnavailable as error:
        pytest.skip(str(error))
    models, folder = incident.small(), str(tmp_path)
    data, estimate = incident.dump(models, os.path.join(folder, "data")), os.path.join(folder, "estimate.json")
    registry = served.Registry(os.path.join(folder, "registry"), command)
    stated = ("--boundaries", ",".join(map(str, models.boundaries)))
    directory = incident.with_ids(models, (), folder)
    done(registry, "evaluate", directory, data, "--target", models.target, "--masked", *stated, "--steps", "3",
         "--acceptance", estimate)  # fmt: skip
    done(registry, "publish", directory, "--name", "eagle", "--version", "1.0.0", "--target", models.target, *stated,
         *served_cases.RECOMMENDED, "--acceptance", estimate)  # fmt: skip
    pulled = registry.pull("eagle@1.0.0", os.path.join(folder, "pulled"))
    length = promised()
    done(registry, "acceptance", "add", "eagle@1.0.0", "--length", str(length), "--engine", engine, "--steps", "3",
         "--topk", "1", "--draft-tokens", "4", "--temperature", "0", "--measured", "engine")  # fmt: skip
    listed = json.loads(done(registry, "acceptance", "list", "eagle@1.0.0", "--json"))["items"]
    assert [one["acceptance"]["measured"] for one in listed] == ["teacher-forced", "engine"]
    return Scene(models, registry, "eagle@1.0.0", pulled)


def promised():
    """What was measured of the right layers: under this traffic, or else by the whole engine without a server."""
    found = results.load()
    return found.get("acceptance", {}).get("right", {}).get("log") or found["incident"]["8 layers"]["2,5,7"]["engine"]


def done(registry, *words, code=OK):
    """What a command printed."""
    ran = registry.run(*words)
    assert ran.returncode == code, (words, ran.stdout, ran.stderr)
    return ran.stdout


class Beside:
    """Commands that run at once, beside the traffic; each prints one document."""

    def __init__(self, registry, *commands):
        run = {"env": registry.environ, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.started = [subprocess.Popen([registry.command, *words, "--json"], **run) for words in commands]

    def ended(self, number):
        """Document, exit code and talk of one of them."""
        out, talk = self.started[number].communicate(timeout=accepting.SECONDS)
        return json.loads(out or "{}"), self.started[number].returncode, talk

    def stopped(self, number):
        """The same, of one that is told to come to its end."""
        self.started[number].send_signal(signal.SIGTERM)
        return self.ended(number)


def watched(scene, engine, name):
    """What everything says of an engine: by its log and counters, by the estimate alone, and the doctor.

    The log is read until there is a verdict on it. Counters, which tell of ended requests, are watched as long.
    """
    of_log, of_counters = ("--log", engine.log, "--from-start"), ("--url", engine.url, "--interval", "1s")
    beside = Beside(
        scene.registry,
        ("observe", scene.reference, *of_log, *VERDICT),
        ("observe", scene.reference, *of_counters),
        ("doctor", scene.reference, "--url", engine.url, "--seconds", "180"),
    )
    (log, code, talk), (doctor, cause, told) = beside.ended(0), beside.ended(2)
    counters, counted, _ = beside.stopped(1)
    estimate = json.loads(done(scene.registry, "observe", scene.directory, *of_log, "--for", "0", "--json"))
    kept(engine, name, [log, counters, doctor, estimate])
    assert (code, counted) == (OK, OK), (log, talk)
    assert doctor, told
    found = {"log": log, "counters": counters, "estimate": estimate}
    return {what: one["judgement"] for what, one in found.items()} | {"doctor": doctor, "doctor's code": cause}


def kept(engine, name, documents):
    """Leave what the engine answered and what was said of it where `$DRAFTERS_KEEP_ANSWERS` says."""
    place = os.environ.get("DRAFTERS_KEEP_ANSWERS")
    if not place:
        return
    folder = os.path.join(place, name)
    os.makedirs(folder, exist_ok=True)
    for path in ("server_info", "metrics"):
        with open(os.path.join(folder, path), "wb") as file:
            file.write(accepting.got(engine.url, path))
    with open(os.path.join(folder, "fresh"), "wb") as file:
        file.write(engine.fresh)
    shutil.copy(engine.log, folder)
    served.write(os.path.join(folder, "said.json"), documents)


def row(name, boundaries, found):
    """One row of the kept table."""
    causes = [cause["code"] for cause in found["doctor"]["causes"] if cause["confidence"] != "possible"]
    return {
        "name": name,
        "boundaries": list(boundaries),
        **{source: round(found[source]["seen"], 3) for source in SEEN},
        "readings": {source: found[source]["readings"] for source in SEEN},
        "estimate": found["estimate"]["word"],
        "measured": found["log"]["word"],
        "doctor": causes,
    }


def test_the_right_layers_are_as_promised_by_estimate_and_by_measurement(scene, tmp_path, keep):
    answer = scene.registry.resolve(scene.reference, whole.RELEASE, scene.models.target, "render", OPERATOR)
    assert not answer.code, answer.answer
    with accepting.engine(scene.models, answer.flags, str(tmp_path)) as engine:
        found = watched(scene, engine, "right")
    keep("acceptance", "right", row(incident.TRUE, scene.models.boundaries, found))
    for judged in ("log", "estimate"):
        assert found[judged]["word"] == "as promised", found[judged]
    assert found["counters"]["word"] not in BAD, found["counters"]
    assert found["log"]["promise"] != found["estimate"]["promise"]
    assert not [cause for cause in found["doctor"]["causes"] if cause["confidence"] != "possible"]


@pytest.mark.parametrize(("name", "boundaries"), list(incident.LAYOUTS.items())[1::2])
def test_other_layers_are_seen_and_named(scene, tmp_path, keep, name, boundaries):
    flags = incident.by_hand(scene.models, boundaries, str(tmp_path))
    called = "-".join(map(str, boundaries))
    with accepting.engine(scene.models, flags, str(tmp_path)) as engine:
        found = watched(scene, engine, called)
    keep("acceptance", called, row(name, boundaries, found))
    assert found["log"]["word"] in BAD, found["log"]
    assert found["counters"]["word"] != "as promised", found["counters"]
    assert found["doctor's code"] == FOUND
    first = found["doctor"]["causes"][0]
    assert (first["code"], first["confidence"]) == ("CAPTURE_LAYERS", "proved")
    evidence = json.dumps(first)
    for layers in (scene.models.boundaries, boundaries):  # in both numberings
        assert f"boundaries {', '.join(map(str, layers))}" in evidence
        outputs = ", ".join(str(layer - 1) for layer in layers if layer)
        assert f"outputs of layers {outputs}" in evidence
    assert first["next"]


def test_made_up_figures_are_found_out_and_void(scene, tmp_path):
    flags = incident.by_hand(scene.models, scene.models.boundaries, str(tmp_path))
    with accepting.engine(scene.models, flags, str(tmp_path), accepting.SIMULATED) as engine:
        engine.wait(50)
        words = ("observe", scene.reference, "--url", engine.url)
        beside = Beside(scene.registry, (*words, "--until-verdict"), (*words, "--for", "20s", "--interval", "1s"),
                        ("doctor", scene.reference, "--url", engine.url, "--seconds", "20"))  # fmt: skip
        answers = [beside.ended(number) for number in range(3)]
        kept(engine, "simulated", [answer[0] for answer in answers])
    (sure, code, _), (observed, _, _), (doctor, found, _) = answers
    assert code == UNKNOWN
    for answer in (sure, observed):
        assert answer["judgement"]["word"] == "too little seen"
        assert "SGLANG_SIMULATE_ACC_LEN" in answer["judgement"]["reason"]
    assert found == FOUND
    codes = [cause["code"] for cause in doctor["causes"]]
    assert "ACCEPTANCE_SIMULATED" in codes
    assert "CAPTURE_LAYERS" not in codes, "the layers are right: only the figures are not"
