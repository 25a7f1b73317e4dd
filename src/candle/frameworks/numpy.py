"""numpy: its subclasses, its scalars, and the dtypes it lacks; exact ndarrays are read natively."""

from __future__ import annotations

import sys

from .._native import _core
from ..ledger import refuse
from ..naming import package_of
from .record import Record
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = [
    "dtype_for",
    "dtype_in",
    "dtype_out",
    "examples",
    "has_numbers",
    "owner",
    "record",
    "target",
]

_ROWS = _core.dtype_rows()
_NUMBERS = {row[0]: number for number, row in enumerate(_ROWS)}


def _array(x: Any) -> object:
    """Give an exact ndarray over a subclass's memory, or a scalar's value."""
    import numpy as np

    if isinstance(x, np.ma.MaskedArray):
        fact = "the array has a mask, which candle does not carry"
        refuse("numpy", "masked", fact, type(x).__name__)
    if isinstance(x, np.generic):
        if isinstance(x, np.void | np.object_ | np.character | np.datetime64 | np.timedelta64):
            dtype_in(x.dtype)
        return np.asarray(x)
    return np.ndarray.view(x, np.ndarray)  # whatever a subclass means by view()


def record(cls: type, base: type) -> Record | None:
    """Exact ndarrays natively; subclasses and scalars by an exact ndarray in their place."""
    np = sys.modules.get("numpy")
    if np is None:
        return None
    if cls is np.ndarray:
        return Record("numpy")
    if issubclass(cls, np.ndarray | np.generic):
        return Record("stand_in", stand_in=_array)
    return None


def owner(x: Any) -> object:
    """Give what an array's memory belongs to, as far as the array says."""
    return getattr(x, "base", None)


def dtype_in(dtype: Any) -> int:
    """Say which of candle's dtypes another package's numpy dtype is; refuse what it has not.

    The ml_dtypes are told by their names: their typestrs say only "two bytes".
    """
    name: str = dtype.type.__name__
    if package_of(dtype.type) != "ml_dtypes" or name not in _NUMBERS:
        code, fact = _lack(dtype)
        refuse("numpy", code, fact, "numpy.ndarray")
    return _NUMBERS[name]


def _lack(dtype: Any) -> tuple[str, str]:
    """Give the reason, code and fact, why candle has no such dtype."""
    kind = dtype.kind
    if kind in "SUT":
        return "text", f"the elements are text ({dtype})"
    if dtype.hasobject or kind == "O":
        return "python_objects", "the array holds Python objects, not numbers"
    if dtype.names is not None:
        return "structured", f"the elements are records of the fields {', '.join(dtype.names)}"
    if kind in "mM":
        return "datetime", f"the elements are {dtype}, times that candle has no dtype for"
    if kind in "fc":
        return "long_double", f"candle has no {dtype}: it differs from machine to machine"
    if dtype.type.__name__ == "void":
        return "bits", f"the elements are {dtype}, bytes without a meaning"
    return "no_dtype", f"candle has no {dtype}"


def dtype_out(number: int) -> object:
    """Give the ml_dtypes dtype of one that numpy does not have itself."""
    import ml_dtypes
    import numpy as np

    name = _ROWS[number][0]
    found = getattr(ml_dtypes, name, None)
    if found is None:
        code = "pairs" if _ROWS[number][5] == "pair" else "dtype_unknown"
        fact = f"numpy and ml_dtypes {ml_dtypes.__version__} have no {name}"
        refuse("numpy", code, fact, "candle", "numpy")
    return np.dtype(found)


def has_numbers(x: Any) -> bool:
    """Tell whether candle has a dtype for the elements of an array or number, if it is numpy's."""
    np = sys.modules.get("numpy")
    if np is None or not isinstance(x, np.ndarray | np.generic):
        return True
    kind = x.dtype.type
    return x.dtype.char in "?bBhHiIlLqQefdFD" or (
        package_of(kind) == "ml_dtypes" and kind.__name__ in _NUMBERS
    )


def dtype_for(dtype: DType) -> object:
    """Give numpy's, or ml_dtypes', dtype for one of candle's."""
    import numpy as np

    return np.dtype(dtype.typestr) if dtype.typestr else dtype_out(dtype.id)


def _give(t: Tensor, copy: bool | None) -> Any:
    return t.numpy(copy=copy)


def _share(t: Tensor) -> Any:
    return t.numpy(copy=False)


def target() -> Target:
    """Import numpy: it takes everything on the host but packed elements."""
    import numpy as np

    return Target(
        "numpy",
        types=(np.ndarray,),
        give=_give,
        share=_share,
        devices=False,
        natively="numpy",
        numbers=True,
    )


def examples() -> dict[str, Any]:
    """Make arrays whose memory differs in what consumers make of it."""
    import numpy as np

    array = np.zeros((4, 6), np.float32)
    frozen = np.zeros((4, 6), np.float32)
    frozen.flags.writeable = False
    return {"numpy": array, "numpy, read-only": frozen, "numpy, reversed": array[::-1]}
