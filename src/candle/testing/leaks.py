"""What is alive in candle, and a check that a piece of code leaves nothing behind."""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING

from .._native import _core

if TYPE_CHECKING:
    from collections.abc import Generator


def live() -> dict[str, int]:
    """Count what is alive in this process.

    Returns
    -------
    dict
        ``tensors``; ``storages`` (blocks of memory that tensors and exports hold, own or borrowed);
        ``bytes`` of own memory; ``exports`` (managed structs handed out and not deleted yet).
    """
    counts: dict[str, int] = _core.live()
    return counts


def live_tensors() -> int:
    """How many Tensors are alive in this process."""
    return live()["tensors"]


@contextlib.contextmanager
def assert_no_leak() -> Generator[None]:
    """Assert that nothing which the block made outlives it.

    Counts as `live` does, before and after; collects cyclic garbage only if the counts differ.
    Raises ``AssertionError`` with what was left. Other threads should be quiet meanwhile.

    Examples
    --------
    >>> import candle
    >>> from candle.testing import assert_no_leak
    >>> with assert_no_leak():
    ...     t = candle.zeros((2, 3))
    ...     del t
    """
    before = live()
    yield
    if live() == before:
        return
    gc.collect()
    left = {name: count - before[name] for name, count in live().items() if count != before[name]}
    assert not left, f"left alive: {left}"
