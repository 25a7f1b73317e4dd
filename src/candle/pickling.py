"""How tensors are pickled and copied: their bytes out of band where the protocol can."""

from __future__ import annotations

from ._native import _core
from .devices import as_device
from .dtypes import as_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._native._core import Tensor
    from .dtypes import DType

__all__ = ["occupied", "reduced"]

_DESCRIBED = 7  # what a pickle says of a tensor beside its class and its bytes
_dense = _core.Demand("pickle", c_order=True, route="buffer")


def reduced(t: Tensor, protocol: int) -> tuple[Any, ...]:
    """Give what `pickle` makes a tensor of (PEP 574, and `object.__reduce_ex__`).

    The bytes go as a `PickleBuffer` from protocol 5 on: a consumer that takes buffers out of band
    gets the tensor's own memory, in the order it lies in; one that does not copies it once. Earlier
    protocols get a copy. Layouts with gaps, negative or repeated strides are copied row-major
    first. Memory of a device comes to the host, and goes back to its device where it is unpickled.
    """
    device = t.device
    host = t if device.type == "cpu" else _core.from_dlpack(t, device=as_device("cpu"))
    axes = _outermost_first(host)
    lying = _permuted(host, axes)
    if not lying.is_contiguous():
        axes, lying = list(range(host.ndim)), host
    lying = _core.conform(lying, _dense, None)
    memory = _core.as_bytes(lying).memoryview()
    data: object
    if protocol >= 5:
        from pickle import PickleBuffer

        data = PickleBuffer(memory)
    else:
        data = bytes(memory)
    rebuilding = (
        type(t),
        data,
        t.dtype.name,
        lying.shape,
        tuple(axes),
        t.readonly,
        _core.is_padded(t),
        str(device),
        protocol < 5 and not t.readonly,
    )
    state = t.__getstate__()  # what a subclass of the user's has besides, or makes of itself
    return (_rebuilt, rebuilding) if state is None else (_rebuilt, rebuilding, state)


def occupied(t: Tensor) -> int:
    """Give the bytes of memory that a tensor's elements take: repeated ones (stride 0) once."""
    items = 1
    for extent, stride in zip(t.shape, t.stride, strict=True):
        items *= extent if stride else min(extent, 1)
    return items * t.nbytes // t.size if t.size else 0


def _outermost_first(t: Tensor) -> list[int]:
    stride = t.stride
    return sorted(range(t.ndim), key=lambda axis: -stride[axis])


def _permuted(t: Tensor, axes: list[int]) -> Tensor:
    shape, stride = t.shape, t.stride
    return _core.restride(t, tuple(shape[i] for i in axes), tuple(stride[i] for i in axes))


def _rebuilt(cls: type[Tensor], data: Any, *described: Any) -> Tensor:
    """Make the tensor over the bytes that arrived.

    That is a move of its own, which copies them where they lie misaligned; or if `fresh`, because
    they are a `bytes` object, and the tensor is to be written.

    Raises
    ------
    BufferError, TypeError
        If what arrived in place of the bytes has gaps, or is no buffer.
    ValueError
        If there are more or fewer bytes than the shape and the dtype take, or the rest is not what
        `reduced` gives.
    """
    if len(described) != _DESCRIBED:
        raise ValueError(
            f"the pickle says {len(described)} things of a tensor, and this version of candle "
            f"writes {_DESCRIBED}: it was made by another version, or is damaged. Pickles go "
            "between processes with the same candle; candle.save_safetensors writes archives"
        )
    dtype, shape, axes, readonly, padded, device, fresh = described
    back = sorted(range(len(axes)), key=axes.__getitem__)
    if len(shape) != len(axes) or any(axes[i] != at for at, i in enumerate(back)):
        raise ValueError(f"the pickle is damaged: {axes} is no order of the axes of {shape}")
    memory = _core.quietly(_core.asarray, _frame(data))
    lying = _of_bytes(memory, as_dtype(dtype), shape, padded, readonly, fresh)
    t = _permuted(lying, back)
    if device != "cpu":
        t = _core.from_dlpack(t, device=as_device(device))
    return t if cls is _core.Tensor else _core.Tensor.__new__(cls, t, copy=False)


def _frame(data: Any) -> memoryview:
    from pickle import PickleBuffer

    memory = None
    try:
        memory = memoryview(data)
        found = "" if memory.contiguous else "has gaps"
        if "O" in memory.format:
            found = "holds Python objects"
    except (BufferError, TypeError, ValueError) as error:
        found = f"is no buffer ({error})"
    if memory is None or found:
        wrong = TypeError if "no buffer" in found else BufferError
        raise wrong(
            f"what arrived in place of a tensor's bytes, an object of {type(data).__name__}, "
            f"{found}: give pickle.loads the buffers that pickle.dumps gave, in their order, or "
            "the bytes of each"
        )
    return PickleBuffer(memory).raw()


def _of_bytes(
    memory: Tensor, dtype: DType, shape: tuple[int, ...], padded: bool, readonly: bool, fresh: bool
) -> Tensor:
    from .frameworks.own import PickleFrame

    readonly = readonly or (memory.readonly and not fresh)
    try:
        arrived = _core.of_bytes(memory, shape, dtype.id, padded)
    except ValueError:
        raise ValueError(
            f"{memory.size} bytes arrived, which are not those of a {dtype} tensor of the shape "
            f"{shape}: the buffers of the pickle were cut, joined or mixed up on the way"
        ) from None
    t = _core.asarray(PickleFrame(arrived), copy=fresh or None)
    return _core.frozen(t) if readonly and not t.readonly else t
