"""The incident, replayed as far as no engine is needed: labels claim the embedding, numbers say otherwise."""

from __future__ import annotations

import json

import pytest
from making import incident

from drafter_cli import main
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_REFUSED
from drafter_contracts.evidence.documents import decode

VERSION = ("--name", "eagle", "--version", "1.0.0", "--steps", "3", "--topk", "1", "--draft-tokens", "4")


def listed(layers):
    return ",".join(map(str, layers))


@pytest.fixture(scope="module")
def dumped(trained, tmp_path_factory):
    """The folder of recorded states, its labels wrong."""
    folder = str(tmp_path_factory.mktemp("incident") / "data")
    prompts = [trained.prompt] * len(trained.texts)
    return incident.dump(folder, trained.target, trained.texts, prompts, trained.boundaries, trained.labelled)


@pytest.fixture
def told(capsys, monkeypatch, tmp_path):
    """Runs a command in an empty folder, with a registry of its own; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DRAFTERS_DATA", str(tmp_path / "data"))
    for name in ("DRAFTERS_URL", "DRAFTERS_CONFIG", "DRAFTERS_TOKEN"):
        monkeypatch.setenv(name, "")

    def run(*argv):
        code = main.main([*map(str, argv)])
        out, error = capsys.readouterr()
        return code, out, " ".join(error.split())

    return run


def test_numbers_contradict_the_labels_and_name_the_layers(trained, dumped, told):
    code, out, _ = told("identify", dumped, "--target", trained.target, "--json")
    found = decode(out.encode(), where="stdout")
    assert code == EXIT_INTEGRITY
    assert (found.verdict, found.boundaries) == ("identified", trained.boundaries)
    assert len(found.samples) == len(trained.texts)
    said = found.contradictions[0]
    assert "recorded #0" in said
    assert "data_config.json" in said
    assert "says 0" in said
    assert "boundary 2 (output of layer 1)" in said


def test_publishing_what_the_labels_say_is_refused_and_what_the_numbers_say_accepted(trained, dumped, told):
    told("identify", dumped, "--target", trained.target, "-o", "identify.json")
    common = ("publish", trained.drafter, *VERSION, "--target", trained.target, "--evidence", "identify.json")
    code, _, error = told(*common, "--boundaries", listed(trained.labelled))
    assert code == EXIT_INTEGRITY
    assert "0, 2, 5" in error
    assert "2, 5, 7" in error
    assert told("show", "eagle@1.0.0")[0] != EXIT_OK, "nothing was published"

    code, _, error = told(*common, "--boundaries", listed(trained.boundaries))
    assert code == EXIT_OK, error
    code, out, _ = told("show", "eagle@1.0.0", "--json")
    kept = json.loads(out)
    while "layout" not in kept:  # the manifest is somewhere inside
        kept = kept["manifest"]
    taps = kept["layout"]["identified"]["taps"]
    assert [tap["boundary"] for tap in taps] == list(trained.boundaries)


def test_evaluation_refuses_the_labels_layout_and_ranks_the_true_one_first(trained, dumped, told):
    common = ("evaluate", trained.drafter, dumped, "--target", trained.target, "--masked")
    code, out, _ = told(*common, "--boundaries", listed(trained.labelled), "--json")
    assert code == EXIT_REFUSED
    wrong = json.loads(out)
    code, out, _ = told(*common, "--boundaries", listed(trained.boundaries), "-o", "evaluation.json", "--json")
    assert code == EXIT_OK
    right = json.loads(out)
    assert right["scores"][0]["steps"][0] > 0.6
    assert right["scores"][0]["length"] > wrong["scores"][0]["length"] + 0.5
    assert right["scores"][0]["length"] > max(score["length"] for score in right["scores"][1:])

    common = ("publish", trained.drafter, *VERSION, "--target", trained.target, "--evidence", "evaluation.json")
    assert told(*common, "--boundaries", listed(trained.labelled))[0] == EXIT_INTEGRITY
    assert told(*common, "--boundaries", listed(trained.boundaries))[0] == EXIT_OK
