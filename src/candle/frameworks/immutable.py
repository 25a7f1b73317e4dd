"""Frameworks whose arrays are immutable, though their capsules do not say so: mlx."""

from __future__ import annotations

from .record import Record

__all__ = ["record"]


def record(cls: type, base: type) -> Record | None:
    """Everything of theirs comes in read-only."""
    return Record("plain", read_only=True)
