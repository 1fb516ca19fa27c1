"""Read a launch's options as one release's argparse would, from its flag table.

A small parser with argparse's own semantics (abbreviations, `--flag=value`, repeated flags, nargs, negative
numbers, `--`), because importing argparse and registering some four hundred options costs more time than the
whole gate may take. It never exits, and it goes on after a problem, so that all problems are seen at once;
tests compare it with `argparse` itself on the same table.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import Flag, flag_dest
from drafter_contracts.serving.launch import ArgumentProblem, Arguments
from drafter_contracts.serving.values import convert

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND_LINE = "command line"

#: nargs to (fewest, most) values; None for no upper bound.
_COUNTS: dict[str, tuple[int, int | None]] = {"": (1, 1), "?": (0, 1), "*": (0, None), "+": (1, None)}
#: Actions that take no value.
_SWITCHES = ("store_true", "store_false", "store_const", "help", "version", "BooleanOptionalAction", "count")


class _Option(msgspec.Struct, frozen=True):
    """A token that looks like an option: which flags it may mean, the name as written, the value after `=`."""

    flags: tuple[tuple[str, Flag], ...]
    written: str
    explicit: str | None = None


def counts(flag: Flag) -> tuple[int, int | None]:
    """Fewest and most values that a flag takes (None: no upper bound).

    A constant whose flag has choices replaces a flag that took a value, and still takes one of them.
    """
    chosen = flag.action == "store_const" and flag.choices is not None
    if flag.nargs in _COUNTS and (flag.nargs != "" or flag.action not in _SWITCHES or chosen):
        return _COUNTS[flag.nargs]
    exact = int(flag.nargs) if flag.nargs.isdecimal() else 0
    return exact, exact


def _is_negative_number(token: str) -> bool:
    """Argparse's own idea of one: "-5", "-.5", "-1.5"."""
    whole, point, fraction = token[1:].partition(".")
    if point:
        return fraction.isdecimal() and (not whole or whole.isdecimal())
    return whole.isdecimal()


