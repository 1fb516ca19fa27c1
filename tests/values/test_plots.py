"""Pictures of evidence: what is in them, and that they are whole files."""

from __future__ import annotations

import os
import re
import struct
import xml.etree.ElementTree as ET
from itertools import pairwise

import msgspec
import pytest

from drafter_cli.errors import UsageError
from drafter_cli.values import plots
from drafter_cli.values.plots import check_name, draw_evaluation, draw_identification
from drafter_contracts.evidence.documents import (
    EVALUATION,
    IDENTIFICATION,
    Evaluation,
    Identification,
    LayoutScore,
    ReferenceRecord,
    SampleRecord,
    StateMatch,
    TapError,
)

SAMPLE = SampleRecord(name="data_0.pt", sha256="0" * 64, format="modelopt", tokens=512, compared=512, dtype="bfloat16")
LAYERS = 61


def match(number, boundary, *, found="identified", state="residual", error=2e-3):
    errors = [TapError(boundary=at, error=error if at == boundary else 0.3 + 0.01 * at) for at in range(LAYERS + 1)]
    errors.append(TapError(boundary=LAYERS, state="final_norm", error=error if state != "residual" else 2.0))
    return StateMatch(
        number=number,
        found=found,
        boundary=boundary,
        state=state,
        error=error,
        tolerance=0.0117,
        next_boundary=boundary - 1,
        next_error=0.3,
        errors=tuple(errors),
    )


def identification(**changes):
    return msgspec.structs.replace(
        Identification(
            schema=IDENTIFICATION,
            tool="drafters/0.1.0",
            created="2026-12-01T00:00:00Z",
            samples=(SAMPLE,),
            reference=ReferenceRecord(kind="target", model="ORG/$TARGET$", layers=LAYERS, hidden_size=7168),
            states=(match(0, 3), match(1, 31), match(2, 59)),
            last=match(3, LAYERS, state="final_norm"),
            verdict="identified",
            boundaries=(3, 31, 59),
        ),
        **changes,
    )


def evaluation(count=25):
    scores = [
        LayoutScore(
            name="stated" if not at else f"layout {at}",
            boundaries=(3, 31, 59 - at),
            steps=(0.769 - 0.02 * at, 0.5, 0.3),
            length=2.41 - 0.05 * at,
            deviation=0.02,
            behind=-0.05 * at,
            behind_deviation=0.01 if at else 0.0,
        )
        for at in range(count)
    ]
    return Evaluation(
        schema=EVALUATION,
        tool="drafters/0.1.0",
        created="2026-12-01T00:00:00Z",
        drafter="kimi-k2.5-eagle3@1.0",
        weights_sha256="0" * 64,
        method="EAGLE3",
        samples=(SAMPLE,),
        reference=ReferenceRecord(kind="target", model="ORG/TARGET", layers=LAYERS, hidden_size=7168),
        rows=1018,
        scores=tuple(scores),
        recorded=LayoutScore(name="as recorded", boundaries=(), steps=(0.7, 0.5, 0.3), length=2.3),
        verdict="stated",
    )


def texts(path):
    """The texts of an SVG, and the place of each."""
    found = {}
    for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text"):  # noqa: S314 - our own file
        place = re.search(r"translate\(([-\d.]+) ([-\d.]+)\)", element.get("transform", ""))
        x, y = place.groups() if place else (element.get("x", "0"), element.get("y", "0"))
        found["".join(element.itertext())] = (float(x), float(y))
    return found


def png_size(path):
    with open(path, "rb") as file:
        head = file.read(24)
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


def test_an_identification_names_every_state_and_its_match(tmp_path):
    path = tmp_path / "i.svg"
    draw_identification(identification(), str(path))
    shown = texts(path)
    assert {"state 0: boundary 3", "state 1: boundary 31", "state 2: boundary 59", "last state: final norm"} <= set(
        shown
    )
    assert "tolerance: 0.012" in shown
    assert "boundaries 3, 31, 59; against ORG/$TARGET$, 512 tokens" in shown
    assert {"embedding", "61", "final", "norm", "0.01", "1"} <= set(shown)


def test_what_is_not_identified_is_called_unknown(tmp_path):
    path = tmp_path / "i.svg"
    states = (match(0, 3), match(1, 31, found="unknown", error=0.2), match(2, 59, found="transformed"))
    states = (*states[:2], msgspec.structs.replace(states[2], map="rotated", shift=1))
    draw_identification(identification(states=states, verdict="unknown", boundaries=(), last=None), str(path))
    shown = texts(path)
    assert "state 1: unknown" in shown
    assert "state 2: boundary 59, rotated, shifted by +1" in shown
    assert any(text.startswith("boundaries not identified") for text in shown)


