"""What candle asks of the driver and when, what it refuses, captures, several devices."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from fake_driver import LEGACY, PER_THREAD, DriverError

import candle
from candle.testing import Producer, exchange_api, exchange_producer, info, live, take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 16
SIZE = 4 * N
HANDLE = 0xDEAD0  # names no stream


def names(driver: Driver) -> list[str]:
    return [called.name for called in driver.trace()]


class Known:
    """A producer that orders its own stream, by events, as the standard says."""

    def __init__(self, driver: Driver, address: int, stream: int, device: int = 0) -> None:
        self.driver, self.stream, self.device = driver, stream, device
        self.producer = Producer(address, shape=(N,), device=(2, device))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device)

    def __dlpack__(self, *, stream: int | None = None, **keywords: Any) -> object:
        if stream != -1:
            self.driver.order(self.stream, stream or LEGACY, device=self.device)
        return self.producer.capsule(True)


class Interface:
    """The CUDA array interface over memory of the fake driver."""

    def __init__(self, address: int, **fields: Any) -> None:
        self.fields = {
            "shape": (N,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
            "stream": None,
            **fields,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {key: value for key, value in self.fields.items() if value is not NotImplemented}


# Who is called, and when


IMPORT = """
import fake_driver
driver = fake_driver.load()
driver.trace()
import candle
from candle.testing import Producer
t = candle.zeros((3, 3)).T
repr(t), t.__dlpack__(), t.__dlpack__(stream=-1), t.__array_interface__
x = candle.from_dlpack(Producer(driver.alloc(64), shape=(4,), device=(2, 0)).capsule())
x[1:], repr(x), x.device, x.__dlpack__(stream=-1), x.__dlpack__(stream=1), x.__dlpack__()
hasattr(x, "__array_interface__")
del x
print(driver.trace())
"""


def test_no_call_at_import_nor_where_streams_are_equal(in_child: Any) -> None:
    assert in_child(IMPORT).check().strip() == "[]"


def test_a_shared_hop_never_waits_on_the_host(driver: Driver, block: int) -> None:
    a, b = driver.stream(), driver.stream()
    taken = [
        candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a),
        candle.from_dlpack(Known(driver, block, a)),
        candle.asarray(Interface(block, stream=a)),
        candle.from_dlpack(exchange_producer(Producer(block, shape=(N,), device=(2, 0)))),
    ]
    before = driver.counters()
    driver.trace()
    for t in taken:
        for stream in (None, 0, 1, 2, b, -1):
            t[::2].__dlpack__(stream=stream)
        t.__cuda_array_interface__  # noqa: B018
    called = set(names(driver))
    assert not any("Synchronize" in name or "Query" in name for name in called)
    assert not any("Alloc" in name or "Memcpy" in name for name in called)
    assert driver.counters() == before


def test_the_first_call_of_a_thread_needs_no_context(driver: Driver, block: int) -> None:
    """And leaves none behind."""
    a, b = driver.stream(), driver.stream()
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a)
    driver.late_fill(a, block, 3.0, N)
    found: list[Any] = []

    def hop() -> None:
        t.__dlpack__(stream=b)
        found.append(driver.device)

    thread = threading.Thread(target=hop)
    thread.start()
    thread.join()
    assert found == [-1]
    assert driver.read(block, b, N) == [3.0] * N


def test_views_share_the_order(driver: Driver, block: int) -> None:
    a, b = driver.stream(), driver.stream()
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a)
    view = t.view(4, 4)[1:, ::2].T
    del t
    driver.late_fill(a, block, 7.0, N)
    fields = info(view.__dlpack__(stream=b))
    assert fields.data == block + 16
    assert driver.read(block, b, N) == [7.0] * N
    interface = view.__cuda_array_interface__
    assert (interface["stream"], interface["strides"]) == (a, (8, 16))
    assert (interface["data"], interface["version"]) == ((block + 16, False), 3)


def test_the_streams_of_the_standard(driver: Driver, block: int) -> None:
    """None and 0 are the legacy one, 2 is the thread's; -1 orders nothing."""
    a = driver.stream()
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a)
    value = 0.0
    for stream, reader in ((None, LEGACY), (0, LEGACY), (1, LEGACY), (2, PER_THREAD)):
        value += 1
        driver.late_fill(a, block, value, N)
        t.__dlpack__(stream=stream)
        assert driver.read(block, reader, N) == [value] * N
    driver.late_fill(a, block, 99.0, N)
    t.__dlpack__(stream=-1)
    assert driver.read(block, driver.stream(), N) == [value] * N


