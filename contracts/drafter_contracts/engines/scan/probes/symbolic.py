"""Symbolic hidden states: which contributions a tensor of a forward pass is the sum of.

A residual stream is a sum: the embedding and what each layer's sublayers added. A `Value` holds that sum as a
multiset of atoms, each tagged with the layer during which it arose. Adding two values adds their atoms; anything
else that is done to a value (a projection, attention, a norm, an unknown kernel) gives a new atom. So a captured
tensor is the residual stream at a boundary exactly if its atoms are those of that stream. What each atom was made
from is kept, for networks whose stream is no plain sum.
"""

from __future__ import annotations

import sys

from drafter_contracts.engines.scan.standins import Standin, unpack_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal

#: Which sum a tensor is: atoms (the layer during which each arose, and a serial) to how often each is in it.
Atoms = dict[tuple[int, int], int]
#: Tokens and width of every symbolic tensor.
SHAPE = (5, 64)
#: What a norm's result is made by.
NORM = "norm"
#: Tag of what arises outside all layers: the embedding.
OUTSIDE = -1

# Tensor methods that keep the sum: views of rows, conversions of type and place, copies.
_KEEPS = frozenset(
    {
        "bfloat16",
        "clone",
        "contiguous",
        "cpu",
        "cuda",
        "detach",
        "double",
        "expand",
        "flatten",
        "float",
        "half",
        "record_stream",
        "requires_grad_",
        "reshape",
        "squeeze",
        "to",
        "type",
        "type_as",
        "unsqueeze",
        "view",
        "view_as",
    }
)


class Trace:
    """What one forward pass showed.

    Attributes:
        layers: Stack of ordinals of the layer calls under way.
        calls: Layer calls so far.
        entries: Ordinal to the sum of the values that were handed to the layer.
        read: Ordinal to the sum that the layer's first norm was given.
        final: The sum that the last norm outside all layers was given.
        outputs: Ordinal to the sum of the values that the layer returned.
        handed: Ordinal to the values that the layer was called with, one by one.
        returned: Ordinal to the values that the layer returned, one by one.
        ended: Ordinal to the serial of the last atom that was made before the layer returned.
        made: Serial of an atom to what made it, and the sums that it was made from.
        loop: Code of the function that called the first layer.
        delivered: Aux hidden states that reached the logits processor; None if it was not called with any.
        reached: The logits processor was called.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start a new forward pass."""
        self.serial = 0
        self.layers: list[int] = []
        self.calls = 0
        self.entries: dict[int, Atoms] = {}
        self.read: dict[int, Atoms] = {}
        self.final: Atoms | None = None
        self.outputs: dict[int, Atoms] = {}
        self.handed: dict[int, list[Atoms]] = {}
        self.returned: dict[int, list[Atoms]] = {}
        self.ended: dict[int, int] = {}
        self.made: dict[int, tuple[str, list[Atoms]]] = {}
        self.loop: object = None
        self.delivered: object = None
        self.reached = False

    def fresh(self, name: str = "", *sources: object) -> Value:
        """A value that is nothing known: one new atom.

        Args:
            name: What makes it.
            sources: What it is made from: values, and lists and mappings of them.
        """
        self.serial += 1
        if sources:
            self.made[self.serial] = (name, _sums(sources, []))
        return Value({(self.layers[-1] if self.layers else OUTSIDE, self.serial): 1})

    def normed(self, value: object) -> None:
        """A norm was given this sum."""
        atoms = atoms_of(value)
        if atoms is None:
            return
        if not self.layers:
            if self.calls:
                self.final = dict(atoms)
        elif self.layers[-1] not in self.read:
            self.read[self.layers[-1]] = dict(atoms)


TRACE = Trace()


def _sums(values: Iterable[object], found: list[Atoms]) -> list[Atoms]:
    """Sums of all symbolic values among `values`, nested ones too."""
    for value in values:
        if isinstance(value, Value):
            found += [value.atoms, *(part.atoms for part in value.parts())]
        elif isinstance(value, (list, tuple)):
            _sums(value, found)
        elif isinstance(value, dict):
            _sums(value.values(), found)
    return found


def values_in(values: Iterable[object]) -> list[Atoms]:
    """Sums of the symbolic values directly among `values`."""
    return [value.atoms for value in values if isinstance(value, Value)]


def atoms_of(value: object) -> Atoms | None:
    """Atoms of a symbolic value, or None if it is none."""
    return value.atoms if isinstance(value, Value) else None


def total(values: Iterable[object]) -> Atoms:
    """Atoms of the sum of all symbolic values among `values`."""
    result: Atoms = {}
    for value in values:
        for atom, count in (atoms_of(value) or {}).items():
            result[atom] = result.get(atom, 0) + count
    return result


