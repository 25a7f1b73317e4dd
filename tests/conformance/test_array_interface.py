"""numpy's `__array_interface__`, in."""

from __future__ import annotations

import gc
import itertools
import struct
import weakref
from typing import Any

import layouts
import pytest
from interfaces import Interface, Raising

import candle
from candle.testing import Producer, live

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

NUMBERS = struct.pack("=16f", *range(16))
BIG = struct.pack(">16f", *range(16))
COPY_MODES = (None, False, True)


# In: what is shared


@pytest.mark.parametrize("copy", COPY_MODES)
def test_plain(copy: bool | None) -> None:
    x = Interface(NUMBERS, shape=(2, 3), typestr="<f4")
    t = candle.asarray(x, copy=copy)
    assert t.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert (t.data_ptr() == x.address) == (copy is not True)
    assert not t.readonly
    assert x.asked == 1


TYPESTRS = {
    "|b1": ("bool", bytes([0, 1, 1, 0]), [False, True, True, False]),
    "|i1": ("int8", struct.pack("4b", 1, -2, 3, -4), [1, -2, 3, -4]),
    "<i2": ("int16", struct.pack("<4h", 1, -2, 3, -4), [1, -2, 3, -4]),
    "<i4": ("int32", struct.pack("<4i", 1, -2, 3, -4), [1, -2, 3, -4]),
    "<i8": ("int64", struct.pack("<4q", 1, -2, 3, -4), [1, -2, 3, -4]),
    "|u1": ("uint8", bytes([1, 2, 3, 255]), [1, 2, 3, 255]),
    "<u2": ("uint16", struct.pack("<4H", 1, 2, 3, 65535), [1, 2, 3, 65535]),
    "<u4": ("uint32", struct.pack("<4I", 1, 2, 3, 2**32 - 1), [1, 2, 3, 2**32 - 1]),
    "<u8": ("uint64", struct.pack("<4Q", 1, 2, 3, 2**64 - 1), [1, 2, 3, 2**64 - 1]),
    "<f2": ("float16", struct.pack("<4e", 1, -2, 3, 0.5), [1.0, -2.0, 3.0, 0.5]),
    "<f4": ("float32", struct.pack("<4f", 1, -2, 3, 0.5), [1.0, -2.0, 3.0, 0.5]),
    "<f8": ("float64", struct.pack("<4d", 1, -2, 3, 0.5), [1.0, -2.0, 3.0, 0.5]),
    "<c8": ("complex64", struct.pack("<8f", *range(8)), [1j, 2 + 3j, 4 + 5j, 6 + 7j]),
    "<c16": ("complex128", struct.pack("<8d", *range(8)), [1j, 2 + 3j, 4 + 5j, 6 + 7j]),
}


@pytest.mark.parametrize("typestr", TYPESTRS)
def test_typestrs(typestr: str) -> None:
    name, data, values = TYPESTRS[typestr]
    x = Interface(data, shape=(4,), typestr=typestr)
    t = candle.asarray(x, copy=False)
    assert (str(t.dtype), t.tolist(), t.data_ptr()) == (name, values, x.address)


