"""Where a release's exception is said to come from: the same line whatever CPython reports."""

from __future__ import annotations

import pytest

from drafter_contracts.engines.scan.lazy import LazyRelease
from drafter_contracts.engines.scan.raised import raised_at

SOURCE = """
from sglang.srt.other import inner


class ServerArgs:
    def check(self, size):
        assert (
            size
            > 3
        ), (
            "too "
            "small"
        )
        inner(
            size,
        )
"""
OTHER = """
def inner(size):
    return {}[
        size
    ]
"""


@pytest.fixture
def release():
    made = LazyRelease({"server_args.py": SOURCE, "other.py": OTHER})
    yield made
    made.close()


def test_the_first_line_of_the_statement_not_of_the_expression_in_it(release):
    with pytest.raises(AssertionError) as caught:
        release.module("server_args.py").ServerArgs().check(1)
    assert raised_at(caught.value) == {"file": "server_args.py", "function": "ServerArgs.check", "line": 7}


def test_the_innermost_file_of_the_release(release):
    with pytest.raises(KeyError) as caught:
        release.module("server_args.py").ServerArgs().check(9)
    assert raised_at(caught.value) == {"file": "other.py", "function": "inner", "line": 3}


def test_an_exception_from_elsewhere_has_no_place():
    with pytest.raises(KeyError) as caught:
        {}["x"]
    assert raised_at(caught.value) == {}
