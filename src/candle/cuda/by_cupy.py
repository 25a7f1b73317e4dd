"""Copies made by cupy."""

from __future__ import annotations

from .._native import _core

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

    def devices(self) -> int:
        """Say how many devices there are."""
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())

    def on(self, device: int, stream: int) -> AbstractContextManager[object]:
        """Make a device and a stream current."""
        from contextlib import ExitStack

        import cupy

        both = ExitStack()
        both.enter_context(cupy.cuda.Device(device))
        if stream == 1:
            both.enter_context(cupy.cuda.Stream.null)
        elif stream:
            both.enter_context(cupy.cuda.ExternalStream(stream))
        return both

    def knows(self, dtype: DType) -> bool:
        """Say whether cupy casts from and to a dtype."""
        return str(dtype) in _DTYPES

    def empty(self, nbytes: int) -> Any:
        """Give bytes that are not set."""
        import cupy

        return cupy.empty(nbytes, "uint8")

    def copy(self, t: Tensor, dtype: DType | None, turned: tuple[int, ...]) -> Any:
        """Give a fresh row-major array."""
        x = _array(t)
        if turned:
            x = x[tuple(slice(None, None, -1 if i in turned else 1) for i in range(t.ndim))]
        return x.astype(x.dtype if dtype is None else str(dtype), order="C", copy=True)

    def write(self, dst: Tensor, src: Tensor) -> None:
        """Copy a tensor into another."""
        _array(dst)[...] = _array(src)

    def across(self, data: Tensor) -> Any:
        """Give bytes on the current device."""
        import cupy

        if data.device.type != "cuda":
            return cupy.asarray(data.numpy())  # by way of pinned memory, and does not wait
        here = cupy.empty(data.shape, "uint8")
        now = cupy.cuda.get_current_stream()
        there = _array(data)
        with there.device:  # whose current stream the bytes are ready on, and freed on
            source = cupy.cuda.get_current_stream()
            written = source.record()
        now.wait_event(written)
        here.data.copy_from_device_async(there.data, data.nbytes)
        read = now.record()
        with there.device:
            source.wait_event(read)
        return here

    def to_host(self, data: Tensor) -> Any:
        """Give bytes on the host."""
        import cupyx

        out = cupyx.empty_pinned(data.shape, "uint8")
        return _array(data).get(out=out, blocking=True)


class _Lent:
    """What cupy is given: capsules of the memory as it is, never of a copy."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, *, stream: int | None = None, **_unused: object) -> object:
        return _core.legacy_capsule(self._tensor, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.device.dlpack


def _array(t: Tensor) -> Any:
    import cupy

    return cupy.from_dlpack(_Lent(t))


def provider() -> Cupy | None:
    """Give the provider, if cupy finds a device."""
    import cupy

    return Cupy() if cupy.is_available() else None
