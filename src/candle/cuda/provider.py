"""Who makes copies on CUDA devices: what candle needs of a framework, and which one is taken."""

from __future__ import annotations

import sys

from .._native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from .._native._core import Tensor
    from ..dtypes import DType

    class Provider(Protocol):
        """Copies on CUDA devices, made by a framework.

        What these give is the framework's own array; all of it is queued on the stream that `on`
        has made current, and only `to_host` waits.
        """

        def on(self, device: int, stream: int) -> AbstractContextManager[object]:
            """Make a device and a stream current; stream 0 stays the framework's own."""

        def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
            """Give an array whose elements are not set."""

        def copy(self, t: Tensor, dtype: DType) -> Any:
            """Give a fresh row-major array of a tensor of the current device, cast."""

        def write(self, dst: Tensor, src: Tensor) -> None:
            """Copy a tensor, broadcast and cast, into another; both on the current device."""

        def across(self, data: Tensor) -> Any:
            """Give bytes that lie on another device, or on the host, on the current one."""

        def to_host(self, data: Tensor) -> Any:
            """Give bytes as an array on the host, in pinned memory, and wait for them."""


__all__ = ["provider_for"]

_NONE = (
    "copies on CUDA devices are made by cupy or torch, and neither is installed with CUDA: "
    "pip install 'candle-dlpack[cuda13]' (or cuda12)"
)


def provider_for(*tensors: Tensor) -> Provider:
    """Give torch for memory that torch owns, else cupy, else torch.

    Raises
    ------
    BufferError
        Where neither is installed.
    """
    lenders = (_core.lender(t) for t in tensors)
    owned_by_torch = any(
        lender is not None and lender.__module__.partition(".")[0] == "torch" for lender in lenders
    )
    names = ("torch", "cupy") if owned_by_torch else ("cupy", "torch")
    for name in names:
        found = _load(name)
        if found is not None:
            return found
    raise BufferError(_NONE)


_loaded: dict[str, Provider | None] = {}


def _load(name: str) -> Provider | None:
    if name not in _loaded:
        try:
            __import__(name)
        except ImportError:
            return None  # it may be installed later
        module = f"{__package__}.by_{name}"
        __import__(module)
        _loaded[name] = sys.modules[module].provider()
    return _loaded[name]
