"""The standard's functions on dtypes, by candle's own rules."""

from __future__ import annotations

from .._native import _core
from ..dtypes import DType, as_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["astype", "finfo", "iinfo", "isdtype"]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("real",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "real", "complex"),
}


def astype(x: Tensor, dtype: object, /, *, copy: bool = True, device: object = None) -> Tensor:
    """Cast a tensor, by the rules of `Tensor.to`.

    Parameters
    ----------
    x
        A tensor.
    dtype
        What it becomes.
    copy : bool
        Whether a tensor of that dtype already is copied too.
    device
        Where it is wanted; default: where it is.
    """
    return x.to(dtype=dtype, device=device, copy=True if copy else None)


def isdtype(dtype: object, kind: Any) -> bool:
    """Tell whether a dtype is of a kind the standard names, is another dtype, or any of several."""
    given = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(given, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"{kind!r} is none of the kinds {', '.join(map(repr, _KINDS))}")
        return given.kind in _KINDS[kind]
    return given is as_dtype(kind)


class finfo:
    """What a dtype of floating point numbers can hold; a complex one's components.

    Attributes
    ----------
    bits : int
        Bits of a number.
    eps : float
        The step from 1 to the next larger number.
    max, min : float
        The largest and the smallest finite number.
    smallest_normal : float
        The smallest positive number of full precision.
    dtype : DType
        The real dtype.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "smallest_normal")

    def __init__(self, type: object, /) -> None:  # noqa: A002  (the standard's name)
        from ml_dtypes import finfo as measure

        given = _dtype_of(type)
        if given.kind not in ("real", "complex"):
            raise TypeError(
                f"{given} is no dtype of floating point numbers: iinfo tells of integers"
            )
        self.dtype = as_dtype(f"float{given.bits // 2}") if given.kind == "complex" else given
        from ..frameworks import dtype_for

        found = measure(dtype_for("numpy", self.dtype))
        self.bits = self.dtype.bits
        self.eps = float(found.eps)
        self.max = float(found.max)
        self.min = float(found.min)
        self.smallest_normal = float(found.smallest_normal)


class iinfo:
    """What a dtype of integers can hold.

    Attributes
    ----------
    bits : int
        Bits of a number.
    max, min : int
        The largest and the smallest.
    dtype : DType
        The dtype.
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: object, /) -> None:  # noqa: A002  (the standard's name)
        self.dtype = _dtype_of(type)
        if self.dtype.kind not in ("int", "uint"):
            raise TypeError(f"{self.dtype} is no dtype of integers: finfo tells of floating point")
        self.bits = self.dtype.bits
        self.max = (1 << (self.bits - (self.dtype.kind == "int"))) - 1
        self.min = -self.max - 1 if self.dtype.kind == "int" else 0


def _dtype_of(x: object) -> DType:
    return x.dtype if isinstance(x, _core.Tensor) else as_dtype(x)
