"""How many threads share a big copy."""

from __future__ import annotations

from ._native import _core

__all__ = ["get_num_threads", "set_num_threads"]


def get_num_threads() -> int:
    """Say how many threads share a big copy.

    What `set_num_threads` was given; else the environment variable ``CANDLE_NUM_THREADS``; else one
    for each processor that the calling thread may run on.
    """
    return _core.num_threads()


def set_num_threads(count: int) -> None:
    """Set how many threads share a big copy, from now on and in the whole process.

    Parameters
    ----------
    count : int
        The calling thread is one of them: with 1 it copies alone. At most 256 take part.

    Raises
    ------
    ValueError
        If the count is less than 1.
    """
    _core.set_num_threads(count)
