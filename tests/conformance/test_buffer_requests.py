"""Every request of the buffer protocol, of every layout: answered as numpy answers it."""

from __future__ import annotations

import ctypes as C
import itertools
from typing import Any

import pytest

import candle


class Buffer(C.Structure):
    """Py_buffer."""

    _fields_ = (
        ("buf", C.c_void_p),
        ("obj", C.c_void_p),
        ("len", C.c_ssize_t),
        ("itemsize", C.c_ssize_t),
        ("readonly", C.c_int),
        ("ndim", C.c_int),
        ("format", C.c_char_p),
        ("shape", C.POINTER(C.c_ssize_t)),
        ("strides", C.POINTER(C.c_ssize_t)),
        ("suboffsets", C.c_void_p),
        ("internal", C.c_void_p),
    )


WRITABLE, FORMAT, ND, STRIDES = 0x1, 0x4, 0x8, 0x10
SHAPES = {
    "simple": 0,
    "nd": ND,
    "strides": STRIDES | ND,
    "C": 0x20 | STRIDES | ND,
    "Fortran": 0x40 | STRIDES | ND,
    "any": 0x80 | STRIDES | ND,
}
REQUESTS = {
    f"{name}{' writable' * bool(write)}{' format' * bool(form)}": shape | write | form
    for (name, shape), write, form in itertools.product(SHAPES.items(), (0, WRITABLE), (0, FORMAT))
}
LAYOUTS: dict[str, Any] = {
    "C": lambda a: a,
    "Fortran": lambda a: a.T,
    "every other": lambda a: a[:, ::2],
    "backwards": lambda a: a[::-1],
    "one axis": lambda a: a[0],
    "scalar": lambda a: a[0, 0, ...],
    "empty": lambda a: a[:0],
}

get, release = C.pythonapi.PyObject_GetBuffer, C.pythonapi.PyBuffer_Release
get.argtypes, get.restype = [C.py_object, C.POINTER(Buffer), C.c_int], C.c_int
release.argtypes, release.restype = [C.POINTER(Buffer)], None


def answer(exporter: object, flags: int) -> tuple[object, ...] | None:
    """What a consumer is told; None where it is refused."""
    view = Buffer()
    try:
        get(exporter, C.byref(view), flags)
    except (BufferError, ValueError):  # numpy says ValueError
        assert not view.obj
        return None
    axes = range(view.ndim)
    shape = [view.shape[i] for i in axes] if view.shape else None
    strides = [view.strides[i] for i in axes] if view.strides else None
    told = (view.len, view.itemsize, view.readonly, shape, view.format, view.len and view.buf)
    release(C.byref(view))
    return (*told, strides if view.len else None)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_numpy_answers(framework: Any, layout: str, readonly: bool) -> None:
    np = framework("numpy")
    whole = np.arange(12, dtype="f4").reshape(3, 4)
    whole.flags.writeable = not readonly
    array = LAYOUTS[layout](whole)
    exporter = LAYOUTS[layout](candle.asarray(whole)).memoryview().obj
    for name, flags in REQUESTS.items():
        ours, theirs = answer(exporter, flags), answer(array, flags)
        assert (ours is None) == (theirs is None), name
        assert ours == theirs or array.ndim == 0, name
