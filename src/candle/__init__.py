"""candle: where the tensors of every framework meet.

A `Tensor` borrows anybody's memory, or owns its own, and hands it on to anybody else without a
copy; where memory cannot be shared it copies, and says why.
"""

# Some modules are imported to attach or to register.
# pyright: reportUnusedImport=false

from __future__ import annotations

from . import advanced_indexing as _advanced_indexing  # noqa: F401  (registers what the core asks)
from . import cuda as _cuda  # noqa: F401  (registers who copies on devices)
from . import frameworks as _frameworks  # noqa: F401  (registers what the core asks)
from . import hf as _hf  # noqa: F401  (so that candle.hf is there)
from . import hf_methods as _hf_methods  # noqa: F401  (attached to Tensor)
from . import ledger as _ledger  # noqa: F401  (so that candle.ledger is there)
from . import neighbours as _neighbours
from . import numpy_protocols as _numpy_protocols  # noqa: F401  (attached to Tensor)
from . import operators as _operators  # noqa: F401  (attached to Tensor)
from . import reductions as _reductions  # noqa: F401  (attached to Tensor)
from . import utils as _utils  # noqa: F401  (so that candle.utils is there)
from .accepting import accepts
from .codes import ReasonCode
from .convert import convert
from .creation import (
    asarray,
    empty,
    empty_like,
    from_arrow,
    from_dlpack,
    full,
    full_like,
    ones,
    ones_like,
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
from .explain import explain
from .forbidding import strict
from .io import load_npy, load_npz, load_safetensors, safetensors_metadata, save_safetensors
from .joining import cat, stack
from .memory import owner, shares_memory
from .patterns import arange, eye, linspace, meshgrid, tril, triu
from .plan import CopyError, Plan, ReadOnlyCopyWarning, Reason
from .sampling import rand, randn
from .sharing import Shared, share
from .tensor import Tensor
from .threads import get_num_threads, set_num_threads
from .tracing import trace

from .creation import tensor  # isort: skip  (after the module of that name)

_neighbours.warn(__path__[0])

__all__ = [
    "CopyError",
    "DType",
    "Device",
    "Plan",
    "ReadOnlyCopyWarning",
    "Reason",
    "ReasonCode",
    "Shared",
    "Tensor",
    "accepts",
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
    "convert",
    "empty",
    "empty_like",
    "explain",
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
    "from_arrow",
    "from_dlpack",
    "full",
    "full_like",
    "get_num_threads",
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
    "load_npy",
    "load_npz",
    "load_safetensors",
    "meshgrid",
    "ones",
    "ones_like",
    "owner",
    "rand",
    "randn",
    "safetensors_metadata",
    "save_safetensors",
    "set_num_threads",
    "share",
    "shares_memory",
    "stack",
    "strict",
    "tensor",
    "trace",
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

__version__ = "0.1.0"
