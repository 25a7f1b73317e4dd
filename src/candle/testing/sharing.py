"""Whether two objects show the same memory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..naming import package_of
from .capsules import info

# Others are immutable, or keep a cache of their values: writing under them proves nothing.
_WRITABLE = frozenset({"candle", "numpy", "torch"})


class _Block(NamedTuple):
    first: int  # address of the first element
    low: int  # of the lowest byte
    high: int  # one beyond the highest byte


def _block(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> _Block:
    """Strides in bytes."""
    if 0 in shape:
        return _Block(address, address, address)
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = address + sum(r for r in reach if r < 0)
    return _Block(address, low, address + sum(r for r in reach if r > 0) + itemsize)


def _c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) * itemsize for i in range(len(shape)))


def _memory(x: Any) -> _Block:
    """Find where the elements of any tensor lie, without its framework and without a copy."""
    # candle and torch; before DLPack, which copies negative strides and refuses gradients
    if hasattr(x, "data_ptr") and hasattr(x, "stride"):
        stride: Any = x.stride() if callable(x.stride) else x.stride
        size = x.itemsize
        return _block(x.data_ptr(), tuple(x.shape), tuple(s * size for s in stride), size)
    interface = getattr(x, "__array_interface__", None)
    if interface is not None:
        shape = interface["shape"]
        size = int(interface["typestr"][2:])
        strides = interface.get("strides") or _c_strides(shape, size)
        return _block(interface["data"][0], shape, strides, size)
    if hasattr(x, "unsafe_buffer_pointer"):  # jax: dense, and bfloat16 has no other address
        return _block(
            x.unsafe_buffer_pointer(), x.shape, _c_strides(x.shape, x.itemsize), x.itemsize
        )
    fields = info(x.__dlpack__())
    shape = fields.shape or ()
    size = -(-fields.dtype[1] * fields.dtype[2] // 8)
    strides = _c_strides(shape, size)
    if fields.strides is not None:
        strides = tuple(stride * size for stride in fields.strides)
    return _block(fields.address, shape, strides, size)


def _can_write(x: Any) -> bool:
    return package_of(type(x)) in _WRITABLE and hasattr(x, "__setitem__")


def _sees_write(writer: Any, reader: Any) -> bool | None:
    """Tell whether `reader` sees what is written to the first element; None if it cannot be."""
    first = (0,) * len(writer.shape)
    old = writer[first].item()
    try:
        writer[first] = 0 if old == 1 else 1
    except (TypeError, ValueError, RuntimeError):
        return None
    try:
        return bool(reader[first].item() == writer[first].item())
    finally:
        writer[first] = old


def shares_memory(a: object, b: object) -> bool:
    """Tell whether two tensors, of any frameworks, show the same memory.

    Compares the ranges of bytes their elements lie in. Where both start at the same element and one
    can be written, it is written and read through the other as well, and then restored; nobody else
    should be using them.

    Parameters
    ----------
    a, b
        Tensors on the host: candle's, torch's, numpy's, jax's, or anything with
        ``__array_interface__`` or ``__dlpack__``.

    Returns
    -------
    bool
        False for empty tensors, which show no memory.

    Notes
    -----
    `candle.shares_memory` answers the same of programs: on devices too, exactly for views with
    gaps, and without writing. This one is a witness for tests: none of candle's code is asked.
    """
    block_a, block_b = _memory(a), _memory(b)
    if max(block_a.low, block_b.low) >= min(block_a.high, block_b.high):
        return False
    same: Any = getattr(a, "shape", None) == getattr(b, "shape", None)
    if block_a.first != block_b.first or not same or not (_can_write(a) and _can_write(b)):
        return True
    for writer, reader in ((a, b), (b, a)):
        seen = _sees_write(writer, reader)
        if seen is not None:
            return seen
    return True
