"""Dumps of a trained target in every format: their layers are named by numbers, whatever somebody wrote beside them."""

from __future__ import annotations

import json

import pytest
import torch
from making import formats

from drafter_cli import main
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_UNKNOWN
from drafter_contracts.evidence.documents import decode
from drafter_contracts.layout import Tap
from drafter_contracts.values import records
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.targets import open_target

DTYPES = ("float32", "bfloat16")


@pytest.fixture(scope="module")
def captures(trained):
    """The target's states on its own text, as it ran in each dtype."""
    text = torch.tensor(trained.text)
    return {dtype: open_target(trained.target, dtype=dtype).run(text) for dtype in DTYPES}


@pytest.fixture(scope="module")
def reference(captures, tmp_path_factory):
    """What the dumps are compared with: every boundary, in float32."""
    path = str(tmp_path_factory.mktemp("reference") / "capture.safetensors")
    write_capture(path, captures["float32"])
    return path


@pytest.fixture
def dump(trained, captures, tmp_path):
    """`dump(form, dtype, boundaries)` writes a sample and gives its path."""

    def write(form, dtype="float32", boundaries=None, **more):
        capture = captures[dtype]
        states = [capture.states[Tap(boundary)] for boundary in boundaries or trained.boundaries]
        last = None if form == records.SPECFORGE_DFLASH else capture.states[Tap(trained.layers, "final_norm")]
        kind = getattr(torch, dtype)
        return formats.write(form, str(tmp_path / "data"), capture.tokens, states, last, dtype=kind, **more)

    return write


@pytest.fixture
def identify(reference, capsys):
    """`identify(...)` runs the command: (exit code, the document)."""

    def run(*arguments):
        capsys.readouterr()
        code = main.main(["identify", *arguments, "--reference", reference, "--json"])
        return code, decode(capsys.readouterr().out.encode(), where="stdout")

    return run


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", records.FORMATS)
def test_every_tap_is_named_and_wrong_labels_are_caught(trained, dump, identify, form, dtype):
    labels = {"labels": [boundary - 1 for boundary in trained.boundaries]} if form == records.DEEPSPEC else {}
    path = dump(form, dtype, **labels)
    right, wrong = (",".join(map(str, layers)) for layers in (trained.boundaries, trained.labelled))
    code, found = identify(path, "--boundaries", right)
    assert (code, found.verdict, found.boundaries) == (EXIT_OK, "identified", trained.boundaries)
    assert (found.samples[0].format, found.samples[0].dtype) == (form, dtype)
    assert all(match.error <= match.tolerance < match.next_error / 2 for match in found.states)

    code, found = identify(path, "--boundaries", wrong)
    assert (code, found.boundaries) == (EXIT_INTEGRITY, trained.boundaries)
    assert found.contradictions


@pytest.mark.parametrize(
    "boundaries", [(0, 2, 5), (2, 4, 5), (1, 4, 6), (3, 6, 8), (7, 5, 2), (5, 2, 7)], ids=lambda layers: f"{layers}"
)
def test_another_list_of_layers_is_named_as_what_it_is(dump, identify, boundaries):
    code, found = identify(dump(records.SPECFORGE_EAGLE3, "bfloat16", boundaries), "--boundaries", "2,5,7")
    assert (code, found.boundaries) == (EXIT_INTEGRITY, boundaries)


def test_text_that_is_one_token_late_is_no_layer(trained, captures, identify, tmp_path):
    capture = captures["float32"]
    states = [capture.states[Tap(boundary)][1:] for boundary in trained.boundaries]
    path = formats.write(records.PLAIN, str(tmp_path), capture.tokens[:-1], states)
    code, found = identify(path)
    assert (code, found.verdict, found.boundaries) == (EXIT_UNKNOWN, "unknown", ())
    assert [match.shift for match in found.states] == [1, 1, 1]


def test_the_command_itself(drafters, trained, dump, tmp_path):
    path = dump(records.SPECULATORS_V1, labels=(*trained.labelled, 7))
    done = drafters("identify", path, "--target", trained.target, "-o", tmp_path / "identify.json", "--json")
    assert done.returncode == EXIT_INTEGRITY, done.stderr
    assert json.loads(done.stdout)["boundaries"] == list(trained.boundaries)
    kept = decode((tmp_path / "identify.json").read_bytes(), where="identify.json")
    assert kept.boundaries == trained.boundaries
