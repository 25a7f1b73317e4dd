"""numpy: its subclasses, its scalars, and the dtypes it lacks; exact ndarrays are read natively."""

from __future__ import annotations

import sys

from .._native import _core
from ..ledger import refusal
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["dtype_in", "dtype_out", "owner", "record"]

_ROWS = _core.dtype_rows()
_NUMBERS = {row[0]: number for number, row in enumerate(_ROWS)}


def _refuse(code: str, fact: str, producer: str = "numpy.ndarray") -> NoReturn:
    raise refusal("numpy", "refuse", 0, [(code, fact)], producer, "candle")


def _array(x: Any) -> object:
    """Give an exact ndarray over a subclass's memory, or a scalar's value."""
    import numpy as np

    if isinstance(x, np.ma.MaskedArray):
        _refuse("masked", "the array has a mask, which candle does not carry", type(x).__name__)
    if isinstance(x, np.generic):
        if isinstance(x, np.void | np.object_ | np.character | np.datetime64 | np.timedelta64):
            dtype_in(x.dtype)
        return np.asarray(x)
    return x.view(np.ndarray)


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
    name = dtype.type.__name__
    if dtype.type.__module__.partition(".")[0] == "ml_dtypes" and name in _NUMBERS:
        return _NUMBERS[name]
    kind = dtype.kind
    if dtype.hasobject or kind == "O":
        _refuse("python_objects", "the array holds Python objects, not numbers")
    if dtype.names is not None:
        _refuse("structured", f"the elements are records of the fields {', '.join(dtype.names)}")
    if kind in "mM":
        _refuse("datetime", f"the elements are {dtype}, times that candle has no dtype for")
    if kind in "fc":
        _refuse("long_double", f"candle has no {dtype}: it differs from machine to machine")
    if kind in "SUT":
        _refuse("text", f"the elements are text ({dtype})")
    _refuse("dtype_unknown", f"candle has no dtype for numpy's {dtype!r}")


def dtype_out(number: int) -> object:
    """Give the ml_dtypes dtype of one that numpy does not have itself."""
    import ml_dtypes
    import numpy as np

    name = _ROWS[number][0]
    found = getattr(ml_dtypes, name, None)
    if found is None:
        reasons = [("dtype_unknown", f"numpy and ml_dtypes {ml_dtypes.__version__} have no {name}")]
        raise refusal("numpy", "refuse", 0, reasons, "candle", "numpy")
    return np.dtype(found)
