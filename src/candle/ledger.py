"""Who watches moves, and how they are told: what `strict` and `trace` are made of.

A watcher is on in the context it was entered in (`contextvars`): threads and tasks with another do
not notice. The native core asks `_begin` before every move while there is a watcher anywhere.
"""

from __future__ import annotations

from contextvars import ContextVar

from ._native import _core
from .plan import CopyError, Plan, make_plan, refusal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn, Protocol

    class Entry(Protocol):
        """What a watcher has written down of a move; the time is added when it has been made."""

        seconds: float | None


__all__ = ["Blocks", "Watcher", "listening", "permit_unasked", "refuse", "trying", "unwatched"]

_watching: ContextVar[tuple[Watcher, ...] | None] = ContextVar("candle watchers", default=None)
_trying: ContextVar[tuple[type[BaseException], ...]] = ContextVar("candle tries", default=())

# First parts of the names of modules that a caller's call may pass through: the frameworks'.
passed_through: set[str] = set()


class Watcher:
    """One block that is being run: what watches in the contexts that it was entered in."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active: bool = True

    def permit(self, plan: Plan, asked: bool) -> None:
        """Raise what forbids a move. `asked`: the caller asked for its copy by name."""

    def write_down(self, plan: Plan) -> Entry | None:
        """Write a move down, if that is what the block is for."""


class Blocks:
    """The blocks of one context manager that are being run, in any thread or task."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: list[Watcher] = []

    def enter(self, watcher: Watcher) -> None:
        """Begin a block."""
        self._entered.append(watcher)
        _watching.set((*(_watching.get() or ()), watcher))
        _core.watch(1)

    def on(self) -> bool:
        """Tell whether one of them is on in this context."""
        here = _watching.get() or ()
        return any(watcher.active for watcher in here if watcher in self._entered)

    def leave(self) -> None:
        """Take the innermost block of this context off; tasks it has started see it end too."""
        if not self._entered:
            raise RuntimeError("this block was not entered, or was left before")
        here = _watching.get() or ()
        own = [watcher for watcher in here if watcher in self._entered]
        ending = (own or self._entered)[-1]
        ending.active = False
        self._entered.remove(ending)
        _watching.set(tuple(watcher for watcher in here if watcher is not ending) or None)
        _core.watch(-1)


class _Listener(Watcher):
    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[Plan], object]) -> None:
        super().__init__()
        self._tell = tell

    def permit(self, plan: Plan, asked: bool) -> None:
        if plan.action == "copy":
            self._tell(plan)


class listening:
    """A context in which a callable is given the `Plan` of every copy, before it is made.

    An exception it raises stops the copy.
    """

    __slots__ = ("_blocks", "_listener")

    def __init__(self, listener: Callable[[Plan], object]) -> None:
        self._listener = listener
        self._blocks = Blocks()

    def __enter__(self) -> None:
        self._blocks.enter(_Listener(self._listener))

    def __exit__(self, *exc_info: object) -> None:
        self._blocks.leave()


def _note(watchers: tuple[Watcher, ...], plan: Plan) -> list[Entry]:
    written = [watcher.write_down(plan) for watcher in watchers if watcher.active]
    return [entry for entry in written if entry is not None]


def _begin(watchers: tuple[Watcher, ...], plan: Plan, asked: bool) -> list[Entry] | None:
    """Tell of a move before it is made; what this raises stops it."""
    try:
        for watcher in watchers:
            if watcher.active:
                watcher.permit(plan, asked)
    except BaseException:
        _note(watchers, plan.refused())
        raise
    return _note(watchers, plan) or None


def permit_unasked(plan: Plan) -> None:
    """Raise what forbids a copy that the caller will make, and was not asked for by name."""
    for watcher in _watching.get() or ():
        if watcher.active:
            try:
                watcher.permit(plan, False)
            except BaseException:
                _note(_watching.get() or (), plan.refused())
                raise


def _end(entries: list[Entry], seconds: float) -> None:
    for entry in entries:
        entry.seconds = seconds


def _refusal(plan: Plan) -> BufferError:
    """Write a refused move down, and build its exception."""
    error = refusal_of(plan)
    if not isinstance(error, _trying.get()):
        _note(_watching.get() or (), plan)
    return error


def refuse(route: str, code: str, fact: str, producer: str, consumer: str = "candle") -> NoReturn:
    """Refuse a move for a reason that only a framework's own file knows."""
    raise _refusal(make_plan(route, "refuse", 0, [(code, fact)], producer, consumer))


class _Setting:
    """A context variable that has another value for the length of a block."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: object) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *exc_info: object) -> None:
        self._variable.reset(self._token)


def trying(*, any_refusal: bool = False) -> _Setting:
    """Give a context in which a `CopyError` leads to another try, and is not written down.

    With `any_refusal` neither are refusals that no copy puts right.
    """
    return _Setting(_trying, (BufferError if any_refusal else CopyError,))


def unwatched() -> _Setting:
    """Give a context in which nobody watches: `explain` moves nothing."""
    return _Setting(_watching, None)


_core.register(refusal=_refusal, watching=_watching, begin=_begin, end=_end)
