"""The C exchange API both ways: candle's own table, slot by slot, and foreign tables that break their word."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import layouts
import pytest

import candle
from candle.testing import Producer, capsules, exchange_api, exchange_producer, info, live
from candle.testing.abi import IS_COPIED, READ_ONLY, SLOTS
from candle.testing.capsules import struct_info
from candle.testing.exchange import AllocatorError, ExchangeAPI
from candle.testing.tables import exchange_capsule, make_exchange_table

ATTRIBUTE = "__dlpack_c_exchange_api__"
ALIGNMENT = 256

every_layout = pytest.mark.parametrize(
    "make", [pytest.param(make, id=name) for name, make in layouts.LAYOUTS.items()]
)


@pytest.fixture
def api() -> ExchangeAPI:
    return exchange_api(candle.Tensor)[0]


# Candle's table


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
    assert sys.getrefcount(t) == 2
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
        {"device": (2, 0)},
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
def test_allocator(
    api: ExchangeAPI, shape: tuple[int, ...], dtype: tuple[int, int, int]
) -> None:
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


# Foreign tables


def test_foreign_table_is_used() -> None:
    producer = Producer(shape=(2, 3), byte_offset=4)
    x = exchange_producer(producer, dlpack=True)
    t = candle.from_dlpack(x)
    assert x.slot_calls
    assert producer.calls == []
    assert t.data_ptr() == producer.address + 4
    assert t.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    del t
    assert producer.deletes == producer.exports == 1


def test_foreign_table_without_dlpack() -> None:
    x = exchange_producer(Producer(shape=(4,)))
    assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert candle.asarray(x).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("copy", [None, False, True])
def test_foreign_read_only(copy: bool | None) -> None:
    producer = Producer(shape=(4,), flags=READ_ONLY)
    t = candle.from_dlpack(exchange_producer(producer), copy=copy)
    assert t.readonly == (copy is not True)
    assert (t.data_ptr() == producer.address) == (copy is not True)


UNSOUND = [
    {"version": (2, 0)},
    {"version": (0, 9)},
    {"ndim": -1},
    {"ndim": 1000},
    {"null_shape": True},
    {"null_data": True},
    {"shape": (-2,)},
    {"shape": (2**40, 2**40)},
    {"dtype": (99, 32)},
    {"dtype": (2, 32, 2)},
    {"dtype": (2, 32, 0)},
    {"device": (2, 0)},
    {"strides": (2**62, 2**62), "shape": (3, 3)},
]


@pytest.mark.parametrize("arguments", UNSOUND, ids=str)
@pytest.mark.parametrize("copy", [None, False, True])
@pytest.mark.isolated
def test_unsound_structs_from_a_table(arguments: dict[str, Any], copy: bool | None) -> None:
    """The route applies and refuses: `__dlpack__` is not asked instead."""
    producer = Producer(**{"shape": (2, 3), **arguments})
    with pytest.raises(BufferError):
        candle.from_dlpack(exchange_producer(producer, dlpack=True), copy=copy)
    assert producer.calls == []
    assert producer.deletes == producer.exports


@pytest.mark.parametrize(
    "error", [BufferError("mine"), RuntimeError("mine"), ValueError("mine"), TypeError("mine")]
)
def test_error_of_a_slot_is_told(error: Exception) -> None:
    producer = Producer(shape=(4,))
    x = exchange_producer(producer, fails=error, dlpack=True)
    with pytest.raises(BufferError, match="mine"):
        candle.from_dlpack(x)
    assert producer.calls == [], "a route that applies and refuses decides"


def test_interrupt_in_a_slot_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        candle.from_dlpack(exchange_producer(Producer(shape=(4,)), fails=KeyboardInterrupt()))


@pytest.mark.parametrize("how", ["silently", "empty"])
@pytest.mark.isolated
def test_slot_that_fails_without_a_word(how: str) -> None:
    with pytest.raises(BufferError, match="ForeignTensor"):
        candle.from_dlpack(exchange_producer(Producer(shape=(4,)), fails=how))


@pytest.mark.isolated
def test_null_slot_leaves_the_next_route() -> None:
    """The header forbids this NULL; a table without the slot offers nothing."""
    producer = Producer(shape=(4,))
    without = ("managed_tensor_from_py_object_no_sync",)
    t = candle.from_dlpack(exchange_producer(producer, without=without, dlpack=True))
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert len(producer.calls) == 1
    with pytest.raises((TypeError, BufferError)):
        candle.from_dlpack(exchange_producer(producer, without=without))


@pytest.mark.isolated
def test_null_dltensor_slot_is_allowed() -> None:
    x = exchange_producer(Producer(shape=(4,)), without=("dltensor_from_py_object_no_sync",))
    assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.isolated
def test_all_slots_null() -> None:
    producer = Producer(shape=(4,))
    t = candle.from_dlpack(exchange_producer(producer, without=SLOTS, dlpack=True))
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]


def poison(*_arguments: object) -> int:
    raise AssertionError("a slot of a foreign major version was called")


POISONED = dict.fromkeys(SLOTS, poison)


@pytest.mark.parametrize("major", [0, 2, 99])
@pytest.mark.isolated
def test_foreign_major_is_passed_over(major: int) -> None:
    producer = Producer(shape=(4,))
    x = exchange_producer(producer, version=(major, 0), dlpack=True, **POISONED)
    assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert len(producer.calls) == 1


@pytest.mark.isolated
def test_chain_is_walked_to_a_known_major() -> None:
    working = exchange_producer(Producer(shape=(4,)))
    old = exchange_api(type(working))[0].address
    middle = make_exchange_table(version=(2, 1), prev_api=old, **POISONED)
    producer = Producer(shape=(4,))
    x = exchange_producer(producer, version=(3, 0), prev_api=middle, dlpack=True, **POISONED)
    t = candle.from_dlpack(x)
    assert x.slot_calls == ["managed_tensor_from_py_object_no_sync"]
    assert producer.calls == []
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.isolated
def test_chain_that_ends_without_a_known_major() -> None:
    middle = make_exchange_table(version=(2, 1), **POISONED)
    producer = Producer(shape=(4,))
    x = exchange_producer(producer, version=(3, 0), prev_api=middle, dlpack=True, **POISONED)
    assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert len(producer.calls) == 1


@pytest.mark.isolated
@pytest.mark.parametrize("minor", [0, 3, 99])
def test_any_minor_is_known(minor: int) -> None:
    x = exchange_producer(Producer(shape=(4,)), version=(1, minor))
    assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "attribute",
    [
        12345,
        "a string",
        object(),
        exchange_capsule(make_exchange_table(), "another name"),
        exchange_capsule(make_exchange_table(), "dltensor"),
    ],
    ids=["int", "str", "object", "other name", "dltensor"],
)
@pytest.mark.isolated
def test_attribute_that_is_no_table(attribute: object) -> None:
    """Never cast blindly; the next route is taken."""
    producer = Producer(shape=(4,))
    x = exchange_producer(producer, attribute=attribute, dlpack=True)
    assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert len(producer.calls) == 1


def test_attribute_on_an_instance_is_ignored() -> None:
    class Plain:
        def __init__(self, producer: Producer) -> None:
            self.producer = producer

        def __dlpack_device__(self) -> object:
            return self.producer.__dlpack_device__()

        def __dlpack__(self, **keywords: Any) -> object:
            return self.producer.__dlpack__(**keywords)

    x = Plain(Producer(shape=(4,)))
    x.__dlpack_c_exchange_api__ = exchange_capsule(make_exchange_table(**POISONED))  # type: ignore[attr-defined]
    assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert len(x.producer.calls) == 1


@pytest.mark.isolated
def test_tables_of_types_that_come_and_go() -> None:
    """What is cached for a type is not served to another that has its address."""
    for round_ in range(300):
        producer = Producer(shape=(4,))
        if round_ % 2:
            x = exchange_producer(producer)
        else:
            x = exchange_producer(producer, attribute=0, dlpack=True)
        assert candle.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]
        assert len(producer.calls) == (round_ + 1) % 2
        del x
        gc.collect()


# Candle's table in other hands


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
