"""The Python Array API's creation functions, and HuggingFace candle's ``tensor``.

None needs numpy. What they make is in row-major order, in memory of its own that begins at a
multiple of 256 bytes (`asarray` and `from_dlpack` share where they can). Wherever a `dtype` is
taken, anything that `candle.dtypes.as_dtype` knows will do. `device` is the CPU, or a CUDA device,
whose memory cupy or torch allocates; others raise BufferError.
"""

from __future__ import annotations

from . import cuda, frameworks
from ._native import _core
from ._native._core import asarray, from_arrow, from_dlpack
from .devices import as_device, cpu
from .dtypes import as_dtype, float32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ._native._core import Tensor
    from .devices import Device
    from .dtypes import DType

    Shape = int | Sequence[int]

__all__ = [
    "allocate",
    "asarray",
    "creatable",
    "device_or",
    "dtype_or",
    "empty",
    "empty_like",
    "from_arrow",
    "from_dlpack",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "shape_of",
    "tensor",
    "zeros",
    "zeros_like",
]


def tensor(data: object, *, dtype: object = None, device: object = None) -> Tensor:
    """Make a tensor of a copy of anything: what `asarray` takes, but never shared.

    Parameters
    ----------
    data
        A tensor of any framework, a number, nested sequences of numbers, a sequence of tensors.
    dtype, device
        As for `asarray`.

    Returns
    -------
    Tensor
        Fresh and writable.
    """
    return asarray(data, dtype=dtype, device=device, copy=True)


def empty(
    shape: Shape, *extents: int, dtype: object = None, device: object = None, align: int = 256
) -> Tensor:
    """Make a tensor whose elements are not set.

    Parameters
    ----------
    shape, *extents : int or sequence of int
        The shape: ``empty((2, 3))`` or ``empty(2, 3)``.
    dtype
        Default: float32.
    device
        Default: the CPU.
    align : int
        The address is a multiple of so many bytes, a power of 2.

    Returns
    -------
    Tensor
    """
    if not 0 < align < 1 << 63 or align & (align - 1):
        raise ValueError(
            f"align is a power of 2 below 2**63, in bytes; {_core.in_words(align)} is not"
        )
    return allocate(shape_of(shape, extents), dtype_or(dtype, float32), device, align)


def zeros(shape: Shape, *extents: int, dtype: object = None, device: object = None) -> Tensor:
    """Make a tensor of zeros. Parameters as for `empty`."""
    return _filled(shape_of(shape, extents), 0, dtype_or(dtype, float32), device)


def ones(shape: Shape, *extents: int, dtype: object = None, device: object = None) -> Tensor:
    """Make a tensor of ones. Parameters as for `empty`."""
    return _filled(shape_of(shape, extents), 1, dtype_or(dtype, float32), device)


def full(
    shape: Shape, fill_value: object, *, dtype: object = None, device: object = None
) -> Tensor:
    """Make a tensor whose elements are all the same.

    Parameters
    ----------
    shape : int or sequence of int
    fill_value
        A number, or anything that `asarray` takes and that broadcasts to `shape`.
    dtype
        Default: the value's own; Python's bool, int, float and complex give bool, int64, float32
        and complex64.
    device
        Default: the CPU.

    Returns
    -------
    Tensor

    Raises
    ------
    ValueError
        For a number beyond the range of the dtype, which of integers is NaN too.
    BufferError
        For a complex value and a dtype that is not complex.
    """
    return _filled(
        shape_of(shape, ()), fill_value, None if dtype is None else as_dtype(dtype), device
    )


def empty_like(x: object, /, *, dtype: object = None, device: object = None) -> Tensor:
    """Make a tensor of the shape, dtype and device of another, of any framework, not set."""
    like = asarray(x)
    return allocate(like.shape, dtype_or(dtype, like.dtype), device_or(device, like))


def zeros_like(x: object, /, *, dtype: object = None, device: object = None) -> Tensor:
    """Make a tensor of zeros of the shape, dtype and device of another, of any framework."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: object, /, *, dtype: object = None, device: object = None) -> Tensor:
    """Make a tensor of ones of the shape, dtype and device of another, of any framework."""
    return full_like(x, 1, dtype=dtype, device=device)


def full_like(
    x: object, /, fill_value: object, *, dtype: object = None, device: object = None
) -> Tensor:
    """Make a tensor of one value of the shape, dtype and device of another, of any framework."""
    like = asarray(x)
    return _filled(like.shape, fill_value, dtype_or(dtype, like.dtype), device_or(device, like))


def device_or(device: object, like: Tensor) -> object:
    """Give the device asked for, else that of a tensor; the CPU for other memory of the host."""
    return device if device is not None or like.device.on_host else like.device


def shape_of(shape: Any, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Give the shape written as one sequence or as ints; the core checks the extents."""
    if extents or hasattr(shape, "__index__"):
        return (shape, *extents)
    return tuple(shape)


def dtype_or(dtype: object, default: DType) -> DType:
    """Give the DType that was asked for, or the default if none was."""
    return default if dtype is None else as_dtype(dtype)


def creatable(device: object) -> Device:
    """Give the Device to make a tensor on; the one place that looks at `device`."""
    where = cpu if device is None else as_device(device)
    if where is not cpu and where.type != "cuda":
        raise BufferError(f"{where!r}: candle makes tensors on the CPU and on CUDA devices only")
    return where


def allocate(
    shape: tuple[int, ...], dtype: DType, device: object = None, align: int = 256
) -> Tensor:
    """Make a tensor whose elements are not set."""
    where = creatable(device)
    if where is cpu:
        return _core.empty(shape, dtype.id, align)
    return cuda.empty(shape, dtype, where.index)


def _filled(shape: tuple[int, ...], value: Any, dtype: DType | None, device: object) -> Tensor:
    if dtype is not None and frameworks.is_number(type(value)):
        value = asarray(value).item()  # so that it has to fit, as Python's numbers have
    if type(value) in (bool, int, float, complex):
        filled = allocate(shape, dtype or as_dtype(type(value)), device)
        _core.fill(filled, value)
    else:
        source = asarray(value)
        filled = allocate(shape, dtype or source.dtype, device)
        _core.copy_into(filled, source)
    return filled
