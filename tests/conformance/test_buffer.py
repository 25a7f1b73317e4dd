"""The buffer protocol: in from whatever Python offers, out by `Tensor.memoryview()`."""

from __future__ import annotations

import array
import ctypes
import gc
import itertools
import mmap
import pickle
import struct
import sys
from typing import TYPE_CHECKING, Any

import layouts
import pytest

import candle
from candle.testing import live

if TYPE_CHECKING:
    from pathlib import Path

COPY_MODES = (None, False, True)
BYTES = bytes(range(1, 13))


def address_of(buffer: Any) -> int:
    """Of a writable buffer."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


# In


@pytest.mark.parametrize("copy", COPY_MODES)
def test_bytes_are_read_only(copy: bool | None) -> None:
    t = candle.asarray(BYTES, copy=copy)
    assert (t.shape, str(t.dtype), t.tolist()) == ((12,), "uint8", list(BYTES))
    assert t.readonly == (copy is not True)
    if t.readonly:
        with pytest.raises(ValueError, match="read-only"):
            t[0] = 9
    assert bytes(range(1, 13)) == BYTES


@pytest.mark.parametrize("copy", COPY_MODES)
def test_bytearray(copy: bool | None) -> None:
    data = bytearray(BYTES)
    t = candle.asarray(data, copy=copy)
    assert not t.readonly
    assert (t.data_ptr() == address_of(data)) == (copy is not True)
    t[0] = 99
    assert data[0] == (1 if copy is True else 99)


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b""), array.array("d")])
def test_empty(empty: Any) -> None:
    t = candle.asarray(empty)
    assert (t.shape, t.tolist()) == ((0,), [])


def test_exporter_is_locked_and_let_go() -> None:
    data = bytearray(BYTES)
    t = candle.asarray(data)
    view = t[2:4]
    for _ in range(2):
        with pytest.raises(BufferError):
            data.append(1)
        del t
        t = view
    del t, view
    data.append(1)


def test_copied_exporter_is_let_go_at_once() -> None:
    data = bytearray(BYTES)
    t = candle.asarray(data, copy=True)
    data.append(1)
    assert t.size == 12


def test_owner_is_kept() -> None:
    t = candle.asarray(bytearray(b"x" * 1000))
    junk = [bytearray(b"y" * 1000) for _ in range(100)]
    gc.collect()
    assert t.tolist() == [ord("x")] * 1000
    del junk


ARRAYS = {
    "b": ("int8", [1, -2, 3]),
    "B": ("uint8", [1, 2, 255]),
    "h": ("int16", [1, -2, 3]),
    "H": ("uint16", [1, 2, 65535]),
    "i": ("int32", [1, -2, 3]),
    "I": ("uint32", [1, 2, 2**32 - 1]),
    "l": (f"int{8 * array.array('l').itemsize}", [1, -2, 3]),
    "L": (f"uint{8 * array.array('L').itemsize}", [1, 2, 3]),
    "q": ("int64", [1, -2, 2**63 - 1]),
    "Q": ("uint64", [1, 2, 2**64 - 1]),
    "f": ("float32", [1.0, -2.0, 0.5]),
    "d": ("float64", [1.0, -2.0, 0.5]),
}


@pytest.mark.parametrize("code", ARRAYS)
def test_array_array(code: str) -> None:
    dtype, values = ARRAYS[code]
    data = array.array(code, values)
    t = candle.asarray(data, copy=False)
    assert (str(t.dtype), t.tolist(), t.readonly) == (dtype, values, False)
    assert t.data_ptr() == data.buffer_info()[0]
    t[0] = 5
    assert data[0] == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_array_of_characters_is_refused() -> None:
    with pytest.raises(BufferError):
        candle.asarray(array.array("u", "abc"))


# A format, what struct packs it with, and the dtype
FORMATS = [
    ("?", "?", "bool", [True, False, True]),
    ("b", "b", "int8", [1, -2, 3]),
    ("B", "B", "uint8", [1, 2, 3]),
    ("h", "h", "int16", [1, -2, 3]),
    ("H", "H", "uint16", [1, 2, 3]),
    ("i", "i", "int32", [1, -2, 3]),
    ("I", "I", "uint32", [1, 2, 3]),
    ("l", "l", f"int{8 * struct.calcsize('l')}", [1, -2, 3]),
    ("L", "L", f"uint{8 * struct.calcsize('L')}", [1, 2, 3]),
    ("q", "q", "int64", [1, -2, 3]),
    ("Q", "Q", "uint64", [1, 2, 3]),
    ("n", "n", f"int{8 * struct.calcsize('n')}", [1, -2, 3]),
    ("N", "N", f"uint{8 * struct.calcsize('N')}", [1, 2, 3]),
    ("f", "f", "float32", [1.0, -2.0, 0.5]),
    ("d", "d", "float64", [1.0, -2.0, 0.5]),
]


@pytest.mark.parametrize(("cast", "code", "dtype", "values"), FORMATS)
@pytest.mark.parametrize("prefix", ["", "@"])
def test_formats(cast: str, code: str, dtype: str, values: list[Any], prefix: str) -> None:
    data = bytearray(struct.pack(f"3{code}", *values))
    view = memoryview(data).cast(prefix + cast)
    t = candle.asarray(view, copy=False)
    assert (str(t.dtype), t.tolist(), t.data_ptr()) == (dtype, values, address_of(data))


def test_characters_are_bytes() -> None:
    t = candle.asarray(memoryview(bytearray(b"abc")).cast("c"), copy=False)
    assert (str(t.dtype), t.tolist()) == ("uint8", [97, 98, 99])


def test_pointers_are_refused() -> None:
    with pytest.raises(BufferError, match="P"):
        candle.asarray(memoryview(bytearray(16)).cast("P"))


def test_shapes_and_slices() -> None:
    data = bytearray(struct.pack("=12f", *range(12)))
    view = memoryview(data).cast("f", (3, 4))
    assert candle.asarray(view, copy=False).tolist() == view.tolist()
    flat = memoryview(data).cast("f")
    for part in (flat[::2], flat[::-1], flat[10:2:-3], flat[3:3]):
        t = candle.asarray(part, copy=False)
        assert t.tolist() == part.tolist()
        assert part.nbytes == 0 or t.stride == (part.strides[0] // 4,)
    zero_d = memoryview(data)[:4].cast("f", ())
    assert candle.asarray(zero_d).item() == 0.0
    assert candle.asarray(memoryview(data).toreadonly()).readonly


@pytest.mark.parametrize(
    "shape", [s for n in (1, 2, 3) for s in itertools.product((1, 2, 3), repeat=n)]
)
def test_every_small_shape(shape: tuple[int, ...]) -> None:
    size = 1
    for extent in shape:
        size *= extent
    view = memoryview(struct.pack(f"={size}i", *range(size))).cast("i", shape)
    assert candle.asarray(view).tolist() == view.tolist()


def test_misaligned_memory_is_copied_or_refused() -> None:
    data = bytearray(b"\1" + struct.pack("=3f", 1, 2, 3))
    view = memoryview(data)[1:].cast("f")
    assert candle.asarray(view).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(candle.CopyError, match="align"):
        candle.asarray(view, copy=False)
    view.release()
    data.append(1)


def test_released_view() -> None:
    view = memoryview(bytearray(4))
    view.release()
    with pytest.raises((ValueError, BufferError)):
        candle.asarray(view)


@pytest.mark.parametrize("access", [mmap.ACCESS_READ, mmap.ACCESS_WRITE, mmap.ACCESS_COPY])
def test_mmap(tmp_path: Path, access: int) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(BYTES)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0, access=access) as mapped:
        t = candle.asarray(mapped, copy=False)
        assert t.tolist() == list(BYTES)
        assert t.readonly == (access == mmap.ACCESS_READ)
        with pytest.raises(BufferError):
            mapped.close()
        if t.readonly:
            with pytest.raises(ValueError, match="read-only"):
                t.fill_(0)
        else:
            t[0] = 77
        del t
    assert path.read_bytes()[0] == (77 if access == mmap.ACCESS_WRITE else 1)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (ctypes.c_bool, "bool"),
        (ctypes.c_int8, "int8"),
        (ctypes.c_uint16, "uint16"),
        (ctypes.c_int32, "int32"),
        (ctypes.c_int64, "int64"),
        (ctypes.c_uint64, "uint64"),
        (ctypes.c_float, "float32"),
        (ctypes.c_double, "float64"),
        (ctypes.c_uint8, "uint8"),
    ],
)
def test_ctypes_arrays(kind: Any, dtype: str) -> None:
    data = (kind * 3)(0, 1, 1)
    t = candle.asarray(data, copy=False)
    assert (str(t.dtype), t.tolist()) == (dtype, [0, 1, 1])
    assert t.data_ptr() == ctypes.addressof(data)
    nested = (kind * 3 * 2)()
    assert candle.asarray(nested, copy=False).shape == (2, 3)


def test_ctypes_of_foreign_byte_order() -> None:
    swapped = "__ctype_be__" if sys.byteorder == "little" else "__ctype_le__"
    data = (getattr(ctypes.c_int32, swapped) * 3)(1, -2, 3)
    assert candle.asarray(data).tolist() == [1, -2, 3]
    with pytest.raises(candle.CopyError, match="byte order"):
        candle.asarray(data, copy=False)


def test_ctypes_of_other_kinds_is_refused() -> None:
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int32), ("b", ctypes.c_float)]

    for data in ((Pair * 2)(), Pair(), (ctypes.c_void_p * 2)(), (ctypes.c_longdouble * 2)()):
        with pytest.raises(BufferError):
            candle.asarray(data)


def test_pickle_buffers() -> None:
    data = bytearray(BYTES)
    assert candle.asarray(pickle.PickleBuffer(data), copy=False).data_ptr() == address_of(data)


@pytest.mark.parametrize(
    "dtype", ["f4", "f8", "c8", "c16", "f2", "i2", "u8", "?", ">f4", ">i8", ">c16", ">f2", ">u2"]
)
def test_numpys_buffers(framework: Any, dtype: str) -> None:
    """A memoryview of an ndarray has numpy's own spelling of the format."""
    np = framework("numpy")
    base = np.arange(12).astype(dtype).reshape(3, 4)
    for view in (base, base.T, base[::-1], base[:, ::2], base[1:1], base[2, 3, ...]):
        buffer = memoryview(view)
        t = candle.asarray(buffer)
        assert t.tolist() == view.tolist()
        assert str(t.dtype) == np.dtype(dtype).newbyteorder("=").name
        if np.dtype(dtype).isnative and view.size:
            assert t.data_ptr() == view.__array_interface__["data"][0]


