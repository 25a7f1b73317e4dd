"""Buffers (PEP 3118) of which only C code says less, or more, than Python's own do."""

from __future__ import annotations

import struct
import warnings
from typing import Any

import pytest
from raw_buffer import Exporter, make_type

import candle
from candle.testing import live

NUMBERS = struct.pack("6f", *range(6))

SHARED: dict[str, tuple[dict[str, Any], Any]] = {
    "a format that is missing: bytes": ({"content": b"\1\2"}, [1, 2]),
    "no shape: as many as fit": ({"format": b"f", "itemsize": 4}, [0, 1, 2, 3, 4, 5]),
    "no shape and no axes": ({"format": b"f", "itemsize": 4, "ndim": 0, "len": 4}, 0.0),
    "a shape and no strides": (
        {"format": b"f", "itemsize": 4, "shape": (2, 3)},
        [[0, 1, 2], [3, 4, 5]],
    ),
    "strides": (
        {"format": b"f", "itemsize": 4, "shape": (3, 2), "strides": (4, 12)},
        [[0, 3], [1, 4], [2, 5]],
    ),
    "no memory for no elements": (
        {"format": b"f", "itemsize": 4, "shape": (0, 3), "buf": None, "len": 0},
        [],
    ),
    "a byte order of its own": ({"format": b"<f", "itemsize": 4}, [0, 1, 2, 3, 4, 5]),
    "longs of the standard's size": (
        {"content": struct.pack("<3l", 1, -2, 3), "format": b"<l", "itemsize": 4},
        [1, -2, 3],
    ),
}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a format that is missing, of wide items": ({"itemsize": 4}, "no dtype"),
    "an empty format": ({"format": b""}, "no dtype"),
    "a format of one order and no letter": ({"format": b">"}, "no dtype"),
    "an item of another size": ({"format": b"f", "itemsize": 8}, "no dtype"),
    "half a complex number": ({"format": b"Zf", "itemsize": 4}, "no dtype"),
    "a complex number of no letter": ({"format": b"Z", "itemsize": 8}, "no dtype"),
    "a complex number and more": ({"format": b"Zff", "itemsize": 8}, "no dtype"),
    "an item of no bytes": ({"format": b"f", "itemsize": 0}, "no dtype"),
    "axes and no shape": ({"format": b"f", "itemsize": 4, "ndim": 2}, "2 axes and no shape"),
    "fewer axes than none": ({"format": b"f", "itemsize": 4, "ndim": -1}, "-1 axes"),
    "more axes than 64": (
        {"format": b"f", "itemsize": 4, "shape": (1,) * 65, "len": 4},
        "65 axes; candle holds 0 to 64",
    ),
    "a negative extent": ({"format": b"f", "itemsize": 4, "shape": (-2,)}, "an extent is negative"),
    "more elements than can be counted": (
        {"format": b"f", "itemsize": 4, "shape": (1 << 62, 4)},
        "does not fit 63 bits",
    ),
    "elements and no memory": ({"format": b"f", "itemsize": 4, "buf": None}, "no memory"),
    "strides out of this world": (
        {"format": b"f", "itemsize": 4, "shape": (3,), "strides": (1 << 61,)},
        "beyond the address space",
    ),
    "an end behind the last address": (
        {"format": b"f", "itemsize": 4, "shape": (3,), "buf": 2**64 - 8},
        "beyond the address space",
    ),
    "a beginning before the first address": (
        {"format": b"f", "itemsize": 4, "shape": (3,), "strides": (-4096,), "buf": 8191},
        "beyond the address space",
    ),
    "strides out of this world, backwards": (
        {"format": b"f", "itemsize": 4, "shape": (3,), "strides": (-(1 << 61),)},
        "beyond the address space",
    ),
}


def make(fields: dict[str, Any]) -> Exporter:
    return Exporter(**{"content": NUMBERS, **fields})


def test_what_is_shared() -> None:
    for kind, (fields, values) in SHARED.items():
        exporter = make(fields)
        t = candle.asarray(exporter, copy=False)
        assert t.tolist() == values, kind
        assert t.size == 0 or t.data_ptr() == exporter.address, kind
        assert (exporter.exported, exporter.released) == (1, 0), kind
        del t
        assert exporter.released == 1, kind


def test_what_is_refused() -> None:
    """And let go of."""
    before = live()
    for kind, (fields, said) in REFUSED.items():
        exporter = make(fields)
        with pytest.raises(BufferError, match=said):
            candle.asarray(exporter)
        assert exporter.exported == exporter.released == 1, kind
    assert live() == before


def test_types_that_have_no_module() -> None:
    """As C code makes them that gives a name without a dot: they are nobody's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # CPython does not like it
        empty, exporting = make_type(b"Empty", exports=False), make_type(b"Exporting")
    assert not hasattr(empty, "__module__")

    class Derived(exporting):  # type: ignore[misc, valid-type]
        __init__ = Exporter.__init__
        fill = Exporter.fill

    x = Derived(b"ab")
    t = candle.asarray(x, copy=False)
    assert (t.tolist(), t.data_ptr()) == ([97, 98], x.address)
    assert candle.explain(x).action == "share"
    assert candle.shares_memory(x, t)
    nothing = empty()
    for take in (candle.asarray, candle.from_dlpack, candle.from_arrow):
        with pytest.raises(TypeError, match="Empty"):
            take(nothing)
    for keyword in ("dtype", "device"):
        with pytest.raises((TypeError, ValueError), match="Empty"):
            candle.zeros(2, **{keyword: nothing})
    with pytest.raises(TypeError, match="Empty"):
        candle.explain(nothing)
    assert candle.owner(nothing) is nothing
    assert candle.convert([nothing], "numpy") == [nothing]
