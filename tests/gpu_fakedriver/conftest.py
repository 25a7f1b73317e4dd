"""Fixtures for tests on the fake CUDA driver. They run in child processes: see `isolation`."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import fake_driver
import isolation
import pytest
from device_makers import Cupy, Torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def _built() -> None:
    try:
        fake_driver.build()
    except fake_driver.NoCompiler as error:
        pytest.skip(str(error))


@pytest.fixture
def driver(_built: None) -> Iterator[fake_driver.Driver | None]:
    """The fake driver, idle, with two devices and an empty trace; None in the parent process.

    Work is held back until the host waits, so that no test is right or wrong by chance.
    """
    if not isolation.is_child():
        yield None
        return
    driver = fake_driver.load()
    driver.drain()
    driver.trace()
    with driver.hold():
        yield driver
    driver.drain()


@pytest.fixture(params=[Cupy, Torch], ids=lambda kind: kind.name)
def maker(request: pytest.FixtureRequest, driver: fake_driver.Driver | None) -> Iterator[Any]:
    """A framework that is the only one to make copies; None in the parent process."""
    if not isolation.is_child():
        yield None
        return
    made = request.param()
    from candle.cuda import provider

    other = {"cupy": "torch", "torch": "cupy"}[request.param.name]
    kept = provider._loaded.copy()
    provider._loaded.clear()
    provider._loaded[other] = None  # as without CUDA
    before = driver.counters()[:2]
    yield made
    driver.drain()
    gc.collect()
    assert driver.counters()[:2] == before
    provider._loaded.clear()
    provider._loaded.update(kept)