def test_a_ring_around_every_match_and_the_final_norm_behind_the_last_boundary():
    states = (match(0, 3), match(1, 31, error=0.0), match(2, LAYERS))
    (axes,) = plots._identification(identification(states=states)).axes
    rings = [line for line in axes.lines if line.get_markersize() == 11]
    places = [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in rings]
    assert places[:3] == [(3, 2e-3), (31, 1e-8), (LAYERS, 2e-3)]
    assert places[3][0] > LAYERS + 1


def test_the_stated_layout_stands_out_and_whiskers_are_of_the_difference():
    document = evaluation(3)
    (axes,) = plots._evaluation(document).axes
    colours = [patch.get_facecolor() for patch in axes.patches[:4]]  # stated, layout 1, layout 2 and as recorded
    assert colours[0] not in colours[1:]
    assert colours[1] == colours[2] != colours[3]
    assert [round(patch.get_x() + patch.get_width(), 6) for patch in axes.patches[:3]] == [2.41, 2.36, 2.31]
    (whiskers,) = axes.collections
    ends = [(round(float(segment[0][0]), 6), round(float(segment[1][0]), 6)) for segment in whiskers.get_segments()]
    assert ends[:3] == [(2.41, 2.41), (2.33, 2.39), (2.28, 2.34)]


def test_an_exact_match_has_a_place_on_the_logarithmic_axis(tmp_path):
    draw_identification(identification(states=(match(0, 3, error=0.0),)), str(tmp_path / "i.svg"))
    assert "1e-08" in texts(tmp_path / "i.svg")


def test_an_evaluation_shows_every_layout_best_first_and_none_over_another(tmp_path):
    path = tmp_path / "e.svg"
    document = evaluation()
    draw_evaluation(document, str(path))
    shown = texts(path)
    labels = [f"{score.name}  [{', '.join(map(str, score.boundaries))}]" for score in document.scores]
    heights = [shown[label][1] for label in labels]
    assert heights == sorted(heights)
    assert all(below - above > 9 for above, below in pairwise(heights))  # 9 points high
    assert heights[2] < shown["as recorded in the samples"][1] < heights[3]
    assert "Acceptance by layout: kimi-k2.5-eagle3@1.0" in shown
    assert "3 tokens drafted per step, 1018 positions; verdict: stated" in shown
    assert any("2.41" in text and "76.9%" in text for text in shown)
    assert "whiskers: ±3 standard errors of the difference from the stated one" in shown


@pytest.mark.parametrize(
    ("draw", "document"), [(draw_identification, identification()), (draw_evaluation, evaluation())]
)
def test_a_png_of_a_sane_size(tmp_path, draw, document):
    draw(document, str(tmp_path / "a.png"))
    width, height = png_size(tmp_path / "a.png")
    assert 700 < width < 2400
    assert 400 < height < 1600
    assert os.listdir(tmp_path) == ["a.png"]


@pytest.mark.parametrize("ending", ["PNG", "svg"])
def test_the_same_document_gives_the_same_bytes(tmp_path, ending):
    for name in ("a", "b"):
        draw_evaluation(evaluation(2), str(tmp_path / f"{name}.{ending}"))
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_a_users_own_settings_change_nothing(tmp_path):
    import matplotlib as mpl

    draw_evaluation(evaluation(3), str(tmp_path / "a.svg"))
    with mpl.rc_context({"axes.facecolor": "black", "font.size": 20, "text.usetex": True}):
        draw_evaluation(evaluation(3), str(tmp_path / "b.svg"))
        draw_identification(identification(last=None), str(tmp_path / "c.svg"))
    assert "0.01" in texts(tmp_path / "c.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_few_bars_and_a_drafter_with_odd_signs(tmp_path):
    document = msgspec.structs.replace(evaluation(1), recorded=None, drafter="a_$b$^<c>")
    draw_evaluation(document, str(tmp_path / "e.svg"))
    assert "Acceptance by layout: a_$b$^<c>" in texts(tmp_path / "e.svg")


@pytest.mark.parametrize("name", ["picture.pdf", "picture", "png", "svg.", "a.png/b"])
def test_other_formats_are_refused(name):
    with pytest.raises(UsageError, match="no name of a picture"):
        check_name(name)
    assert check_name("a.b.SVG") == "svg"


def test_a_picture_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        draw_evaluation(evaluation(2), str(tmp_path / "nowhere" / "e.png"))
