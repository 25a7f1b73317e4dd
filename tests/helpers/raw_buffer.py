"""Objects whose buffer (PEP 3118) says whatever you want, as only C code can."""

from __future__ import annotations

import ctypes as C
from typing import Any

_size = C.c_ssize_t


class Buffer(C.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", C.c_void_p),
        ("obj", C.c_void_p),
        ("len", _size),
        ("itemsize", _size),
        ("readonly", C.c_int),
        ("ndim", C.c_int),
        ("format", C.c_char_p),
        ("shape", C.POINTER(_size)),
        ("strides", C.POINTER(_size)),
        ("suboffsets", C.POINTER(_size)),
        ("internal", C.c_void_p),
    ]


class _Slot(C.Structure):
    _fields_ = [("slot", C.c_int), ("function", C.c_void_p)]


class _Spec(C.Structure):
    _fields_ = [
        ("name", C.c_char_p),
        ("basicsize", C.c_int),
        ("itemsize", C.c_int),
        ("flags", C.c_uint),
        ("slots", C.POINTER(_Slot)),
    ]


_GET = C.PYFUNCTYPE(C.c_int, C.py_object, C.POINTER(Buffer), C.c_int)
_RELEASE = C.PYFUNCTYPE(None, C.py_object, C.POINTER(Buffer))


@_GET
def _get(owner: Any, view: Any, flags: int) -> int:
    return int(owner.fill(view.contents))


@_RELEASE
def _release(owner: Any, view: Any) -> None:
    owner.released += 1


def make_type(name: bytes, *, exports: bool = True) -> Any:
    """Make a type of C's; its objects export what their method `fill` puts in a Buffer."""
    get, release = 1, 2  # Py_bf_getbuffer, Py_bf_releasebuffer
    slots = (_Slot * 3)(
        _Slot(get, C.cast(_get, C.c_void_p)),
        _Slot(release, C.cast(_release, C.c_void_p)),
        _Slot(0, None),
    )
    default = C.c_uint(0)
    basetype = 1 << 10
    begin = 0 if exports else len(slots) - 1
    used = C.cast(C.byref(slots, begin * C.sizeof(_Slot)), C.POINTER(_Slot))
    spec = _Spec(name, 0, 0, default.value | basetype, used)
    make = C.pythonapi.PyType_FromSpec
    make.argtypes, make.restype = [C.POINTER(_Spec)], C.py_object
    return make(C.byref(spec))


_Exporter: Any = make_type(b"raw_buffer.Exporter")


class Exporter(_Exporter):  # type: ignore[misc]
    """Exports a copy of `content`.

    Parameters
    ----------
    shape, strides
        None for NULL. Strides in bytes.
    fields
        Others of Py_buffer, by name, in place of those that fit `content`.
    """

    def __init__(
        self,
        content: bytes,
        *,
        shape: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        **fields: Any,
    ) -> None:
        self.keep = C.create_string_buffer(content, len(content))
        self.address = C.addressof(self.keep)
        self.shape = None if shape is None else (_size * max(1, len(shape)))(*shape)
        self.strides = None if strides is None else (_size * max(1, len(strides)))(*strides)
        self.fields: dict[str, Any] = {
            "buf": self.address,
            "len": len(content),
            "itemsize": 1,
            "readonly": 0,
            "ndim": 1 if shape is None else len(shape),
            "format": None,
            **fields,
        }
        self.exported = self.released = 0

    def fill(self, view: Buffer) -> int:
        for name, value in self.fields.items():
            setattr(view, name, value)
        C.pythonapi.Py_IncRef(C.py_object(self))
        view.obj = id(self)
        for name in ("shape", "strides"):
            kept = getattr(self, name)
            setattr(view, name, None if kept is None else C.cast(kept, C.POINTER(_size)))
        view.suboffsets = None
        self.exported += 1
        return 0
