"""Copies from, to and on CUDA devices, put together of what a provider makes."""

from __future__ import annotations

from .._native import _core
from .provider import provider_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._native._core import Tensor
    from ..dtypes import DType

__all__ = ["copy", "empty", "write"]

_CUDA = 2


def copy(t: Tensor, dtype: DType | None, device: tuple[int, int], stream: int) -> Tensor:
    """Give a fresh row-major copy.

    Parameters
    ----------
    t : Tensor
    dtype : DType, optional
        Of the copy; default the tensor's own. Casts are made where the provider runs, by its
        rules; those of a copy from or to the host on the host, by candle's.
    device : tuple of int
        DLPack's type and number of where the copy is to lie.
    stream : int
        Where the copying is queued; 0: on the provider's current stream.
    """
    wanted = t.dtype if dtype is None else dtype
    if t.device.type != "cuda":
        return _from_host(t, wanted, device[1], stream)
    if device[0] != _CUDA:
        return _to_host(t, wanted, stream)
    provider = provider_for(t)
    here = t.device.index
    with provider.on(here, stream if device[1] == here else 0):
        made = _core.from_dlpack(provider.copy(t, wanted))
    if device[1] == here:
        return made
    with provider.on(device[1], stream):
        return _typed(_core.from_dlpack(provider.across(_bytes(made))), made.shape, wanted)


def write(dst: Tensor, src: Tensor) -> None:
    """Copy a tensor, broadcast and cast, into another; at least one is on a CUDA device."""
    if dst.device.type != "cuda":
        _core.copy_into(dst, _to_host(src, src.dtype, 0))
        return
    provider = provider_for(dst, src)
    if src.device != dst.device:
        if src.device.type == "cuda":
            src = copy(src, dst.dtype, dst.device.dlpack, 0)
        else:
            src = _from_host(src, dst.dtype, dst.device.index, 0)
    with provider.on(dst.device.index, 0):
        provider.write(dst, src)


def empty(shape: tuple[int, ...], dtype: DType, device: int) -> Tensor:
    """Give a tensor on a CUDA device whose elements are not set."""
    provider = provider_for()
    with provider.on(device, 0):
        return _core.from_dlpack(provider.empty(shape, dtype))


def _from_host(t: Tensor, dtype: DType, device: int, stream: int) -> Tensor:
    host = _core.from_dlpack(t, dtype=dtype, order="C")
    provider = provider_for(t)
    with provider.on(device, stream):
        return _typed(_core.from_dlpack(provider.across(_bytes(host))), t.shape, dtype)


def _to_host(t: Tensor, dtype: DType, stream: int) -> Tensor:
    provider = provider_for(t)
    with provider.on(t.device.index, stream):
        dense = t if t.is_contiguous() else _core.from_dlpack(provider.copy(t, t.dtype))
        host = _core.asarray(provider.to_host(_bytes(dense)))
    made = _typed(host, t.shape, t.dtype)
    return made if dtype is t.dtype else _core.materialise(made, dtype.id)


def _bytes(t: Tensor) -> Tensor:
    """See row-major memory as a vector of its bytes."""
    return _core.reinterpret(_core.restride(t, (t.size,), (1,)), _uint8)


def _typed(data: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return _core.reinterpret(data, dtype.id).view(shape)


_uint8 = next(i for i, row in enumerate(_core.dtype_rows()) if row[0] == "uint8")
