"""What the interpreter makes of a reading of ids."""

from __future__ import annotations

import pytest

from drafter_contracts.engines.capture import capture_switched_off, read_ids, unmet_requirement
from drafter_contracts.engines.profile import IdReading

READING = IdReading(
    keys=("a.ids", "ids"),
    switch="a.use",
    missing="formula",
    broken="error",
    error="ValueError",
    range_low=0,
    range_high="N-1",
    null_stops=("a.ids",),
    coerces=True,
    empty="error",
    requires=("a.rank", "rank"),
)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"a": {"ids": [1, 2]}, "ids": [3]}, ((1, 2), "a.ids", "")),
        ({"a": None, "ids": [3]}, ((3,), "ids", "")),
        ({"a": {"ids": ["4"]}}, ((4,), "a.ids", "")),
        ({"a": {"ids": []}}, (None, "a.ids", "ValueError")),
        ({"a": {"ids": [32]}}, (None, "a.ids", "ValueError")),
        ({"a": {"ids": "x"}}, (None, "a.ids", "ValueError")),
        ({"a": {"ids": None}, "ids": [3], "num_hidden_layers": 1}, ((16,), "formula", "")),
        ({"num_hidden_layers": 3}, ((1, 15, 29), "formula", "")),
        ({}, (None, "formula", "ValueError")),
    ],
)
def test_ids_are_read_as_the_reading_says(config, expected):
    assert read_ids(READING, config, n=32) == expected


def test_a_key_that_escapes_the_range_check_does_not_silence_the_others():
    reading = IdReading(
        keys=("own", "ids"), unchecked=("own",), checks_all=True, broken="error", range_low=0, range_high="N-1"
    )
    assert read_ids(reading, {"own": [40]}, n=32) == ((40,), "own", "")
    assert read_ids(reading, {"own": [40], "ids": [41]}, n=32) == (None, "own", "ValueError")


def test_a_formula_needs_four_layers_unless_the_drafter_has_one():
    assert read_ids(READING, {"num_hidden_layers": 2}, n=3)[2] == "ValueError"
    assert read_ids(READING, {"num_hidden_layers": 1}, n=3)[0] == (1,)


@pytest.mark.parametrize(("value", "off"), [(False, True), (None, True), (0, True), (True, False), ("no", False)])
def test_the_switch_turns_capture_off_by_any_value_that_python_calls_false(value, off):
    assert capture_switched_off(READING, {"a": {"use": value}}) is off
    assert not capture_switched_off(READING, {"a": {}})


def test_a_requirement_is_met_by_the_first_key_that_is_present():
    assert unmet_requirement(READING, {"rank": 4}) == ""
    assert unmet_requirement(READING, {"a": {"rank": 0}, "rank": 4}) == "a.rank"
    assert unmet_requirement(READING, {}) == "a.rank"
