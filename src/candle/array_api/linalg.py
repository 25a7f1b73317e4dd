"""The `linalg` extension of the standard."""

from __future__ import annotations

from .delegated import functions

globals().update(functions("linalg"))

__all__ = sorted(functions("linalg"))
