"""Read and call the C exchange table of a type: its ``__dlpack_c_exchange_api__``."""

from __future__ import annotations

import ctypes as C
from typing import Any

from .abi import (
    SLOTS,
    DLManagedTensorVersioned,
    DLPackExchangeAPI,
    DLTensor,
)
from .capsules import Taken, capsule_address

CAPSULE_NAME = "dlpack_exchange_api"

# Every slot but the allocator reports by Python's error indicator, so the GIL is held: PYFUNCTYPE
# also raises what is set.
FROM_PY = C.PYFUNCTYPE(C.c_int, C.py_object, C.POINTER(C.c_void_p))
TO_PY = C.PYFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(C.c_void_p))
DLTENSOR_FROM_PY = C.PYFUNCTYPE(C.c_int, C.py_object, C.POINTER(DLTensor))
CURRENT_WORK_STREAM = C.PYFUNCTYPE(C.c_int, C.c_int32, C.c_int32, C.POINTER(C.c_void_p))
SET_ERROR = C.CFUNCTYPE(None, C.c_void_p, C.c_char_p, C.c_char_p)
ALLOCATOR = C.CFUNCTYPE(C.c_int, C.POINTER(DLTensor), C.POINTER(C.c_void_p), C.c_void_p, SET_ERROR)

_drop = C.PyDLL(None).Py_DecRef
_drop.restype, _drop.argtypes = None, [C.py_object]


class SlotError(RuntimeError):
    """A slot broke its contract: it failed without an error, or gave no result."""


class AllocatorError(RuntimeError):
    """The allocator failed. `kind` and `message` are what it told ``SetError``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class ExchangeAPI:
    """One exchange table: its version, which slots are filled, and a method to call each."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.table: DLPackExchangeAPI = DLPackExchangeAPI.from_address(address)

    @property
    def version(self) -> tuple[int, int]:
        """DLPack version of the table."""
        version = self.table.header.version
        return version.major, version.minor

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the slots that are not NULL."""
        return tuple(name for name in SLOTS if getattr(self.table, name))

    def __repr__(self) -> str:
        return f"ExchangeAPI(version={self.version}, slots={self.slots})"

    def _slot(self, name: str, prototype: Any) -> Any:
        address = getattr(self.table, name)
        if not address:
            raise SlotError(f"{name} is NULL")
        return prototype(address)

    def from_py_object(self, x: object) -> Taken:
        """Make a managed struct of `x`, of the table's type; raises what the slot sets."""
        out = C.c_void_p()
        code = self._slot("managed_tensor_from_py_object_no_sync", FROM_PY)(x, C.byref(out))
        if code != 0 or not out.value:
            raise SlotError(f"code {code}, result {out.value}, and no error set")
        return Taken(DLManagedTensorVersioned.from_address(out.value))

    def to_py_object(self, address: int) -> object:
        """Make a Python object of the managed struct at `address`, which is stolen."""
        out = C.c_void_p()
        code = self._slot("managed_tensor_to_py_object_no_sync", TO_PY)(address, C.byref(out))
        if code != 0 or not out.value:
            raise SlotError(f"code {code}, result {out.value}, and no error set")
        result: object = C.py_object.from_buffer(out).value  # a cast would make a reference cycle
        _drop(result)  # the slot gave one reference, reading it took another
        return result

    def dltensor_from_py_object(self, x: object) -> DLTensor:
        """Borrow a description of `x`, good until anything else runs: read it at once."""
        tensor = DLTensor()
        code = self._slot("dltensor_from_py_object_no_sync", DLTENSOR_FROM_PY)(x, C.byref(tensor))
        if code != 0:
            raise SlotError(f"code {code}, and no error set")
        return tensor

    def allocate(
        self, shape: tuple[int, ...], dtype: tuple[int, int, int], device: tuple[int, int] = (1, 0)
    ) -> Taken:
        """Get fresh memory from the table's allocator, called without the GIL.

        ``AllocatorError`` where it fails.
        """
        prototype = DLTensor()
        extents = (C.c_int64 * max(len(shape), 1))(*shape)
        prototype.ndim, prototype.shape = len(shape), extents
        prototype.dtype.code, prototype.dtype.bits, prototype.dtype.lanes = dtype
        prototype.device.device_type, prototype.device.device_id = device
        said: list[tuple[str, str]] = []

        def set_error(_context: int, kind: bytes, message: bytes) -> None:
            said.append((kind.decode(), message.decode()))

        out = C.c_void_p()
        code = self._slot("managed_tensor_allocator", ALLOCATOR)(
            C.byref(prototype), C.byref(out), None, SET_ERROR(set_error)
        )
        if (code != 0) != bool(said) or (code == 0 and not out.value):
            raise SlotError(f"code {code}, result {out.value}, errors {said}")
        if said:
            raise AllocatorError(*said[0])
        assert out.value is not None
        return Taken(DLManagedTensorVersioned.from_address(out.value))

    def current_work_stream(self, device: tuple[int, int] = (1, 0)) -> int | None:
        """Return the stream that the type's framework works on; None for the CPU."""
        out = C.c_void_p()
        code = self._slot("current_work_stream", CURRENT_WORK_STREAM)(*device, C.byref(out))
        if code != 0:
            raise SlotError(f"code {code}, and no error set")
        return out.value


def exchange_api(cls: type) -> list[ExchangeAPI]:
    """List the exchange tables of a type, newest first along ``prev_api``."""
    capsule = getattr(cls, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return []
    address, tables = capsule_address(capsule, CAPSULE_NAME), []
    while address:
        tables.append(ExchangeAPI(address))
        address = tables[-1].table.header.prev_api
    return tables
