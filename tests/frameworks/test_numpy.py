"""numpy's many kinds of arrays: shared, copied right, or refused with the remedy."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

import meeting
import ml_dtypes
import numpy as np
import pytest
from interfaces import Interface

import candle
from candle._native import _core

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORD = np.dtype([("a", np.uint8), ("x", np.float32)])

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "masked": (lambda: np.ma.masked_array([1.0, 2.0], [False, True]), r"filled"),
    "masked without a mask": (lambda: np.ma.masked_array([1.0, 2.0]), r"filled"),
    "masked, 0-d": (lambda: np.ma.masked, r"filled"),
    "objects": (lambda: np.array([1, "a"], dtype=object), r"numbers"),
    "ragged objects": (lambda: np.array([[1, 2], [3]], dtype=object), r"ragged"),
    "structured": (lambda: np.zeros(3, RECORD), r'x\["'),
    "structured with objects": (lambda: np.zeros(3, [("o", object)]), r"x\[|numbers"),
    "records": (lambda: np.zeros(3, RECORD).view(np.recarray), r'x\["'),
    "plain void": (lambda: np.zeros(3, "V4"), r'V4.*x\.view\("uint8"\)'),
    "datetime": (lambda: np.zeros(3, "M8[s]"), r'view\("int64"\)'),
    "timedelta": (lambda: np.zeros(3, "m8[ns]"), r'view\("int64"\)'),
    "long double": (lambda: np.zeros(3, np.longdouble), r'astype\("float64"\)'),
    "long complex": (lambda: np.zeros(3, np.clongdouble), r'astype\("complex128"\)'),
    "bytes": (lambda: np.array([b"ab", b"c"]), r"text"),
    "str": (lambda: np.array(["ab", "c"]), r"text"),
    "StringDType": (lambda: np.array(["ab"], np.dtypes.StringDType()), r"text"),
    "chararray": (lambda: np.char.array(["ab"]), r"text"),
    "int2": (lambda: np.zeros(3, ml_dtypes.int2), r'no int2 .*x\.astype\("int8"\)'),
    "uint2": (lambda: np.zeros(3, ml_dtypes.uint2), r'no uint2 .*x\.astype\("int8"\)'),
    "datetime scalar": (lambda: np.datetime64("2020-01-01"), r"int64"),
    "str scalar": (lambda: np.str_("a"), r"text"),
    "void scalar": (lambda: np.zeros(1, RECORD)[0], r'x\["'),
    "plain void scalar": (lambda: np.zeros(1, "V4")[0], r'x\.view\("uint8"\)'),
    "long double scalar": (lambda: np.longdouble(1), r"float64"),
    "long complex scalar": (lambda: np.clongdouble(1), r"complex128"),
}


@pytest.mark.parametrize("way", ["asarray", "copy", "dtype", "list", "from_dlpack"])
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_with_the_remedy(kind: str, way: str) -> None:
    make, remedy = REFUSED[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = make()
    ways: dict[str, Callable[[], Any]] = {
        "asarray": lambda: candle.asarray(x),
        "copy": lambda: candle.asarray(x, copy=True),
        "dtype": lambda: candle.asarray(x, dtype="float32"),
        "list": lambda: candle.asarray([x]),
        "from_dlpack": lambda: candle.from_dlpack(x),
    }
    with pytest.raises(BufferError, match=remedy) as caught:
        ways[way]()
    assert not isinstance(caught.value, candle.CopyError)


# --- subclasses and scalars ---


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_matrix_is_two_dimensional_memory() -> None:
    m = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    t = candle.asarray(m)
    assert (t.shape, t.tolist()) == ((2, 2), [[1, 2], [3, 4]])
    assert t.data_ptr() == m.ctypes.data
    assert t[0].shape == (2,)
    assert type(t.numpy()) is np.ndarray


def test_a_subclass_that_means_something_else_by_its_methods() -> None:
    """As numba's mapped arrays, whose view() raises: memory is shared without asking them."""

    class Odd(np.ndarray):
        def view(self, *_arguments: Any, **_keywords: Any) -> Any:
            raise AttributeError("no view")

        __array__ = __getitem__ = reshape = view

    x = np.ndarray.view(np.arange(6.0), Odd)
    t = candle.asarray(x)
    assert t.data_ptr() == x.ctypes.data
    assert t.tolist() == [0, 1, 2, 3, 4, 5]


def test_subclasses_of_users_are_shared() -> None:
    class Mine(np.ndarray):
        def __array_finalize__(self, other: Any) -> None:
            self.note = getattr(other, "note", None)

    a = np.arange(6.0).reshape(2, 3).T.view(Mine)
    t = candle.asarray(a, copy=False)
    assert (t.data_ptr(), t.shape, t.readonly) == (a.ctypes.data, (3, 2), False)
    plain = np.arange(3.0).view(np.recarray)
    assert candle.asarray(plain).data_ptr() == plain.ctypes.data


