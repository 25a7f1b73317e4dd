"""Joining tensors of any framework into one."""

from __future__ import annotations

from ._native import _core
from .creation import allocate, asarray, device_or

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._native._core import Tensor

__all__ = ["cat", "stack"]


def cat(tensors: Iterable[object], dim: int = 0) -> Tensor:
    """Join tensors along an axis they have.

    Parameters
    ----------
    tensors
        At least one; tensors of any framework, with one dtype and, but for axis `dim`, one shape.
    dim : int
        The axis; negative ones count from the last.

    Returns
    -------
    Tensor
        A copy, in one allocation.

    Raises
    ------
    TypeError
        If the dtypes differ.
    ValueError
        If the shapes do not fit, or there is no such axis, or no tensor.
    """
    parts = _alike(tensors, "cat")
    shape = parts[0].shape
    if not shape:
        raise ValueError("cat joins along an axis and these tensors have none; use stack")
    axis = _axis(dim, len(shape))
    around = shape[:axis], shape[axis + 1 :]
    for part in parts:
        if part.ndim != len(shape) or (part.shape[:axis], part.shape[axis + 1 :]) != around:
            raise ValueError(
                f"shapes {shape} and {part.shape} differ beside axis {axis}; cat joins along it"
            )
    length = sum(part.shape[axis] for part in parts)
    joined = allocate((*around[0], length, *around[1]), parts[0].dtype, device_or(None, parts[0]))
    begin = 0
    for part in parts:
        end = begin + part.shape[axis]
        _core.copy_into(_room(joined, (*[slice(None)] * axis, slice(begin, end)), "cat"), part)
        begin = end
    return joined


def stack(tensors: Iterable[object], dim: int = 0) -> Tensor:
    """Join tensors along a new axis.

    Parameters
    ----------
    tensors
        At least one; tensors of any framework, with one dtype and one shape.
    dim : int
        Where the new axis will be; negative ones count from the last axis of the result.

    Returns
    -------
    Tensor
        A copy, in one allocation.

    Raises
    ------
    TypeError
        If the dtypes differ.
    ValueError
        If the shapes differ, or there is no such axis, or no tensor.
    """
    parts = _alike(tensors, "stack")
    shape = parts[0].shape
    axis = _axis(dim, len(shape) + 1)
    for part in parts:
        if part.shape != shape:
            raise ValueError(f"shapes {shape} and {part.shape} differ; stack takes one shape")
    place = device_or(None, parts[0])
    stacked = allocate((*shape[:axis], len(parts), *shape[axis:]), parts[0].dtype, place)
    for index, part in enumerate(parts):
        _core.copy_into(_room(stacked, (*[slice(None)] * axis, index), "stack"), part)
    return stacked


def _room(joined: Tensor, key: tuple[slice | int, ...], function: str) -> Tensor:
    """Give the part of a result that a tensor goes to."""
    try:
        return joined[key]
    except BufferError:  # of memory of its own, only for elements that share a byte
        name = joined.dtype.name
        wide = {"int4": "int8", "uint4": "uint8"}.get(name, "float32")
        raise BufferError(
            f"{function} would lay a part from the middle of a byte on, as {name} elements are "
            f"packed; join t.to('{wide}') of each, and take .to('{name}') of the result"
        ) from None


def _alike(tensors: Iterable[object], function: str) -> list[Tensor]:
    parts = [asarray(x) for x in tensors]
    if not parts:
        raise ValueError(f"{function} takes at least one tensor")
    dtype = parts[0].dtype
    for part in parts:
        if part.dtype is not dtype:
            raise TypeError(
                f"{function} takes tensors of one dtype, not {dtype} and {part.dtype}; convert "
                f"first, such as by candle.asarray(x).to('{dtype}')"
            )
    return parts


def _axis(dim: int, ndim: int) -> int:
    if not -ndim <= dim < ndim:
        raise ValueError(
            f"there is no axis {_core.in_words(dim)}; axes go from {-ndim} to {ndim - 1}"
        )
    return dim % ndim
