"""How torch computes what the standard's functions, operators and indices mean.

All is computed by the standard's functions as array-api-compat has them for torch, with numpy's
dtypes where the standard leaves them open. numpy's own functions are in `torch_numpy`.
"""

from __future__ import annotations

import operator
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "REMEDY",
    "Guard",
    "apart",
    "as_floats",
    "castable",
    "in_place",
    "index",
    "is_integral",
    "like",
    "of_standard",
    "operation",
    "plain",
    "standard",
    "torch_module",
]

REMEDY = "t.to('cpu') is numpy's"
_LACKS = ("not implemented", "not yet implemented", "not supported", "does not support")
_SHAPES = (
    *("must match the size", "cannot be multiplied", "Shape mismatch", "inconsistent tensor size"),
    "Expected size for first two dimensions",
)

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
    *("bitwise_xor", "copysign", "divide", "floor_divide", "hypot", "logaddexp", "maximum"),
    *("minimum", "multiply", "nextafter", "pow", "remainder", "subtract"),
    *("matmul", "vecdot", "tensordot", "linalg.matmul", "linalg.vecdot", "linalg.tensordot"),
    *_COMPARISONS,
}
# Of integers numpy makes float64 here, and torch its default dtype.
_FLOATING = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh"),
    *("divide", "exp", "expm1", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "mean"),
    *("nextafter", "sin", "sinh", "sqrt", "std", "tan", "tanh", "var"),
}
_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and_": "bitwise_and",
    "or_": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
    "neg": "negative",
    "pos": "positive",
    "abs": "abs",
    "inv": "bitwise_invert",
    "invert": "bitwise_invert",
}


class Guard:
    """Tells of what torch has not as a TypeError, and of shapes that do not fit as a ValueError.

    torch has RuntimeErrors for both, and for what is wrong with the device, which stay. It
    computes where its tensors are: no device is made current.
    """

    def __init__(self, index: int) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if type(error) in (RuntimeError, NotImplementedError):
            said = str(error).partition("\n")[0]
            if any(words in said for words in _LACKS):
                raise TypeError(f"torch: {said.rstrip('.')}; {REMEDY}") from error
            if any(words in said for words in _SHAPES):
                raise ValueError(f"torch: {said}") from error


def torch_module() -> Any:
    """Give torch, which is loaded: its tensors are here."""
    return sys.modules["torch"]


def of_standard(name: str) -> Any:
    """Give a function of the standard's, or of its parts, for torch."""
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


def _is_number(x: Any) -> bool:
    return type(x) in (bool, int, float, complex)


def _bounded(x: Any, number: int) -> bool:
    """Tell whether a Python int can be one of the elements; of other dtypes than ints: always."""
    torch = torch_module()
    if not is_integral(x) or x.dtype is torch.bool:
        return True
    bounds = torch.iinfo(x.dtype)
    return int(bounds.min) <= number <= int(bounds.max)


def _wider(x: Any, other: Any) -> Any:
    """Give integers as the floats that numpy makes of them beside floats, as they are beside ints.

    Those of more than 16 bits become float64, and all do beside Python's floats.
    """
    torch = torch_module()
    if _is_number(x) or not is_integral(x) or is_integral(other):
        return x
    if _is_number(other):
        return x.to(torch.complex128 if type(other) is complex else torch.float64)
    if x.dtype is torch.bool or x.dtype.itemsize == 1:
        return x
    if x.dtype.itemsize == 2:
        return x.to(torch.float32) if other.dtype.itemsize == 2 else x
    return x.to(torch.complex128 if other.dtype.is_complex else torch.float64)


def as_floats(x: Any) -> Any:
    """Give ints and bools in float64."""
    return x.to(torch_module().float64) if not _is_number(x) and is_integral(x) else x


def castable(dtype: Any, to: Any) -> bool:
    """Tell whether numpy casts results so without being told: not floats to ints, nor a sign off.

    Parameters
    ----------
    dtype, to
        torch's dtypes.
    """
    torch = torch_module()
    if not torch.can_cast(dtype, to):
        return False
    whole = not (to.is_floating_point or to.is_complex)
    return not (whole and dtype.is_signed and not to.is_signed)


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
    if name in _BINARY:
        return _binary(function, name)
    transform = name.startswith("fft.") and not name.endswith("shift")
    if name not in _FLOATING and not transform:
        return function

    def of_floats(x: Any, /, *arguments: Any, **keywords: Any) -> Any:
        return function(as_floats(x), *arguments, **keywords)

    return of_floats


