"""Fixtures for tests on the fake CUDA driver. They run in child processes: see `isolation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fake_driver
import isolation
import pytest

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
