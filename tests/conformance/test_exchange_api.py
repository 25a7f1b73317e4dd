"""Candle's C exchange table, slot by slot, and in other hands."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import layouts
import pytest

import candle
from candle.ledger import listening
from candle.testing import Producer, capsules, exchange_api, info, live
from candle.testing.abi import IS_COPIED, READ_ONLY, SLOTS
from candle.testing.capsules import struct_info
from candle.testing.exchange import AllocatorError, ExchangeAPI

ATTRIBUTE = "__dlpack_c_exchange_api__"
ALIGNMENT = 256

every_layout = pytest.mark.parametrize(
    "make", [pytest.param(make, id=name) for name, make in layouts.LAYOUTS.items()]
)


@pytest.fixture
def api() -> ExchangeAPI:
    return exchange_api(candle.Tensor)[0]


def test_table() -> None:
    tables = exchange_api(candle.Tensor)
    assert [table.version for table in tables] == [(1, 3)]
    assert tables[0].slots == SLOTS
    assert not tables[0].table.header.prev_api


def test_attribute_is_one_capsule_for_good() -> None:
    capsule = getattr(candle.Tensor, ATTRIBUTE)
    assert getattr(candle.Tensor, ATTRIBUTE) is capsule
    assert capsules.capsule_name(capsule) == "dlpack_exchange_api"
    assert getattr(candle.zeros((1,)), ATTRIBUTE) is capsule


def test_subclasses_inherit_the_table() -> None:
    class Sub(candle.Tensor):
        pass

    assert exchange_api(Sub)[0].address == exchange_api(candle.Tensor)[0].address


@every_layout
def test_from_py_object_acts_as_dlpack(api: ExchangeAPI, make: Any) -> None:
    t = make()
    wanted = info(t.__dlpack__(max_version=(1, 3)))
    references = sys.getrefcount(t)
    with api.from_py_object(t) as taken:
        got = taken.info
        copied = bool((got.flags or 0) & IS_COPIED)
        assert got._replace(name=wanted.name, data=0) == wanted._replace(data=0)
        assert copied == layouts.has_negative_stride(t)
        if t.size > 0:
            assert (got.data == t.data_ptr()) == (not copied)
        else:
            assert got.data == 0
    assert sys.getrefcount(t) == references


def test_from_py_object_of_another_type(api: ExchangeAPI) -> None:
    before = live()
    for x in (None, 1, [1.0], object(), candle.Tensor):
        with pytest.raises(TypeError):
            api.from_py_object(x)
        with pytest.raises(TypeError):
            api.dltensor_from_py_object(x)
    assert live() == before


def test_from_py_object_outlives_the_tensor(api: ExchangeAPI) -> None:
    before = live()
    t = layouts.counting(4)
    taken = api.from_py_object(t)
    del t
    assert taken.read(8) == layouts.as_float32(0) + layouts.as_float32(1)
    taken.release(foreign_thread=True)
    assert live() == before


def test_dltensor_is_borrowed(api: ExchangeAPI) -> None:
    t = layouts.counting(3, 4)
    before = live()
    references = sys.getrefcount(t)
    fields = struct_info(api.dltensor_from_py_object(t))
    assert (fields.data, fields.byte_offset) == (t.data_ptr(), 0)
    assert (fields.shape, fields.strides) == ((3, 4), (4, 1))
    assert (fields.device, fields.dtype) == ((1, 0), (2, 32, 1))
    assert live() == before
    assert sys.getrefcount(t) == references


@every_layout
def test_dltensor_describes_what_from_py_object_does(api: ExchangeAPI, make: Any) -> None:
    t = make()
    if layouts.has_negative_stride(t):
        with pytest.raises(BufferError, match="stride"):
            api.dltensor_from_py_object(t)
        return
    fields = struct_info(api.dltensor_from_py_object(t))
    with api.from_py_object(t) as taken:
        wanted = taken.info
    assert (fields.shape or ()) == (wanted.shape or ())
    assert (fields.strides or ()) == (wanted.strides or ())
    assert (fields.data, fields.dtype, fields.byte_offset) == (wanted.data, wanted.dtype, 0)
    assert all(stride >= 0 for stride in fields.strides or ())


def test_to_py_object_steals(api: ExchangeAPI) -> None:
    producer = Producer(shape=(2, 3), byte_offset=4, flags=READ_ONLY)
    address = producer.export()
    t = api.to_py_object(address)
    assert type(t) is candle.Tensor
    lone = candle.zeros(1)  # Python 3.14 counts no reference for a local variable
    assert sys.getrefcount(t) == sys.getrefcount(lone)
    assert t.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert t.readonly
    assert t.data_ptr() == producer.address + 4
    assert producer.deletes == 0
    del t
    assert producer.deletes == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"version": (2, 0)},
        {"ndim": -1},
        {"null_shape": True},
        {"null_data": True},
        {"dtype": (99, 32)},
        {"dtype": (2, 32, 2)},
        {"device": (2, -1)},
        {"shape": (2**40, 2**40)},
    ],
    ids=str,
)
@pytest.mark.isolated
def test_to_py_object_of_the_impossible(api: ExchangeAPI, arguments: dict[str, Any]) -> None:
    """On failure the tensor is consumed or not: never twice."""
    producer = Producer(**{"shape": (2, 3), **arguments})
    before = live()
    with pytest.raises(BufferError):
        api.to_py_object(producer.export())
    assert producer.deletes <= 1
    assert live() == before


def test_to_py_object_without_strides_or_deleter(api: ExchangeAPI) -> None:
    producer = Producer(shape=(2, 3), strides=None, null_deleter=True)
    t: Any = api.to_py_object(producer.export())
    assert t.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (1000,), (1, 4, 1)])
@pytest.mark.parametrize("dtype", [(2, 32, 1), (6, 8, 1), (4, 16, 1), (5, 128, 1), (10, 8, 1)])
def test_allocator(api: ExchangeAPI, shape: tuple[int, ...], dtype: tuple[int, int, int]) -> None:
    before = live()
    taken = api.allocate(shape, dtype)
    fields = taken.info
    assert (fields.shape or ()) == shape
    assert (fields.strides or ()) == layouts.compact(shape)
    assert (fields.dtype, fields.device, fields.byte_offset) == (dtype, (1, 0), 0)
    assert (fields.version, fields.deleter) == ((1, 3), True)
    assert (fields.data == 0) == (0 in shape)
    assert fields.data % ALIGNMENT == 0
    assert live()["exports"] == before["exports"] + 1
    taken.release(foreign_thread=True)
    assert live() == before


def test_allocated_memory_becomes_a_tensor(api: ExchangeAPI) -> None:
    t: Any = api.to_py_object(api.allocate((2, 3), (2, 32, 1)).address)
    t[...] = 5
    assert t.tolist() == [[5.0] * 3] * 2
    assert not t.readonly


@pytest.mark.parametrize(
    ("shape", "dtype", "device", "kind"),
    [
        ((2, 3), (99, 32, 1), (1, 0), "BufferError"),
        ((2, 3), (2, 32, 2), (1, 0), "BufferError"),
        ((-2,), (2, 32, 1), (1, 0), "BufferError"),
        ((2**40, 2**40), (2, 32, 1), (1, 0), "BufferError"),
        ((2,), (2, 32, 1), (2, 0), "BufferError"),
        ((2**50,), (2, 32, 1), (1, 0), "MemoryError"),
    ],
)
def test_allocator_says_what_is_wrong(
    api: ExchangeAPI, shape: Any, dtype: Any, device: Any, kind: str
) -> None:
    """By SetError alone, called without the GIL."""
    before = live()
    with pytest.raises(AllocatorError) as caught:
        api.allocate(shape, dtype, device)
    assert caught.value.kind == kind
    assert caught.value.message
    assert live() == before


def test_allocator_on_a_thread_of_its_own(api: ExchangeAPI) -> None:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(api.allocate((4,), (2, 32, 1))))
    thread.start()
    thread.join()
    made.pop().release()


def test_current_work_stream_of_the_host_is_null(api: ExchangeAPI) -> None:
    assert api.current_work_stream((1, 0)) is None


# In other hands


class WithoutDLPack(candle.Tensor):
    """Only its table is left."""

    def __dlpack__(self, **_keywords: object) -> Any:
        raise AssertionError("__dlpack__ was called")


def test_tvm_ffi_takes_tensors_by_the_table(framework: Any) -> None:
    tvm_ffi = framework("tvm_ffi")
    before = live()
    t = WithoutDLPack([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    x = tvm_ffi.from_dlpack(t)
    assert tuple(x.shape) == (2, 3)
    back = candle.from_dlpack(x)
    assert back.data_ptr() == t.data_ptr()
    describe = tvm_ffi.convert(lambda given: f"{type(given).__name__} {tuple(given.shape)}")
    assert describe(t) == "Tensor (2, 3)"
    del x, back, t, describe
    gc.collect()
    assert live() == before


def test_tvm_ffi_gives_candle_tensors_back(framework: Any) -> None:
    """A function that returns what it was given returns it by the caller's table."""
    tvm_ffi = framework("tvm_ffi")
    t = layouts.counting(2, 3)
    same = tvm_ffi.convert(lambda x: x)
    back = same(t)
    assert type(back) is candle.Tensor
    assert back.data_ptr() == t.data_ptr()
    back[0, 0] = 7
    assert t[0, 0].item() == 7


