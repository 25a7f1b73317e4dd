"""Streams that belong to a thread: what another thread makes of their name, 2."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING, Any

import pytest
from fake_driver import LEGACY, PER_THREAD

import candle
from candle.testing import Producer, take

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 64
SIZE = 4 * N


class Stream:
    """A thread's default stream, as cupy has it with CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, PER_THREAD)


class Interface:
    def __init__(self, address: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (N,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
            "stream": PER_THREAD,
        }


class Worker:
    """A thread that lives for as long as the block, and does what it is told."""

    def __init__(self) -> None:
        self.ready, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.work: Callable[[], Any] | None = None
        self.result: Any = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while self.ready.acquire() and self.work is not None:
            try:
                self.result = self.work()
            finally:
                self.done.release()

    def __call__(self, work: Callable[[], Any]) -> Any:
        self.work, self.result = work, None
        self.ready.release()
        self.done.acquire()
        result, self.result = self.result, None
        return result

    def __enter__(self) -> Worker:
        self.thread.start()
        return self

    def stop(self) -> None:
        self.work = None
        self.ready.release()
        self.thread.join()

    def __exit__(self, *error: object) -> None:
        self.stop()


def capsule(address: int, **fields: Any) -> Any:
    return Producer(address, shape=(N,), device=(2, 0), **fields).capsule()


IMPORTS: dict[str, Callable[[int], Any]] = {
    "handle": lambda address: candle.from_dlpack(capsule(address), stream=PER_THREAD),
    "object": lambda address: candle.from_dlpack(capsule(address), stream=Stream()),
    "interface": lambda address: candle.asarray(Interface(address)),
}


@pytest.mark.parametrize("lives", [True, False])
@pytest.mark.parametrize("name", IMPORTS)
def test_what_is_pending_on_another_threads_stream_is_waited_for(
    driver: Driver, block: int, name: str, lives: bool
) -> None:
    """Whether that thread is still there or not; the control orders nothing."""

    def write_and_import(value: float) -> Any:
        driver.late_fill(PER_THREAD, block, value, N)
        return IMPORTS[name](block)

    consumer = driver.stream()
    for ordered in (False, True):
        with Worker() as worker:
            t = worker(lambda: write_and_import(5.0))
            if not lives:
                worker.stop()
            t.__dlpack__(stream=consumer if ordered else -1)
            found = driver.read(block, consumer, N)
            assert (found == [5.0] * N) == ordered
        driver.drain()
        del t
        driver.late_fill(LEGACY, block, 0.0, N)
        driver.drain()


def test_a_thread_names_its_own_stream(driver: Driver, block: int) -> None:
    """No detour by the legacy one, and no call to itself."""
    t = candle.from_dlpack(capsule(block), stream=PER_THREAD)
    driver.trace()
    t.__dlpack__(stream=PER_THREAD)
    assert driver.trace() == []
    assert t.__cuda_array_interface__["stream"] == PER_THREAD
    with Worker() as worker:
        assert worker(lambda: t.__cuda_array_interface__["stream"]) == LEGACY


def test_a_producer_on_another_threads_stream_waits(driver: Driver, block: int) -> None:
    """`wait_for`: the producer goes on, on the stream of its thread, after who has written."""
    writer = driver.stream()
    for waits in (False, True):
        with Worker() as worker:
            t = worker(lambda: candle.from_dlpack(capsule(block), stream=PER_THREAD))
            driver.late_fill(writer, block, 7.0, N)
            if waits:
                t.wait_for(writer)
            found = worker(lambda: driver.read(block, PER_THREAD, N))
            assert (found == [7.0] * N) == waits
        driver.drain()
        driver.late_fill(LEGACY, block, 0.0, N)
        driver.drain()


@pytest.mark.parametrize("records", [False, True])
def test_memory_waits_for_a_recorded_stream_of_a_thread(
    driver: Driver, block: int, records: bool
) -> None:
    """Though the last reference goes on another one."""
    owner, seen = driver.stream(), []
    held = [candle.from_dlpack(capsule(block), stream=owner)]
    driver.late_fill(owner, block, 5.0, N, delay_us=0)

    def consume() -> None:
        held[0].__dlpack__(stream=PER_THREAD)
        driver.launch(PER_THREAD, lambda: seen.append(driver.view(block, SIZE).cast("f")[0]))
        if records:
            held[0].record_stream(Stream())

    with Worker() as worker:
        worker(consume)
        taken = take(held.pop().__dlpack__(stream=-1))
        taken.release(foreign_thread=True)
        driver.late_fill(owner, block, 9.0, N, delay_us=0)  # the owner writes something new there
        driver.read(block, owner)
        driver.drain()
    assert seen == [5.0 if records else 9.0]


def test_the_host_waits_for_another_threads_stream(driver: Driver) -> None:
    """Managed memory that is handed to the host."""
    address = driver.alloc(SIZE, kind="managed")
    producer = Producer(address, shape=(N,), device=(13, 0))

    def write_and_import() -> Any:
        driver.late_fill(PER_THREAD, address, 6.0, N)
        return candle.from_dlpack(producer.capsule(), stream=PER_THREAD)

    with Worker() as worker:
        t = worker(write_and_import)
        t.__dlpack__(dl_device=(1, 0))
        assert struct.unpack(f"{N}f", driver.view(address, SIZE)) == (6.0,) * N
    del t
    assert producer.deletes == 1
    driver.free(address)
