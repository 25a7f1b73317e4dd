"""Ways to order the work of two frameworks: which are right when; that the test can fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import races

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("way", races.WAYS)
@pytest.mark.parametrize("case", races.CASES)
def test_a_way_is_right_where_it_can_be(driver: Driver, case: str, way: str, device: int) -> None:
    framework = races.PlainFramework(driver, device)
    strategy = races.WAYS[way]
    assert races.play(driver, case, strategy, framework, device) == (case in strategy.right)
    framework.close()


def test_the_control_fails_wherever_waiting_is_needed(driver: Driver) -> None:
    assert set(races.CASES) - races.NoOrder.right == set(races.CASES) - {
        "exported to the producer's stream"
    }


def test_relay_and_origin_never_wait_on_the_host(driver: Driver) -> None:
    framework = races.PlainFramework(driver)
    driver.trace()
    before = driver.counters().host_syncs
    for case in races.CASES:
        races.play(driver, case, races.RelayOrigin, framework)
    assert driver.counters().host_syncs == before
    assert {called.name for called in driver.trace()} <= {
        "cuInit",
        "cuDevicePrimaryCtxRetain",
        "cuDevicePrimaryCtxRelease",
        "cuCtxPushCurrent",
        "cuCtxPopCurrent",
        "cuEventCreate",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventDestroy",
    }
    framework.close()


def test_nothing_is_called_between_a_stream_and_itself(driver: Driver) -> None:
    framework = races.PlainFramework(driver)
    races.play(driver, "exported to the producer's stream", races.RelayOrigin, framework)
    assert driver.trace() == []
    framework.close()
