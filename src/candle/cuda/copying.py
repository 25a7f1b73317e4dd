"""Copies from, to and on CUDA devices, put together of what a provider makes.

The native core has recorded a copy before it comes here, so that nothing of it is recorded again.
"""

from __future__ import annotations

from .._native import _core
from .provider import provider_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ParamSpec, TypeVar

    from .._native._core import Tensor
    from ..dtypes import DType
    from .provider import Provider

    _P = ParamSpec("_P")
    _T = TypeVar("_T")

__all__ = ["copy", "empty", "write"]


def _blamed(move: Callable[_P, _T]) -> Callable[_P, _T]:
    """Make a BufferError of what a provider raises, as of what any other producer does.

    A TypeError that left `__dlpack__` would have consumers ask again without a stream.
    """

    def blamed(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return move(*args, **kwargs)
        except (BufferError, MemoryError):
            raise
        except Exception as error:
            kind = type(error).__name__
            said = f"the copy on a CUDA device failed: {kind}: {error}"
            raise (MemoryError if kind == "OutOfMemoryError" else BufferError)(said) from error

    blamed.__doc__ = move.__doc__
    return blamed


_CUDA = 2
_IDS = {row[0]: number for number, row in enumerate(_core.dtype_rows())}
# What elements are moved as where they are not cast: by their size in bytes.
_WORDS = {1: _IDS["int8"], 2: _IDS["int16"], 4: _IDS["int32"], 8: _IDS["int64"]}


@_blamed
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
        return _to_host(t, wanted)
    here = t.device.index
    provider = _provider(t, wanted)
    with provider.on(here, stream if device[1] == here else 0):
        made = _dense(provider, t, wanted)
    if device[1] == here:
        return made
    with provider.on(device[1], stream):
        return _like(made, provider.across(_core.as_bytes(made)))


@_blamed
def write(dst: Tensor, src: Tensor) -> None:
    """Copy a tensor, broadcast and cast, into another; at least one is on a CUDA device."""
    if dst.size == 0:
        return
    if dst.device.type != "cuda":
        _core.host_write(dst, _to_host(src, src.dtype))
        return
    if src.device.type != "cuda":
        src = _from_host(src, dst.dtype, dst.device.index, 0)
    elif src.device != dst.device:
        src = copy(src, dst.dtype, dst.device.dlpack, 0)
    provider = _provider(dst, src.dtype, src)
    turned = _backward(dst)
    with provider.on(dst.device.index, 0):
        plain = not turned and not _backward(src) and not _overlap(dst, src)
        if src.dtype is not dst.dtype and plain and _aligned(dst) and _aligned(src):
            provider.write(dst, src)
            return
        if src.dtype is not dst.dtype or not plain:
            src = _dense(provider, src, dst.dtype)
        src = src.broadcast_to(dst.shape)
        if turned:
            dst, src = _turn(dst, turned), _dense(provider, src, src.dtype, turned)
        provider.write(*_words(dst, src))


@_blamed
def empty(shape: tuple[int, ...], dtype: DType, device: int) -> Tensor:
    """Give a tensor on a CUDA device whose elements are not set."""
    bits = dtype.bits * dtype.lanes
    for extent in shape:
        bits *= extent
    provider = provider_for()
    with provider.on(device, 0):
        data = _core.quietly(_core.from_dlpack, provider.empty((bits + 7) // 8))
    return _core.of_bytes(data, shape, dtype.id)


def _from_host(t: Tensor, dtype: DType, device: int, stream: int) -> Tensor:
    plain = t.is_contiguous() and t.dtype is dtype
    host = t if plain else _core.host_copy(t, dtype.id)
    provider = provider_for(t)
    with provider.on(device, stream):
        return _like(host, provider.across(_core.as_bytes(host)))


def _to_host(t: Tensor, dtype: DType) -> Tensor:
    provider = provider_for(t)
    with provider.on(t.device.index, 0):
        dense = t if t.is_contiguous() else _dense(provider, t, t.dtype)
        made = _like(dense, provider.to_host(_core.as_bytes(dense)))
    return made if dtype is t.dtype else _core.host_copy(made, dtype.id)


def _provider(t: Tensor, dtype: DType, *others: Tensor) -> Provider:
    return provider_for(t, *others, dtypes=() if dtype is t.dtype else (t.dtype, dtype))


def _dense(provider: Provider, t: Tensor, dtype: DType, turned: Iterable[int] = ()) -> Tensor:
    """Give a fresh row-major copy, cast, with the elements along some axes in reverse."""
    backward = _backward(t)
    axes = tuple(sorted(set(backward).symmetric_difference(turned)))
    forward = _turn(t, backward)
    if dtype is not t.dtype:
        if not _aligned(t):
            forward = _dense(provider, forward, t.dtype)
        return _core.from_dlpack(provider.copy(forward, dtype, axes))
    (words,) = _words(forward, flat=not axes)
    made = _core.from_dlpack(provider.copy(words, None, axes))
    return _like(t, _core.as_bytes(made))


def _words(*tensors: Tensor, flat: bool = True) -> list[Tensor]:
    """See tensors of one shape and dtype as integers, for who only moves them.

    As vectors of bytes where they are `flat` and row-major, else in their own shape.
    """
    first = tensors[0]
    if (
        flat
        and all(t.is_contiguous() and t.nbytes == first.nbytes for t in tensors)
        and (len(tensors) == 1 or not _packed(first) or 8 * first.nbytes == _bits(first))
    ):
        return [_core.as_bytes(t) for t in tensors]
    if any(map(_packed, tensors)):
        raise BufferError(
            f"nobody copies {first.dtype} elements on a CUDA device that lie several to a byte, "
            "with gaps or beginning within one; copy the whole tensor to the CPU first"
        )
    item = first.itemsize
    word = _component(first) if all(map(_aligned, tensors)) else 1
    if word == item:
        return [_core.reinterpret(t, _WORDS[word]) for t in tensors]
    apart = (_core.restride(t, (*t.shape, 1), (*t.stride, 1)) for t in tensors)
    return [_core.reinterpret(t, _WORDS[word]) for t in apart]


def _like(t: Tensor, data: object) -> Tensor:
    """See bytes, an array of a provider's or a Tensor, as a tensor like another."""
    return _core.of_bytes(_core.asarray(data), t.shape, t.dtype.id, _core.is_padded(t))


def _bits(t: Tensor) -> int:
    return t.size * t.dtype.bits * t.dtype.lanes


def _packed(t: Tensor) -> bool:
    return t.dtype.bits * t.dtype.lanes < 8 and not _core.is_padded(t)


def _component(t: Tensor) -> int:
    return t.itemsize // 2 if t.dtype.kind == "complex" else t.itemsize


def _aligned(t: Tensor) -> bool:
    return t.data_ptr() % _component(t) == 0


def _backward(t: Tensor) -> tuple[int, ...]:
    """Name the axes that run backwards, which no provider takes."""
    if t.size == 0:
        return ()
    return tuple(axis for axis, step in enumerate(t.stride) if step < 0)


def _turn(t: Tensor, axes: tuple[int, ...]) -> Tensor:
    """See a tensor with some axes in reverse."""
    if not axes:
        return t
    steps = [-step if axis in axes else step for axis, step in enumerate(t.stride)]
    offset = sum((t.shape[axis] - 1) * t.stride[axis] for axis in axes)
    return _core.restride(t, t.shape, steps, offset)


def _overlap(a: Tensor, b: Tensor) -> bool:
    (a_low, a_high), (b_low, b_high) = _reach(a), _reach(b)
    return a_low < b_high and b_low < a_high


def _reach(t: Tensor) -> tuple[int, int]:
    ends = [(n - 1) * step * t.itemsize for n, step in zip(t.shape, t.stride, strict=True)]
    low = t.data_ptr() + sum(end for end in ends if end < 0)
    return low, t.data_ptr() + sum(end for end in ends if end > 0) + t.itemsize