# Bad input: errors that name fact and remedy, before there is a capsule


@pytest.mark.parametrize("stream", [-2, -(1 << 80), 1 << 80, 1.0, "1", True, (), object()])
def test_what_is_no_stream(driver: Driver, block: int, stream: Any) -> None:
    t = candle.from_dlpack(Known(driver, block, LEGACY))
    exports = live()["exports"]
    driver.trace()
    for move in (t.__dlpack__, t[::-1].__dlpack__):
        with pytest.raises(ValueError, match=r"no CUDA stream; pass None, 1, 2, .*handle, or -1"):
            move(stream=stream)
    assert driver.trace() == []
    assert live()["exports"] == exports


@pytest.mark.parametrize("stream", [-1, -2, 1 << 70])
def test_what_is_no_origin(driver: Driver, block: int, stream: int) -> None:
    producer = Producer(block, shape=(N,), device=(2, 0))
    capsule = producer.capsule()
    with pytest.raises(ValueError, match="no handle"):
        candle.from_dlpack(capsule, stream=stream)
    with pytest.raises(TypeError, match="__cuda_stream__"):
        candle.from_dlpack(capsule, stream="1")  # type: ignore[arg-type]
    assert producer.deletes == 0
    t = candle.from_dlpack(capsule)
    for move in (t.wait_for, t.record_stream):
        with pytest.raises((ValueError, TypeError)):
            move(stream)


@pytest.mark.parametrize("gone", ["origin", "consumer"])
def test_a_freed_stream(driver: Driver, block: int, gone: str) -> None:
    a, b = driver.stream(), driver.stream()
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a)
    driver.destroy_stream(a if gone == "origin" else b)
    exports = live()["exports"]
    with pytest.raises(BufferError, match=r"stream wait .*\(400\): a stream is gone, or .*; keep"):
        t.__dlpack__(stream=b)
    assert live()["exports"] == exports
    assert info(t.__dlpack__(stream=-1)).data == block
    with pytest.raises(BufferError, match="400"):
        t.__dlpack__(stream=HANDLE)


@pytest.mark.parametrize(
    "name",
    [
        "cuCtxPushCurrent_v2",
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventDestroy_v2",
    ],
)
def test_an_entry_point_that_fails_once(driver: Driver, block: int, name: str) -> None:
    a, b = driver.stream(), driver.stream()
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a)
    t.__dlpack__(stream=b)
    before, exports = driver.counters(), live()["exports"]
    [table] = exchange_api(candle.Tensor)
    for export in (
        lambda: t.__dlpack__(stream=b),
        lambda: t.__cuda_array_interface__ and candle.asarray(Both(t, b)).__dlpack__(stream=a),
        lambda: table.from_py_object(t),
    ):
        driver.fail(name, 719)
        with pytest.raises(BufferError, match=r"candle cannot make .*CUDA_ERROR_\w+ \(719\)"):
            export()
        driver.fail(name, 719, times=0)
    assert (driver.counters(), live()["exports"]) == (before, exports)
    assert driver.device == -1
    driver.late_fill(a, block, 2.0, N)
    t.__dlpack__(stream=b)  # and goes on
    assert driver.read(block, b, N) == [2.0] * N


class Both:
    """A tensor's CUDA array interface with another stream."""

    def __init__(self, t: candle.Tensor, stream: int) -> None:
        self.t, self.stream = t, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.t.__cuda_array_interface__, "stream": self.stream}


BROKEN = """
import fake_driver
{before}
import candle
from candle.testing import Producer, live
class Interface:
    __cuda_array_interface__ = dict(shape=(4,), typestr="<f4", data=(1 << 40, False), version=3)
producer = Producer(1 << 40, shape=(4,), device=(2, 0))
t = candle.from_dlpack(producer.capsule())
t.__dlpack__(), t.__dlpack__(stream=1), t.__dlpack__(stream=-1), t[1:]  # need no driver
exports = live()["exports"]
for move in (
    lambda: t.__dlpack__(stream=1 << 20),
    lambda: t.wait_for(1 << 20),
    lambda: candle.asarray(Interface()),
):
    for _ in range(2):
        try:
            move()
        except BufferError as error:
            print(error)
        else:
            print("no error")
assert live()["exports"] == exports
assert candle.zeros(3).__dlpack__() and candle.asarray([1, 2]).tolist() == [1, 2]
del t
assert producer.deletes == 1
"""

