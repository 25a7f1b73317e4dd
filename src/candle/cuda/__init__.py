"""CUDA devices: who copies there, and on which stream.

candle has no kernels. It shares device memory itself and orders streams itself; copies between and
on devices are made by cupy or torch, whichever is there (`candle.cuda.provider`).
"""

from __future__ import annotations

from .._native import _core
from .copying import copy, empty, write
from .provider import is_available
from .streams import work_stream

__all__ = ["copy", "empty", "is_available", "work_stream", "write"]

_core.register(device_copy=copy, device_empty=empty, device_write=write, work_stream=work_stream)
