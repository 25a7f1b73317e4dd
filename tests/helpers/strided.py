"""Layouts in bytes over a block of memory, and pools of elements whose casts are known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import rounding
from rounding import COMPLEX, NAMES

import candle

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

POOL = 256
PAIRS = [
    (source, target)
    for source in NAMES
    for target in NAMES
    if not (source in COMPLEX and target not in COMPLEX and target != "bool")
]


@dataclass
class Layout:
    """Extents and strides in bytes; `before`: bytes before the first element, `size`: all bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    def __post_init__(self) -> None:
        ends = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        empty = 0 in self.shape
        self.before = 0 if empty else -sum(end for end in ends if end < 0)
        self.size = self.before + self.item + (0 if empty else sum(end for end in ends if end > 0))

    def of(self, memory: Array, dtype: Any, extra: int = 0) -> Array:
        """The elements over memory, `extra` bytes in."""
        return np.ndarray(self.shape, dtype, memory.data, self.before + extra, self.strides)

    def opaque(self, memory: Array, extra: int = 0) -> Array:
        """The same as items that numpy moves bit by bit."""
        return self.of(memory, f"V{self.item}", extra)

    def beside(self, memory: Array, extra: int = 0) -> bytes:
        """What the memory holds where there is no element."""
        blank = memory.copy()
        self.opaque(blank, extra)[...] = np.void(bytes(self.item))
        return blank.tobytes()


def compact(shape: tuple[int, ...], item: int, order: tuple[int, ...] | None = None) -> Layout:
    """A layout without gaps whose axes lie in memory in `order`, the outermost first."""
    strides = [0] * len(shape)
    step = item
    for axis in reversed(range(len(shape)) if order is None else order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return Layout(shape, tuple(strides), item)


def noise(random: np.random.Generator, size: int) -> Array:
    """Random bytes."""
    return np.frombuffer(bytearray(random.bytes(size)), np.uint8)


def share(array: Array) -> candle.Tensor:
    """A candle tensor over an array's memory."""
    if array.dtype.names:
        return candle.asarray(array.view(np.uint32), copy=False).view("complex32")
    return candle.asarray(array, copy=False)


def array_of(tensor: candle.Tensor) -> Array:
    """An array over a candle tensor's memory."""
    halves = str(tensor.dtype) == "complex32"
    array: Array = (tensor.view("uint32") if halves else tensor).numpy()
    return array.view(rounding.numpy_dtype("complex32")) if halves else array


@cache
def pool(name: str) -> Array:
    """POOL elements of a dtype: all of a small one, edges and noise of a large one."""
    random = np.random.default_rng(len(name))
    if name == "bool":
        return np.arange(POOL, dtype=np.uint8).view(bool)  # any byte but 0 is true
    if name == "complex32":
        halves = rounding.every_code("float16").view(np.uint16)
        return random.choice(halves, 2 * POOL).view(rounding.numpy_dtype(name))
    if rounding.bits_of(name) <= 8:
        return np.resize(rounding.every_code(name), POOL)
    if rounding.bits_of(name) == 16:
        return random.permutation(rounding.every_code(name))[:POOL]
    return random.choice(rounding.edge_values(name), POOL)


@cache
def _casts(source: str, target: str) -> tuple[Array, Array]:
    """Codes of the pool in the target, a row for each element, and which of them are NaN."""
    elements = pool(source)
    if source == target:
        codes = rounding.codes(elements).reshape(POOL, -1)
        return codes, np.zeros(codes.shape, bool)
    wanted = rounding.expected(elements, target)
    nan = np.array([code is None for code in wanted]).reshape(POOL, -1)
    width = rounding.codes(np.zeros(1, rounding.numpy_dtype(target))).dtype
    return np.array([code or 0 for code in wanted], width).reshape(POOL, -1), nan


def check_cast(index: Array, result: Array, source: str, target: str) -> None:
    """Assert that `result` is the elements `pool(source)[index]` cast to the target."""
    codes, nan = _casts(source, target)
    got = rounding.codes(result).reshape(-1, codes.shape[1])
    flat = index.ravel()
    wrong = (got != codes[flat]) & ~nan[flat]
    if nan.any():
        wrong |= nan[flat] & ~rounding.is_quiet_nan(got, COMPLEX.get(target, target))
    if wrong.any():
        at = int(np.flatnonzero(wrong.any(axis=1))[0])
        element, want = pool(source)[flat[at]], codes[flat[at]]
        where = np.unravel_index(at, index.shape)
        raise AssertionError(
            f"{int(wrong.any(axis=1).sum())} of {flat.size} elements are wrong, the first at "
            f"{tuple(map(int, where))}: {source} {element!r} to {target} gives {got[at]}, not "
            f"{'NaN' if nan[flat[at]].any() else want}"
        )


def can_be_foreign(name: str) -> bool:
    """Whether numpy has the dtype in the other byte order."""
    dtype = rounding.numpy_dtype(name)
    return dtype.isbuiltin == 1 and dtype.itemsize > 1


def component_size(name: str) -> int:
    """Bytes to whose multiple an address has to be aligned."""
    size = rounding.numpy_dtype(name).itemsize
    if name == "complex32":
        return size  # shared as one word of 32 bits
    return size // 2 if name in COMPLEX else size
