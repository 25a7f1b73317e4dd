"""Trials of who owns an export: each in a fork of this process, where it may crash."""

from __future__ import annotations

import ctypes as C
import gc
import sys
from typing import TYPE_CHECKING, Any

from . import capsules
from .trial import trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CLAUSES", "breaches"]

CLAUSES = ("unconsumed", "consumed", "keeps alive", "without the GIL")

_USAGE = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks"),
    *("fordblks", "keepcost"),
)
_EXPORTS = 10000  # of 50 bytes each, a leak is seen


def breaches(obj: Any, ask: Callable[[], Any]) -> Iterator[tuple[str, str]]:
    """Give the clauses that are broken, and how.

    Parameters
    ----------
    obj
        What is exported.
    ask : callable
        Gives a new capsule of it each time, all of one kind.
    """
    trials: tuple[tuple[str, Callable[[], str]], ...] = (
        ("unconsumed", lambda: _counted(ask, taken=False)),
        ("consumed", lambda: _counted(ask, taken=True)),
        ("unconsumed", lambda: _left(obj, ask, taken=False)),
        ("keeps alive", lambda: _left(obj, ask, taken=True)),
        ("without the GIL", lambda: _released(ask)),
    )
    for clause, do in trials:
        said = trial(do)
        if said:
            yield clause, said


def _counted(ask: Callable[[], Any], taken: bool) -> str:
    """Put a deleter that counts in front of the struct's own, and drop the capsule.

    A capsule's destructor need not go by the struct's deleter: one that nobody took may free the
    struct in a way of its own.
    """
    calls: list[int] = []
    capsule = ask()
    struct = capsules.managed(capsule)
    own = capsules.DELETER(struct.deleter)

    def delete(address: int) -> None:
        calls.append(address)
        if len(calls) == 1:
            own(address)

    counting = capsules.DELETER(delete)
    struct.deleter = C.cast(counting, C.c_void_p).value
    owner = capsules.take(capsule) if taken else None
    del capsule
    if calls[taken is False :]:
        return f"the deleter is called {len(calls)} times"
    if owner is not None:
        owner.release()
    return ""


def _left(obj: Any, ask: Callable[[], Any], taken: bool) -> str:
    """Count references and memory over many exports."""

    def export() -> None:
        capsule = ask()
        if taken:
            capsules.take(capsule).release()

    for _ in range(1000):
        export()
    gc.collect()
    references, before = sys.getrefcount(obj), _held()
    for _ in range(_EXPORTS):
        export()
    gc.collect()
    more = sys.getrefcount(obj) - references
    if more:
        return f"{more / _EXPORTS:g} references to the object are left by each"
    grown = _held() - before
    return f"about {grown // _EXPORTS} bytes are left by each" if grown > 1 << 19 else ""


def _released(ask: Callable[[], Any]) -> str:
    """Call the deleter without the GIL, here and on a thread that Python does not know."""
    for foreign in (False, True):
        capsules.take(ask()).release(foreign_thread=foreign)
    return ""


class _Usage(C.Structure):
    """What glibc's `mallinfo2` says of its memory."""

    _fields_ = tuple((name, C.c_size_t) for name in _USAGE)


def _held() -> int:
    """Bytes in use: by glibc's count, and about so many in the interpreter's own small blocks.

    Growth of the process shows no leak that goes into memory which was free before.
    """
    small = 48 * sys.getallocatedblocks()
    usage = getattr(C.CDLL(None), "mallinfo2", None)
    if usage is None:
        return small
    usage.restype = _Usage
    found = usage()
    return small + int(found.uordblks) + int(found.hblkhd)
