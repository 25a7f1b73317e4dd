"""The real cuda.core on the fake driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import races

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")


@pytest.fixture
def core(driver: Driver | None, balanced: None) -> Any:
    """The helpers for it; skips where it is absent."""
    if driver is None:
        return None
    pytest.importorskip("cuda.core")
    import cuda_core_arrays

    return cuda_core_arrays


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("case", races.CASES)
def test_it_orders_the_stream_of_an_interface(
    core: Any, driver: Driver, case: str, device: int
) -> None:
    class Direct:
        def __init__(self, x: Any) -> None:
            self.x = x

        def export(self, stream: int) -> int:
            return int(core.view(self.x, stream, device).ptr)

    framework = core.CoreFramework(device)
    right = races.play(driver, case, Direct, framework, device)
    assert right == (case in races.Relay.right)


def test_its_streams_and_buffers_are_the_drivers(core: Any, driver: Driver) -> None:
    stream = core.make_stream()
    version, handle = stream.__cuda_stream__()
    assert version == 0
    assert driver.name(handle) != "s0"
    x = core.CoreFramework().array()
    assert x.buffer.__dlpack_device__() == (2, 0)
    driver.trace()
    x.buffer.__dlpack__(stream=handle, max_version=(1, 0))
    assert not any("Event" in called.name for called in driver.trace())  # it ignores `stream`
    stream.close()
    assert driver.name(handle) == "s0"
