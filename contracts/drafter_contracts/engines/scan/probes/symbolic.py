"""Symbolic hidden states: which contributions a tensor of a forward pass is the sum of.

A residual stream is a sum: the embedding and what each layer's sublayers added. A `Value` holds that sum as a
multiset of atoms, each tagged with the layer during which it arose. Adding two values adds their atoms; anything
else that is done to a value (a projection, attention, a norm, an unknown kernel) gives a new atom. So a captured
tensor is the residual stream at a boundary exactly if its atoms are those of that stream.
"""

from __future__ import annotations

import sys

from drafter_contracts.engines.scan.standins import Module, Standin, StandinMeta, unpack_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal

#: Which sum a tensor is: atoms (the layer during which each arose, and a serial) to how often each is in it.
Atoms = dict[tuple[int, int], int]
#: Tokens and width of every symbolic tensor.
SHAPE = (5, 64)
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
        self.loop: object = None
        self.delivered: object = None
        self.reached = False

    def fresh(self) -> Value:
        """A value that is nothing known: one new atom."""
        self.serial += 1
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
        return _Unknown(name)

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
        return Value(self.atoms) if isinstance(rows, slice) and whole else TRACE.fresh()

    def __setitem__(self, key: object, value: object) -> None:
        self.copy_(value)

    def __iter__(self) -> Iterator[object]:
        count = unpack_count(sys._getframe(1)) or 0  # noqa: SLF001 - unpacking needs the number of names
        return iter([TRACE.fresh() for _ in range(count)])

    def _fresh(self, *_others: object) -> Value:
        return TRACE.fresh()

    __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _fresh
    __neg__ = __pow__ = __and__ = __or__ = __invert__ = __mod__ = __floordiv__ = _fresh
    __lt__ = __le__ = __gt__ = __ge__ = _fresh

    def _fresh_in_place(self, *_others: object) -> Value:
        self.atoms = TRACE.fresh().atoms
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
        super().__init__()
        self.shape = tuple(shape)
        self.slots: dict[int, Value] = dict(enumerate(parts))

    def __getitem__(self, key: object) -> Value:
        columns = key[-1] if isinstance(key, tuple) else key
        if isinstance(columns, slice) and isinstance(columns.start, int):
            return self.slots.setdefault(columns.start, TRACE.fresh())
        return TRACE.fresh()

    def parts(self) -> list[Value]:
        """What was written, from left to right."""
        return [self.slots[start] for start in sorted(self.slots)]


def answer(args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """The hook of `Standin.answer`: an unknown function of tensors gives an unknown tensor."""
    if any(isinstance(value, Value) for value in (*args, *kwargs.values())):
        return TRACE.fresh()
    return NotImplemented


def concatenate(tensors: object = (), *_args: object, **_kwargs: object) -> Value:
    """torch.cat: symbolic tensors side by side."""
    parts = list(tensors) if isinstance(tensors, (list, tuple)) else []
    if parts and all(isinstance(part, Value) for part in parts):
        return Buffer(SHAPE, parts)
    return TRACE.fresh()


class _Unknown:
    """An unknown method of a tensor: its result is a new atom."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_args: object, **_kwargs: object) -> Value:
        """An unknown tensor."""
        return TRACE.fresh()

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Standin(f"tensor.{self.name}.{name}")

    def __bool__(self) -> bool:
        return False


class Leaf(Standin):
    """A sublayer, or a part of one: calling it gives a new atom."""

    def __getattr__(self, name: str) -> Standin:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = Leaf(f"{self._standin_name}.{name}")
        made.__dict__["_made_up"] = True
        self.__dict__[name] = made
        return made

    def __call__(self, *_args: object, **_kwargs: object) -> Value:
        """An unknown tensor."""
        return TRACE.fresh()


class LeafModule(Module):
    """Mixed into a release's sublayer class: keeps its type, computes nothing."""

    def __init__(self, *_args: object, **_kwargs: object) -> None: ...

    def __getattribute__(self, name: str) -> object:
        if name.startswith("__"):
            return object.__getattribute__(self, name)
        known = object.__getattribute__(self, "__dict__")
        if name not in known:
            known[name] = Leaf(f"{type(self).__name__}.{name}")
        return known[name]

    def __call__(self, *_args: object, **_kwargs: object) -> Value:
        """An unknown tensor."""
        return TRACE.fresh()


class NormModule(Module):
    """Mixed into a release's norm class. With a residual it adds first and returns both.

    The contract of `layers/layernorm.py: RMSNorm.forward(x, residual, post_residual_addition)`.
    """

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        self.__dict__["weight"] = Leaf("norm.weight")
        self.__dict__["variance_epsilon"] = 1e-6

    def __getattribute__(self, name: str) -> object:
        if name.startswith("forward"):
            return object.__getattribute__(self, "_apply_norm")
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return Leaf(f"norm.{name}")

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Apply the norm."""
        return self._apply_norm(*args, **kwargs)

    def _apply_norm(self, x: object = None, residual: object = None, *extra: object, **named: object) -> object:
        x = named.get("hidden_states", x)
        if residual is None:
            TRACE.normed(x)
            return TRACE.fresh()
        added = [x, residual, named.get("post_residual_addition"), *extra]
        stream = Value(total(part if isinstance(part, Value) else _addend(part) for part in added))
        TRACE.normed(stream)
        return TRACE.fresh(), stream


def _addend(part: object) -> Value:
    """An addend that is no symbolic tensor: nothing, or something unknown."""
    return TRACE.fresh() if isinstance(part, Standin) else Value({})


_MIXED: dict[tuple[type, type], type] = {}


def mixed(role: type, cls: type) -> type:
    """A subclass of a release's class that behaves as `role` says."""
    key = (role, cls)
    if key not in _MIXED:
        namespace = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
        made = StandinMeta(cls.__name__, (role, cls), namespace)
        made.__abstractmethods__ = frozenset()
        _MIXED[key] = made
    return _MIXED[key]


def construct(role: type, cls: type) -> object:
    """An instance of `mixed(role, cls)`."""
    made = mixed(role, cls)
    instance: Any = object.__new__(made)
    role.__init__(instance)  # type: ignore[misc]
    return instance


def unwrap_first(value: object) -> Callable[..., object]:
    """A function that returns its first argument: what a decorator or a barrier does to a value."""
    return lambda first=None, *_args, **_kwargs: first if first is not None else value
