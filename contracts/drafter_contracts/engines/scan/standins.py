"""Objects that take the place of everything a release imports from elsewhere (torch, triton, transformers ...).

A stand-in accepts what Python code does with an unknown library: any attribute, any call, subclassing,
decorating, entering, comparing, arithmetic, annotations. It is deterministic: false, empty and zero, equal to
itself only, and named after the path it was reached by. A probe that needs more puts its own object in place
(`lazy.LazyRelease.replace`).
"""

from __future__ import annotations

import abc
import opcode
import sys
import zlib
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any, Literal, NoReturn

_UNPACK_SEQUENCE = opcode.opmap["UNPACK_SEQUENCE"]
_UNPACK_EX = opcode.opmap["UNPACK_EX"]
_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]


class StandinMeta(abc.ABCMeta):
    """Metaclass of every class that stands in for a foreign base class.

    A subclass of ABCMeta, so that release classes may combine such a base with `abc.ABC`.
    """

    #: Asked first when a class is called: returns the instance, or NotImplemented to construct as usual.
    constructor: Callable[[type, tuple[object, ...], dict[str, object]], object] | None = None

    def __call__(cls, *args: object, **kwargs: object) -> object:
        """Construct, unless the probe's `constructor` gives the instance."""
        if StandinMeta.constructor is not None:
            made = StandinMeta.constructor(cls, args, kwargs)
            if made is not NotImplemented:
                return made
        return super().__call__(*args, **kwargs)


class StandinBase(metaclass=StandinMeta):
    """Base of the classes that replace a foreign base class: unknown attributes are stand-ins."""

    _standin_name = "?"

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__()

    def __class_getitem__(cls, item: object) -> type:
        return cls

    def __getattr__(self, name: str) -> Standin:
        if name.startswith("__"):
            raise AttributeError(name)
        return Standin(f"{type(self)._standin_name}().{name}")  # noqa: SLF001 - the class's own


class Module(metaclass=StandinMeta):
    """Stand-in for torch.nn.Module: attributes are real, so that a missing method is missing."""

    training = False

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the forward pass."""
        return self.forward(*args, **kwargs)

    def forward(self, *args: object, **kwargs: object) -> NoReturn:
        """As torch's: a module without a forward cannot be called."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def register_buffer(self, name: str, tensor: object = None, **_kwargs: object) -> None:
        """Keep the buffer as an attribute."""
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: object = None) -> None:
        """Keep the parameter as an attribute."""
        setattr(self, name, param)

    def add_module(self, name: str, module: object) -> None:
        """Keep the module as an attribute."""
        setattr(self, name, module)

    register_module = add_module

    def _itself(self, *_args: object, **_kwargs: object) -> Module:
        return self

    to = cuda = cpu = half = bfloat16 = float = eval = train = requires_grad_ = _itself

    def _nothing(self, *_args: object, **_kwargs: object) -> Iterator[object]:
        return iter(())

    def parameters(self, *_args: object, **_kwargs: object) -> Iterator[object]:
        """One stand-in, for code that asks a module's first parameter where it is."""
        return iter((Standin("parameter"),))

    named_parameters = buffers = named_buffers = modules = named_modules = children = _nothing
    register_forward_hook = register_forward_pre_hook = apply = _itself

    def state_dict(self) -> dict[str, object]:
        """No weights."""
        return {}


class ModuleList(Module):
    """Stand-in for torch.nn.ModuleList and Sequential: a list of modules."""

    def __init__(self, modules: object = (), *more: object) -> None:
        self._modules = [modules, *more] if more or isinstance(modules, Module) else list(modules)  # type: ignore[call-overload]

    def __iter__(self) -> Iterator[object]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> object:
        if isinstance(index, slice):
            return ModuleList(self._modules[index])
        return self._modules[index]

    def __setitem__(self, index: int, module: object) -> None:
        self._modules[index] = module

    def __add__(self, other: object) -> ModuleList:
        return ModuleList([*self._modules, *other])  # type: ignore[misc]

    def append(self, module: object) -> ModuleList:
        """Add one module."""
        self._modules.append(module)
        return self

    def extend(self, modules: object) -> ModuleList:
        """Add modules."""
        self._modules.extend(modules)  # type: ignore[arg-type]
        return self


class ModuleDict(Module, dict):  # type: ignore[type-arg]
    """Stand-in for torch.nn.ModuleDict."""

    def __init__(self, modules: object = ()) -> None:
        dict.__init__(self, modules)  # type: ignore[call-overload]


