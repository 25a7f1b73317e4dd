"""Arrow (pyarrow): immutable, with nulls, and with types that are no numbers."""

from __future__ import annotations

from ..ledger import refuse
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["examples", "record"]

_NUMBERS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("halffloat", "float", "double"),
)
_TEXT = ("string", "large_string", "string_view")


def _column(x: Any) -> object:
    """Give a column itself; refuse nulls, and what Arrow itself cannot hand on.

    Its own refusal is a TypeError, which reads as an old signature of ``__dlpack__``.
    """
    producer = f"pyarrow.{type(x).__name__}"
    if x.null_count:
        refuse("dlpack_versioned", "nulls", f"{x.null_count} elements are null", producer)
    name = str(x.type)
    if hasattr(x, "__dlpack__") and name not in _NUMBERS:
        fact = f"candle takes no elements of Arrow's type {name}"
        refuse("dlpack_versioned", "text" if name in _TEXT else "no_dtype", fact, producer)
    return x


def _table(x: Any) -> object:
    """Give a table itself; refuse nulls, which would become NaN among floats."""
    nulls = sum(column.null_count for column in x.columns)
    if nulls:
        refuse("array", "nulls", f"{nulls} elements are null", f"pyarrow.{type(x).__name__}")
    return x


def record(cls: type, base: type) -> Record | None:
    """Everything comes in read-only; columns and tables are looked at first."""
    look = None
    if hasattr(cls, "null_count") and hasattr(cls, "type"):
        look = _column
    elif hasattr(cls, "num_columns"):
        look = _table
    return Record("stand_in" if look else "plain", read_only=True, stand_in=look)


def examples() -> dict[str, Any]:
    """Make an array."""
    import pyarrow

    return {"pyarrow": pyarrow.array([0.0] * 24, pyarrow.float32())}
