"""Stand-ins of layers and tensors for building a drafter's class: sizes are recorded, parameters have names.

The release's own model classes are built for real. Layers below them (`layers/`, `torch.nn`) become a `Leaf` that
remembers its class and arguments and has the parameters that such a layer has.
"""

from __future__ import annotations

import re

from drafter_contracts.engines.scan.standins import Module, Standin, unpack_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Tokens of every tensor.
ROWS = 5
_LINEAR = re.compile(r"Linear")
_NORM = re.compile(r"Norm$")
_EMBEDDING = re.compile(r"^(?!.*(?:Rotary|Rope)).*Embedding$|LMHead$")
#: Names of the part by which a decoder layer is recognised.
_ATTENTION = ("self_attn", "attn", "decoder_layer")
_INPUT = ("input_size", "in_features", "hidden_size", "normalized_shape", "num_embeddings", "dim")
_OUTPUT = ("output_size", "out_features", "embedding_dim", "hidden_size")


class Record:
    """What happened since the last reset.

    Attributes:
        calls: Leaves that were called, in order.
        loaded: Parameters that a weight loader was given.
        changed: Attributes of modules that were set, with the value.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget."""
        self.calls: list[Leaf] = []
        self.loaded: list[Parameter] = []
        self.changed: list[tuple[str, object]] = []


RECORD = Record()


