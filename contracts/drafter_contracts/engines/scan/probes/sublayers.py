"""Symbolic sublayers: what stands for a release's layers, norms and kernels while its own model code runs."""

from __future__ import annotations

from drafter_contracts.engines.scan.probes.symbolic import NORM, TRACE, Value, total
from drafter_contracts.engines.scan.standins import Module, Standin, StandinMeta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Leaf(Standin):
    """A sublayer, or a part of one: calling it gives a new atom."""

    def __getattr__(self, name: str) -> Standin:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made = Leaf(f"{self._standin_name}.{name}")
        made.__dict__["_made_up"] = True
        self.__dict__[name] = made
        return made

    def __call__(self, *args: object, **kwargs: object) -> Value:
        """An unknown tensor."""
        return TRACE.fresh(str(self._standin_name), args, kwargs)


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

    def __call__(self, *args: object, **kwargs: object) -> Value:
        """An unknown tensor."""
        return TRACE.fresh(type(self).__name__, args, kwargs)


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
            return TRACE.fresh(NORM, x)
        added = [x, residual, named.get("post_residual_addition"), *extra]
        stream = Value(total(part if isinstance(part, Value) else _addend(part) for part in added))
        TRACE.normed(stream)
        return TRACE.fresh(NORM, stream), stream


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
