"""The structs of DLPack 1.3 as ctypes classes, named as in ``dlpack.h``."""

from __future__ import annotations

import ctypes as C

READ_ONLY = 1
IS_COPIED = 2
IS_SUBBYTE_TYPE_PADDED = 4


class DLPackVersion(C.Structure):
    """Layout (``major``) and enumerations (``minor``) that a struct keeps to."""

    _fields_ = [("major", C.c_uint32), ("minor", C.c_uint32)]


class DLDevice(C.Structure):
    """A kind of device and the number of one of them."""

    _fields_ = [("device_type", C.c_int32), ("device_id", C.c_int32)]


class DLDataType(C.Structure):
    """An element: what it is, its bits, and how many of them make one element."""

    _fields_ = [("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16)]


class DLTensor(C.Structure):
    """Memory and what it means; strides count elements."""

    _fields_ = [
        ("data", C.c_void_p),
        ("device", DLDevice),
        ("ndim", C.c_int32),
        ("dtype", DLDataType),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class DLManagedTensor(C.Structure):
    """A legacy struct: what a ``dltensor`` capsule points to. The tensor comes first."""

    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", C.c_void_p), ("deleter", C.c_void_p)]


class DLManagedTensorVersioned(C.Structure):
    """What a ``dltensor_versioned`` capsule points to. The tensor comes last."""

    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", C.c_void_p),
        ("deleter", C.c_void_p),
        ("flags", C.c_uint64),
        ("dl_tensor", DLTensor),
    ]


class DLPackExchangeAPIHeader(C.Structure):
    """The version of an exchange table, and the table of an older version, or NULL."""

    _fields_ = [("version", DLPackVersion), ("prev_api", C.c_void_p)]


class DLPackExchangeAPI(C.Structure):
    """The C exchange table that a type carries as ``__dlpack_c_exchange_api__``."""

    _fields_ = [
        ("header", DLPackExchangeAPIHeader),
        ("managed_tensor_allocator", C.c_void_p),
        ("managed_tensor_from_py_object_no_sync", C.c_void_p),
        ("managed_tensor_to_py_object_no_sync", C.c_void_p),
        ("dltensor_from_py_object_no_sync", C.c_void_p),
        ("current_work_stream", C.c_void_p),
    ]


SLOTS = (
    "managed_tensor_allocator",
    "managed_tensor_from_py_object_no_sync",
    "managed_tensor_to_py_object_no_sync",
    "dltensor_from_py_object_no_sync",
    "current_work_stream",
)

Managed = DLManagedTensor | DLManagedTensorVersioned

_SIZES = {
    DLTensor: 48,
    DLManagedTensor: 64,
    DLManagedTensorVersioned: 80,
    DLPackExchangeAPIHeader: 16,
    DLPackExchangeAPI: 56,
}
assert all(C.sizeof(struct) == size for struct, size in _SIZES.items())
