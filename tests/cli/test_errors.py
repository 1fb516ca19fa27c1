from __future__ import annotations

import inspect

import pytest

from drafter_cli import errors
from drafter_contracts import errors as contracts
from drafter_contracts.verdict import DECISIONS
from drafter_registry import errors as registry

ALL = [kind for _, kind in inspect.getmembers(contracts, inspect.isclass) if issubclass(kind, contracts.ContractsError)]
DOCUMENTED = dict(errors.EXIT_CODES)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_has_a_documented_exit_code_that_is_no_success(kind):
    code = errors.exit_code_of_error(kind("x"))
    assert code in DOCUMENTED
    assert code != 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), 2),
        (contracts.LaunchError("x"), 2),
        (contracts.LayoutError("x"), 2),
        (contracts.PickleRefusedError("x"), 3),
        (contracts.UnknownReleaseError("x"), 5),
        (contracts.CheckpointError("x"), 7),
        (contracts.ContradictionError("x"), 7),
        (contracts.ManifestError("x"), 7),
        (contracts.InternalError("x"), 1),
        (RuntimeError("x"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes_of_errors(error, code):
    assert errors.exit_code_of_error(error) == code


def test_exit_codes_of_decisions():
    codes = {decision: errors.exit_code_of_decision(decision) for decision in DECISIONS}
    assert codes == {"allow": 0, "warn": 0, "refuse": 3, "unknown": 5}
    assert errors.exit_code_of_decision("perhaps") == 1, "a word that is no decision must never start a launch"


def test_an_error_says_where_what_was_expected_and_what_was_found():
    error = contracts.ManifestError("the field has a wrong value", where="m.json: a", expected="int", actual="null")
    assert errors.error_line(error) == "m.json: a: the field has a wrong value (expected int, got null)"
    assert errors.describe_error(error)["code"] == "MANIFEST_INVALID"


def test_a_fault_that_says_the_same_is_told_once_and_a_long_value_is_cut():
    once = registry.InvalidError("'x' is no scope", faults=(registry.Fault("/scopes/0", "'x' is no scope", "read"),))
    assert errors.error_line(once) == "/scopes/0: 'x' is no scope (expected read)"
    two = (registry.Fault("/a", "a differs", "1", "2"), registry.Fault("/b", "b differs", actual="x" * 500))
    line = errors.error_line(registry.ConflictError("there is other content", faults=two))
    assert line.startswith("there is other content: /a: a differs (expected 1, got 2); /b: b differs (got xxx")
    assert len(line) < 250
