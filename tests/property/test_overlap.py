"""Copies onto their own source, of any two layouts, are as if the source had been read first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import children
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from strided import Layout

import candle
from candle._native import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Array = npt.NDArray[Any]

NAMES = ("u1", "i2", "f4", "i8", "c16")
PACKED = ("int4", "float4_e2m1fn", "float6_e3m2fn")
MOST = 1 << 19  # bytes that such a copy takes for elements
ROOMS = (64, 128, 512, 4096, MOST)  # small ones, with which small copies go as large ones do
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(autouse=True)
def _whole_room() -> Iterator[None]:
    yield
    _core.set_overlap_room(MOST)


@st.composite
def shapes(draw: Any, most: int = 600, axes: int = 5) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(draw(st.integers(0, axes))):
        shape.append(draw(st.integers(1, min(most, 40))))
        most //= shape[-1]
    return tuple(draw(st.permutations(shape)))


@st.composite
def apart(draw: Any, shape: tuple[int, ...], item: int, *, repeats: bool = False) -> Layout:
    """Axes in any order and direction, with gaps; some steps 0 if `repeats`."""
    strides = [0] * len(shape)
    step = item
    for axis in draw(st.permutations(range(len(shape)))):
        if repeats and draw(st.integers(0, 7)) == 0:
            continue
        step += item * draw(st.sampled_from([0, 0, 0, 0, 1, 3]))
        strides[axis] = -step if draw(st.integers(0, 3)) == 0 else step
        step *= shape[axis]
    return Layout(shape, tuple(strides), item)


@st.composite
def windows(draw: Any, shape: tuple[int, ...], item: int) -> Layout:
    """Axes of any small steps: elements are one, or lie between others."""
    strides = [item * draw(st.integers(-4, 4)) for _ in shape]
    return Layout(shape, tuple(strides), item)


def check(
    target: Layout, to: str, source: Layout, from_: str, at: tuple[int, int], seed: int
) -> None:
    """Compare with what numpy makes of a copy of the source, the bytes beside it included."""
    size = max(target.size + at[0], source.size + at[1])
    # Bytes that are small, finite floats: what numpy does with others is the machine's.
    memory = np.random.default_rng(seed).integers(0, 60, size + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :][:size]
    want = memory.copy()
    read = source.of(memory, from_, at[1]).copy()
    target.of(want, to, at[0])[...] = read.astype(to)
    tensor = candle.asarray(target.of(memory, to, at[0]), copy=False)
    tensor[...] = candle.asarray(source.of(memory, from_, at[1]), copy=False)
    np.testing.assert_array_equal(memory, want)


@hypothesis.settings(max_examples=400)
@hypothesis.given(st.data(), shapes(), st.sampled_from(NAMES), st.sampled_from(ROOMS), SEEDS)
def test_any_layouts(
    data: st.DataObject, shape: tuple[int, ...], to: str, room: int, seed: int
) -> None:
    names = NAMES if to == "c16" else NAMES[:-1]
    from_ = data.draw(st.just(to) | st.sampled_from(names))
    item = [np.dtype(name).itemsize for name in (to, from_)]
    target = data.draw(apart(shape, item[0]))
    any_steps = data.draw(st.integers(0, 5)) == 0
    source = data.draw(
        windows(shape, item[1]) if any_steps else apart(shape, item[1], repeats=True)
    )
    # Around the middle of the larger one, or where both begin.
    between = (source.size - target.size) // 2 if data.draw(st.booleans()) else 0
    at = [max(between, 0), max(-between, 0)]
    at[data.draw(st.integers(0, 1))] += data.draw(st.integers(0, 5)) * max(item)
    at = [begin // max(item) * max(item) for begin in at]
    _core.set_overlap_room(room)
    check(target, to, source, from_, (at[0], at[1]), seed)


@hypothesis.settings(max_examples=120)
@hypothesis.given(st.data(), shapes(), st.sampled_from(PACKED), st.sampled_from(ROOMS), SEEDS)
def test_packed_layouts(
    data: st.DataObject, shape: tuple[int, ...], name: str, room: int, seed: int
) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    lying = [shape[order.index(axis)] for axis in range(len(shape))]
    flips = tuple(slice(None, None, data.draw(st.sampled_from([1, 1, -1]))) for _ in shape)
    # The bytes from which on both have to begin, three of which hold 4 or 6 elements.
    begins = [3 * data.draw(st.integers(0, 4)) for _ in range(2)]
    count = math.prod(shape)
    memory = np.random.default_rng(seed).integers(0, 256, (count + 8) // 4 * 3 + 24, np.uint8)

    def views(memory: Array) -> list[candle.Tensor]:
        whole = [candle.asarray(memory[begin:], copy=False).view(name) for begin in begins]
        return [
            whole[0][:count].view(shape),
            whole[1][:count].view(lying).permute(*order)[flips],
        ]

    try:
        views(memory)
    except BufferError:  # turned round, it begins within a byte
        hypothesis.reject()
    want = memory.copy()
    views(want)[0][...] = views(memory.copy())[1]
    to, source = views(memory)
    _core.set_overlap_room(room)
    to[...] = source
    np.testing.assert_array_equal(memory, want)


EVERY_WAY = [
    # shape, in which order the source has its axes, which of them it has backwards
    ((200, 300), (1, 0), ()),
    ((299, 211), (1, 0), (0,)),
    ((3, 20_001), (1, 0), ()),
    ((20_001, 3), (1, 0), ()),
    ((16, 1 << 12), (1, 0), (1,)),
    ((5, 300, 41), (0, 2, 1), ()),
    ((40, 30, 50), (2, 1, 0), (0, 2)),
    ((17, 19, 3, 61), (3, 1, 2, 0), ()),
    ((2,) * 15, tuple(range(14, -1, -1)), ()),
]


@pytest.mark.parametrize("name", NAMES)
def test_elements_with_gaps_exchanged(name: str) -> None:
    """Every second one of those in memory, on both sides, in rows that are long or short."""
    item = np.dtype(name).itemsize
    for shape in ((30, 41), (3, 401), (401, 3), (7, 11, 13)):
        order = range(len(shape))
        back = [math.prod(shape[:i]) * item * 2 for i in order]
        ahead = [math.prod(shape[i + 1 :]) * item * 2 for i in order]
        for room in (128, 1 << 12):
            _core.set_overlap_room(room)
            for begins in ((0, 0), (item, 0), (0, 4 * item)):
                check(
                    Layout(shape, tuple(ahead), item),
                    name,
                    Layout(shape, tuple(back), item),
                    name,
                    begins,
                    1,
                )


@pytest.mark.parametrize("name", ["u1", "f4", "c16"])
def test_axes_exchanged(name: str) -> None:
    item = np.dtype(name).itemsize
    for shape, order, backwards in EVERY_WAY:
        for gap in (0, item):
            strides = [0] * len(shape)
            step = item
            for axis in reversed(order):
                strides[axis] = -step if axis in backwards else step
                step *= shape[axis]
            source = Layout(shape, tuple(strides), item)
            steps = [math.prod(shape[i + 1 :]) * item for i in range(len(shape))]
            steps[:-1] = [n + n // (item * shape[-1]) * gap for n in steps[:-1]]
            target = Layout(shape, tuple(steps), item)
            for room in (512, 1 << 13)[item == 16 :]:
                _core.set_overlap_room(room)
                check(target, name, source, name, (0, 0), 1)


@pytest.mark.parametrize("level", ["baseline", "avx2"])
def test_environment(level: str, pytestconfig: pytest.Config) -> None:
    children.run_child(
        *("-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *("-k", "exchanged and not c16"),
        *("-c", str(pytestconfig.inipath), "--rootdir", str(pytestconfig.rootpath)),
        __file__,
        CANDLE_SIMD=level,
        CANDLE_NUM_THREADS="3",
    ).check()
