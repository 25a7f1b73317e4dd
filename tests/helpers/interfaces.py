"""Objects that offer numpy's array interface and nothing else."""

from __future__ import annotations

import ctypes
from typing import Any

from candle.testing import capsules
from candle.testing.producers import aligned_block

C_CONTIGUOUS, F_CONTIGUOUS, ALIGNED, NOT_SWAPPED, WRITEABLE = 0x1, 0x2, 0x100, 0x200, 0x400
HAS_DESCR = 0x800
SOUND = C_CONTIGUOUS | ALIGNED | NOT_SWAPPED | WRITEABLE


class Interface:
    """An object with `__array_interface__`: the fields given, over a copy of `content`."""

    def __init__(self, content: bytes = b"", /, *, start: int = 0, **fields: Any) -> None:
        self.address, self.keep = aligned_block(content)
        self.asked = 0
        self.fields = {"version": 3, "data": (self.address + start, False), **fields}
        for name in [name for name, value in self.fields.items() if value is NotImplemented]:
            del self.fields[name]

    @property
    def __array_interface__(self) -> Any:
        self.asked += 1
        return self.fields


class Raising:
    """An object whose `__array_interface__` raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @property
    def __array_interface__(self) -> Any:
        raise self.error


class PyArrayInterface(ctypes.Structure):
    """The C struct behind `__array_struct__`."""

    _fields_ = [
        ("two", ctypes.c_int),
        ("nd", ctypes.c_int),
        ("typekind", ctypes.c_char),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("data", ctypes.c_void_p),
        ("descr", ctypes.py_object),
    ]


class Struct:
    """An object with `__array_struct__`; strides in bytes."""

    def __init__(
        self,
        data: bytes,
        *,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        kind: bytes = b"f",
        itemsize: int = 4,
        flags: int = SOUND,
        two: int = 2,
        nd: int | None = None,
        null_data: bool = False,
        null_shape: bool = False,
        start: int = 0,
        name: str | None = None,
    ) -> None:
        self.address, self.keep = aligned_block(data)
        self.name = name
        self.struct = PyArrayInterface()
        self.struct.two, self.struct.nd = two, len(shape) if nd is None else nd
        self.struct.typekind, self.struct.itemsize, self.struct.flags = kind, itemsize, flags
        self.struct.data = None if null_data else self.address + start
        kinds = ctypes.c_ssize_t * (len(shape) + 1)
        if not null_shape:
            self.struct.shape = kinds(*shape, 1)
        if strides is not None:
            self.struct.strides = kinds(*strides, 1)

    @property
    def __array_struct__(self) -> object:
        return capsules.new_capsule(ctypes.addressof(self.struct), self.name)
