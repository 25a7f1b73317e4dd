"""The stream that work is queued on now, as the frameworks that are loaded see it."""

from __future__ import annotations

import sys

__all__ = ["work_stream"]


def work_stream(index: int, /) -> object:
    """Give the current stream of a CUDA device: torch's where torch uses CUDA, else cupy's.

    Parameters
    ----------
    index : int
        The device's number.

    Returns
    -------
    stream
        An object with ``__cuda_stream__``, or a handle; None where neither is loaded.
    """
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        from ..frameworks.torch import current_stream

        return current_stream(index)
    if "cupy" in sys.modules:
        from ..frameworks.cupy import current_stream as cupy_stream

        return cupy_stream(index)
    return None
