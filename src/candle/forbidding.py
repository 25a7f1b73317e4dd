"""`strict`: a block in which a copy that nobody asked for by name is refused."""

from __future__ import annotations

from _thread import allocate_lock
from operator import index

from .callables import way_of_running
from .ledger import Blocks, Watcher
from .plan import FATAL, REMEDIES, Plan, refusal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, ParamSpec, SupportsIndex, TypeVar

    P = ParamSpec("P")
    T = TypeVar("T")

__all__ = ["strict"]


class _Strict(Watcher):
    __slots__ = ("_codes", "_left", "_lock")

    def __init__(self, codes: frozenset[str], budget: int) -> None:
        super().__init__()
        self._codes = codes
        self._left = budget
        self._lock = allocate_lock()  # threads may run copies of one context

    def permit(self, plan: Plan, asked: bool) -> None:
        if plan.action != "copy" or asked:
            return
        codes = {reason.code for reason in plan.reasons}
        if codes <= self._codes:
            return
        with self._lock:
            if plan.nbytes <= self._left:
                self._left -= plan.nbytes
                return
        allow = ", ".join(f"'{code}'" for code in sorted(codes))
        raise refusal_of(plan.refused(), f" (strict(allow={{{allow}}}) would let it through)")


class strict:
    """A block, or a function, in which a copy that nobody asked for by name raises `CopyError`.

    Such copies are those of a move with ``copy=None``, and of `reshape`, `flatten` and `contiguous`
    where they cannot share. Asked for by name are ``copy=True``, ``dtype=``, ``device=``, `copy`,
    `to`, `copy_`, assignment, and building a tensor of lists or numbers: these go on. What
    frameworks copy by themselves candle does not see.

    Parameters
    ----------
    allow : ReasonCode, str, int, or several of them
        Codes of reasons: a copy all of whose reasons are named is made. A number of bytes: other
        copies are made too, as long as they have no more than that together, in each block.

    Raises
    ------
    TypeError
        For what is neither a code nor a number; as a decorator, for what is no function, and for
        generator functions, whose body runs in their caller's context.
    ValueError
        For a code that no copy has.

    Notes
    -----
    It is on in the context it is entered in (`contextvars`): in the tasks that are started within
    the block, and in a thread only where Python gives it that context
    (``sys.flags.thread_inherit_context``, a default of free-threaded Python 3.14).

    Examples
    --------
    >>> import candle
    >>> with candle.strict(allow={"alignment", 4096}):
    ...     t = candle.zeros((4, 4)).T.reshape(16)  # 64 bytes
    """

    __module__ = "candle"
    __slots__ = ("_blocks", "_budget", "_codes")

    def __init__(self, *, allow: str | SupportsIndex | Iterable[str | SupportsIndex] = ()) -> None:
        self._codes, self._budget = _allowed(allow)
        self._blocks = Blocks()

    def __enter__(self) -> None:
        self._blocks.enter(_Strict(self._codes, self._budget))

    def __exit__(self, *exc_info: object) -> None:
        self._blocks.leave()

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate a function or method, ``async`` or not: each call is a block of its own."""
        from functools import wraps

        if isinstance(function, staticmethod | classmethod):
            wrapped: Any = type(function)
            again: Callable[P, T] = wrapped(self(function.__func__))
            return again
        given: object = function
        if not callable(given) or isinstance(given, type):
            raise TypeError(
                f"strict() decorates functions, not {function!r}; write `with candle.strict():` "
                "where its code runs"
            )
        way = way_of_running(function)
        if way == "generator":
            raise TypeError(
                "a generator runs in its caller's context; write `with candle.strict():` within it"
            )
        if way == "coroutine":

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


def _allowed(
    allow: str | SupportsIndex | Iterable[str | SupportsIndex],
) -> tuple[frozenset[str], int]:
    codes, budget = set(), 0
    for item in _items(allow):
        if isinstance(item, str):
            if item in FATAL or item not in REMEDIES:
                known = ", ".join(code for code in REMEDIES if code not in FATAL)
                raise ValueError(f"allow={str(item)!r}: copies have the reasons {known}")
            codes.add(str(item))
            continue
        number = _number(item)
        if number is None:
            raise TypeError(f"allow= takes codes of reasons and a number of bytes, not {item!r}")
        if number < 0:
            raise ValueError(f"allow={number}: a number of bytes is not negative")
        budget += number
    return frozenset(codes), budget


def _items(allow: Any) -> Iterable[Any]:
    single = isinstance(allow, str | bytes | bytearray) or _number(allow) is not None
    return (allow,) if single or not hasattr(allow, "__iter__") else allow


def _number(x: Any) -> int | None:
    try:
        return None if isinstance(x, bool) else index(x)
    except TypeError:
        return None
