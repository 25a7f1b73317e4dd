"""Tensors of Python numbers and sequences."""

from __future__ import annotations

import array
import contextlib
import enum
import sys
from typing import Any

import pytest
import rounding

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
        ([[], 1], ValueError, "ragged"),
        (2**63, ValueError, "uint64"),
        ([2**63], ValueError, "uint64"),
        (2**64, ValueError, "64 bits.*float64"),
        ([-(2**63) - 1], ValueError, "64 bits.*float64"),
        ([[-(10**5000)]], ValueError, "an int of 16610 bits .*float64"),
        ([True, 2**64], ValueError, "64 bits"),
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


@pytest.mark.parametrize(
    "make", [lambda x: x, lambda x: [[-x]], lambda x: (1, x)], ids=["alone", "nested", "beside"]
)
def test_refused_ints_of_any_size(make: Any) -> None:
    with pytest.raises(ValueError, match=r"an int of 16610 bits .*float64"):
        candle.Tensor(make(10**5000))


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
    for other in (candle.Tensor([[1, 2]]), candle.Tensor(1)):
        with pytest.raises(ValueError, match="shapes"):
            candle.Tensor([a, other])
    with pytest.raises(ValueError, match="more elements than memory"):
        candle.Tensor([a[:1].broadcast_to(2**56)] * 256)
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


def test_sequences_of_buffers() -> None:
    """Bytes are memory, not sequences of numbers, and keep their dtype."""
    t = candle.Tensor([b"ab", bytearray(b"cd"), memoryview(b"ef")])
    assert (t.dtype, t.tolist()) == ("uint8", [[97, 98], [99, 100], [101, 102]])


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
        _pack_, _layout_ = 1, "ms"
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


EXACT = [2**64, -(2**64), 2**64 + 1, 2**64 + 2**40, 2**64 + 2**40 + 1, -(2**63) - 1, 2**70 - 1]
EXACT += [
    sign * (2**k + d) for sign in (1, -1) for k in (64, 100, 127) for d in (-1, 1, 2 ** (k // 2))
]
EXACT += [2**64 + half + d for half in (2**40, 2**56, 2**12, 2**11) for d in (-1, 0, 1)]
EXACT += [2**1023, 2**1024 - 2**970, 2**1024 - 2**970 - 1, 10**400, -(10**400), 10**5000]


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "float8_e5m2"])
def test_ints_of_any_size_are_rounded_once(dtype: str) -> None:
    for value in EXACT:
        wanted = rounding.rounded_int(value, dtype)
        for t in (
            candle.Tensor(value, dtype=dtype),
            candle.Tensor([value], dtype=dtype)[0],
            candle.zeros(1, dtype=dtype).fill_(value)[0],
            candle.full(1, value, dtype=dtype)[0],
        ):
            assert t.view(f"uint{t.itemsize * 8}").item() == wanted, (value, t)


def test_ints_of_any_size_in_other_dtypes() -> None:
    class Own(int):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("not asked")

        __lt__ = __gt__ = __eq__  # type: ignore[assignment]
        __hash__ = int.__hash__

    assert candle.Tensor([2**64], dtype="complex64").item() == 2.0**64
    assert candle.Tensor([2**64 + 1], dtype="complex128").item() == 2.0**64
    assert candle.Tensor([2**64, 0], dtype="bool").tolist() == [True, False]
    assert candle.Tensor([2**64, 1.5]).tolist() == [2.0**64, 1.5]
    assert candle.Tensor([2**64, 1j]).tolist() == [2.0**64, 1j]
    assert candle.Tensor(Own(2**64), dtype="float32").item() == 2.0**64
    t = candle.zeros(2)
    t[0] = 2**64
    t[1:] = [-(2**65)]
    assert t.tolist() == [2.0**64, -(2.0**65)]
    assert candle.asarray([2**64, candle.Tensor(1.0)], dtype="float32").tolist() == [2.0**64, 1]


def test_the_ends_of_every_integer_dtype() -> None:
    """They fit, and what lies next to them does not; so do both in a list or a tuple."""
    for bits in (4, 8, 16, 32, 64):
        for dtype, low, high in (
            (f"int{bits}", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            (f"uint{bits}", 0, 2**bits - 1),
        ):
            t = candle.zeros(2, dtype=dtype)
            t[:] = (high, low)
            assert t.tolist() == [high, low], dtype
            t[:] = [low, high]
            for beyond in (low - 1, high + 1):
                for wrong in (beyond, (0, beyond), [0, beyond]):
                    with pytest.raises(ValueError, match=f"{beyond} does not fit {dtype}"):
                        t[:] = wrong
            assert t.tolist() == [low, high], dtype


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int8", "uint8", "int4"])
@pytest.mark.parametrize("value", [2**64, -(2**64), 10**5000], ids=["2**64", "-2**64", "10**5000"])
def test_ints_that_no_integer_dtype_holds(dtype: str, value: int) -> None:
    t = candle.zeros(2, dtype=dtype)
    for move in (
        lambda: candle.Tensor(value, dtype=dtype),
        lambda: candle.Tensor([value], dtype=dtype),
        lambda: t.fill_(value),
        lambda: t.__setitem__(0, value),
        lambda: candle.full(2, value, dtype=dtype),
    ):
        with pytest.raises(ValueError, match=f"does not fit {dtype}"):
            move()


HUGE = 10**5000  # more digits than Python prints


@pytest.mark.parametrize(
    "call",
    [
        "zeros(HUGE)",
        "zeros((2, HUGE))",
        "zeros(2)[HUGE]",
        "zeros((2, 2))[0, HUGE]",
        "zeros(2).view(HUGE)",
        "zeros(2).reshape(HUGE)",
        "zeros(2).reshape(-1, HUGE)",
        "zeros(2).narrow(0, HUGE, 1)",
        "zeros(2).narrow(0, 0, HUGE)",
        "zeros(2).permute(HUGE)",
        "zeros(2).transpose(0, HUGE)",
        "zeros(2).squeeze(HUGE)",
        "zeros(2).unsqueeze(HUGE)",
        "zeros(2).broadcast_to((HUGE,))",
        "arange(HUGE)",
        "linspace(0, 1, HUGE)",
        "linspace(0, 1, -HUGE)",
        "stack([zeros(2)], HUGE)",
        "cat([zeros(2)], HUGE)",
        "empty(2, align=HUGE)",
        "zeros(2).__dlpack__(stream=HUGE)",
        "zeros(2).__dlpack__(dl_device=(HUGE, 0))",
    ],
)
def test_no_int_is_too_long_for_its_message(call: str) -> None:
    with pytest.raises((ValueError, IndexError, BufferError)) as caught:
        eval(call, {**vars(candle), "HUGE": HUGE})
    assert "4300" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_complex_number_that_is_refused_names_the_remedy() -> None:
    for data in (1j, [1j], [[1, 1j]]):
        with pytest.raises(BufferError, match=r"1j does not become float32; .*z\.real"):
            candle.Tensor(data, dtype="float32")