BREAKS = {
    "missing": ("", "there is no CUDA driver (libcuda.so.1); install NVIDIA's driver"),
    "too old": (
        "fake_driver.load().hide('cuStreamWaitEvent')",
        "the CUDA driver is too old; candle needs that of CUDA 12 or later",
    ),
    "no device": (
        "fake_driver.load().fail('cuInit', 100, times=9)",
        "the CUDA driver says FAKE_CUDA_ERROR_100 (100)",
    ),
    "broken": ("fake_driver.load().fail('cuInit', 999, times=9)", "(999)"),
    "no context": (
        "fake_driver.load().fail('cuDevicePrimaryCtxRetain', 2, times=9)",
        "(2)",
    ),
}


@pytest.mark.parametrize("how", BREAKS)
def test_a_driver_that_does_not_work(in_child: Any, how: str) -> None:
    before, words = BREAKS[how]
    said = in_child(BROKEN.format(before=before)).check().splitlines()
    assert len(said) == 6
    # What asks for an address needs no context, and this address is nobody's.
    ordering, asking = said[:4], said[4:]
    assert all("candle cannot make" in line and words in line for line in ordering)
    said_of_address = "does not know its address" if how == "no context" else words
    assert all(said_of_address in line for line in asking)


def test_a_device_that_is_not_there(driver: Driver, block: int) -> None:
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 7)).capsule())
    u = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 70)).capsule())
    for x in (t, u):
        with pytest.raises(BufferError, match=r"\(101\)"):
            x.__dlpack__(stream=driver.stream())


# The CUDA array interface


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "mask": ({"mask": object()}, "mask"),
    "byte order": ({"typestr": ">f4"}, "byte order"),
    "odd stride": ({"shape": (2,), "strides": (6,)}, "stride"),
    "stream 0": ({"stream": 0}, r"stream 0; it is None, 1"),
    "negative stream": ({"stream": -1}, "stream -1"),
    "stream of text": ({"stream": "1"}, "stream '1'"),
    "no data": ({"data": NotImplemented}, "data is not a tuple"),
    "no typestr": ({"typestr": NotImplemented}, "typestr"),
    "no shape": ({"shape": NotImplemented}, "shape"),
    "NULL": ({"data": (0, False)}, "NULL"),
    "text elements": ({"typestr": "<U4"}, "dtype"),
    "unknown address": ({"data": (0x1234_5678_9000, False)}, "does not know its address"),
    "negative extent": ({"shape": (-1,)}, "negative"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("copy", [None, False, True])
def test_an_interface_that_is_refused(
    driver: Driver, block: int, name: str, copy: bool | None
) -> None:
    fields, words = REFUSED[name]
    before = live()
    with pytest.raises(BufferError, match=words):
        candle.asarray(Interface(block, **fields), copy=copy)
    assert live() == before


def test_what_an_interface_says(driver: Driver, block: int) -> None:
    a, b = driver.stream(), driver.stream()
    x = Interface(block, shape=(2, 3), strides=(16, 4), stream=a, data=(block, True))
    t = candle.asarray(x)
    assert (t.shape, t.stride, t.readonly, str(t.device)) == ((2, 3), (4, 1), True, "cuda:0")
    driver.late_fill(a, block, 1.0, N)
    t.__dlpack__(stream=b, max_version=(1, 3))
    assert driver.read(block, b, N) == [1.0] * N
    x.fields["stream"] = c = driver.stream()  # it works on another one now
    driver.late_fill(c, block, 2.0, N)
    t.__dlpack__(stream=b, max_version=(1, 3))
    assert driver.read(block, b, N) == [2.0] * N
    old = candle.asarray(Interface(block, version=2, stream=NotImplemented))
    driver.trace()
    old.__dlpack__(stream=b)
    assert names(driver) == [], "nothing is pending where no stream is named"
    assert candle.asarray(Interface(0, shape=(0, 3))).shape == (0, 3)


def test_an_interface_is_on_the_device_of_its_address(driver: Driver) -> None:
    there = driver.alloc(SIZE, 1)
    shared = driver.alloc(SIZE, 1, kind="managed")
    assert str(candle.asarray(Interface(there)).device) == "cuda:1"
    assert candle.asarray(Interface(shared)).__dlpack_device__() == (2, 1)
    driver.free(there)
    with pytest.raises(BufferError, match="does not know"):
        candle.asarray(Interface(there))
    driver.free(shared)


def test_an_interface_keeps_its_object(driver: Driver, block: int) -> None:
    gone: list[int] = []

    class Noted(Interface):
        def __del__(self) -> None:
            gone.append(1)

    t = candle.asarray(Noted(block))
    view = t[1:]
    del t
    assert gone == []
    taken = take(view.__dlpack__(stream=-1))
    del view
    assert gone == []
    taken.release(foreign_thread=True)
    assert gone == [1]


def test_an_interface_that_says_something_else_later(driver: Driver, block: int) -> None:
    """Nothing is handed on of memory that may be gone, nor without an order."""
    b = driver.stream()
    x = Interface(block, stream=driver.stream())
    t = candle.asarray(x)
    said = dict(x.fields)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"data": (block + 4096, False)}, "has moved its memory"),
        ({"data": None}, "has moved its memory"),
        ({"data": (None, False)}, "has moved its memory"),
        ({"stream": 0}, "stream 0"),
        ({"stream": "1"}, "stream '1'"),
    )
    exports = live()["exports"]
    for fields, words in cases:
        x.fields = {**said, **fields}
        for export in (lambda: t.__dlpack__(stream=b), lambda: t[1:].__cuda_array_interface__):
            with pytest.raises(BufferError, match=words):
                export()
    x.fields = said
    assert live()["exports"] == exports
    t.__dlpack__(stream=b)


