"""The standard's functions as array-api-compat has them for torch, with numpy's dtypes.

The standard leaves open what integers become beside floats, and in functions of floats; torch takes
its default dtype, or refuses. numpy's rule (NEP 50, and the loops of its universal functions) is
kept here, for operators and numpy's functions too.
"""

from __future__ import annotations

import math
import operator
import sys
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "REMEDY",
    "is_integral",
    "is_number",
    "like_floats",
    "of_standard",
    "standard",
    "to_positions",
    "torch_module",
]

REMEDY = "t.to('cpu') is numpy's"

# Elementwise functions of two arguments, and what tells their result where a Python int is out of
# the bounds of the elements beside it.
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
_BINARY = {
    *("add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift"),
    *("bitwise_xor", "copysign", "divide", "floor_divide", "fmax", "fmin", "fmod", "gcd", "hypot"),
    *("lcm", "logaddexp", "logaddexp2", "maximum", "minimum", "multiply", "nextafter", "pow"),
    *("remainder", "subtract", "linalg.cross", "linalg.outer", *_COMPARISONS),
}
# Those that torch computes of one dtype only.
_ALIKE = {
    *("allclose", "isclose", "matmul", "tensordot", "vecdot", "linalg.matmul", "linalg.solve"),
    *("linalg.tensordot", "linalg.vecdot"),
}
# Of integers numpy makes floats here, as narrow as hold them, and torch its default dtype.
_FLOATING = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh"),
    *("deg2rad", "exp", "exp2", "expm1", "fabs", "hypot", "log", "log10", "log1p"),
    *("log2", "logaddexp", "logaddexp2", "nextafter", "rad2deg", "rint", "sin", "sinh", "sqrt"),
    *("tan", "tanh"),
}
# Of integers numpy makes float64 here.
_DOUBLE = {
    *("divide", "mean", "std", "var", "linalg.cholesky", "linalg.det", "linalg.eigh"),
    *("linalg.eigvalsh", "linalg.inv", "linalg.matrix_norm", "linalg.matrix_rank", "linalg.norm"),
    *("linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.solve", "linalg.svd"),
    *("linalg.svdvals", "linalg.vector_norm"),
}


def torch_module() -> Any:
    """Give torch, which is loaded: its tensors are here."""
    return sys.modules["torch"]


@cache
def of_standard(name: str) -> Any:
    """Give a function of the standard's, or of its parts, for torch; looked up once."""
    from importlib import import_module

    found: Any = import_module("array_api_compat.torch")
    for part in name.split("."):
        found = getattr(found, part)
    return standard(found, name)


# Dtypes


def is_integral(x: Any) -> bool:
    """Tell arrays and numbers that are ints, or bools."""
    kind = type(x)
    if kind is bool or kind is int:
        return True
    dtype = getattr(x, "dtype", None)
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex)


def _is_complex(x: Any) -> bool:
    return bool(getattr(getattr(x, "dtype", None), "is_complex", False))


def is_number(x: Any) -> bool:
    """Tell Python's numbers."""
    return type(x) in (bool, int, float, complex)


def _bounded(x: Any, number: Any) -> bool:
    """Tell whether a number can be one of the elements; of a Python int beside ints only."""
    torch = torch_module()
    if type(number) is not int or is_number(x) or not is_integral(x) or x.dtype is torch.bool:
        return True
    bounds = torch.iinfo(x.dtype)
    return int(bounds.min) <= number <= int(bounds.max)


def _out_of_bounds(x: Any, number: int) -> OverflowError:
    dtype = str(x.dtype).removeprefix("torch.")
    return OverflowError(f"the Python int {number} is out of the bounds of {dtype}")


def _wider(x: Any, other: Any) -> Any:
    """Give integers as the floats that numpy makes of them beside floats, as they are beside ints.

    Those of more than 16 bits become float64, and all do beside Python's floats. float16 beside
    complex numbers becomes float32: numpy has no narrower complex numbers than of two of those.
    """
    torch = torch_module()
    if is_number(x) or is_integral(other):
        return x
    if not is_integral(x):
        half = x.dtype is torch.float16 and (type(other) is complex or _is_complex(other))
        return x.to(torch.float32) if half else x
    if is_number(other):
        return x.to(torch.complex128 if type(other) is complex else torch.float64)
    if x.dtype is torch.bool or x.dtype.itemsize == 1:
        return x
    if x.dtype.itemsize == 2:
        return x.to(torch.float32) if other.dtype.itemsize == 2 else x
    return x.to(torch.complex128 if other.dtype.is_complex else torch.float64)


def _floats(name: str, *integral: Any) -> list[Any]:
    """Give ints and bools as the floats that numpy makes of them in a standard function."""
    torch = torch_module()
    widths = [0 if type(x) is bool else 8 if is_number(x) else x.dtype.itemsize for x in integral]
    arrays = [x for x in integral if not is_number(x)]
    if any(x.dtype is not torch.bool for x in arrays):  # whose dtype Python's numbers take
        widths = [x.dtype.itemsize for x in arrays]
    dtype = {1: torch.float16, 2: torch.float32}.get(max(widths), torch.float64)
    if name in _DOUBLE:
        dtype = torch.float64
    return [float(x) if is_number(x) else x.to(dtype) for x in integral]


