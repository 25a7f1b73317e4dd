"""Who watches moves: `strict`, which forbids copies, and `trace`, which writes moves down.

A watcher is on in the context it was entered in (`contextvars`): other threads and tasks do not
notice. The native core asks `_begin` before every move while there is a watcher anywhere.
"""

from __future__ import annotations

import sys
import time
from _thread import get_ident
from contextvars import ContextVar

from ._native import _core
from .plan import FATAL, REMEDIES, CopyError, Plan, escaped, make_plan, refusal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import CodeType, FrameType
    from typing import Any, NoReturn, ParamSpec, Self, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

__all__ = ["Move", "listening", "refuse", "strict", "trace"]

_watching: ContextVar[tuple[_Watcher, ...] | None] = ContextVar("candle watchers", default=None)
_trying: ContextVar[bool] = ContextVar("candle tries", default=False)

_HERE = __file__.removesuffix("ledger.py")

# First parts of the names of modules that a caller's call may pass through: the frameworks'.
passed_through: set[str] = set()


class Move(Plan):
    """One move, as a `trace` wrote it down.

    Attributes
    ----------
    seconds : float or None
        What the copy, or making the result that shares, took; None where nothing was made.
    where : str
        File and line of the caller: the first frame outside candle and the frameworks.
    started : float
        Seconds since the trace began.
    thread : int
        The thread's identifier.
    """

    __module__ = "candle"
    __slots__ = ("seconds", "started", "thread", "where")

    def __init__(self, plan: Plan, where: str, started: float) -> None:
        super().__init__(
            plan.route, plan.action, plan.nbytes, plan.reasons, plan.producer, plan.consumer
        )
        self.where = where
        self.started = started
        self.seconds: float | None = None
        self.thread = get_ident()

    def __repr__(self) -> str:
        head, *rest = super().__repr__().split("\n")
        taken = "" if self.seconds is None else f", {_time(self.seconds)}"
        return "\n".join([f"{head}{taken}  {self.where}", *rest])

    def to_dict(self) -> dict[str, Any]:
        """Give the move as what JSON can say."""
        return {
            **super().to_dict(),
            "seconds": self.seconds,
            "started": self.started,
            "thread": self.thread,
            "where": self.where,
        }


class _Watcher:
    """One block that is being run: what watches in the contexts that it was entered in."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        self.active = True

    def permit(self, plan: Plan, asked: bool) -> None:
        """Raise what forbids a move."""


class _Blocks:
    """The blocks of one context manager that are being run, in any thread or task."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: list[_Watcher] = []

    def enter(self, watcher: _Watcher) -> None:
        self._entered.append(watcher)
        _watching.set((*(_watching.get() or ()), watcher))
        _core.watch(1)

    def leave(self) -> None:
        """Take the innermost block of this context off; tasks it has started see it end too."""
        here = _watching.get() or ()
        own = [watcher for watcher in here if watcher in self._entered]
        ending = (own or self._entered)[-1]
        ending.active = False
        self._entered.remove(ending)
        _watching.set(tuple(watcher for watcher in here if watcher is not ending) or None)
        _core.watch(-1)


class _Listener(_Watcher):
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
        self._blocks = _Blocks()

    def __enter__(self) -> None:
        self._blocks.enter(_Listener(self._listener))

    def __exit__(self, *exc_info: object) -> None:
        self._blocks.leave()


class _Strict(_Watcher):
    __slots__ = ("_codes", "_left")

    def __init__(self, codes: frozenset[str], budget: int) -> None:
        super().__init__()
        self._codes = codes
        self._left = budget

    def permit(self, plan: Plan, asked: bool) -> None:
        if plan.action != "copy" or asked:
            return
        codes = {reason.code for reason in plan.reasons}
        if codes <= self._codes:
            return
        if plan.nbytes <= self._left:
            self._left -= plan.nbytes
            return
        allow = ", ".join(repr(code) for code in sorted(codes))
        raise refusal_of(plan.refused(), f" (strict(allow={{{allow}}}) would let it through)")


