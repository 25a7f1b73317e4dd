"""The functions of the standard that the engines have: one table, and how each is called."""

from __future__ import annotations

from functools import wraps
from importlib import import_module

from ..engines import engine_for, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["TABLE", "functions"]

# Part of the namespace -> its functions, as the chapters of the standard list them.
TABLE = {
    "": """
        abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert
        bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp
        expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less
        less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor
        maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
        round sign signbit sin sinh square sqrt subtract tan tanh trunc

        take take_along_axis

        matmul matrix_transpose tensordot vecdot

        broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis permute_dims
        repeat reshape roll squeeze stack tile unstack

        argmax argmin count_nonzero nonzero searchsorted where
        isin unique_all unique_counts unique_inverse unique_values
        argsort sort
        cumulative_sum cumulative_prod max mean min prod std sum var
        all any diff

        result_type can_cast
    """,
    "linalg": """
        cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank
        matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
    """,
    "fft": """
        fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftshift ifftshift
    """,
}


def functions(part: str) -> dict[str, Callable[..., Any]]:
    """Make the functions of one part of the namespace."""
    return {name: _function(part, name) for name in TABLE[part].split()}


def _function(part: str, name: str) -> Callable[..., Any]:
    module = host.namespace if not part else import_module(f"{host.namespace.__name__}.{part}")
    model = getattr(module, name)

    @wraps(model)
    def function(*arguments: Any, **keywords: Any) -> Any:
        engine = engine_for(arguments, tuple(keywords.values()))
        if engine is host:
            delegate = model
        else:
            theirs = getattr(engine.namespace, part) if part else engine.namespace
            delegate = getattr(theirs, name)
        keywords = {key: engine.unwrapped(value) for key, value in keywords.items()}
        return engine.wrapped(delegate(*engine.unwrapped(list(arguments)), **keywords))

    shown = f"candle.array_api.{part}.{name}" if part else f"candle.array_api.{name}"
    function.__module__ = shown.rpartition(".")[0]
    function.__qualname__ = name
    function.__doc__ = (
        f"Do what the Python Array API standard says of `{part + '.' if part else ''}{name}`, in "
        "the library that the memory is with.\n\nThe arguments are shared with it, and the result "
        "with what it gives."
    )
    return function