class Tensor:
    """A tensor of known width.

    Args:
        width: Size of the last dimension.
        label: What it is, for telling results apart.
    """

    def __init__(self, width: int, label: str = "") -> None:
        self.shape = (ROWS, width)
        self.label = label
        self.ndim = 2
        self.device = self.dtype = Standin("tensor.attribute")

    def chunk(self, count: int, **_kwargs: object) -> list[Tensor]:
        """Equal parts along the last dimension."""
        return [Tensor(self.shape[1] // count, self.label) for _ in range(count)]

    def size(self, dim: int | None = None) -> object:
        """As torch's."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        """Not empty."""
        return self.shape[0] * self.shape[1]

    def _same(self, *_args: object, **_kwargs: object) -> Tensor:
        return Tensor(self.shape[1], self.label)

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = __truediv__ = __getitem__ = _same
    clone = contiguous = to = detach = float = view = reshape = type = unsqueeze = squeeze = type_as = flatten = _same

    def __setitem__(self, key: object, value: object) -> None: ...

    def __iter__(self) -> Iterator[Tensor]:
        """A decoder layer's result is unpacked by some classes and used as it is by others."""
        import sys

        count = unpack_count(sys._getframe(1)) or ROWS  # noqa: SLF001 - unpacking needs the number of names
        return iter([Tensor(self.shape[1], f"{self.label}[{i}]") for i in range(count)])

    def __getattr__(self, name: str) -> Standin:
        if name.startswith("__"):
            raise AttributeError(name)
        return Standin(f"tensor.{name}")


class Loaded(Standin):
    """A tensor of the checkpoint, as a loader sees it.

    Args:
        name: Its name.
        made: How it came from the tensor in the file: "as it is", or "offset" (the running index was added).
    """

    def __init__(self, name: str, made: str = "as it is") -> None:
        super().__init__(f"tensor {name}")
        self.__dict__.update(made=made, shape=(4, 4), ndim=2)

    def __add__(self, other: object) -> Loaded:  # type: ignore[override]
        return Loaded(str(self._standin_name), "offset" if "arange" in str(other) else "sum")

    __radd__ = __add__  # type: ignore[assignment]

    def _same(self, *_args: object, **_kwargs: object) -> Loaded:
        return self

    to = cpu = cuda = clone = contiguous = float = narrow = view = reshape = _same


class Parameter(Standin):
    """A parameter: its loader records that it was loaded."""

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        super().__init__("parameter")
        self.__dict__.update(shape=(4, 4), ndim=2, weight_loader=load, data=Loaded("parameter.data"))

    def __hash__(self) -> int:
        return id(self)


def load(param: object, *_args: object, **_kwargs: object) -> None:
    """Stands for every weight loader."""
    if isinstance(param, Parameter):
        RECORD.loaded.append(param)


class DraftModule(Module):
    """Stand-in of torch.nn.Module that lists its parameters as torch does; a decoder layer is not run."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the forward pass, or for a decoder layer give a tensor of the drafter's width."""
        if not isinstance(self, Leaf) and any(name in _ATTENTION for name, _ in children(self)):
            return Tensor(WIDTH[0], "layer")
        return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: object) -> None:
        RECORD.changed.append((name, value))
        object.__setattr__(self, name, value)

    def named_parameters(  # type: ignore[override]
        self, prefix: str = "", *_args: object, **_kwargs: object
    ) -> Iterator[tuple[str, object]]:
        """Parameters with dotted names; one that is reached twice is listed once."""
        seen: set[int] = set()
        for name, module in self.named_modules(prefix):
            for key, value in vars(module).items():
                if isinstance(value, Parameter) and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{name}.{key}" if name else key), value

    def named_modules(  # type: ignore[override]
        self, prefix: str = "", *_args: object, **_kwargs: object
    ) -> Iterator[tuple[str, Module]]:
        """This module and those below it, with dotted names; one that is reached twice is listed once."""
        waiting: list[tuple[str, Module]] = [(prefix, self)]
        seen: set[int] = set()
        while waiting:
            name, module = waiting.pop(0)
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            waiting.extend((f"{name}.{key}" if name else key, child) for key, child in children(module))

    def named_buffers(self, *_args: object, **_kwargs: object) -> Iterator[tuple[str, object]]:
        """None."""
        return iter(())

    def parameters(self, *_args: object, **_kwargs: object) -> Iterator[object]:
        """Parameters without names."""
        return (value for _, value in self.named_parameters())

    def modules(self) -> Iterator[object]:  # type: ignore[override]
        """Modules without names."""
        return (module for _, module in self.named_modules())


def children(module: Module) -> Iterator[tuple[str, Module]]:
    """Modules directly below a module, with their names."""
    for key, value in vars(module).items():
        if isinstance(value, Module):
            yield key, value
    if isinstance(module, DraftList):
        yield from ((str(i), one) for i, one in enumerate(module) if isinstance(one, Module))
    if isinstance(module, DraftDict):
        yield from ((str(key), one) for key, one in module.items() if isinstance(one, Module))


class DraftList(DraftModule):
    """Stand-in of torch.nn.ModuleList and Sequential."""

    _items: list[object]

    def __init__(self, modules: object = (), *more: object) -> None:
        lone = bool(more) or isinstance(modules, Module)
        object.__setattr__(self, "_items", [modules, *more] if lone else list(modules))  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[object]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> object:
        return self._items[index]

    def append(self, module: object) -> DraftList:
        """Add one module."""
        self._items.append(module)
        return self


class DraftDict(DraftModule, dict):  # type: ignore[type-arg]
    """Stand-in of torch.nn.ModuleDict."""

    def __init__(self, modules: object = ()) -> None:
        dict.__init__(self, modules)  # type: ignore[call-overload]

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


class Leaf(DraftModule):
    """A layer that is not looked into.

    Attributes (underscored, beside the parameters and whatever the release sets):
        _kind: Name of the class it stands for.
        _given: Its arguments by name.
        _torch: It is one of torch's own, which return one tensor where the release's return a pair.
    """

    _kind: str
    _given: dict[str, object]
    _torch: bool

    def __init__(self, kind: str, given: dict[str, object], *, torch: bool) -> None:
        own: dict[str, object] = {"_kind": kind, "_given": given, "_torch": torch}
        if _LINEAR.search(kind) or _NORM.search(kind) or _EMBEDDING.search(kind):
            own["weight"] = Parameter()
        if _LINEAR.search(kind) and given.get("bias", True):
            own["bias"] = Parameter()
        for key, value in own.items():
            object.__setattr__(self, key, value)

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        made = Standin(f"{self._kind}.{name}")
        made.__dict__["_made_up"] = True
        return made

    @property
    def in_size(self) -> object:
        """Width of the input, or None."""
        return next((self._given[k] for k in _INPUT if type(self._given.get(k)) is int), None)

    @property
    def out_size(self) -> object:
        """Width of the output, or None."""
        return next((self._given[k] for k in _OUTPUT if type(self._given.get(k)) is int), None)

    @property
    def in_features(self) -> object:
        """As torch's Linear."""
        return self.in_size

    input_size = in_features

    def forward(self, *args: object, **_kwargs: object) -> object:  # type: ignore[override]
        """A tensor of the right width; a norm with a residual returns the normed state and the sum."""
        RECORD.calls.append(self)
        first = next((a for a in args if isinstance(a, Tensor)), Tensor(1))
        out = self.out_size
        if _NORM.search(self._kind):
            normed = Tensor(first.shape[1], "normed")
            return (normed, Tensor(first.shape[1], "residual")) if len(args) > 1 and args[1] is not None else normed
        if _LINEAR.search(self._kind) or _EMBEDDING.search(self._kind):
            made = Tensor(out if isinstance(out, int) else first.shape[1], self._kind)
            return made if self._torch or _EMBEDDING.search(self._kind) else (made, None)
        return Tensor(first.shape[1], self._kind)


def reach(module: Module, name: str, depth: int = 6) -> Iterator[tuple[str, Module]]:
    """This module and those below it, one that has several names under each of them."""
    yield name, module
    if depth:
        for key, child in children(module):
            yield from reach(child, f"{name}.{key}" if name else key, depth - 1)


def is_norm(leaf: object) -> bool:
    """Whether a leaf stands for a norm."""
    return isinstance(leaf, Leaf) and bool(_NORM.search(leaf._kind))  # noqa: SLF001 - a leaf's own record


def is_linear(leaf: object) -> bool:
    """Whether a leaf stands for a linear layer."""
    return isinstance(leaf, Leaf) and bool(_LINEAR.search(leaf._kind))  # noqa: SLF001 - as above


def is_embedding(leaf: object) -> bool:
    """Whether a leaf stands for an embedding or a head."""
    return isinstance(leaf, Leaf) and bool(_EMBEDDING.search(leaf._kind))  # noqa: SLF001 - as above


#: Width of what decoder layers return: the drafter's own hidden size, set by the probe.
WIDTH = [64]


def concatenate(tensors: object, *_args: object, **_kwargs: object) -> object:
    """torch.cat: widths add up."""
    found = list(tensors)  # type: ignore[call-overload]
    if found and all(isinstance(t, Tensor) for t in found):
        return Tensor(sum(t.shape[1] for t in found), "concatenation")
    return found[0] if found else Standin("torch.cat()")
