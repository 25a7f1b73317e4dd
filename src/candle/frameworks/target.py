"""What a framework's file answers when its tensors are wanted: how it is given a Tensor."""

from __future__ import annotations

import sys
import warnings

from .._native import _core
from ..plan import ReadOnlyCopyWarning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import ModuleType
    from typing import Any, Literal

    from .._native._core import Demand, Tensor

__all__ = ["Target", "demands_of_writers", "tell_read_only"]

_told: set[str] = set()  # the frameworks of which it was warned


def tell_read_only(name: str) -> None:
    """Warn, once per process and framework, of a copy made because a framework may write.

    Parameters
    ----------
    name : str
        The framework's, which is its door's too.
    """
    if name in _told:
        return
    _told.add(name)
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_here(frame.f_globals.get("__name__")):
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"the tensor is read-only and {name} has no read-only tensors, so that it was copied; "
        f"{name}(copy=False) shares it on your word that nothing is written, {name}(copy=True) "
        "copies without this warning (given once per process)",
        ReadOnlyCopyWarning,
        stacklevel=level,
    )


def _is_here(module: object) -> bool:
    return str(module).partition(".")[0] == "candle"


def demands_of_writers(consumer: str, **takes: Any) -> tuple[Demand, Demand]:
    """Give what a framework takes that has no read-only tensors, and none with reversed axes.

    Parameters
    ----------
    consumer : str
    **takes
        What else `Demand` can be told.

    Returns
    -------
    tuple of two Demands
        The first takes no read-only memory. The second does: it is for ``copy=False``, which is the
        caller's word that nothing is written to it.
    """
    unasked, on_your_word = (
        _core.Demand(
            consumer, negative_strides=False, host_only=False, read_only=read_only, **takes
        )
        for read_only in (False, True)
    )
    return unasked, on_your_word


class Target:
    """How a framework is given tensors.

    Attributes
    ----------
    name : str
        The framework's.
    types : tuple of type
        Its own tensors, which need not be given to it.
    give : callable
        ``give(tensor, copy)``: the framework's tensor over the same memory, or of a copy; `copy`
        as everywhere. CopyError where that is forbidden and needed.
    share : callable
        ``share(tensor)``: the same as ``give(tensor, False)``, but never on anybody's word: what
        `give` would copy under ``copy=None`` is a CopyError.
    natively : str, optional
        The name by which the native core's sharer does the same as `share`.
    demand : Demand, optional
        What it takes; None: everything.
    views : bool
        Whether it can have several tensors over one block of memory, at any offset and stride.
    read_only : bool
        Whether it has read-only tensors, or never writes to any.
    devices : bool
        Whether it has memory on other devices than the host.
    tell : callable, optional
        Tells that read-only memory was copied.
    numbers : bool
        Whether its functions give numbers in place of tensors without axes.
    guard : callable, optional
        Goes around what it computes on a CUDA device, by number: a context manager, which may make
        the device current. None: there is nothing to do.
    calls : module, optional
        How it computes what numpy's functions, operators and indices mean, with the functions of
        `torch_calls`. None: by functions, operators and indices of the same names.
    """

    __slots__ = (
        "calls",
        "demand",
        "devices",
        "give",
        "guard",
        "name",
        "natively",
        "numbers",
        "read_only",
        "share",
        "tell",
        "types",
        "views",
    )

    def __init__(
        self,
        name: str,
        *,
        types: tuple[type, ...],
        give: Callable[[Tensor, bool | None], Any],
        share: Callable[[Tensor], Any],
        demand: Demand | None = None,
        views: bool = True,
        read_only: bool = True,
        devices: bool = True,
        natively: Literal["numpy", "torch"] | None = None,
        tell: Callable[[], None] | None = None,
        numbers: bool = False,
        guard: Callable[[int], AbstractContextManager[object]] | None = None,
        calls: ModuleType | None = None,
    ) -> None:
        self.name: str = name
        self.types: tuple[type, ...] = types
        self.give: Callable[[Tensor, bool | None], Any] = give
        self.share: Callable[[Tensor], Any] = share
        self.natively = natively
        self.demand: Demand | None = demand
        self.views: bool = views
        self.read_only: bool = read_only
        self.devices: bool = devices
        self.tell: Callable[[], None] | None = tell
        self.numbers: bool = numbers
        self.guard: Callable[[int], AbstractContextManager[object]] | None = guard
        self.calls: ModuleType | None = calls
