"""Indices that make no view: masks, and tensors of ints. They are applied where the memory is.

Semantics: numpy's advanced indexing, https://numpy.org/doc/stable/user/basics.indexing.html.
"""

from __future__ import annotations

from ._native import _core
from .engines import engine_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._native._core import Tensor

__all__: list[str] = []

_asarray = _core.asarray


def _check_index(index: Any) -> None:
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, (str, bytes, float, complex, dict, set)):
            raise TypeError(
                "a tensor is indexed by ints, slices, None, ..., masks and tensors of ints, not by "
                f"{type(item).__name__}"
            )


def _read(t: Tensor, index: Any) -> Tensor:
    """Copy the elements that masks and tensors of ints choose, as numpy does."""
    _check_index(index)
    engine = engine_for(t, index)
    place = engine.place(t, index)
    with engine.on(place):
        array = engine.take(t, place)
        found: Tensor = engine.wrapped(array[engine.index(index, place, array)])
        return found


def _write(t: Tensor, index: Any, value: Any) -> None:
    """Write to the elements that masks and tensors of ints choose, as through any other index."""
    _check_index(index)
    if isinstance(value, float):  # numpy's float64 too is a number, which has to fit
        value = float(value)
    engine = engine_for(t)
    place = engine.place(t)
    with engine.on(place):
        engine.assign(t, index, _asarray(value, dtype=t.dtype, device=t.device), place)


_core.register(index_read=_read, index_write=_write)
