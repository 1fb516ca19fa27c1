"""Conditions over a launch's options: how a profile says when something holds.

A condition is one or more tests joined by " & ", all of which must hold:

* "NAME": the option is given a value that is true in Python's sense;
* "NAME==VALUE", "NAME!=VALUE", "NAME>VALUE", "NAME>=VALUE": compared with an integer, `true`, `false`, `null` or text;
* "NAME in A|B|C".

NAME is an option's dest; dots go into mappings ("cuda_graph_config.decode.backend").
"""

from __future__ import annotations

from drafter_contracts.errors import ProfileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_OPERATORS = ("==", "!=", ">=", ">")


def _lookup(name: str, values: Mapping[str, object]) -> object:
    if name in values:
        return values[name]
    value: object = values
    for part in name.split("."):
        if not hasattr(value, "get"):
            return None
        value = value.get(part)
    return value


def _literal(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() else text


def _compare(found: object, operator: str, wanted: object) -> bool:
    if operator == "==":
        return found == wanted and (found is None) == (wanted is None)
    if operator == "!=":
        return found != wanted
    if not isinstance(found, (int, float)) or not isinstance(wanted, (int, float)):
        return False
    return found > wanted if operator == ">" else found >= wanted


def _test(test: str, values: Mapping[str, object]) -> bool:
    name, found, rest = test.partition(" in ")
    if found:
        return _lookup(name.strip(), values) in [_literal(word) for word in rest.strip().split("|")]
    for operator in _OPERATORS:
        name, found, rest = test.partition(operator)
        if found:
            return _compare(_lookup(name.strip(), values), operator, _literal(rest.strip()))
    if not test.strip() or " " in test.strip():
        raise ProfileError("not a condition over launch options", actual=test)
    return bool(_lookup(test.strip(), values))


def holds(condition: str, values: Mapping[str, object]) -> bool:
    """Whether a condition holds for a launch's option values.

    Args:
        condition: A condition as the module's docstring describes it; "" always holds.
        values: dest to value, plus what the caller adds ("algorithm", "architecture", ...).

    Raises:
        ProfileError: The condition is not one.
    """
    return not condition or all(_test(test, values) for test in condition.split(" & "))
