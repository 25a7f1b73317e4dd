"""What runs when something is called: for decorators, which have to know."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Literal

__all__ = ["way_of_running"]

# inspect's flags of code objects.
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200


def way_of_running(function: Callable[..., object]) -> Literal["at once", "coroutine", "generator"]:
    """Tell what a call gives: a result, or something whose body runs later.

    Parameters
    ----------
    function : callable
        A function, a method, a `functools.partial` of one, or an object with ``__call__``.

    Returns
    -------
    str
        ``"at once"``, ``"coroutine"``, or ``"generator"``, an asynchronous one too.
    """
    from functools import partial

    while isinstance(function, partial):
        function = function.func
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None:  # a class has its metaclass's, which is not Python's
        code = getattr(type(function).__call__, "__code__", None)
    flags = getattr(code, "co_flags", 0)
    if flags & (_GENERATOR | _ASYNC_GENERATOR):
        return "generator"
    return "coroutine" if flags & _COROUTINE else "at once"
