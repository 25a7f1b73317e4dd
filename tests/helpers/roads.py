"""Every road into candle and out of it, as small calls over the numbers 0, 1, 2, 3."""

from __future__ import annotations

import array
import pickle
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from interfaces import Interface, Struct

import candle
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = [0.0, 1.0, 2.0, 3.0]
DATA = struct.pack("4f", *NUMBERS)


class Road(NamedTuple):
    """One road.

    Attributes
    ----------
    make
        Makes what is moved, afresh.
    go
        Moves it.
    read
        Gives the numbers of the outcome; None where it has none.
    """

    make: Callable[[], Any]
    go: Callable[[Any], Any]
    read: Callable[[Any], Any] | None = None


def values(t: Any) -> Any:
    return t.tolist()


class ByArrow:
    """An object with `__arrow_c_array__` and nothing else."""

    def __init__(self) -> None:
        self.tensor = tensor()

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.tensor.__arrow_c_array__(requested_schema)


class ByArray:
    """An object with `__array__` and nothing else."""

    def __init__(self) -> None:
        self.array = np.array(NUMBERS, "f4")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class Numbers:
    """A sequence."""

    def __len__(self) -> int:
        return len(NUMBERS)

    def __getitem__(self, index: int) -> float:
        return NUMBERS[index]


class Ready:
    """A producer whose capsule was made before: it loses nothing where memory is short."""

    def __init__(self, versioned: bool = True, keywords: bool = True, **arguments: Any) -> None:
        self.producer = Producer(**{"shape": (4,), **arguments})
        self.capsule = self.producer.capsule(versioned)
        self.keywords = keywords

    def __dlpack_device__(self) -> object:
        return (1, 0)

    def __dlpack__(self, **keywords: object) -> object:
        if keywords and not self.keywords:
            raise TypeError("no keywords")
        return self.capsule


def tensor() -> candle.Tensor:
    return candle.asarray(bytearray(DATA)).view("float32")


def fresh(kind: type) -> Callable[[], Any]:
    """Makes an object of a type that is new each time, so that nothing is known of it."""

    def make() -> Any:
        made = type("Fresh", (kind,), {})
        return made()

    return make


def interface() -> Any:
    return Interface(DATA, shape=(4,), typestr="<f4")


class ByStruct:
    """An object with `__array_struct__` and nothing else, its capsule made before."""

    def __init__(self) -> None:
        self.keep = Struct(DATA, shape=(4,), strides=(4,))
        self.__array_struct__ = self.keep.__array_struct__


def producer(*arguments: bool, **fields: Any) -> Callable[[], Any]:
    return lambda: Ready(*arguments, **fields)


def capsule(versioned: bool) -> Callable[[], Any]:
    return lambda: Producer(shape=(4,)).capsule(versioned)


take = candle.from_dlpack
IN = {
    "DLPack": Road(producer(), take, values),
    "DLPack of a new type": Road(fresh(Ready), take, values),
    "DLPack, old signature": Road(producer(False, False), take, values),
    "DLPack, copied": Road(producer(), lambda x: take(x, copy=True), values),
    "DLPack, cast": Road(producer(), lambda x: take(x, dtype="float64"), values),
    "DLPack, misaligned": Road(producer(data=b"\0" + DATA, byte_offset=1), take, values),
    "legacy capsule": Road(capsule(False), take, values),
    "versioned capsule": Road(capsule(True), take, values),
    "capsule, copied": Road(capsule(True), lambda x: take(x, copy=True), values),
    "array interface": Road(interface, candle.asarray, values),
    "array struct": Road(ByStruct, candle.asarray, values),
    "buffer": Road(lambda: array.array("f", NUMBERS), candle.asarray, values),
    "Arrow": Road(ByArrow, candle.asarray, values),
    "Arrow of a new type": Road(fresh(ByArrow), candle.asarray, values),
    "Arrow, copied": Road(ByArrow, lambda x: candle.from_arrow(x, dtype="float64"), values),
    "__array__": Road(ByArray, candle.asarray, values),
    "numpy": Road(lambda: np.array(NUMBERS, "f4"), candle.asarray, values),
    "numpy, foreign byte order": Road(lambda: np.array(NUMBERS, ">f4"), candle.asarray, values),
    "list": Road(lambda: list(NUMBERS), candle.asarray, values),
    "sequence": Road(Numbers, candle.asarray, values),
    "list of tensors": Road(lambda: [Ready(), tensor()], lambda x: candle.asarray(x)[0], values),
    "Tensor": Road(producer(), candle.Tensor, values),
    "tensor": Road(tensor, candle.tensor, values),
    "copy into": Road(producer(), lambda x: candle.zeros(4).copy_(x), values),
    "assignment": Road(
        lambda: (candle.zeros(4), interface()),
        lambda x: x[0].__setitem__(Ellipsis, x[1]) or x[0],
        values,
    ),
    "explain": Road(producer(), lambda x: candle.explain(x, "numpy")),
    "convert": Road(
        lambda: {"a": tensor(), "b": [interface()]},
        lambda x: candle.convert(x, "candle")["b"][0],
        values,
    ),
}


