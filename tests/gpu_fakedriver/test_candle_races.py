"""candle between two frameworks on late streams: right in every case that can be."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import races

import candle

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

# What a hop between two streams may call.
A_HOP = {
    "cuCtxPushCurrent",
    "cuStreamIsCapturing",
    "cuEventCreate",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuEventDestroy",
    "cuCtxPopCurrent",
}


def make_torch() -> Any:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("torch has CUDA of its own")
    import fake_torch_cuda

    fake_torch_cuda.install()
    return fake_torch_cuda.TorchFramework


def make_cupy() -> Any:
    import fake_cupy

    fake_cupy.install()
    return fake_cupy.CupyFramework


def make_core() -> Any:
    pytest.importorskip("cuda.core")
    import cuda_core_arrays

    return cuda_core_arrays.CoreFramework


MAKERS = {"torch": make_torch, "cupy": make_cupy, "cuda.core": make_core}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest, driver: Driver | None, balanced: None) -> Any:
    """Makes a framework for a device; None in the parent process."""
    return None if driver is None else MAKERS[request.param]()


class Candle:
    """Imports and exports as a user of candle does."""

    def __init__(self, x: Any) -> None:
        self.t = candle.asarray(x, copy=False)

    def export(self, stream: int) -> int:
        self.t.__dlpack__(stream=stream)
        return self.t.data_ptr()


class CandleUnordered(Candle):
    """The control."""

    def export(self, stream: int) -> int:
        return super().export(-1)


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("case", races.CASES)
def test_a_consumer_sees_what_was_written(
    make: Any, driver: Driver, case: str, device: int
) -> None:
    framework = make(device)
    before = driver.counters().host_syncs
    right = races.play(driver, case, Candle, framework, device)
    assert right == (case in races.RelayOrigin.right)
    right = races.play(driver, case, CandleUnordered, framework, device)
    assert right == (case in races.NoOrder.right)
    assert driver.counters().host_syncs == before


def test_a_hop_calls_no_more_than_it_has_to(make: Any, driver: Driver) -> None:
    framework, a, b = make(0), driver.stream(), driver.stream()
    with framework.stream(a):
        x = framework.array()
        driver.trace()
        t = candle.asarray(x, copy=False)
        view = t[::2]
        assert not any("Event" in called.name or "Sync" in called.name for called in driver.trace())
        view.__dlpack__(stream=b)
        driver.trace()
        view.__dlpack__(stream=b)
        names = [called.name for called in driver.trace() if called.name != "cuCtxGetCurrent"]
        assert set(names) <= A_HOP
        assert names.count("cuStreamWaitEvent") == 1
        t.__dlpack__(stream=a)
        assert not any("Event" in called.name for called in driver.trace())


def test_many_hops(make: Any, driver: Driver) -> None:
    """Between random streams, 10,500 over all frameworks, every one of which is read.

    Without order, and nothing else changed, more than half of those between two streams go wrong.
    """
    framework = make(0)
    streams = [driver.stream() for _ in range(6)]
    choose = random.Random(5)
    reads, wrong = {}, {}
    for strategy, hops in ((Candle, 3_500), (CandleUnordered, 300)):
        x = framework.array()
        address = framework.address(x)
        layer = strategy(x)
        last = streams[0]
        reads[strategy] = wrong[strategy] = between = 0
        for number in range(hops):
            here, there = choose.choice(streams), choose.choice(streams)
            driver.order(last, here)
            with framework.stream(here):
                driver.late_fill(here, address, number, races.N, delay_us=0)
                layer.export(there)
            wrong[strategy] += driver.read(address, there) != [float(number)]
            reads[strategy] += 1
            between += here != there
            last = there
    assert (reads[Candle], wrong[Candle]) == (3_500, 0)
    assert reads[CandleUnordered] == 300
    assert wrong[CandleUnordered] > between / 2