class _Reader:
    """One pass over one argument list."""

    def __init__(self, flags: Sequence[Flag], argv: Sequence[str], origins: Sequence[str] | None) -> None:
        self.names = {name: flag for flag in flags for name in flag.names if name.startswith("-")}
        self.argv = argv
        self.origins = origins
        self.values: dict[str, object] = {}
        self.given: dict[str, str] = {}
        self.spelled: dict[str, str] = {}
        self.deprecated: dict[str, str] = {}
        self.problems: list[ArgumentProblem] = []
        self.required: dict[str, Flag] = {}
        for flag in flags:
            if flag.required:
                self.required[flag_dest(flag)] = flag
            if flag.action not in ("help", "version"):
                self.values.setdefault(flag_dest(flag), flag.default)

    def origin(self, index: int) -> str:
        """Where the token at `index` was written."""
        return self.origins[index] if self.origins else COMMAND_LINE

    def problem(self, kind: str, flag: str, value: str = "", expected: str = "", nearest: str = "") -> None:
        """Record a refusal and go on."""
        self.problems.append(ArgumentProblem(kind, flag, value, expected, nearest))

    def classify(self, token: str) -> _Option | None:
        """The option that a token is, or None if it is a value. `argparse.ArgumentParser._parse_optional`."""
        if len(token) < 2 or token[0] != "-":
            return None
        exact = self.names.get(token)
        if exact is not None:
            return _Option(((token, exact),), token)
        name, equals, rest = token.partition("=")
        explicit = rest if equals else None
        if equals and name in self.names:
            return _Option(((name, self.names[name]),), name, explicit)
        found = self.abbreviated(token, name, explicit)
        if found is not None:
            return found
        if _is_negative_number(token) or " " in token:
            return None
        return _Option((), name, explicit)

    def abbreviated(self, token: str, name: str, explicit: str | None) -> _Option | None:
        """Options that an abbreviation may mean."""
        if token[1] == "-":
            matches = tuple((full, flag) for full, flag in self.names.items() if full.startswith(name))
            return _Option(matches, name, explicit) if matches else None
        short = self.names.get(token[:2])
        if short is not None:
            return _Option(((token[:2], short),), token[:2], token[2:])
        return None

    def read(self) -> None:
        """Go through the arguments once."""
        options, stop = [], len(self.argv)
        for index, token in enumerate(self.argv):
            if token == "--":  # noqa: S105 - argparse's end of options
                stop = index
                break
            options.append(self.classify(token))
        index = 0
        while index < stop:
            option = options[index]
            if option is None:
                self.problem("unexpected_value", "", self.argv[index], "an option: this command takes no positional")
                index += 1
                continue
            end = index + 1
            while end < stop and options[end] is None:
                end += 1
            index = self.consume(option, index, self.argv[index + 1 : end])
        if stop < len(self.argv):
            rest = " ".join(self.argv[stop:])
            self.problem("unexpected_value", "--", rest, "nothing: this command takes no positional")

    def consume(self, option: _Option, index: int, following: Sequence[str]) -> int:
        """Take one option and its values; returns the index of the next token."""
        after = index + 1 + len(following)
        if len(option.flags) > 1:
            expected = "one of " + ", ".join(name for name, _ in option.flags)
            self.problem("ambiguous", option.written, option.explicit or " ".join(following), expected)
            return after
        if not option.flags:
            self.unknown(option, following)
            return after
        name, flag = option.flags[0]
        low, high = counts(flag)
        if option.explicit is not None:
            if high == 0:
                self.problem("unexpected_value", name, option.explicit, "no value")
            elif low > 1:
                self.problem("missing_value", name, option.explicit, f"{low} values")
            else:
                self.apply(flag, name, option.written, [option.explicit], index)
            return index + 1
        taken = len(following) if high is None else min(len(following), high)
        if taken < low:
            self.problem("missing_value", name, "", "one value" if low == 1 else f"{low} values")
            self.required.pop(flag_dest(flag), None)
            return after
        self.apply(flag, name, option.written, list(following[:taken]), index)
        return index + 1 + taken

    def unknown(self, option: _Option, following: Sequence[str]) -> None:
        """An option that the release does not know."""
        value = option.explicit if option.explicit is not None else " ".join(following)
        nearest = nearest_name(option.written, self.names) if len(self.problems) < _SUGGESTED else ""
        self.problem("unknown_flag", option.written, value, "", nearest)

    def apply(self, flag: Flag, name: str, written: str, texts: list[str], index: int) -> None:
        """Convert, check and store."""
        dest = flag_dest(flag)
        self.required.pop(dest, None)
        value = self.value(flag, name, texts)
        if value is _REFUSED:
            return
        self.given[dest] = self.origin(index)
        self.spelled[dest] = written
        if flag.deprecated:
            self.deprecated[dest] = flag.deprecated
        if flag.action == "refuse":
            self.problem("unknown_flag", name, " ".join(texts), flag.deprecated or "nothing: this flag was removed")
        elif flag.action == "append":
            earlier = self.values.get(dest)
            self.values[dest] = [*(earlier if isinstance(earlier, list) else []), value]
        elif flag.action != "ignore":
            self.values[dest] = value

    def value(self, flag: Flag, name: str, texts: list[str]) -> object:
        """The value of an occurrence, or `_REFUSED`."""
        if flag.action in ("store_true", "store_false", "help", "version"):
            return flag.action != "store_false"
        if flag.action == "BooleanOptionalAction":
            return not name.startswith("--no-")
        if flag.action == "store_const" and not texts:
            return flag.const
        if not texts and flag.nargs == "?":
            return self.one(flag, name, flag.const) if isinstance(flag.const, str) else flag.const
        converted = [self.one(flag, name, text) for text in texts]
        if any(value is _REFUSED for value in converted):
            return _REFUSED
        if flag.action == "store_const":
            return flag.const
        return converted[0] if flag.nargs in ("", "?") and converted else converted

    def one(self, flag: Flag, name: str, text: str) -> object:
        """One value converted and checked, or `_REFUSED`."""
        try:
            value = convert(flag.type, text)
        except ValueError:
            self.problem("bad_value", name, text, _KINDS.get(flag.type.partition("?")[0], flag.type))
            return _REFUSED
        if flag.choices is not None and value not in flag.choices:
            expected = ", ".join(str(choice) for choice in flag.choices)
            self.problem("bad_choice", name, text, expected, nearest_name(text, [str(c) for c in flag.choices]))
            return _REFUSED
        return value


_REFUSED = object()
#: For so many problems a name that was meant is looked for, which is slow.
_SUGGESTED = 20
_KINDS = {
    "int": "an integer",
    "float": "a number",
    "json": "JSON",
    "strict_json": "JSON",
    "human_int": "an integer, e.g. 1000, 1k or 1Ki",
}


def nearest_name(written: str, known: Sequence[str] | dict[str, Flag]) -> str:
    """The known name closest to what was written, or ""."""
    from difflib import get_close_matches  # slow to import, needed for a refusal only

    candidates = [written.replace("_", "-"), written]
    for candidate in candidates:
        if candidate in known:
            return candidate
    found = get_close_matches(candidates[0], list(known), n=1, cutoff=0.6)
    return found[0] if found else ""


def parse_arguments(flags: Sequence[Flag], argv: Sequence[str], origins: Sequence[str] | None = None) -> Arguments:
    """Read `argv` as a release with this flag table would.

    Args:
        flags: The release's flag table.
        argv: What the release's own parser sees (without the program's name).
        origins: For each token where it was written, if not all on the command line.

    Returns:
        Values by dest with defaults, what was given and how it was spelled, and every problem. With a problem
        the release's parser would exit; the values are then what could be read.
    """
    reader = _Reader(flags, argv, origins)
    reader.read()
    if "help" not in reader.given and "version" not in reader.given:
        for flag in reader.required.values():
            reader.problem("required", flag.names[0], "", "a value")
    return Arguments(reader.values, reader.given, reader.spelled, reader.deprecated, tuple(reader.problems))
