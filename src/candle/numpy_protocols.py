"""numpy's functions on tensors: `__array_ufunc__`, `__array_function__`; the standard's namespace.

They come attached to `Tensor`.
"""

from __future__ import annotations

from ._native import _core
from ._native._core import Tensor
from .attaching import attach
from .delegating import called, like_neighbours, takes_numbers
from .engines import engine_for, host
from .operators import has_own_operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

_asarray = _core.asarray
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

# numpy's functions that write to their first argument, and what they call it.
_WRITERS = {
    "copyto": "dst",
    "fill_diagonal": "a",
    "place": "arr",
    "put": "a",
    "put_along_axis": "arr",
    "putmask": "a",
}


def _copies(x: Any = None, copy: bool = True, *others: Any, **more: Any) -> bool:
    return copy


class _Protocols:
    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keywords: Any
    ) -> Any:
        """Compute numpy's universal functions over shared memory, on the device it is on (NEP 13).

        The result is a Tensor, or what `out` is.
        """
        if method == "__call__" and out is None and not keywords:
            quick = [t.numpy() for t in inputs if type(t) is Tensor and t.device.on_host]
            if len(quick) == ufunc.nin and ufunc.nout == 1 and ufunc.signature is None:
                quickly = ufunc(*quick)  # the same as below, in a hurry
                return _asarray(quickly) if quickly.dtype.char != "O" else quickly
        if any(has_own_operators(type(x)) for x in (*inputs, *(out or ()))):
            return NotImplemented  # theirs has to
        engine = engine_for(inputs, out, list(keywords.values()))
        function = engine.like(ufunc, method)
        arguments = list(inputs)
        if engine is host and method in ("__call__", "outer"):
            arguments = list(like_neighbours(inputs))
        if method == "at" and isinstance(arguments[0], Tensor):
            engine.take_to_write(arguments[0])  # an error if it may not be written
        if out is not None:
            keywords["out"] = out
        adds = method in ("reduce", "accumulate", "reduceat")
        return called(engine, function, "sum" if adds else ufunc.__name__, arguments, keywords)

    def __array_function__(
        self, function: Any, types: Any, arguments: Any, keywords: dict[str, Any]
    ) -> Any:
        """Compute numpy's functions over shared memory, on the device it is on (NEP 18).

        Arrays among the results are Tensors, which share numpy's views.
        """
        if any(has_own_operators(cls) for cls in types):
            return NotImplemented  # theirs has to
        engine = engine_for(arguments, list(keywords.values()))
        given, named = list(arguments), dict(keywords)
        if engine is host and takes_numbers(function):
            given = list(like_neighbours(arguments))
        written = _WRITERS.get(function.__name__)
        if function.__name__ == "nan_to_num" and not _copies(*arguments, **keywords):
            written = "x"
        if written is not None:
            target = given[0] if given else named[written]
            if isinstance(target, Tensor):
                engine.take_to_write(target)  # an error if it may not be written
        path = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
        return called(engine, engine.like(function), path, given, named)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Give the functions of the Python Array API standard: `candle.array_api`."""
        if api_version not in (None, *_VERSIONS):
            raise ValueError(f"candle.array_api is that of {_VERSIONS[-1]}, not of {api_version!r}")
        from importlib import import_module  # it stands above this module, and is slow to load

        return import_module("candle.array_api")


attach(_Protocols)