def backwards() -> candle.Tensor:
    return candle.asarray(NUMBERS[::-1])[::-1]


def plane() -> candle.Tensor:
    return candle.asarray([NUMBERS, NUMBERS]).T


def there_and_back(t: candle.Tensor) -> candle.Tensor:
    found: candle.Tensor = pickle.loads(pickle.dumps(t, 5))
    return found


OUT = {
    "legacy DLPack": Road(tensor, lambda t: t.__dlpack__(), lambda c: take(c).tolist()),
    "versioned DLPack": Road(
        tensor, lambda t: t.__dlpack__(max_version=(1, 3)), lambda c: take(c).tolist()
    ),
    "DLPack, copied": Road(tensor, lambda t: t.__dlpack__(copy=True), lambda c: take(c).tolist()),
    "DLPack, negative strides": Road(
        backwards, lambda t: t.__dlpack__(max_version=(1, 3)), lambda c: take(c).tolist()
    ),
    "numpy": Road(tensor, lambda t: t.numpy(), values),
    "numpy, copied": Road(tensor, lambda t: t.numpy(copy=True), values),
    "np.asarray": Road(tensor, np.asarray, values),
    "array interface": Road(tensor, lambda t: t.__array_interface__),
    "memoryview": Road(tensor, lambda t: t.memoryview(), values),
    "Arrow": Road(
        tensor, lambda t: t.__arrow_c_array__(), lambda pair: candle.asarray(Pair(pair)).tolist()
    ),
    "Arrow, packed": Road(lambda: candle.asarray([True, False]), lambda t: t.__arrow_c_array__()),
    "tolist": Road(tensor, lambda t: t.tolist(), lambda found: found),
    "repr": Road(tensor, repr),
    "copy": Road(tensor, lambda t: t.copy(), values),
    "cast": Road(tensor, lambda t: t.to("float64"), values),
    "contiguous": Road(plane, lambda t: t.contiguous()[:, 0], values),
    "reshape": Road(plane, lambda t: t.reshape(8)),
    "view": Road(plane, lambda t: t[::-1, 0][::-1], values),
    "squeeze": Road(plane, lambda t: t[:, 0].unsqueeze(0).squeeze(0), values),
    "transpose": Road(plane, lambda t: t.T[0], values),
    "bytes of it": Road(tensor, lambda t: t.view("uint8")),
    "fill": Road(tensor, lambda t: t.fill_(1)),
    "pickle": Road(tensor, there_and_back, values),
    "overlapping copy": Road(tensor, lambda t: t[1:].copy_(t[:-1])),
    "stack": Road(lambda: [tensor(), tensor()], lambda ts: candle.stack(ts)[0], values),
}


# Python 3.11 to 3.13 themselves lose what a function with a closure was given, where there is no
# room for it; pickle says then that it finds no module. ContextVar.set, which explain() calls, ends
# the process where there is room neither for its token nor for the value.
LOST_BY_PYTHON = {"squeeze", "pickle", "explain"}


class Pair:
    """The capsules of an Arrow export, as an object."""

    def __init__(self, pair: Any) -> None:
        self.pair = pair

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.pair
