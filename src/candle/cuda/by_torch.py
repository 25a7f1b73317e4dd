"""Copies made by torch."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = ["Torch", "provider"]


class Torch:
    """A Provider."""

    def devices(self) -> int:
        """Say how many devices there are."""
        import torch

        return int(torch.cuda.device_count())

    def on(self, device: int, stream: int) -> AbstractContextManager[object]:
        """Make a device and a stream current."""
        from contextlib import ExitStack

        import torch

        both = ExitStack()
        both.enter_context(torch.cuda.device(device))
        if stream == 1:
            both.enter_context(torch.cuda.stream(torch.cuda.default_stream(device)))
        elif stream:
            both.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream, device)))
        return both

    def knows(self, dtype: DType) -> bool:
        """Say whether torch casts from and to a dtype."""
        return _dtype(dtype) is not None and dtype.bits >= 8

    def empty(self, nbytes: int) -> Any:
        """Give bytes that are not set."""
        import torch

        return torch.empty(nbytes, dtype=torch.uint8, device="cuda")

    def copy(self, t: Tensor, dtype: DType | None, turned: tuple[int, ...]) -> Any:
        """Give a fresh row-major array."""
        import torch

        x = t.torch(copy=False)
        wanted = x.dtype if dtype is None else _dtype(dtype)
        if turned:
            return x.flip(turned).contiguous().to(wanted)
        return x.to(wanted, memory_format=torch.contiguous_format, copy=True)

    def write(self, dst: Tensor, src: Tensor) -> None:
        """Copy a tensor into another."""
        dst.torch(copy=False).copy_(src.torch(copy=False))

    def across(self, data: Tensor) -> Any:
        """Give bytes on the current device."""
        import torch

        here = torch.empty(data.shape, dtype=torch.uint8, device="cuda")
        there = data.torch(copy=False)
        if there.is_cuda:
            return here.copy_(there)  # torch makes the current streams of both devices wait
        pinned = torch.empty(data.shape, dtype=torch.uint8, pin_memory=True)
        return here.copy_(pinned.copy_(there), non_blocking=True)

    def to_host(self, data: Tensor) -> Any:
        """Give bytes on the host."""
        import torch

        out = torch.empty(data.shape, dtype=torch.uint8, pin_memory=True)
        return out.copy_(data.torch(copy=False)).numpy()


def _dtype(dtype: DType) -> Any:
    import torch

    found = getattr(torch, str(dtype), None)
    return found if isinstance(found, torch.dtype) else None


def provider() -> Torch | None:
    """Give the provider, if torch finds a device."""
    import torch

    return Torch() if torch.cuda.is_available() else None
