"""A profile as bytes, the same bytes for the same profile: what is shipped and what a rescan is compared with.

Fields that hold their default are left out (by value, not by identity, so that it does not matter how a value came
about), keys are sorted, and mappings and lists at the top have one entry per line (in `launch` also those one level
down), so that two profiles can be compared, and stored, line by line.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.errors import InternalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.engines.vllm.profile import VllmProfile


#: Fields that are broken into lines more than one level deep: one line of 50 kB is no line.
_DEPTH = {"launch": 2}


def encode(profile: Profile | VllmProfile) -> bytes:
    """The canonical JSON document of a profile.

    Raises:
        InternalError: The document does not read back as the same profile.
    """
    document = b"".join(sections(profile).values())
    if msgspec.json.decode(document, type=type(profile)) != profile:
        raise InternalError("a profile does not survive its own encoding", where=profile.name)
    return document


def sections(profile: Profile | VllmProfile) -> dict[str, bytes]:
    """The canonical document cut into whole lines, one piece per field; joined they are the document."""
    written = {}
    for field in msgspec.structs.fields(type(profile)):
        value = getattr(profile, field.name)
        if not _is_default(field, value):
            name = field.encode_name
            written[name] = f'"{name}":{_nested(_plain(value), _DEPTH.get(name, 1))}'
    first, last = next(iter(written), ""), next(reversed(written), "")
    return {
        name: f"{'{' if name == first else ''}{text}{'}' if name == last else ','}\n".encode()
        for name, text in written.items()
    }


def _is_default(field: msgspec.structs.FieldInfo, value: object) -> bool:
    if field.default is not msgspec.NODEFAULT:
        return bool(value == field.default and type(value) is type(field.default))
    if field.default_factory is not msgspec.NODEFAULT:
        return bool(value == field.default_factory())
    return False


def _plain(value: object) -> object:
    """Mappings, lists and scalars; structs without the fields that hold their default."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(type(value))
        if type(value).__struct_config__.array_like:
            return [_plain(getattr(value, field.name)) for field in fields]
        kept = (field for field in fields if not _is_default(field, getattr(value, field.name)))
        return {field.encode_name: _plain(getattr(value, field.name)) for field in kept}
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in value}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value


def _compact(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _nested(value: object, depth: int) -> str:
    """A mapping or list with one line per entry, down to this depth."""
    if depth and isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"{_compact(key)}:{_nested(value[key], depth - 1)}" for key in sorted(value)) + "}"
    if depth and isinstance(value, list) and value:
        return "[\n" + ",\n".join(_nested(entry, depth - 1) for entry in value) + "]"
    return _compact(value)
