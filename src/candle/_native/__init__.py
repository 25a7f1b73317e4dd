"""What is native: the Tensor type, the ways in and out, and the copy engine."""

from . import _core

__all__ = ["_core"]
