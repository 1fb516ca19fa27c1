"""The option table of a release: its own `ServerArgs.add_cli_args` run against a parser that is then read out."""

from __future__ import annotations

import argparse
import json

from drafter_contracts.engines.scan.probes.launch_setup import file, strict_json
from drafter_contracts.engines.scan.standins import is_standin
from drafter_contracts.serving.values import CONVERTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.engines.scan.lazy import LazyRelease

SERVER_ARGS = "server_args.py"

#: Texts that tell converters apart.
SAMPLES: tuple[str, ...] = (
    *("", "None", "none", "0", "1", " 7 ", "-3", "+4", "1_000", "1.5", "-0.25", "1e3", "inf", "1k", "25.6k", "0.001k"),
    *("1Ki", "1.5Ki", "2M", "3Gi", "1K", "abc", "a,b", "true", "True", "null", "NaN", '"a"', "[1, 2]", "[]", "{}"),
    *('{"a": 1}', "{'a': 1}", '{"decode": {"backend": "disabled"}}', '{"prefill": {"bs": [1, 2]}}', "auto", "full"),
)


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises instead of leaving."""

    def __init__(self) -> None:
        super().__init__(prog="sglang")

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise what would be printed."""
        raise ValueError(message)


def registered(release: LazyRelease) -> Parser:
    """A parser with the release's own options."""
    parser = Parser()
    file(release, SERVER_ARGS).ServerArgs.add_cli_args(parser)
    return parser


def _behaviour(function: Callable[[str], object]) -> list[object]:
    """What a converter does with each sample; None where it refuses."""
    outcomes: list[object] = []
    for text in SAMPLES:
        try:
            value = function(text)
            outcomes.append([type(value).__name__, repr(value)])
        except (ValueError, TypeError, argparse.ArgumentTypeError):
            outcomes.append(None)
    return outcomes


def converter_name(function: object) -> str:
    """The converter of this project that behaves like the release's own on every sample, or "?NAME"."""
    if function is None:
        return "str"
    if not callable(function) or is_standin(function):
        return "?" + str(getattr(function, "__name__", function))
    found = _behaviour(function)
    table = {**CONVERTERS, "json": json.loads, "strict_json": strict_json}
    for name, ours in table.items():
        if _behaviour(ours) == found:
            return name
    name = str(getattr(function, "__name__", type(function).__name__))
    accepted = [(theirs, ours) for theirs, ours in zip(found, _behaviour(json.loads), strict=True) if theirs]
    return f"json?{name}" if accepted and all(theirs == ours for theirs, ours in accepted) else f"?{name}"


def plain(value: object) -> object:
    """A JSON value, or a ValueError."""
    if is_standin(value):
        raise ValueError("unknown")
    return json.loads(json.dumps(value))


_MARKER = object()


def _run(action: argparse.Action, parser: Parser, values: object) -> object:
    """What an action stores for these values; `_MARKER` for nothing."""
    space = argparse.Namespace(**{action.dest: _MARKER})
    action(parser, space, values, action.option_strings[0])  # type: ignore[arg-type]
    return getattr(space, action.dest)


def _custom(action: argparse.Action, parser: Parser) -> dict[str, object]:
    """What an action class of the release's own does, found by running it on two different values."""
    many = action.nargs in ("+", "*")
    samples: list[object] = [[], []] if action.nargs == 0 else [["x", "y"], ["z"]] if many else ["x", "z"]
    try:
        stored = [_run(action, parser, values) for values in samples]
    except (Exception, SystemExit):  # noqa: BLE001 - refusing is one of the things an action does
        return {"action": "refuse"}
    if all(value is _MARKER for value in stored):
        return {"action": "ignore"}
    if action.nargs != 0 and stored == samples:
        return {"action": "store"}
    if stored[0] != stored[1]:
        return {"action": type(action).__name__}
    if stored[0] is True and action.nargs == 0:
        return {"action": "store_true"}
    return {"action": "store_const", "const": plain(stored[0])}


_STANDARD = {
    "_StoreAction": "store",
    "_StoreTrueAction": "store_true",
    "_StoreFalseAction": "store_false",
    "_StoreConstAction": "store_const",
    "_AppendAction": "append",
    "_HelpAction": "help",
    "_VersionAction": "version",
    "BooleanOptionalAction": "BooleanOptionalAction",
}


def _deprecated(action: argparse.Action) -> str:
    """The release's own word on a deprecated option."""
    help_text = str(action.help or "")
    replacement = str(getattr(action, "new_flag", "") or "")
    if "eprecat" not in type(action).__name__ and not help_text.lstrip(" ([").lower().startswith("deprecat"):
        return ""
    words = " ".join(help_text.split())[:200]
    return words if words and words != argparse.SUPPRESS else f"use {replacement}"


def row(action: argparse.Action, parser: Parser) -> dict[str, object]:
    """One option as data; keys with argparse's own default are left out."""
    kind = _STANDARD.get(type(action).__name__)
    found: dict[str, object] = {"action": kind} if kind else _custom(action, parser)
    data: dict[str, object] = {"names": list(action.option_strings), "dest": action.dest, **found}
    if kind == "store_const":
        data["const"] = plain(action.const)
    if action.type is not None:
        data["type"] = converter_name(action.type)
    if action.nargs not in (None, 0):
        data["nargs"] = str(action.nargs)
        if action.nargs == "?":
            data["const"] = plain(action.const)
    if action.nargs == 0 and data["action"] in ("ignore", "refuse"):
        data["nargs"] = "0"
    if action.choices:  # an empty list comes from a kernel package that is not scanned: such values are not judged
        choices = list(action.choices)
        ordered = sorted(choices, key=str) if isinstance(action.choices, (set, frozenset)) else choices
        data["choices"] = plain(ordered)
    default = action.default
    if isinstance(default, str) and action.type is not None and callable(action.type):
        default = action.type(default)
    if default is not None and default is not argparse.SUPPRESS:
        data["default"] = plain(default)
    if action.required:
        data["required"] = True
    if deprecated := _deprecated(action):
        data["deprecated"] = deprecated
    return data


def explore(release: LazyRelease) -> dict[str, object]:
    """The option table, and what could not be read of it.

    Returns:
        "flags": one mapping per option, in the order of registration; "failed": option to why it is left out;
        "place": where they are registered.
    """
    parser = registered(release)
    flags, failed = [], {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other listing
        try:
            flags.append(row(action, parser))
        except Exception as error:  # noqa: BLE001 - the release's own converter or choices
            failed["/".join(action.option_strings) or action.dest] = f"{type(error).__name__}: {error}"
    cls = file(release, SERVER_ARGS).ServerArgs
    return {"flags": flags, "failed": failed, "place": release.place(cls.add_cli_args)}
