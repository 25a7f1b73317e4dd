"""Who makes copies on CUDA devices: what candle needs of a framework, and which one is taken."""

from __future__ import annotations

from .._native import _core
from ..naming import package_of
from . import by_cupy, by_torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from .._native._core import Tensor
    from ..dtypes import DType

    class Provider(Protocol):
        """Copies on CUDA devices, made by a framework.

        What these give is the framework's own array; all of it is queued on the stream that `on`
        has made current, and only `to_host` waits.
        """

        def devices(self) -> int:
            """Say how many devices there are."""
            ...

        def on(self, device: int, stream: int) -> AbstractContextManager[object]:
            """Make a device and a stream current; stream 0 stays the framework's own."""
            ...

        def knows(self, dtype: DType) -> bool:
            """Say whether it casts from and to a dtype."""
            ...

        def empty(self, nbytes: int) -> Any:
            """Give bytes that are not set."""

        def copy(self, t: Tensor, dtype: DType | None, turned: tuple[int, ...]) -> Any:
            """Give a fresh row-major array of a tensor of the current device.

            Cast, unless `dtype` is None, and with the elements along the axes `turned` in reverse.
            """

        def write(self, dst: Tensor, src: Tensor) -> None:
            """Copy a tensor, broadcast and cast, into another; both on the current device."""

        def across(self, data: Tensor) -> Any:
            """Give bytes that lie on another device, or on the host, on the current one."""

        def to_host(self, data: Tensor) -> Any:
            """Give bytes as an array on the host, in pinned memory, and wait for them."""


__all__ = ["device_count", "is_available", "library_for", "provider_for"]

_NONE = (
    "copies on CUDA devices are made by cupy or torch, and neither is installed with CUDA: "
    "pip install 'candle-dlpack[cuda13]' (or cuda12)"
)


def provider_for(*tensors: Tensor, dtypes: Iterable[DType] = ()) -> Provider:
    """Give torch for memory that torch owns, else cupy, else torch; whichever knows all dtypes.

    Raises
    ------
    BufferError
        Where neither is installed, or knows them.
    """
    lacks = _NONE
    for name in _in_turn(tensors):
        found = _load(name)
        if found is None:
            continue
        unknown = next((dtype for dtype in dtypes if not found.knows(dtype)), None)
        if unknown is None:
            return found
        more = ", or install torch with CUDA" if name == "cupy" else ""
        lacks = f"{name} casts no {unknown} on CUDA devices; cast on the CPU, t.to('cpu'){more}"
    raise BufferError(lacks)


def is_available() -> bool:
    """Tell whether somebody is there who makes tensors on CUDA devices."""
    return any(_load(name) is not None for name in _makers)


def library_for(*tensors: Tensor) -> str:
    """Name the library that computes with tensors on CUDA devices, by the rule of `provider_for`.

    Raises
    ------
    BufferError
        Where none is installed.
    """
    first = ""
    for name in _in_turn(tensors):
        found = _load(name)
        if found is not None and all(found.knows(t.dtype) for t in tensors):
            return name
        if found is not None:
            first = first or name
    if not first:
        raise BufferError(_NONE)
    return first  # which says what it lacks


def device_count() -> int:
    """Give the number of CUDA devices that a library can make copies on; 0 without a library."""
    found = _load("cupy") or _load("torch")
    return 0 if found is None else found.devices()


def _in_turn(tensors: Iterable[Tensor]) -> tuple[str, str]:
    lenders = (_core.lender(t) for t in tensors)
    owned_by_torch = any(package_of(lender) == "torch" for lender in lenders if lender is not None)
    return ("torch", "cupy") if owned_by_torch else ("cupy", "torch")


_makers = {"cupy": by_cupy.provider, "torch": by_torch.provider}
_loaded: dict[str, Provider | None] = {}


def _load(name: str) -> Provider | None:
    if name not in _loaded:
        try:
            _loaded[name] = _makers[name]()
        except (ImportError, OSError):
            return None  # it may be installed later
    return _loaded[name]
