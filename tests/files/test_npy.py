"""numpy's .npy files: shared as they lie, or refused with the reason."""

from __future__ import annotations

import gc
import itertools
import struct
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import mappings

import candle
from candle.testing import assert_no_leak

if TYPE_CHECKING:
    from pathlib import Path

both_ways = pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
DTYPES = [
    *("?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"),
    *("<f2", "<f4", "<f8", "<c8", "<c16"),
]
SWAPPED = [dtype.replace("<", ">") for dtype in DTYPES if "<" in dtype]
SHAPES = [(), (5,), (3, 4), (2, 3, 4), (0,), (3, 0), (1, 1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "array.npy"


def made(dtype: str, shape: tuple[int, ...]) -> Any:
    size = int(np.prod(shape, dtype=int))
    return (np.arange(size) % 100 + 1).astype(dtype).reshape(shape)


@both_ways
@pytest.mark.parametrize("dtype", DTYPES + SWAPPED)
def test_dtypes_shapes_and_orders(path: Path, dtype: str, mmap: bool) -> None:
    for shape, order in itertools.product(SHAPES, ("C", "F")):
        array = np.asarray(made(dtype, shape), order=order)
        np.save(path, array)
        with candle.trace() as moves:
            t = candle.load_npy(path, mmap=mmap)
        assert t.dtype == array.dtype.newbyteorder("=")
        assert t.shape == shape
        assert t.tolist() == array.tolist()
        assert not t.readonly
        copied = [reason.code for move in moves.copies for reason in move.reasons]
        assert copied == (["byte_order"] if mmap and dtype in SWAPPED else [])
        if mmap:
            assert [move.producer for move in moves] == ["candle.NpyFile"]
        if dtype in DTYPES and array.size:
            assert t.is_contiguous() == array.flags.c_contiguous
            assert t.is_fortran_contiguous() == array.flags.f_contiguous


def test_it_lies_where_the_file_does(path: Path) -> None:
    array = made("<f4", (3, 4))
    np.save(path, array)
    content = path.read_bytes()
    t = candle.load_npy(path)
    assert t.data_ptr() % 4096 == content.index(array.tobytes())
    assert t.data_ptr() % 64 == 0
    assert mappings(path) == 1
    t[0, 0] = -1
    t.numpy()[0, 1] = -2
    assert t.tolist()[0][:2] == [-1, -2]
    assert path.read_bytes() == content
    view = t[1:].numpy()
    del t
    assert mappings(path) == 1
    assert view[0, 0] == array[1, 0]
    del view
    gc.collect()
    assert mappings(path) == 0


def test_strict_and_devices(path: Path) -> None:
    np.save(path, made(">f4", (3,)))
    with candle.strict(), pytest.raises(candle.CopyError, match="order of another") as refused:
        candle.load_npy(path)
    assert str(path) in refused.value.__notes__[0]
    del refused
    with candle.strict():
        assert candle.load_npy(path, mmap=False).tolist() == [1, 2, 3]
    assert candle.load_npy(path, "cpu").tolist() == [1, 2, 3]
    with pytest.raises(BufferError, match=r"\(8, 0\)"):
        candle.load_npy(path, device="metal")


LACKS: dict[str, tuple[Any, str, str]] = {
    "objects": (np.array([{}, 1], object), "python_objects", "which candle never unpickles"),
    "text": (np.array(["ab"]), "text", "<U2"),
    "bytes": (np.array([b"ab"]), "text", r"\|S2"),
    "times": (np.array(["2020-01-01"], "M8[D]"), "datetime", "are times"),
    "spans": (np.array([3], "m8[s]"), "datetime", "spans of time"),
    "records": (np.zeros(2, [("a", "<i4"), ("b", "<f8")]), "structured", "records"),
    "long double": (np.zeros(2, "g"), "long_double", "f16"),
    "long complex": (np.zeros(2, "G"), "long_double", "c32"),
    "raw bytes": (np.zeros(2, "V3"), "bits", r"only their size .*V3"),
    "bfloat16": (np.zeros(2, ml_dtypes.bfloat16), "bits", r"only their size .*V2"),
}


@pytest.mark.parametrize("case", LACKS)
def test_what_candle_has_no_dtype_for(path: Path, case: str) -> None:
    array, code, told = LACKS[case]
    np.save(path, array)
    with pytest.raises(BufferError, match=told) as refused:
        candle.load_npy(path)
    plan = refused.value.plan  # type: ignore[attr-defined]
    assert [reason.code for reason in plan.reasons] == [code]
    assert refused.value.__notes__ == [f"this is {path}"]


def test_pickles_are_not_loaded(path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return pytest.fail, ("unpickled",)

    np.save(path, np.array([Trap()], object), allow_pickle=True)
    with pytest.raises(BufferError, match="never unpickles"):
        candle.load_npy(path)


def npy(header: str | bytes, data: bytes = bytes(12), version: tuple[int, int] = (1, 0)) -> bytes:
    text = header if isinstance(header, bytes) else header.encode()
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


GOOD = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"


def other(**fields: str) -> str:
    text = {"descr": "'<i4'", "fortran_order": "False", "shape": "(3,)", **fields}
    return "{" + ", ".join(f"'{name}': {value}" for name, value in text.items()) + "}"


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("header", [GOOD, GOOD + " " * 71 + "\n", "  " + GOOD])
def test_versions_and_padding(path: Path, header: str, version: tuple[int, int]) -> None:
    path.write_bytes(npy(header, struct.pack("<3i", 1, 2, 3), version))
    for mmap in (True, False):
        assert candle.load_npy(path, mmap=mmap).tolist() == [1, 2, 3]
    if not header.startswith(" "):  # which Python's parser takes for an indent, there
        assert np.load(path).tolist() == [1, 2, 3]


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize("shape", ["(3L,)", "(3L, 1L)", "(1, 3L)", "(1L, 3, 1L)"])
def test_headers_that_python_2_wrote(path: Path, shape: str, version: tuple[int, int]) -> None:
    path.write_bytes(npy(other(shape=shape), struct.pack("<3i", 1, 2, 3), version))
    with pytest.warns(UserWarning, match="Python 2"):
        expected = np.load(path, max_header_size=10_000)
    for mmap in (True, False):
        t = candle.load_npy(path, mmap=mmap)
        assert (t.shape, t.tolist()) == (expected.shape, expected.tolist())


@pytest.mark.parametrize("shape", ["(3LL,)", "(3Lx,)", "(L3,)", "(3 L,)", "(3L, L)", "3L"])
def test_broken_headers_with_an_l(path: Path, shape: str) -> None:
    path.write_bytes(npy(other(shape=shape), struct.pack("<3i", 1, 2, 3)))
    with pytest.raises(ValueError, match=r"no Python dict|the shape is 3"):
        candle.load_npy(path)


def test_headers_that_numpy_writes(path: Path) -> None:
    for version in ((1, 0), (2, 0), (3, 0)):
        with path.open("wb") as file:
            np.lib.format.write_array(file, made("<i4", (2, 3)), version)
        assert candle.load_npy(path).tolist() == [[1, 2, 3], [4, 5, 6]]


BROKEN: dict[str, tuple[bytes, str]] = {
    "no bytes": (b"", "ends after byte 0, where the file does: it was cut short"),
    "half a magic": (b"\x93NUM", "ends after byte 4"),
    "another magic": (b"PK\3\4" + bytes(20), r"begins with b'PK.*and a .npy file with"),
    "no version": (b"\x93NUMPY\1", "ends after byte 7"),
    "version 4": (npy(GOOD, version=(4, 0)), r"version 4.0 of the format; 1.0, 2.0 and"),
    "version 0": (npy(GOOD, version=(0, 0)), "version 0.0"),
    "version 1.1": (npy(GOOD, version=(1, 1)), "version 1.1"),
    "half a length": (b"\x93NUMPY\2\0\1\0", "ends after byte 10"),
    "a long header": (npy(GOOD + " " * 10_000), "header has .* those of plain arrays have up to"),
    "a header of 4 GB": (b"\x93NUMPY\2\0\xff\xff\xff\xff", "the header has 4294967295 bytes"),
    "half a header": (npy(GOOD)[:40], "ends after byte 40"),
    "no dict": (npy("[1, 2]"), r"the header is \[1, 2\], no dict of"),
    "no literal": (npy("{'descr': open('x')}"), "the header is no Python dict"),
    "code": (npy("__import__('os').abort()"), "the header is no Python dict"),
    "unfinished": (npy("{'descr': "), "the header is no Python dict"),
    "a zero": (npy("{\0}"), "the header is no Python dict"),
    "nothing in it": (npy(""), "the header is no Python dict"),
    "nested deeply": (npy("(" * 5000), "the header is no Python dict"),
    "no UTF-8": (npy(b"{'descr': '\xff'}", version=(3, 0)), "the header is no Python dict"),
    "lists as keys": (npy("{[]: 1}"), "the header is no Python dict"),
    "a key missing": (npy("{'descr': '<i4', 'shape': (3,)}"), "no dict of descr, fortran_order"),
    "a key more": (npy(other(more="1")), "no dict of descr, fortran_order and shape"),
    "order as number": (npy(other(fortran_order="1")), "fortran_order is 1, neither True nor"),
    "order as text": (npy(other(fortran_order="'C'")), "fortran_order is 'C'"),
    "a shape as list": (npy(other(shape="[3]")), r"the shape is \[3\], no tuple of sizes"),
    "a shape as number": (npy(other(shape="(3)")), "the shape is 3, no tuple"),
    "a negative size": (npy(other(shape="(-3,)")), "no tuple of sizes"),
    "a size that is true": (npy(other(shape="(True, 3)")), "no tuple of sizes"),
    "a size with a point": (npy(other(shape="(3.0,)")), "no tuple of sizes"),
    "a size of 64 bits": (npy(other(shape=f"({2**63},)")), "no tuple of sizes"),
    "an overflow": (npy(other(shape=f"({2**32}, {2**32})")), "63 bits can count the bits of"),
    "an overflow beside 0": (npy(other(shape=f"({2**61}, 8, 0)"), b""), "63 bits can"),
    "65 axes": (npy(other(shape="(" + "1," * 65 + ")")), "65 axes; candle holds up to 64"),
    "no dtype": (npy(other(descr="None")), "descr is None, which describes no elements"),
    "a dtype as number": (npy(other(descr="4")), "descr is 4"),
    "an empty dtype": (npy(other(descr="''")), "descr is ''"),
    "a dtype's name": (npy(other(descr="'int32'")), "descr is 'int32'"),
    "a size that no int has": (npy(other(descr="'<i3'")), "descr is '<i3'"),
    "a float without size": (npy(other(descr="'<f'")), "descr is '<f'"),
    "a dtype with more": (npy(other(descr="'<i4,<i4'")), "descr is '<i4,<i4'"),
    "no order": (npy(other(descr="'|i4'")), r"'\|i4', which does not say in which order"),
    "one byte less": (npy(GOOD, bytes(11)), r"\(3,\) take 12 bytes, and 11 follow .* cut short"),
    "no data": (npy(GOOD, b""), "take 12 bytes, and 0 follow"),
    "one byte more": (npy(GOOD, bytes(13)), "1 bytes follow after the array; if these are more"),
    "two arrays": (npy(GOOD) * 2, "bytes follow after the array; if these are more arrays, read"),
    "much of nothing": (npy(other(shape=f"({2**50},)")), "take 4503599627370496 bytes, and 12"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_say_what_is_wrong(path: Path, case: str) -> None:
    content, told = BROKEN[case]
    path.write_bytes(content)
    for mmap in (True, False):
        with pytest.raises(ValueError, match=told) as refused:
            candle.load_npy(path, mmap=mmap)
        assert type(refused.value) is ValueError
        assert str(path) in str(refused.value)
    del refused
    assert mappings(path) == 0


@settings(max_examples=100)
@given(st.data())
def test_good_files_with_bytes_changed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Either an array, numpy's, or a clear refusal."""
    content = bytearray(npy(other(descr="'<u2'", shape="(2, 3)"), bytes(range(12))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(6, len(content) - 1))
        content[at] = data.draw(st.one_of(st.integers(0, 255), st.sampled_from(b"0123456789><|")))
    path = tmp_path_factory.getbasetemp() / "changed.npy"
    path.write_bytes(content)
    with assert_no_leak():
        t = None
        try:
            t = candle.load_npy(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
        except BufferError as error:
            assert error.__notes__ == [f"this is {path}"]  # noqa: PT017
        if t is not None:
            array = np.load(path)
            assert t.shape == array.shape
            assert t.numpy().tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
            array = t = None
    assert mappings(path) == 0
