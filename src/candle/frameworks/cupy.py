"""cupy: its arrays come by `__dlpack__`, ordered by candle with cupy's current stream."""

from __future__ import annotations

import sys

from .._native import _core
from ..ledger import refuse
from .record import Record
from .target import Target, demands_of_writers, tell_read_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = [
    "DEVICE",
    "current_stream",
    "demand",
    "dtype_for",
    "examples",
    "give",
    "record",
    "target",
    "work_stream",
]

# Where it takes the host's tensors: it has no others.
DEVICE = "cuda"

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


class _Stream:
    """A stream of a cupy that does not yet know the protocol; its handle dies with it."""

    __slots__ = ("stream",)

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.stream.ptr)


_demand, _on_your_word = demands_of_writers("cupy", dtypes=_DTYPES, route="dlpack_versioned")


def demand() -> _core.Demand:
    """Say what cupy takes of memory on CUDA devices."""
    return _demand


def current_stream(index: int) -> object:
    """Give cupy's current stream of a device, an object that holds its handle."""
    stream = sys.modules["cupy"].cuda.get_current_stream(index)
    return stream if hasattr(stream, "__cuda_stream__") else _Stream(stream)


def work_stream(index: int) -> object:
    """Give cupy's current stream of a device where cupy is loaded."""
    return current_stream(index) if "cupy" in sys.modules else None


def _guard(index: int) -> AbstractContextManager[object]:
    """Make a device current: cupy asks the current one for its stream, not the array's."""
    guard: AbstractContextManager[object] = sys.modules["cupy"].cuda.Device(index)
    return guard


def record(cls: type, base: type) -> Record | None:
    """Arrays of cupy, and of subclasses."""
    if base.__name__ != "ndarray" or "cupy" not in sys.modules:
        return None
    return Record("plain", work_stream=current_stream, device_guard=_guard)


def dtype_for(dtype: DType) -> object:
    """Give cupy's dtype, which is numpy's, for one of candle's."""
    if dtype.name not in _DTYPES:
        refuse("candle", "dtype_unknown", f"cupy has no {dtype}", "candle", "cupy")
    return sys.modules["cupy"].dtype(dtype.typestr)


def give(t: Tensor, copy: bool | None) -> Any:
    """Make an array of memory on a device: of the current one, where the tensor is on the host."""
    import cupy

    if t.device.on_host and str(t.dtype) in _DTYPES:
        t = _core.from_dlpack(t, device=f"cuda:{cupy.cuda.Device().id}", copy=copy)
        copy = None
    fit = _core.conform(t, _demand if copy is None else _on_your_word, copy)
    if t.readonly and copy is None:
        tell_read_only("cupy")
    try:
        return _core.quietly(cupy.from_dlpack, fit)
    except (RuntimeError, TypeError) as error:
        raise BufferError(f"cupy does not take memory on {t.device}: {error}") from error


def _share(t: Tensor) -> Any:
    if t.readonly:
        return _core.conform(t, _demand, False)  # a CopyError
    return give(t, False)


def _tell_read_only() -> None:
    tell_read_only("cupy")


def target() -> Target:
    """Import cupy, whose arrays are on devices."""
    import cupy

    return Target(
        "cupy",
        types=(cupy.ndarray,),
        give=give,
        share=_share,
        demand=_demand,
        tell=_tell_read_only,
        guard=_guard,
    )


def examples() -> dict[str, Any]:
    """Make an array on the current device."""
    import cupy

    return {"cupy": cupy.zeros((4, 6), "float32")}