def test_numpys_odd_buffers(framework: Any) -> None:
    np = framework("numpy")
    records = np.zeros(3, dtype=[("a", "u1"), ("b", "f4")])
    records["b"] = [1, 2, 3]
    t = candle.asarray(memoryview(records["b"]))
    assert t.tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(candle.CopyError, match=r"stride|align"):
        candle.asarray(memoryview(records["b"]), copy=False)
    for odd in (records, np.zeros(2, "S3"), np.zeros(2, "U3"), np.zeros(2, np.longdouble)):
        with pytest.raises(BufferError):
            candle.asarray(memoryview(odd))
    read_only = np.arange(3.0)
    read_only.flags.writeable = False
    assert candle.asarray(memoryview(read_only)).readonly


def test_text_is_no_buffer() -> None:
    with pytest.raises(TypeError):
        candle.asarray("text")


def test_from_dlpack_takes_no_buffer() -> None:
    with pytest.raises(TypeError, match="bytearray"):
        candle.from_dlpack(bytearray(4))


def test_dtype_of_a_buffer_is_cast_and_not_reinterpreted() -> None:
    t = candle.asarray(b"\1\2\3\4", dtype="float32")
    assert t.tolist() == [1.0, 2.0, 3.0, 4.0]


# Out

NATIVE = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