@pytest.mark.parametrize("answer", [None, [1], "text", 7, RuntimeError, KeyError])
def test_an_interface_that_is_none_later(driver: Driver, block: int, answer: Any) -> None:
    class Fickle(Interface):
        later = False

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            if self.later and isinstance(answer, type):
                raise answer("gone")
            return answer if self.later else self.fields

    x = Fickle(block, stream=driver.stream())
    t = candle.asarray(x)
    x.later = True
    for export in (lambda: t.__dlpack__(stream=1), lambda: t.__cuda_array_interface__):
        with pytest.raises(BufferError):
            export()


def test_no_interface_off_devices() -> None:
    for t in (candle.zeros(3), candle.zeros(3, dtype="bfloat16")):
        assert not hasattr(t, "__cuda_array_interface__")


# Several devices


def test_each_device_has_its_own_legacy_stream(driver: Driver) -> None:
    for device in (0, 1):
        address, a = driver.alloc(SIZE, device), driver.stream(device)
        t = candle.from_dlpack(
            Producer(address, shape=(N,), device=(2, device)).capsule(), stream=a
        )
        driver.late_fill(a, address, 4.0 + device, N, device=device)
        with driver.on(1 - device):
            t.__dlpack__(stream=1)
            assert driver.device == 1 - device
        assert driver.read(address, LEGACY, N, device=device) == [4.0 + device] * N
        driver.trace()
        t.__dlpack__(stream=1)
        assert all(called.result == 0 for called in driver.trace())
        driver.free(address)


# Captures


@pytest.fixture
def capture(driver: Driver | None) -> Callable[[int], Any]:
    """Captures a stream in a block, and says with what error that ended."""

    @contextlib.contextmanager
    def capture(stream: int) -> Iterator[list[int]]:
        assert driver is not None
        ended: list[int] = []
        with driver.context():
            driver.call("cuStreamBeginCapture_v2", stream, 0)
            try:
                yield ended
            finally:
                try:
                    driver.call("cuStreamEndCapture", stream)
                    ended.append(0)
                except DriverError as error:
                    ended.append(error.code)

    return capture


def test_a_capture_with_its_origin_outside_is_not_broken(
    driver: Driver, block: int, capture: Any
) -> None:
    """What ran before it is behind it already: nothing outside can be waited for in a graph."""
    outside, captured = driver.stream(), driver.stream()
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=outside)
    known = candle.asarray(Interface(block, stream=outside))
    with capture(captured) as ended:
        driver.trace()
        t.__dlpack__(stream=captured)
        known.__dlpack__(stream=captured)
        assert not any("Event" in name for name in names(driver))
    assert ended == [0]


def test_a_capture_joined_by_another_stream(driver: Driver, block: int, capture: Any) -> None:
    """A producer on a stream in the capture, a consumer on another that is joined to it."""
    a, b = driver.stream(), driver.stream()
    with capture(a) as ended:
        t = candle.asarray(Interface(block, stream=a))
        t.__dlpack__(stream=b)
        assert driver.call("cuStreamIsCapturing", b) == 1
        back = candle.asarray(Interface(block, stream=b))
        back.__dlpack__(stream=a)
    assert ended == [0]


