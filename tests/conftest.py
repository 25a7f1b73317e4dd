"""Fixtures for every test: frameworks that may be absent, leak checks, child processes."""

from __future__ import annotations

import gc
import importlib.util
import time
from typing import TYPE_CHECKING, Any

import children
import isolation
import pytest
import sanitizers

from candle.testing import live

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_failed = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "isolated(together, whole): run this test in another pytest process, as it may crash",
    )
    config.addinivalue_line(
        "markers",
        "own_memory: needs malloc and signals as they are without the address sanitizer",
    )
    if importlib.util.find_spec("hypothesis") is not None:
        import hypothesis

        slow = [hypothesis.HealthCheck.too_slow]
        hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=slow)
        hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every process names a test alike, or pytest-xdist cannot share them out."""
    named = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if named:
        raise pytest.UsageError(f"{named[0]}: an address in a name; give parametrize ids=label")


_file = ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Collections look only at what a file of tests makes, not at every framework as well."""
    global _file  # noqa: PLW0603
    if str(item.path) != _file:
        _file = str(item.path)
        gc.collect()
        gc.freeze()
    if sanitizers.is_address() and item.get_closest_marker("own_memory") is not None:
        pytest.skip("the address sanitizer has a malloc and signals of its own")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.get_closest_marker("isolated") is None or isolation.is_child():
        return None
    isolation.run_in_child(pyfuncitem)
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if isolation.is_child():
        isolation.write_report(report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


@pytest.fixture(autouse=True)
def _nothing_left_alive(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test makes is gone after it; a failed one's traceback holds its variables."""
    before = live()
    yield
    if live() == before or request.node.stash.get(_failed, False):
        return
    gc.collect()
    # jax copies what is not aligned on a thread of its own, and lets it go there.
    late = time.monotonic() + 10
    while left := {name: n - before[name] for name, n in live().items() if n > before[name]}:
        assert time.monotonic() < late, f"left alive: {left}"
        time.sleep(0.01)


@pytest.fixture
def framework() -> Callable[[str], Any]:
    """The module of a framework, by name; skips the test where it is absent."""
    return pytest.importorskip


@pytest.fixture
def in_child() -> Callable[..., children.Child]:
    """`in_child(code, *arguments)` runs code in a fresh interpreter and says how that ended."""
    return children.in_child


@pytest.fixture
def run_child() -> Callable[..., children.Child]:
    """`run_child(*arguments)` runs this Python with these arguments and says how that ended."""
    return children.run_child