@pytest.mark.parametrize("dtype", NATIVE)
def test_memoryview_of_native_dtypes(dtype: str) -> None:
    t = candle.ones((2, 3), dtype=dtype)
    view = t.memoryview()
    assert type(view) is memoryview
    assert struct.calcsize(view.format) == struct.calcsize(NATIVE[dtype]) == view.itemsize
    assert view.format.lstrip("@=<") in (NATIVE[dtype], "l", "L")
    assert (view.shape, view.strides) == ((2, 3), (3 * t.itemsize, t.itemsize))
    assert list(struct.unpack(f"6{view.format}", view)) == t.flatten().tolist()
    assert not view.readonly


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_memoryview_of_complex(framework: Any, dtype: str) -> None:
    np = framework("numpy")
    t = candle.asarray([1j, 2 + 3j], dtype=dtype)
    view = t.memoryview()
    assert view.itemsize == t.itemsize
    array_ = np.asarray(view)
    assert (array_.dtype.name, array_.tolist()) == (dtype, t.tolist())


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_memoryview_of_other_dtypes_is_refused(dtype: str) -> None:
    with pytest.raises(BufferError, match=dtype):
        candle.zeros((3,), dtype=dtype).memoryview()


@pytest.mark.parametrize("make", [pytest.param(m, id=n) for n, m in layouts.LAYOUTS.items()])
def test_memoryview_of_every_layout(make: Any) -> None:
    """Negative strides go out as they are."""
    t = make()
    if str(t.dtype) in ("bfloat16", "complex128"):
        return
    view = t.memoryview()
    assert (view.shape, view.readonly, view.ndim) == (t.shape, t.readonly, t.ndim)
    assert view.nbytes == t.nbytes
    assert view.tolist() == t.tolist()
    assert view.c_contiguous == t.is_contiguous()
    if t.size > 0:
        kept = [
            (theirs, mine * t.itemsize)
            for extent, theirs, mine in zip(t.shape, view.strides, t.stride, strict=True)
            if extent > 1
        ]
        assert all(theirs == mine for theirs, mine in kept)
        back = candle.asarray(view, copy=False)
        assert back.data_ptr() == t.data_ptr()