class strict:
    """A block, or a function, in which a copy that nobody asked for by name raises `CopyError`.

    Such copies are those of a move with ``copy=None``, and of `reshape`, `flatten` and `contiguous`
    where they cannot share. Asked for by name are ``copy=True``, ``dtype=``, ``device=``, `copy`,
    `to`, `copy_`, assignment, and building a tensor of lists or numbers: these go on. What
    frameworks copy by themselves candle does not see.

    Parameters
    ----------
    allow : str, int, or several of them
        Codes of reasons: a copy all of whose reasons are named is made. A number of bytes: other
        copies are made too, as long as they have no more than that together, in each block.

    Raises
    ------
    ValueError
        For a code that no copy has.

    Notes
    -----
    It is on in the context it is entered in (`contextvars`): in the tasks that are started within
    the block, and in no other thread.

    Examples
    --------
    >>> import candle
    >>> with candle.strict(allow={"alignment", 4096}):
    ...     t = candle.zeros((4, 4)).T.reshape(16)  # 64 bytes
    """

    __module__ = "candle"
    __slots__ = ("_blocks", "_budget", "_codes")

    def __init__(self, *, allow: str | int | Iterable[str | int] = ()) -> None:
        self._codes, self._budget = _allowed(allow)
        self._blocks = _Blocks()

    def __enter__(self) -> None:
        self._blocks.enter(_Strict(self._codes, self._budget))

    def __exit__(self, *exc_info: object) -> None:
        self._blocks.leave()

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate a function, or an ``async def``: each call runs in a block of its own."""
        from functools import wraps

        code: CodeType | None = getattr(function, "__code__", None)
        flags = 0 if code is None else code.co_flags
        if flags & _GENERATOR:
            raise TypeError(
                "a generator runs in its caller's context; write `with candle.strict():` within it"
            )
        if flags & _COROUTINE:

            @wraps(function)
            async def later(*args: P.args, **kwargs: P.kwargs) -> Any:
                with self:
                    return await function(*args, **kwargs)  # type: ignore[misc]

            return later  # type: ignore[return-value]

        @wraps(function)
        def now(*args: P.args, **kwargs: P.kwargs) -> T:
            with self:
                return function(*args, **kwargs)

        return now


_COROUTINE, _GENERATOR = 0x80, 0x20 | 0x200  # inspect's flags of code objects


def _allowed(allow: str | int | Iterable[str | int]) -> tuple[frozenset[str], int]:
    codes, budget = set(), 0
    for item in (allow,) if isinstance(allow, str | int) else allow:
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise TypeError(f"allow= takes codes of reasons and a number of bytes, not {item!r}")
        if isinstance(item, int):
            if item < 0:
                raise ValueError(f"allow={item}: a number of bytes is not negative")
            budget += item
        elif item in FATAL or item not in REMEDIES:
            known = ", ".join(code for code in REMEDIES if code not in FATAL)
            raise ValueError(f"allow={item!r}: copies have the reasons {known}")
        else:
            codes.add(item)
    return frozenset(codes), budget


class _Trace(_Watcher):
    __slots__ = ("began", "moves")

    def __init__(self, moves: list[Move], began: float) -> None:
        super().__init__()
        self.moves = moves
        self.began = began


class trace:
    """A block whose moves are written down: shared, copied or refused, and who asked for them.

    Iterating gives each `Move` in the order in which they began; ``len()`` and indexing work too.
    Views within candle are no moves. What frameworks copy by themselves candle does not see.

    Notes
    -----
    It is on in the context it is entered in (`contextvars`): in the tasks that are started within
    the block, and in no other thread.

    Examples
    --------
    >>> import candle
    >>> t = candle.zeros((4, 4))
    >>> with candle.trace() as moves:
    ...     t.T.contiguous()[0, 0] = 1
    >>> moves[0].action, moves[0].nbytes, moves[0].reasons[0].code
    ('copy', 64, 'order')
    """

    __module__ = "candle"
    __slots__ = ("_began", "_blocks", "_moves")

    def __init__(self) -> None:
        self._moves: list[Move] = []
        self._began = 0.0
        self._blocks = _Blocks()

    def __enter__(self) -> Self:
        self._began = self._began or time.perf_counter()
        self._blocks.enter(_Trace(self._moves, self._began))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._blocks.leave()

    def __iter__(self) -> Iterator[Move]:
        return iter(tuple(self._moves))

    def __len__(self) -> int:
        return len(self._moves)

    def __getitem__(self, index: int) -> Move:
        return self._moves[index]

    def __bool__(self) -> bool:
        return True

    @property
    def copies(self) -> tuple[Move, ...]:
        """The moves that copied."""
        return tuple(move for move in self if move.action == "copy")

    @property
    def nbytes(self) -> int:
        """Bytes that were copied."""
        return sum(move.nbytes for move in self.copies)

    def table(self) -> str:
        """Sum up: one line for moves of one kind from one place, the most bytes first."""
        lines = [_HEAD, *(_row(moves) for moves in _alike(self))]
        widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
        text = [
            "  ".join(
                cell.rjust(width) if i < _NUMBERS else cell.ljust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join(
            [*text, f"{len(self)} moves, {len(self.copies)} copies of {self.nbytes} bytes"]
        )

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        rows = [_HEAD, *(_row(moves) for moves in _alike(self))]
        cells = ["".join(f"<td>{escaped(cell)}</td>" for cell in row) for row in rows]
        return "<table>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"

    def to_json(self) -> str:
        """Give every move as JSON: a list of objects."""
        import json

        return json.dumps([move.to_dict() for move in self])

    def to_chrome_trace(self) -> str:
        """Give the moves as a trace that Perfetto and ``chrome://tracing`` show."""
        import json
        import os

        events = [
            {
                "name": f"{move.producer} -> {move.consumer}: {move.action}",
                "cat": move.action,
                "ph": "X",
                "ts": move.started * 1e6,
                "dur": (move.seconds or 0.0) * 1e6,
                "pid": os.getpid(),
                "tid": move.thread,
                "args": {
                    "route": move.route,
                    "nbytes": move.nbytes,
                    "where": move.where,
                    "reasons": [f"{r.code}: {r.fact}; {r.remedy}" for r in move.reasons],
                },
            }
            for move in self
        ]
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})

    def save(self, path: str | Path) -> None:
        """Write `to_chrome_trace` to a file."""
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123  (pathlib takes 5 ms to import)
            file.write(self.to_chrome_trace())


