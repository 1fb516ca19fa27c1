"""`drafters evaluate`: what is compared with what, what is said, and the exit codes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import msgspec
import pytest
import torch
from making.formats import write
from safetensors.torch import save_file

from drafter_cli import main
from drafter_contracts.evidence.documents import decode, weights_digest
from drafter_contracts.layout import Tap
from drafter_contracts.manifest_records import Acceptance
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.records import PLAIN, STACKED
from drafter_contracts.values.targets import open_target


@pytest.fixture(scope="module")
def captures(trained):
    target = open_target(trained.target, dtype="float32")
    return [target.run(torch.tensor(text)) for text in trained.texts]


@pytest.fixture(scope="module")
def dumps(trained, captures, tmp_path_factory):
    """A folder of samples that hold what the drafter was trained on, and one of what the labels claim."""
    folder = tmp_path_factory.mktemp("dumps")
    for number, capture in enumerate(captures):
        for name, boundaries in (("true", trained.boundaries), ("labelled", trained.labelled)):
            states = [capture.states[Tap(boundary)] for boundary in boundaries]
            last = capture.states[Tap(trained.layers)]
            mask = (torch.arange(len(capture.tokens)) >= trained.prompt).long()
            path = str(folder / name)
            write(STACKED, path, capture.tokens, states, last, name=f"data_{number}", loss_mask=mask)
    return folder


@pytest.fixture
def told(capsys, monkeypatch, tmp_path):
    """Runs the command in an empty folder, as a registry of its own; exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAFTERS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DRAFTERS_DATA", str(tmp_path / "data"))
    for name in ("DRAFTERS_URL", "DRAFTERS_CONFIG", "DRAFTERS_TOKEN"):
        monkeypatch.setenv(name, "")

    def run(*argv):
        code = main.main(["evaluate", *map(str, argv)])
        out, error = capsys.readouterr()
        return code, out, error

    return run


def config_of(drafter, **changes):
    """Change a copied drafter's config.json; None removes a key."""
    path = os.path.join(drafter, "config.json")
    with open(path, encoding="utf-8") as file:
        config = {**json.load(file), **changes}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({key: value for key, value in config.items() if value is not None}, file)


@pytest.fixture
def copied(trained, tmp_path):
    """The drafter in a folder that may be changed."""
    return shutil.copytree(trained.drafter, tmp_path / "drafter")


def by_name(document):
    return {score.name: score for score in document.scores}


def test_the_trained_layout_is_best_and_kept_in_a_document(told, trained, dumps):
    code, out, error = told(
        trained.drafter, dumps / "true", "--target", trained.target, "-o", "e.json", "--acceptance", "a.json"
    )
    assert code == 0, out
    length = len(trained.text)
    assert f"data_7.safetensors: {length} of {length} tokens" in error
    lines = out.splitlines()
    rows = 8 * (length - 3)
    assert lines[0] == f"drafter: EAGLE3, 3 tokens drafted per step, {rows} rows of 8 samples"
    table = [line for line in lines if "%" in line]
    assert table[0].startswith(("stated", "as recorded"))
    assert sum("2, 5, 7     1, 4, 6" in line for line in table) == 1
    assert any("embedding first" in line and "embedding, 1, 4" in line for line in table)
    assert any(line.startswith("verdict: stated: no layout is better than the stated one") for line in lines)
    assert "note: no embeddings of its own: the target's are used" in lines

    with open("e.json", "rb") as file:
        document = decode(file.read(), where="e.json")
    assert (document.verdict, document.rows, document.method) == ("stated", rows, "EAGLE3")
    assert document.scores[0].boundaries == trained.boundaries
    assert by_name(document)["embedding first"].boundaries == trained.labelled
    assert document.recorded.length == pytest.approx(document.scores[0].length)
    assert [sample.name for sample in document.samples] == [f"data_{number}.safetensors" for number in range(8)]
    with open(os.path.join(trained.drafter, "model.safetensors"), "rb") as file:
        sha256 = hashlib.sha256(file.read()).hexdigest()
    assert document.weights_sha256 == weights_digest({"model.safetensors": sha256})
    assert document.reference.layers == trained.layers

    with open("a.json", "rb") as file:
        acceptance = msgspec.json.decode(file.read(), type=Acceptance)
    assert acceptance.length == document.scores[0].served
    assert (acceptance.steps, acceptance.topk, acceptance.draft_tokens) == (3, 1, 4)
    assert "teacher-forced" in acceptance.notes
    assert (acceptance.measured, acceptance.temperature) == ("teacher-forced", 0.0)
    assert (acceptance.target_dtype, acceptance.date) == ("float32", document.created)
    assert acceptance.dataset.startswith("data_0.safetensors, ")


