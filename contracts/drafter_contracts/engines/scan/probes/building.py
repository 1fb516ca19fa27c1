"""Build a release's model classes with symbolic sublayers, and follow the calls of their decoder layers."""

from __future__ import annotations

import re
import sys

from drafter_contracts.engines.scan.module import LazyNamespace
from drafter_contracts.engines.scan.probes import symbolic
from drafter_contracts.engines.scan.probes.sublayers import Leaf, LeafModule, NormModule, construct
from drafter_contracts.engines.scan.probes.symbolic import TRACE
from drafter_contracts.engines.scan.standins import Module, ModuleList, TorchLayer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType
    from typing import Any

#: Parameters by which a decoder layer is told its place.
_LAYER_PARAMETERS = frozenset({"layer_id", "layer_idx", "layer_index", "layer_number", "idx", "layer_num"})
_CAPTURE_WORDS = re.compile(r"layers_to_capture|aux_hidden_state|capture_output")


class Builder:
    """Decides for every class of the release that is called whether it is built, a sublayer or a norm.

    Attributes:
        stack: Classes under construction, and whether each is a decoder layer.
        layers: Decoder layers that were begun.
    """

    def __init__(self) -> None:
        self.stack: list[tuple[type, bool]] = []
        self.layers = 0
        self._capturing: dict[type, bool] = {}

    def __call__(self, cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """The hook of `StandinMeta.constructor`."""
        if not issubclass(cls, Module) or issubclass(cls, (ModuleList, LeafModule, NormModule)):
            return NotImplemented
        if any(base.__name__ == "LogitsProcessor" for base in cls.__mro__):
            return _logits(cls)
        if cls.__name__.endswith("Norm") or "layers.layernorm" in cls.__module__:
            return construct(NormModule, cls)
        in_layer = any(layer for _, layer in self.stack)
        if in_layer or self.sublayer(cls):
            return construct(LeafModule, cls)
        if issubclass(cls, TorchLayer) and not self.capturing(cls):
            return construct(LeafModule, cls)
        layer = self.is_layer(cls, args, kwargs)
        self.layers += layer
        self.stack.append((cls, layer))
        try:
            made = type.__call__(cls, *args, **kwargs)
        except Exception:
            if len(self.stack) == 1 or layer or self.capturing(cls):
                raise
            return construct(LeafModule, cls)
        finally:
            self.stack.pop()
        if layer:
            follow(made)
        return made

    def sublayer(self, cls: type) -> bool:
        """Whether a class is a layer that models are made of, by where it is defined."""
        return cls.__module__.startswith("sglang.srt.layers") or not cls.__module__.startswith("sglang")

    def is_layer(self, cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """Whether what is being built is a decoder layer."""
        return _is_layer(cls, args, kwargs)

    def capturing(self, cls: type) -> bool:
        """Whether a class, by its own code or its bases', has to do with capture: it is never taken as a sublayer."""
        known = self._capturing.get(cls)
        if known is None:
            names: set[str] = set()
            for base in cls.__mro__:
                for member in vars(base).values():
                    code = getattr(member, "__code__", None)
                    if code is not None:
                        names.update(code.co_names, code.co_varnames)
            known = self._capturing[cls] = any(_CAPTURE_WORDS.search(name) for name in names)
        return known


def _is_layer(cls: type, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    code = getattr(vars(cls).get("__init__") or getattr(cls, "__init__", None), "__code__", None)
    for name in _LAYER_PARAMETERS & set(kwargs):
        if isinstance(kwargs[name], int):
            return True
    names = code.co_varnames[1 : 1 + len(args)] if code is not None else ()
    return any(name in _LAYER_PARAMETERS and isinstance(value, int) for name, value in zip(names, args, strict=False))


class _Logits(Module):
    """Stands where the logits processor is: records which aux hidden states arrive."""

    _order: tuple[str, ...] = ()

    def __call__(self, *args: object, **kwargs: object) -> object:
        named = {**dict(zip(self._order, args, strict=False)), **kwargs}
        TRACE.reached = True
        TRACE.delivered = named.get("aux_hidden_states")
        return Leaf("logits")


def is_misfit(error: Exception) -> bool:
    """Whether the release called one of its own classes with arguments that the constructor does not take.

    That is a matter of the release's two texts alone: the call itself raised, no statement of the constructor ran.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if not isinstance(error, TypeError) or trace is None or trace.tb_frame.f_code is not Builder.__call__.__code__:
        return False
    return _is_released(getattr(trace.tb_frame.f_locals["cls"], "__init__", None))


def _is_released(function: object) -> bool:
    """Whether a function is the release's own."""
    return isinstance(getattr(function, "__globals__", None), LazyNamespace)


def lacks_attribute(error: Exception, model: object) -> bool:
    """Whether a model reads an attribute of its own that no constructor of its class gives it, whatever the config.

    Only for the model itself, whose constructor ran: the one that its class has, and those which that one goes on to.
    """
    if not isinstance(error, AttributeError) or getattr(error, "obj", None) is not model or not error.name:
        return False
    waiting, names = [base for base in type(model).__mro__ if "__init__" in vars(base)][:1], set()
    order = type(model).__mro__
    while waiting:
        owner = waiting.pop()
        constructor = vars(owner)["__init__"]
        if not _is_released(constructor):
            continue
        code = constructor.__code__
        names.update(code.co_names)
        above = order[order.index(owner) + 1 :]
        called = above if "super" in code.co_names else [base for base in above if base.__name__ in code.co_names]
        waiting += [base for base in called if "__init__" in vars(base)]
    return error.name not in names and not any(error.name in vars(base) for base in order)


def has_logits(modules: Iterable[object]) -> bool:
    """Whether a logits processor is among a model's modules."""
    return any(isinstance(module, _Logits) for module in modules)


def _logits(cls: type) -> object:
    """The recorder in place of a release's logits processor; arguments are named as its own forward names them."""
    made = object.__new__(_Logits)
    made.__dict__["logit_scale"] = None
    code = getattr(getattr(cls, "forward", None), "__code__", None)
    made.__dict__["_order"] = code.co_varnames[1 : code.co_argcount] if code is not None else ()
    return made


def _caller(frame: FrameType | None) -> object:
    """Code of the innermost function of the release that is at work."""
    while frame is not None:
        if isinstance(frame.f_globals, LazyNamespace):
            return frame.f_code
        frame = frame.f_back
    return None


def follow(layer: Any) -> None:
    """Have a decoder layer's forward recorded, however it is called."""
    forward = layer.forward

    def recorded(*args: object, **kwargs: object) -> object:
        ordinal = TRACE.calls
        TRACE.calls += 1
        if TRACE.loop is None:
            TRACE.loop = _caller(sys._getframe(1))  # noqa: SLF001 - the loop is whoever calls the layer
        TRACE.entries[ordinal] = symbolic.total([*args, *kwargs.values()])
        TRACE.handed[ordinal] = symbolic.values_in([*args, *kwargs.values()])
        TRACE.layers.append(ordinal)
        try:
            result = forward(*args, **kwargs)
        finally:
            TRACE.layers.pop()
        parts = result if isinstance(result, tuple) else [result]
        TRACE.outputs[ordinal] = symbolic.total(parts)
        TRACE.returned[ordinal] = symbolic.values_in(parts)
        TRACE.ended[ordinal] = TRACE.serial
        return result

    layer.__dict__["forward"] = recorded
