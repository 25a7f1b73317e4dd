"""Arrays and consumers made of the real cuda.core, on the fake driver.

cuda.core has streams and buffers and no arrays. `CoreArray` is one over a buffer, with the CUDA
array interface of version 3; the buffer's own `__dlpack__` gives bytes and ignores `stream`.
`view` is cuda.core as a consumer: it orders by events, its own.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import fake_driver
import races

if TYPE_CHECKING:
    from collections.abc import Iterator


class CoreArray:
    """Float32 elements in a buffer, whose pending work is on `framework`'s current stream."""

    def __init__(self, framework: CoreFramework, count: int) -> None:
        device = framework.core_device()
        self.framework, self.count = framework, count
        self.buffer = device.allocate(4 * count, stream=device.default_stream)
        self.asked = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self.asked += 1
        return {
            "shape": (self.count,),
            "typestr": "<f4",
            "data": (int(self.buffer.handle), False),
            "strides": None,
            "stream": self.framework.current(),
            "version": 3,
        }


class CoreFramework:
    """What is written with cuda.core, as a producer of the cases in `races`."""

    def __init__(self, device: int = 0) -> None:
        fake_driver.loaded()
        self.device = device
        self.local = threading.local()

    def core_device(self) -> Any:
        """cuda.core's device, made current on this thread as it wants."""
        from cuda.core import Device

        device = Device(self.device)
        device.set_current()
        return device

    def current(self) -> int:
        stream: int = getattr(self.local, "stream", fake_driver.LEGACY)
        return stream

    @contextlib.contextmanager
    def stream(self, handle: int) -> Iterator[None]:
        before, self.local.stream = self.current(), handle
        try:
            yield
        finally:
            self.local.stream = before

    def array(self) -> CoreArray:
        return CoreArray(self, races.N)

    def address(self, x: CoreArray) -> int:
        return int(x.buffer.handle)


def make_stream(device: int = 0) -> Any:
    """A non-blocking stream of cuda.core."""
    from cuda.core import Device, StreamOptions

    core = Device(device)
    core.set_current()
    return core.create_stream(options=StreamOptions(nonblocking=True))


def view(x: Any, stream: int, device: int = 0) -> Any:
    """A `StridedMemoryView` for work on a stream; the producer's is waited for there."""
    from cuda.core import Device
    from cuda.core.utils import StridedMemoryView

    Device(device).set_current()
    if hasattr(x, "__dlpack__"):
        return StridedMemoryView.from_dlpack(x, stream_ptr=stream)
    return StridedMemoryView.from_cuda_array_interface(x, stream_ptr=stream)
