"""pyarrow: its arrays are immutable."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["examples"]


def examples() -> dict[str, Any]:
    """Make an array."""
    import pyarrow

    return {"pyarrow": pyarrow.array([0.0] * 24, pyarrow.float32())}
