"""Sparse arrays: scipy's, those of the package `sparse`, and how anybody's are refused."""

from __future__ import annotations

from ..ledger import refuse
from ..naming import package_of
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["record", "refuse_sparse"]


def refuse_sparse(x: object) -> NoReturn:
    """Refuse a sparse array: going through it as a sequence would be endless, or quietly slow."""
    cls = type(x)
    fact = "the array is sparse: only some of its elements have memory"
    refuse("array", "sparse", fact, f"{package_of(cls)}.{cls.__name__}")


def record(cls: type, base: type) -> Record | None:
    """Whatever can be made dense is sparse; other types of these packages are nothing special."""
    return Record("stand_in", stand_in=refuse_sparse) if hasattr(cls, "todense") else None