# Functions of the standard


def standard(function: Any, name: str) -> Any:
    """Give one of the standard's functions, with numpy's dtypes where the standard says none.

    Parameters
    ----------
    function : callable
        array-api-compat's.
    name : str
        Its name, with that of the extension: ``"linalg.inv"``.
    """
    if name in _OTHERS:
        return _OTHERS[name](function)
    if name in _BINARY or name in _ALIKE:
        return _binary(function, name)
    transform = name.startswith("fft.") and not name.endswith("shift")
    if not (transform or name in _FLOATING or name in _DOUBLE):
        return function

    def of_floats(x: Any, /, *arguments: Any, **keywords: Any) -> Any:
        torch = torch_module()
        if is_integral(x):
            x = x.to(torch.float64) if transform else _floats(name, x)[0]
        elif transform and x.dtype.itemsize < 4:
            x = x.to(torch.float32)
        return function(x, *arguments, **keywords)

    return of_floats


def _binary(function: Any, name: str) -> Any:
    compared = _COMPARISONS.get(name)
    floating = name in _FLOATING or name in _DOUBLE

    def run(x1: Any, x2: Any, /, **keywords: Any) -> Any:
        torch = torch_module()
        for x, number in ((x1, x2), (x2, x1)):
            if floating or _bounded(x, number):
                continue
            if compared is None:
                raise _out_of_bounds(x, number)
            said = compared(0, number) if x is x1 else compared(number, 0)
            return torch.full(x.shape, said, dtype=torch.bool, device=x.device)
        if floating and is_integral(x1) and is_integral(x2):
            x1, x2 = _floats(name, x1, x2)
        x1, x2 = like_floats(x1, x2), like_floats(x2, x1)
        x1, x2 = _wider(x1, x2), _wider(x2, x1)
        tensors = isinstance(x1, torch.Tensor) and isinstance(x2, torch.Tensor)
        # Beside others torch does not count the dtype of a tensor without axes.
        if tensors and (name in _ALIKE or (x1.dim() == 0) is not (x2.dim() == 0)):
            dtype = torch.promote_types(x1.dtype, x2.dtype)
            x1, x2 = x1.to(dtype), x2.to(dtype)
        return function(x1, x2, **keywords)

    return run


def _choice(function: Any) -> Any:
    def run(condition: Any, x1: Any, x2: Any, /) -> Any:
        for x, number in ((x1, x2), (x2, x1)):
            if not _bounded(x, number):
                raise _out_of_bounds(x, number)
        x1, x2 = like_floats(x1, x2), like_floats(x2, x1)
        return function(condition.to(torch_module().bool), _wider(x1, x2), _wider(x2, x1))

    return run


def _clip(function: Any) -> Any:
    def run(x: Any, /, min: Any = None, max: Any = None) -> Any:
        for bound in (min, max):
            x = x if bound is None else _wider(x, bound)
        return function(x, min, max)

    return run


def _joined(function: Any) -> Any:
    def run(arrays: Any, /, **keywords: Any) -> Any:
        floats = [x for x in arrays if not is_integral(x)]
        widest = max(floats, key=lambda x: x.dtype.itemsize, default=arrays[0])
        return function([_wider(x, widest) for x in arrays], **keywords)

    return run


def _picked(function: Any) -> Any:
    def run(x: Any, indices: Any, /, **keywords: Any) -> Any:
        return function(x, to_positions(indices, x), **keywords)

    return run


def _of_no_integers(function: Any) -> Any:
    def run(x: Any, /) -> Any:
        if is_integral(x):
            raise TypeError(f"torch has no reciprocal of integers that means numpy's; {REMEDY}")
        return function(x)

    return run


def to_positions(k: Any, array: Any) -> Any:
    """Give ints, and lists of them, as int64: torch takes uint8 for masks, and int16 not at all."""
    torch = torch_module()
    if isinstance(k, list):
        k = torch.tensor(k, dtype=None if k else torch.int64, device=array.device)
    if (
        not isinstance(k, torch.Tensor)
        or k.dtype in (torch.bool, torch.int64)
        or not is_integral(k)
    ):
        return k
    return k.to(torch.int64)


def _fresh(function: Any) -> Any:
    """Give what copies, as numpy does, where torch gives back its argument."""

    def run(x: Any, /) -> Any:
        found = function(x)
        if found.is_conj() or found.data_ptr() != x.data_ptr():
            return found  # the lazily conjugated are copied when they are given out
        return found.clone()

    return run


_OTHERS = {
    "clip": _clip,
    "conj": _fresh,
    "positive": _fresh,
    "reciprocal": _of_no_integers,
    "where": _choice,
    **dict.fromkeys(("column_stack", "concat", "dstack", "hstack", "stack", "vstack"), _joined),
    **dict.fromkeys(("take", "take_along_axis"), _picked),
}


def like_floats(x: Any, other: Any) -> Any:
    """Give a Python number beside floats as one of theirs, infinite where they have none so large.

    torch takes no int of more than 64 bits, and to some of its functions no float out of bounds.
    """
    if type(x) not in (int, float) or is_integral(other) or is_number(other):
        return x
    number = float(x)
    large = abs(number) > torch_module().finfo(other.dtype).max
    return math.copysign(math.inf, number) if large else number
