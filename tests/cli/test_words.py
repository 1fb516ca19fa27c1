"""Sizes, moments and durations."""

import pytest

from drafter_cli.errors import UsageError
from drafter_cli.words import moment, number, plural, seconds, size


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_499, "999 kB"),
        (999_999, "1 MB"),
        (2_385_000_000, "2.38 GB"),
        (10**18, "1e+06 TB"),
    ],
)
def test_sizes(count, expected):
    assert size(count) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("0", 0), ("90s", 90), ("30m", 1800), ("24h", 86400), ("7d", 604800), ("2w", 1209600)]
)
def test_durations(text, expected):
    assert seconds("--grace", text) == expected


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1.5h", "1 h", "1h ", "1y", "١h", "9999999999h"])
def test_what_is_no_duration(text):
    with pytest.raises(UsageError, match="--grace"):
        seconds("--grace", text)


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1.0", "٣", "--1", "99999999999"])
def test_what_is_no_number(text):
    with pytest.raises(UsageError, match="--limit"):
        number("--limit", text)


def test_numbers_may_be_negative_where_that_means_something():
    assert number("--output-id", "-1", least=-1) == -1


def test_words():
    assert [plural(1, "blob"), plural(0, "blob")] == ["1 blob", "0 blobs"]
    assert moment("2026-11-30T20:18:08.123456Z") == "2026-11-30 20:18 UTC"
    assert moment("") == ""
