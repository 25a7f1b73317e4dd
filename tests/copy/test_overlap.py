"""Copies onto memory that they read: the result is as if the source had been read whole first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import children
import numpy as np
import pytest

import candle
from candle._native import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Array = np.ndarray[Any, Any]
    Views = Callable[[Array], tuple[Array, Array]]

# Each kind gives the destination and the source, two views of some memory, which take megabytes.
# The program below runs in a child too, with more memory.

KINDS = """
import numpy as np

def square(memory, dtype):
    items = memory.view(dtype)
    side = int(len(items) ** 0.5) // 8 * 8 - 3
    return items[: side * side].reshape(side, side)


def cube(memory, dtype):
    items = memory.view(dtype)
    side = int(len(items) ** (1 / 3)) // 4 * 4 - 1
    return items[: side**3].reshape(side, side, side)


def in_place(view_of, turned):
    def views(memory):
        whole = view_of(memory)
        return whole, turned(whole)

    return views


def cast_in_place(to, from_):
    def views(memory):
        count = memory.size // max(np.dtype(to).itemsize, np.dtype(from_).itemsize)
        return memory.view(to)[:count], memory.view(from_)[:count]

    return views


def parts(dtype, to, from_):
    return lambda memory: (memory.view(dtype)[to], memory.view(dtype)[from_])


