"""Calls with wrong arguments: what is said of each."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pytest

import candle
from candle._native import _core
from candle.testing import Producer, exchange_producer, live

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS: list[tuple[type[Exception], str, Callable[[Any], object]]] = [
    (TypeError, "exactly one positional argument", lambda t: candle.from_dlpack(t, t)),
    (TypeError, "exactly one positional argument", lambda t: candle.from_dlpack()),
    (TypeError, "unexpected keyword argument 'no'", lambda t: candle.from_dlpack(t, no=1)),
    (TypeError, "exactly one positional argument", lambda t: candle.asarray(t, t)),
    (TypeError, "'nope' is not a dtype", lambda t: candle.asarray(t, dtype="nope")),
    (TypeError, "copy is None, False or True", lambda t: candle.asarray(t, copy=2)),
    (ValueError, "'nope' names no device", lambda t: candle.asarray(t, device="nope")),
    (ValueError, "'nope' names no device", lambda t: candle.Tensor(t, device="nope")),
    (TypeError, "unexpected keyword argument 'no'", lambda t: candle.asarray(t, no=1)),
    (TypeError, "exactly one positional argument", lambda t: candle.from_arrow(t, t)),
    (TypeError, "unexpected keyword argument 'no'", lambda t: candle.from_arrow(t, no=1)),
    (TypeError, "missing required argument", lambda t: candle.Tensor()),
    (TypeError, "copy is None, False or True", lambda t: candle.Tensor(t, copy="no")),
    (TypeError, "'nope' is not a dtype", lambda t: candle.Tensor(t, dtype="nope")),
    (TypeError, "at most one positional argument", lambda t: t.__array__(None, None)),
    (TypeError, "unexpected keyword argument 'no'", lambda t: t.__array__(no=1)),
    (TypeError, "copy is None, False or True", lambda t: t.__array__(copy=2)),
    (TypeError, "'nope'", lambda t: t.__array__("nope")),
    (TypeError, "at most one positional argument", lambda t: t.__arrow_c_array__(None, None)),
    (TypeError, "unexpected keyword argument 'no'", lambda t: t.__arrow_c_array__(no=None)),
    (TypeError, "None or a capsule", lambda t: t.__arrow_c_array__(5)),
    (NotImplementedError, "no keyword 'no'", lambda t: t.__arrow_c_device_array__(no=1)),
    (TypeError, "keyword arguments only", lambda t: t.__dlpack__(None)),
    (TypeError, "unexpected keyword argument 'no'", lambda t: t.__dlpack__(no=1)),
    (TypeError, "tuple of ints", lambda t: t.__dlpack__(max_version=(1, "x"))),
    (BufferError, "no device that candle exports to", lambda t: t.__dlpack__(dl_device=(1, -1))),
    (TypeError, "unexpected keyword argument 'no'", lambda t: t.numpy(no=1)),
    (TypeError, "numpy.. takes keyword arguments only", lambda t: t.numpy(True)),
    (TypeError, "torch.. takes keyword arguments only", lambda t: t.torch(True)),
    (TypeError, "legacy_capsule", lambda t: _core.legacy_capsule()),
    (TypeError, "int is no Tensor", lambda t: _core.legacy_capsule(5)),
    (ValueError, "is no CUDA stream", lambda t: _core.legacy_capsule(away(), "x")),
    (ValueError, "more elements than fit 63 bits", lambda t: candle.zeros((1 << 62, 4))),
    (ValueError, "more elements than memory", lambda t: candle.zeros(1 << 62, dtype="float64")),
    (ValueError, "does not fit 64 bits", lambda t: t.reshape(1 << 70)),
    (ValueError, "66 axes; a tensor has at most 64", lambda t: candle.asarray([[[t]]])),
]


def away() -> candle.Tensor:
    """Memory of a device that is not there; nothing is asked of it."""
    return candle.from_dlpack(Producer(1 << 40, shape=(1,), device=(2, 0)).capsule(True))


BYTES = candle.uint8.id


def gaps() -> candle.Tensor:
    return candle.zeros(4, dtype="uint8")[::2]


# What candle's Python asks of its native core, which says of a slip there what it is.
WITHIN: list[tuple[type[Exception], str, Callable[[Any], object]]] = [
    (TypeError, "keywords only", lambda t: _core.register(1)),
    (TypeError, "no hook is called 'no'", lambda t: _core.register(no=1)),
    (ValueError, "there are [0-9]+ dtypes", lambda t: _core.register(dtypes=())),
    (ValueError, "no dtype called no", lambda t: _core.Demand("x", dtypes=["no"])),
    (ValueError, "no dtype called no", lambda t: _core.Demand("x", narrows=["no"])),
    (UnicodeEncodeError, "surrogates not allowed", lambda t: _core.Demand("\ud800")),
    (ValueError, "a power of two, not 3", lambda t: _core.Demand("x", alignment=3)),
    (ValueError, "no route is called no", lambda t: _core.Demand("x", route="no")),
    (TypeError, "int is no Demand", lambda t: _core.conform(t, 5, None)),
    (TypeError, "int", lambda t: _core.conform(5, _core.Demand("x"), None)),
    (TypeError, "copy is None, False or True", lambda t: _core.conform(t, _core.Demand("x"), 2)),
    (ValueError, "needs a dtype", lambda t: _core.empty((1,), -1)),
    (ValueError, "no dtype has the number 999", lambda t: _core.empty((1,), 999)),
    (ValueError, "a power of two, not 3", lambda t: _core.empty((1,), 0, 3)),
    (ValueError, "a power of two, not 0", lambda t: _core.empty((1,), 0, 0)),
    (TypeError, "int", lambda t: _core.copy_into(t, 5)),
    (TypeError, "int", lambda t: _core.copy_into(5, t)),
    (ValueError, "read-only", lambda t: _core.copy_into(_core.frozen(t), t)),
    (TypeError, "int is no Tensor", lambda t: _core.materialise(5)),
    (ValueError, "no dtype has the number 999", lambda t: _core.materialise(t, 999)),
    (TypeError, "int is no Tensor", lambda t: _core.check_writable(5)),
    (TypeError, "int", lambda t: _core.fill(5, 1)),
    (TypeError, "int", lambda t: _core.assign(5, 1)),
    (TypeError, "ingest_by", _core.ingest_by),
    (TypeError, "ingest_by", lambda t: _core.ingest_by(5, t)),
    (TypeError, "ingest_by", lambda t: _core.ingest_by("\ud800", t)),
    (ValueError, "no route is called 'no'", lambda t: _core.ingest_by("no", t)),
    (TypeError, "shared", lambda t: _core.shared()),
    (LookupError, "int has no C exchange table", lambda t: _core.exchange_floor(5)),
    (TypeError, "plan_in", _core.plan_in),
    (ValueError, "no door is called 'no'", lambda t: _core.plan_out(t, "no")),
    (TypeError, "quietly", lambda t: _core.quietly()),
    (TypeError, "on_host", _core.on_host),
    (TypeError, "usage: restride", _core.restride),
    (TypeError, "int is no Tensor", lambda t: _core.restride(5, (), ())),
    (TypeError, "int", lambda t: _core.restride(t, (), (), "x")),
    (TypeError, "usage: reshaped_stride", _core.reshaped_stride),
    (TypeError, "usage: reinterpret", _core.reinterpret),
    (ValueError, "no dtype has the number 999", lambda t: _core.reinterpret(t, 999)),
    (TypeError, "int", lambda t: _core.arrow_capsules(5, None, False, None)),
    (
        TypeError,
        "copy is None, False or True",
        lambda t: _core.arrow_capsules(candle.zeros(3), None, False, 2),
    ),
    (TypeError, "usage: of_bytes", _core.of_bytes),
    (TypeError, "int is no Tensor", lambda t: _core.of_bytes(5, (), 0)),
    (TypeError, "int", lambda t: _core.of_bytes(t, (), "x")),
    (ValueError, "the elements have gaps", lambda t: _core.as_bytes(candle.zeros((2, 2)).T)),
    (ValueError, "not those of such a tensor", lambda t: _core.of_bytes(t.view("uint8"), (9,), 0)),
    (ValueError, "not those of such a tensor", lambda t: _core.of_bytes(t.view("uint8"), (1,), -2)),
    (ValueError, "not those of such a tensor", lambda t: _core.of_bytes(t.view("uint8"), (), 999)),
    (ValueError, "not those of such a tensor", lambda t: _core.of_bytes(gaps(), (2,), BYTES)),
    (ValueError, "not those of such a tensor", lambda t: _core.of_bytes(t, t.shape, t.dtype.id)),
    (TypeError, "usage: sharer", lambda t: _core.sharer(1, 2, 3, 4)),
    (TypeError, "usage: sharer", lambda t: _core.sharer({}, None)),
    (TypeError, "a shape is a sequence of ints", lambda t: _core.empty(5, 0)),
    (TypeError, "int is no Tensor", lambda t: _core.host_copy(5, 0)),
    (ValueError, "no dtype has the number 999", lambda t: _core.host_copy(t, 999)),
    (TypeError, "int is no Tensor", lambda t: _core.host_write(5, t)),
    (TypeError, "int is no Tensor", lambda t: _core.host_write(t, 5)),
    (BufferError, "the host cannot read it", lambda t: _core.host_copy(away(), 0)),
    (BufferError, "the host cannot read it", lambda t: _core.host_write(t, away())),
    (BufferError, "the host cannot read it", lambda t: _core.host_write(away(), t)),
    (TypeError, "int", lambda t: _core.set_overlap_room("x")),
    (TypeError, "int", lambda t: _core.watch("x")),
    (ValueError, "at least one thread, not 0", lambda t: candle.set_num_threads(0)),
    (ValueError, "at least one thread, not -", lambda t: candle.set_num_threads(-(1 << 70))),
    (TypeError, "int", lambda t: candle.set_num_threads("two")),
]


def test_wrong_calls() -> None:
    t = candle.zeros((1,) * 63)
    for error, said, call in CALLS + WITHIN:
        with pytest.raises(error, match=said):
            call(t)
    assert candle.zeros((1, 0, 1 << 62)).size == 0  # no elements are not too many


def test_more_threads_than_an_int_counts() -> None:
    before = candle.get_num_threads()
    try:
        for count in (1 << 31, 1 << 40, 1 << 70):
            candle.set_num_threads(count)
            most = candle.get_num_threads()
            assert 1 <= most < 1 << 31
            assert (candle.arange(1 << 20) * 0 + 1).tolist()[::65536] == [1] * 16
    finally:
        candle.set_num_threads(before)


def test_pairs_have_no_value() -> None:
    t = candle.asarray(bytearray(4)).view("float4_e2m1fn_x2")
    for read in (t.tolist, t[0].item, lambda: float(t[0])):
        with pytest.raises((BufferError, TypeError), match=r"pair of numbers|view.'uint8'"):
            read()
    for write in (
        lambda: t.fill_(1),
        lambda: t.__setitem__(0, 1.5),
        lambda: candle.full(2, 1, dtype=t.dtype),
    ):
        with pytest.raises(BufferError, match="cannot be made of numbers"):
            write()


def test_the_vector_instructions_that_are_used(in_child: Any) -> None:
    levels = ["baseline", "avx2", "avx512"]
    best = levels.index(_core.simd())
    for wanted, level in enumerate(levels):
        said = in_child("from candle._native import _core; print(_core.simd())", CANDLE_SIMD=level)
        assert said.check().split() == [levels[min(best, wanted)]]


class Index:
    """An integer of some framework: what it says of itself, or raises."""

    def __init__(self, **said: Any) -> None:
        self.said = said

    def __index__(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Any:
        value = self.said.get(name, AttributeError(name))
        if isinstance(value, BaseException):
            raise type(value)(name)
        return value


class Unnamed:
    def __str__(self) -> str:
        raise RuntimeError("no name")


def test_what_is_an_index() -> None:
    """Whatever has `__index__` and no axes, but masks; what cannot be asked is not asked again."""
    t = candle.arange(4)
    for said in (
        {},
        {"ndim": 0},
        {"ndim": 0, "dtype": "int64"},
        {"ndim": RuntimeError(), "dtype": RuntimeError()},
        {"ndim": 0, "dtype": Unnamed()},
        {"ndim": 0, "dtype": "\ud800"},
    ):
        assert t[Index(**said)].item() == 1, said
        changed = t.copy()
        changed[Index(**said)] = 7
        assert changed.tolist() == [0, 7, 2, 3], said
    for name in ("ndim", "dtype"):
        for error in (KeyboardInterrupt(), MemoryError()):
            with pytest.raises(type(error)):
                t[Index(**{"ndim": 0, name: error})]
            with pytest.raises(type(error)):
                t[Index(**{"ndim": 0, name: error})] = 5


def test_bytes_seen_as_other_elements() -> None:
    """Where the last axis holds whole elements of both, and the others step over such."""
    t = candle.arange(48, dtype="uint8").view(2, 3, 8)
    shapes = {"uint16": (2, 3, 4), "uint64": (2, 3, 1), "int4": (2, 3, 16), "int8": (2, 3, 8)}
    for dtype, shape in shapes.items():
        seen = t.view(dtype)
        assert seen.shape == shape
        assert seen.view("uint8").tolist() == t.tolist()
        assert t[:, ::2].view(dtype).view("uint8").tolist() == t[:, ::2].tolist()
    odd = candle.arange(30, dtype="uint8").view(6, 5)
    assert odd[:1, :4].view("uint16").shape == (1, 2)  # an axis of 1 may have any stride
    assert t[:, :0].view("uint64").shape == (2, 0, 1)
    assert t[..., :0].view("uint64").shape == (2, 3, 0)
    for view, dtype in (
        (t[..., :5], "uint16"),  # no whole elements
        (t[..., ::2], "uint16"),  # gaps
        (t.permute(0, 2, 1), "uint16"),
        (t[0, 0, 0], "uint16"),  # no axis
        (odd[:, :4], "uint16"),  # rows between elements
    ):
        with pytest.raises(ValueError, match="cannot be seen as uint16"):
            view.view(dtype)
    with pytest.raises(ValueError, match="not a multiple of 2, the alignment of uint16"):
        candle.arange(9, dtype="uint8")[1:].view("uint16")


def test_wrong_indices() -> None:
    """By the sequence protocol, which C code uses, as by the brackets."""
    item = ctypes.pythonapi.PySequence_GetItem
    item.argtypes, item.restype = [ctypes.py_object, ctypes.c_ssize_t], ctypes.py_object
    t = candle.arange(3)
    assert [item(t, i).item() for i in (0, 2, -1, -3)] == [0, 2, 2, 0]
    for index in (3, -4, -100):
        with pytest.raises(IndexError, match="out of bounds for axis 0"):
            item(t, index)
        with pytest.raises(IndexError, match="out of bounds for axis 0"):
            t[index]
        with pytest.raises(IndexError, match="out of bounds for axis 0"):
            t[index,]
    for index in (1 << 70, -(1 << 70)):
        with pytest.raises(IndexError):
            t[index]
    with pytest.raises(IndexError, match="no axes"):
        item(candle.zeros(()), 0)
    with pytest.raises(TypeError, match="cannot be deleted"):
        del t[0]


def test_the_floor_of_an_exchange_gives_back() -> None:
    """What benchmarks compare with: a producer's table called, and what it gives dropped."""
    producer = exchange_producer(Producer(shape=(4,)))
    before = live()
    assert _core.exchange_floor(producer) is None
    assert live() == before
    kept = exchange_producer(Producer(shape=(4,), null_deleter=True))
    assert _core.exchange_floor(kept) is None
    with pytest.raises(RuntimeError, match="mine"):
        _core.exchange_floor(exchange_producer(Producer(shape=(4,)), fails=RuntimeError("mine")))


