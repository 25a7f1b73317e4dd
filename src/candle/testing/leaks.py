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
    """Assert that the block leaves as much alive as there was before it.

    Counts as `live` does, before and after. Cyclic garbage is collected first if anything is alive
    (what was dropped before the block would go during it, and hide as much that the block leaks),
    and afterwards if the counts differ. Other threads should be quiet meanwhile.

    Raises
    ------
    AssertionError
        With what the block left alive, or let go of that had been there before.

    Examples
    --------
    >>> import candle
    >>> from candle.testing import assert_no_leak
    >>> with assert_no_leak():
    ...     t = candle.zeros((2, 3))
    ...     del t
    """
    before = live()
    if any(before.values()):
        gc.collect()
        before = live()
    yield
    if live() == before:
        return
    gc.collect()
    change = {name: count - before[name] for name, count in live().items()}
    left = {name: n for name, n in change.items() if n > 0}
    gone = {name: -n for name, n in change.items() if n < 0}
    assert not left, f"left alive: {left}"
    assert not gone, f"there before the block and gone after it: {gone}"
