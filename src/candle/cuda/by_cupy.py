"""Copies made by cupy."""

from __future__ import annotations

from contextlib import ExitStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = ["Cupy", "provider"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


class Cupy:
    """A Provider."""

    def on(self, device: int, stream: int) -> AbstractContextManager[object]:
        """Make a device and a stream current."""
        import cupy

        both = ExitStack()
        both.enter_context(cupy.cuda.Device(device))
        if stream == 1:
            both.enter_context(cupy.cuda.Stream.null)
        elif stream:
            both.enter_context(cupy.cuda.ExternalStream(stream))
        return both

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Give an array whose elements are not set."""
        import cupy

        return cupy.empty(shape, _dtype(dtype))

    def copy(self, t: Tensor, dtype: DType) -> Any:
        """Give a fresh row-major array."""
        import cupy

        _dtype(t.dtype)
        return cupy.from_dlpack(t).astype(_dtype(dtype), order="C", copy=True)

    def write(self, dst: Tensor, src: Tensor) -> None:
        """Copy a tensor into another."""
        import cupy

        _dtype(src.dtype), _dtype(dst.dtype)
        cupy.from_dlpack(dst)[...] = cupy.from_dlpack(src)

    def across(self, data: Tensor) -> Any:
        """Give bytes on the current device."""
        import cupy

        here = cupy.empty(data.shape, "uint8")
        if data.device.type == "cuda":
            there = cupy.from_dlpack(data)
            here.data.copy_from_device_async(there.data, data.nbytes)
        else:
            here.set(data.numpy())
        return here

    def to_host(self, data: Tensor) -> Any:
        """Give bytes on the host."""
        import cupy
        import cupyx

        out = cupyx.empty_pinned(data.shape, "uint8")
        return cupy.from_dlpack(data).get(out=out, blocking=True)


def _dtype(dtype: DType) -> str:
    if str(dtype) not in _DTYPES:
        raise BufferError(
            f"cupy has no {dtype}; install torch with CUDA, or copy on the CPU: t.to('cpu')"
        )
    return str(dtype)


def provider() -> Cupy | None:
    """Give the provider, if cupy finds a device."""
    import cupy

    return Cupy() if cupy.is_available() else None
