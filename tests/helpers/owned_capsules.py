"""DLPack capsules over memory that a Python function gives back, once, when the last user is gone.

`candle.testing.Producer` counts natively, and keeps its memory for good; here memory really goes.
"""

from __future__ import annotations

import ctypes as C
from typing import TYPE_CHECKING, Any

from candle.testing.abi import DLManagedTensor, DLManagedTensorVersioned
from candle.testing.capsules import new_capsule
from candle.testing.producers import compact_strides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_python = C.PyDLL(None)
# The capsule is dead when its destructor runs: it may only be named by its address.
_is_valid = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)(("PyCapsule_IsValid", _python))
_get_pointer = C.PYFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(("PyCapsule_GetPointer", _python))

_alive: dict[int, tuple[Any, Callable[[], object]]] = {}  # by the address of the struct


@C.CFUNCTYPE(None, C.c_void_p)
def _delete(struct: int) -> None:
    _kept, release = _alive.pop(struct)
    release()


@C.PYFUNCTYPE(None, C.c_void_p)
def _destroy(capsule: int) -> None:
    for name in (b"dltensor_versioned", b"dltensor"):
        if _is_valid(capsule, name):
            _delete(_get_pointer(capsule, name))


def alive() -> int:
    """How many structs were handed out and not deleted yet."""
    return len(_alive)


def owned_capsule(
    address: int,
    release: Callable[[], object],
    *,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dtype: tuple[int, int] = (2, 32),
    device: tuple[int, int] = (2, 0),
    versioned: bool = True,
    flags: int = 0,
) -> object:
    """Make a capsule; `release` is called when its struct is deleted, consumed or not.

    Parameters
    ----------
    address
        Of the first element.
    strides
        In elements; row-major if None.
    dtype
        DLPack's code and bits.
    device
        DLPack's kind and number.
    """
    managed: Any = DLManagedTensorVersioned() if versioned else DLManagedTensor()
    if versioned:
        managed.version.major, managed.version.minor, managed.flags = 1, 3, flags
    extents = (C.c_int64 * (len(shape) + 1))(*shape)
    steps = (C.c_int64 * (len(shape) + 1))(
        *(compact_strides(shape) if strides is None else strides)
    )
    tensor = managed.dl_tensor
    tensor.data, tensor.ndim = address or None, len(shape)
    tensor.device.device_type, tensor.device.device_id = device
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = (*dtype, 1)
    tensor.shape, tensor.strides = extents, steps
    managed.deleter = C.cast(_delete, C.c_void_p)
    _alive[C.addressof(managed)] = ((managed, extents, steps), release)
    name = "dltensor_versioned" if versioned else "dltensor"
    return new_capsule(C.addressof(managed), name, C.cast(_destroy, C.c_void_p).value)
