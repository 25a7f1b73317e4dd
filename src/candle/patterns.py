"""The Python Array API's creation functions whose elements follow a pattern.

Ranges, the identity, triangles of a matrix, grids. Dtypes, devices and memory: as in
`candle.creation`.
"""

from __future__ import annotations

from math import ceil, isfinite

from ._native import _core
from .creation import allocate, asarray, dtype_or, zeros
from .dtypes import complex64, float32, int64, uint8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._native._core import Tensor
    from .dtypes import DType

__all__ = ["arange", "eye", "linspace", "meshgrid", "tril", "triu"]

_chunk = 1 << 14  # numbers that are made in Python at a time


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: object = None,
    device: object = None,
) -> Tensor:
    """Make a tensor of evenly spaced numbers, from `start` until before `stop`.

    Parameters
    ----------
    start : int or float
        The first number; alone, it is `stop`, and the first number is 0.
    stop : int or float, optional
    step : int or float
    dtype
        Default: int64 if all three are ints, else float32.
    device
        Default: the CPU.

    Returns
    -------
    Tensor
        ``ceil((stop - start) / step)`` numbers, computed exactly for ints, in double precision for
        floats, and rounded once.

    Raises
    ------
    ValueError
        For a step of 0, an end that is not finite, an int that the dtype does not hold.
    """
    first, end = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise ValueError("the step is 0; arange would never get to its stop")
    if all(hasattr(n, "__index__") for n in (first, end, step)):
        whole = range(int(first), int(end), int(step))
        count = max(0, -((whole.start - whole.stop) // whole.step))  # len() has a limit
        return _computed(count, dtype_or(dtype, int64), device, lambda i, j: list(whole[i:j]))
    length = (end - first) / step
    if not isfinite(length):
        raise ValueError(f"arange cannot go from {first} to {end} in steps of {step}")
    return _computed(
        max(0, ceil(length)),
        dtype_or(dtype, float32),
        device,
        lambda i, j: [first + n * step for n in range(i, j)],
    )


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: object = None,
    device: object = None,
    endpoint: bool = True,
) -> Tensor:
    """Make a tensor of `num` evenly spaced numbers, from `start` to `stop`.

    Parameters
    ----------
    start, stop : int, float or complex
        The first and the last number.
    num : int
        How many numbers.
    dtype
        Default: float32, or complex64 if an end is complex.
    device
        Default: the CPU.
    endpoint : bool
        Whether `stop` is the last number. If not, it would be the one after.

    Returns
    -------
    Tensor
        Computed in double precision and rounded once.

    Raises
    ------
    ValueError
        For a negative `num`.
    TypeError
        For a dtype of whole numbers.
    """
    if num < 0:
        raise ValueError(f"linspace makes num={_core.in_words(num)} numbers; that is negative")
    is_complex = any(isinstance(end, complex) for end in (start, stop))
    chosen = dtype_or(dtype, complex64 if is_complex else float32)
    if chosen.kind not in ("real", "complex"):
        raise TypeError(f"linspace makes floats, not {chosen}; take linspace(...).to('{chosen}')")
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps > 0 else 0.0

    def numbers(i: int, j: int) -> list[complex]:
        made = [start + n * step for n in range(i, j)]
        if endpoint and j == num > 1:
            made[-1] = stop
        return made

    return _computed(num, chosen, device, numbers)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: object = None,
    device: object = None,
) -> Tensor:
    """Make a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        The shape; square if `n_cols` is not given.
    k : int
        Which diagonal: 0 is the main one, positive ones lie above it, negative ones below.
    dtype
        Default: float32.
    device
        Default: the CPU.

    Returns
    -------
    Tensor
    """
    wanted = dtype_or(dtype, float32)
    if wanted.bits * wanted.lanes < 8:  # a diagonal may begin within a byte, where no view does
        bytes_ = eye(n_rows, n_cols, k=k, dtype=uint8)
        packed = allocate(bytes_.shape, wanted, device)
        _core.quietly(_core.copy_into, packed, bytes_)
        return packed
    cols = n_rows if n_cols is None else n_cols
    matrix = zeros(n_rows, cols, dtype=wanted, device=device)
    length = min(n_rows, cols - k) if k >= 0 else min(n_rows + k, cols)
    if length > 0:
        offset = k if k >= 0 else -k * cols
        _core.fill(_core.restride(matrix, (length,), (cols + 1,), offset), 1)
    return matrix


def tril(x: object, /, *, k: int = 0) -> Tensor:
    """Copy the lower triangles of matrices, with zeros above the diagonal `k` (see `eye`).

    Parameters
    ----------
    x
        A tensor of any framework with at least 2 axes; the last two are those of the matrices.
    k : int
        The highest diagonal that is kept.

    Returns
    -------
    Tensor
    """
    return _triangle(x, lambda row, cols: (row + k + 1, cols))


def triu(x: object, /, *, k: int = 0) -> Tensor:
    """Copy the upper triangles of matrices, with zeros below the diagonal `k` (see `eye`).

    Parameters
    ----------
    x
        A tensor of any framework with at least 2 axes; the last two are those of the matrices.
    k : int
        The lowest diagonal that is kept.

    Returns
    -------
    Tensor
    """
    return _triangle(x, lambda row, _: (0, row + k))


def _triangle(x: object, zeroed: Callable[[int, int], tuple[int, int]]) -> Tensor:
    source = asarray(x)
    if source.ndim < 2:
        raise ValueError(f"a tensor of shape {source.shape} holds no matrices; it takes 2 axes")
    result = _core.materialise(source)
    rows, cols = result.shape[-2:]
    for row in range(rows):
        begin, end = zeroed(row, cols)
        begin, end = max(begin, 0), min(end, cols)
        if begin < end:
            _core.fill(result[..., row, begin:end], 0)
    return result


def meshgrid(*arrays: object, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Make matrices of coordinates of vectors of coordinates.

    Parameters
    ----------
    *arrays
        Vectors, of any framework.
    indexing : {"xy", "ij"}
        ``"ij"``: axis n of the results goes along vector n. ``"xy"``: the same with the first two
        axes exchanged.

    Returns
    -------
    tuple of Tensor
        One for each vector, each in memory of its own.

    Raises
    ------
    ValueError
        For another `indexing`, or an array that is not a vector.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    vectors = [asarray(x) for x in arrays]
    for vector in vectors:
        if vector.ndim != 1:
            raise ValueError(f"meshgrid takes vectors; one array has shape {vector.shape}")
    axes = list(range(len(vectors)))
    if indexing == "xy":
        axes[:2] = axes[:2][::-1]
    shape = tuple(vectors[axis].size for axis in axes)  # the exchange is its own inverse
    grids = []
    for vector, along in zip(vectors, axes, strict=True):
        stride = tuple(vector.stride[0] if axis == along else 0 for axis in range(len(axes)))
        grids.append(_core.materialise(_core.restride(vector, shape, stride)))
    return tuple(grids)


def _computed(
    count: int, dtype: DType, device: object, numbers: Callable[[int, int], list[Any]]
) -> Tensor:
    """Make a vector of Python numbers. `numbers(i, j)` gives those from i until before j."""
    vector = allocate((count,), dtype, device)
    for begin in range(0, count, _chunk):
        end = min(begin + _chunk, count)
        _core.quietly(_core.assign, vector[begin:end], numbers(begin, end))
    return vector
