"""Give a torch that was built without CUDA devices of the fake driver.

`install()` is for a child process: there is no way back. After it torch's own protocol code runs as
on a GPU, and what it asks of CUDA reaches the driver.

Torch's own: the tensors, their storages, `__dlpack__`, `__dlpack_device__`, `from_dlpack`,
`__cuda_array_interface__`, the C exchange table's conversions, views, the dispatcher.

As torch's, in Python: streams that are current per thread and device, `ExternalStream`, events that
are made on first use, `device` and `stream` blocks, `record_stream` (noted in `recorded`, no more).
Factories, `copy_`, `fill_` and what is made of these (`to`, `contiguous`, `clone`, `cpu`, `cuda`)
allocate from the driver and queue kernels on the current stream.

Memory of the host is pinned where it is the driver's pinned memory. What `pin_memory=True` gives is
not.

Not as torch's: there is no caching allocator (memory is freed at once when the last reference and
the last kernel go), no arithmetic (`fake_torch_functions` adds it) and no printing of values.
`current_work_stream` of the C exchange table is compiled in: it gives NULL whatever stream is
current. `torch.version.cuda` is None, and CUDA graphs and `torch.accelerator` are left out.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import fake_driver
import races
import torch
from owned_capsules import owned_capsule
from torch.library import Library

from candle.testing.producers import compact_strides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fake_driver import Driver

GUARD = fake_driver.SOURCES.parent / "torch_guard"

_DTYPES = {
    torch.bool: (6, 8),
    **{getattr(torch, f"int{bits}"): (0, bits) for bits in (8, 16, 32, 64)},
    **{getattr(torch, f"uint{bits}"): (1, bits) for bits in (8, 16, 32, 64)},
    **{getattr(torch, f"float{bits}"): (2, bits) for bits in (16, 32, 64)},
    torch.bfloat16: (4, 16),
    torch.complex64: (5, 64),
    torch.complex128: (5, 128),
    torch.float8_e4m3fn: (10, 8),
    torch.float8_e5m2: (12, 8),
}

recorded: list[tuple[int, int]] = []
"""What `record_stream` was told: the address of a tensor's storage, and a stream's handle."""


class Called(NamedTuple):
    """An operation whose kernel was queued, or that gave Python a number.

    Attributes
    ----------
    name
        ``"aten.add.out"``.
    addresses
        Of the tensors that it read or wrote.
    stream
        The handle of the stream that it was queued on.
    """

    name: str
    addresses: frozenset[int]
    stream: int


called: list[Called] = []
"""In order. Views are not among them."""

crossed: list[str] = []
"""Copies between the host and a device, by torch: ``"to the host"``, ``"to the device"``."""


class _State:
    def __init__(self) -> None:
        self.driver: Driver = fake_driver.load()
        self.initialized = True
        self.local = threading.local()
        self.overrides: Library | None = None  # which go when it does

    @property
    def current(self) -> dict[int, Stream]:
        """This thread's current streams, by device."""
        if not hasattr(self.local, "streams"):
            self.local.streams = {}
        streams: dict[int, Stream] = self.local.streams
        return streams


_state: _State


def _index(device: Any = None) -> int:
    """A device's number, as torch takes devices."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return current_device() if index is None else index


def current_device() -> int:
    """As cudaGetDevice: 0 before there is a context."""
    return max(_state.driver.device, 0)


class Stream:
    """A stream of torch's pool: non-blocking, and never destroyed."""

    def __init__(self, device: Any = None, priority: int = 0, *, handle: int | None = None) -> None:
        self.device = torch.device("cuda", _index(device))
        self.priority = priority
        self.cuda_stream = _state.driver.stream(self.device.index) if handle is None else handle

    @property
    def device_index(self) -> int:
        return self.device.index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.device, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.cuda_stream)

    def __enter__(self) -> Stream:
        self._block = use_stream(self)
        self._block.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._block.__exit__(None, None, None)

    def wait_event(self, event: Event) -> None:
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def synchronize(self) -> None:
        with _state.driver.on(self.device.index):
            _state.driver.call("cuStreamSynchronize", self.cuda_stream)

    def query(self) -> bool:
        with _state.driver.on(self.device.index):
            return _is_over(lambda: _state.driver.call("cuStreamQuery", self.cuda_stream))


