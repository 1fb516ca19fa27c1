"""Write option values as the arguments that one release's own parser reads back to the same values.

An engine that is started from Python (`sgl.Engine(**kwargs)`, a `ServerArgs`) has no command line. What is known of a
release's launch is known of its options, so that its values are written as options first. Nothing is believed here:
every way to write a value is read back by the release's flag table, and counts only if the same value comes out.
"""

from __future__ import annotations

import os

import msgspec

from drafter_contracts.engines.launch_rules import Flag, flag_dest
from drafter_contracts.serving.parse import counts, nearest_name, parse_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Actions that set nothing, whatever is written.
_SILENT = ("ignore", "refuse", "help", "version")
#: Types of what stands for "no default" in dataclasses and in msgspec's structs.
_NO_DEFAULT = ("_MISSING_TYPE", "NoDefaultType", "NODEFAULT")


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """Values as arguments.

    Attributes:
        argv: The arguments, in the order of the values.
        unknown: Name that no option of the release has, to the closest one that it has ("" for none).
        unwritable: Name to what its option takes, for values that no argument gives (an object, say).
    """

    argv: tuple[str, ...] = ()
    unknown: dict[str, str] = msgspec.field(default_factory=dict)
    unwritable: dict[str, str] = msgspec.field(default_factory=dict)


def arguments_of(flags: Sequence[Flag], values: Mapping[str, object]) -> Written:
    """The arguments that a release reads back to these values.

    Args:
        flags: The release's flag table.
        values: Name of an option to its value, of whatever type: the attribute that the option sets ("tp_size"), or
            any of its long names with underscores ("tensor_parallel_size"). Paths are taken as text, enumerations by
            their value, tuples as lists, and records (dataclasses, msgspec structs) as mappings.

    Returns:
        Exactly one occurrence per value, or several for an option that adds up. A value that cannot be written and is
        the option's default anyway is left out.
    """
    options = _Options(flags)
    argv: list[str] = []
    unknown: dict[str, str] = {}
    unwritable: dict[str, str] = {}
    for name, given in values.items():
        found = options.named(name)
        if not found:
            unknown[name] = options.nearest(name)
            continue
        value = plain(given)
        tokens = _written(flags, found, value)
        if tokens is not None:
            argv += tokens
        elif not _same(options.default(found), value):
            unwritable[name] = _takes(found[0])
    return Written(tuple(argv), unknown, unwritable)


def stated_values(flags: Sequence[Flag], record: object) -> dict[str, object]:
    """The values of a record's fields that say something: those that an absent option would not have.

    Args:
        flags: The release's flag table.
        record: A `ServerArgs`: a dataclass or a msgspec struct, or the mapping that a running engine tells of one.
            Where a field has no option, its own default counts; a field that is None by its own default says nothing,
            whatever its option's default is.
    """
    options = _Options(flags)
    told = record if isinstance(record, dict) else None
    found = {}
    for name in (record_fields(record) or ()) if told is None else told:
        named, own = options.named(name), _field_default(record, name)
        default = options.default(named) if named else own
        value = getattr(record, name, None) if told is None else told[name]
        silent = value is None and own is None
        if not silent and not _same(plain(value), plain(default)):
            found[name] = value
    return found


def _field_default(record: object, name: str) -> object:
    """The default of a record's field; None where it has none."""
    fields: tuple[str, ...] = getattr(record, "__struct_fields__", ())
    if fields:
        defaults = getattr(record, "__struct_defaults__", ())
        default = dict(zip(reversed(fields), reversed(defaults), strict=False)).get(name)
        factory = getattr(default, "factory", None)
    else:
        declared = getattr(record, "__dataclass_fields__", {}).get(name)
        factory, default = getattr(declared, "default_factory", None), getattr(declared, "default", None)
    if isinstance(factory, type) and factory in (list, dict, set, tuple):
        return factory()
    return None if type(default).__name__ in _NO_DEFAULT else default


