"""A CUDA driver for machines without a GPU, whose streams run late: build it, load it, use it.

`load()` puts it into this process as ``libcuda.so.1``, so that whoever opens that library from then
on gets this one. Only a child process should do so: the `isolated` marker, or `children.in_child`.

Device memory has addresses that the host cannot touch (SIGSEGV). Fresh memory is full of 0xCD, and
freed memory in a stream's pool of 0xDD. Work on a stream starts after the delay it is queued with,
so that whoever does not wait for it sees what was there before; `Driver.hold` makes that certain.

Not here: kernels of real frameworks, more than one queue a stream, replay of captured graphs, peer
access rules. A bad handle is an error, where a real driver may crash. Times mean nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes as C
import fcntl
import hashlib
import itertools
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCES = Path(__file__).parents[1] / "gpu_fakedriver" / "driver"
FLAGS = (
    *("-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow"),
    *("-Werror", "-shared", "-pthread"),
)
SONAME = "libcuda.so.1"

LEGACY, PER_THREAD = 1, 2  # streams that every device has
FRESH, FREED = 0xCD, 0xDD
LATE_US = 25_000
KINDS = {"pinned": 1, "device": 2, "managed": 3}


class NoCompiler(RuntimeError):
    """There is nothing to build the driver with."""


class DriverError(RuntimeError):
    """An entry point did not succeed. `code` is its CUresult."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"{name}: error {code}")
        self.name = name
        self.code = code


def build_library(folder: Path, name: str, *flags: str) -> Path:
    """Compile the C++ files of a folder, once for all processes; returns the library's path."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise NoCompiler("the fake CUDA driver needs g++ or clang++")
    sources = sorted(folder.glob("*.cpp"))
    digest = hashlib.sha256(repr((compiler, FLAGS, flags)).encode())
    for path in [*sources, *sorted(folder.glob("*.h"))]:
        digest.update(path.read_bytes())
    # One's own folder: what another user could put there would be loaded.
    cache = Path(tempfile.gettempdir(), f"candle-fake-driver-{os.getuid()}")
    cache.mkdir(mode=0o700, exist_ok=True)
    if cache.stat().st_uid != os.getuid():
        raise PermissionError(f"{cache} belongs to another user")
    target = cache / digest.hexdigest()[:16] / name
    target.parent.mkdir(exist_ok=True)
    with (target.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            whole = "".join(f'#include "{path.name}"\n' for path in sources)
            part = target.with_suffix(".part")
            command = [compiler, *FLAGS, f"-I{folder}", "-o", part, "-x", "c++", "-", *flags]
            done = subprocess.run(command, input=whole, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{folder.name} does not compile:\n{done.stderr}")
            part.rename(target)
    return target


def build() -> Path:
    """Compile the driver; returns the library's path."""
    return build_library(SOURCES, SONAME, f"-Wl,-soname,{SONAME}", "-Wl,--no-undefined", "-ldl")


class Called(NamedTuple):
    """A line of the trace: ``s3`` is a stream, ``e5`` an event, ``m2`` memory, by number."""

    name: str
    arguments: tuple[str, ...]
    result: int

    def __str__(self) -> str:
        return " ".join([self.name, *self.arguments, *([f"= {self.result}"] * bool(self.result))])


class Counters(NamedTuple):
    """Allocations in use, their bytes, the most bytes ever, and how often the host waited."""

    live: int
    bytes: int
    peak: int
    host_syncs: int


_HOST_FUNCTION = C.CFUNCTYPE(None, C.c_void_p)
_int, _size, _address, _handle = C.c_int, C.c_size_t, C.c_ulonglong, C.c_void_p

_CONTROLS: dict[str, tuple[Any, ...]] = {  # the result first
    "fake_configure": (None, _int, _int),
    "fake_device_count": (_int,),
    "fake_current_device": (_int,),
    "fake_set_device": (None, _int),
    "fake_fail": (None, C.c_char_p, _int, _size, _size),
    "fake_hide": (None, C.c_char_p),
    "fake_create_stream": (_handle, _int, C.c_uint),
    "fake_destroy_stream": (_int, _handle),
    "fake_stream_id": (C.c_uint64, _int, _handle),
    "fake_allocate": (_address, _int, _size, _int),
    "fake_free": (_int, _address),
    "fake_fill": (_int, _int, _handle, _address, C.c_char_p, _size, _size, _int),
    "fake_launch": (_int, _int, _handle, _HOST_FUNCTION, _handle, _int),
    "fake_hold": (None, _int),
    "fake_read": (_int, _int, _handle, C.c_char_p, _address, _size),
    "fake_bytes": (_handle, _address, _size),
    "fake_order": (_int, _int, _handle, _handle),
    "fake_drain": (None,),
    "fake_counters": (None, C.POINTER(_size)),
    "fake_retained": (_int, _int),
    "fake_drain_trace": (C.c_char_p,),
}