@pytest.mark.parametrize("order", ["=", "|"])
def test_other_spellings_of_native(order: str) -> None:
    x = Interface(bytes([1, 2, 3, 4]), shape=(4,), typestr=f"{order}u1")
    assert candle.asarray(x, copy=False).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("strides", "start", "values"),
    [
        (None, 0, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        ((12, 4), 0, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        ((4, 8), 0, [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]),
        ((20, 8), 4, [[1.0, 3.0, 5.0], [6.0, 8.0, 10.0]]),
        ((-12, 4), 12, [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]),
        ((-12, -4), 20, [[5.0, 4.0, 3.0], [2.0, 1.0, 0.0]]),
        ((0, 4), 0, [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]),
    ],
)
def test_strides_are_shared(strides: Any, start: int, values: list[list[float]]) -> None:
    x = Interface(NUMBERS, start=start, shape=(2, 3), typestr="<f4", strides=strides)
    t = candle.asarray(x, copy=False)
    assert t.data_ptr() == x.address + start
    assert t.tolist() == values
    if strides is not None:
        assert t.stride == tuple(stride // 4 for stride in strides)


def test_zero_dimensional_and_empty() -> None:
    assert candle.asarray(Interface(NUMBERS, shape=(), typestr="<f4", start=4)).item() == 1.0
    for shape in [(0,), (0, 3), (3, 0)]:
        for address in (0, 8):
            t = candle.asarray(Interface(shape=shape, typestr="<f4", data=(address, False)))
            assert (t.shape, t.tolist()) == (shape, candle.zeros(shape).tolist())


@pytest.mark.parametrize("version", [NotImplemented, 2, 3, 4])
def test_version_is_not_looked_at(version: object) -> None:
    """As in numpy."""
    x = Interface(NUMBERS, shape=(2,), typestr="<f4", version=version)
    assert candle.asarray(x).tolist() == [0.0, 1.0]


def test_read_only_is_remembered() -> None:
    x = Interface(NUMBERS, shape=(2,), typestr="<f4")
    x.fields["data"] = (x.address, True)
    t = candle.asarray(x)
    assert t.readonly
    assert t.data_ptr() == x.address
    with pytest.raises(ValueError, match="read-only"):
        t[0] = 1
    copied = candle.asarray(x, copy=True)
    assert not copied.readonly


def test_simple_descr_is_the_typestr() -> None:
    x = Interface(NUMBERS, shape=(2,), typestr="<f4", descr=[("", "<f4")])
    assert candle.asarray(x).tolist() == [0.0, 1.0]


def test_offset_goes_with_a_buffer_only() -> None:
    """With a pointer, numpy ignores it."""
    x = Interface(NUMBERS, shape=(2,), typestr="<f4", offset=8)
    assert candle.asarray(x).tolist() == [0.0, 1.0]
    data = bytearray(NUMBERS)
    t = candle.asarray(Interface(shape=(2,), typestr="<f4", data=data, offset=8))
    assert t.tolist() == [2.0, 3.0]
    t[0] = 9
    assert struct.unpack_from("=f", data, 8) == (9.0,)


def test_buffer_for_data() -> None:
    data = bytearray(NUMBERS)
    t = candle.asarray(Interface(shape=(2, 2), typestr="<f4", data=data))
    assert t.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(BufferError):
        data.append(1)
    del t
    data.append(1)
    assert candle.asarray(Interface(shape=(2,), typestr="<f4", data=NUMBERS)).readonly


@pytest.mark.parametrize(
    "fields",
    [
        {"shape": (17,)},
        {"shape": (2,), "offset": 60},
        {"shape": (2,), "offset": 2**62},
        {"shape": (2,), "offset": -4},
        {"shape": (2,), "strides": (64,)},
        {"shape": (2,), "strides": (-4,)},
        {"shape": (2, 2), "strides": (2**62, 2**62)},
    ],
    ids=str,
)
def test_buffer_that_is_too_small(fields: dict[str, Any]) -> None:
    data = bytearray(NUMBERS)
    with pytest.raises(BufferError):
        candle.asarray(Interface(typestr="<f4", data=data, **fields))
    data.append(1)


def test_owner_is_kept() -> None:
    x = Interface(NUMBERS, shape=(4,), typestr="<f4")
    owner = weakref.ref(x)
    t = candle.asarray(x)
    view = t[1:]
    del x, t
    gc.collect()
    junk = [bytearray(NUMBERS) for _ in range(100)]
    assert owner() is not None
    assert view.tolist() == [1.0, 2.0, 3.0]
    del view, junk
    assert owner() is None


def test_copied_owner_is_let_go() -> None:
    x = Interface(NUMBERS, shape=(4,), typestr="<f4")
    owner = weakref.ref(x)
    t = candle.asarray(x, copy=True)
    del x
    assert owner() is None
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]


# In: what only a copy puts right

COPIED = {
    "foreign byte order": (BIG, {"typestr": ">f4"}, [0.0, 1.0, 2.0, 3.0], "byte order"),
    "misaligned": (b"\1" + NUMBERS, {"typestr": "<f4", "start": 1}, [0.0, 1.0, 2.0, 3.0], "align"),
    "odd stride": (
        b"".join(NUMBERS[4 * i : 4 * i + 4] + b"\1" for i in range(4)),
        {"typestr": "<f4", "strides": (5,)},
        [0.0, 1.0, 2.0, 3.0],
        "stride",
    ),
    "odd negative stride": (
        b"".join(NUMBERS[4 * i : 4 * i + 4] + b"\1" for i in range(4)),
        {"typestr": "<f4", "strides": (-5,), "start": 15},
        [3.0, 2.0, 1.0, 0.0],
        "stride",
    ),
    "all at once": (
        b"\1" + b"".join(BIG[4 * i : 4 * i + 4] + b"\1" for i in range(4)),
        {"typestr": ">f4", "strides": (5,), "start": 1},
        [0.0, 1.0, 2.0, 3.0],
        None,
    ),
    "foreign int16": (struct.pack(">4h", 1, -2, 3, 4), {"typestr": ">i2"}, [1, -2, 3, 4], "byte"),
    "foreign uint64": (
        struct.pack(">4Q", 1, 2, 3, 2**64 - 1),
        {"typestr": ">u8"},
        [1, 2, 3, 2**64 - 1],
        "byte",
    ),
    "foreign float64": (
        struct.pack(">4d", 1, 2, 3, 4),
        {"typestr": ">f8"},
        [1.0, 2.0, 3.0, 4.0],
        "byte",
    ),
    "foreign complex64": (
        struct.pack(">8f", *range(8)),
        {"typestr": ">c8"},
        [1j, 2 + 3j, 4 + 5j, 6 + 7j],
        "byte",
    ),
    "foreign complex128": (
        struct.pack(">8d", *range(8)),
        {"typestr": ">c16"},
        [1j, 2 + 3j, 4 + 5j, 6 + 7j],
        "byte",
    ),
    "complex off its component": (
        b"\1\1" + NUMBERS,
        {"typestr": "<c8", "start": 2},
        [1j, 2 + 3j, 4 + 5j, 6 + 7j],
        "align",
    ),
}


@pytest.mark.parametrize("case", COPIED)
def test_copied_right_or_refused(case: str) -> None:
    data, fields, values, said = COPIED[case]
    x = Interface(data, shape=(4,), **fields)
    for copy in (None, True):
        t = candle.asarray(x, copy=copy)
        assert t.tolist() == values
        assert not t.readonly
    with pytest.raises(candle.CopyError, match=said) as caught:
        candle.asarray(x, copy=False)
    assert caught.value.plan.action == "refuse"
    assert all(reason.fact and reason.remedy for reason in caught.value.plan.reasons)


def test_complex_aligned_to_its_component_is_shared() -> None:
    x = Interface(NUMBERS, shape=(4,), typestr="<c8", start=4)
    assert candle.asarray(x, copy=False).tolist() == [1 + 2j, 3 + 4j, 5 + 6j, 7 + 8j]


def test_one_byte_has_no_order() -> None:
    x = Interface(bytes([1, 2]), shape=(2,), typestr=">u1")
    assert candle.asarray(x, copy=False).tolist() == [1, 2]


def test_foreign_order_of_two_axes() -> None:
    x = Interface(BIG, shape=(2, 3), typestr=">f4", strides=(4, 8))
    assert candle.asarray(x).tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


@pytest.mark.parametrize(
    "shape", [shape for n in (1, 2, 3) for shape in itertools.product((0, 1, 2), repeat=n)]
)
def test_odd_strides_on_extents_of_one_and_empty_are_nothing(shape: tuple[int, ...]) -> None:
    """Only axes of extent above 1, in tensors with elements, have a stride."""
    compact = layouts.compact(shape)
    strides = tuple(
        3 if extent == 1 or 0 in shape else 4 * step
        for extent, step in zip(shape, compact, strict=True)
    )
    x = Interface(NUMBERS, shape=shape, typestr="<f4", strides=strides)
    t = candle.asarray(x, copy=False)
    assert t.tolist() == candle.asarray(Interface(NUMBERS, shape=shape, typestr="<f4")).tolist()
    assert t.is_contiguous()


BLOCK = bytes(n % 2 for n in range(2048)) + bytes((37 * n) % 256 for n in range(2048))


@hypothesis.settings(max_examples=1000)
@hypothesis.given(
    typestr=st.sampled_from([*TYPESTRS, *(name.replace("<", ">") for name in TYPESTRS)]),
    axes=st.lists(st.tuples(st.integers(0, 4), st.integers(-40, 40)), max_size=3),
    start=st.integers(0, 32),
    copy=st.sampled_from([None, True]),
)
def test_any_layout_reads_as_in_numpy(
    typestr: str, axes: list[tuple[int, int]], start: int, copy: bool | None
) -> None:
    np = pytest.importorskip("numpy")
    start += 1024 if typestr == "|b1" else 3072
    shape, strides = tuple(n for n, _ in axes), tuple(s for _, s in axes)
    x = Interface(BLOCK, start=start, typestr=typestr, shape=shape, strides=strides)
    native = np.asarray(x).astype(np.dtype(typestr).newbyteorder("="))
    t = candle.asarray(x, copy=copy)
    assert (t.shape, str(t.dtype)) == (shape, native.dtype.name)
    assert t.numpy().tobytes() == native.tobytes()


# In: what is refused


@pytest.mark.parametrize(
    "typestr",
    [
        *("|O8", "<M8[ns]", "<m8[s]", "|S3", "<U3", "|V2", "|V0", "|t1", "<f16", "<c32", "<f1"),
        *("<c4", "<u0", "<i3", "<f3", "|b2", "<b4", "", "<", "f4", "<f", "<fx", "<f4x", "<x4"),
        *("?f4", "<f-4", "<f99999999999999999999", "<i16", "\0f4", "<f4\0", "ü4"),
    ],
)
@pytest.mark.parametrize("copy", COPY_MODES)
def test_dtypes_candle_lacks(typestr: str, copy: bool | None) -> None:
    x = Interface(NUMBERS, shape=(1,), typestr=typestr)
    with pytest.raises(BufferError) as caught:
        candle.asarray(x, copy=copy)
    assert typestr.strip("\0") in str(caught.value) or "\0" in typestr


def test_objects_are_refused_with_a_hint_at_ragged_data(framework: Any) -> None:
    np = framework("numpy")
    with pytest.raises(BufferError, match="ragged"):
        candle.asarray(np.array([[1, 2], [3]], dtype=object))


IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "no shape": {"shape": NotImplemented},
    "no typestr": {"typestr": NotImplemented},
    "shape of strings": {"shape": ("2",)},
    "shape None": {"shape": None},
    "shape of floats": {"shape": (2.0,)},
    "negative extent": {"shape": (-1,)},
    "overflowing extents": {"shape": (2**40, 2**40)},
    "extent beyond 64 bits": {"shape": (2**70,)},
    "too many axes": {"shape": (1,) * 65},
    "strides too short": {"shape": (2, 2), "strides": (4,)},
    "strides too long": {"shape": (2,), "strides": (4, 4)},
    "strides of strings": {"strides": ("4",)},
    "overflowing strides": {"shape": (3, 3), "strides": (2**62, 2**62)},
    "stride beyond 64 bits": {"strides": (2**70,)},
    "typestr of bytes": {"typestr": 4},
    "address NULL": {"data": (0, False)},
    "address of text": {"data": ("0x10", False)},
    "address None": {"data": (None, False)},
    "address beyond 64 bits": {"data": (2**70, False)},
    "negative address": {"data": (-8, False)},
    "an end behind the last address": {"data": (2**64 - 4, False)},
    "a beginning before the first": {"data": (8191, False), "strides": (-8192,)},
    "data a number": {"data": 16},
    "data of one": {"data": (16,)},
    "structured": {"descr": [("a", "<f4"), ("b", "<f4")], "typestr": "|V8"},
    "masked": {"mask": "an array"},
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
@pytest.mark.parametrize("copy", COPY_MODES)
@pytest.mark.isolated
def test_impossible_interfaces(case: str, copy: bool | None) -> None:
    fields: dict[str, Any] = {"shape": (2,), "typestr": "<f4", **IMPOSSIBLE[case]}
    before = live()
    with pytest.raises((BufferError, TypeError)) as caught:
        candle.asarray(Interface(NUMBERS, **fields), copy=copy)
    assert str(caught.value)
    assert live() == before


def test_mask_is_named() -> None:
    mask = Interface(bytes([1, 0]), shape=(2,), typestr="|b1")
    with pytest.raises(BufferError, match="mask"):
        candle.asarray(Interface(NUMBERS, shape=(2,), typestr="<f4", mask=mask))
    assert candle.asarray(Interface(NUMBERS, shape=(2,), typestr="<f4", mask=None)).size == 2


@pytest.mark.parametrize("interface", [None, 1, "text", [], ()])
def test_interface_that_is_no_dict(interface: object) -> None:
    class Odd:
        __array_interface__ = interface

    with pytest.raises((BufferError, TypeError)):
        candle.asarray(Odd())


@pytest.mark.parametrize("error", [RuntimeError("mine"), ValueError("mine"), KeyError("mine")])
def test_error_of_the_interface_is_told(error: Exception) -> None:
    with pytest.raises(BufferError, match="mine"):
        candle.asarray(Raising(error))


def test_attribute_error_means_that_there_is_none() -> None:
    class Both(Raising):
        def __array__(self, dtype: object = None, copy: bool | None = None) -> Any:
            return pytest.importorskip("numpy").arange(3)

    assert candle.asarray(Both(AttributeError("mine"))).tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        candle.asarray(Raising(AttributeError("mine")))


def test_dlpack_goes_first() -> None:
    class Both(Interface):
        producer = Producer(shape=(2,), byte_offset=8)

        def __dlpack_device__(self) -> object:
            return (1, 0)

        def __dlpack__(self, **keywords: Any) -> object:
            return self.producer.__dlpack__(**keywords)

    x = Both(NUMBERS, shape=(2,), typestr="<f4")
    t = candle.asarray(x)
    assert (t.tolist(), x.asked) == ([2.0, 3.0], 0)
