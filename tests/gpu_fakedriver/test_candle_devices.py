"""Producers are asked while their device is current, and devices that are not there are refused."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from device_producers import InterfaceOnly

import candle
from candle.testing import Producer, info, live

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 16
SIZE = 4 * N


class Strict:
    """A producer that refuses, as torch does, when its device is not the current one."""

    def __init__(self, driver: Driver, address: int, device: int, kind: int = 2) -> None:
        self.driver, self.device, self.kind = driver, device, kind
        self.producer = Producer(address, shape=(N,), device=(kind, device))
        self.seen: list[int] = []
        self.exactly: list[int] = []  # as the driver has it: -1 is no device

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, self.device)

    def __dlpack__(self, *, stream: int | None = None, **_keywords: Any) -> object:
        current = max(self.driver.device, 0)  # as the CUDA runtime counts
        self.seen.append(current)
        self.exactly.append(self.driver.device)
        if current != self.device:
            raise BufferError(f"Expected: {self.device}. Current device: {current}.")
        return self.producer.capsule(True)


@pytest.mark.parametrize("kind", [2, 13])
@pytest.mark.parametrize("current", [-1, 0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_a_producer_is_asked_on_its_device(
    driver: Driver, device: int, current: int, kind: int
) -> None:
    """At the import and when it is asked again, from whatever device; which is current as before.

    The control asks it as it is.
    """
    managed = kind == 13
    address = driver.alloc(SIZE, device, kind="managed" if managed else "device")
    with driver.context(device):  # the device is in use
        pass
    x = Strict(driver, address, device, kind)

    def exchange() -> None:
        if current >= 0:
            driver.device = current
        before = driver.device
        t = candle.from_dlpack(x)
        t[1:].__dlpack__(stream=1)
        t.__cuda_array_interface__  # noqa: B018
        assert driver.device == before
        assert set(x.exactly) == {device}, "who calls the driver (warp) has no device 0 by default"
        if max(current, 0) != device:
            with pytest.raises(BufferError, match="Current device"):
                x.__dlpack__(stream=-1)
        else:
            x.__dlpack__(stream=-1)

    errors: list[BaseException] = []

    def run() -> None:
        try:
            exchange()
        except BaseException as error:
            errors.append(error)

    with driver.context(device):
        thread = threading.Thread(target=run)  # a thread without a context of its own
        thread.start()
        thread.join()
    assert not errors, errors[0]
    assert x.seen[:3] == [device] * 3
    driver.free(address)


def test_a_device_that_raises_is_left_again(driver: Driver) -> None:
    address = driver.alloc(SIZE, 1)

    class Broken(Strict):
        def __dlpack__(self, **keywords: Any) -> object:
            raise RuntimeError("boom")

    with driver.context(1), driver.on(0):
        before = driver.device
        with pytest.raises(BufferError, match="boom"):
            candle.from_dlpack(Broken(driver, address, 1))
        assert driver.device == before
    driver.free(address)


@pytest.mark.parametrize(
    "name",
    [
        "cuCtxGetDevice",
        "cuDevicePrimaryCtxGetState",
        "cuDevicePrimaryCtxRetain",
        "cuCtxPushCurrent",
    ],
)
def test_a_driver_that_cannot_make_a_device_current(driver: Driver, name: str) -> None:
    """The producer is asked as it is, and says itself what it lacks; all contexts stay."""
    address = driver.alloc(SIZE, 1)
    with driver.context(1), driver.on(0):
        x, before = Strict(driver, address, 1), driver.device
        driver.fail(name, 719, times=9)
        try:
            taken = candle.from_dlpack(x)
        except BufferError as error:
            assert "Current device" in str(error)  # noqa: PT017
        else:
            assert x.seen == [1], "its context was retained before"
            del taken
        driver.fail(name, 719, times=0)
        assert driver.device == before
        assert candle.from_dlpack(x).device == "cuda:1"
    driver.free(address)


IN_USE = """
import fake_driver
driver = fake_driver.load()
import candle
from candle.testing import Producer
class Known:
    def __dlpack_device__(self): return (2, 1)
    def __dlpack__(self, **_): return Producer(1 << 40, shape=(4,), device=(2, 1)).capsule(True)