def _binary(function: Any, name: str) -> Any:
    compared = _COMPARISONS.get(name)

    def run(x1: Any, x2: Any, /, **keywords: Any) -> Any:
        for x, number in ((x1, x2), (x2, x1)):
            if type(number) is not int or _is_number(x) or _bounded(x, number):
                continue
            if compared is None:
                dtype = str(x.dtype).removeprefix("torch.")
                raise OverflowError(f"the Python int {number} is out of the bounds of {dtype}")
            said = compared(0, number) if x is x1 else compared(number, 0)
            return torch_module().full(x.shape, said, dtype=torch_module().bool, device=x.device)
        if name in _FLOATING and is_integral(x1) and is_integral(x2):
            x1, x2 = as_floats(x1), as_floats(x2)
        return function(_wider(x1, x2), _wider(x2, x1), **keywords)

    return run


# Operators and indices


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give what does as an operator does: the standard's function of the same meaning."""
    name = function.__name__
    if name in ("divmod", "_divided"):
        quotient, rest = of_standard("floor_divide"), of_standard("remainder")
        return lambda x1, x2: (quotient(x1, x2), rest(x1, x2))
    return of_standard(_OPERATORS[name])  # type: ignore[no-any-return]


def in_place(function: Callable[[Any, Any], Any], array: Any, other: Any) -> None:
    """Do as an operator in place does, in the array's memory.

    Raises
    ------
    ValueError
        If the result has another shape.
    TypeError
        If the array's dtype does not take it.
    OverflowError
        For a Python int that is out of the dtype's bounds.
    """
    torch = torch_module()
    name = function.__name__.removeprefix("i")
    if name == "matmul":
        found = operation(operator.matmul)(array, other)
        _check(array, found.shape, found.dtype)
        array.copy_(found)
        return
    if not _is_number(other):
        if _overlap(array, other):
            other = other.clone()
        shape = torch.broadcast_shapes(array.shape, other.shape)
    else:
        shape = array.shape
    standards = _OPERATORS[name if name in _OPERATORS else f"{name}_"]
    # Without memory: for the dtype alone.
    none = torch.empty(0, dtype=array.dtype, device="meta")
    beside = other
    if not _is_number(other):
        beside = torch.empty((0,) if other.dim() else (), dtype=other.dtype, device="meta")
    _check(array, shape, of_standard(standards)(none, beside).dtype)
    function(array, other)


def _check(array: Any, shape: Sequence[int], dtype: Any) -> None:
    if tuple(shape) != tuple(array.shape):
        raise ValueError(
            f"the result has the shape {tuple(shape)}, and the tensor that it is to be written to "
            f"{tuple(array.shape)}"
        )
    if not castable(dtype, array.dtype):
        raise TypeError(
            f"the result is {str(dtype).removeprefix('torch.')}, which "
            f"{str(array.dtype).removeprefix('torch.')} in place does not take"
        )


def _overlap(a: Any, b: Any) -> bool:
    """Tell whether two arrays have memory in common, but for those that are one and the same."""
    if a.device != b.device or a.numel() == 0 or b.numel() == 0:
        return False
    same = (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
    if a.data_ptr() == b.data_ptr() and same:
        return False
    (a_low, a_high), (b_low, b_high) = _reach(a), _reach(b)
    return a_low < b_high and b_low < a_high


def _reach(x: Any) -> tuple[int, int]:
    last = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.itemsize


def apart(array: Any, items: Any) -> Any:
    """Give items that are to be written to an array: copied, if they share memory with it."""
    return (
        items.clone() if _overlap(array, items) or array.data_ptr() == items.data_ptr() else items
    )


def index(key: Any, array: Any) -> Any:
    """Give an index of an array that means to torch what the given one means to numpy.

    torch takes uint8 for masks, and an int beside arrays for a choice made before theirs, so that
    the axes of the result come in another order.
    """
    torch = torch_module()
    keys = [_positions(k, array) for k in (key if isinstance(key, tuple) else (key,))]
    if any(isinstance(k, torch.Tensor) and k.dim() > 0 for k in keys):
        keys = [_as_array(k, array) for k in keys]
    return tuple(keys) if isinstance(key, tuple) else keys[0]


def _positions(k: Any, array: Any) -> Any:
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


def _as_array(k: Any, array: Any) -> Any:
    torch = torch_module()
    if type(k) is int:
        return torch.full((1,), k, device=array.device)
    if isinstance(k, torch.Tensor) and k.dim() == 0 and k.dtype is not torch.bool:
        return k.reshape(1)
    return k


def like(path: str, method: str = "__call__", *, universal: bool = False) -> Any:
    """Give what does as one of numpy's functions does: see `torch_numpy`."""
    from .torch_numpy import like as found

    return found(path, method, universal=universal)


def plain(x: Any) -> Any:
    """Give a result whose values lie in memory as they are: without torch's lazy conjugation."""
    if isinstance(x, torch_module().Tensor) and (x.is_conj() or x.is_neg()):
        return x.resolve_conj().resolve_neg()
    return x