@pytest.mark.parametrize(("mode", "readonly"), [("r", True), ("r+", False), ("c", False)])
def test_memory_maps(tmp_path: Path, mode: Any, readonly: bool) -> None:
    path = tmp_path / "data"
    np.arange(8, dtype=np.float32).tofile(path)
    mapped = np.memmap(path, np.float32, mode)
    t = candle.asarray(mapped)
    assert (t.data_ptr(), t.readonly) == (mapped.ctypes.data, readonly)
    assert t[2:].readonly == readonly
    assert t.numpy().flags.writeable != readonly
    del mapped
    assert t.tolist() == list(range(8))
    if readonly:
        with pytest.raises(ValueError, match="read-only"):
            t[0] = 9
    else:
        t[0] = 9
        assert t[0].item() == 9


SCALARS = [np.dtype(name).type for name in meeting.NUMPY_DLPACK]
SCALARS += [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn]


@pytest.mark.parametrize("kind", SCALARS, ids=lambda kind: kind.__name__)
def test_scalars_keep_their_dtype(kind: Any) -> None:
    one = kind(1)
    t = candle.asarray(one)
    assert (str(t.dtype), t.shape, t.item()) == (np.dtype(kind).name, (), 1)
    assert candle.Tensor(one).dtype == t.dtype
    assert candle.asarray([one, kind(0)]).dtype == t.dtype
    assert candle.asarray([one, kind(0)]).tolist() == [1, 0]
    assert candle.asarray([[one], [one]]).shape == (2, 1)
    assert candle.asarray(one, dtype="complex128").dtype == candle.complex128


def test_lists_of_different_scalars_are_not_guessed_at() -> None:
    with pytest.raises(TypeError, match="dtype="):
        candle.asarray([np.float16(1), np.float64(2)])
    assert candle.asarray([np.float16(1), np.float64(2)], dtype="float64").tolist() == [1, 2]


# --- what only a copy puts right ---


def _roads(x: np.ndarray[Any, Any]) -> list[Callable[..., Any]]:
    """candle.asarray of the array, and of objects that speak one protocol of it."""
    interface = type("OnlyInterface", (), {"__array_interface__": x.__array_interface__})()
    struct = type("OnlyStruct", (), {"__array_struct__": x.__array_struct__})()
    return [functools.partial(candle.asarray, source) for source in (x, interface, struct)]


def _copied_right(x: np.ndarray[Any, Any], *codes: str) -> None:
    truth = np.ascontiguousarray(x).astype(x.dtype.newbyteorder("="))
    for road in _roads(x):
        t = road()
        assert t.dtype == truth.dtype
        assert t.numpy().tobytes() == truth.tobytes()
        assert t.is_contiguous()
        assert not t.readonly
        plan = meeting.refused(road, copy=False)
        assert [reason.code for reason in plan.reasons] == list(codes)
        assert plan.nbytes == truth.nbytes


WIDE = [name for name in meeting.NUMPY_DLPACK if np.dtype(name).itemsize > 1]


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "stepped", "negative", "0-d"])
@pytest.mark.parametrize("dtype", WIDE)
def test_foreign_byte_order(dtype: str, layout: str) -> None:
    values = meeting.make("numpy", dtype, "contiguous")
    x = meeting.LAYOUTS[layout](values.byteswap().view(values.dtype.newbyteorder("S")))
    assert not x.dtype.isnative
    _copied_right(x, "byte_order")
    if x.dtype.kind != "c":
        assert _core.ingest_by("buffer", x).numpy().tobytes() == x.astype(dtype).tobytes()


class OnlyArray:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


def test_single_bytes_have_no_order() -> None:
    for code in (">u1", ">i1", ">?"):
        x = np.ones(3, code)
        assert candle.asarray(x, copy=False).data_ptr() == x.ctypes.data
    # Other packages' dtypes say which they are written in nevertheless.
    for name in ("float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn", "int4"):
        dtype = np.dtype(getattr(ml_dtypes, name)).newbyteorder("S")
        assert not dtype.isnative
        x = np.array([1, 2, 4], dtype.type).view(dtype)
        for given in (x, OnlyArray(x)):
            t = candle.asarray(given, copy=False)
            assert (t.dtype, t.tolist()) == (name, [1, 2, 4])
            assert t.data_ptr() == x.ctypes.data


