"""CUDA devices: who copies there, and on which stream.

candle has no kernels. It shares device memory itself and orders streams itself; copies between and
on devices are made by cupy or torch, whichever is there (`candle.cuda.provider`).
"""

from __future__ import annotations

from .._native import _core
from .streams import work_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = ["work_stream"]


def _copy(t: Tensor, dtype: DType | None, device: tuple[int, int], stream: int) -> Tensor:
    from .copying import copy

    return copy(t, dtype, device, stream)


def _write(dst: Tensor, src: Tensor) -> None:
    from .copying import write

    write(dst, src)


_core.register(device_copy=_copy, device_write=_write, work_stream=work_stream)
