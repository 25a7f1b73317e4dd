"""Tensors of Python numbers and sequences."""

from __future__ import annotations

import array
import contextlib
import enum
import sys
from typing import Any

import pytest

import candle


class Colour(enum.IntEnum):
    RED = 3


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (True, "bool", ()),
        (3, "int64", ()),
        (1.5, "float32", ()),
        (1j, "complex64", ()),
        ([], "float32", (0,)),
        ([[], []], "float32", (2, 0)),
        ([True, False], "bool", (2,)),
        ([True, 2], "int64", (2,)),
        ([1, 2.5], "float32", (2,)),
        ([1, 2.5, 1j], "complex64", (3,)),
        (((1, 2), (3, 4)), "int64", (2, 2)),
        ([range(3), range(3)], "int64", (2, 3)),
        (range(4), "int64", (4,)),
        ([[[1]]], "int64", (1, 1, 1)),
        (Colour.RED, "int64", ()),
        ([Colour.RED, 1], "int64", (2,)),
    ],
)
def test_default_dtypes(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    t = candle.Tensor(data)
    assert (str(t.dtype), t.shape) == (dtype, shape)
    assert t.tolist() == _lists(data)
    assert not t.readonly


def _lists(data: Any) -> Any:
    return [_lists(x) for x in data] if isinstance(data, list | tuple | range) else data


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ([[1], 2], ValueError, "ragged"),
        ([1, [2]], ValueError, "ragged"),
        ([[1], [2, 3]], ValueError, "ragged"),
        ([[], [1]], ValueError, "ragged"),
        (2**63, ValueError, "uint64"),
        ([2**63], ValueError, "uint64"),
        (2**64, ValueError, "64 bits"),
        ([-(2**63) - 1], ValueError, "64 bits"),
        ("text", TypeError, "str"),
        (["text"], TypeError, "str"),
        (None, TypeError, "NoneType"),
        ([None], TypeError, "NoneType"),
        ({1: 2}, TypeError, "dict"),
        ({1, 2}, TypeError, "set"),
        (object(), TypeError, "__dlpack__"),
        (candle.Tensor, TypeError, "type"),
        (iter([1]), TypeError, "list_iterator"),
    ],
)
def test_refused(data: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        candle.Tensor(data)


def test_a_list_that_contains_itself() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="64 deep"):
        candle.Tensor(endless)


def test_large_unsigned() -> None:
    assert candle.Tensor([2**64 - 1, 0], dtype="uint64").tolist() == [2**64 - 1, 0]
    assert candle.Tensor(2**63, dtype="uint64").item() == 2**63
    assert candle.Tensor([2**63, 1.0]).tolist() == [2.0**63, 1.0]


def test_copy_false_has_nothing_to_share() -> None:
    for data in (1, [1, 2], (), range(3)):
        with pytest.raises(candle.CopyError, match="not one block of memory"):
            candle.asarray(data, copy=False)


def test_one_rounding_from_the_python_number() -> None:
    # Halfway between two bfloat16 numbers once it is rounded to float32.
    value = 1.00390625 + 2**-40
    assert candle.Tensor([value], dtype="bfloat16").tolist() == [1.0078125]
    assert candle.Tensor(value, dtype="bfloat16").item() == 1.0078125


def test_sequences_of_tensors() -> None:
    a, b = candle.Tensor([1, 2]), candle.Tensor([3, 4])
    assert candle.Tensor([a, b]).tolist() == [[1, 2], [3, 4]]
    assert candle.Tensor([[a], [b]]).shape == (2, 1, 2)
    assert candle.Tensor((array.array("i", [1, 2]), array.array("i", [3, 4]))).dtype == "int32"
    assert candle.Tensor([a, b], dtype="float32").dtype == "float32"
    with pytest.raises(ValueError, match="shapes"):
        candle.Tensor([a, candle.Tensor([1])])
    with pytest.raises(TypeError, match="dtype="):
        candle.Tensor([a, candle.Tensor([1.0, 2.0])])


def test_numpy_scalars_keep_their_dtype() -> None:
    np = pytest.importorskip("numpy")
    for name in ("float64", "float32", "int8", "uint16", "bool", "complex128"):
        scalar = np.dtype(name).type(1)
        assert candle.Tensor(scalar).dtype == name
        assert candle.Tensor([scalar, scalar]).dtype == name


def test_a_sequence_that_changes_while_it_is_read() -> None:
    class Shrinking(list[Any]):
        pass

    victim: list[Any] = []

    class Number(int):
        def __index__(self) -> int:
            victim.clear()
            return 1

    victim.extend([Number(1), 2, 3])
    with contextlib.suppress(RuntimeError, ValueError):
        candle.Tensor(victim)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (b"\x01\x02", "uint8"),
        (bytearray(b"\x01\x02"), "uint8"),
        (memoryview(b"\x01\x02"), "uint8"),
        (array.array("d", [1.0, 2.0]), "float64"),
        (array.array("i", [1, 2]), "int32"),
    ],
)
def test_buffers_share(value: Any, dtype: str) -> None:
    t = candle.asarray(value, copy=False)
    assert (str(t.dtype), t.tolist()) == (dtype, [1, 2])
    assert t.readonly == memoryview(value).readonly
    before = sys.getrefcount(value)
    del t
    assert sys.getrefcount(value) <= before


def test_dtype_reaches_numbers_beside_tensors() -> None:
    np = pytest.importorskip("numpy")
    mixed = [0.1, np.float64(0.1)]
    assert candle.Tensor(mixed, dtype="float64").tolist() == [0.1, 0.1]
    assert candle.Tensor([2**63, np.uint64(1)], dtype="uint64").tolist() == [2**63, 1]
    with pytest.raises(ValueError, match="fit"):
        candle.Tensor([300, np.int8(1)], dtype="int8")


def test_structures_and_unions_are_no_numbers() -> None:
    import ctypes

    class Packed(ctypes.Structure):
        _pack_ = 1
        _fields_ = (("a", ctypes.c_float), ("b", ctypes.c_float))

    class Either(ctypes.Union):
        _fields_ = (("f", ctypes.c_float), ("i", ctypes.c_int))

    for value in (Packed(1.5, 2.5), Either(1.5), (Packed * 2)()):
        with pytest.raises(BufferError, match="no dtype"):
            candle.Tensor(value)
    assert candle.Tensor((ctypes.c_long * 2)(1, 2)).tolist() == [1, 2]


def test_a_protocol_that_is_none_is_not_there() -> None:
    class Half:
        __dlpack__ = None
        __array_interface__ = None

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> int:
            if index > 1:
                raise IndexError
            return index

    assert candle.Tensor(Half()).tolist() == [0, 1]