def test_tvm_ffi_is_refused_nothing_it_could_misread(framework: Any) -> None:
    tvm_ffi = framework("tvm_ffi")
    t = layouts.counting(3, 4)[:, ::-1]
    x = tvm_ffi.from_dlpack(t)
    assert candle.from_dlpack(x).tolist() == t.tolist()
    assert tuple(x.strides) == (4, 1)


def test_torch_table_takes_candle_structs(framework: Any) -> None:
    torch = framework("torch")
    before = live()
    t = layouts.counting(2, 3)
    mine, theirs = exchange_api(candle.Tensor)[0], exchange_api(torch.Tensor)[0]
    x: Any = theirs.to_py_object(mine.from_py_object(t).address)
    assert x.tolist() == t.tolist()
    assert x.data_ptr() == t.data_ptr()
    back: Any = mine.to_py_object(theirs.from_py_object(x).address)
    assert back.data_ptr() == t.data_ptr()
    del t, x, back
    assert live() == before


def test_to_py_object_names_no_producer(api: ExchangeAPI) -> None:
    """A managed struct comes without its object."""
    producer = Producer(shape=(4,), strides=(2**61,))
    with pytest.raises(BufferError, match=r"^the managed tensor is impossible") as caught:
        api.to_py_object(producer.export())
    assert "None" not in str(caught.value)
    assert producer.deletes == 1
    copies: list[candle.Plan] = []
    with listening(copies.append):
        t: Any = api.to_py_object(Producer(shape=(4,), byte_offset=2).export())
    assert t.shape == (4,)
    assert [(plan.action, plan.producer) for plan in copies] == [("copy", "a managed tensor")]
