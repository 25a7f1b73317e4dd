"""Consumers of device memory that ask the way the libraries do, and take what they take.

Each is called with an object and a `Runtime`, and returns what it got (`Taken`: release it, or use
`with`) or raises as the library would. What a consumer passes to ``__dlpack__`` is exactly what the
library passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from device_producers import (
    CPU,
    CUDA,
    CUDA_HOST,
    LEGACY,
    MANAGED,
    METAL,
    ONEAPI,
    ROCM,
    ROCM_HOST,
    Runtime,
)

from candle.testing import take
from candle.testing.producers import compact_strides

if TYPE_CHECKING:
    from candle.testing.capsules import Taken


class Consumer(Protocol):
    def __call__(self, x: Any, runtime: Runtime) -> Taken: ...


def _taken(capsule: object, kinds: set[int]) -> Taken:
    """Refuse before the capsule is consumed, as the libraries do."""
    from candle.testing import info

    kind = info(capsule).device[0]
    if kind not in kinds:
        raise BufferError(f"Unsupported device_type: {kind}")
    return take(capsule)


def torch_like(x: Any, runtime: Runtime) -> Taken:
    """torch 2.13: a stream for CUDA and ROCm alone; keywords are dropped one by one."""
    kind, index = x.__dlpack_device__()
    keywords: dict[str, Any] = {"max_version": (1, 0)}
    if kind in (CUDA, ROCM):
        stream = runtime.current(index)
        keywords["stream"] = 0 if kind == ROCM and stream == LEGACY else stream
    try:
        capsule = x.__dlpack__(**keywords)
    except TypeError:
        del keywords["max_version"]
        capsule = x.__dlpack__(**keywords)
    return _taken(capsule, {CPU, CUDA, ROCM, METAL})


def cupy_like(x: Any, runtime: Runtime) -> Taken:
    """cupy 14.2: the stream and the guard are those of the array's device."""
    kind, index = x.__dlpack_device__()
    if kind not in (CUDA, MANAGED):
        raise TypeError(f"Only CUDA arrays are supported, not device type {kind}")
    with runtime.on(index):
        stream = runtime.current(index)
        try:
            capsule = x.__dlpack__(stream=stream, max_version=(1, 0), copy=None)
        except TypeError:
            capsule = x.__dlpack__(stream=stream)
    return _taken(capsule, {CUDA, MANAGED})


JAX_STREAM = 0x1A000  # jax makes streams of its own for what comes from outside


def jax_like(x: Any, _runtime: Runtime) -> Taken:
    """jax 0.10: legacy capsules alone, of dense memory."""
    kind, _index = x.__dlpack_device__()
    if kind not in (CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST, ONEAPI):
        raise TypeError(f"Array passed to from_dlpack is on unsupported device type {kind}")
    host = kind in (CPU, CUDA_HOST, ROCM_HOST)
    capsule = x.__dlpack__(stream=None if host else JAX_STREAM)
    taken = take(capsule)
    fields = taken.info
    shape = fields.shape or ()
    dense = fields.strides is None or fields.strides == compact_strides(shape)
    if fields.version is not None or not dense:
        taken.release()
        raise BufferError("INVALID_ARGUMENT: a legacy capsule of dense memory is needed")
    return taken


def numpy_like(x: Any, _runtime: Runtime) -> Taken:
    """numpy 2.4: it reads managed memory with no wait at all."""
    capsule = x.__dlpack__(dl_device=None, copy=None, max_version=(1, 0))
    return _taken(capsule, {CPU, CUDA_HOST, MANAGED})


def warp_like(x: Any, runtime: Runtime) -> Taken:
    """warp: a stream for pinned memory too; never `max_version`."""
    kind, index = x.__dlpack_device__()
    if kind in (CUDA, CUDA_HOST, MANAGED):
        capsule = x.__dlpack__(stream=runtime.current(index))
    else:
        capsule = x.__dlpack__()
    return _taken(capsule, {CPU, CUDA, CUDA_HOST, MANAGED})


def paddle_like(x: Any, runtime: Runtime) -> Taken:
    """paddle 3.3: the stream of the array's device, which it never calls 0."""
    kind, index = x.__dlpack_device__()
    keywords: dict[str, Any] = {"max_version": (1, 2)}
    if kind == CUDA:
        keywords["stream"] = runtime.current(index) or LEGACY
    try:
        capsule = x.__dlpack__(**keywords)
    except TypeError:
        del keywords["max_version"]
        capsule = x.__dlpack__(**keywords)
    return _taken(capsule, {CPU, CUDA, CUDA_HOST})


def core_like(x: Any, runtime: Runtime, stream: int | None = LEGACY) -> Taken:
    """cuda.core: the caller says which stream, and has to where the memory is CUDA's."""
    kind, _index = x.__dlpack_device__()
    if kind not in (CPU, CUDA, CUDA_HOST, MANAGED):
        raise BufferError(f"device not supported: {kind}")
    if kind in (CUDA, MANAGED) and stream is None:
        raise BufferError("stream=None is ambiguous with the stream-ordered memory")
    passed = (stream or None) if kind in (CUDA, MANAGED) else None
    try:
        capsule = x.__dlpack__(stream=passed, max_version=(1, 0))
    except TypeError:
        capsule = x.__dlpack__(stream=passed)
    return _taken(capsule, {CPU, CUDA, CUDA_HOST, MANAGED})


def tvm_like(x: Any, _runtime: Runtime) -> Taken:
    """tvm-ffi's Python route: it never says a stream."""
    try:
        capsule = x.__dlpack__(max_version=(1, 1))
    except TypeError:
        capsule = x.__dlpack__()
    return take(capsule)


CONSUMERS: dict[str, Consumer] = {
    "torch": torch_like,
    "cupy": cupy_like,
    "jax": jax_like,
    "numpy": numpy_like,
    "warp": warp_like,
    "paddle": paddle_like,
    "cuda.core": core_like,
    "tvm-ffi": tvm_like,
}


def interface_blocking(x: Any, runtime: Runtime) -> dict[str, Any]:
    """numba's and cupy's way with the CUDA array interface: the host waits for its stream."""
    interface: dict[str, Any] = x.__cuda_array_interface__
    stream = interface.get("stream")
    if stream is not None:
        if stream == 0:
            raise ValueError("CAI: stream 0 is disallowed")
        runtime.waits.append(stream)
    return interface


def interface_ordering(x: Any, runtime: Runtime, stream: int) -> dict[str, Any]:
    """cuda.core's way: one stream waits for the other; -1 asks for none of it."""
    interface: dict[str, Any] = x.__cuda_array_interface__
    first = interface.get("stream")
    if first is not None and stream != -1:
        runtime.order(first, stream)
    return interface