def test_what_it_writes_is_published(told, trained, dumps, capsys):
    written = ("-o", "e.json", "--acceptance", "a.json")
    code, _, _ = told(trained.drafter, dumps / "true", "--target", trained.target, *written)
    assert code == 0
    named = ("--name", "small", "--version", "1.0", "--target", trained.target, "--producer", "specforge==0.2.0")
    words = ["publish", trained.drafter, *named, "--evidence", "e.json", "--acceptance", "a.json", "--dry-run"]
    assert main.main(words) == 0
    manifest = json.loads(capsys.readouterr().out)
    with open("e.json", "rb") as file:
        first = decode(file.read(), where="e.json").scores[0]
    assert manifest["layout"]["evaluated"]["stated"]["length"] == first.length
    with open("e.json", "rb") as file:
        config = decode(file.read(), where="e.json").config_sha256
    with open(os.path.join(trained.drafter, "config.json"), "rb") as file:
        assert config == hashlib.sha256(file.read()).hexdigest()
    (kept,) = manifest["acceptance"]
    assert (kept["length"], kept["measured"]) == (first.served, "teacher-forced")


def test_a_stated_layout_that_is_worse_is_refused_and_what_the_files_say_is_tried(told, trained, dumps):
    stated = ",".join(map(str, trained.labelled))
    code, out, _ = told(
        trained.drafter, dumps / "true", "--target", trained.target, "--boundaries", stated, "--rows", 500, "--json"
    )
    document = decode(out.encode(), where="stdout")
    assert code == 3
    assert document.verdict == "other"
    assert document.scores[0].boundaries == trained.labelled
    assert by_name(document)["as the files say"].boundaries == trained.boundaries
    assert document.scores[1].boundaries == trained.boundaries
    assert "as the files say, boundaries [2, 5, 7], is better than the stated layout" in document.reason


def test_output_ids_state_the_same_layout_and_steps_may_be_more(told, trained, dumps):
    ids = ",".join(str(boundary - 1) for boundary in trained.boundaries)
    sample = dumps / "true" / "data_0.safetensors"
    code, out, _ = told(
        trained.drafter, sample, "--target", trained.target, "--output-ids", ids, "--steps", 2, "--limit", 80, "--json"
    )
    document = decode(out.encode(), where="stdout")
    assert code == 5  # too few rows
    assert document.scores[0].boundaries == trained.boundaries
    assert "as the files say" not in by_name(document)
    assert len(document.scores[0].steps) == 2
    assert document.rows == 78
    assert (document.samples[0].tokens, document.samples[0].compared) == (len(trained.text), 80)


def test_samples_that_hold_other_states_show_themselves(told, trained, dumps):
    _, out, _ = told(trained.drafter, dumps / "labelled", "--target", trained.target, "--rows", 500, "--json")
    document = decode(out.encode(), where="stdout")
    assert document.recorded.boundaries == ()
    assert document.recorded.length == pytest.approx(by_name(document)["embedding first"].length)
    assert any("the samples' own states are not those of the stated layout" in note for note in document.notes)


def test_the_manifest_states_layout_steps_and_name(told, trained, dumps, copied):
    manifest = {
        "schema": "drafters.manifest.v1",
        "name": "small",
        "version": "2.0",
        "method": "EAGLE3",
        "target": {"layers": trained.layers, "hidden_size": trained.hidden_size},
        "layout": {"boundaries": trained.boundaries},
        "recommended": {"speculative_tokens": 4},
    }
    path = copied / "drafters-manifest.json"
    path.write_text(json.dumps(manifest))
    sample = dumps / "true" / "data_0.safetensors"
    _, out, _ = told(copied, sample, "--target", trained.target, "--json")
    document = decode(out.encode(), where="stdout")
    assert document.drafter == "small@2.0"
    assert len(document.scores[0].steps) == 4

    path.write_text(json.dumps(manifest | {"target": {"layers": 9}}))
    code, _, error = told(copied, sample, "--target", trained.target)
    assert code == 7
    assert "another target than the drafter's manifest names (expected 9 layers, got 8)" in error


