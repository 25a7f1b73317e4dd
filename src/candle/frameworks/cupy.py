"""cupy: its arrays come by `__dlpack__`, ordered by candle with cupy's current stream."""

from __future__ import annotations

import sys

from .._native import _core
from .record import Record
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["current_stream", "demand", "examples", "record", "target"]

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


def demand() -> _core.Demand:
    """Say what cupy takes of memory on CUDA devices."""
    return _core.Demand(
        "cupy", dtypes=_DTYPES, negative_strides=False, host_only=False, route="dlpack_versioned"
    )


def current_stream(index: int) -> object:
    """Give cupy's current stream of a device, an object that holds its handle."""
    stream = sys.modules["cupy"].cuda.get_current_stream(index)
    return stream if hasattr(stream, "__cuda_stream__") else _Stream(stream)


def _guard(index: int) -> object:
    """Make a device current: cupy asks the current one for its stream, not the array's."""
    return sys.modules["cupy"].cuda.Device(index)


def record(cls: type, base: type) -> Record | None:
    """Arrays of cupy, and of subclasses."""
    if base.__name__ != "ndarray" or "cupy" not in sys.modules:
        return None
    return Record("plain", work_stream=current_stream, device_guard=_guard)


def _give(t: Tensor, copy: bool | None) -> Any:
    """Make an array of memory on a device: of the current one, where the tensor is on the host."""
    cupy = sys.modules["cupy"]
    if t.device.type != "cuda":
        t = _core.from_dlpack(t, device=f"cuda:{cupy.cuda.Device().id}", copy=copy)
    elif copy:
        t = _core.materialise(t)
    return cupy.from_dlpack(t)


def _share(t: Tensor) -> Any:
    return _give(t, False)


def target() -> Target:
    """Import cupy, whose arrays are on devices."""
    import cupy

    return Target("cupy", types=(cupy.ndarray,), give=_give, share=_share)


def examples() -> dict[str, Any]:
    """Make an array on the current device."""
    import cupy

    return {"cupy": cupy.zeros((4, 6), "float32")}
