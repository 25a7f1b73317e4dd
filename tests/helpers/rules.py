"""What candle does with a producer under `copy=False`, worked out from the rules a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from candle.testing.abi import IS_SUBBYTE_TYPE_PADDED
from candle.testing.producers import compact_strides

if TYPE_CHECKING:
    from candle.testing import Producer

HOST = {1, 3, 11}
MAX_NDIM = 64
INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1
COMPLEX = 5
DTYPES = frozenset(
    {
        *((code, bits, 1) for code in (0, 1) for bits in (4, 8, 16, 32, 64)),
        *((2, bits, 1) for bits in (16, 32, 64)),
        (4, 16, 1),
        *((COMPLEX, bits, 1) for bits in (32, 64, 128)),
        (6, 8, 1),
        *((code, 8, 1) for code in range(7, 15)),
        (15, 6, 1),
        (16, 6, 1),
        (17, 4, 1),
        (17, 4, 2),
    }
)


def extents(producer: Producer) -> tuple[int, ...]:
    """The shape as the struct says it: cut or filled up to `ndim`."""
    ndim = len(producer.shape) if producer.ndim is None else producer.ndim
    filled = (*producer.shape, *[1] * (ndim - len(producer.shape)))
    return filled[: max(ndim, 0)]


def _sound_description(producer: Producer, versioned: bool) -> bool:
    ndim = len(producer.shape) if producer.ndim is None else producer.ndim
    return (
        0 <= ndim <= MAX_NDIM
        and not (ndim > 0 and producer.null_shape)
        and producer.dtype in DTYPES
        and all(extent >= 0 for extent in extents(producer))
        and not (versioned and producer.version[0] != 1)
        and producer.device[0] > 0
        and (producer.device[1] >= 0 or producer.device[0] == 1)
    )


def _reach(producer: Producer, shape: tuple[int, ...]) -> tuple[int, int]:
    strides = compact_strides(shape) if producer.strides is None else producer.strides
    strides = (*strides, *[1] * (len(shape) - len(strides)))[: len(shape)]
    ends = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)


def verdict(producer: Producer, versioned: bool) -> str:
    """``"share"``, ``"refuse"`` or, at the edges where the rules leave it open, ``"either"``."""
    if not _sound_description(producer, versioned):
        return "refuse"
    shape = extents(producer)
    size = 1
    for extent in shape:
        size *= extent
    if size == 0:
        # What the other extents multiply to may overflow on the way.
        return "share" if all(extent < 2**15 for extent in shape) else "either"
    code, bits, lanes = producer.dtype
    packed = bits * lanes < 8
    padded = packed and versioned and producer.flags & IS_SUBBYTE_TYPE_PADDED
    item_bits = 8 if padded else bits * lanes
    low, high = _reach(producer, shape)
    if producer.null_data or size > INT64_MAX or size * item_bits > INT64_MAX * 8:
        return "refuse"
    if high > INT64_MAX or low < -INT64_MAX:
        return "refuse"
    top = producer.address + producer.byte_offset + (high * item_bits) // 8
    bottom = producer.address + producer.byte_offset + (low * item_bits) // 8
    if producer.byte_offset > INT64_MAX or bottom < 0 or top > UINT64_MAX:
        return "refuse"
    if packed or top > INT64_MAX or size * item_bits > INT64_MAX:
        return "either"
    alignment = item_bits // (16 if code == COMPLEX else 8)
    return "refuse" if producer.byte_offset % alignment else "share"