class ExternalStream(Stream):
    """Somebody's stream."""

    def __init__(self, stream_ptr: int, device: Any = None) -> None:
        super().__init__(device, handle=stream_ptr)


def _is_over(query: Callable[[], object]) -> bool:
    try:
        query()
    except fake_driver.DriverError as error:
        if error.code != 600:
            raise
        return False
    return True


class Event:
    """Made when it is first recorded, on the device of that stream."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.cuda_event = 0
        self.device: torch.device | None = None

    def record(self, stream: Stream | None = None) -> None:
        stream = current_stream() if stream is None else stream
        with _state.driver.on(stream.device.index):
            if self.device is None:
                self.device = stream.device
                self.cuda_event = _state.driver.call("cuEventCreate", 2)
            elif self.device != stream.device:
                raise RuntimeError(
                    f"Event device {self.device} does not match recording stream's device "
                    f"{stream.device}."
                )
            _state.driver.call("cuEventRecord", self.cuda_event, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        stream = current_stream() if stream is None else stream
        if self.device is not None:
            with _state.driver.on(stream.device.index):
                _state.driver.call("cuStreamWaitEvent", stream.cuda_stream, self.cuda_event, 0)

    def query(self) -> bool:
        return self.device is None or _is_over(
            lambda: _state.driver.call("cuEventQuery", self.cuda_event)
        )

    def synchronize(self) -> None:
        if self.device is not None:
            _state.driver.call("cuEventSynchronize", self.cuda_event)

    def __del__(self) -> None:
        if self.device is not None:
            _state.driver.call("cuEventDestroy_v2", self.cuda_event)


def default_stream(device: Any = None) -> Stream:
    """The legacy stream, whose handle is 0 for torch."""
    return Stream(device, handle=0)


def current_stream(device: Any = None) -> Stream:
    """This thread's stream for a device."""
    index = _index(device)
    return _state.current.get(index) or default_stream(index)


def set_stream(stream: Stream) -> None:
    """Make a stream this thread's, and its device current."""
    _state.current[stream.device.index] = stream
    _state.driver.device = stream.device.index


@contextlib.contextmanager
def use_stream(stream: Stream | None) -> Iterator[None]:
    """`torch.cuda.stream`: a stream and its device are current within the block."""
    if stream is None:
        yield
        return
    before, there = current_stream(), current_stream(stream.device)
    set_stream(stream)
    try:
        yield
    finally:
        set_stream(there)
        set_stream(before)


class use_device:
    """`torch.cuda.device`: a device is current within the block; none for a negative one."""

    def __init__(self, device: Any) -> None:
        self.index = -1 if device is None else _index(device)
        self.before = -1

    def __enter__(self) -> None:
        if self.index >= 0:
            self.before, _state.driver.device = current_device(), self.index

    def __exit__(self, *error: object) -> None:
        if self.index >= 0:
            _state.driver.device = self.before


def synchronize(device: Any = None) -> None:
    with _state.driver.on(_index(device)):
        _state.driver.call("cuCtxSynchronize")


def _record_stream(self: torch.Tensor, stream: Stream) -> None:
    recorded.append((self.untyped_storage().data_ptr(), stream.cuda_stream))


# Memory, and kernels over it


