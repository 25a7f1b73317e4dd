"""Fail every allocation of every road in turn: what is left alive, and what is said of it.

Arguments: "native" or "python", and names of roads; without names, all. Prints how many moves had
one fail, and what was wrong. Whoever starts this sees a crash by the exit status; the last line on
stderr says then which move it was.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import roads
from faults import Faults

import candle
from candle._native import _core
from candle.testing import Producer, exchange_producer, live

KEPT = 64  # blocks of dropped storages, for the next ones


def by_table(faults: Faults) -> Any:
    """What goes by a C exchange table with no Python in it."""
    producer = Producer(shape=(4,))
    faults.helper.prepare(producer.export(), None)
    slot = faults.address("gives")
    return exchange_producer(producer, managed_tensor_from_py_object_no_sync=slot)


def check(road: roads.Road, result: Any) -> None:
    if road.read is not None:
        assert road.read(result) == roads.NUMBERS


def out_of_memory(error: BaseException) -> bool:
    """Python 3.11 forgets to say so where it has no room for a function's frame or traceback."""
    text = str(error)
    forgotten = "returned NULL without setting an exception" in text and "<function " in text
    caught = text == "error return without exception set"  # the same, where a handler waits
    return isinstance(error, MemoryError) or forgotten or caught


def attempt(road: roads.Road, armed: Any, faults: Faults) -> None:
    """A move is right or out of memory, leaves nothing behind, and goes well the next time."""
    subject = road.make()
    hoard = [candle.zeros(1) for _ in range(KEPT)]
    before = live()
    try:
        result = armed(lambda: road.go(subject))
    except Exception as error:
        assert out_of_memory(error), f"{type(error).__name__}: {error}"
        del error
    else:
        check(road, result)
        del result
    if live() != before:
        gc.collect()
        assert live() == before, f"before: {before}, after: {live()}"
    del hoard
    if hasattr(subject, "producer"):
        producer = subject.producer
        given = 1 if isinstance(subject, roads.Ready) else faults.helper.handed_out()
        del subject
        assert producer.deletes == given, f"{given} given, {producer.deletes} deletions"
    check(road, road.go(road.make()))


def main(side: str, names: list[str]) -> None:
    assert _core.__file__ is not None
    faults = Faults(_core.__file__)
    assert faults.addresses > 0, "none of the core's allocations were found"
    moves = 0
    table_in = roads.Road(lambda: by_table(faults), candle.asarray, roads.values)
    for way, table in (("in", {**roads.IN, "exchange table": table_in}), ("out", roads.OUT)):
        for name, road in table.items():
            if (names and name not in names) or (side == "python" and name in roads.LOST_BY_PYTHON):
                continue
            for _ in range(3):  # caches are full, and modules imported
                check(road, road.go(road.make()))
            for word, armed in faults.each(native=side == "native"):
                print(f"{way}: {name}: {word}", file=sys.stderr, flush=True)
                moves += 1
                try:
                    attempt(road, armed, faults)
                except AssertionError as error:
                    print(f"{way}: {name}: {word}: {error}")
    print(moves)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