def test_memoryview_writes_through() -> None:
    t = layouts.counting(2, 3)
    view = t.memoryview()
    view[0, 0] = 42.0
    assert t[0, 0].item() == 42.0
    read_only = layouts.foreign((4,), flags=1).memoryview()
    with pytest.raises(TypeError):
        read_only[0] = 1.0


def test_memoryview_holds_the_storage() -> None:
    before = live()
    view = layouts.counting(1000).memoryview()
    junk = [candle.full((1000,), 7.0) for _ in range(20)]
    assert view.tolist() == list(range(1000))
    part = view[::2]
    del view, junk
    assert part.tolist() == list(range(0, 1000, 2))
    del part
    assert live() == before


def test_memoryview_serves_writers(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(layouts.counting(4).memoryview())
    assert struct.unpack("=4f", path.read_bytes()) == (0.0, 1.0, 2.0, 3.0)
    assert bytes(layouts.counting(2, 2).T.memoryview()) == struct.pack("=4f", 0, 2, 1, 3)


def test_the_type_has_no_buffer() -> None:
    """torch.asarray would take it before DLPack and read bytes as float32."""
    with pytest.raises(TypeError):
        memoryview(layouts.counting(4))  # type: ignore[arg-type]


def test_torch_asarray_reads_the_right_values(framework: Any) -> None:
    torch = framework("torch")
    t = candle.asarray([1, 2, 3])
    for make in (torch.asarray, torch.as_tensor):
        x = make(t)
        assert (x.dtype, x.tolist(), x.data_ptr()) == (torch.int64, [1, 2, 3], t.data_ptr())
