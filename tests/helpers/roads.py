"""Every road into candle and out of it, as small calls over the numbers 0, 1, 2, 3."""

from __future__ import annotations

import array
import pickle
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import arrow_structs
import numpy as np
from interfaces import Interface, Struct

import candle
from candle._native import _core
from candle.ledger import listening
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = [0.0, 1.0, 2.0, 3.0]
DATA = struct.pack("4f", *NUMBERS)
BITS = [[False, True], [True, False], [True, True]]


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

    def __init__(self, of: candle.Tensor | None = None) -> None:
        self.tensor = tensor() if of is None else of

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.tensor.__arrow_c_array__(requested_schema)


class ByArray:
    """An object with `__array__` and nothing else."""

    def __init__(self) -> None:
        self.array = np.array(NUMBERS, "f4")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


class ByCopy(ByArray):
    """It has to copy, and says so."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if copy is False:
            raise ValueError("there is none")
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


def refused(said: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A move that is refused, with these words among others."""

    def go(x: Any) -> None:
        told = None
        try:
            call(x)
        except (BufferError, ValueError, TypeError, IndexError) as error:
            told = str(error)
        assert told is not None, "it was not refused"
        assert said in told, told

    return go


def listened(
    x: Any, move: Callable[[Any], candle.Tensor] = lambda x: take(x, copy=True)
) -> candle.Tensor:
    """A copy that somebody is told of."""
    told: list[candle.Plan] = []
    with listening(told.append):
        made = move(x)
    assert len(told) == 1
    return made


def away() -> Any:
    """A capsule of memory on a CUDA device, of which nothing is asked."""
    return Producer(1 << 40, shape=(4,), device=(2, 0)).capsule(True)


class WithNulls:
    """The numbers by Arrow, a null in the place of 3; its capsules made before."""

    def __init__(self) -> None:
        made = arrow_structs.array(4, [b"\x07", DATA], null_count=1)
        self.exporter = arrow_structs.Exporter(arrow_structs.schema("f"), made)
        self.pair = self.exporter.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.pair


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
    "capsule of a device": Road(away, take),
    "DLPack, told of": Road(producer(), listened, values),
    "__array__, told of": Road(ByCopy, lambda x: listened(x, candle.asarray), values),
    "__array__, refused": Road(
        ByCopy, refused("have to copy", lambda x: candle.asarray(x, copy=False))
    ),
    "DLPack, refused": Road(
        producer(), refused("float64", lambda x: take(x, dtype="float64", copy=False))
    ),
    "copy into, refused": Road(producer(), refused("shape", lambda x: candle.zeros(3).copy_(x))),
    "Arrow, bits": Road(lambda: ByArrow(candle.asarray([[False, True]])), candle.asarray),
    "Arrow, bits in another order": Road(
        lambda: (candle.zeros((2, 3), dtype="bool").T, ByArrow(candle.asarray(BITS))),
        lambda x: x[0].copy_(x[1]).tolist(),
        lambda found: NUMBERS if found == BITS else found,
    ),
    "Arrow, opaque": Road(lambda: ByArrow(tensor().to("bfloat16")), candle.asarray, values),
    "Arrow, complex": Road(lambda: ByArrow(tensor().to("complex64")), candle.asarray, values),
    "Arrow, nulls filled": Road(WithNulls, lambda x: candle.from_arrow(x, nulls=3.0), values),
    "Arrow, nulls marked": Road(
        WithNulls, lambda x: candle.from_arrow(x, nulls="mask")[1].tolist()
    ),
    "Arrow, nulls refused": Road(WithNulls, refused("null", candle.from_arrow)),
    "number": Road(lambda: 3, lambda x: candle.asarray(x).item()),
    "large number": Road(lambda: 1 << 70, refused("does not fit", candle.asarray)),
    "list of lists": Road(
        lambda: [NUMBERS[:2], NUMBERS[2:]], lambda x: candle.asarray(x).reshape(4), values
    ),
    "ragged list": Road(lambda: [[0.0], [1.0, 2.0]], refused("", candle.asarray)),
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


SIDE = 256  # so many rows are too much for what needs no memory


def square() -> candle.Tensor:
    return candle.arange(SIDE * SIDE, dtype="float32").view(SIDE, SIDE)


