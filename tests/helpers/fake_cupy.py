"""A stand-in for cupy on the fake CUDA driver, as far as an exchange of arrays needs one.

`install()` puts it into ``sys.modules`` as ``cupy``, ``cupy.cuda`` and ``cupyx``: for child
processes. Real cupy cannot run on the fake driver: its CUDA runtime is built in and wants tables of
the driver that nothing documents.

As cupy's: what `__dlpack__` and `from_dlpack` do with streams and devices, the current stream per
thread and device, memory from a stream-ordered pool, kernels that are queued and late, handles that
die with their `Stream`; functions as `fake_cupy_functions` says. Not here: dtypes that numpy lacks.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import sys
import threading
import types
import warnings
from typing import TYPE_CHECKING, Any

import fake_cupy_functions
import fake_driver
import numpy as np
import races
from owned_capsules import owned_capsule

from candle.testing.capsules import take
from candle.testing.producers import compact_strides

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

_KINDS = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}
_CODES = {code: kind for kind, code in _KINDS.items()}
CUDA, CUDA_HOST, MANAGED = 2, 3, 13


class _Local(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


_local = _Local()


def _driver() -> Driver:
    return fake_driver.loaded()


class Device:
    """A device, current within a block."""

    def __init__(self, device: int | None = None) -> None:
        self.id = max(_driver().device, 0) if device is None else int(device)
        self._before: list[int] = []

    def use(self) -> None:
        if not 0 <= self.id < _driver().device_count:
            raise RuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        _driver().device = self.id

    def __enter__(self) -> Device:
        before = Device().id
        self.use()
        self._before.append(before)
        return self

    def __exit__(self, *error: object) -> None:
        _driver().device = self._before.pop()

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    @property
    def compute_capability(self) -> str:
        return "90"

    def synchronize(self) -> None:
        with self:
            _driver().call("cuCtxSynchronize")


class _BaseStream:
    ptr: int
    device_id: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.ptr)

    def use(self) -> _BaseStream:
        _local.streams[Device().id] = self
        return self

    def __enter__(self) -> _BaseStream:
        device = Device().id
        self._before = getattr(self, "_before", [])
        self._before.append((device, get_current_stream(device)))
        return self.use()

    def __exit__(self, *error: object) -> None:
        device, stream = self._before.pop()
        _local.streams[device] = stream

    def synchronize(self) -> None:
        _call("cuStreamSynchronize", self.ptr)

    def record(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        _call("cuStreamWaitEvent", self.ptr, event.ptr, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BaseStream) and other.ptr == self.ptr

    def __hash__(self) -> int:
        return hash(self.ptr)


class Stream(_BaseStream):
    """A stream; its handle dies with it, as cupy's does."""

    null: _BaseStream
    ptds: _BaseStream

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.device_id = Device().id
        self._owned = not (null or ptds)
        with Device(self.device_id):
            self.ptr = (
                _call("cuStreamCreate", int(non_blocking))
                if self._owned
                else fake_driver.PER_THREAD
                if ptds
                else 0
            )

    def __del__(self) -> None:
        if getattr(self, "_owned", False):
            _driver().destroy_stream(self.ptr)


class ExternalStream(_BaseStream):
    """Somebody's stream."""

    def __init__(self, ptr: int, device_id: int = -1) -> None:
        self.ptr, self.device_id = ptr, device_id


class Event:
    """An event of the current device."""

    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.ptr = _call("cuEventCreate", 2)

    def record(self, stream: _BaseStream | None = None) -> None:
        stream = get_current_stream() if stream is None else stream
        _call("cuEventRecord", self.ptr, stream.ptr)

    def synchronize(self) -> None:
        _call("cuEventSynchronize", self.ptr)

    def __del__(self) -> None:
        _call("cuEventDestroy_v2", self.ptr)


def _call(name: str, *arguments: Any) -> Any:
    with Device():  # the first use of cupy makes a device current
        return _driver().call(name, *arguments)


def get_current_stream(device_id: int | None = None) -> _BaseStream:
    index = Device().id if device_id is None else device_id
    return _local.streams.get(index, Stream.null)


def _launch(kernel: Callable[[], object]) -> None:
    device = Device().id
    _driver().launch(get_current_stream().ptr, kernel, delay_us=0, device=device)


class MemoryPointer:
    """Memory on a device. It goes back to the pool of the stream it came from."""

    def __init__(self, ptr: int, size: int, device: int, owner: object = None) -> None:
        self.ptr, self.size, self.device_id, self.owner = ptr, size, device, owner

    def copy_from_device_async(self, source: MemoryPointer, size: int) -> None:
        _call("cuMemcpyAsync", self.ptr, source.ptr, size, get_current_stream().ptr)


