"""Calls of the standard's functions, for whoever computes them on a device, and their comparison.

x, y: float32, (3, 3), x symmetric and positive; i: int64, (3,); m: bool, (3, 3).
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import candle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from fake_driver import Driver

UNARY = """
    abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf
    isnan log log1p log2 log10 negative positive real reciprocal round sign signbit sin sinh square
    sqrt tan tanh trunc logical_not
""".split()  # noqa: SIM905
BINARY = """
    add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal
    logaddexp logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow
    remainder subtract matmul vecdot tensordot
""".split()  # noqa: SIM905
REDUCTIONS = """
    all any argmax argmin count_nonzero max mean min prod std sum var sort argsort flip
    cumulative_sum cumulative_prod diff
""".split()  # noqa: SIM905
LINALG = """
    cholesky det diagonal eigh eigvalsh inv matrix_norm matrix_rank matrix_transpose pinv qr slogdet
    svd svdvals trace vector_norm
""".split()  # noqa: SIM905
FFT = "fft fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftn".split()  # noqa: SIM905

CALLS: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {
    **{n: lambda xp, x, y, i, m, n=n: getattr(xp, n)(x) for n in UNARY},
    **{n: lambda xp, x, y, i, m, n=n: getattr(xp, n)(x, y) for n in BINARY},
    **{n: lambda xp, x, y, i, m, n=n: getattr(xp, n)(x, axis=0) for n in REDUCTIONS},
    **{f"linalg.{n}": lambda xp, x, y, i, m, n=n: getattr(xp.linalg, n)(x) for n in LINALG},
    **{f"fft.{n}": lambda xp, x, y, i, m, n=n: getattr(xp.fft, n)(x) for n in FFT},
    "bits": lambda xp, x, y, i, m: (
        (xp.bitwise_and(i, i), xp.bitwise_or(i, i), xp.bitwise_xor(i, i), xp.bitwise_invert(i)),
        (xp.bitwise_left_shift(i, i), xp.bitwise_right_shift(i, i)),
    ),
    "numbers": lambda xp, x, y, i, m: (xp.add(x, 2), xp.multiply(0.5, x), xp.where(m, x, 0.0)),
    "sum of all": lambda xp, x, y, i, m: xp.sum(x),
    "sum in float64": lambda xp, x, y, i, m: xp.sum(x, dtype=xp.float64, keepdims=True),
    "axes": lambda xp, x, y, i, m: (xp.mean(x, axis=(0, 1)), xp.std(x, correction=1)),
    "reshape": lambda xp, x, y, i, m: xp.reshape(x, (9,)),
    "permute_dims": lambda xp, x, y, i, m: xp.permute_dims(x, (1, 0)),
    "expand_dims": lambda xp, x, y, i, m: xp.squeeze(xp.expand_dims(x, axis=0), axis=0),
    "moveaxis": lambda xp, x, y, i, m: xp.moveaxis(x, 0, 1),
    "broadcast_to": lambda xp, x, y, i, m: xp.broadcast_to(i, (2, 3)),
    "broadcast_arrays": lambda xp, x, y, i, m: xp.broadcast_arrays(x, i),
    "concat": lambda xp, x, y, i, m: xp.concat([x, y], axis=0),
    "stack": lambda xp, x, y, i, m: xp.stack((x, y), axis=-1),
    "unstack": lambda xp, x, y, i, m: xp.unstack(x),
    "tile": lambda xp, x, y, i, m: (xp.tile(x, (2, 1)), xp.repeat(x, 2, axis=0), xp.roll(x, 1)),
    "take": lambda xp, x, y, i, m: xp.take(x, i, axis=0),
    "take_along_axis": lambda xp, x, y, i, m: xp.take_along_axis(x, i[None], axis=0),
    "searchsorted": lambda xp, x, y, i, m: xp.searchsorted(xp.sort(x[0]), x[1]),
    "isin": lambda xp, x, y, i, m: xp.isin(x, y),
    "tril": lambda xp, x, y, i, m: (xp.tril(x), xp.triu(x)),
    "meshgrid": lambda xp, x, y, i, m: xp.meshgrid(i, i),
    "astype": lambda xp, x, y, i, m: (xp.astype(x, xp.float64), xp.astype(x, xp.int32)),
    "likes": lambda xp, x, y, i, m: (xp.zeros_like(x), xp.ones_like(x), xp.full_like(x, 2)),
    "solve": lambda xp, x, y, i, m: xp.linalg.solve(x, y),
    "outer": lambda xp, x, y, i, m: (xp.linalg.outer(i, i), xp.linalg.cross(x, y)),
    "methods": lambda xp, x, y, i, m: (x.sum(0), x.max(), x.mean(1), x.argmin(), x.std(), m.any()),
    "more methods": lambda xp, x, y, i, m: (x.matmul(y), x.prod(), x.var(0), m.all(1)),
    "operators": lambda xp, x, y, i, m: (
        (x + y, x - 1, 2 * x, x / y, x // y, x % y, x**2, x @ y, 1 - x, 2**x),
        (i & 1, i | i, i ^ i, i << 1, i >> 1, ~i, -x, +x, abs(x), ~m, m & m),
        (x < y, x <= 1, x > y, x >= 1, x == y, x != 1),
        divmod(x, y),
    ),
    "arrays of ints": lambda xp, x, y, i, m: (x[i], x[:, i], x[[2, 0]], x[i, i]),
    "hf": lambda xp, x, y, i, m: (
        (x.broadcast_div(y), x.sum_keepdim(0), x.argmax_keepdim(1), x.max_keepdim(0)),
        (x.index_select(i, 0), x.gather(i[None], 0), m.where_cond(x, y), x.powf(2.0)),
        (x.sqr(), x.recip(), x.sum_all(), x.mean_all(), x.t()),
    ),
}
# What has as many elements as the values say: the host waits for them, in cupy too.
WAITING: dict[str, Callable[[Any, Any, Any, Any, Any], Any]] = {
    "nonzero": lambda xp, x, y, i, m: xp.nonzero(m),
    "unique_values": lambda xp, x, y, i, m: xp.unique_values(x),
    "unique_all": lambda xp, x, y, i, m: xp.unique_all(i),
    "mask": lambda xp, x, y, i, m: x[m],
    # array-api-compat's picks with masks.
    "clip": lambda xp, x, y, i, m: (xp.clip(x, 1, 3), xp.clip(x, max=y), x.clip(1, 2)),
}


def host() -> tuple[candle.Tensor, ...]:
    """The operands on the host."""
    a = np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]], "float32")
    arrays = (a, a[::-1].copy() + 0.5, np.array([2, 0, 1]), a > 0.5)
    return tuple(candle.asarray(array) for array in arrays)


def leaves(x: Any) -> list[Any]:
    """The tensors of a result."""
    return [leaf for item in x for leaf in leaves(item)] if isinstance(x, tuple | list) else [x]


def faults(
    driver: Driver,
    operands: Sequence[candle.Tensor],
    calls: dict[str, Any],
    waiting: Callable[[str], bool],
    watch: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> list[tuple[str, str]]:
    """Make calls with operands on a device and on the host; what is wrong, by the call's name.

    Parameters
    ----------
    driver
    operands
        Those of `host`, on a device.
    calls
    waiting
        Whether the host has to wait, by the call's name.
    watch
        Goes around the call on the device; what it gives tells of faults: ``faults(name)``.
    """
    xp = candle.zeros(1).__array_namespace__()
    wrong: list[tuple[str, str]] = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in calls.items():
            want = leaves(call(xp, *host()))
            driver.trace()
            before = driver.counters()
            with candle.strict(), watch() as watched:
                found = leaves(call(xp, *operands))
            if watched is not None:
                wrong += [(name, fault) for fault in watched.faults(name)]
            after = driver.counters()
            called = {c.name for c in driver.trace()}
            waited = after.host_syncs - before.host_syncs
            if bool(waited) is not waiting(name):
                wrong.append((name, f"the host waited {waited} times"))
            if any("DtoH" in function for function in called):
                wrong.append((name, f"came back to the host: {called}"))
            for got, expected in zip(found, want, strict=True):
                if type(got) is not candle.Tensor or got.device != operands[0].device:
                    wrong.append((name, repr(got)))
                    continue
                back = got.to("cpu")
                if back.dtype != expected.dtype or back.shape != expected.shape:
                    wrong.append((name, f"{back!r} instead of {expected!r}"))
                elif not np.allclose(back.numpy(), expected.numpy(), 1e-4, 1e-6, equal_nan=True):
                    wrong.append((name, f"{back} instead of {expected}"))
    return wrong
