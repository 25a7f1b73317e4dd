"""The `fft` extension of the standard."""

from __future__ import annotations

from ..creation import asarray
from ..dtypes import as_dtype, float32
from ..engines import host
from .delegated import functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._native._core import Tensor

globals().update(functions("fft"))


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


__all__ = [*functions("fft"), "fftfreq", "rfftfreq"]