_HEAD = ("moves", "bytes", "time", "action", "from -> to", "route", "reasons", "where")
_NUMBERS = 3  # columns of numbers


def _alike(moves: Iterable[Move]) -> list[list[Move]]:
    kinds: dict[tuple[object, ...], list[Move]] = {}
    for move in moves:
        codes = tuple(reason.code for reason in move.reasons)
        kind = (move.producer, move.consumer, move.route, move.action, codes, move.where)
        kinds.setdefault(kind, []).append(move)
    return sorted(kinds.values(), key=lambda alike: -_bytes_copied(alike))


def _bytes_copied(alike: list[Move]) -> int:
    return sum(move.nbytes for move in alike if move.action == "copy")


def _row(alike: list[Move]) -> tuple[str, ...]:
    first = alike[0]
    return (
        str(len(alike)),
        str(_bytes_copied(alike)),
        "-" if first.seconds is None else _time(sum(move.seconds or 0.0 for move in alike)),
        first.action,
        f"{first.producer} -> {first.consumer}",
        first.route,
        ", ".join(reason.code for reason in first.reasons),
        first.where,
    )


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-9:.0f} ns"


def _caller() -> str:
    """File and line of the first frame outside candle and the frameworks."""
    frame: FrameType | None = sys._getframe(1)
    outside = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_HERE):
            outside = outside or f"{file}:{frame.f_lineno}"
            if str(frame.f_globals.get("__name__")).partition(".")[0] not in passed_through:
                return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return outside or "?"


def _note(watchers: tuple[_Watcher, ...], plan: Plan) -> list[Move]:
    traces = [watcher for watcher in watchers if isinstance(watcher, _Trace) and watcher.active]
    if not traces:
        return []
    where, now = _caller(), time.perf_counter()
    moves = []
    for each in traces:
        moves.append(Move(plan, where, now - each.began))
        each.moves.append(moves[-1])
    return moves


def _begin(watchers: tuple[_Watcher, ...], plan: Plan, asked: bool) -> list[Move] | None:
    """Tell of a move before it is made; what this raises stops it."""
    try:
        for watcher in watchers:
            if watcher.active:
                watcher.permit(plan, asked)
    except BaseException:
        _note(watchers, plan.refused())
        raise
    return _note(watchers, plan) or None


def _end(moves: list[Move], seconds: float) -> None:
    for move in moves:
        move.seconds = seconds


def _refusal(plan: Plan) -> BufferError:
    """Write a refused move down, and build its exception."""
    error = refusal_of(plan)
    if not (_trying.get() and isinstance(error, CopyError)):
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


def trying() -> _Setting:
    """Give a context in which a `CopyError` leads to another try, and is not written down."""
    return _Setting(_trying, True)


def unwatched() -> _Setting:
    """Give a context in which nobody watches: `explain` moves nothing."""
    return _Setting(_watching, None)


_core.register(refusal=_refusal, watching=_watching, begin=_begin, end=_end)