class TorchLayer(Module):
    """Base that stands for a ready layer of torch (torch.nn.Linear, torch.nn.Embedding)."""


def unpack_count(frame: FrameType) -> int | None:
    """How many values the instruction that a frame is at unpacks from an iterable; None if it unpacks nothing.

    Args:
        frame: The frame that called `__iter__`.
    """
    code = frame.f_code.co_code
    at = frame.f_lasti
    wide = code[at - 1] << 8 if at >= 2 and code[at - 2] == _EXTENDED_ARG else 0
    if code[at] == _UNPACK_SEQUENCE:
        return wide | code[at + 1]
    if code[at] == _UNPACK_EX:
        return int(code[at + 1]) + (wide >> 8)
    return None


class Standin:
    """One unknown object.

    Args:
        name: The path it was reached by ("torch.cuda.is_available()"), for messages.
    """

    #: Asked first when a stand-in is called: gives the result, or NotImplemented for a further stand-in.
    answer: Callable[[str, tuple[object, ...], dict[str, object]], object] | None = None

    def __init__(self, name: str) -> None:
        self.__dict__["_standin_name"] = name

    # attributes -----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = Standin(f"{self._standin_name}.{name}")
        made.__dict__["_made_up"] = True
        self.__dict__[name] = made
        return made

    def __delattr__(self, name: str) -> None:
        self.__dict__.pop(name, None)

    if TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            """Any attribute may be set."""

    # calls, decorating, entering ------------------------------------------------------------------------------

    def __call__(self, *args: object, **kwargs: object) -> object:
        """A lone function or class is being decorated and comes back; any other call gives a stand-in."""
        if len(args) == 1 and not kwargs and isinstance(args[0], (FunctionType, type, staticmethod, classmethod)):
            return args[0]
        if Standin.answer is not None:
            given = Standin.answer(str(self._standin_name), args, kwargs)
            if given is not NotImplemented:
                return given
        return Standin(f"{self._standin_name}()")

    def __enter__(self) -> object:
        return self

    def __exit__(self, *exc: object) -> Literal[False]:
        return False

    # classes and annotations ----------------------------------------------------------------------------------

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return (self._as_class(),)

    def _as_class(self) -> type:
        made = self.__dict__.get("_class")
        if made is None:
            leaf = "".join(c if c.isalnum() else "_" for c in self._standin_name.rpartition(".")[2]) or "Unknown"
            layer = str(self._standin_name).startswith("torch.nn.")
            base: type = TorchLayer if layer else StandinBase
            made = StandinMeta(leaf, (base,), {"_standin_name": self._standin_name})
            self.__dict__["_class"] = made
        return made

    def __instancecheck__(self, instance: object) -> bool:
        made = self.__dict__.get("_class")
        return made is not None and isinstance(instance, made)

    def __subclasscheck__(self, subclass: type) -> bool:
        made = self.__dict__.get("_class")
        return made is not None and issubclass(subclass, made)

    # values ---------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return False

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[object]:
        count = unpack_count(sys._getframe(1)) or 0  # noqa: SLF001 - unpacking needs the number of names
        return iter([Standin(f"{self._standin_name}[{i}]") for i in range(count)])

    def __contains__(self, item: object) -> bool:
        return False

    def __getitem__(self, key: object) -> Standin:
        return Standin(f"{self._standin_name}[]")

    def __setitem__(self, key: object, value: object) -> None: ...

    def __delitem__(self, key: object) -> None: ...

    def __index__(self) -> int:
        return 0

    def __int__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __hash__(self) -> int:
        return zlib.crc32(self._standin_name.encode())

    def __eq__(self, other: object) -> bool:
        return self is other

    def _never(self, _other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _never

    def _result(self, *_others: object) -> Standin:
        return Standin(f"({self._standin_name})")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _result
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _result
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _result
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _result
    __neg__ = __pos__ = __abs__ = __invert__ = __round__ = _result

    # text and copies ------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<stand-in {self._standin_name}>"

    def __str__(self) -> str:
        return str(self._standin_name)

    def __format__(self, spec: str) -> str:
        return str(self._standin_name)

    def __copy__(self) -> Standin:
        return self

    def __deepcopy__(self, memo: object) -> Standin:
        return self


def is_standin(value: object) -> bool:
    """Whether a value is unknown: it came from outside the release."""
    return isinstance(value, Standin)
