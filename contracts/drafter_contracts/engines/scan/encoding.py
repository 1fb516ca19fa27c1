"""A profile as bytes, the same bytes for the same profile: what is shipped and what a rescan is compared with.

Fields that hold their default are left out (by value, not by identity, so that it does not matter how a value came
about), keys are sorted, and mappings and lists at the top have one entry per line, so that two profiles can be
compared line by line.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.errors import InternalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile


def encode(profile: Profile) -> bytes:
    """The canonical JSON document of a profile.

    Raises:
        InternalError: The document does not read back as the same profile.
    """
    lines = []
    for field in msgspec.structs.fields(type(profile)):
        value = getattr(profile, field.name)
        if not _is_default(field, value):
            lines.append(f'"{field.encode_name}":{_nested(_plain(value))}')
    document = ("{" + ",\n".join(lines) + "}\n").encode()
    if msgspec.json.decode(document, type=type(profile)) != profile:
        raise InternalError("a profile does not survive its own encoding", where=profile.name)
    return document


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


def _nested(value: object) -> str:
    """A mapping or list with one line per entry."""
    if isinstance(value, dict) and value:
        return "{\n" + ",\n".join(f"{_compact(key)}:{_compact(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(_compact(entry) for entry in value) + "]"
    return _compact(value)