def plain(value: object) -> object:
    """A value in JSON's own types where it has such a form, else as it is.

    Args:
        value: Whatever a caller of the engine's Python interface may give.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(inner) for inner in value]
    names = record_fields(value)
    if names is not None and not isinstance(value, type):
        return {name: plain(getattr(value, name, None)) for name in names}
    if not isinstance(value, type) and hasattr(type(value), "__members__"):  # an enumeration
        return plain(getattr(value, "value", value))
    return value


def record_fields(value: object) -> tuple[str, ...] | None:
    """Names of the fields of a dataclass or msgspec struct, or of an instance of one; None for anything else."""
    fields = getattr(value, "__struct_fields__", None)
    if fields is None:
        declared = getattr(value, "__dataclass_fields__", None)
        fields = tuple(declared) if isinstance(declared, dict) else None
    return tuple(fields) if isinstance(fields, tuple) else None


class _Options:
    """A flag table by the names under which a value may be given."""

    def __init__(self, flags: Sequence[Flag]) -> None:
        self._by_dest: dict[str, list[Flag]] = {}
        self._by_name: dict[str, list[Flag]] = {}
        self._defaults: dict[str, object] = {}
        for flag in flags:
            self._defaults.setdefault(flag_dest(flag), flag.default)
            if flag.action in _SILENT:
                continue
            self._by_dest.setdefault(flag_dest(flag), []).append(flag)
            for name in flag.names:
                if name.startswith("--"):
                    self._by_name.setdefault(name[2:].replace("-", "_"), []).append(flag)

    def named(self, name: str) -> list[Flag]:
        """Options that set this value, those first that the release does not call deprecated."""
        found = self._by_dest.get(name) or self._by_name.get(name) or []
        return sorted(found, key=lambda flag: (bool(flag.deprecated), flag.action == "store_const"))

    def default(self, options: Sequence[Flag]) -> object:
        """The value that stands where none of these is given: the first declared one's, as in argparse."""
        return self._defaults[flag_dest(options[0])]

    def nearest(self, name: str) -> str:
        """The closest name that a value may have, or ""."""
        return nearest_name(name, sorted({*self._by_dest, *self._by_name}))


def _written(flags: Sequence[Flag], options: Sequence[Flag], value: object) -> list[str] | None:
    """The first way to write a value that reads back to it, or None."""
    for flag in options:
        for tokens in _ways(flag, value):
            read = parse_arguments(flags, tokens)
            wrong = [problem for problem in read.problems if problem.kind != "required"]
            dest = flag_dest(flag)
            if not wrong and list(read.given) == [dest] and _same(read.values[dest], value):
                return tokens
    return None


def _ways(flag: Flag, value: object) -> Iterator[list[str]]:
    """Ways to write a value, the plainest first; most of them read back to another value, or to none."""
    name = next((name for name in flag.names if name.startswith("--")), flag.names[0])
    fewest, most = counts(flag)
    if fewest == 0:
        yield from ([switch] for switch in flag.names)
    if most == 0:
        return
    for text in _texts(value):
        yield [name, text]
        yield [f"{name}={text}"]
    if isinstance(value, list):
        for texts in zip(*(list(_texts(inner)) for inner in value), strict=False):
            yield [name, *texts]
            yield [f"{name}={text}" for text in texts]
    for choice in flag.choices or ():
        yield [name, str(choice)]


def _texts(value: object) -> Iterator[str]:
    """Texts that a converter may turn into a value."""
    if isinstance(value, str):
        yield value
    elif value is None:
        yield "None"
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        yield str(int(value))
    if isinstance(value, (int, float)):
        yield str(value)
    try:
        yield msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return


def _same(first: object, second: object) -> bool:
    """Equal, and neither a truth value nor its number."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    try:
        return bool(first == second)
    except Exception:  # noqa: BLE001 - an array, say: whatever its own comparison raises
        return False


def _takes(flag: Flag) -> str:
    """What an option takes, for a message."""
    if flag.choices is not None:
        return "one of " + ", ".join(str(choice) for choice in flag.choices)
    kind = {"str": "text", "nullable_str": "text or None"}.get(flag.type, flag.type.partition("?")[0] or "text")
    if flag.action in ("store_true", "store_false", "BooleanOptionalAction", "store_const"):
        kind = "true or false"
    many = flag.nargs in ("+", "*") or flag.nargs.isdecimal() or flag.action == "append"
    return f"a list of {kind}" if many else kind
