"""Frameworks that cannot name their current stream; a driver, and memory, that fail meanwhile."""

from __future__ import annotations

import ctypes
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import arrow_structs
import pytest
from fake_driver import LEGACY
from faults import Faults

import candle
from candle._native import _core
from candle.testing import Producer, exchange_api, live

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 16
SAID = "say which stream is current"


class Stream:
    """A stream object of no library that candle knows; `answer` is what it says of itself."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __cuda_stream__(self) -> Any:
        if self.answer is KeyError:
            raise KeyError("mine")
        return self.answer


class Interface:
    """The CUDA array interface over memory of the fake driver."""

    def __init__(self, address: int, stream: int | None) -> None:
        self.__cuda_array_interface__ = {
            "shape": (N,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
            "stream": stream,
        }


def lent(block: int, stream: int | None = None) -> candle.Tensor:
    return candle.from_dlpack(
        Producer(block, shape=(N,), device=(2, 0)).capsule(True), stream=stream
    )


def test_cupy_cannot_name_its_stream(
    cupy: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each move that has to be ordered is refused, nothing is kept, and it goes on afterwards."""
    [table] = exchange_api(candle.Tensor)
    x, b = cupy.empty(N, "float32"), driver.stream()
    t = candle.from_dlpack(x)
    foreign = Producer(x.data.ptr, shape=(N,), device=(2, 0))
    moves = {
        "in": lambda: candle.from_dlpack(x),
        "capsule": lambda: t.__dlpack__(stream=b),
        "interface": lambda: t.__cuda_array_interface__,
        "wait_for": lambda: t.wait_for(b),
        "Arrow": t.__arrow_c_device_array__,
        "stream of the table": lambda: table.current_work_stream((2, 0)),
        "out by the table": lambda: table.from_py_object(t),
        "borrowed by the table": lambda: table.dltensor_from_py_object(t),
        "in by the table": lambda: table.to_py_object(foreign.export()),
    }
    error = RuntimeError("out of luck")

    def fail(*_: Any) -> Any:
        raise error

    class Nameless:
        """No stream: it has neither a handle nor a protocol that any library has."""

        def __cuda_stream__(self) -> Any:
            return "none"

    before = live()
    with monkeypatch.context() as patch:
        patch.setattr(cupy.cuda, "get_current_stream", lambda *_: Nameless())
        for name, move in moves.items():
            with pytest.raises(BufferError, match=f"{SAID}|gives 'none', not a version") as caught:
                move()
            assert "gives 'none'" in str(caught.value.__cause__ or caught.value), name
            del caught
            assert live() == before, name
    with monkeypatch.context() as patch:
        patch.setattr(cupy.cuda, "get_current_stream", fail)
        for name, move in moves.items():
            with pytest.raises(BufferError, match=SAID) as caught:
                move()
            assert caught.value.__cause__ is error, name
            del caught
            assert live() == before, name
    assert foreign.deletes == 2, "what a table takes is its own, refused or not"
    t.__dlpack__(stream=b)


def test_torch_cannot_name_its_stream(
    torch: Any, driver: Driver, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = lent(block, driver.stream())
    t.torch()

    def fail(*_: Any) -> Any:
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "current_stream", fail)
        with pytest.raises(BufferError, match=f"torch.*{SAID}|{SAID}"):
            t.torch()
    assert t.torch().data_ptr() == block


def test_memory_that_torch_does_not_take(in_child: Any) -> None:
    """What it does with the struct then is not told: it is left alone, and so is the memory."""
    pytest.importorskip("torch")
    in_child(
        """
        import candle
        from candle.testing import Producer
        producer = Producer(1 << 40, shape=(4,), device=(14, 0))
        t = candle.from_dlpack(producer.capsule(True))
        try:
            t.torch()
        except BufferError as error:
            assert str(error).startswith("torch does not take this memory: "), error
        else:
            raise AssertionError("torch has oneAPI")
        del t
        assert producer.deletes == 0
        """
    ).check()


def test_the_producer_of_an_interface_waits(driver: Driver, block: int) -> None:
    """On the stream that the interface names now; on the default one where it names none."""
    a, b = driver.stream(), driver.stream()
    for value, stream, reader in ((7.0, a, a), (8.0, None, LEGACY)):
        t = candle.asarray(Interface(block, stream))
        driver.late_fill(b, block, value, N)
        assert driver.read(block, reader, N) != [value] * N
        t.wait_for(b)
        assert driver.read(block, reader, N) == [value] * N


