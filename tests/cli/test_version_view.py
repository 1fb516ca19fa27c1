"""A version shown to people: what it captures in both numberings, in which order, and nothing that a terminal obeys."""

import pytest

from drafter_cli.catalogue.version_view import render, render_difference, row
from drafter_cli.terminal import Style
from drafter_contracts.manifest import FileRecord, LayoutRecord, Manifest, TargetRecord
from drafter_contracts.manifest_values import (
    EvaluatedLayout,
    EvaluatedRecord,
    FingerprintRecord,
    IdentifiedRecord,
    IdentifiedTap,
    TapFingerprint,
)
from drafter_registry.documents import Change, Difference, Publication, VersionDocument, VersionSummary

PLAIN = Style(on=False)
DIGEST = "sha256:" + "0" * 64


def shown(width=100, state="live", why="", **manifest):
    summary = VersionSummary(name="d", version="1", digest=DIGEST, fingerprint=DIGEST, state=state, size=7)
    document = VersionDocument(
        summary=summary, manifest=Manifest(schema="drafters.manifest.v1", **manifest), yanked_why=why
    )
    return render(document, style=PLAIN, width=width)


def layout(*boundaries, hidden=64, **more):
    return {
        "layout": LayoutRecord(boundaries=boundaries, **more),
        "target": TargetRecord(layers=61, hidden_size=hidden),
    }


def test_both_numberings_and_the_order():
    text = shown(**layout(59, 0, 3, fc_input_width=192))
    assert "boundaries    59, 0, 3" in text
    assert "output ids    58, -1, 2 (-1 is the embedding)" in text
    lines = [line.strip() for line in text.splitlines() if "columns" in line]
    assert [line.partition(":")[0] for line in lines[-3:]] == [
        "columns 0 to 63",
        "columns 64 to 127",
        "columns 128 to 191",
    ]
    assert "boundary 59" in lines[-3]


def test_taps_of_different_width():
    text = shown(**layout(1, 2, hidden=None, widths=(100, 28), fc_input_width=128))
    assert "columns 0 to 99: boundary 1" in text
    assert "columns 100 to 127: boundary 2" in text


def test_a_state_that_is_no_residual_is_named():
    assert "final_norm" in shown(**layout(3, 61, states=("residual", "final_norm"))).replace("final norm", "final_norm")


def test_widths_that_are_not_known_are_not_made_up():
    text = shown(**layout(1, 2, hidden=None))
    assert "columns" not in text
    assert "2 taps in this order:" in text


def test_no_layout_and_one_that_cannot_be():
    assert "no aux hidden states, or it is not recorded which" in shown(method="STANDALONE")
    assert "which cannot be" in shown(**layout(3, 99))


def test_why_a_version_was_yanked():
    text = shown(state="yanked", why="wrong labels")
    assert text.splitlines()[0] == "d@1  yanked"
    assert "wrong labels" in text


def test_files_that_are_elsewhere():
    place = "hf://org/repo@" + "0" * 40 + "/model.safetensors"
    file = FileRecord(path="model.safetensors", size=10**9, sha256="0" * 64, elsewhere=place)
    text = shown(files=(file,))
    assert "Files: 1 file, 1 GB" in text
    assert f"not kept here: {place}" in text


@pytest.mark.parametrize("width", [1, 40, 80, 10**6])
def test_no_line_of_words_is_wider_than_the_terminal(width):
    manifest = layout(3, 31, evidence=("because " * 60,), known_by="declared")
    limit = min(max(width, 40), 110)
    lines = [line for line in shown(width=width, **manifest).splitlines() if "because" in line]
    assert lines
    assert all(len(line) <= limit for line in lines)


def test_signs_that_a_terminal_obeys_are_escaped():
    text = shown(**layout(3, evidence=("\x1b[2Jgone\rover",)), method="EAGLE3\x07")
    assert not {"\x1b", "\r", "\x07"} & set(text)


def test_a_row_of_the_list():
    summary = VersionSummary(
        name="d",
        version="1",
        digest=DIGEST,
        fingerprint="sha256:abcdef0123456789" + "0" * 48,
        state="yanked",
        target_architecture="KimiK25ForConditionalGeneration",
        published=Publication(by="a", at="2026-11-30T20:18:08Z"),
    )
    assert row(summary) == (
        "d@1",
        "",
        "yanked",
        "",
        "KimiK25ForConditionalGeneration",
        "",
        "0 B",
        "2026-11-30 20:18 UTC",
        "abcdef012345",
    )


def test_differences():
    words = "captures boundary 2 instead of 3, " * 10 + "and 58 instead of 59"
    change = Change(field="layout.boundaries", words=words, contract=True)
    other = Change(field="provenance.notes", words="long " * 100)
    text = render_difference(
        Difference(name="d", before="1", after="2", same_contract=False, changes=(other, change)), style=PLAIN, width=80
    )
    assert text.index("Contract") < text.index("layout.boundaries") < text.index("Everything else")
    flat = " ".join(text.split())
    assert words in flat
    assert flat.count("(--json has all)") == 1
    same = Difference(name="d", before="1", after="2", same_contract=True)
    assert "nothing else differs" in render_difference(same, style=PLAIN, width=80)


def test_evidence_by_values_is_told_with_its_figures():
    identified = IdentifiedRecord(
        taps=(
            IdentifiedTap(boundary=3, error=2e-4, next_boundary=2, next_error=0.31),
            IdentifiedTap(boundary=61, state="final_norm", error=1e-3, next_boundary=61, next_error=0.9),
        ),
        tokens=512,
        dtype="bfloat16",
        sample_sha256="a" * 64,
        sample_format="specforge eagle3",
        reference="org/T, transformers 5",
        document_sha256="b" * 64,
    )
    evaluated = EvaluatedRecord(
        stated=EvaluatedLayout(boundaries=(3, 61), states=("residual", "final_norm"), length=2.05, steps=(0.7, 0.35)),
        next_best=EvaluatedLayout(boundaries=(2, 60), length=1.4),
        tried=9,
        rows=400,
        weights_sha256="c" * 64,
    )
    print_of = FingerprintRecord(
        spec="drafters.fingerprint.v1",
        tokens=(1, 2),
        taps=(TapFingerprint(boundary=3, norms=(1.0, 2.0), first=((1.0,), (1.0,)), projection="AA=="),),
        layers=61,
        width=64,
        dtype="bfloat16",
    )
    told = layout(3, 61, states=("residual", "final_norm"), known_by="identified by values", identified=identified)
    text = shown(width=200, state_fingerprint=print_of, **told)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "known by identified by values" in lines
    text = " ".join(lines)
    for part in (
        "512 tokens of a sample (specforge eagle3, bfloat16) sha256:aaaaaaaaaaaa, against org/T, transformers 5",
        "document sha256:bbbbbbbbbbbb",
        "boundary 3 (output of layer 2): error 2.0e-04, next best boundary 2 at 0.31",
        "final norm (after boundary 61): error 1.0e-03, next best boundary 61 at 0.9",
        "fingerprint 1 tap on 2 tokens (bfloat16)",
    ):
        assert part in text
    assert "evaluated" not in text
    text = " ".join(shown(width=200, **layout(3, 61, states=("residual", "final_norm"), evaluated=evaluated)).split())
    for part in (
        "evaluated 2.05 tokens per step (0.70, 0.35 by drafted token); 400 positions, 9 layouts tried",
        "best of the others: boundaries 2, 60 (outputs of layers 1, 59), 1.40 tokens per step",
    ):
        assert part in text
    assert "fingerprint" not in text
