"""What a candle.testing.Producer's memory holds, read with nothing but struct."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from candle.testing import Producer

FORMATS = {
    (0, 8): "b",
    (0, 16): "h",
    (0, 32): "i",
    (0, 64): "q",
    (1, 8): "B",
    (1, 16): "H",
    (1, 32): "I",
    (1, 64): "Q",
    (2, 16): "e",
    (2, 32): "f",
    (2, 64): "d",
    (6, 8): "?",
}
INT4 = {(0, 4), (1, 4)}
PADDED = 4


def _nested(shape: Sequence[int], strides: Sequence[int], start: int, read: Any) -> Any:
    if not shape:
        return read(start)
    return [_nested(shape[1:], strides[1:], start + i * strides[0], read) for i in range(shape[0])]


def values(producer: Producer) -> Any:
    """Nested lists of the elements, as `tolist` gives them; None for a dtype not read here."""
    from candle.testing.producers import compact_strides

    code, bits, lanes = producer.dtype
    start = producer.address + producer.byte_offset
    strides = producer.strides if producer.strides is not None else compact_strides(producer.shape)
    if lanes != 1:
        return None
    if (code, bits) in FORMATS:
        form, size = FORMATS[code, bits], bits // 8

        def element(index: int) -> Any:
            return struct.unpack(form, ctypes.string_at(start + index * size, size))[0]

        return _nested(producer.shape, strides, 0, element)
    if (code, bits) in INT4:
        padded = producer.flags & PADDED and producer.mode == "versioned"

        def nibble(index: int) -> int:
            byte = ctypes.string_at(start + (index if padded else index // 2), 1)[0]
            number = byte & 15 if padded or index % 2 == 0 else byte >> 4
            return number - 16 if code == 0 and number > 7 else number

        return _nested(producer.shape, strides, 0, nibble)
    return None
