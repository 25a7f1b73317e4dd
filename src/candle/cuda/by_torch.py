"""Copies made by torch."""

from __future__ import annotations

from contextlib import ExitStack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = ["Torch", "provider"]


class Torch:
    """A Provider."""

    def on(self, device: int, stream: int) -> AbstractContextManager[object]:
        """Make a device and a stream current."""
        import torch

        both = ExitStack()
        both.enter_context(torch.cuda.device(device))
        if stream == 1:
            both.enter_context(torch.cuda.stream(torch.cuda.default_stream(device)))
        elif stream:
            both.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream, device)))
        return both

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Give an array whose elements are not set."""
        import torch

        return torch.empty(shape, dtype=_dtype(dtype), device="cuda")

    def copy(self, t: Tensor, dtype: DType) -> Any:
        """Give a fresh row-major array."""
        import torch

        return t.torch(copy=False).to(
            _dtype(dtype), memory_format=torch.contiguous_format, copy=True
        )

    def write(self, dst: Tensor, src: Tensor) -> None:
        """Copy a tensor into another."""
        dst.torch(copy=False).copy_(src.torch(copy=False))

    def across(self, data: Tensor) -> Any:
        """Give bytes on the current device."""
        import torch

        here = torch.empty(data.shape, dtype=torch.uint8, device="cuda")
        return here.copy_(data.torch(copy=False))

    def to_host(self, data: Tensor) -> Any:
        """Give bytes on the host."""
        import torch

        out = torch.empty(data.shape, dtype=torch.uint8, pin_memory=True)
        return out.copy_(data.torch(copy=False)).numpy()


def _dtype(dtype: DType) -> Any:
    import torch

    found = getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype):
        raise BufferError(f"torch has no {dtype}; copy on the CPU: t.to('cpu')")
    return found


def provider() -> Torch | None:
    """Give the provider, if torch finds a device."""
    import torch

    return Torch() if torch.cuda.is_available() else None
