"""numba-cuda's own arrays over the fake driver, where it is installed.

It needs ``numba-cuda`` and ``nvidia-cuda-nvrtc-cu12``, which are too large for every run. Kernels
cannot be linked on the fake driver.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import isolation
import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 64


@pytest.fixture
def cuda(driver: Driver | None) -> Iterator[Any]:
    """numba.cuda; None in the parent process."""
    if not isolation.is_child():
        yield None
        return
    pytest.importorskip("numba_cuda")
    yield pytest.importorskip("numba.cuda")
    driver.drain()
    gc.collect()


def handle(stream: Any) -> int:
    return int(getattr(stream.handle, "value", stream.handle))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_consumer_comes_after_numbas_stream(cuda: Any, driver: Driver, ordered: bool) -> None:
    stream, consumer = cuda.stream(), driver.stream()
    x = cuda.to_device(np.zeros(N, "float32"), stream=stream)
    address = x.__cuda_array_interface__["data"][0]
    t = candle.asarray(x, copy=False)
    assert (str(t.device), t.shape, t.data_ptr()) == ("cuda:0", (N,), address)
    driver.late_fill(handle(stream), address, 5.0, N)
    t[::2].__dlpack__(stream=consumer if ordered else -1)
    assert (driver.read(address, consumer, N) == [5.0] * N) == ordered


def test_numba_takes_what_candle_hands_out(cuda: Any, driver: Driver) -> None:
    """It waits on the host for the stream that the interface names."""
    stream = driver.stream()
    x = cuda.device_array((8, 8), "float32")
    t = candle.asarray(x)
    driver.late_fill(stream, t.data_ptr(), 7.0, N)
    t.wait_for(stream)
    y = cuda.as_cuda_array(t.T)
    assert y.__cuda_array_interface__["data"] == x.__cuda_array_interface__["data"]
    assert (y.shape, y.strides) == ((8, 8), (4, 32))
    assert (y.copy_to_host() == 7.0).all()


@pytest.mark.parametrize("kind", ["mapped_array", "managed_array", "pinned_array"])
def test_numbas_arrays_on_the_host(cuda: Any, driver: Driver, kind: str) -> None:
    """They are numpy arrays, and come in as such."""
    x = getattr(cuda, kind)(N, "float32")
    x[...] = 3
    t = candle.asarray(x)
    assert (t.device, t.data_ptr()) == ("cpu", x.ctypes.data)
    t[0] = 4
    assert x[:2].tolist() == [4, 3]
