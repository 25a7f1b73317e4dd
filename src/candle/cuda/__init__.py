"""CUDA devices: who copies there.

candle has no kernels. It shares device memory itself and orders streams itself; copies between and
on devices are made by cupy or torch, whichever is there (`candle.cuda.provider`).
"""

from __future__ import annotations

from .._native import _core
from .copying import copy, empty, write
from .provider import is_available

__all__ = ["copy", "empty", "is_available", "write"]

_core.register(device_copy=copy, device_empty=empty, device_write=write)