def test_a_layout_that_nothing_states(told, trained, dumps, copied):
    config_of(copied, eagle_config=None)
    arguments = (copied, dumps / "true", "--target", trained.target, "--rows", 300)
    code, out, error = told(*arguments)
    assert (code, out) == (5, "")
    assert "the trained layers are not stated" in error
    assert '--layouts "' in error
    code, out, _ = told(*arguments, "--json")
    assert code == 5
    assert json.loads(out)["error"]["code"] == "UNDECIDED"

    code, out, _ = told(*arguments, "--layouts", "0,2,5;2,5,7;0,2,5", "--json")
    document = decode(out.encode(), where="stdout")
    assert code == 5
    assert [(score.name, score.boundaries) for score in document.scores] == [
        ("given 2", (2, 5, 7)),
        ("given 1", (0, 2, 5)),
    ]
    assert document.scores[1].behind < 0
    assert "boundaries [2, 5, 7] are best" in document.reason


def test_captures_instead_of_a_target(told, trained, dumps, captures):
    write_capture("c.safetensors", captures[0])
    sample = dumps / "true" / "data_0.safetensors"
    code, _, error = told(trained.drafter, sample, "--reference", "c.safetensors")
    assert code == 2
    assert "drafter has no embedding of its own" in error
    assert "--target-files" in error
    reference = ("--reference", "c.safetensors", "--target-files", trained.target)
    _, out, _ = told(trained.drafter, sample, *reference, "--json")
    captured = decode(out.encode(), where="stdout")
    _, out, _ = told(trained.drafter, sample, "--target", trained.target, "--json")
    run = decode(out.encode(), where="stdout")
    assert captured.reference.kind == "capture"
    assert captured.scores == run.scores
    code, _, error = told(trained.drafter, sample, "--target", trained.target, "--target-files", trained.target)
    assert code == 2
    assert "--target-files goes with --reference" in error


def test_a_drafter_with_an_embedding_of_its_own_needs_no_target(told, trained, dumps, captures, copied):
    from safetensors.torch import load_file

    from drafter_contracts.values.targets import embedding_and_head

    tensors = load_file(copied / "model.safetensors")
    embedding, _ = embedding_and_head(trained.target)
    save_file(tensors | {"embed_tokens.weight": embedding.clone()}, copied / "model.safetensors")
    write_capture("c.safetensors", captures[0])
    sample = dumps / "true" / "data_0.safetensors"
    _, out, _ = told(copied, sample, "--reference", "c.safetensors", "--json")
    alone = decode(out.encode(), where="stdout")
    _, out, _ = told(trained.drafter, sample, "--target", trained.target, "--json")
    assert alone.scores == decode(out.encode(), where="stdout").scores


def test_only_masked_rows_and_enough_of_them(told, trained, dumps, captures):
    folder = dumps / "true"
    arguments = (trained.drafter, folder, "--target", trained.target, "--json")
    each = len(trained.text) - 3
    _, out, _ = told(*arguments, "--rows", each + 1)
    document = decode(out.encode(), where="stdout")
    assert document.rows == 2 * each
    assert len(document.samples) == 2
    assert any(note.startswith(f"{2 * each} rows are enough (--rows)") for note in document.notes)

    states = [captures[0].states[Tap(boundary)] for boundary in trained.boundaries]
    bare = write(PLAIN, "bare", captures[0].tokens, states)
    code, _, error = told(trained.drafter, bare, "--target", trained.target, "--masked")
    assert code == 2
    assert "holds no loss mask" in error


def test_the_same_text_again_is_no_further_evidence(told, trained, dumps):
    folder = dumps / "true"
    samples = [folder / f"data_{number}.safetensors" for number in (0, 1, 0, 0)]
    _, out, _ = told(
        trained.drafter, *samples, dumps / "labelled" / "data_1.safetensors", "--target", trained.target, "--json"
    )
    document = decode(out.encode(), where="stdout")
    assert document.rows == 2 * (len(trained.text) - 3)
    assert [sample.name for sample in document.samples] == ["data_0.safetensors", "data_1.safetensors"]
    (note,) = [note for note in document.notes if "not counted again" in note]
    assert note.endswith(": data_0.safetensors and 2 more")


