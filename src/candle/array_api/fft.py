"""The `fft` extension of the standard."""

from __future__ import annotations

from .delegated import functions

globals().update(functions("fft"))

__all__ = sorted(functions("fft"))