def cuda_tensor(
    address: int,
    shape: Sequence[int],
    dtype: torch.dtype = torch.float32,
    device: int = 0,
    *,
    strides: Sequence[int] | None = None,
    release: Callable[[], object] = lambda: None,
) -> torch.Tensor:
    """A tensor of torch's over memory of the driver; `release` is called when torch lets it go."""
    capsule = owned_capsule(
        address,
        release,
        shape=shape,
        strides=strides,
        dtype=_DTYPES[dtype],
        device=(2, device),
    )
    tensor: torch.Tensor = torch._C._from_dlpack(capsule)
    return tensor


def _empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    **_layout: Any,
) -> torch.Tensor:
    dtype = dtype or torch.get_default_dtype()
    reach = sum((n - 1) * step for n, step in zip(size, stride, strict=True)) + 1
    index = _index(device)
    address = _state.driver.alloc(max(0 if 0 in size else reach, 1) * dtype.itemsize, index)

    def free() -> None:
        _state.driver.free(address)

    return cuda_tensor(address, size, dtype, index, strides=stride, release=free)


def _empty(size: Sequence[int], **keywords: Any) -> torch.Tensor:
    return _empty_strided(size, compact_strides(size), **keywords)


def bytes_of(x: torch.Tensor) -> torch.Tensor:
    """A tensor on the CPU over what kernels see of one on a device."""
    if x.device.type == "cpu" or x.numel() == 0:
        return x if x.device.type == "cpu" else torch.empty(x.shape, dtype=x.dtype)
    reach = sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) + 1
    view = _state.driver.view(x.data_ptr(), reach * x.itemsize)
    capsule = owned_capsule(
        ctypes.addressof(ctypes.c_char.from_buffer(view)),
        view.release,
        shape=x.shape,
        strides=x.stride(),
        dtype=_DTYPES[x.dtype],
        device=(1, 0),
    )
    host: torch.Tensor = torch._C._from_dlpack(capsule)
    host = host.conj() if x.is_conj() else host
    return torch._neg_view(host) if x.is_neg() else host


def note(operation: Any, *tensors: torch.Tensor) -> None:
    """Add to what was `called`."""
    there = [x for x in tensors if x.is_cuda]
    stream = current_stream(there[0].device if there else None).cuda_stream
    called.append(Called(str(operation), frozenset(x.data_ptr() for x in there), stream))


def launch(kernel: Callable[[], object], on: torch.Tensor) -> None:
    stream = current_stream(on.device)
    _state.driver.launch(stream.cuda_stream, kernel, delay_us=0, device=stream.device.index)


def _copy(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Host memory is read at once, and written before this returns, as with pageable memory.

    Between devices the current streams of both wait for each other, before and behind.
    """
    where = self if self.is_cuda else src
    if not (self.is_cuda and src.is_cuda):
        crossed.append("to the device" if self.is_cuda else "to the host")
    source = src if src.is_cuda else src.clone()
    across = self.is_cuda and src.is_cuda and self.device != src.device
    here, there = current_stream(where.device), current_stream(src.device if across else None)
    if across:
        here.wait_stream(there)
    note("aten.copy_", self, src)
    target, source = self.detach(), source.detach()  # their shapes are those of now
    launch(lambda: bytes_of(target).copy_(bytes_of(source)), where)
    if across:
        there.wait_stream(here)
    if not self.is_cuda:
        current_stream(where.device).synchronize()
    return self


def _fill(self: torch.Tensor, value: Any) -> torch.Tensor:
    note("aten.fill_", self)
    target = self.detach()
    launch(lambda: bytes_of(target).fill_(value), self)
    return self


def _flip(self: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
    out = torch.empty_like(self)
    note("aten.flip", self, out)
    source, target = self.detach(), out.detach()
    launch(lambda: bytes_of(target).copy_(bytes_of(source).flip(dims)), self)
    return out


def _as_on_cpu(name: str) -> Callable[..., Any]:
    """Of what makes views: torch's own code for the CPU, which touches no element."""
    base, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, base), overload or "default")

    def run(*arguments: Any, **keywords: Any) -> Any:
        return operation._op_dk(torch._C.DispatchKey.CPU, *arguments, **keywords)

    return run


