"""Fixtures for pytest, found by its entry point: ``no_copies`` and ``candle_trace``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..forbidding import strict
from ..tracing import trace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["candle_trace", "no_copies"]


@pytest.fixture
def no_copies(request: pytest.FixtureRequest) -> Iterator[strict]:
    """Run the test in `candle.strict()`: a copy that it did not ask for by name fails it.

    The mark ``@pytest.mark.no_copies(allow=...)`` says what is let through, and needs no fixture
    beside it.
    """
    mark = request.node.get_closest_marker("no_copies")
    block = strict() if mark is None else strict(*mark.args, **mark.kwargs)
    with block:
        yield block


@pytest.fixture
def candle_trace() -> Iterator[trace]:
    """Write the moves of the test down: a `candle.trace`."""
    with trace() as moves:
        yield moves


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line(
        "markers",
        "no_copies(allow=()): run the test in candle.strict(allow=...)",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give marked tests the fixture."""
    for item in items:
        names = getattr(item, "fixturenames", None)
        if names is not None and item.get_closest_marker("no_copies") and "no_copies" not in names:
            names.append("no_copies")
