"""The Python Array API standard (2025.12) on tensors.

Every function computes in the library that the memory is with: numpy on the host, cupy or torch on
CUDA devices, over shared memory; and gives Tensors that share the result. Creation functions,
dtypes, casts and their rules are candle's own: Python's numbers become bool, int64, float32 and
complex64, which `__array_namespace_info__().default_dtypes()` says.
"""

from __future__ import annotations

from ..creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from ..dtypes import (
    bool,  # noqa: A004  (the standard's name)
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from . import delegated as _delegated
from . import fft, linalg
from .casting import astype, finfo, iinfo, isdtype
from .info import Info, __array_namespace_info__

__array_api_version__ = "2025.12"

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

globals().update(_delegated.functions(""))

__all__ = sorted(
    name for name in globals() if name[0] != "_" and name not in {"annotations", "Info"}
)
