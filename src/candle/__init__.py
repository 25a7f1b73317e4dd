"""candle: where the tensors of every framework meet.

A `Tensor` borrows anybody's memory, or owns its own, and hands it on to anybody else without a
copy; where memory cannot be shared it copies, and says why.
"""

from __future__ import annotations

from . import frameworks as _frameworks  # noqa: F401  (registers what the core asks)
from .creation import (
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
from .devices import Device
from .dtypes import (
    DType,
    as_dtype,
    bf16,
    bfloat16,
    bool,
    complex32,
    complex64,
    complex128,
    f8e4m3,
    f16,
    f32,
    f64,
    float4_e2m1fn,
    float4_e2m1fn_x2,
    float6_e2m3fn,
    float6_e3m2fn,
    float8_e3m4,
    float8_e4m3,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    i8,
    i16,
    i32,
    i64,
    int4,
    int8,
    int16,
    int32,
    int64,
    u8,
    u16,
    u32,
    u64,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .joining import cat, stack
from .plan import CopyError, Plan, Reason
from .tensor import Tensor

from .creation import tensor  # isort: skip  (after the module of that name)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .frameworks.torch import ReadOnlyCopyWarning
    from .sampling import rand, randn

__all__ = [
    "CopyError",
    "DType",
    "Device",
    "Plan",
    "ReadOnlyCopyWarning",
    "Reason",
    "Tensor",
    "arange",
    "as_dtype",
    "asarray",
    "bf16",
    "bfloat16",
    "bool",
    "cat",
    "complex32",
    "complex64",
    "complex128",
    "empty",
    "empty_like",
    "eye",
    "f8e4m3",
    "f16",
    "f32",
    "f64",
    "float4_e2m1fn",
    "float4_e2m1fn_x2",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "full",
    "full_like",
    "i8",
    "i16",
    "i32",
    "i64",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "rand",
    "randn",
    "stack",
    "tensor",
    "tril",
    "triu",
    "u8",
    "u16",
    "u32",
    "u64",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "zeros",
    "zeros_like",
]

# Names that are loaded when first used.
_LATE = {"ReadOnlyCopyWarning": "frameworks.torch", "rand": "sampling", "randn": "sampling"}

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
