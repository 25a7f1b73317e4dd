"""The stand-in for cupy on the fake driver."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import races

from candle.testing import Producer, info

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")


class Direct:
    """What a consumer asks of cupy, with nobody in between."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def export(self, stream: int) -> int:
        with self.x.device:
            self.x.__dlpack__(stream=stream)
        return self.x.data.ptr


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("case", races.CASES)
def test_cupy_orders_its_current_stream(cupy: Any, driver: Driver, case: str, device: int) -> None:
    import fake_cupy

    framework = fake_cupy.CupyFramework(device)
    right = races.play(driver, case, Direct, framework, device)
    assert right == (case in races.Relay.right)


def test_streams_are_current_per_thread_and_device(cupy: Any) -> None:
    current, a = cupy.cuda.get_current_stream, cupy.cuda.Stream(non_blocking=True)
    seen = []
    with a:
        assert current() is a
        assert current(1) is cupy.cuda.Stream.null
        with cupy.cuda.Device(1):
            assert current() is cupy.cuda.Stream.null
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == [cupy.cuda.Stream.null]
    assert a.__cuda_stream__() == (0, a.ptr)


def test_a_handle_dies_with_its_stream(cupy: Any, driver: Driver) -> None:
    a = cupy.cuda.Stream()
    handle = a.ptr
    assert driver.name(handle) != "s0"
    del a
    assert driver.name(handle) == "s0"


def test_kernels_are_late(cupy: Any, driver: Driver) -> None:
    a, b = cupy.cuda.Stream(non_blocking=True), driver.stream()
    with a:
        x = cupy.asarray(np.arange(12.0).reshape(3, 4))
        y = x[1:, ::2].T.astype("float32", order="C", copy=True)
        assert driver.read(y.data.ptr, b) != [4.0]
        assert np.array_equal(y.get(), np.array([[4, 8], [6, 10]], "f4"))
        assert y.shape == (2, 2)
        assert y.strides == (8, 4)


def test_exchange_keeps_memory_as_long_as_needed(cupy: Any, driver: Driver) -> None:
    before = driver.counters().live
    x = cupy.empty((3, 4), "float32")
    y = cupy.from_dlpack(x)
    assert y.data.ptr == x.data.ptr
    assert y.shape == (3, 4)
    capsule = x.__dlpack__(max_version=(1, 0))
    assert info(capsule).device == (2, 0)
    del x, capsule
    assert driver.counters().live == before + 1
    del y
    gc.collect()
    assert driver.counters().live == before


@pytest.mark.parametrize("kind", [1, 3, 10, 14])
def test_it_takes_cuda_memory_alone(cupy: Any, kind: int) -> None:
    producer = Producer(shape=(2,), device=(kind, 0))
    with pytest.raises(TypeError):
        cupy.from_dlpack(producer)
    assert producer.calls == []


def test_it_passes_its_current_stream(cupy: Any) -> None:
    class Old:
        """Knows no `max_version`."""

        def __init__(self) -> None:
            self.streams: list[Any] = []
            self.producer = Producer(shape=(2,), device=(2, 1))

        def __dlpack_device__(self) -> Any:
            return (2, 1)

        def __dlpack__(self, *, stream: Any = None) -> Any:
            self.streams.append(stream)
            assert cupy.cuda.Device().id == 1
            return self.producer.__dlpack__()

    old = Old()
    cupy.from_dlpack(old)
    with cupy.cuda.Device(1):
        a = cupy.cuda.Stream()
        with a:
            cupy.from_dlpack(old)
    assert old.streams == [1, a.ptr]
    assert old.producer.deletes == 2


def test_stream_zero_is_legacy_with_a_warning(cupy: Any, driver: Driver) -> None:
    x = cupy.empty(3)
    driver.trace()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        x.__dlpack__(stream=0)
    assert len(said) == 1
    assert driver.trace() == []


def test_pinned_memory_can_be_read_by_the_host(cupy: Any) -> None:
    import sys

    out = sys.modules["cupyx"].empty_pinned((2, 2), "uint8")
    cupy.asarray(np.full((2, 2), 7, "uint8")).get(out=out, blocking=True)
    assert out.tolist() == [[7, 7], [7, 7]]


def test_its_interface_names_its_stream(cupy: Any) -> None:
    x = cupy.empty((2, 3), "float32")
    interface = x.__cuda_array_interface__
    assert interface["version"] == 3
    assert interface["stream"] == 1
    assert interface["strides"] is None
    a = cupy.cuda.Stream()
    with a:
        assert x.T.__cuda_array_interface__["stream"] == a.ptr
        assert x.T.__cuda_array_interface__["strides"] == (4, 12)