ANSWERS: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "gives None, not a version and a handle"),
    ([0, 5], TypeError, r"gives \[0, 5\], not a version and a handle"),
    ((0,), TypeError, r"gives \(0,\), not a version and a handle"),
    ((0, 1, 2), TypeError, "not a version and a handle"),
    (("0", 1), TypeError, "speaks version '0' of the protocol"),
    ((1 << 70, 1), TypeError, "of the protocol, and candle knows 0"),
    ((0, None), TypeError, "a stream's handle is an int, not None"),
    ((0, -1), ValueError, "-1 is no handle"),
    ((0, 1 << 64), ValueError, "is no handle"),
    (KeyError, KeyError, "mine"),
]


def test_what_a_stream_says_of_itself(driver: Driver, block: int) -> None:
    t = lent(block, driver.stream())
    for answer, kind, said in ANSWERS:
        for move in (t.wait_for, t.record_stream):
            with pytest.raises(kind, match=said):
                move(Stream(answer))
    with pytest.raises(KeyError, match="mine"):
        candle.from_dlpack(
            Producer(block, shape=(N,), device=(2, 0)).capsule(True),
            stream=Stream(KeyError),
        )

    class Property:
        @property
        def __cuda_stream__(self) -> Any:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        t.wait_for(Property())
    older = Stream(None)
    older.__cuda_stream__ = (0, driver.stream())  # type: ignore[method-assign]
    t.wait_for(older)


def check_each(driver: Driver, name: str, t: candle.Tensor) -> None:
    stream, before = Stream((0, driver.stream())), live()
    for doing, move in (
        ("keep the memory for a stream", lambda: t.record_stream(stream)),
        ("make the producer's stream wait", lambda: t.wait_for(stream)),
        ("mark the end of the producer's work", t.__arrow_c_device_array__),
    ):
        driver.fail(name, 719)
        with pytest.raises(BufferError, match=rf"candle cannot {doing}: .*\(719\)"):
            move()
        assert live() == before
    t.record_stream(stream)


@pytest.mark.parametrize("name", ["cuCtxPushCurrent_v2", "cuEventCreate", "cuEventRecord"])
def test_a_driver_that_fails_meanwhile(driver: Driver, block: int, name: str) -> None:
    producer = Producer(block, shape=(N,), device=(2, 0))
    check_each(driver, name, candle.from_dlpack(producer.capsule(True), stream=driver.stream()))
    assert producer.deletes == 1


class Event:
    """Work whose end an event marks, as the Arrow C device interface points to it."""

    def __init__(self, driver: Driver, stream: int) -> None:
        with driver.on(0):
            self.event = driver.call("cuEventCreate", 2)
            driver.call("cuEventRecord", self.event, stream)
        self.place = ctypes.c_void_p(self.event)


def column(block: int, kind: int, event: Event) -> arrow_structs.DeviceExporter:
    made = arrow_structs.array(N, [None, block])
    place = ctypes.addressof(event.place)
    return arrow_structs.DeviceExporter(arrow_structs.schema("f"), made, (kind, 0), place)


