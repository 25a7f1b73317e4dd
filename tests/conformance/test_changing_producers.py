"""Producers that change while they are read, and that are wrong in ways seldom met."""

from __future__ import annotations

import array
from typing import Any

import pytest

import candle

MEMORY = array.array("f", [1, 2])
ADDRESS = MEMORY.buffer_info()[0]


class Twice:
    """A sequence that is another the second time it is read."""

    def __init__(self, first: list[Any], then: list[Any]) -> None:
        self.passes, self.at = [first, then], -1

    def __len__(self) -> int:
        return len(self.passes[max(self.at, 0)])

    def __getitem__(self, index: int) -> Any:
        if index == 0:
            self.at = min(self.at + 1, 1)
        return self.passes[self.at][index]


@pytest.mark.parametrize(
    "then", [[1], [1, 2, 3], ["a", 2], [1, None], [[1], 2], [1, [2]]], ids=repr
)
def test_sequences_that_change(then: list[Any]) -> None:
    """What is found is an error of its own kind: no number is made up, none is written outside."""
    for data in (Twice([1, 2], then), [Twice([1, 2], then), [3, 4]]):
        with pytest.raises(RuntimeError, match="a sequence changed while it was read"):
            candle.asarray(data)


class NoTruth:
    def __bool__(self) -> bool:
        raise KeyError("no truth")


class Interface:
    def __init__(self, **changed: object) -> None:
        right = {"version": 3, "shape": (2,), "typestr": "<f4", "data": (ADDRESS, False)}
        self.__array_interface__ = right | changed


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "flag": ({"data": (ADDRESS, NoTruth())}, "KeyError: 'no truth'"),
    "address": ({"data": (1 << 70, False)}, "does not fit a pointer"),
    "no address": ({"data": ("here", False)}, "not a tuple of address"),
    "offset": ({"data": MEMORY, "offset": "first"}, "offset is not an int of 64 bits"),
    "long offset": ({"data": MEMORY, "offset": 1 << 70}, "offset is not an int of 64 bits"),
    "too large": ({"data": MEMORY, "shape": (1 << 40, 1 << 40)}, "size does not fit 63 bits"),
    "negative": ({"data": MEMORY, "shape": (-1,)}, "an extent is negative"),
    "outside": ({"data": MEMORY, "shape": (3,)}, "outside the buffer"),
    "outside by offset": ({"data": MEMORY, "offset": 4}, "outside the buffer"),
    "outside by stride": ({"data": MEMORY, "strides": (8,)}, "outside the buffer"),
    "typestr with NUL": ({"typestr": "<f4\0"}, "no typestr"),
    "typestr of no text": ({"typestr": "\ud800"}, "no typestr"),
    "no buffer": ({"data": 5}, "does not export its memory"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_interfaces(kind: str) -> None:
    changed, said = WRONG[kind]
    with pytest.raises(BufferError, match=said):
        candle.asarray(Interface(**changed))


def test_rows_behind_pointers() -> None:
    """A buffer with suboffsets is not one block."""
    testbuffer = pytest.importorskip("_testbuffer")
    rows = testbuffer.ndarray([1, 2, 3, 4], shape=[2, 2], format="i", flags=testbuffer.ND_PIL)
    with pytest.raises(BufferError, match="pointers to rows; copy it"):
        candle.asarray(rows)


class GivesList:
    def __array__(self, dtype: object = None, copy: object = None) -> list[int]:
        return [1, 2]


def test_no_array_from_array_method() -> None:
    with pytest.raises(BufferError, match="GivesList gives list in place of an ndarray"):
        candle.asarray(GivesList())
