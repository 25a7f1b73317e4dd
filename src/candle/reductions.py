"""Tensor's reductions, clip and matmul: the standard's functions as methods."""

from __future__ import annotations

from ._native._core import Tensor
from .attaching import attach
from .delegating import delegate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Axis = int | tuple[int, ...] | None

_NAMES = ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var")
_reduced = {name: delegate(name) for name in _NAMES}
_clip, _matmul = delegate("clip"), delegate("matmul")


class _Reductions(Tensor):
    """`axis` is one axis, several, or None for all; `keepdims` leaves them, with extent 1."""

    def sum(self, axis: Axis = None, *, dtype: object = None, keepdims: bool = False) -> Tensor:
        """Add up: integers narrower than int64 in int64 or uint64, unless `dtype` says another."""
        return _of("sum", self, axis, keepdims, dtype=dtype)

    def prod(self, axis: Axis = None, *, dtype: object = None, keepdims: bool = False) -> Tensor:
        """Multiply up, in the dtypes of sum()."""
        return _of("prod", self, axis, keepdims, dtype=dtype)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Give the mean; of integers in float64."""
        return _of("mean", self, axis, keepdims)

    def std(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """Give the standard deviation, of squares divided by the count less `correction`."""
        return _of("std", self, axis, keepdims, correction=correction)

    def var(self, axis: Axis = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        """Give the variance: squares divided by the count less `correction`."""
        return _of("var", self, axis, keepdims, correction=correction)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Give the largest; NaN where there is one."""
        return _of("max", self, axis, keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Give the smallest; NaN where there is one."""
        return _of("min", self, axis, keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Give where the first of the largest is, in int64; among all if `axis` is None."""
        return _of("argmax", self, axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Give where the first of the smallest is, as argmax() does."""
        return _of("argmin", self, axis, keepdims)

    def all(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Tell whether all are true, or not zero."""
        return _of("all", self, axis, keepdims)

    def any(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Tell whether one is true, or not zero."""
        return _of("any", self, axis, keepdims)

    def clip(self, min: object = None, max: object = None) -> Tensor:
        """Put the nearer of two bounds in the place of what lies outside them."""
        found: Tensor = _clip(self, min, max)
        return found

    def matmul(self, other: object) -> Tensor:
        """Multiply matrices, as the operator ``@`` does."""
        found: Tensor = _matmul(self, other)
        return found


def _of(name: str, t: Tensor, axis: Axis, keepdims: bool, **more: Any) -> Tensor:
    found: Tensor = _reduced[name](t, axis=axis, keepdims=keepdims, **more)
    return found


attach(_Reductions)
