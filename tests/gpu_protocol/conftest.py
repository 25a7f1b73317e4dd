"""Fixtures for tests of who passes what to whom, with no driver and no device."""

from __future__ import annotations

import pytest
from device_producers import Runtime


@pytest.fixture
def runtime() -> Runtime:
    """Device 0 of as many as one likes, all on their legacy streams."""
    return Runtime()
