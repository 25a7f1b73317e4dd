"""Foreign C exchange tables, sound ones and such as break their word."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import candle
from candle.testing import Producer, exchange_api, exchange_producer
from candle.testing.abi import READ_ONLY, SLOTS
from candle.testing.tables import exchange_capsule, make_exchange_table


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
    {"device": (2, -1)},
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