def test_a_consumer_on_the_capturing_stream(driver: Driver, block: int, capture: Any) -> None:
    a = driver.stream()
    with capture(a) as ended:
        t = candle.asarray(Interface(block, stream=a))
        driver.trace()
        t[::2].__dlpack__(stream=a)
        assert t.__cuda_array_interface__["stream"] == a
        t.__dlpack__(stream=-1)
        assert names(driver) == []
    assert ended == [0]


def test_control_the_legacy_stream_breaks_a_capture(
    driver: Driver, block: int, capture: Any
) -> None:
    """As in direct exchange; the error says so before there is a capsule."""
    a = driver.stream()
    with capture(a) as ended:
        t = candle.asarray(Interface(block, stream=a))
        with pytest.raises(BufferError, match="pass the stream that captures"):
            t.__dlpack__(stream=1)
    assert ended != [0]


# The C exchange table


def test_the_table_orders_for_the_legacy_stream_where_nobody_has_another(
    driver: Driver, block: int
) -> None:
    [table] = exchange_api(candle.Tensor)
    assert table.current_work_stream((2, 0)) is None
    a = driver.stream()
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a)
    driver.late_fill(a, block, 8.0, N)
    table.from_py_object(t).release()
    assert driver.read(block, LEGACY, N) == [8.0] * N
    driver.late_fill(a, block, 9.0, N)
    table.dltensor_from_py_object(t)
    assert driver.read(block, LEGACY, N) == [9.0] * N


def test_a_table_that_names_no_stream(driver: Driver, block: int) -> None:
    """It is asked again by __dlpack__ where it has no slot for that; a slot that fails is told."""
    producer = Producer(block, shape=(N,), device=(2, 0))
    x = exchange_producer(producer, without=("current_work_stream",), dlpack=True)
    t = candle.from_dlpack(x)
    calls = len(producer.calls)
    assert info(t.__dlpack__(stream=driver.stream())).data == block
    assert len(producer.calls) == calls + 1
    fails = exchange_producer(producer, current_work_stream=lambda *_: -1)
    with pytest.raises(BufferError, match=r"not say which stream is current, and gives no reason"):
        candle.from_dlpack(fails)
    # A function of CPython's that sets an error and gives 0, as if all were well.
    address = ctypes.cast(ctypes.pythonapi.PyErr_BadArgument, ctypes.c_void_p).value
    with pytest.raises(BufferError, match="not say which stream is current: TypeError: bad argum"):
        candle.from_dlpack(exchange_producer(producer, current_work_stream=address))
    del t
    assert producer.deletes == producer.exports


def test_what_the_table_takes_is_ready_on_the_stream_it_names(driver: Driver, block: int) -> None:
    [table] = exchange_api(candle.Tensor)
    b = driver.stream()
    producer = Producer(block, shape=(N,), device=(2, 0))
    t: Any = table.to_py_object(producer.export())
    driver.late_fill(LEGACY, block, 8.0, N)
    t.__dlpack__(stream=b)
    assert driver.read(block, b, N) == [8.0] * N
    del t
    assert producer.deletes == 1


# Managed and pinned memory, other devices


def test_managed_memory_waits_for_the_host(driver: Driver) -> None:
    address, a = driver.alloc(SIZE, kind="managed"), driver.stream()
    producer = Producer(address, shape=(N,), device=(13, 0))
    t = candle.from_dlpack(producer.capsule(), stream=a)
    assert t.__dlpack_device__() == (2, 0)
    driver.late_fill(a, address, 6.0, N)
    before = driver.counters().host_syncs
    fields = info(capsule := t.__dlpack__(dl_device=(1, 0), max_version=(1, 3)))
    assert driver.counters().host_syncs == before + 1
    assert (fields.device, fields.data, fields.flags) == ((1, 0), address, 0)
    assert struct.unpack(f"{N}f", driver.view(address, SIZE)) == (6.0,) * N
    driver.late_fill(a, address, 7.0, N)
    assert info(t.__dlpack__(stream=driver.stream())).device == (2, 0)
    driver.fail("cuStreamSynchronize", 700)
    exports = live()["exports"]
    with pytest.raises(BufferError, match=r"cannot wait .*\(700\)"):
        t.__dlpack__(dl_device=(1, 0))
    assert live()["exports"] == exports
    del capsule, t
    assert producer.deletes == 1
    driver.drain()
    driver.free(address)