def test_names_of_keywords_are_told_by_their_text() -> None:
    """Those that a program puts together are no longer the strings of its source."""
    t = candle.zeros(2)
    keywords = {"".join(["co", "py"]): True, "".join(["dty", "pe"]): "float64"}
    made = candle.asarray(t, **keywords)
    assert made.data_ptr() != t.data_ptr()
    assert made.dtype == "float64"


def test_bytes_are_those_of_elements_that_take_one_each_or_less() -> None:
    """A flag of padding means nothing where there is nothing to pad."""
    data = candle.Tensor(bytearray(8))
    for name, padded in (("int4", True), ("int8", False), ("float32", False)):
        dtype = candle.as_dtype(name)
        t = _core.of_bytes(data, (8 // max(1, dtype.bits // 8),), dtype.id, True)
        assert (t.dtype, _core.is_padded(t)) == (name, padded)


class Real(float):
    pass


class Complex(complex):
    pass


def test_numbers_of_subclasses() -> None:
    """They are numbers like those they are made of, wherever one is taken."""
    for number in (Real(1.5), Complex(1.5, -2)):
        plain = number.__complex__() if isinstance(number, complex) else float(number)
        t = candle.full((2,), number, dtype="complex64")
        assert t.tolist() == [plain, plain]
        t[0] = 0
        t[0] = number
        assert t.tolist() == [plain, plain]
