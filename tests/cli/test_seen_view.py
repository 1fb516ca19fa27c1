"""What engines were seen to accept, drawn: a sign per hour or day, the same scale for all, gaps where nothing was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from drafter_cli.catalogue.seen_view import _BLOCKS, _PLAIN, curves, render, sparkline
from drafter_cli.terminal import Style
from drafter_contracts.acceptance.records import Conditions, Observation
from drafter_contracts.manifest_records import Acceptance
from drafter_registry.acceptance_documents import KnownAcceptance, SeenHour

START = datetime(2026, 3, 1, 5, tzinfo=UTC)


def seen(hours, length, release="0.5.23", revision="", instance="a", readings=10):
    hour = (START + timedelta(hours=hours)).isoformat().replace("+00:00", "Z")
    under = Conditions(engine="sglang", release=release, target_revision=revision)
    figures = {"readings": readings, "length": length, "lowest": length, "highest": length}
    return Observation(hour=hour, instance=instance, conditions=under, **figures)


def drawn(*observations, unicode=True, width=100, attached=(), on=False):
    items = [SeenHour(observation=one, by="observer") for one in observations]
    return render(attached, items, style=Style(on=on), width=width, unicode=unicode)


def test_an_hour_is_a_sign_and_a_gap_is_a_gap():
    text = drawn(seen(0, 3.0), seen(1, 3.0), seen(3, 2.0), seen(4, 1.0, instance="b"))
    title, name, curve = text.strip().splitlines()
    assert title == "Seen on engines, by hour since 2026-03-01 05:00 UTC, from 1 to 3.00 tokens per step"
    assert name == "  sglang 0.5.23, 2 instances"
    assert curve == "    ██ ▅▁  1.00 to 3.00, last 1.00: next to nothing is accepted"


def test_releases_and_target_revisions_have_a_curve_each_on_one_axis():
    text = drawn(seen(0, 3.0, "0.5.20"), seen(1, 3.0, "0.5.20"), seen(2, 2.0), seen(3, 2.0, revision="7f3c2a1d9e00ff"))
    names = [line.strip() for line in text.splitlines() if line.startswith("  sglang")]
    assert names == [
        "sglang 0.5.23, target 7f3c2a1d9e00, 1 instance",
        "sglang 0.5.23, 1 instance",
        "sglang 0.5.20, 1 instance",
    ]
    assert [line[4:8] for line in text.splitlines() if line.startswith("    ")] == ["   ▅", "  ▅ ", "██  "]
    assert "next to nothing" not in text


def test_a_longer_time_is_drawn_by_days_and_the_oldest_leave_first():
    text = drawn(*(seen(24 * day, 1 + day / 100) for day in range(100)), width=80)
    assert "by day since 2026-04-28 00:00 UTC" in text
    (curve,) = [line for line in text.splitlines() if line.startswith("    ")]
    assert len(curve[4:].split("  ")[0]) == 80 - 4 - 34
    assert curve.endswith("1.58 to 1.99, last 1.99")


def test_plain_terminals_get_plain_signs():
    text = drawn(seen(0, 1.0), seen(1, 2.0), seen(2, 3.0), unicode=False)
    assert text.isascii()
    assert "_=#" in text


def test_a_name_that_a_terminal_would_obey_is_escaped():
    assert "\x1b" not in drawn(seen(0, 2.0, release="\x1b[2J"))


def test_attached_acceptances_are_told_with_who_and_when():
    told = Acceptance(length=3.1, dataset="MT-Bench", measured="engine")
    known = [
        KnownAcceptance(digest="d", source="attached", acceptance=told, by="bench", at="2026-03-04T12:00:00Z"),
        KnownAcceptance(digest="d", source="manifest", acceptance=Acceptance(length=2.9)),
    ]
    text = drawn(attached=known)
    assert "3.1 tokens per step (MT-Bench, engine); attached 2026-03-04 12:00 UTC by bench" in " ".join(text.split())
    assert "2.9" not in text
    assert drawn() == ""


def test_hours_are_weighed_by_their_readings():
    begins, unit, (curve,) = curves((seen(0, 2.0, readings=30), seen(0, 3.0, readings=10, instance="b")), 40)
    assert (begins, unit) == (START, timedelta(hours=1))
    assert (curve.cells, curve.instances) == ((2.25,), 2)


@given(
    told=st.lists(st.tuples(st.integers(0, 24 * 120), st.floats(1, 9), st.sampled_from("ab")), min_size=1, max_size=30),
    most=st.integers(8, 90),
)
@hypothesis_settings(max_examples=60, deadline=None)
def test_every_curve_has_the_same_cells_and_ends_with_the_latest(told, most):
    begins, unit, found = curves([seen(hours, length, release) for hours, length, release in told], most)
    last = START + timedelta(hours=max(hours for hours, _, _ in told))
    counts = {len(curve.cells) for curve in found}
    assert len(counts) == 1
    count = counts.pop()
    assert 1 <= count <= most
    assert begins + (count - 1) * unit <= last < begins + count * unit
    assert found[0].cells[-1] is not None
    lengths = [length for curve in found for length in curve.cells if length is not None]
    assert min(length for _, length, _ in told) - 1e-9 <= min(lengths)
    assert max(lengths) <= max(length for _, length, _ in told) + 1e-9


@pytest.mark.parametrize("signs", [_BLOCKS, _PLAIN])
def test_more_is_never_drawn_lower(signs):
    lengths = [1 + i / 50 for i in range(150)]
    levels = [signs.index(sign) for sign in sparkline(lengths, lengths[-1], signs)]
    assert levels == sorted(levels)
    assert (levels[0], levels[-1]) == (0, len(signs) - 1)