def test_managed_memory_of_a_producer_that_is_asked_again(driver: Driver) -> None:
    address, a = driver.alloc(SIZE, kind="managed"), driver.stream()

    class Managed(Known):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (13, 0)

    x = Managed(driver, address, a)
    x.producer = Producer(address, shape=(N,), device=(13, 0))
    t = candle.from_dlpack(x)
    driver.late_fill(a, address, 6.0, N)
    t.__dlpack__(dl_device=(1, 0))
    assert struct.unpack(f"{N}f", driver.view(address, SIZE)) == (6.0,) * N
    driver.free(address)


def test_managed_memory_of_an_interface(driver: Driver) -> None:
    """Read on the host as it lies, once the stream that it names is done; or copied, as asked."""
    address, a = driver.alloc(SIZE, kind="managed"), driver.stream()
    for value, stream in ((6.0, a), (7.0, LEGACY), (8.0, PER_THREAD)):
        t = candle.asarray(Interface(address, stream=stream))
        driver.late_fill(stream, address, value, N)
        fields = info(t.__dlpack__(dl_device=(1, 0), max_version=(1, 3)))
        assert (fields.device, fields.data, fields.flags) == ((1, 0), address, 0)
        assert struct.unpack(f"{N}f", driver.view(address, SIZE)) == (value,) * N
    del t
    driver.free(address)


def test_managed_memory_is_copied_where_a_copy_is_asked_for(cupy: Any, driver: Driver) -> None:
    address, a = driver.alloc(SIZE, kind="managed"), driver.stream()
    producer = Producer(address, shape=(N,), device=(13, 0))
    t = candle.from_dlpack(producer.capsule(), stream=a)
    driver.late_fill(a, address, 6.0, N)
    keywords: Any = {"dl_device": (1, 0), "max_version": (1, 3)}
    fields = info(capsule := t.__dlpack__(copy=True, **keywords))
    assert (fields.device, fields.data == address) == ((1, 0), False)
    assert candle.from_dlpack(capsule).tolist() == [6.0] * N
    assert info(t.__dlpack__(copy=False, **keywords)).data == address
    del t, capsule
    driver.drain()
    driver.free(address)


def test_an_interface_over_pinned_memory_is_the_devices(driver: Driver) -> None:
    """Whoever has an interface speaks of a device that reads it."""
    address = driver.alloc(SIZE, kind="pinned")
    for shape in ((N,), (0,)):
        t = candle.asarray(Interface(address, shape=shape))
        assert (t.__dlpack_device__(), t.data_ptr() in (address, 0)) == ((2, 0), True)
    del t
    driver.free(address)


@pytest.mark.parametrize("shape", [(N,), (0,)])
def test_an_interface_that_changes(driver: Driver, block: int, shape: tuple[int]) -> None:
    """Elsewhere there are no elements any more; of none it does not matter."""

    class Changing(Interface):
        later: Any = None

        @property
        def __cuda_array_interface__(self) -> Any:
            return super().__cuda_array_interface__ if self.later is None else self.later

    x = Changing(block, shape=shape)
    t = candle.asarray(x)
    good = x.__cuda_array_interface__
    for later in (
        [],
        {},
        "interface",
        {**good, "data": None},
        {**good, "data": [block, False]},
        {**good, "data": (block,)},
        {**good, "data": (block, False, 0)},
        {**good, "data": ("here", False)},
        {**good, "data": (-1, False)},
        {**good, "data": (1 << 70, False)},
    ):
        x.later = later
        if shape == (0,):
            assert info(t.__dlpack__(stream=LEGACY)).shape == (0,)
            continue
        with pytest.raises(BufferError, match="has moved its memory"):
            t.__dlpack__(stream=LEGACY)
    x.later = None
    assert info(t.__dlpack__(stream=LEGACY)).shape == shape


def test_pinned_memory_is_the_hosts(driver: Driver) -> None:
    address = driver.alloc(SIZE, kind="pinned")
    driver.trace()
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(3, 0)))
    assert t.__dlpack_device__() == (3, 0)
    t[...] = 5
    for stream in (None, -1, 0, 1, driver.stream()):
        assert info(t.__dlpack__(stream=stream)).device == (3, 0)
    assert info(t.__dlpack__(dl_device=(1, 0))).device == (1, 0)
    array = t.numpy(copy=False)
    assert array.ctypes.data == address
    assert np.from_dlpack(t).tolist() == [5.0] * N
    assert not any("Event" in name for name in names(driver))
    del t, array
    driver.free(address)