def _is_pinned(self: torch.Tensor, device: Any = None) -> bool:
    memory_type, host = 2, 1
    _state.driver.call("cuInit", 0)
    try:
        kind = _state.driver.call("cuPointerGetAttribute", memory_type, self.data_ptr())
    except fake_driver.DriverError:
        return False
    return bool(kind == host)


_VIEWS = (
    *("as_strided", "view", "_reshape_alias", "view_as_real", "unfold"),
    *("set_.source_Storage", "set_.source_Storage_storage_offset", "set_.source_Tensor"),
)
_KERNELS = {
    "empty.memory_format": _empty,
    "empty_strided": _empty_strided,
    "copy_": _copy,
    "fill_.Scalar": _fill,
    "flip": _flip,
    "zero_": lambda self: _fill(self, 0),
}


def _on_pageable(empty: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`torch.empty` to which pinned memory is memory."""

    def run(*size: Any, pin_memory: bool = False, **keywords: Any) -> torch.Tensor:
        return empty(*size, **keywords)

    return run


def install(*, initialized: bool = True) -> Driver:
    """Do all this to torch, in this process; returns the driver.

    Parameters
    ----------
    initialized
        What `torch.cuda.is_initialized` says; code under test may ask it.
    """
    global _state  # noqa: PLW0603
    if "_state" in globals():
        _state.initialized = initialized
        return _state.driver
    _state = _State()
    _state.initialized = initialized
    driver = _state.driver
    ctypes.CDLL(str(_guard()))
    overrides = _state.overrides = Library("aten", "IMPL")
    for name in _VIEWS:
        overrides.impl(name, _as_on_cpu(name), "CUDA")
    for name, kernel in _KERNELS.items():
        overrides.impl(name, kernel, "CUDA")
    overrides.impl("is_pinned", _is_pinned, "CPU")
    cuda: Any = torch.cuda
    cuda._lazy_init = lambda: None
    cuda.is_available = lambda: driver.device_count > 0
    cuda.is_initialized = lambda: _state.initialized
    cuda.device_count = lambda: driver.device_count
    cuda.current_device = current_device
    cuda.set_device = lambda device: setattr(driver, "device", _index(device))
    cuda.device = use_device
    cuda.current_stream = current_stream
    cuda.default_stream = default_stream
    cuda.set_stream = set_stream
    cuda.stream = use_stream
    cuda.Stream, cuda.ExternalStream, cuda.Event = Stream, ExternalStream, Event
    cuda.synchronize = synchronize
    cuda.is_current_stream_capturing = lambda: (
        driver.call("cuStreamIsCapturing", current_stream().cuda_stream) == 1
    )
    tensor: Any = torch.Tensor
    tensor.record_stream = _record_stream
    torch.empty = _on_pageable(torch.empty)  # type: ignore[assignment]

    return driver


def _guard() -> Path:
    """Compile what tells torch's own code of the current device."""
    root = Path(torch.__file__).parent
    flags = [f"-isystem{root / 'include'}", f"-L{root / 'lib'}", "-lc10", "-ldl"]
    if not torch.compiled_with_cxx11_abi():
        flags.append("-D_GLIBCXX_USE_CXX11_ABI=0")
    return fake_driver.build_library(GUARD, "libguard.so", *flags)


class TorchFramework:
    """Torch as a producer of the cases in `races`."""

    def __init__(self, device: int = 0) -> None:
        self.device = device

    def stream(self, handle: int) -> contextlib.AbstractContextManager[None]:
        return use_stream(ExternalStream(handle, self.device))

    def current(self) -> int:
        return current_stream(self.device).cuda_stream

    def array(self) -> torch.Tensor:
        return torch.empty(races.N, device=f"cuda:{self.device}")

    def address(self, x: torch.Tensor) -> int:
        return x.data_ptr()
