"""How the text of a launch option's value becomes a value: the converters that releases use."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Suffix to multiplier and whether decimals are allowed before it.
_SUFFIXES: dict[str, tuple[int, bool]] = {
    "Ki": (2**10, False),
    "Mi": (2**20, False),
    "Gi": (2**30, False),
    "Ti": (2**40, False),
    "k": (10**3, True),
    "M": (10**6, True),
    "G": (10**9, True),
    "T": (10**12, True),
}


def _json(text: str) -> object:
    """`json.loads`; msgspec first, because it is loaded already and what it accepts `json` accepts."""
    import msgspec

    try:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            from json import loads

            return loads(text)
    except RecursionError:  # `json.loads` of a release raises it, too
        raise ValueError("nested too deeply") from None


def _strict_json(text: str) -> object:
    """JSON without NaN and Infinity."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _nullable_str(text: str) -> str | None:
    return None if not text or text == "None" else text


def _human_int(text: str) -> int:
    """Integers with SI (decimals allowed) or IEC suffixes, e.g. "25.6k" and "1Ki"."""
    stripped = text.strip()
    for suffix, (multiplier, decimals) in _SUFFIXES.items():
        number = stripped.removesuffix(suffix)
        if number == stripped:
            continue
        whole, point, fraction = number.partition(".")
        if not whole.isdecimal() or (point and not fraction.isdecimal()):
            break
        if not point:
            return int(whole) * multiplier
        if not decimals:
            break
        return int(whole + fraction) * multiplier // int(10 ** len(fraction))
    return int(stripped)


def _text(text: str) -> str:
    return text


#: Converter name, as a profile writes it, to the function. Those functions raise ValueError or TypeError.
CONVERTERS: dict[str, Callable[[str], object]] = {
    "str": _text,
    "int": int,
    "float": float,
    "json": _json,
    "strict_json": _strict_json,
    "nullable_str": _nullable_str,
    "human_int": _human_int,
}


def convert(type_name: str, text: str) -> object:
    """A value's text as the release's converter would make it.

    Args:
        type_name: A key of `CONVERTERS`; "json?NAME": JSON, of which the release's NAME accepts only some; or "?NAME"
            for a converter that behaves like none: text stays text.
        text: The value as written.

    Raises:
        ValueError: The converter refuses the text.
    """
    converter = CONVERTERS.get(type_name.partition("?")[0], _text)
    try:
        return converter(text)
    except TypeError as error:
        raise ValueError(str(error)) from None
