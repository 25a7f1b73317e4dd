"""numpy's `__array_struct__`, in."""

from __future__ import annotations

import struct
import weakref
from typing import Any

import pytest
from interfaces import ALIGNED, NOT_SWAPPED, SOUND, WRITEABLE, Struct

import candle

NUMBERS = struct.pack("=16f", *range(16))
BIG = struct.pack(">16f", *range(16))


def test_struct_is_shared() -> None:
    x = Struct(NUMBERS, shape=(2, 3), strides=(12, 4))
    t = candle.asarray(x, copy=False)
    assert t.data_ptr() == x.address
    assert t.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    owner = weakref.ref(x)
    del x
    assert owner() is not None
    del t
    assert owner() is None


def test_struct_layouts() -> None:
    t = candle.asarray(Struct(NUMBERS, shape=(2, 3), strides=(4, 8)), copy=False)
    assert t.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    t = candle.asarray(Struct(NUMBERS, shape=(4,), strides=(-4,), start=12), copy=False)
    assert t.tolist() == [3.0, 2.0, 1.0, 0.0]
    assert candle.asarray(Struct(NUMBERS, shape=(), strides=(), start=8)).item() == 2.0
    assert candle.asarray(Struct(NUMBERS, shape=(0, 3), strides=(12, 4), null_data=True)).size == 0


def test_struct_without_the_writeable_flag() -> None:
    assert candle.asarray(
        Struct(NUMBERS, shape=(2,), strides=(4,), flags=SOUND & ~WRITEABLE)
    ).readonly


def test_one_byte_has_no_order() -> None:
    x = Struct(b"\1\2", shape=(2,), strides=(1,), kind=b"u", itemsize=1, flags=SOUND & ~NOT_SWAPPED)
    assert candle.asarray(x, copy=False).tolist() == [1, 2]


def test_struct_that_is_copied_right() -> None:
    swapped = Struct(BIG, shape=(4,), strides=(4,), flags=SOUND & ~NOT_SWAPPED)
    misaligned = Struct(b"\1" + NUMBERS, shape=(4,), strides=(4,), start=1, flags=SOUND & ~ALIGNED)
    odd = Struct(
        b"".join(NUMBERS[4 * i : 4 * i + 4] + b"\1" for i in range(4)), shape=(4,), strides=(5,)
    )
    for x in (swapped, misaligned, odd):
        assert candle.asarray(x).tolist() == [0.0, 1.0, 2.0, 3.0]
        with pytest.raises(candle.CopyError):
            candle.asarray(x, copy=False)


@pytest.mark.parametrize(
    "fields",
    [
        {"two": 3},
        {"two": 0},
        {"nd": -1},
        {"nd": 1000},
        {"null_data": True},
        {"null_shape": True},
        {"kind": b"O", "itemsize": 8},
        {"kind": b"V"},
        {"kind": b"x"},
        {"itemsize": 0},
        {"itemsize": -4},
        {"itemsize": 3},
        {"itemsize": 16},
        {"shape": (-1,)},
        {"shape": (2**62,)},
        {"name": "a name"},
        {"name": "dltensor"},
    ],
    ids=str,
)
@pytest.mark.isolated
def test_impossible_structs(fields: dict[str, Any]) -> None:
    with pytest.raises(BufferError):
        candle.asarray(Struct(NUMBERS, **{"shape": (2,), "strides": (4,), **fields}))


@pytest.mark.parametrize("value", [None, 1, "text", object()])
def test_struct_that_is_no_capsule(value: object) -> None:
    class Odd:
        __array_struct__ = value

    with pytest.raises((BufferError, TypeError)):
        candle.asarray(Odd())


def test_numpys_own_struct(framework: Any) -> None:
    np = framework("numpy")

    class OnlyStruct:
        def __init__(self, array: Any) -> None:
            self.array = array

        @property
        def __array_struct__(self) -> object:
            return self.array.__array_struct__

    array = np.arange(12, dtype="f4").reshape(3, 4)
    for view in (array, array.T, array[::-1, ::2], array[1:1], array.astype(">f4"), array[1, 2]):
        x = OnlyStruct(np.asarray(view))
        assert candle.asarray(x).tolist() == view.tolist()
    t = candle.asarray(OnlyStruct(array), copy=False)
    assert t.data_ptr() == array.ctypes.data
    with pytest.raises(BufferError):
        candle.asarray(OnlyStruct(np.array([("a", 1)], dtype=[("x", "O"), ("y", "i4")])))