class Value:
    """A symbolic tensor.

    Args:
        atoms: Atom to how often it is in the sum.
    """

    def __init__(self, atoms: Atoms | None = None, *_args: object, **_kwargs: object) -> None:
        self.atoms: Atoms = dict(atoms) if isinstance(atoms, dict) else TRACE.fresh().atoms
        self.shape: tuple[int, ...] = SHAPE

    # sums -----------------------------------------------------------------------------------------------------

    def _plus(self, other: object) -> Value:
        if other is None:
            raise TypeError("unsupported operand type(s) for +: 'Tensor' and 'NoneType'")
        if isinstance(other, (int, float)) and other == 0:
            return Value(self.atoms)
        return Value(total((self, other if isinstance(other, Value) else TRACE.fresh())))

    def parts(self) -> list[Value]:
        """What was written side by side: nothing, in a plain tensor."""
        return []

    __add__ = __radd__ = add = _plus

    def _add_in_place(self, other: object, **_kwargs: object) -> Value:
        self.atoms = self._plus(other).atoms
        return self

    __iadd__ = add_ = _add_in_place

    def copy_(self, other: object, **_kwargs: object) -> Value:
        """Overwrite: everybody who holds this tensor sees the new content."""
        self.atoms = dict(atoms_of(other) or TRACE.fresh().atoms)
        return self

    def new_empty(self, *shape: object, **_kwargs: object) -> Buffer:
        """A buffer to write to."""
        return Buffer(shape[0] if shape and isinstance(shape[0], tuple) else shape)  # type: ignore[arg-type]

    # anything else --------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _KEEPS:
            return lambda *_args, **_kwargs: Value(self.atoms)
        if name in _FACTS:
            return _FACTS[name]
        return _Unknown(name, self)

    def size(self, dim: int | None = None) -> object:
        """Shape, or one of its numbers."""
        return SHAPE if dim is None else SHAPE[dim]

    def dim(self) -> int:
        """Rank."""
        return len(SHAPE)

    def stride(self, dim: int | None = None) -> object:
        """Strides of a contiguous tensor."""
        return (SHAPE[1], 1) if dim is None else (SHAPE[1], 1)[dim]

    def is_contiguous(self, *_args: object, **_kwargs: object) -> bool:
        """Always."""
        return True

    def numel(self) -> int:
        """Elements."""
        return SHAPE[0] * SHAPE[1]

    def __len__(self) -> int:
        return SHAPE[0]

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: object) -> Value:
        rows = key[0] if isinstance(key, tuple) and key else key
        whole = not isinstance(key, tuple) or all(part == slice(None) for part in key[1:])
        return Value(self.atoms) if isinstance(rows, slice) and whole else TRACE.fresh("slice", self)

    def __setitem__(self, key: object, value: object) -> None:
        self.copy_(value)

    def __iter__(self) -> Iterator[object]:
        count = unpack_count(sys._getframe(1)) or 0  # noqa: SLF001 - unpacking needs the number of names
        if count not in (0, SHAPE[0]) and self._is_normed():  # one tensor for certain: it has a row per token
            raise ValueError(f"too many values to unpack (expected {count})")
        return iter([TRACE.fresh("part", self) for _ in range(count)])

    def _is_normed(self) -> bool:
        """Whether this is what a norm returned, and nothing else."""
        made = [TRACE.made.get(serial, ("", []))[0] for _, serial in self.atoms]
        return made == [NORM]

    def _fresh(self, *others: object) -> Value:
        return TRACE.fresh("product", self, others)

    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _fresh
    __neg__ = __pow__ = __and__ = __or__ = __invert__ = __mod__ = __floordiv__ = _fresh
    __lt__ = __le__ = __gt__ = __ge__ = _fresh

    def _fresh_in_place(self, *others: object) -> Value:
        self.atoms = TRACE.fresh("product", self, others).atoms
        return self

    __isub__ = __imul__ = __itruediv__ = mul_ = div_ = sub_ = _fresh_in_place

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exc: object) -> Literal[False]:
        return False

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __deepcopy__(self, memo: object) -> Value:
        return Value(self.atoms)


_FACTS: dict[str, object] = {
    "ndim": 2, "dtype": Standin("dtype"), "device": Standin("device"), "is_cuda": True, "requires_grad": False,
}  # fmt: skip


class Buffer(Value):
    """A tensor that takes captures side by side: a packer's buffer, or a concatenation.

    Attributes:
        slots: First column to the value written there.
    """

    def __init__(self, shape: Iterable[int] = (), parts: Iterable[Value] = ()) -> None:
        self.slots: dict[int, Value] = dict(enumerate(parts))
        super().__init__(TRACE.fresh("cat", list(self.slots.values())).atoms)
        self.shape = tuple(shape)

    def __getitem__(self, key: object) -> Value:
        columns = key[-1] if isinstance(key, tuple) else key
        if isinstance(columns, slice) and isinstance(columns.start, int):
            return self.slots.setdefault(columns.start, TRACE.fresh())
        return TRACE.fresh()

    def parts(self) -> list[Value]:
        """What was written, from left to right."""
        return [self.slots[start] for start in sorted(self.slots)]


def answer(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The hook of `Standin.answer`: an unknown function of tensors gives an unknown tensor, in `out` if told so."""
    if not any(isinstance(value, Value) for value in (*args, *kwargs.values())):
        return NotImplemented
    out = kwargs.get("out")
    made = TRACE.fresh(name, args, {key: value for key, value in kwargs.items() if key != "out"})
    return out.copy_(made) if isinstance(out, Value) else made


def concatenate(tensors: object = (), *_args: object, **_kwargs: object) -> Value:
    """torch.cat: symbolic tensors side by side."""
    parts = list(tensors) if isinstance(tensors, (list, tuple)) else []
    if parts and all(isinstance(part, Value) for part in parts):
        return Buffer(SHAPE, parts)
    return TRACE.fresh("cat", parts)


class _Unknown:
    """An unknown method of a tensor: its result is a new atom."""

    def __init__(self, name: str, owner: Value) -> None:
        self.name = name
        self.owner = owner

    def __call__(self, *args: object, **kwargs: object) -> Value:
        """An unknown tensor."""
        return TRACE.fresh(self.name, self.owner, args, kwargs)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Standin(f"tensor.{self.name}.{name}")

    def __bool__(self) -> bool:
        return False


def unwrap_first(value: object) -> Callable[..., object]:
    """A function that returns its first argument: what a decorator or a barrier does to a value."""
    return lambda first=None, *_args, **_kwargs: first if first is not None else value