driver.trace()
candle.from_dlpack(Known()).__dlpack__(stream=-1)
called = {call.name for call in driver.trace()} - {"cuGetProcAddress"}
print(driver.retained(1), sorted(called))
"""


def test_no_context_is_made_for_a_device_that_is_not_in_use(in_child: Any) -> None:
    said = in_child(IN_USE).check().strip()
    assert said == "0 ['cuCtxGetDevice', 'cuDevicePrimaryCtxGetState', 'cuInit']"


@pytest.mark.parametrize("device", [(2, -1), (2, 1 << 40), (3, 0), (11, 0), (1, 1)])
def test_a_device_that_nobody_has(driver: Driver, device: Any) -> None:
    """Before anybody is asked to copy: torch takes -1 for the current one."""
    address = driver.alloc(SIZE)
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0)).capsule())
    before = live()
    for copy in (None, True, False):
        with pytest.raises(BufferError, match="no device that candle exports to"):
            t.__dlpack__(dl_device=device, copy=copy)
    assert live() == before
    del t
    driver.free(address)


def test_an_interface_without_elements_has_a_device(driver: Driver) -> None:
    """That of its address, if it names one; else the current one."""
    address = driver.alloc(SIZE, 1)

    class Empty:
        def __init__(self, address: int) -> None:
            self.__cuda_array_interface__ = {
                "shape": (0, 3),
                "typestr": "<f4",
                "data": (address, False),
                "version": 3,
            }

    assert candle.asarray(Empty(address)).device == "cuda:1"
    assert candle.asarray(Empty(0)).device == "cuda:0"
    assert candle.asarray(Empty(0x1234_5678_9000)).device == "cuda:0"
    with driver.context(1):
        assert candle.asarray(Empty(0)).device == "cuda:1"
    driver.fail("cuPointerGetAttributes", 719)
    assert candle.asarray(Empty(address)).device == "cuda:0"  # nothing depends on it
    driver.fail("cuPointerGetAttributes", 719, times=0)
    driver.free(address)


def test_interfaces_of_device_memory_that_are_wrong(driver: Driver) -> None:
    """And such as only look so: an axis that nobody walks may have any stride."""
    address = driver.alloc(SIZE)

    def read(**fields: Any) -> candle.Tensor:
        return candle.asarray(InterfaceOnly(address=address, **fields))

    t = read(shape=(1, 4, 1), strides=(3, 4, 1))
    assert (t.shape, t.stride, t.data_ptr()) == ((1, 4, 1), (4, 1, 1), address)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("shape is not a tuple", {"shape": [4]}),
        ("shape is not a tuple", {"shape": None}),
        ("strides are not a tuple as long as the shape", {"strides": [12, 4]}),
        ("strides are not a tuple as long as the shape", {"strides": (4,)}),
        ("address and read-only flag", {"data": NotImplemented}),
        ("address and read-only flag", {"data": [address, False]}),
        ("address and read-only flag", {"data": (address,)}),
        ("address and read-only flag", {"data": ("here", False)}),
        ("foreign byte order", {"typestr": ">f4"}),
        ("no multiple of the item", {"strides": (14, 4)}),
        ("beyond the address space", {"strides": (1 << 61, 4)}),
        ("beyond the address space", {"strides": (-(1 << 61), 4)}),
    ]
    before = live()
    for said, fields in wrong:
        with pytest.raises(BufferError, match=said):
            read(**fields)
    assert live() == before
    driver.free(address)


def test_memory_without_elements_moves_as_it_likes(driver: Driver) -> None:
    """A producer that is asked again may name any address for nothing."""

    class Empty:
        address = 0x7000_0000_0000

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **_keywords: Any) -> object:
            self.address += 512
            return Producer(self.address, shape=(0, 3), device=(2, 0)).capsule(True)

    t = candle.from_dlpack(Empty())
    fields = info(t.__dlpack__(stream=driver.stream()))
    assert (fields.shape, fields.data) == ((0, 3), 0)


def test_a_producer_that_gives_no_capsule_the_second_time(driver: Driver) -> None:
    """It was asked to order its work; whether its memory is still there, nobody has said."""
    address, b = driver.alloc(SIZE), driver.stream()
    used = Producer(address, shape=(N,), device=(2, 0)).capsule(True)
    candle.from_dlpack(used)

    class Fickle(Producer):
        def __dlpack__(self, **keywords: Any) -> object:
            return self.later if self.calls else super().__dlpack__(**keywords)

    for later in (None, 5, (used,), used, "dltensor"):
        x = Fickle(address, shape=(N,), device=(2, 0))
        x.later = later
        t = candle.from_dlpack(x)
        with pytest.raises(BufferError, match="Fickle has moved its memory"):
            t.__dlpack__(stream=b)
        del t
        assert x.deletes == x.exports == 1
    driver.free(address)


class Stream:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


@pytest.mark.parametrize("which", ["gone", "another device's"])
def test_a_stream_that_the_memory_cannot_wait_for(driver: Driver, which: str) -> None:
    """Said where it is named: when memory goes, nobody could be told that nothing waited."""
    address, a, there = driver.alloc(SIZE), driver.stream(), driver.stream(1)
    if which == "gone":
        driver.destroy_stream(there)
    producer = Producer(address, shape=(N,), device=(2, 0))
    t = candle.from_dlpack(producer.capsule(), stream=a)
    driver.trace()
    for move in (t.record_stream, t.wait_for):
        with pytest.raises(BufferError, match=r"a stream is gone, or another device's; keep"):
            move(Stream(there))
    driver.trace()
    del t, move
    assert producer.deletes == 1
    assert driver.trace() == []
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0)).capsule(), stream=there)
    with pytest.raises(BufferError, match=r"a stream is gone, or another device's; keep"):
        t.__dlpack__(stream=a)
    del t
    driver.free(address)


def test_recording_a_stream_orders_nothing(driver: Driver) -> None:
    """What the stream does later, and what the owner does, wait for nothing."""
    address, a, b = driver.alloc(SIZE), driver.stream(), driver.stream()
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0)).capsule(), stream=a)
    driver.late_fill(a, address, 3.0, N)
    driver.trace()
    t.record_stream(Stream(b))
    assert not any("Wait" in call.name or "Sync" in call.name for call in driver.trace())
    assert driver.read(address, b) != [3.0]
    del t
    driver.drain()
    driver.free(address)


def test_a_consumer_on_another_device(driver: Driver) -> None:
    """Its stream waits for the memory's device."""
    address, a, there = driver.alloc(SIZE), driver.stream(), driver.stream(1)
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0)).capsule(), stream=a)
    driver.late_fill(a, address, 3.0, N)
    assert driver.read(address, there, N, device=1) != [3.0] * N
    t.__dlpack__(stream=there)
    assert driver.read(address, there, N, device=1) == [3.0] * N
    del t
    driver.free(address)


def test_streams_of_cuda_core(driver: Driver) -> None:
    """As an origin, recorded, and waited for; held for as long as they are needed."""
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream, writer, reader = device.create_stream(), device.create_stream(), driver.stream()
    address = driver.alloc(SIZE)
    producer = Producer(address, shape=(N,), device=(2, 0))
    t = candle.from_dlpack(producer.capsule(), stream=stream)
    driver.late_fill(int(stream.handle), address, 3.0, N)
    assert driver.read(address, reader, N) != [3.0] * N
    t.__dlpack__(stream=reader)
    assert driver.read(address, reader, N) == [3.0] * N
    driver.late_fill(int(writer.handle), address, 4.0, N)
    t.wait_for(writer)
    assert driver.read(address, int(stream.handle), N) == [4.0] * N
    t.record_stream(writer)
    del stream, writer
    t.__dlpack__(stream=reader)  # its handle is still the same stream's
    del t
    assert producer.deletes == 1
    driver.drain()
    driver.device = -1
    driver.free(address)
