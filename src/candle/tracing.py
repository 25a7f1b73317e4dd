"""`trace`: which moves were made, by whom, and what they took."""

from __future__ import annotations

import sys
import time
from _thread import get_ident

from .ledger import Blocks, Watcher, passed_through
from .plan import Plan, escaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import FrameType
    from typing import Any, Self

__all__ = ["Move", "trace"]

_HERE = __file__.removesuffix("tracing.py")


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

    __slots__ = ("seconds", "started", "thread", "where")

    def __init__(self, plan: Plan, where: str, started: float) -> None:
        super().__init__(
            plan.route, plan.action, plan.nbytes, plan.reasons, plan.producer, plan.consumer
        )
        self.where: str = where
        self.started: float = started
        self.seconds: float | None = None
        self.thread: int = get_ident()

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


class _Trace(Watcher):
    __slots__ = ("_began", "_moves")

    def __init__(self, moves: list[Move], began: float) -> None:
        super().__init__()
        self._moves = moves
        self._began = began

    def write_down(self, plan: Plan) -> Move:
        move = Move(plan, _caller(), time.perf_counter() - self._began)
        self._moves.append(move)
        return move


class trace:
    """A block whose moves are written down: shared, copied or refused, and who asked for them.

    Iterating gives each `Move` in the order in which they began; ``len()`` and indexing work too.
    Views within candle are no moves. What frameworks copy by themselves candle does not see.

    Notes
    -----
    It is on in the context it is entered in (`contextvars`): in the tasks that are started within
    the block, and in a thread only where Python gives it that context
    (``sys.flags.thread_inherit_context``, a default of free-threaded Python 3.14).

    Examples
    --------
    >>> import candle
    >>> t = candle.zeros((4, 4))
    >>> with candle.trace() as moves:
    ...     t.T.contiguous()[0, 0] = 1
    >>> moves[0].action, moves[0].nbytes, moves[0].reasons[0].code.value
    ('copy', 64, 'order')
    """

    __module__ = "candle"
    __slots__ = ("_began", "_blocks", "_moves")

    def __init__(self) -> None:
        self._moves: list[Move] = []
        self._began = 0.0
        self._blocks = Blocks()

    def __enter__(self) -> Self:
        self._began = self._began or time.perf_counter()
        # Entered again within itself, it goes on writing each move once.
        on = self._blocks.on()
        self._blocks.enter(Watcher() if on else _Trace(self._moves, self._began))
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

        threads: dict[int, int] = {}  # identifiers are wider than a viewer's numbers
        events = [
            {
                "name": f"{move.producer} -> {move.consumer}: {move.action}",
                "cat": move.action,
                "ph": "X",
                "ts": move.started * 1e6,
                "dur": (move.seconds or 0.0) * 1e6,
                "pid": os.getpid(),
                "tid": threads.setdefault(move.thread, len(threads) + 1),
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
