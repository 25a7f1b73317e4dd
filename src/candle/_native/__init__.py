"""What is native: the Tensor type, the ways in and out, and the copy engine. The rest of candle is Python on top."""

from . import _core

__all__ = ["_core"]