def test_samples_without_a_row_to_draft_from(told, trained, dumps):
    arguments = (trained.drafter, dumps / "true", "--target", trained.target)
    code, _, error = told(*arguments, "--limit", 3)
    assert code == 7
    assert "too few tokens to draft from (expected more than 3 tokens" in error
    assert told(*arguments, "--limit", 4)[0] == 5


def test_the_samples_mask_is_used(told, trained, captures):
    from drafter_contracts.values.records import SPECULATORS_V1

    states = [captures[0].states[Tap(boundary)] for boundary in trained.boundaries]
    mask = (torch.arange(len(captures[0].tokens)) >= trained.prompt).long()
    sample = write(SPECULATORS_V1, "masked", captures[0].tokens, states, loss_mask=mask)
    _, out, _ = told(trained.drafter, sample, "--target", trained.target, "--masked", "--json")
    # the first row that counts predicts the first tokens behind the prompt
    assert decode(out.encode(), where="stdout").rows == len(trained.text) - 3 - (trained.prompt - 2)


def test_states_that_do_not_fit_fc_are_left_out_and_told(told, trained, captures):
    two = [captures[0].states[Tap(boundary)] for boundary in trained.boundaries[:2]]
    sample = write(PLAIN, "two", captures[0].tokens, two)
    _, out, _ = told(trained.drafter, sample, "--target", trained.target, "--json")
    document = decode(out.encode(), where="stdout")
    assert document.recorded is None
    assert any("holds 2 states, and the drafter's fc reads 3" in note for note in document.notes)


def test_states_that_are_none_are_refused(told, trained, captures):
    states = [torch.zeros_like(captures[0].states[Tap(1)]) for _ in range(3)]
    sample = write(PLAIN, "zeros", captures[0].tokens, states)
    code, _, error = told(trained.drafter, sample, "--target", trained.target)
    assert code == 7
    assert "no states" in error


def test_a_stored_drafter_by_reference(told, trained, dumps, tmp_path, capsys):
    published = [
        *("publish", trained.drafter, "--name", "small", "--version", "1.0", "--target", trained.target),
        *("--producer", "specforge==0.2.0"),
    ]
    assert main.main(published) == 0
    capsys.readouterr()
    sample = dumps / "true" / "data_0.safetensors"
    _, out, _ = told("small@1.0", sample, "--target", trained.target, "--limit", 40, "--json")
    document = decode(out.encode(), where="stdout")
    assert document.drafter == "small@1.0"
    assert document.scores[0].boundaries == trained.boundaries


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layouts", ";"], "--layouts names no layout"),
        (["--layouts", "3,x"], "--layouts is"),
        (["--boundaries", "2,5,7", "--output-ids", "1,4,6"], "state the same thing"),
        (["--boundaries", "2,5,99"], "boundary out of range (expected 0 to 8, got 99"),
        (["--boundaries", "2,5"], "does not fit the drafter's fc (expected 3 taps, got stated: boundaries 2, 5"),
        (["--steps", "0"], "--steps is '0'"),
        (["--steps", "33"], "33 tokens per step are too many"),
        (["--plot", "picture.pdf"], "picture.pdf is no name of a picture"),
    ],
)
def test_what_cannot_be_understood(told, trained, dumps, arguments, message):
    sample = dumps / "true" / "data_0.safetensors"
    code, _, error = told(trained.drafter, sample, "--target", trained.target, *arguments)
    assert code == 2
    assert message in error


def test_nothing_of_that_name(told, trained, dumps):
    sample = dumps / "true" / "data_0.safetensors"
    code, _, error = told("nowhere", sample, "--target", trained.target)
    assert code == 2
    assert "nowhere is neither a directory" in error
    code, _, error = told(trained.drafter, sample, "--target", "nowhere")
    assert code == 2
    code, _, error = told(trained.drafter, sample)
    assert code == 2
    assert "nothing to compare with" in error


def test_it_draws(told, trained, dumps):
    sample = dumps / "true" / "data_0.safetensors"
    code, _, _ = told(trained.drafter, sample, "--target", trained.target, "--limit", "60", "--plot", "p.svg")
    assert code == 5
    with open("p.svg", encoding="utf-8") as file:
        assert "stated  [2, 5, 7]" in file.read()
