"""Fixtures for tests on the fake CUDA driver. They run in child processes: see `isolation`."""

from __future__ import annotations

import gc
import sys
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
def maker(
    request: pytest.FixtureRequest, driver: fake_driver.Driver | None, balanced: None
) -> Iterator[Any]:
    """A framework that is the only one to make copies; None in the parent process."""
    if driver is None:
        yield None
        return
    made = request.param()
    from candle.cuda import provider

    other = {"cupy": "torch", "torch": "cupy"}[request.param.name]
    kept = provider._loaded.copy()
    provider._loaded.clear()
    provider._loaded[other] = None  # as without CUDA
    yield made
    driver.drain()
    provider._loaded.clear()
    provider._loaded.update(kept)


@pytest.fixture
def balanced(driver: fake_driver.Driver | None) -> Iterator[None]:
    """As many allocations are in use, and bytes of them, after a test as before it."""
    if driver is None:
        yield
        return
    before = driver.counters()[:2]
    yield
    driver.drain()
    gc.collect()
    assert driver.counters()[:2] == before


@pytest.fixture
def block(request: pytest.FixtureRequest, driver: fake_driver.Driver | None) -> Iterator[int]:
    """The address of as many float32 on device 0 as the test's file says, its `N`; else 0."""
    if driver is None:
        yield 0
        return
    address = driver.alloc(4 * request.module.N)
    driver.trace()
    yield address
    driver.drain()
    driver.free(address)


@pytest.fixture
def cupy(driver: fake_driver.Driver | None, balanced: None) -> Any:
    """The stand-in for cupy, installed; None in the parent process."""
    if driver is None:
        return None
    import fake_cupy

    if "fake_torch_cuda" in sys.modules:  # torch is there, and does not use CUDA
        sys.modules["fake_torch_cuda"].install(initialized=False)
    return fake_cupy.install()


@pytest.fixture
def torch(driver: fake_driver.Driver | None, balanced: None) -> Any:
    """Torch over the fake driver; None in the parent process, skips where it has CUDA."""
    if driver is None:
        return None
    module = pytest.importorskip("torch")
    if module.version.cuda is not None:
        pytest.skip("torch has CUDA of its own")
    import fake_torch_cuda

    fake_torch_cuda.install()
    return module


@pytest.fixture
def computing(torch: Any, driver: fake_driver.Driver | None) -> Iterator[Any]:
    """`fake_torch_cuda` with functions; cupy, its stand-in, is there too. None in the parent."""
    if torch is None:
        yield None
        return
    import fake_cupy
    import fake_torch_cuda
    import fake_torch_functions as functions

    fake_cupy.install()
    functions.install()
    fake_torch_cuda.called.clear()
    fake_torch_cuda.crossed.clear()
    yield fake_torch_cuda
    functions.failed.clear()
    fake_torch_cuda.called.clear()
    assert driver is not None
    driver.drain()
    gc.collect()


@pytest.fixture
def alone(computing: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same, where cupy is not installed."""
    if isolation.is_child():
        from candle.cuda import by_torch, provider

        monkeypatch.setattr(provider, "_loaded", {"cupy": None, "torch": by_torch.provider()})
    return computing
