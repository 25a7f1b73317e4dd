"""Tensor's operators, and indices that make no view: computed where the memory is."""

from __future__ import annotations

import operator

from . import frameworks
from ._native import _core
from ._native._core import Tensor
from .attaching import put
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
        quick = _on_host(function, self, other)  # the same as below, in a hurry
        if quick is not None:
            return quick
        other = _operand(self, other)
        return other if other is NotImplemented else _computed(function, self, other)

    return operate


def _plain(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(self: Tensor, other: Any) -> Any:
        other = _operand(self, other)
        return other if other is NotImplemented else _computed(function, self, other)

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
    compare = _binary(function)
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
    put(f"__{_name}__", _plain(_function) if _name == "matmul" else _binary(_function))
    put(f"__r{_name}__", _reflected(_function))
    put(f"__i{_name}__", _in_place(getattr(operator, f"__i{_name}__")))
put("__divmod__", _plain(divmod))
put("__rdivmod__", _reflected(divmod))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    put(f"__{_name}__", _comparison(getattr(operator, f"__{_name}__")))
for _name in ("neg", "pos", "abs", "invert"):
    put(f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))


# Indices that make no view.


def _check_index(index: Any) -> None:
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, (str, bytes, float, complex, dict, set)):
            raise TypeError(
                "a tensor is indexed by ints, slices, None, ..., masks and tensors of ints, not by "
                f"{type(item).__name__}"
            )


def _pick(t: Tensor, index: Any) -> Tensor:
    """Copy the elements that masks and tensors of ints choose, as numpy does."""
    _check_index(index)
    engine = engine_for(t, index)
    place = engine.place(t, index)
    with engine.on(place):
        array = engine.take(t, place)
        found: Tensor = engine.wrapped(array[engine.index(index, place, array)])
        return found


def _place(t: Tensor, index: Any, value: Any) -> None:
    """Write to the elements that masks and tensors of ints choose, as through any other index."""
    _check_index(index)
    engine = engine_for(t)
    place = engine.place(t)
    with engine.on(place):
        engine.assign(t, index, _asarray(value, dtype=t.dtype, device=t.device), place)


_core.register(pick=_pick, place=_place)