def test_every_call_of_the_driver_fails_in_turn(driver: Driver, block: int) -> None:
    """Each is told, leaves nothing behind, and the move goes well the next time."""
    a, b = driver.stream(), driver.stream()
    pinned, managed = driver.alloc(4 * N, kind="pinned"), driver.alloc(4 * N, kind="managed")
    event = Event(driver, a)
    [table] = exchange_api(candle.Tensor)

    def of_managed() -> candle.Tensor:
        producer = Producer(managed, shape=(N,), device=(13, 0))
        return candle.from_dlpack(producer.capsule(True), stream=a)

    versioned: Any = {"stream": b, "max_version": (1, 3)}
    moves: dict[str, Callable[[], object]] = {
        "capsule": lambda: lent(block, a).__dlpack__(stream=b),
        "interface out": lambda: candle.asarray(Interface(block, a)).__cuda_array_interface__,
        "interface in": lambda: candle.asarray(Interface(block, a)).__dlpack__(stream=b),
        "empty interface": lambda: candle.asarray(Interface(block, a))[:0].__dlpack__(stream=b),
        "table": lambda: table.from_py_object(lent(block, a)).release(),
        "borrowed": lambda: table.dltensor_from_py_object(lent(block, a)),
        "recorded": lambda: lent(block, a).record_stream(Stream((0, b))),
        "waited for": lambda: lent(block, a).wait_for(b),
        "Arrow out": lambda: lent(block, a).__arrow_c_device_array__(),
        "Arrow in": lambda: candle.from_arrow(column(block, 2, event)).__dlpack__(**versioned),
        "Arrow in, pinned": lambda: candle.from_arrow(column(pinned, 3, event)),
        "to the host": lambda: of_managed().__dlpack__(dl_device=(1, 0)),
        "to the host, from the default stream": lambda: candle.from_dlpack(
            Producer(managed, shape=(N,), device=(13, 0)).capsule(True)
        ).__dlpack__(dl_device=(1, 0)),
    }
    failures = 0
    for name, move in moves.items():
        move()
        driver.trace()
        move()
        seen: Counter[str] = Counter()
        before = live()
        for called in driver.trace():
            after = seen[called.name]
            seen[called.name] += 1
            for entry in (called.name, called.name + "_v2"):
                driver.fail(entry, 719, after=after)
            told = None
            try:
                move()
            except BufferError as error:
                told = str(error)
                failures += 1
            assert told is None or "(719)" in told or "not know its address" in told, (name, told)
            for entry in (called.name, called.name + "_v2"):
                driver.fail(entry, 719, times=0)
            assert live() == before, (name, called)
            move()
    assert failures > 50
    driver.drain()
    driver.free(pinned)
    driver.free(managed)


HIDDEN = """
import os, sys
import fake_driver
driver = fake_driver.load()
import candle
from candle.testing import Producer
t = candle.from_dlpack(Producer(1 << 40, shape=(4,), device=(2, 0)).capsule(True))
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        driver.hide(name)
        try:
            t.__dlpack__(stream=1 << 20)
        except BufferError as error:
            print(name, "is needed" if "too old" in str(error) else error, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def test_a_driver_that_lacks_an_entry_point(in_child: Any) -> None:
    needed = [
        *("cuInit", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxGetState"),
        *("cuCtxPushCurrent", "cuCtxPopCurrent", "cuCtxGetDevice"),
        *("cuEventCreate", "cuEventRecord", "cuEventDestroy", "cuStreamWaitEvent"),
        *("cuStreamSynchronize", "cuStreamIsCapturing", "cuPointerGetAttributes"),
    ]
    said = in_child(HIDDEN, *needed, "cuGetErrorName").check().splitlines()
    assert said[:-1] == [f"{name} is needed" for name in needed]
    # Without it an error has a number and no name.
    assert said[-1].startswith("cuGetErrorName candle cannot make")
    assert "error (" in said[-1]


@cache
def faults_of_the_core() -> Faults:
    """Its hooks are put in once a process."""
    assert _core.__file__ is not None
    return Faults(_core.__file__)


def record_without_memory(driver: Driver, faults: Faults, t: candle.Tensor) -> int:
    failed = 0
    for _word, armed in faults.each(native=True):
        stream = Stream((0, driver.stream()))
        try:
            armed(lambda stream=stream: t.record_stream(stream))
        except MemoryError:
            failed += 1
    return failed


def test_no_memory_to_mark_the_end_of_work(driver: Driver, block: int) -> None:
    """No event is left behind, whichever allocation of the structs fails."""
    faults, failed = faults_of_the_core(), 0
    stream, before = driver.stream(), live()
    lent(block, stream).__arrow_c_device_array__()
    driver.trace()
    for word, armed in faults.each(native=True):
        try:
            armed(lambda: lent(block, stream).__arrow_c_device_array__())
        except MemoryError:
            failed += 1
        called = Counter(one.name for one in driver.trace())
        assert called["cuEventCreate"] == called["cuEventDestroy"], word
        assert live() == before, word
    assert failed >= 4


def test_no_memory_to_keep_a_stream(driver: Driver, block: int) -> None:
    producer = Producer(block, shape=(N,), device=(2, 0))
    t = [candle.from_dlpack(producer.capsule(True), stream=driver.stream())]
    assert record_without_memory(driver, faults_of_the_core(), t.pop()) >= 1
    assert producer.deletes == 1
