"""The `fft` extension of the standard."""

# `__getattr__` makes what `__all__` names.
# pyright: reportUnsupportedDunderAll=false

from __future__ import annotations

from ..creation import asarray
from ..dtypes import as_dtype, float32
from ..engines import host
from .delegated import defined as _defined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor


def __getattr__(name: str) -> Any:
    """Make a function of the extension's when it is first asked for."""
    return _defined(__name__, globals(), __all__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def fftfreq(n: int, /, *, d: float = 1.0, dtype: object = None, device: object = None) -> Tensor:
    """Give the sample frequencies of a transform of length `n`, with samples `d` apart.

    Parameters
    ----------
    n : int
    d : float
    dtype
        Default: float32, candle's own.
    device
        Default: the CPU.
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: object = None, device: object = None) -> Tensor:
    """Give the sample frequencies of a transform of `n` real numbers, with samples `d` apart.

    Parameters as for `fftfreq`.
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def _frequencies(name: str, n: int, d: float, dtype: object, device: object) -> Tensor:
    found = getattr(host.module.fft, name)(n, d=d)
    kind = float32 if dtype is None else as_dtype(dtype)
    return asarray(found, dtype=kind, device=device)


__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