def test_strides_between_items() -> None:
    """A view of pairs over rows of seven floats: 28 bytes, no multiple of 8."""
    x = np.arange(14, dtype=np.float32).reshape(2, 7)[:, :6].view(np.complex64)
    _copied_right(x, "odd_stride")
    field = np.zeros(5, RECORD)
    field["x"] = np.arange(5)
    for x in (field["x"], field["x"][::-1], field["x"][1:3]):
        t = candle.asarray(x)
        assert t.tolist() == x.tolist()
        codes = {reason.code for reason in meeting.refused(candle.asarray, x, copy=False).reasons}
        assert codes >= {"odd_stride"}
    assert candle.asarray(field["a"], copy=False).stride == (5,)
    one = field["x"][:1]  # its stride means nothing
    assert candle.asarray(one).tolist() == [0]


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("start", [1, 2, 4, 8])
def test_alignment(dtype: str, start: int) -> None:
    """To the item; of complex numbers to the component."""
    data = meeting.content(dtype)
    x = meeting.aligned_bytes(data, start=start).view(dtype).reshape(meeting.SHAPE)
    size = np.dtype(dtype).itemsize
    needed = size // 2 if np.dtype(dtype).kind == "c" else size
    if start % needed:
        _copied_right(x, "misaligned")
    else:
        assert candle.asarray(x, copy=False).data_ptr() == x.ctypes.data


@pytest.mark.parametrize("dtype", WIDE)
def test_everything_wrong_at_once(dtype: str) -> None:
    """Foreign order, odd address, odd strides, backwards: copied once, and right."""
    record = np.dtype([("pad", np.uint8), ("x", np.dtype(dtype).newbyteorder("S"))])
    field = np.zeros(48, record)
    field["x"] = np.frombuffer(meeting.content(dtype).tobytes(), dtype)
    x = field["x"].reshape(6, 8)[::-1, ::3].T
    codes = {reason.code for reason in meeting.refused(candle.asarray, x, copy=False).reasons}
    assert codes >= {"byte_order", "odd_stride"}
    assert candle.asarray(x).numpy().tobytes() == x.astype(dtype).tobytes()
    assert x.strides[0] % np.dtype(dtype).itemsize


def test_interface_without_an_owner_of_the_dtype() -> None:
    """A typestr of bytes alone is no dtype."""
    with pytest.raises(BufferError):
        candle.asarray(Interface(bytes(4), shape=(2,), typestr="<V2"))


# --- numpy changes an array that candle shares ---


