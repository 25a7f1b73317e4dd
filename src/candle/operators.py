"""Tensor's operators and numpy's protocols: computed by the library that the memory is with."""

from __future__ import annotations

import operator

from ._native import _core
from ._native._core import Tensor
from .attaching import attach, put
from .devices import as_device
from .engines import engine_for, has_memory, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_asarray = _core.asarray
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
_cpu = as_device("cpu")


def _operand(t: Tensor, other: Any) -> Any:
    """Give a Tensor or number to compute with, of whatever stands beside a tensor."""
    if isinstance(other, Tensor):
        return other
    if isinstance(other, (bool, int, float, complex)):
        if t.dtype.typestr is None and isinstance(other, float) and t.dtype.kind == "real":
            return _asarray(other, dtype=t.dtype)  # ml_dtypes would make it a float64 first
        return other
    if has_memory(other) or isinstance(other, (list, tuple)):
        return _asarray(other)
    return NotImplemented


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        if self.device is _cpu:  # in a hurry: all that what follows does is nothing here
            kind = type(other)
            if kind is Tensor and other.device is _cpu:
                return _asarray(function(self.numpy(), other.numpy()))
            if kind is int or (kind is float and self.dtype.typestr):
                return _asarray(function(self.numpy(), other))
        other = _operand(self, other)
        if other is NotImplemented:
            return other
        engine = engine_for(self, other)
        return engine.wrapped(function(engine.take(self), engine.unwrapped(other)))

    return operate


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        other = _operand(self, other)
        if other is NotImplemented:
            return other
        engine = engine_for(self, other)
        return engine.wrapped(function(engine.unwrapped(other), engine.take(self)))

    return operate


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        other = _operand(self, other)
        if other is NotImplemented:
            return other
        _core.check_writable(self)
        engine = engine_for(self, other)
        function(engine.take(self), engine.unwrapped(other))
        return self

    return operate


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor) -> Any:
        engine = host if self.device is _cpu else engine_for(self)
        return engine.wrapped(function(engine.take(self)))

    return operate


def _comparison(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    compare = _binary(function)

    def operate(self: Tensor, other: Any) -> Any:
        other = _operand(self, other)
        if other is NotImplemented:
            return other
        if isinstance(other, Tensor) and "pair" in (self.dtype.kind, other.dtype.kind):
            if self.dtype.kind != other.dtype.kind:
                raise TypeError("pairs compare with pairs only; t.view('uint8') gives their bytes")
            return compare(self.view("uint8"), other.view("uint8"))
        return compare(self, other)

    return operate


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    _function = getattr(operator, f"__{_name}__")
    put(f"__{_name}__", _binary(_function))
    put(f"__r{_name}__", _reflected(_function))
    put(f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
for _name in ("and", "or", "xor", "lshift", "rshift"):
    _function = getattr(operator, f"__{_name}__")
    put(f"__{_name}__", _binary(_function))
    put(f"__r{_name}__", _reflected(_function))
    put(f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    put(f"__{_name}__", _comparison(getattr(operator, f"__{_name}__")))
for _name in ("neg", "pos", "abs", "invert"):
    put(f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))


# numpy's protocols.


def _answers(cls: type) -> bool:
    """Tell a class whose objects numpy's functions may be computed with here: Tensors, arrays."""
    return issubclass(cls, (Tensor, host.module.ndarray))


class _Protocols:
    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        """Compute numpy's universal functions over shared memory, on the device it is on (NEP 13).

        The result is a Tensor, or what `out` is.
        """
        if any(hasattr(type(x), "__array_ufunc__") and not _answers(type(x)) for x in inputs):
            return NotImplemented  # theirs has to
        engine = engine_for(inputs, out, list(keywords.values()))
        function = getattr(engine.like(ufunc), method)
        keywords = {name: engine.unwrapped(x) for name, x in keywords.items()}
        if out is None:
            return engine.wrapped(function(*engine.unwrapped(list(inputs)), **keywords))
        for t in out:
            if isinstance(t, Tensor):
                _core.check_writable(t)
        function(*engine.unwrapped(list(inputs)), out=engine.unwrapped(out), **keywords)
        return out[0] if len(out) == 1 else out

    def __array_function__(
        self, function: Any, types: Any, arguments: Any, keywords: dict[str, Any]
    ) -> Any:
        """Compute numpy's functions over shared memory, on the device it is on (NEP 18)."""
        if not all(_answers(cls) for cls in types):
            return NotImplemented  # theirs has to
        engine = engine_for(arguments, list(keywords.values()))
        keywords = {name: engine.unwrapped(x) for name, x in keywords.items()}
        return engine.wrapped(engine.like(function)(*engine.unwrapped(arguments), **keywords))

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """Give the functions of the Python Array API standard: `candle.array_api`."""
        if api_version not in (None, *_VERSIONS):
            raise ValueError(f"candle.array_api is that of {_VERSIONS[-1]}, not of {api_version!r}")
        from importlib import import_module

        return import_module("candle.array_api")


attach(_Protocols)


# Indices that make no view.


def _checked(index: Any) -> None:
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, (str, bytes, float, complex, dict, set)):
            raise TypeError(
                "a tensor is indexed by ints, slices, None, ..., masks and tensors of ints, not by "
                f"{type(item).__name__}"
            )


def _pick(t: Tensor, index: Any) -> Tensor:
    """Copy the elements that masks and tensors of ints choose, as numpy does."""
    _checked(index)
    engine = engine_for(t, index)
    return _asarray(engine.take(t)[engine.unwrapped(index)])


def _place(t: Tensor, index: Any, value: Any) -> None:
    """Write to the elements that masks and tensors of ints choose."""
    _checked(index)
    _core.check_writable(t)
    engine = engine_for(t, index, value)
    engine.take(t)[engine.unwrapped(index)] = engine.unwrapped(value)


_core.register(pick=_pick, place=_place)
