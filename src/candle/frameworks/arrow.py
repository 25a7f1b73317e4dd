"""pyarrow: immutable; its columns come in natively, by Arrow's own protocol."""

from __future__ import annotations

from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["examples", "record"]

def record(cls: type, base: type) -> Record:
    """Everything comes in read-only: what has no Arrow protocol too (pyarrow.Tensor)."""
    return Record("plain", read_only=True)


def examples() -> dict[str, Any]:
    """Make an array."""
    import pyarrow

    return {"pyarrow": pyarrow.array([0.0] * 24, pyarrow.float32())}
