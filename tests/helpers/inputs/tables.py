"""Types with C exchange tables of any version, chain and slots, which fail in any way."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import candle
from candle.testing import abi, assert_no_leak, exchange_producer
from candle.testing.tables import exchange_capsule, make_exchange_table
from inputs.producers import (
    AROUND,
    FAULTS,
    Hostile,
    Own,
    deleters_may_fail,
    description,
    right_values,
    seldom,
    use,
)

if TYPE_CHECKING:
    import random

ERRORS = (BufferError, TypeError, ValueError, RuntimeError, AttributeError, MemoryError, Own)
OPTIONAL = (
    "managed_tensor_allocator",
    "managed_tensor_to_py_object_no_sync",
    "dltensor_from_py_object_no_sync",
    "current_work_stream",
)
SLOT = "managed_tensor_from_py_object_no_sync"


def never(*_arguments: object) -> int:
    raise AssertionError("a slot of a foreign version was called")


def older(rng: random.Random, known: int | None) -> int | None:
    """A chain of tables of other versions, in front of `known`; it may lead round in a circle."""
    link, first = known, None
    for _ in range(rng.randint(0, 3)):
        link = make_exchange_table(
            version=(rng.choice((0, 2, 99, 2**32 - 1)), 0), prev_api=link, **{SLOT: never}
        )
        first = first or link
    if known is None and first is not None and rng.random() < 0.3:
        ctypes.memmove(first + 8, ctypes.byref(ctypes.c_void_p(link)), 8)
    return link


def attribute(rng: random.Random) -> object:
    """Something else than a capsule with a table; mostly None, for one with it."""
    return seldom(
        rng, 1, "table", object(), exchange_capsule(make_exchange_table(), "dltensor"), b"\0" * 56
    )


def make(rng: random.Random, producer: Hostile) -> Any:
    fails = seldom(rng, "silently", "empty", *[kind("mine") for kind in ERRORS])
    without = tuple(name for name in OPTIONAL if rng.random() < 0.2)
    if rng.random() < 0.1:
        without += (SLOT,)
    major = seldom(rng, 0, 2, 99, usual=1)
    return exchange_producer(
        producer,
        version=(major, rng.choice((0, 3, 99))),
        prev_api=older(rng, None) if rng.random() < 0.3 else None,
        fails=fails,
        without=without,
        dlpack=rng.random() < 0.5,
        attribute=attribute(rng),
    )


def run(rng: random.Random) -> str:
    """Make a type with a table and take what an object of it has."""
    readable = rng.random() < 0.6
    producer = Hostile(rng, **description(rng, readable))
    x = make(rng, producer)
    copy = rng.choice((None, False, True)) if readable else False
    way = rng.choice((candle.from_dlpack, candle.asarray))
    with deleters_may_fail(), assert_no_leak(), rng.choice(AROUND)():
        try:
            t = way(x, copy=copy)
        except FAULTS as error:
            word = f"{type(error).__name__} {str(error)[:60]}"
        else:
            assert readable is False or right_values(producer, t)
            word = f"took {len(x.slot_calls)} {use(rng, t) if readable else ''}"
            del t
        producer.given = None
    wanted = 0 if producer.null_deleter else producer.exports
    assert producer.deletes == wanted, f"{word}: {producer.deletes} of {wanted} deleted"
    return word


assert abi.DLPackExchangeAPIHeader.prev_api.offset == 8
