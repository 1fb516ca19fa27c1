"""`drafters identify` on dumps of a small target in every format: what it says, what it writes, how it exits."""

from __future__ import annotations

import json
import os

import pytest
import torch
from making import formats
from making.targets import random_llama

from drafter_cli import main
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_UNKNOWN, EXIT_USAGE
from drafter_contracts.evidence.documents import decode
from drafter_contracts.layout import Tap
from drafter_contracts.values import records
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.targets import run_target

LAYERS = 6
TAPS = (2, 3, 5)
RAW, NORMED = Tap(LAYERS), Tap(LAYERS, "final_norm")


def tokens(count, seed=1):
    return torch.randint(0, 256, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def captured(random_target):
    """The target's states on 60 tokens."""
    return run_target(random_target, tokens(60), dtype="float32")


@pytest.fixture
def states(captured):
    return [captured.states[Tap(boundary)] for boundary in TAPS]


@pytest.fixture
def dump(tmp_path, captured, states):
    """`dump(...)` writes a sample and gives its path; SpecForge's format, the true states, unless told otherwise."""

    def write(form=records.SPECFORGE_EAGLE3, taps=None, last=NORMED, name="data_0", **more):
        last = captured.states[last] if isinstance(last, Tap) else last
        return formats.write(form, str(tmp_path), captured.tokens, taps or states, last, name=name, **more)

    return write


@pytest.fixture
def printed(random_target, capsys):
    """`printed(...)` runs the command: (exit code, standard output, standard error)."""

    def run(*arguments, target=random_target):
        against = () if target is None else ("--target", target)
        capsys.readouterr()
        code = main.main(["identify", *map(str, arguments), *against])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def identify(printed):
    """The same: (exit code, lines)."""

    def run(*arguments, **keywords):
        code, out, err = printed(*arguments, **keywords)
        return code, (out + err).splitlines()

    return run


@pytest.fixture
def document(printed):
    """The same with --json: (exit code, the document)."""

    def run(*arguments, **keywords):
        code, out, _ = printed(*arguments, "--json", **keywords)
        return code, decode(out.encode(), where="stdout")

    return run


NO_LAST = (records.SPECFORGE_DFLASH,)


@pytest.mark.parametrize("form", records.FORMATS)
def test_every_format_is_identified(dump, document, form):
    labels = {"labels": (1, 2, 4)} if form == records.DEEPSPEC else {}
    code, found = document(dump(form, last=None if form in NO_LAST else NORMED, **labels))
    assert (code, found.verdict, found.boundaries) == (EXIT_OK, "identified", TAPS)
    assert [match.number for match in found.states] == [0, 1, 2]
    assert all(match.error <= match.tolerance < 0.01 < match.next_error for match in found.states)
    if form in NO_LAST:
        assert found.last is None
    else:
        assert (found.last.boundary, found.last.state) == (LAYERS, "final_norm")
    (sample,) = found.samples
    assert (sample.format, sample.tokens, sample.compared, sample.dtype) == (form, 60, 60, "float32")
    assert (found.reference.layers, found.reference.dtype) == (LAYERS, "float32")


def test_the_answer_is_one_line_per_state(dump, identify):
    code, lines = identify(dump())
    assert code == EXIT_OK
    first = next(line for line in lines if line.startswith("recorded #0"))
    assert first.startswith("recorded #0 = boundary 2 (output of layer 1), error ")
    assert ", next best boundary 3 at 0." in first
    assert any(line.startswith("last state = final norm (after boundary 6), error") for line in lines)
    assert "identified: boundaries 2, 3, 5 (outputs of layers 1, 2, 4) feed fc, in this order" in lines


def test_the_last_state_before_the_norm_is_called_so(dump, identify, document):
    _, lines = identify(dump(last=RAW))
    assert any("last state = boundary 6 (output of layer 5), before the final norm" in line for line in lines)
    _, found = document(dump(last=RAW))
    assert any("after the final norm, and this one is boundary 6" in note for note in found.notes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_target_runs_in_the_dtype_of_the_states(random_target, tmp_path, document, dtype):
    name = str(dtype).removeprefix("torch.")
    ran = run_target(random_target, tokens(40), dtype=name)
    states = [ran.states[Tap(boundary)] for boundary in TAPS]
    for kept in (dtype, torch.float32):  # states of half precision are often kept as float32
        path = formats.write(records.PLAIN, str(tmp_path / name), ran.tokens, states, dtype=kept)
        code, found = document(path)
        assert (code, found.boundaries, found.reference.dtype) == (EXIT_OK, TAPS, name)
    code, found = document(path, "--dtype", "float32")
    assert (code, found.boundaries, found.reference.dtype) == (EXIT_OK, TAPS, "float32")


def test_the_last_of_states_that_nobody_marks_is_the_last_state_unless_it_is_said_to_be_a_tap(captured, dump, document):
    path = dump(records.STACKED)
    _, found = document(path)
    assert found.boundaries == TAPS
    assert any("--last-is-tap" in note for note in found.notes)
    code, found = document(path, "--last-is-tap")
    assert (code, found.last, found.boundaries) == (EXIT_OK, None, (*TAPS, LAYERS))
    assert found.states[3].state == "final_norm"
    for option, stated in (("--boundaries", (*TAPS, LAYERS)), ("--output-ids", tuple(b - 1 for b in TAPS))):
        _, found = document(path, option, ",".join(map(str, stated)))
        assert len(found.states) == len(stated), "a stated layout counts the states that feed fc"
    _, found = document(dump(records.STACKED, last=None))
    assert (found.boundaries, found.last) == (TAPS, None)
    _, found = document(dump(records.STACKED, taps=[captured.states[RAW]], last=None, name="one"))
    assert (len(found.states), found.last) == (1, None), "one state alone feeds fc"


def test_another_order_is_identified_and_told(dump, states, document):
    code, found = document(dump(taps=[states[2], states[0], states[1]]))
    assert (code, found.boundaries) == (EXIT_OK, (5, 2, 3))
    assert any("not concatenated in ascending" in note for note in found.notes)
    _, found = document(dump())
    assert not any("ascending" in note for note in found.notes)


def rotation():
    generator = torch.Generator().manual_seed(3)
    return torch.linalg.qr(torch.randn(64, 64, generator=generator))[0]


CHANGES = {
    "shifted": (lambda state: torch.roll(state, -1, 0), "shifted: its row t is the target's row t+1"),
    "scaled": (lambda state: state * 0.5, "in a scaled basis, factor 0.5"),
    "rotated": (lambda state: state @ rotation(), "in a rotated basis"),
    "another": (lambda state: torch.randn(state.shape, generator=torch.Generator().manual_seed(4)), "is unknown"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_the_state_itself_is_unknown(dump, states, identify, document, change):
    make, words = CHANGES[change]
    path = dump(taps=[states[0], make(states[1]), states[2]])
    code, lines = identify(path)
    assert code == EXIT_UNKNOWN
    assert words in next(line for line in lines if line.startswith("recorded #1"))
    assert "recorded #1" in lines[-1]
    assert lines[-1].startswith("unknown: ")
    _, found = document(path)
    assert (found.verdict, found.boundaries) == ("unknown", ())
    if change == "another":
        assert any(line.strip().startswith("settled by: ") for line in lines)


def test_degenerate_states_are_refused(dump, states, identify):
    code, lines = identify(dump(taps=[states[0], states[1] * 0, states[2]]))
    assert code == EXIT_INTEGRITY
    assert "zeros" in " ".join(lines)


# Labels and statements


def test_a_stated_layout_is_held_against_the_numbers(dump, document):
    path = dump()
    for right in (("--boundaries", "2,3,5"), ("--output-ids", "1,2,4")):
        code, found = document(path, *right)
        assert (code, found.contradictions) == (EXIT_OK, ())
    code, found = document(path, "--output-ids", "2,3,5")
    assert (code, found.verdict) == (EXIT_INTEGRITY, "identified")
    assert "says 2, which is boundary 3 (output of layer 2); it is boundary 2" in found.contradictions[0]
    assert "the numbers are boundaries" in found.contradictions[-1]
    code, found = document(path, "--boundaries", "0,2,3")
    assert (code, len(found.contradictions)) == (EXIT_INTEGRITY, 3)


def test_labels_beside_the_data_that_lie_are_caught(dump, document):
    """The incident: the labels claim the embedding, the numbers say otherwise."""
    code, found = document(dump(records.SPECULATORS_V1, last=RAW, labels=(0, 2, 4, 5)))
    assert code == EXIT_INTEGRITY
    assert "data_config.json: hidden_states.layer_ids says 0" in found.contradictions[0]
    assert "boundary 0 (embedding output)" in found.contradictions[0]
    assert found.boundaries == TAPS
    assert found.samples[0].labels == (0, 2, 4, 5)
    code, found = document(dump(records.SPECULATORS_V1, last=RAW, labels=(1, 2, 4, 5)))
    assert code == EXIT_OK
    assert any("right as output ids" in note for note in found.notes)
    code, found = document(dump(records.DEEPSPEC, labels=(2, 3, 5), name="cache"))
    assert code == EXIT_INTEGRITY, "this format says output ids, and these are boundaries"


def test_a_contradiction_outweighs_what_is_unknown(dump, states, document):
    code, found = document(dump(taps=[states[0], torch.roll(states[1], 7, 1), states[2]]), "--boundaries", "1,3,5")
    assert (code, found.verdict, len(found.contradictions)) == (EXIT_INTEGRITY, "unknown", 1)


# Several samples


def test_all_samples_must_agree(random_target, tmp_path, dump, document, identify):
    second = run_target(random_target, tokens(40, seed=2), dtype="float32")

    def write(*boundaries):
        states = [second.states[Tap(boundary)] for boundary in boundaries]
        last = second.states[NORMED]
        return formats.write(records.SPECFORGE_EAGLE3, str(tmp_path / "more"), second.tokens, states, last)

    code, found = document(dump(), write(*TAPS))
    assert (code, found.boundaries, len(found.samples)) == (EXIT_OK, TAPS, 2)
    code, found = document(dump(), write(2, 4, 5))
    assert (code, [match.found for match in found.states]) == (EXIT_UNKNOWN, ["identified", "unknown", "identified"])
    for text in ("boundary 3 (output of layer 2)", "boundary 4 (output of layer 3)", os.path.join("more", "data_0")):
        assert text in found.states[1].reason
    code, lines = identify(dump(), write(2, 3))
    assert code == EXIT_INTEGRITY
    assert "same number of states" in " ".join(lines)


def test_a_sample_that_cannot_tell_agrees_with_those_that_can(random_target, tmp_path, dump, document):
    """Of one and the same token over and over, a state equals its neighbours' rows in half precision."""
    monotone = torch.full((40,), 7)
    ran = run_target(random_target, monotone, dtype="bfloat16")
    other = run_target(random_target, tokens(40), dtype="bfloat16")

    def write(name, capture, boundaries=TAPS):
        states = [capture.states[Tap(boundary)] for boundary in boundaries]
        folder = str(tmp_path / name)
        return formats.write(records.SPECFORGE_DFLASH, folder, capture.tokens, states, dtype=torch.bfloat16)

    silent = write("silent", ran)
    code, found = document(silent)
    assert (code, {match.found for match in found.states}) == (EXIT_UNKNOWN, {"unknown"})
    code, found = document(silent, write("telling", other))
    assert (code, found.boundaries) == (EXIT_OK, TAPS)
    assert "silent" in found.states[0].remark
    code, found = document(silent, write("otherwise", other, (2, 4, 5)))
    assert (code, [match.found for match in found.states]) == (EXIT_UNKNOWN, ["identified", "unknown", "identified"])
    assert "the samples disagree" in found.states[1].reason


def test_a_folder_is_compared_as_far_as_asked(dump, document, tmp_path):
    for number in range(3):
        dump(name=f"data_{number}")
    _, found = document(tmp_path)
    assert len(found.samples) == 3
    _, found = document(tmp_path, "--most", "2", "--limit", "30")
    assert [(sample.name, sample.tokens, sample.compared) for sample in found.samples] == [
        ("data_0.ckpt", 60, 30),
        ("data_1.ckpt", 60, 30),
    ]
    assert any("there are more" in note for note in found.notes)


# References


def test_a_capture_stands_in_for_the_target(captured, dump, document, identify, tmp_path):
    path = str(tmp_path / "capture.safetensors")
    write_capture(path, captured)
    code, found = document(dump(), "--reference", path, target=None)
    assert (code, found.boundaries, found.reference.kind) == (EXIT_OK, TAPS, "capture")
    other = formats.write(records.PLAIN, str(tmp_path / "o"), tokens(20, seed=9), [torch.randn(20, 64)])
    code, lines = identify(other, "--reference", path, target=None)
    assert code == EXIT_INTEGRITY
    assert "no capture is of this sample's tokens" in " ".join(lines)


def test_the_capture_of_a_samples_own_tokens_is_chosen(random_target, captured, dump, document, tmp_path):
    second = run_target(random_target, tokens(60, seed=2), dtype="float32")
    paths = [str(tmp_path / name) for name in ("a.safetensors", "b.safetensors")]
    write_capture(paths[0], second)
    write_capture(paths[1], captured)
    code, found = document(dump(), "--reference", *paths, target=None)
    assert (code, found.boundaries) == (EXIT_OK, TAPS)


def test_another_target_is_unknown_not_nearest(dump, document, tmp_path):
    code, found = document(dump(), target=random_llama(str(tmp_path / "other"), seed=5))
    assert code == EXIT_UNKNOWN
    assert {match.found for match in found.states} == {"unknown"}


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ((), None),
        (("--reference", "c"), "t"),
        (("--boundaries", "1", "--output-ids", "0"), "t"),
        (("--limit", "0"), "t"),
    ],
)
def test_what_cannot_be_asked_is_a_usage_error(dump, identify, more, target):
    code, lines = identify(dump(), *more, target=target)
    assert code == EXIT_USAGE, lines


def test_a_target_that_is_nowhere_is_a_usage_error(dump, identify):
    code, lines = identify(dump(), target="org/nowhere")
    assert code == EXIT_USAGE
    assert "neither a directory nor in this machine's Hub cache" in " ".join(lines)


def test_the_document_is_written_and_drawn(dump, identify, tmp_path):
    output, picture = tmp_path / "identify.json", tmp_path / "identify.svg"
    code, _ = identify(dump(), "-o", output, "--plot", picture)
    assert code == EXIT_OK
    found = decode(output.read_bytes(), where="identify.json")
    assert found.boundaries == TAPS
    assert found.tool.startswith("drafters/")
    assert json.loads(output.read_text())["schema"] == "drafters.identification.v1"
    assert b"<svg" in picture.read_bytes()