def test_a_new_shape_or_dtype_of_the_array_changes_nothing() -> None:
    a = np.arange(6.0)
    t = candle.asarray(a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        a.shape = (2, 3)
        a.strides = (8, 16)
        a.dtype = np.int64
    a.flags.writeable = False
    assert (t.shape, t.stride, str(t.dtype), t.readonly) == ((6,), (1,), "float64", False)
    assert t.tolist() == [0, 1, 2, 3, 4, 5]


def test_resize_is_refused_while_shared() -> None:
    a = np.arange(6.0)
    t = candle.asarray(a)
    with pytest.raises(ValueError, match="resize"):
        a.resize((1000,))
    assert t.data_ptr() == a.ctypes.data
    del t
    a.resize((1000,))


@pytest.mark.isolated
def test_resize_without_the_check_does_not_hurt_the_bookkeeping() -> None:
    """`refcheck=False` is the caller's word that nobody looks: nothing is read here."""
    a = np.arange(100_000.0)
    t = candle.asarray(a)
    part = t[5:]
    a.resize((10,), refcheck=False)
    filler = [np.ones(100_000) for _ in range(10)]
    assert t.shape == (100_000,)
    del t, part, filler


# --- read-only ---


def test_read_only_travels_in_and_out() -> None:
    a = np.arange(6.0)
    a.flags.writeable = False
    t = candle.asarray(a)
    for view in (t, t[1:], t.reshape((2, 3)), t.reshape((2, 3)).T, t.unsqueeze(0), t.view("int64")):
        assert view.readonly
        out = view.numpy()
        assert not out.flags.writeable
        with pytest.raises(ValueError, match=r"WRITEABLE|writeable"):
            out.flags.writeable = True
        assert not np.asarray(view).flags.writeable
        assert not np.from_dlpack(view).flags.writeable
        for write in (
            lambda view=view: view.__setitem__(..., 0),
            lambda view=view: view.fill_(0),
            lambda view=view: view.copy_(view.copy()),
        ):
            with pytest.raises(ValueError, match="read-only"):
                write()
    asked_for = candle.asarray(a, copy=True), candle.tensor(a), t.to("float32")
    for fresh in (t.copy(), t.clone(), *asked_for):
        assert not fresh.readonly
    assert t.numpy(copy=True).flags.writeable
    assert a.tolist() == [0, 1, 2, 3, 4, 5]


def test_broadcast_views_of_numpy_are_read_only() -> None:
    a = np.arange(3.0)
    t = candle.asarray(np.broadcast_to(a, (2, 3)))
    assert (t.readonly, t.stride, t.data_ptr()) == (True, (0, 1), a.ctypes.data)
    writable = candle.asarray(np.lib.stride_tricks.as_strided(a, (2, 3), (0, 8)))
    assert (writable.readonly, writable.stride) == (False, (0, 1))
    with pytest.raises(ValueError, match="stride 0"):
        writable[...] = 1
    with pytest.raises(ValueError, match="stride 0"):
        writable[:, 0] = 1
    writable[0] = 7
    assert a.tolist() == [7, 7, 7]
    assert writable.torch().stride() == (0, 1) if meeting.present("torch") else True


def test_writes_are_seen_on_both_sides() -> None:
    a = np.arange(6.0).reshape(2, 3)
    t = candle.asarray(a)
    a[0, 0] = 10
    t[1, 2] = 20
    t.numpy()[0, 1] = 30
    np.from_dlpack(t)[0, 2] = 40
    assert a.tolist() == t.tolist() == [[10, 30, 40], [3, 4, 20]]


def test_negative_strides_stay_with_numpy() -> None:
    a = np.arange(12.0).reshape(3, 4)[::-1, ::-1]
    t = candle.asarray(a, copy=False)
    assert t.stride == (-4, -1)
    for out in (t.numpy(copy=False), np.asarray(t)):
        assert (out.strides, out.ctypes.data) == (a.strides, a.ctypes.data)
    plan = meeting.refused(t.__dlpack__, copy=False)
    assert [reason.code for reason in plan.reasons] == ["negative_stride"]


def test_padded_views_stay_padded() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    t = candle.asarray(np.array([1, 2, 3], ml_dtypes.int4))
    assert t.view("int4").tolist() == [1, 2, 3]
    assert t.view("uint4").shape == (3,)
    assert t.view("uint8").tolist() == [1, 2, 3]


def test_a_numpy_of_another_abi_is_refused_every_time(in_child: Any) -> None:
    in_child(
        """
        import ctypes
        import numpy as np
        from numpy._core import _multiarray_umath as core
        import candle

        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        real = core._ARRAY_API
        table = (ctypes.c_void_p * 400)()
        ctypes.memmove(table, get(real, None), ctypes.sizeof(table))
        old = ctypes.CFUNCTYPE(ctypes.c_uint)(lambda: 0x03000009)
        table[0] = ctypes.cast(old, ctypes.c_void_p).value  # tells the ABI version
        core._ARRAY_API = new(ctypes.addressof(table), None, None)

        def fails(move):
            try:
                move()
            except (ImportError, RuntimeError) as error:
                return str(error)
            raise AssertionError("it worked")

        for move in (lambda: candle.asarray(np.zeros(2)), lambda: candle.zeros(2).numpy()):
            said = {fails(move) for _ in range(3)}
            assert len(said) == 1 and "ABI version" in said.pop(), said
        core._ARRAY_API = real
        assert candle.asarray(np.ones(2)).tolist() == [1, 1]
        """
    ).check()


def test_the_remedies_work() -> None:
    assert candle.asarray(np.ones(2, np.clongdouble).astype("complex128")).tolist() == [1, 1]
    assert candle.asarray(np.ones(2, ml_dtypes.int2).astype("int8")).tolist() == [1, 1]
    assert candle.asarray(np.zeros(2, "V4").view("uint8")).shape == (8,)


@pytest.mark.parametrize("copy", [None, False])
def test_read_only_by_type_holds_by_the_array_protocols(copy: bool | None, in_child: Any) -> None:
    """The array of an immutable producer may be writable, and must not be written."""
    in_child(
        f"""
        import numpy as np
        import candle
        from candle import frameworks
        from candle._native import _core
        from candle.frameworks.record import Record

        array = np.arange(3.0)

        class Immutable:
            def __array__(self, dtype=None, copy=None):
                return array

        class OfSubclass:
            def __array__(self, dtype=None, copy=None):
                return array.view(np.recarray)

        class OfStruct:
            __array_struct__ = array.__array_struct__

        def recognise(cls):
            if cls in (Immutable, OfSubclass, OfStruct):
                return Record("plain", read_only=True)
            return frameworks.recognise(cls)

        _core.register(recognise=recognise)
        for cls in (Immutable, OfSubclass, OfStruct):
            t = candle.asarray(cls(), copy={copy})
            assert t.readonly and t.data_ptr() == array.ctypes.data
            assert not candle.asarray(cls(), copy=True).readonly
            try:
                candle.asarray(cls(), dtype="float32", copy=False)
            except candle.CopyError as error:
                assert cls.__name__ in error.plan.producer, error.plan
            else:
                raise AssertionError("it was shared")
        """
    ).check()
