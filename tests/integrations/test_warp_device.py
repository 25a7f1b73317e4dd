"""warp's own arrays and streams over the fake CUDA driver: warp loads whatever driver there is.

Its allocator and kernels ask for more than the fake driver has, so that the memory is the driver's.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import fake_driver
import isolation
import pytest
from conftest import load

import candle
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 24


@pytest.fixture
def driver() -> Iterator[Driver | None]:
    """The fake driver, idle, whose work is held back until somebody waits."""
    try:
        fake_driver.build()
    except fake_driver.NoCompiler as error:
        pytest.skip(str(error))
    if not isolation.is_child():
        yield None
        return
    driver = fake_driver.load()
    driver.drain()
    with driver.hold():
        yield driver
    driver.drain()


@pytest.fixture
def warp(driver: Driver | None, request: pytest.FixtureRequest) -> Any:
    """warp with the fake driver's devices; None in the parent process."""
    warp = load("warp", request)
    if warp is not None:
        warp.config.quiet = True
        warp.init()
        if not warp.is_cuda_available():
            pytest.skip("this warp does not take the fake driver")
    return warp


def array(warp: Any, driver: Driver, device: int) -> Any:
    address = driver.alloc(4 * N, device)
    return warp.array(ptr=address, shape=(4, 6), dtype=warp.float32, device=f"cuda:{device}")


@pytest.mark.parametrize("current", [-1, 0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_a_consumer_comes_after_warps_stream(
    warp: Any, driver: Driver, device: int, current: int
) -> None:
    """After warp's stream of then, and of now, whatever device this thread is on.

    The control, a stream that nobody has wait, comes before.
    """
    x, consumer = array(warp, driver, device), driver.stream(device)
    streams = warp.get_stream(f"cuda:{device}"), warp.Stream(f"cuda:{device}")
    if current >= 0:
        driver.device = current
    t = candle.Tensor(x, copy=False)
    assert (str(t.device), t.data_ptr(), t.shape) == (f"cuda:{device}", x.ptr, (4, 6))
    for number, stream in enumerate(streams, 5):
        with warp.ScopedStream(stream):
            driver.late_fill(stream.cuda_stream, x.ptr, float(number), N)
            assert driver.read(x.ptr, driver.stream(device), N) != [number] * N
            t.T.__dlpack__(stream=consumer)
            assert driver.read(x.ptr, consumer, N) == [number] * N


def test_warp_takes_what_candle_hands_out(warp: Any, driver: Driver) -> None:
    """Its current stream comes after the producer's, and the memory goes back once."""
    earlier, stream = driver.stream(), warp.Stream("cuda:0")
    producer = Producer(driver.alloc(4 * N), shape=(4, 6), device=(2, 0))
    t = candle.from_dlpack(producer.capsule(), stream=earlier)
    driver.late_fill(earlier, producer.address, 5.0, N)
    with warp.ScopedStream(stream):
        assert driver.read(producer.address, stream.cuda_stream, N) != [5.0] * N
        x, y = candle.convert((t, t.T), "warp", copy=False)
    assert driver.read(producer.address, stream.cuda_stream, N) == [5.0] * N
    assert (x.ptr, str(x.device), x.shape) == (producer.address, "cuda:0", (4, 6))
    assert (y.ptr, y.shape, y.strides) == (producer.address, (6, 4), (4, 24))
    del t, x
    assert producer.deletes == 0
    del y
    assert producer.deletes == 1


def test_read_only_memory_goes_to_warp_on_the_callers_word(warp: Any, driver: Driver) -> None:
    producer = Producer(driver.alloc(4 * N), shape=(N,), device=(2, 0), flags=1)
    t = candle.from_dlpack(producer.capsule())
    assert t.readonly
    with pytest.raises(BufferError, match="copies on CUDA devices are made by"):
        candle.convert(t, "warp")
    x = candle.convert(t, "warp", copy=False)
    assert x.ptr == t.data_ptr()
    del t, x
    gc.collect()  # the traceback has what was refused
    assert producer.deletes == 1
