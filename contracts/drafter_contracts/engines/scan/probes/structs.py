"""msgspec's Struct for release code: records with the same constructor and the same field listing.

Releases from 0.5.16 on keep their launch options in Structs. The scanning child has the standard library only, so
that this does what release code relies on: fields from annotations, keyword and positional construction,
`structs.fields`, `structs.replace`, `defstruct`.
"""

from __future__ import annotations

import copy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from drafter_contracts.engines.scan.lazy import LazyRelease


class _NoDefault:
    def __repr__(self) -> str:
        return "NODEFAULT"


NODEFAULT = _NoDefault()


class Field:
    """A field's declaration, `msgspec.field`."""

    def __init__(self, *, default: object = NODEFAULT, default_factory: object = NODEFAULT, name: str = "") -> None:
        self.default = default
        self.default_factory = default_factory
        self.name = name


class FieldInfo:
    """A field as `msgspec.structs.fields` lists it."""

    def __init__(self, name: str, annotation: object, default: object) -> None:
        self.name = self.encode_name = name
        self.type = annotation
        declared = default if isinstance(default, Field) else Field(default=default)
        self.default = declared.default
        self.default_factory: object = declared.default_factory
        if isinstance(self.default, (list, dict, set)):
            held = self.default
            self.default_factory = lambda: copy.copy(held)
            self.default = NODEFAULT

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is NODEFAULT and self.default_factory is NODEFAULT


class StructMeta(type):
    """Collects fields; accepts Struct's class options."""

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, object], **_options: object) -> StructMeta:
        """A class whose `_struct_fields` lists its fields."""
        made = super().__new__(cls, name, bases, names)
        found: dict[str, FieldInfo] = {}
        for base in reversed(made.__mro__[1:]):
            for info in base.__dict__.get("_struct_fields", ()):
                found[info.name] = info
        for field, annotation in names.get("__annotations__", {}).items():  # type: ignore[attr-defined]
            if "ClassVar" not in str(annotation):
                found[field] = FieldInfo(field, annotation, names.get(field, NODEFAULT))
        made._struct_fields = tuple(found.values())  # type: ignore[attr-defined]
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], names: dict[str, object], **_options: object) -> None:
        super().__init__(name, bases, names)


class Struct(metaclass=StructMeta):
    """Base of records."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        fields: tuple[FieldInfo, ...] = self._struct_fields  # type: ignore[attr-defined]
        given = dict(zip((field.name for field in fields), args, strict=False), **kwargs)
        unknown = set(given) - {field.name for field in fields}
        if unknown:
            raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
        for field in fields:
            if field.name in given:
                value = given[field.name]
            elif field.default is not NODEFAULT:
                value = field.default
            elif field.default_factory is not NODEFAULT:
                value = field.default_factory()  # type: ignore[operator]
            else:
                raise TypeError(f"missing required argument {field.name!r}")
            object.__setattr__(self, field.name, value)
        post = getattr(self, "__post_init__", None)
        if post is not None:
            post()

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in self._struct_fields)  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        """As msgspec's: the same type with the same values."""
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self._struct_fields)  # type: ignore[attr-defined]
        return f"{type(self).__name__}({shown})"


def defstruct(
    name: str, fields: Iterable[Any], *, bases: object = (), namespace: object = None, **_options: object
) -> type:
    """`msgspec.defstruct`."""
    names: dict[str, object] = dict(namespace or {})  # type: ignore[call-overload]
    annotations: dict[str, object] = {}
    for field in fields:
        parts: tuple[Any, ...] = (field, object) if isinstance(field, str) else tuple(field)
        annotations[parts[0]] = parts[1]
        if len(parts) > 2:
            names[parts[0]] = parts[2]
    names["__annotations__"] = annotations
    return StructMeta(name, (*(bases or ()), Struct), names)  # type: ignore[misc]


def install(release: LazyRelease) -> None:
    """Put these at msgspec's names for the release's imports."""

    def asdict(value: object) -> dict[str, object]:
        return {field.name: getattr(value, field.name) for field in vars(type(value))["_struct_fields"]}

    def replace(value: object, **changes: object) -> object:
        return type(value)(**{**asdict(value), **changes})

    names: dict[str, Callable[..., object] | object] = {
        "Struct": Struct,
        "defstruct": defstruct,
        "field": Field,
        "NODEFAULT": NODEFAULT,
        "structs.fields": lambda cls: cls._struct_fields,
        "structs.replace": replace,
        "structs.asdict": asdict,
        "structs.force_setattr": object.__setattr__,
    }
    for name, value in names.items():
        release.foreign(f"msgspec.{name}", value)
