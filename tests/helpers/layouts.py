"""Tensors of every kind of layout over the float32 numbers 0, 1, 2, ..., made by candle alone."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import candle
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

READ_ONLY = 1


def counting(*shape: int) -> candle.Tensor:
    """0, 1, 2, ... in candle's own memory."""
    size = 1
    for extent in shape:
        size *= extent
    return candle.arange(size, dtype="float32").reshape(shape)


def foreign(shape: tuple[int, ...], **arguments: Any) -> candle.Tensor:
    """Memory of a Producer."""
    return candle.from_dlpack(Producer(shape=shape, mode="versioned", **arguments))


def _negative() -> candle.Tensor:
    return counting(3, 4)[:, ::-1]


LAYOUTS: dict[str, Callable[[], candle.Tensor]] = {
    "C": lambda: counting(3, 4),
    "1-D": lambda: counting(5),
    "0-d": lambda: counting(1)[0],
    "transposed": lambda: counting(3, 4).T,
    "sliced": lambda: counting(6, 8)[1:5:2, 1:7:3],
    "broadcast": lambda: counting(4).broadcast_to((3, 4)),
    "negative": _negative,
    "negative outer": lambda: counting(3, 4)[::-1],
    "negative of extent 1": lambda: counting(3, 4)[2::-5],
    "empty": lambda: counting(0, 3),
    "empty view": lambda: counting(3, 4)[1:1],
    "empty of a negative step": lambda: counting(3, 4)[1:1:-1],
    "extents of 1": lambda: counting(1, 4, 1),
    "junk strides": lambda: foreign((1, 4, 1), strides=(999, 1, -77)),
    "junk strides, gaps": lambda: foreign((2, 1, 3), strides=(50, -3, 2)),
    "foreign": lambda: foreign((3, 4)),
    "foreign, byte_offset": lambda: foreign((3, 4), byte_offset=64),
    "foreign, read-only": lambda: foreign((3, 4), flags=READ_ONLY),
    "foreign, negative": lambda: foreign((4,), strides=(-1,), byte_offset=12),
    "read-only, negative": lambda: foreign((4,), strides=(-1,), byte_offset=12, flags=READ_ONLY),
    "bool": lambda: candle.zeros((2, 3), dtype="bool"),
    "bfloat16": lambda: candle.ones((2, 3), dtype="bfloat16"),
    "complex128": lambda: candle.ones((2, 3), dtype="complex128"),
}


def has_negative_stride(t: candle.Tensor) -> bool:
    """On an axis where it means something."""
    return t.size > 0 and any(s < 0 and n > 1 for s, n in zip(t.stride, t.shape, strict=True))


def must_copy(t: candle.Tensor, *, versioned: bool) -> bool:
    """Whether only a copy can be handed out."""
    return has_negative_stride(t) or (t.readonly and not versioned)


def compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(extent, 1)
    return tuple(strides)


def as_float32(number: float) -> bytes:
    """The four bytes of a number."""
    return struct.pack("f", number)
