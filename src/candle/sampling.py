"""Random tensors, drawn by numpy's generators."""

from __future__ import annotations

from ._native import _core
from .creation import allocate, creatable, dtype_or, shape_of
from .dtypes import bfloat16, float16, float32, float64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from numpy.random import Generator

    from ._native._core import Tensor
    from .creation import Shape
    from .dtypes import DType

__all__ = ["rand", "randn"]


def rand(
    shape: Shape,
    *extents: int,
    dtype: object = None,
    device: object = None,
    seed: int | Generator | None = None,
) -> Tensor:
    """Make random numbers, evenly distributed from 0 until before 1. Uses numpy.

    Parameters
    ----------
    shape, *extents : int or sequence of int
        The shape: ``rand((2, 3))`` or ``rand(2, 3)``.
    dtype
        float32 (the default), float64, float16 or bfloat16.
    device
        Only the CPU for now.
    seed : int or numpy.random.Generator, optional
        What ``numpy.random.default_rng`` takes: the same int gives the same numbers. Default:
        other numbers at each call.

    Returns
    -------
    Tensor

    Raises
    ------
    TypeError
        For another dtype.
    """
    where = creatable(device)
    out = allocate(shape_of(shape, extents), _random_dtype(dtype, "rand"))
    rng = _generator(seed)
    if out.dtype in (float32, float64):
        rng.random(dtype=out.dtype.name, out=_core.quietly(out.numpy))
    else:
        # Whole multiples of 1 / levels are exact in the dtype; rounding would give 1.0 at times.
        levels = 1 << (11 if out.dtype is float16 else 8)
        steps = rng.integers(levels, size=out.shape, dtype="uint16")
        _core.quietly(_core.assign, out, (steps / levels).astype("float32"))
    return _core.quietly(out.to, where)


def randn(
    shape: Shape,
    *extents: int,
    dtype: object = None,
    device: object = None,
    seed: int | Generator | None = None,
) -> Tensor:
    """Make random numbers, normally distributed with mean 0 and variance 1. Uses numpy.

    Parameters, return value and errors as for `rand`.
    """
    where = creatable(device)
    out = allocate(shape_of(shape, extents), _random_dtype(dtype, "randn"))
    rng = _generator(seed)
    if out.dtype in (float32, float64):
        rng.standard_normal(dtype=out.dtype.name, out=_core.quietly(out.numpy))
    else:
        _core.quietly(_core.assign, out, rng.standard_normal(size=out.shape, dtype="float32"))
    return _core.quietly(out.to, where)


def _generator(
    seed: int | Generator | None,
) -> Any:  # numpy types its methods for literal dtypes only
    import numpy as np

    return np.random.default_rng(seed)


def _random_dtype(dtype: object, function: str) -> DType:
    chosen = dtype_or(dtype, float32)
    if chosen not in (float32, float64, float16, bfloat16):
        raise TypeError(
            f"{function} makes float32, float64, float16 or bfloat16, not {chosen}; "
            f"take {function}(...).to('{chosen}')"
        )
    return chosen