class _Pooled:
    def __init__(self, size: int) -> None:
        self.device, self.stream = Device().id, get_current_stream()
        self.ptr = _call("cuMemAllocAsync", max(size, 1), self.stream.ptr)

    def __del__(self) -> None:
        with Device(self.device):
            _driver().call("cuMemFreeAsync", self.ptr, self.stream.ptr)


class ndarray:
    """An array on a device."""

    __module__ = "cupy"

    def __init__(
        self,
        shape: Any,
        dtype: Any = float,
        memptr: MemoryPointer | None = None,
        strides: Any = None,
        order: str = "C",
    ) -> None:
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype, self.ndim = np.dtype(dtype), len(self.shape)
        self.itemsize, self.size = self.dtype.itemsize, math.prod(self.shape)
        self.nbytes = self.size * self.itemsize
        self.strides = self._compact(order) if strides is None else tuple(strides)
        if memptr is None:
            owner = _Pooled(self.nbytes)
            memptr = MemoryPointer(owner.ptr, self.nbytes, owner.device, owner)
        self.data = memptr

    def _compact(self, order: str) -> tuple[int, ...]:
        if order == "F":
            return tuple(self.itemsize * step for step in compact_strides(self.shape[::-1])[::-1])
        return tuple(self.itemsize * step for step in compact_strides(self.shape))

    @property
    def device(self) -> Device:
        return Device(self.data.device_id)

    def _bytes(self) -> Any:
        """What kernels see, as numpy's array."""
        if self.size == 0:
            return np.empty(self.shape, self.dtype)
        steps = [(n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)]
        low = sum(step for step in steps if step < 0)
        reach = sum(abs(step) for step in steps) + self.itemsize
        view = _driver().view(self.data.ptr + low, reach)
        return np.ndarray(self.shape, self.dtype, view, -low, self.strides)

    # Exchange

    def __dlpack_device__(self) -> tuple[int, int]:
        kind = getattr(self.data.owner, "device_type", CUDA)
        return (kind, self.data.device_id)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the stand-in for cupy exports to the array's own device")
        array = self.copy() if copy else self
        # The current stream of the current device, whichever the array's is.
        if stream is None:
            stream = 1
        if stream == 0:
            warnings.warn("Stream 0 is ambiguous", RuntimeWarning, stacklevel=2)
            stream = 1
        current = get_current_stream()
        if stream not in (-1, current.ptr or 1):
            ExternalStream(stream).wait_event(current.record())
        keep = [array]
        return owned_capsule(
            array.data.ptr,
            keep.clear,
            shape=array.shape,
            strides=[step // array.itemsize for step in array.strides],
            dtype=(_KINDS[array.dtype.kind], 8 * array.itemsize),
            device=array.__dlpack_device__(),
            versioned=max_version is not None and max_version[0] >= 1,
            flags=2 if copy else 0,
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "stream": get_current_stream().ptr or 1,
            "version": 3,
            "strides": None if self.strides == self._compact("C") else self.strides,
            "data": (self.data.ptr if self.size else 0, False),
        }

    # Work

    def astype(self, dtype: Any, order: str = "K", copy: bool = True) -> ndarray:
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        out = ndarray(self.shape, dtype, order="F" if order == "F" else "C")
        out[...] = self
        return out

    def copy(self, order: str = "C") -> ndarray:
        return self.astype(self.dtype, order)

    def __setitem__(self, key: Any, value: Any) -> None:
        def kernel() -> None:
            keys = tuple(map(_seen, key)) if isinstance(key, tuple) else _seen(key)
            self._bytes()[keys] = _seen(value)

        _launch(kernel)

    def fill(self, value: Any) -> None:
        self[...] = value

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> ndarray:
        # Of an array that nobody reads, for numpy's rules.
        whole = np.lib.stride_tricks.as_strided(
            np.empty(1, self.dtype), self.shape, self.strides, writeable=False
        )
        part = whole[key] if isinstance(key, tuple) else whole[key, ...]
        offset = part.ctypes.data - whole.ctypes.data if part.size else 0
        memory = MemoryPointer(self.data.ptr + offset, part.nbytes, self.data.device_id, self)
        return ndarray(part.shape, self.dtype, memory, part.strides)

    @property
    def T(self) -> ndarray:
        return ndarray(self.shape[::-1], self.dtype, self.data, self.strides[::-1])

    def set(self, values: Any, stream: _BaseStream | None = None) -> None:
        """The values are read at once, as those of pageable memory are."""
        values = np.array(values, self.dtype)
        with get_current_stream() if stream is None else stream:
            self[...] = values

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> Any:
        out = np.empty(self.shape, self.dtype, order) if out is None else out
        with self.device, get_current_stream() if stream is None else stream:
            _launch(lambda: np.copyto(out, self._bytes()))
            if blocking:
                get_current_stream().synchronize()
        return out


def _seen(x: Any) -> Any:
    return x._bytes() if isinstance(x, ndarray) else x


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return ndarray(shape, dtype, order=order)


def asarray(values: Any, dtype: Any = None) -> ndarray:
    """Of an array on the host, or one of cupy's."""
    if isinstance(values, ndarray):
        return values if dtype is None else values.astype(dtype, copy=False)
    values = np.asarray(values, dtype)
    out = empty(values.shape, values.dtype)
    out.set(values)
    return out


def asnumpy(array: ndarray) -> Any:
    return array.get()


class _Foreign:
    """Somebody's struct, deleted with the last array over it."""

    def __init__(self, capsule: object) -> None:
        self.taken = take(capsule)
        self.device_type, self.device_id = self.taken.info.device

    def __del__(self) -> None:
        self.taken.release()


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> ndarray:
    """As cupy's: it passes the current stream of the array's device, with that current."""
    kind, index = x.__dlpack_device__()
    if kind not in (CUDA, MANAGED):
        raise TypeError("Only CUDA arrays are supported. Got device type %d" % kind)  # noqa: UP031
    with Device(index):
        stream = get_current_stream().ptr or 1
        try:
            capsule = x.__dlpack__(stream=stream, max_version=(1, 0), copy=copy)
        except TypeError:
            capsule = x.__dlpack__(stream=stream)
        owner = _Foreign(capsule)
    fields = owner.taken.info
    code, bits, lanes = fields.dtype
    if code not in _CODES or lanes != 1:
        raise TypeError(f"dtype not supported: {fields.dtype}")
    dtype = np.dtype("?" if code == 6 else f"{_CODES[code]}{bits // 8}")
    strides = None if fields.strides is None else [step * bits // 8 for step in fields.strides]
    shape = fields.shape or ()
    size = math.prod(shape) * dtype.itemsize
    return ndarray(shape, dtype, MemoryPointer(fields.address, size, index, owner), strides)


class _Pinned:
    def __init__(self, size: int) -> None:
        self.ptr = _call("cuMemHostAlloc", max(size, 1), 0)
        self.free = _driver().free

    def __del__(self) -> None:
        self.free(self.ptr)


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    """An array of numpy's over pinned memory."""
    model = np.empty(shape, dtype, order)
    owner = _Pinned(model.nbytes)
    block = (ctypes.c_ubyte * max(model.nbytes, 1)).from_address(owner.ptr)
    block.owner = owner
    return np.ndarray(model.shape, model.dtype, block, 0, model.strides)


def is_available() -> bool:
    return _driver().device_count > 0


class CupyFramework:
    """cupy as a producer of the cases in `races`."""

    def __init__(self, device: int = 0) -> None:
        self.device = device

    @contextlib.contextmanager
    def stream(self, handle: int) -> Any:
        with Device(self.device), ExternalStream(handle):
            yield

    def current(self) -> int:
        return get_current_stream(self.device).ptr

    def array(self) -> ndarray:
        with Device(self.device):
            return empty(races.N, "float32")

    def address(self, x: ndarray) -> int:
        return x.data.ptr


def _module(name: str) -> Any:
    return types.ModuleType(name)


def install() -> Any:
    """Put it into ``sys.modules``; returns the module that is ``cupy`` now."""
    if "cupy" not in sys.modules:
        fake_driver.load()
        Stream.null, Stream.ptds = Stream(null=True), Stream(ptds=True)
        cupy, cuda, cupyx = (_module(name) for name in ("cupy", "cupy.cuda", "cupyx"))
        for name in (Device, Stream, ExternalStream, Event, MemoryPointer, get_current_stream):
            setattr(cuda, name.__name__, name)
        cuda.is_available = is_available
        cuda.runtime = _module("cupy.cuda.runtime")
        cuda.runtime.getDeviceCount = lambda: _driver().device_count
        for name in (ndarray, empty, asarray, asnumpy, from_dlpack, is_available):
            setattr(cupy, name.__name__, name)
        cupy.array, cupy.cuda, cupy.__version__ = asarray, cuda, "14.2.0"
        fake_cupy_functions.add_to(cupy, sys.modules[__name__])
        cupyx.empty_pinned = empty_pinned
        cuda.device = _module("cupy.cuda.device")
        cuda.device.Device = Device
        sys.modules |= {"cupy": cupy, "cupy.cuda": cuda, "cupyx": cupyx}
        sys.modules["cupy.cuda.device"] = cuda.device
        sys.modules |= {"cupy.linalg": cupy.linalg, "cupy.fft": cupy.fft}
    return sys.modules["cupy"]