def stepped(dtype, of):
    def views(memory):
        items = memory.view(dtype)
        return of(items, len(items) // 4)

    return views


def patch(into):
    def views(memory):
        whole = square(memory, "i4")
        side = whole.shape[0] * 3 // 4
        middle = whole[50 : 50 + side, 50 : 50 + side]
        front = whole.reshape(-1)[: side * side].reshape(side, side)
        return (middle, front) if into else (front, middle)

    return views


def batch(memory):
    items = memory.view("f4")
    count = len(items) // (40 * 40)
    squares = items[: count * 40 * 40].reshape(count, 40, 40)
    return squares, squares.transpose(0, 2, 1)


def colours(memory):
    side = int((memory.size // 3) ** 0.5)
    image = memory[: side * side * 3].reshape(side, side, 3)
    return image, image.transpose(1, 0, 2)


def rows_down(memory):
    whole = square(memory, "i4")
    return whole[2:, ::-1], whole[:-2]


# Rows of what is there, their axes in another order; cast in place, if to another dtype.
def rectangle(dtype, rows, order=(1, 0), to=None):
    def views(memory):
        most = max(np.dtype(dtype).itemsize, np.dtype(to or dtype).itemsize)
        each = int(np.prod(rows))
        count = memory.size // most // each
        items = memory.view(dtype)[: count * each].reshape(count, *rows).transpose(order)
        return memory.view(to or dtype)[: count * each].reshape(items.shape), items

    return views


# A part of a matrix onto another part, transposed.
def crossed(steps):
    def views(memory):
        whole = square(memory, "i4")
        n = whole.shape[0] // 10
        to = whole[n : 9 * n, 2 * n : 8 * n : steps]
        return to, whole[3 * n : 9 * n : steps, n // 2 : 8 * n + n // 2].T

    return views


def colours_apart(memory):
    images = memory.view("f4")[: memory.size // 4 // 6 * 6].reshape(2, -1, 3)
    return images.reshape(2, 3, -1), images.transpose(0, 2, 1)


def windows(memory):
    items = memory.view("i2")
    count = len(items) // 5
    window = np.lib.stride_tricks.sliding_window_view(items[1 : count + 5], 5)
    return items[: count * 5].reshape(5, count), window.T


def repeated(memory):
    items = memory.view("i4")
    side = int((len(items) // 3) ** 0.5)
    whole = items[: 3 * side * side].reshape(3, side, side)
    return whole, np.broadcast_to(whole[1].T[::-1], whole.shape)


BOUNDED = {
    "backwards": in_place(lambda m: m.view("i8"), lambda a: a[::-1]),
    "bytes backwards": in_place(lambda m: m[: m.size - 1], lambda a: a[::-1]),
    "rows backwards": in_place(lambda m: square(m, "i4"), lambda a: a[::-1]),
    "columns backwards": in_place(lambda m: square(m, "i2"), lambda a: a[:, ::-1]),
    "transposed": in_place(lambda m: square(m, "f4"), lambda a: a.T),
    "bytes transposed": in_place(lambda m: square(m, "u1"), lambda a: a.T),
    "transposed the other way": in_place(lambda m: square(m, "f8"), lambda a: a.T[::-1, ::-1]),
    "a quarter turn": in_place(lambda m: square(m, "c16"), np.rot90),
    "three axes": in_place(lambda m: cube(m, "f4"), lambda a: a.transpose(1, 2, 0)),
    "three axes turned": in_place(lambda m: cube(m, "u2"), lambda a: a.transpose(2, 0, 1)[::-1]),
    "images transposed": colours,
    "a batch transposed": batch,
    "rows down, backwards": rows_down,
    "shifted up": parts("f4", np.s_[1:], np.s_[:-1]),
    "shifted down by bytes": lambda m: (m[:-8].view("f4"), m[8:].view("f4")),
    "gathered": stepped("f4", lambda a, n: (a[:n], a[: 3 * n : 3])),
    "scattered": stepped("f4", lambda a, n: (a[5 : 5 + 3 * n : 3], a[:n])),
    "gathered to the end": stepped("i2", lambda a, n: (a[-n:], a[-1 - 2 * n : -1 : 2])),
    "patch to the front": patch(False),
    "patch from the front": patch(True),
    "narrowed": cast_in_place("f4", "f8"),
    "narrowed twice": cast_in_place("u1", "f4"),
    "widened": cast_in_place("f4", "i2"),
    "cast in place": cast_in_place("i4", "f4"),
    "cast and transposed": lambda m: (square(m, "i4"), square(m, "f4").T),
    "bytes swapped": lambda m: (m.view("f4"), m.view(">f4")),
    "bytes swapped and backwards": lambda m: (m.view("i8"), m.view(">i8")[::-1]),
    "backwards and off": parts("i4", np.s_[7:], np.s_[-8::-1]),
    "a rectangle": rectangle("f4", (1021,)),
    "a wide rectangle": rectangle("u1", (700_001,)),
    "a narrow rectangle": rectangle("i2", (3,)),
    "a rectangle cut into squares": rectangle("f4", (256,)),
    "complex numbers": rectangle("c16", (301,)),
    "a batch of rectangles": rectangle("f8", (500, 301), (0, 2, 1)),
    "three axes of any extents": rectangle("i4", (37, 41), (2, 1, 0)),
    "four axes of any extents": rectangle("i2", (7, 53, 11), (2, 0, 3, 1)),
    "many axes": rectangle("f4", (2,) * 14, tuple(range(14, -1, -1))),
    "colours apart": colours_apart,
    "a rectangle widened": rectangle("f4", (1021,), to="f8"),
    "a rectangle narrowed": rectangle("f8", (1021,), to="f4"),
    "crossed": crossed(1),
    "crossed columns": crossed(2),
    "windows": windows,
    "repeated": repeated,
}
"""
names: dict[str, Any] = {"np": np}
exec(KINDS, names)
BOUNDED: dict[str, Views] = names["BOUNDED"]


def fresh(size: int) -> Array:
    """Bytes that begin at a multiple of 64: finite, small floats, and integers."""
    memory = np.zeros(size + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :][:size]
    memory[:] = np.random.default_rng(size).integers(0, 60, size, np.uint8)
    return memory


def check(views: Views, memory: Array) -> None:
    """Compare with what numpy makes of a copy of the source."""
    want = memory.copy()
    to, from_ = views(want)
    with np.errstate(all="ignore"):
        to[...] = from_.astype(from_.dtype.newbyteorder("=")).copy().astype(to.dtype)
    to, from_ = views(memory)
    source = candle.asarray(from_, copy=False) if from_.dtype.isnative else from_
    candle.asarray(to, copy=False)[...] = source
    np.testing.assert_array_equal(memory, want)


@pytest.mark.parametrize("kind", BOUNDED)
def test_large(kind: str) -> None:
    check(BOUNDED[kind], fresh(5 << 20))


def test_large_pieces_in_any_direction() -> None:
    random = np.random.default_rng(7)

    def piece(array: Array, shape: tuple[int, ...]) -> Array:
        index = []
        for room, n in zip(array.shape, shape, strict=True):
            step = int(random.integers(1, max(2, (room - 1) // n) + 1))
            step = step if (n - 1) * step < room else 1
            first = int(random.integers(0, room - (n - 1) * step))
            run = np.arange(first, first + n * step, step)
            stop = int(run[-1]) + 1
            ahead = slice(first, stop, step)
            back = slice(int(run[-1]), first - 1 if first else None, -step)
            index.append(ahead if random.random() < 0.6 else back)
        return array[tuple(index)]

    for _ in range(150):
        ndim = int(random.integers(1, 4))
        size = int(random.choice([1, 2, 4, 8]))
        whole = {1: (300_000,), 2: (500, 600), 3: (60, 70, 80)}[ndim]
        shape = tuple(int(n * random.uniform(0.3, 1)) for n in whole)
        memory = fresh(int(np.prod(whole)) * size)
        # Two pieces of one array.
        state = random.bit_generator.state

        def views(
            memory: Array,
            state: Any = state,
            whole: tuple[int, ...] = whole,
            shape: tuple[int, ...] = shape,
            size: int = size,
        ) -> tuple[Array, Array]:
            random.bit_generator.state = state
            array = memory.view(f"i{size}").reshape(whole)
            return piece(array, shape), piece(array, shape)

        check(views, memory)


@pytest.mark.parametrize("name", ["int4", "float4_e2m1fn", "float6_e3m2fn"])
@pytest.mark.parametrize("shift", [4, -4, 32, -32])
def test_large_packed(name: str, shift: int) -> None:
    memory = np.random.default_rng(1).integers(0, 256, 96 << 10, np.uint8)
    tensor = candle.asarray(memory, copy=False).view(name)
    n = len(tensor) - 40
    begin = max(-shift, 0)
    want = tensor.copy()
    want[begin + shift : begin + shift + n].copy_(tensor[begin : begin + n].copy())
    tensor[begin + shift : begin + shift + n].copy_(tensor[begin : begin + n])
    np.testing.assert_array_equal(memory, want.view("uint8").numpy())


# Small memory, with little room beside it, goes the ways that large memory goes.


def windows_of(memory: Array, first: int = 0) -> Array:
    """Elements of which each is up to twelve elements of the view."""
    return np.lib.stride_tricks.as_strided(memory.view("f4")[first:], (12, 12), (4, 4))


def part_of(memory: Array, rows: int, columns: int) -> Array:
    return memory.view("i4")[:2500].reshape(50, 50)[:rows, :columns]


def repeated_twice(memory: Array) -> tuple[Array, Array]:
    whole = memory.view("i2")[: 2 * 20 * 3 * 20].reshape(2, 20, 3, 20)
    return whole, np.broadcast_to(whole[1, :, 1].T[::-1][:, None], whole.shape)


SMALL: dict[str, Views] = {
    "windows backwards": lambda m: (windows_of(m), windows_of(m)[::-1, ::-1]),
    "windows shifted": lambda m: (windows_of(m, 1), windows_of(m)),
    "a part to the front, transposed": lambda m: (
        m.view("i4")[: 40 * 40].reshape(40, 40),
        part_of(m, 40, 40).T,
    ),
    "a part onto another": lambda m: (part_of(m, 45, 20), part_of(m, 20, 45).T),
    "repeated on two axes": repeated_twice,
}


@pytest.fixture
def little_room() -> Iterator[None]:
    _core.set_overlap_room(64)
    yield
    _core.set_overlap_room(1 << 19)


def test_small(little_room: None) -> None:
    for views in SMALL.values():
        check(views, fresh(10_000))


@pytest.mark.parametrize("name", ["int4", "float6_e3m2fn"])
def test_packed_backwards_within_a_byte(little_room: None, name: str) -> None:
    """The lowest element of the source lies in the first byte, and is not its first."""
    t = candle.asarray(fresh(300), copy=False).view(name)
    n = 384
    for step in (1, 2):
        want = t.copy()
        count = n // step
        want[:count].copy_(t[n:0:-step].copy())
        t[:count].copy_(t[n:0:-step])
        assert t.view("uint8").tolist() == want.view("uint8").tolist()


# Memory: no more than a little.

PEAK = """
import sys
import numpy as np
import candle

def status(key):
    for line in open("/proc/self/status"):
        if line.startswith(key):
            return int(line.split()[1]) << 10

def packed(memory):
    whole = candle.asarray(memory[: 6 << 20], copy=False).view("int4")
    whole.view((6 << 10, 2 << 10))[...] = whole.view((2 << 10, 6 << 10)).permute(1, 0)

def run(kind, memory):
    if kind == "packed":
        return packed(memory)
    to, from_ = BOUNDED[kind](memory)
    source = candle.asarray(from_, copy=False) if from_.dtype.isnative else from_
    candle.asarray(to, copy=False)[...] = source

def full(size):
    memory = np.empty(size + 64, np.uint8)
    memory[...] = 1  # every page of it
    return memory[-memory.ctypes.data % 64 :][:size]

run("backwards", full(1 << 20))  # whatever is made once
memory = full(24 << 20)
for kind in [*BOUNDED, "packed"]:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak begins anew
    before, hidden = status("VmRSS"), status("VmHWM")
    run(kind, memory)
    print(kind, hidden - before, status("VmHWM") - before, sep=";")
"""
MB = 1 << 20
SLACK = MB  # the allocator's


@pytest.fixture(scope="module")
def peaks() -> dict[str, tuple[int, int]]:
    """Give for each kind how much the peak was above what was there before, and after the copy."""
    lines = [line.split(";") for line in children.in_child(KINDS + PEAK).check().splitlines()]
    return {kind: (int(hidden), int(extra)) for kind, hidden, extra in lines}


@pytest.mark.parametrize("kind", [*BOUNDED, "packed"])
def test_peak_memory(kind: str, peaks: dict[str, tuple[int, int]]) -> None:
    hidden, extra = peaks[kind]
    assert hidden < MB, "a peak before the copy hides the one of the copy"
    assert extra < MB + SLACK


def window(items: Array, rows: int, columns: int, down: int, right: int) -> Array:
    """A view with steps of so many items."""
    size = items.itemsize
    strided: Array = np.lib.stride_tricks.as_strided(
        items, (rows, columns), (down * size, right * size)
    )
    return strided


SLIDING: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    # Places that are several elements of the destination, each of which gets the same.
    "reversed": lambda x: (window(x, 5, 5, 1, 1), window(x[8:], 5, 5, -1, -1)),
    "shifted": lambda x: (window(x, 5, 5, 1, 1), window(x[3:], 5, 5, 1, 1)),
    "shifted back": lambda x: (window(x[3:], 5, 5, 1, 1), window(x, 5, 5, 1, 1)),
    # Elements that are several of the source's.
    "rows along both axes": lambda x: (window(x, 300, 300, 300, 1), window(x, 300, 300, 300, 300)),
    "columns along both axes": lambda x: (window(x, 300, 300, 300, 1), window(x, 300, 300, 1, 1)),
    "backwards along one": lambda x: (
        window(x[40_000:], 300, 300, 300, 1),
        window(x[299 * 300 :], 300, 300, 300, -300),
    ),
}


def test_windows_that_slide() -> None:
    for name, views in SLIDING.items():
        for dtype in ("u1", "i4", "f8"):
            items = np.arange(200_000).astype(dtype)
            to, source = views(items)
            want = source.copy()
            candle.asarray(to)[...] = candle.asarray(source)
            assert to.tolist() == want.tolist(), (name, dtype)


def test_four_axes_in_the_opposite_order() -> None:
    """Of blocks that do not fit the memory there is for them: the first side is a power of two."""
    for side in (31, 32, 40):
        items = np.random.default_rng(side).integers(0, 256, (side,) * 4, "u1")
        want = items.T.copy()
        t = candle.asarray(items)
        t[...] = t.permute(3, 2, 1, 0)
        assert np.array_equal(items, want), side


@pytest.mark.parametrize("begins", [(0, 1), (1, 0)])
def test_one_number_onto_half_of_itself(begins: tuple[int, int]) -> None:
    """Without axes, and still a shift: by a complex number's component."""
    t = candle.tensor([1.0, 2.0, 3.0], dtype="float32")
    to, source = (t[i : i + 2].view("complex64")[0] for i in begins)
    expected = source.item()
    to.copy_(source)
    assert to.item() == expected
