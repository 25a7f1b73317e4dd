"""How torch computes what operators and indices mean, and what its errors are told as.

All is computed by the standard's functions: see `torch_standard`. numpy's own functions are in
`torch_numpy`.
"""

from __future__ import annotations

import operator

from .torch_standard import (
    REMEDY,
    is_number,
    like_floats,
    of_standard,
    standard,
    to_positions,
    torch_module,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = [
    "Guard",
    "apart",
    "in_place",
    "index",
    "like",
    "operation",
    "plain",
    "standard",
]

# What torch's errors say that tell of what it has not.
_LACKS = (
    *("not implemented", "not yet implemented", "not supported", "does not support"),
    # of dtypes
    *("same dtype", "expected scalar type", "did not match", "Expected a floating point"),
    *("Unsupported input type", "handle types other", "dimensions of float"),
)
# What torch's errors of the device speak of, where they have no type of their own.
_DEVICES = (
    *("cuda", "cublas", "cudnn", "cufft", "cusolver", "cusparse", "magma"),
    "on the same device",
)
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
    """Tells of what torch has not as a TypeError, and of shapes and values as a ValueError.

    torch has RuntimeErrors for both, and for what is wrong with the device, which stay. It
    computes where its tensors are: no device is made current.
    """

    def __init__(self, index: int) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, RuntimeError):
            return
        # Those of the device have types of their own, which stay.
        singular = torch_module().linalg.LinAlgError
        if type(error) in (RuntimeError, NotImplementedError, singular):
            said = str(error).partition("\n")[0]
            if any(words in said for words in _LACKS):
                raise TypeError(f"torch: {said.rstrip('.')}; {REMEDY}") from error
            if not any(word in said.lower() for word in _DEVICES):
                raise ValueError(f"torch: {said}") from error


# Operators and indices


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give what does as an operator does: the standard's function of the same meaning."""
    if function is divmod:
        quotient, rest = of_standard("floor_divide"), of_standard("remainder")
        return lambda x1, x2: (quotient(x1, x2), rest(x1, x2))
    return of_standard(_OPERATORS[function.__name__])  # type: ignore[no-any-return]


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
    if not is_number(other):
        if _overlap(array, other):
            other = other.clone()
        if array.dim() > 0 and other.dim() == 0:
            other = other.reshape(1)  # whose dtype torch counts
        shape = torch.broadcast_shapes(array.shape, other.shape)
    else:
        other = like_floats(other, array)
        shape = array.shape
    standards = _OPERATORS[name if name in _OPERATORS else f"{name}_"]
    # Without memory: for the dtype alone.
    none = torch.empty(0, dtype=array.dtype, device="meta")
    beside = other
    if not is_number(other):
        beside = torch.empty((0,) if other.dim() else (), dtype=other.dtype, device="meta")
    _check(array, shape, of_standard(standards)(none, beside).dtype)
    function(array, other)


def _castable(dtype: Any, to: Any) -> bool:
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


def _check(array: Any, shape: Sequence[int], dtype: Any) -> None:
    if tuple(shape) != tuple(array.shape):
        raise ValueError(
            f"the result has the shape {tuple(shape)}, and the tensor that it is to be written to "
            f"{tuple(array.shape)}"
        )
    if not _castable(dtype, array.dtype):
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
    keys = [to_positions(k, array) for k in (key if isinstance(key, tuple) else (key,))]
    if any(k is ... for k in keys):
        _check_ellipsis(keys, array)
    if any(isinstance(k, torch.Tensor) and k.dim() > 0 for k in keys):
        keys = [_as_array(k, array) for k in keys]
    return tuple(keys) if isinstance(key, tuple) else keys[0]


def _check_ellipsis(keys: list[Any], array: Any) -> None:
    """Refuse a ``...`` of no axes between arrays: it parts them in numpy, and not in torch."""
    torch = torch_module()
    there = next(i for i, k in enumerate(keys) if k is ...)
    axes = 0
    for k in keys:
        if isinstance(k, torch.Tensor) and k.dtype is torch.bool:
            axes += k.dim()
        elif k is not None and k is not ... and type(k) is not bool:
            axes += 1
    parts = (keys[:there], keys[there + 1 :])
    chosen = [any(isinstance(k, torch.Tensor) for k in part) for part in parts]
    if axes >= array.dim() and all(chosen):
        raise TypeError(f"torch takes no ... of no axes between arrays; leave it out, or {REMEDY}")


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