# Entry points that `Driver.call` knows; an argument in brackets is given back.
_ENTRIES: dict[str, tuple[Any, ...]] = {
    "cuInit": (C.c_uint,),
    "cuDeviceGetCount": ([_int],),
    "cuDevicePrimaryCtxRetain": ([_handle], _int),
    "cuDevicePrimaryCtxRelease_v2": (_int,),
    "cuDevicePrimaryCtxGetState": (_int, [C.c_uint], [_int]),
    "cuCtxSetCurrent": (_handle,),
    "cuCtxGetCurrent": ([_handle],),
    "cuCtxPushCurrent_v2": (_handle,),
    "cuCtxPopCurrent_v2": ([_handle],),
    "cuCtxGetDevice": ([_int],),
    "cuCtxSynchronize": (),
    "cuStreamCreate": ([_handle], C.c_uint),
    "cuStreamDestroy_v2": (_handle,),
    "cuStreamGetFlags": (_handle, [C.c_uint]),
    "cuStreamGetDevice": (_handle, [_int]),
    "cuStreamSynchronize": (_handle,),
    "cuStreamQuery": (_handle,),
    "cuStreamWaitEvent": (_handle, _handle, C.c_uint),
    "cuStreamBeginCapture_v2": (_handle, _int),
    "cuStreamEndCapture": (_handle, [_handle]),
    "cuStreamIsCapturing": (_handle, [_int]),
    "cuEventCreate": ([_handle], C.c_uint),
    "cuEventDestroy_v2": (_handle,),
    "cuEventRecord": (_handle, _handle),
    "cuEventQuery": (_handle,),
    "cuEventSynchronize": (_handle,),
    "cuMemAlloc_v2": ([_address], _size),
    "cuMemAllocManaged": ([_address], _size, C.c_uint),
    "cuMemHostAlloc": ([_address], _size, C.c_uint),
    "cuMemFree_v2": (_address,),
    "cuMemFreeHost": (_address,),
    "cuMemAllocAsync": ([_address], _size, _handle),
    "cuMemFreeAsync": (_address, _handle),
    "cuMemcpyAsync": (_address, _address, _size, _handle),
    "cuPointerGetAttribute": ([C.c_uint64], _int, _address),
}


def _is_loaded() -> bool:
    return SONAME.removesuffix(".1") in Path("/proc/self/maps").read_text()


