"""Tensor's operators: computed where the memory is."""

from __future__ import annotations

import operator

from . import frameworks
from ._native import _core
from ._native._core import Tensor
from .attaching import attach_one
from .creation import device_or, full
from .delegating import called, number_like
from .dtypes import complex128, float32, float64, int64
from .engines import engine_for, has_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["has_own_operators"]

_asarray, _on_host = _core.asarray, _core.on_host


def has_own_operators(cls: type) -> bool:
    """Tell a class that computes with arrays by itself: pandas', xarray's, dask's.

    Those of the frameworks that candle knows are not among them, where their tensors are memory and
    nothing else.
    """
    if issubclass(cls, Tensor) or not (
        hasattr(cls, "__array_ufunc__") or hasattr(cls, "__array_priority__")
    ):
        return False
    return frameworks.is_more_than_memory(cls)


def _operand(t: Tensor, other: Any) -> Any:
    """Give a Tensor or number to compute with, of whatever stands beside a tensor."""
    if isinstance(other, Tensor):
        return other
    if isinstance(other, (bool, int, float, complex)):
        # numpy would make it a float64, or an int8, beside dtypes that it has not itself.
        plain = t.dtype.typestr or not t.device.on_host
        return other if plain else number_like(other, t.dtype)
    if has_own_operators(type(other)):
        return NotImplemented
    if isinstance(other, (list, tuple)):
        return _of_list(t, other)
    if not has_memory(other) and not frameworks.has_stand_in(type(other)):
        return NotImplemented
    # Text, times and Python's objects are numpy's to compute with; what else candle cannot take,
    # such as sparse matrices, is refused by name.
    return _asarray(other) if frameworks.has_numbers(other) else NotImplemented


def _of_list(t: Tensor, items: Any) -> Tensor:
    found = _asarray(items)
    if found.dtype is float32 and t.dtype in (float64, complex128):
        return _asarray(items, dtype=float64)  # which may be more digits
    return found


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        other = _operand(self, other)
        return other if other is NotImplemented else _computed(function, self, other)

    return operate


def _quick_binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Give the same for operators that the native core carries out where both are on the host."""
    operate_anywhere = _binary(function)

    def operate(self: Tensor, other: Any) -> Any:
        quick = _on_host(function, self, other)
        return operate_anywhere(self, other) if quick is None else quick

    return operate


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        other = _operand(self, other)
        return other if other is NotImplemented else _computed(function, other, self)

    return operate


def _computed(function: Callable[..., Any], *operands: Any) -> Any:
    engine = engine_for(*operands)
    return called(engine, engine.operation(function), function.__name__, operands, {})


def _in_place(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        operand = _operand(self, other)
        if operand is NotImplemented:
            # Of what numpy computes with alone the result would take the tensor's name.
            return operand if frameworks.has_numbers(other) else _asarray(other)
        engine = engine_for(self)
        place = engine.place(self)
        with engine.on(place):
            engine.compute_in_place(function, self, operand, place)
        return self

    return operate


def _unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor) -> Any:
        return _computed(function, self)

    return operate


def _comparison(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    compare = _quick_binary(function)
    whatever = {"eq": False, "ne": True}.get(function.__name__)  # of what cannot be equal

    def operate(self: Tensor, other: Any) -> Any:
        if isinstance(other, Tensor) and "pair" in (self.dtype.kind, other.dtype.kind):
            if self.dtype.kind != other.dtype.kind:
                raise TypeError("pairs compare with pairs only; t.view('uint8') gives their bytes")
            return compare(self.view("uint8"), other.view("uint8"))
        if whatever is not None and isinstance(other, (list, tuple)):
            try:
                other = _of_list(self, other)
            except TypeError:  # of text, None or objects, which no elements equal
                return NotImplemented
        try:
            if isinstance(other, (int, float)):
                return _compared(function, self, other)
            return compare(self, other)
        except OverflowError:  # an int that no element can be
            if whatever is None:
                raise
            return full(self.shape, whatever, device=device_or(None, self))

    return operate


def _compared(function: Callable[[Any, Any], Any], t: Tensor, number: Any) -> Any:
    """Compare with a number, which keeps its digits beside the dtypes that numpy has not."""
    quick = _on_host(function, t, number) if isinstance(number, float) else None
    if quick is not None:
        return quick
    if not t.device.on_host:
        if isinstance(number, int) and t.dtype.kind in ("real", "complex"):
            number = float(number)
    elif isinstance(number, int):
        if t.dtype.kind in ("real", "complex"):
            if number.bit_length() > 63:  # ml_dtypes take no longer ints
                number = _asarray(float(number), dtype=float64)
        elif not t.dtype.typestr:
            number = _asarray(min(max(number, -1 << 62), 1 << 62), dtype=int64)
    elif isinstance(number, float) and not t.dtype.typestr:
        number = _asarray(number, dtype=float64)
    return _computed(function, t, number)


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
):
    _function = getattr(operator, f"__{_name}__")
    attach_one(
        f"__{_name}__", _binary(_function) if _name == "matmul" else _quick_binary(_function)
    )
    attach_one(f"__r{_name}__", _reflected(_function))
    attach_one(f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
attach_one("__divmod__", _binary(divmod))
attach_one("__rdivmod__", _reflected(divmod))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    attach_one(f"__{_name}__", _comparison(getattr(operator, f"__{_name}__")))
for _name in ("neg", "pos", "abs", "invert"):
    attach_one(f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))
