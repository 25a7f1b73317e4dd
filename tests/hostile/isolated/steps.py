"""Let every step of every producer raise in turn: the kind of error, and what is left alive.

Prints how many moves had a step that raised, and what was wrong.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import roads
import stepping

import candle
from candle.testing import Producer, live


class Own(BaseException):
    """No Exception: nobody but who raised it may catch it."""


ERRORS = (
    *(RuntimeError, TypeError, AttributeError, BufferError, ValueError, IndexError),
    *(StopIteration, ImportError, MemoryError, KeyboardInterrupt, Own),
)
PASSED = (MemoryError, KeyboardInterrupt, Own)


def producers_in(x: Any) -> list[Producer]:
    if isinstance(x, stepping.Sequence):
        return [found for item in x.items for found in producers_in(item)]
    x = object.__getattribute__(x, "real") if isinstance(x, stepping.Stepping) else x
    return [x] if isinstance(x, Producer) else []


def values(result: Any) -> Any:
    """The numbers, in whatever a way gives; None for what is no tensor."""
    found = result[0] if isinstance(result, list) else result
    if type(found) is not candle.Tensor:
        return None
    return found.reshape(-1).tolist()


def sound(name: str, way: str, result: Any) -> None:
    found = values(result)
    if found is None:
        return
    wanted = [0.0, 1.0, 0.0, 1.0] if name == "sequence of producers" else roads.NUMBERS
    assert found == wanted, found


def attempt(name: str, way: str, at: int, kind: type[BaseException]) -> int:
    """Returns how many steps were taken."""
    steps = stepping.Steps(at, kind("out of luck"))
    x = stepping.PRODUCERS[name](steps)
    before = live()
    try:
        result = stepping.WAYS[way](x)
    except BaseException as error:
        taken = len(steps.names)
        assert taken > at, f"{type(error).__name__}: {error}"
        if issubclass(kind, PASSED) or steps.names[at] in ("len", "item"):
            assert error is steps.error, f"{type(error).__name__}: {error}"
        else:
            # What is no element, no length and no tensor is the caller's wrong argument.
            assert isinstance(error, BufferError | TypeError | ValueError), type(error).__name__
            assert not isinstance(error, SystemError)
        error.__traceback__ = None
        del error
    else:
        taken = len(steps.names)
        if at < taken:
            assert not issubclass(kind, PASSED), "swallowed"
        steps.error = None
        if not (at < taken and kind is IndexError and steps.names[at] == "item"):  # the end
            sound(name, way, result)
        del result
    steps.error = None
    if live() != before:
        gc.collect()
        assert live() == before, f"before: {before}, after: {live()}"
    producers = producers_in(x)
    del x
    for producer in producers:
        assert producer.deletes == producer.exports, f"{producer.deletes} of {producer.exports}"
    return taken


def main() -> None:
    moves = 0
    for name in stepping.PRODUCERS:
        for way in stepping.WAYS:
            if way == "copy_" and name.startswith("sequence of"):
                continue  # of another shape
            attempt(name, way, 1 << 30, RuntimeError)
            for kind in ERRORS:
                at, taken = 0, 1
                while at < taken:
                    word = f"{name}: {way}: {kind.__name__} in step {at}"
                    print(word, file=sys.stderr, flush=True)
                    moves += 1
                    try:
                        taken = attempt(name, way, at, kind)
                    except AssertionError as error:
                        print(f"{word}: {error}")
                        taken = at + 2
                    at += 1
                    assert at < 1000, word
            attempt(name, way, 1 << 30, RuntimeError)  # nothing wrong was remembered
    print(moves)


if __name__ == "__main__":
    main()