class Driver:
    """The driver in this process.

    Its methods are the test's own hand: they need no current context, do not appear in the trace
    and do not count. Only `call`, and `context` with it, is what a framework would do. Streams are
    handles: ints.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shared_object = C.CDLL(str(path))
        self._entries: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        self._kernels: dict[int, Callable[[], object]] = {}
        self._run = _HOST_FUNCTION(lambda number: self._kernels.pop(number or 0)())
        for name, (result, *arguments) in _CONTROLS.items():
            function = getattr(self.shared_object, name)
            function.restype, function.argtypes = result, arguments

    def configure(self, *, devices: int = 2, delay_us: int = 2000) -> None:
        """Set how many devices there are, and how late a queued copy starts."""
        self.shared_object.fake_configure(devices, delay_us)

    # What a framework does

    def call(self, name: str, *arguments: Any) -> Any:
        """Call an entry point with its arguments but those it gives back, which are returned.

        ``DriverError`` if it does not succeed.
        """
        if name not in self._entries:
            self._entries[name] = getattr(self.shared_object, name)
        given, out = iter(arguments), []
        passed = []
        for kind in _ENTRIES[name]:
            if isinstance(kind, list):
                out.append(kind[0]())
                passed.append(C.byref(out[-1]))
            else:
                passed.append(kind(next(given)))
        code = self._entries[name](*passed)
        if code != 0:
            raise DriverError(name, code)
        values = [value.value or 0 for value in out]
        return values[0] if len(values) == 1 else tuple(values) or None

    @contextlib.contextmanager
    def context(self, device: int = 0) -> Iterator[None]:
        """A device's primary context, current on this thread within the block."""
        self.call("cuInit", 0)
        self.call("cuCtxPushCurrent_v2", self.call("cuDevicePrimaryCtxRetain", device))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2")
            self.call("cuDevicePrimaryCtxRelease_v2", device)

    # What a test does

    @staticmethod
    def _check(name: str, code: int) -> None:
        if code != 0:
            raise DriverError(name, code)

    @property
    def device_count(self) -> int:
        """How many devices there are."""
        count: int = self.shared_object.fake_device_count()
        return count

    @property
    def device(self) -> int:
        """The device that is current on this thread; -1 before there is one."""
        device: int = self.shared_object.fake_current_device()
        return device

    @device.setter
    def device(self, device: int) -> None:
        self.shared_object.fake_set_device(device)

    @contextlib.contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Make a device current within the block, as frameworks do by their CUDA runtime."""
        before, self.device = self.device, device
        try:
            yield
        finally:
            self.device = before

    def stream(self, device: int = 0, *, blocking: bool = False) -> int:
        """Make a stream; a blocking one waits for the legacy stream, and that for it."""
        handle: int = self.shared_object.fake_create_stream(device, 0 if blocking else 1)
        return handle

    def destroy_stream(self, stream: int) -> None:
        """Let a stream go; what is queued still runs, and its handle is an error from now on."""
        self._check("destroy_stream", self.shared_object.fake_destroy_stream(stream))

    def name(self, stream: int, device: int = 0) -> str:
        """How the trace calls a stream."""
        return f"s{self.shared_object.fake_stream_id(device, stream)}"

    def alloc(self, size: int, device: int = 0, *, kind: str = "device") -> int:
        """Allocate bytes of a kind: ``device``, ``managed``, ``pinned``; returns the address."""
        address: int = self.shared_object.fake_allocate(device, size, KINDS[kind])
        if address == 0:
            raise MemoryError(f"no {size} bytes on the fake device {device}")
        return address

    def free(self, address: int) -> None:
        """Free at once; work that is queued already still has the memory."""
        self._check("free", self.shared_object.fake_free(address))

    def late_fill(
        self,
        stream: int,
        address: int,
        value: float,
        count: int,
        *,
        delay_us: int = LATE_US,
        dtype: str = "f",
        device: int = 0,
    ) -> None:
        """Queue a kernel that fills memory, late. `dtype` as for ``struct``."""
        item = struct.pack(dtype, value)
        code = self.shared_object.fake_fill(
            device, stream, address, item, len(item), count, delay_us
        )
        self._check("late_fill", code)

    def launch(
        self, stream: int, kernel: Callable[[], object], *, delay_us: int = LATE_US, device: int = 0
    ) -> None:
        """Queue a kernel that calls a Python function, which gets at memory by `view`."""
        number = next(self._numbers)
        self._kernels[number] = kernel
        code = self.shared_object.fake_launch(device, stream, self._run, number, delay_us)
        if code != 0:
            del self._kernels[number]
        self._check("launch", code)

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Hold copies, fills and launches back until the host waits for them.

        Those run that it waits for, by `read` too, and those that these wait for. So a `read` that
        is not ordered behind a kernel never sees what that wrote, and one that is always does,
        however slow this machine is.
        """
        self.shared_object.fake_hold(1)
        try:
            yield
        finally:
            self.shared_object.fake_hold(0)

    def view(self, address: int, size: int) -> memoryview:
        """The bytes that kernels see at an address; a host that looks here cheats."""
        place = self.shared_object.fake_bytes(address, size)
        if not place:
            raise ValueError(f"there are no {size} bytes at {address:#x}")
        return memoryview((C.c_ubyte * size).from_address(place)).cast("B")

    def read(
        self, address: int, stream: int, count: int = 1, *, dtype: str = "f", device: int = 0
    ) -> list[Any]:
        """What a consumer on `stream` sees: it waits for this stream and for nothing else."""
        size = struct.calcsize(dtype) * count
        host = C.create_string_buffer(size)
        self._check("read", self.shared_object.fake_read(device, stream, host, address, size))
        return list(struct.unpack(f"{count}{dtype}", host.raw))

    def order(self, first: int, then: int, *, device: int = 0) -> None:
        """Make a stream wait for all that is queued on another now."""
        self._check("order", self.shared_object.fake_order(device, first, then))

    def drain(self) -> None:
        """Wait for all streams of all devices."""
        self.shared_object.fake_drain()

    def trace(self) -> list[Called]:
        """All calls since the last time, in the order they began; how entry points were found too.

        Names are without ``_v2``.
        """
        lines = self.shared_object.fake_drain_trace().decode().splitlines()
        called = []
        for line in lines:
            text, _, result = line.partition(" = ")
            name, *arguments = text.split()
            called.append(Called(name, tuple(arguments), int(result or 0)))
        return called

    def counters(self) -> Counters:
        """Count what is allocated, and how often the host waited for a device."""
        out = (C.c_size_t * 4)()
        self.shared_object.fake_counters(out)
        return Counters(*out)

    def retained(self, device: int = 0) -> int:
        """How many hold the primary context of a device."""
        count: int = self.shared_object.fake_retained(device)
        return count

    def fail(self, name: str, result: int = 999, *, after: int = 0, times: int = 1) -> None:
        """Make an entry point fail: `after` more calls, `times` times."""
        self.shared_object.fake_fail(name.encode(), result, after, times)

    def hide(self, name: str) -> None:
        """Make ``cuGetProcAddress`` not find an entry point, as in an older driver."""
        self.shared_object.fake_hide(name.encode())


_driver: Driver | None = None


def load(*, devices: int = 2, delay_us: int = 2000) -> Driver:
    """Put the driver into this process, or return the one that is there, set up anew."""
    global _driver  # noqa: PLW0603
    if _driver is None:
        if _is_loaded():
            raise RuntimeError("this process has a CUDA driver: load the fake one before it")
        _driver = Driver(build())
        atexit.register(_driver.drain)  # a kernel must not call into a Python that is gone
    _driver.configure(devices=devices, delay_us=delay_us)
    return _driver


def loaded() -> Driver:
    """Return the driver of this process, as it is set up."""
    if _driver is None:
        raise RuntimeError("the fake CUDA driver is not loaded")
    return _driver