def roomless(move: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A copy onto its own source, as large ones go, and what it gives."""

    def go(t: candle.Tensor) -> Any:
        _core.set_overlap_room(64)
        try:
            move(t)
        finally:
            _core.set_overlap_room(1 << 19)
        return t

    return go


def shifted(t: candle.Tensor) -> candle.Tensor:
    """Turned round, and moved by one."""
    t[1:].copy_(t[:-1][::-1])
    return t


def is_turned(t: candle.Tensor) -> Any:
    assert t[1:5].tolist() == [SIDE * SIDE - 2.0 - n for n in range(4)]
    assert t[-1].item() == 0
    return NUMBERS


def is_exchanged(t: candle.Tensor) -> Any:
    assert t[1, :4].tolist() == [1.0 + SIDE * n for n in range(4)]
    return t[:4, 0].tolist()


# A type whose copy takes a text, and a node in a node.
ASKED = arrow_structs.schema(
    "+w:2",
    arrow_structs.schema("f"),
    metadata=arrow_structs.extension("arrow.fixed_shape_tensor", '{"shape":[2]}'),
)
BYTES = arrow_structs.schema("c")

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
    "Arrow, as asked": Road(
        lambda: (tensor().view(2, 2), arrow_structs.capsule(ASKED, b"arrow_schema")),
        lambda x: x[0].__arrow_c_array__(x[1]),
        lambda pair: candle.asarray(Pair(pair)).reshape(4).tolist(),
    ),
    "Arrow, refused as asked": Road(
        lambda: (
            tensor().view("int32"),
            arrow_structs.capsule(BYTES, b"arrow_schema"),
        ),
        refused("does not hold", lambda x: x[0].__arrow_c_array__(x[1])),
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
    "exchanged onto itself": Road(square, lambda t: t.copy_(t.T), is_exchanged),
    "turned onto itself": Road(lambda: square().view(SIDE * SIDE), shifted, is_turned),
    "turned, in little room": Road(
        lambda: square().view(SIDE * SIDE), roomless(shifted), is_turned
    ),
    "exchanged, in little room": Road(
        square,
        roomless(lambda t: t.copy_(t.T)),
        is_exchanged,
    ),
    "legacy capsule of the door to jax": Road(
        tensor, _core.legacy_capsule, lambda c: take(c).tolist()
    ),
    "frozen": Road(tensor, _core.frozen, values),
    "DLPack, refused": Road(
        backwards,
        refused("negative", lambda t: t.__dlpack__(max_version=(1, 3), copy=False)),
    ),
    "numpy, refused": Road(
        lambda: tensor().to("int4"), refused("packed", lambda t: t.numpy(copy=False))
    ),
    "Arrow, lists": Road(plane, lambda t: _core.arrow_capsules(t, None, True, None)),
    "Arrow, on a device": Road(tensor, lambda t: t.__arrow_c_device_array__()),
    "Arrow schema": Road(plane, lambda t: t.__arrow_c_schema__()),
    "attributes": Road(tensor, lambda t: (t.shape, t.stride, t.dtype, t.device, t.size, t.nbytes)),
    "item": Road(tensor, lambda t: [t[i].item() for i in range(4)], lambda found: found),
    "item out of bounds": Road(tensor, refused("out of bounds", lambda t: t[1 << 40])),
    "number that does not fit": Road(
        lambda: tensor().to("int8"), refused("does not fit int8", lambda t: t.fill_(1 << 70))
    ),
    "overlapping copy": Road(tensor, lambda t: t[1:].copy_(t[:-1])),
    "stack": Road(lambda: [tensor(), tensor()], lambda ts: candle.stack(ts)[0], values),
}


# Python 3.11 to 3.13 themselves lose what a function with a closure was given, where there is no
# room for it; pickle says then that it finds no module. ContextVar.set, which explain() calls and
# who listens, ends the process where there is room neither for its token nor for the value.
LOST_BY_PYTHON = {"squeeze", "pickle", "explain", "DLPack, told of", "__array__, told of"}


class Pair:
    """The capsules of an Arrow export, as an object."""

    def __init__(self, pair: Any) -> None:
        self.pair = pair

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.pair
