"""Tests on a real CUDA device; skipped where there is none. `report.py` runs them, and timings."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SLEEP_CYCLES = 40_000_000  # about 20 ms


def device_count() -> int:
    """How many CUDA devices the driver of this machine has."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


@pytest.fixture(scope="session")
def _devices() -> int:
    count = device_count()
    if count == 0:
        pytest.skip("no CUDA device")
    return count


@pytest.fixture
def two_devices(_devices: int) -> None:
    """Skips where there is one device only."""
    if _devices < 2:
        pytest.skip("one CUDA device only")


@pytest.fixture
def torch(_devices: int) -> Iterator[Any]:
    """Torch with CUDA; the device is idle before and after."""
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch has no CUDA")
    module.cuda.synchronize()
    yield module
    module.cuda.synchronize()


@pytest.fixture
def cupy(_devices: int) -> Any:
    """Cupy with CUDA."""
    module = pytest.importorskip("cupy")
    if not module.is_available():
        pytest.skip("cupy finds no device")
    return module


@pytest.fixture
def jax(_devices: int) -> Any:
    """Jax with CUDA, which does not take all memory for itself."""
    import os

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    module = pytest.importorskip("jax")
    if module.default_backend() != "gpu":
        pytest.skip("jax has no CUDA")
    return module


@pytest.fixture
def write_late(torch: Any) -> Callable[[Any, float, Any], None]:
    """`write_late(x, value, stream)` fills a torch tensor on a stream, behind a long kernel."""

    def write(x: Any, value: float, stream: Any) -> None:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SLEEP_CYCLES)
            x.fill_(value)

    return write


@pytest.fixture
def read_on() -> Callable[[Any, Any], float]:
    """`read_on(a, stream)` reads a cupy array on a stream and waits for that one alone."""

    def read(a: Any, stream: Any) -> float:
        with stream:
            host = a[:1].copy().get()
            stream.synchronize()
        return float(host[0])

    return read
