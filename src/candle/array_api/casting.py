"""The standard's functions on dtypes, by candle's own rules."""

from __future__ import annotations

from .. import frameworks
from .._native import _core
from ..delegating import number_like
from ..dtypes import DType, as_dtype
from ..engines import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

_NUMBERS = (bool, int, float, complex)
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


def can_cast(from_: object, to: object, /) -> bool:
    """Tell whether the rules of promotion allow a cast: from a dtype, or a tensor's, to a dtype."""
    return bool(host.standard("can_cast")(_numpys(from_), _numpys(to)))


def result_type(*arrays_and_dtypes: object) -> DType:
    """Give the dtype that tensors, dtypes and Python's numbers make together."""
    dtypes = {_dtype_of(x) for x in arrays_and_dtypes if type(x) not in _NUMBERS}
    if len(dtypes) == 1:  # numpy knows how its own dtypes take Python's numbers, and not others
        [dtype] = dtypes
        if not dtype.typestr:
            arrays_and_dtypes = tuple(number_like(x, dtype) for x in arrays_and_dtypes)
    return as_dtype(host.standard("result_type")(*[_numpys(x) for x in arrays_and_dtypes]))


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

    def __init__(self, type: object, /) -> None:
        from ml_dtypes import finfo as measure

        given = _dtype_of(type)
        if given.kind not in ("real", "complex"):
            raise TypeError(
                f"{given} is no dtype of floating point numbers: iinfo tells of integers"
            )
        self.dtype: DType = (
            as_dtype(f"float{given.bits // 2}") if given.kind == "complex" else given
        )
        found = measure(frameworks.dtype_for("numpy", self.dtype))
        self.bits: int = self.dtype.bits
        self.eps: float = float(found.eps)
        self.max: float = float(found.max)
        self.min: float = float(found.min)
        self.smallest_normal: float = float(found.smallest_normal)


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

    def __init__(self, type: object, /) -> None:
        self.dtype: DType = _dtype_of(type)
        if self.dtype.kind not in ("int", "uint"):
            raise TypeError(f"{self.dtype} is no dtype of integers: finfo tells of floating point")
        self.bits: int = self.dtype.bits
        self.max: int = (1 << (self.bits - (self.dtype.kind == "int"))) - 1
        self.min: int = -self.max - 1 if self.dtype.kind == "int" else 0


def _dtype_of(x: object) -> DType:
    return x.dtype if isinstance(x, _core.Tensor) else as_dtype(x)


def _numpys(x: object) -> object:
    if type(x) in _NUMBERS:
        return x
    return frameworks.dtype_for("numpy", _dtype_of(x))
