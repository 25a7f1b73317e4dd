"""`candle.testing`, checked against frameworks other than candle."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from typing import Any

import pytest

import candle
from candle import testing
from candle.testing import (
    CASES,
    Producer,
    assert_no_leak,
    capsules,
    describe,
    exchange_api,
    exchange_producer,
    info,
    live,
    live_tensors,
    shares_memory,
    take,
)
from candle.testing.abi import SLOTS
from candle.testing.capsules import capsule_name, managed, new_capsule
from candle.testing.exchange import AllocatorError, SlotError
from candle.testing.producers import SameCapsule
from candle.testing.tables import make_exchange_table


def test_public_names() -> None:
    assert set(testing.__all__) <= set(dir(testing))


def test_needs_no_framework(in_child: Any) -> None:
    code = """
import sys
from candle.testing import *
assert not {"numpy", "torch", "jax", "ml_dtypes"} & set(sys.modules), "a framework was imported"
"""
    in_child(code).check()


# Producers


def test_numpy_reads_a_producer(framework: Any) -> None:
    np = framework("numpy")
    producer = Producer(shape=(2, 3), byte_offset=4)
    array = np.from_dlpack(producer)
    assert array.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert array.ctypes.data == producer.address + 4
    assert producer.calls[0]["max_version"] == (1, 0)
    assert (producer.deletes, producer.exports) == (0, 1)
    del array
    assert producer.deletes == 1
    assert (producer.notes.initialized, producer.notes.pending) == (1, 0)
    assert producer.notes.thread % 2**32 == threading.get_ident() % 2**32


def test_torch_reads_a_producer(framework: Any) -> None:
    torch = framework("torch")
    for arguments in ({}, {"mode": "legacy"}, {"signature": "none"}, {"strides": None}):
        producer = Producer(shape=(2, 3), **arguments)
        x = torch.from_dlpack(producer)
        assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        del x
        assert producer.deletes == producer.exports == 1
    assert producer.device_calls > 0


def test_jax_reads_a_producer(framework: Any) -> None:
    jnp = framework("jax.numpy")
    producer = Producer(shape=(2, 3), mode="legacy")
    x = jnp.from_dlpack(producer)
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    asked = {"stream": None}
    assert producer.calls in ([asked], [{**asked, "max_version": (1, 3)}])  # the latter as of 0.12


def test_unused_capsules_are_deleted() -> None:
    producer = Producer(shape=(4,))
    for versioned in (False, True):
        capsule = producer.capsule(versioned)
        assert producer.deletes == int(versioned)
        del capsule
    assert (producer.deletes, producer.destructors) == (2, 2)


def test_used_capsules_are_not() -> None:
    producer = Producer(shape=(4,))
    capsule = producer.capsule()
    taken = take(capsule)
    del capsule
    assert (producer.deletes, producer.destructors) == (0, 1)
    taken.release()
    assert producer.deletes == 1


def test_null_deleter() -> None:
    producer = Producer(shape=(4,), null_deleter=True)
    capsule = producer.capsule()
    assert not info(capsule).deleter
    take(capsule).release()
    del capsule
    assert producer.deletes == 0


def test_signatures() -> None:
    for signature, allowed in {"none": set(), "stream": {"stream"}}.items():
        producer = Producer(shape=(4,), signature=signature)
        for name in ("stream", "max_version", "copy"):
            if name in allowed:
                assert capsule_name(producer.__dlpack__(**{name: None})) == "dltensor"
            else:
                with pytest.raises(TypeError):
                    producer.__dlpack__(**{name: None})
    assert [set(call) for call in producer.calls] == [{"stream"}, {"max_version"}, {"copy"}]


def test_errors_are_fresh_each_time() -> None:
    error = ValueError("mine", 2)
    producer = Producer(shape=(4,), raises=error)
    for _ in range(3):
        with pytest.raises(ValueError, match="mine") as caught:
            producer.__dlpack__()
        assert caught.value.args == error.args
    assert error.__traceback__ is None


def test_wrong_name_for_the_struct() -> None:
    with pytest.raises(ValueError, match="versioned"):
        Producer(shape=(4,), capsule_name="tensor").capsule(versioned=True)


def test_forget_and_spoil() -> None:
    producer = Producer(shape=(4,))
    taken = take(producer.capsule())
    with pytest.raises(RuntimeError, match="in use"):
        producer.forget()
    producer.spoil()
    assert taken.struct.dl_tensor.ndim == ctypes.c_int32(0xA5A5A5A5).value
    taken.release()
    producer.forget()
    assert producer.deletes == 1


def test_same_capsule() -> None:
    twice = SameCapsule(Producer(shape=(4,)))
    first = twice.__dlpack__()
    assert twice.__dlpack__() is first
    assert twice.__dlpack_device__() == (1, 0)


def test_notes_of_a_foreign_thread() -> None:
    producer = Producer(shape=(4,))
    take(producer.capsule()).release(foreign_thread=True)
    assert producer.deletes == 1
    assert (producer.notes.gil, producer.notes.initialized) == (0, 1)
    take(producer.capsule()).release()
    assert producer.notes.gil == 0, "a deleter is called without the GIL"


def test_destructor_notes_a_pending_exception() -> None:
    producer = Producer(shape=(4,))

    def fail(_capsule: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail(producer.capsule())
    gc.collect()
    assert producer.deletes == 1


def test_cases_are_named_once() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert {case.wanted for case in CASES} == {"share", "read-only", "refuse", "sound"}
    assert all(case.producer().exports == 0 for case in CASES)


# Capsules


def test_capsules_of_other_kinds() -> None:
    with pytest.raises(ValueError, match="another"):
        managed(new_capsule(64, "another"))
    assert capsule_name(new_capsule(64, None)) is None


def test_taken_twice() -> None:
    capsule = Producer(shape=(4,)).capsule()
    taken = take(capsule)
    with pytest.raises(ValueError, match="consumed before"):
        take(capsule)
    with taken:
        pass
    with pytest.raises(RuntimeError, match="released before"):
        taken.release()
    producer = Producer(shape=(4,))
    with take(producer.capsule()) as early:
        early.release()
    assert producer.deletes == 1


def test_slots_that_keep_their_word() -> None:
    x = exchange_producer(Producer(shape=(4,)))
    (table,) = exchange_api(type(x))
    assert table.dltensor_from_py_object(x).data == x.producer.address
    with table.from_py_object(x) as taken:
        assert taken.info.data == x.producer.address
    assert x.slot_calls == [
        "dltensor_from_py_object_no_sync",
        "managed_tensor_from_py_object_no_sync",
    ]


def test_memory_without_strides() -> None:
    """Such capsules are row-major."""
    producer = Producer(shape=(2, 3), strides=None)
    t = candle.from_dlpack(producer)
    assert shares_memory(producer, t)
    assert not shares_memory(producer, candle.zeros((2, 3)))


def test_thread_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = Producer(shape=(4,))
    with monkeypatch.context() as patch:
        patch.setattr(capsules, "_thread_create", lambda *arguments: 11)
        with pytest.raises(OSError, match="pthread_create failed"):
            take(producer.capsule()).release(foreign_thread=True)
    assert producer.deletes == 0


def test_info_of_every_field() -> None:
    producer = Producer(
        shape=(2, 3),
        strides=(1, 2),
        dtype=(4, 16, 1),
        byte_offset=8,
        device=(3, 0),
        version=(1, 7),
        flags=5,
    )
    fields = info(producer.capsule())
    assert fields == (
        *("dltensor_versioned", (1, 7), 5, (3, 0), (4, 16, 1), (2, 3), (1, 2)),
        *(producer.address, 8, True),
    )
    assert fields.address == producer.address + 8
    assert producer.address % 256 == 0
    legacy = info(producer.capsule(versioned=False))
    assert (legacy.version, legacy.flags, legacy.strides) == (None, None, (1, 2))
    bare = info(Producer(shape=(2,), null_data=True, null_shape=True, strides=None).capsule())
    assert (bare.shape, bare.strides, bare.data) == (None, None, 0)


def test_describe() -> None:
    said = describe(Producer(shape=(2, 3), byte_offset=4).capsule())
    assert said.startswith("dltensor_versioned 1.3 flags=0 device=(1, 0) dtype=(2, 32, 1)")
    assert "alignment=4 byte_offset=4 deleter=True" in said


# Exchange tables


def test_types_without_a_table(framework: Any) -> None:
    assert exchange_api(int) == []
    assert exchange_api(framework("numpy").ndarray) == []


def test_torchs_table(framework: Any) -> None:
    torch = framework("torch")
    (table,) = exchange_api(torch.Tensor)
    assert (table.version, table.slots) == ((1, 3), SLOTS)
    assert repr(table) == f"ExchangeAPI(version=(1, 3), slots={SLOTS})"
    x = torch.arange(6.0).reshape(2, 3)
    with table.from_py_object(x) as taken:
        assert (taken.info.shape, taken.info.data) == ((2, 3), x.data_ptr())
    assert table.dltensor_from_py_object(x).data == x.data_ptr()
    assert table.current_work_stream() is None
    with table.allocate((2, 3), (2, 32, 1)) as taken:
        assert (taken.info.shape, taken.info.dtype) == ((2, 3), (2, 32, 1))
    with pytest.raises(AllocatorError, match="31") as caught:
        table.allocate((2, 3), (2, 31, 1))
    assert caught.value.kind == "MemoryError"
    with pytest.raises(RuntimeError):
        table.from_py_object(3)
    producer = Producer(shape=(2, 3))
    made = table.to_py_object(producer.export())
    lone = object()  # Python 3.14 counts no reference for a local variable
    assert sys.getrefcount(made) == sys.getrefcount(lone)
    del made
    assert producer.deletes == 1


def test_slots_that_break_their_word() -> None:
    x = exchange_producer(Producer(shape=(4,)), fails="silently")
    (table,) = exchange_api(type(x))
    with pytest.raises(SlotError, match="no error"):
        table.from_py_object(x)
    with pytest.raises(SlotError):
        table.dltensor_from_py_object(x)
    with pytest.raises(SlotError, match="code -1, result None, and no error set"):
        table.to_py_object(x.producer.address)
    with pytest.raises(SlotError):
        table.allocate((4,), (2, 32, 1))
    x = exchange_producer(Producer(shape=(4,)), current_work_stream=lambda *arguments: 3)
    (table,) = exchange_api(type(x))
    with pytest.raises(SlotError, match="code 3, and no error set"):
        table.current_work_stream()
    (table,) = exchange_api(type(exchange_producer(Producer(shape=(4,)), fails="empty")))
    with pytest.raises(SlotError):
        table.from_py_object(x)
    (table,) = exchange_api(type(exchange_producer(Producer(shape=(4,)), without=SLOTS)))
    assert table.slots == ()
    with pytest.raises(SlotError, match="NULL"):
        table.from_py_object(x)


def test_slots_that_raise() -> None:
    for error in (BufferError("mine"), RuntimeError("mine"), KeyboardInterrupt("mine")):
        x = exchange_producer(Producer(shape=(4,)), fails=error)
        (table,) = exchange_api(type(x))
        with pytest.raises(type(error), match="mine"):
            table.from_py_object(x)
        with pytest.raises(type(error), match="mine"):
            table.dltensor_from_py_object(x)
        assert x.slot_calls == ["failing slot"] * 2


def test_chains_of_tables() -> None:
    old = make_exchange_table(version=(1, 0))
    x = exchange_producer(Producer(shape=(4,)), version=(2, 0), prev_api=old)
    assert [table.version for table in exchange_api(type(x))] == [(2, 0), (1, 0)]


def test_tvm_ffi_takes_a_producer_by_its_table(framework: Any) -> None:
    tvm_ffi = framework("tvm_ffi")
    x = exchange_producer(Producer(shape=(2, 3)))
    y = tvm_ffi.from_dlpack(x)
    assert tuple(y.shape) == (2, 3)
    assert x.slot_calls == ["managed_tensor_from_py_object_no_sync"]
    del y
    assert x.producer.deletes == 1
    with pytest.raises(ValueError, match="mine"):
        tvm_ffi.from_dlpack(exchange_producer(Producer(shape=(4,)), fails=ValueError("mine")))


# Sharing


def test_numpy_views_share(framework: Any) -> None:
    np = framework("numpy")
    array = np.arange(12.0).reshape(3, 4)
    for view in (array, array.T, array[::-1], array[:, 2:], array[2, 3:]):
        assert shares_memory(array, view)
        assert not shares_memory(array, view.copy())
    assert not shares_memory(array[0], array[1])
    assert not shares_memory(array[:0], array)
    assert array.tolist() == np.arange(12.0).reshape(3, 4).tolist(), "what was written is restored"
    array.flags.writeable = False
    assert shares_memory(array, array[:])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
def test_torch_and_numpy_share(framework: Any, dtype: str) -> None:
    torch = framework("torch")
    x = torch.ones(2, 3, dtype=getattr(torch, dtype))
    assert shares_memory(x, x.T)
    assert shares_memory(x, x[1:])
    assert not shares_memory(x, x.clone())
    if dtype != "bfloat16":
        assert shares_memory(x, x.numpy())
    assert x.tolist() == [[1] * 3] * 2


def test_jax_shares(framework: Any) -> None:
    np, jnp = framework("numpy"), framework("jax.numpy")
    x = jnp.arange(12, dtype="float32")
    assert shares_memory(x, np.asarray(x))
    assert not shares_memory(x, np.array(x))


def test_candle_shares(framework: Any) -> None:
    np = framework("numpy")
    t = candle.zeros((3, 4))
    assert shares_memory(t, t[::-1])
    assert shares_memory(t, t.numpy())
    assert shares_memory(np.asarray(t), t.T)
    assert not shares_memory(t, t.copy())
    producer = Producer(shape=(4,))
    assert shares_memory(candle.from_dlpack(producer), producer)


# Counters


def test_counters() -> None:
    before = live()
    assert set(before) == {"tensors", "storages", "bytes", "exports"}
    t = candle.zeros((100,), dtype="float64")
    view = t[1:]
    capsule = view.__dlpack__()
    got = {name: count - before[name] for name, count in live().items()}
    assert got == {"tensors": 2, "storages": 1, "bytes": 800, "exports": 1}
    assert live_tensors() == before["tensors"] + 2
    del t, view
    got = {name: count - before[name] for name, count in live().items()}
    assert got == {"tensors": 0, "storages": 1, "bytes": 800, "exports": 1}
    del capsule
    assert live() == before


def test_assert_no_leak() -> None:
    with assert_no_leak():
        t = candle.zeros((10,))
        loop: list[Any] = [t]
        loop.append(loop)
        del t, loop
    with assert_no_leak():
        candle.zeros((10,))
    kept = []
    with pytest.raises(AssertionError, match=r"'tensors': 1.*'bytes': 40"):  # noqa: SIM117
        with assert_no_leak():
            kept.append(candle.zeros((10,)))
    with pytest.raises(KeyError), assert_no_leak():
        raise KeyError
    with pytest.raises(AssertionError, match=r"gone after it: .*'tensors': 1"), assert_no_leak():
        kept.clear()


def test_assert_no_leak_after_garbage() -> None:
    """What was dropped before the block, and goes in it, is not counted against what it leaks."""
    kept = []

    def drop_one() -> None:
        loop: list[Any] = [candle.zeros((10,))]
        loop.append(loop)

    collecting = gc.isenabled()
    gc.disable()
    try:
        drop_one()
        with assert_no_leak():
            gc.collect()
        drop_one()
        with pytest.raises(AssertionError, match="left alive"), assert_no_leak():
            kept.append((gc.collect(), candle.zeros((10,))))
    finally:
        if collecting:
            gc.enable()
