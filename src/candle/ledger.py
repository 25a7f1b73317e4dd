"""Who is told of copies: before every one, and only while somebody listens."""

from __future__ import annotations

from ._native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .plan import Plan

__all__ = ["listening"]

_listeners: list[Callable[[Plan], object]] = []


def _tell(plan: Plan) -> None:
    for listener in tuple(_listeners):
        listener(plan)


class listening:
    """A context in which a callable is given the `Plan` of every copy, before it is made.

    An exception it raises stops the copy.
    """

    __slots__ = ("_listener",)

    def __init__(self, listener: Callable[[Plan], object]) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        _listeners.append(self._listener)
        _core.listen(_tell)

    def __exit__(self, *exc_info: object) -> None:
        _listeners.remove(self._listener)
        if not _listeners:
            _core.listen(None)
