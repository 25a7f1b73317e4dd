"""pandas: columns of numpy's dtypes come in as the ndarray that they are."""

from __future__ import annotations

import sys

from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["MORE_THAN_MEMORY", "record"]

# They have labels, and compute by them.
MORE_THAN_MEMORY = True


def _array(x: Any) -> object:
    """Give the ndarray behind columns of one of numpy's dtypes; leave others to Arrow.

    By Arrow pandas would need pyarrow, and call every NaN a null. A frame's labels would be a
    column, which they are not here.
    """
    dtypes = set(x.dtypes) if x.ndim > 1 else {x.dtype}
    numpy = sys.modules.get("numpy")
    if numpy is None or len(dtypes) != 1 or not isinstance(dtypes.pop(), numpy.dtype):
        labelled = x.ndim > 1 and not isinstance(x.index, sys.modules["pandas"].RangeIndex)
        return x.reset_index(drop=True) if labelled else x
    array: object = x.to_numpy()
    return array


def record(cls: type, base: type) -> Record | None:
    """Series and frames by what they are made of; everything else by its protocols."""
    return Record("stand_in", stand_in=_array) if hasattr(cls, "__arrow_c_stream__") else None
