"""numpy's .npz files: stored members mapped, compressed ones inflated, broken ones refused."""

from __future__ import annotations

import errno
import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import descriptors, mappings

import candle
from candle.io import npz
from candle.testing import assert_no_leak

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from children import Child

OTHERS = "load_npz(names=...) loads others"  # what is said beside a member that cannot be loaded

both_ways = pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "arrays.npz"


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zip_of(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)
    return path


def aligned(path: Path, array: Any) -> Path:
    """A file whose member's elements are aligned, by padding its local header."""
    info = zipfile.ZipInfo("x.npy")
    info.extra = struct.pack("<HH", 0x4341, 64 - 30 - len("x.npy") - 4) + bytes(64 - 30 - 9)
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(info, npy(array))
    return path


ARRAYS = {
    "plain": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4)),
    "swapped": np.arange(5, dtype=">c8"),
    "both": np.asfortranarray(np.arange(6, dtype=">u2").reshape(2, 3)),
    "scalar": np.array(7, "u1"),
    "empty": np.zeros((0, 3), "f2"),
    "dir/name": np.array([True, False]),
    "large": np.random.default_rng(0).integers(0, 9, 100_000),
}


@both_ways
@pytest.mark.parametrize("method", METHODS)
def test_values(path: Path, method: str, mmap: bool) -> None:
    zip_of(path, {f"{name}.npy": npy(x) for name, x in ARRAYS.items()}, METHODS[method])
    before = descriptors()
    given = candle.load_npz(path, mmap=mmap)
    assert list(given) == list(ARRAYS)
    for name, x in ARRAYS.items():
        t = given[name]
        assert t.dtype == x.dtype.newbyteorder("=")
        assert t.shape == x.shape
        assert t.numpy().tolist() == x.tolist()
        assert not t.readonly
    if method != "stored" or not mmap:
        assert mappings(path) == 0
        assert descriptors() <= before
        assert given["plain"].data_ptr() % 256 == 0


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_files_of_numpy(path: Path, save: Callable[..., None]) -> None:
    save(path, *[ARRAYS["plain"]], **{"a": ARRAYS["fortran"], "b": ARRAYS["swapped"]})
    given = candle.load_npz(path)
    with np.load(path) as theirs:
        assert list(given) == list(theirs)
        for name, t in given.items():
            assert t.tolist() == theirs[name].tolist()


def test_stored_members_are_shared_where_they_are_aligned(path: Path) -> None:
    array = np.arange(100.0)
    content = aligned(path, array).read_bytes()
    with candle.trace() as moves:
        t = candle.load_npz(path)["x"]
    assert [(move.action, move.producer) for move in moves] == [("share", "candle.NpyFile")]
    assert t.data_ptr() % 4096 == content.index(array.tobytes())
    assert mappings(path) == 1
    t[0] = -1
    assert path.read_bytes() == content
    del t
    assert mappings(path) == 0


def test_others_are_copied_once_with_the_reason(path: Path) -> None:
    np.savez(path, x=np.arange(100.0), bytes=np.arange(3, dtype="u1"))
    with candle.trace() as moves:
        given = candle.load_npz(path)
    assert [move.action for move in moves] == ["copy", "share"]
    assert [reason.code for reason in moves[0].reasons] == ["misaligned"]
    assert given["x"].data_ptr() % 256 == 0
    assert mappings(path) == 1  # of the bytes
    with candle.strict(), pytest.raises(candle.CopyError) as refused:
        candle.load_npz(path)
    assert refused.value.__notes__ == [f"this is 'x.npy' of {path}; {OTHERS}"]
    del refused
    with candle.strict():
        candle.load_npz(path, mmap=False)
        np.savez_compressed(path, x=np.arange(100.0), swapped=np.arange(3, dtype=">i4"))
        candle.load_npz(path)


def test_no_member_at_all(path: Path) -> None:
    np.savez(path)
    assert candle.load_npz(path) == {}


def test_a_zip_file_behind_something_else(path: Path) -> None:
    content = aligned(path, np.arange(4.0)).read_bytes()
    path.write_bytes(b"#!/bin/sh\n" + b"#" * 53 + b"\n" + content)
    assert candle.load_npz(path)["x"].tolist() == [0, 1, 2, 3]


def test_what_candle_has_no_dtype_for(path: Path) -> None:
    for array in (np.array([{}], object), np.array(["text"])):
        np.savez(path, fine=np.zeros(2), x=array)
        with pytest.raises(BufferError, match="NpyFile cannot go") as refused:
            candle.load_npz(path)
        assert refused.value.__notes__ == [f"this is 'x.npy' of {path}; {OTHERS}"]
        assert candle.load_npz(path, names=["fine"])["fine"].tolist() == [0, 0]


@both_ways
def test_arrays_by_name(path: Path, mmap: bool) -> None:
    """The others may be whatever cannot be loaded; they are not looked at."""
    others = {
        "text.npy": npy(np.array(["text"])),
        "broken.npy": b"nothing",
        "README": b"x",
        "x": b"numpy would not call an array so",
    }
    zip_of(path, {"y.npy": npy(np.ones(2)), **others, "x.npy": X})
    for names in (["x", "y"], ("y", "x", "x"), iter(["x", "y"]), {"x": 0, "y": 1}):
        found = candle.load_npz(path, names=names, mmap=mmap)
        assert list(found) == ["y", "x"]  # in the order of the file
        assert found["x"].tolist() == list(range(1000))
    assert candle.load_npz(path, names=[], mmap=mmap) == {}
    for absent in ("z", "README", "x.npy", "x.npy.npy", ""):
        with pytest.raises(ValueError, match=f"it has no array called '{absent}'"):
            candle.load_npz(path, names=["x", absent], mmap=mmap)
    for wrong, word in (("x", r"names=\['x'\]"), ([b"x"], "not bytes"), ([1], "not int")):
        with pytest.raises(TypeError, match=word):
            candle.load_npz(path, names=wrong, mmap=mmap)  # type: ignore[arg-type]
    with pytest.raises(BufferError, match="text"):
        candle.load_npz(path, names=["x", "text"], mmap=mmap)
    with pytest.raises(ValueError, match=r"'README' is no array; names= loads others"):
        candle.load_npz(zip_of(path, {"x.npy": X, "README": b"x"}), mmap=mmap)


X = npy(np.arange(1000, dtype="<u2"))


def changed(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def files() -> dict[str, tuple[Callable[[Path], bytes], str]]:
    """Broken files, made at a path; and what is said of them."""

    def stored(path: Path) -> bytes:
        return zip_of(path, {"x.npy": X}).read_bytes()

    def deflated(path: Path) -> bytes:
        return zip_of(path, {"x.npy": X}, zipfile.ZIP_DEFLATED).read_bytes()

    def directory(content: bytes) -> int:
        return content.index(b"PK\1\2")

    def in_directory(offset: int, new: bytes, of: Any = stored) -> Callable[[Path], bytes]:
        def make(path: Path) -> bytes:
            content = of(path)
            return changed(content, directory(content) + offset, new)

        return make

    def twice(path: Path) -> bytes:
        with zipfile.ZipFile(path, "w") as zipped:
            zipped.writestr("x.npy", X)
            with pytest.warns(UserWarning, match="Duplicate"):
                zipped.writestr("x.npy", X)
        return path.read_bytes()

    def beyond_deflate(path: Path) -> bytes:
        """A terabyte, as the header and the directory have it, in a few bytes."""
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (137438953472,)}"
        header = b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text
        content = zip_of(path, {"x.npy": header}, zipfile.ZIP_DEFLATED).read_bytes()
        at = directory(content)
        more = struct.pack("<HHQ", 1, 8, len(header) + (1 << 40))  # zip64's, of the size alone
        content = changed(content, at + 24, b"\xff" * 4)
        content = changed(content, at + 30, struct.pack("<H", len(more)))
        named = at + 46 + len("x.npy")
        end = content.index(b"PK\5\6")
        content = changed(content, end + 12, struct.pack("<I", end - at + len(more)))
        return content[:named] + more + content[named:]

    size = struct.pack
    return {
        "no zip": (lambda path: b"abc" * 100, "the zip file is broken: File is not a zip file"),
        "an array": (lambda path: X, "File is not a zip file"),
        "no array": (lambda path: zip_of(path, {"a.txt": b""}).read_bytes(), "'a.txt' is no array"),
        "a folder": (lambda path: zip_of(path, {"a/": b""}).read_bytes(), "'a/' is no array"),
        "no array inside": (
            lambda path: zip_of(path, {"x.npy": b"abcdef" * 9}).read_bytes(),
            "member 'x.npy': it begins with b'abcdef'",
        ),
        "an empty one": (
            lambda path: zip_of(path, {"x.npy": b""}).read_bytes(),
            "member 'x.npy': it ends within its header",
        ),
        "data missing": (
            lambda path: zip_of(path, {"x.npy": X[:-2]}).read_bytes(),
            "take 2000 bytes, and 1998 follow",
        ),
        "data behind": (
            lambda path: zip_of(path, {"x.npy": X + b"\0"}).read_bytes(),
            "1 bytes follow after the array",
        ),
        "one name twice": (twice, "two arrays called 'x'"),
        "encrypted": (in_directory(8, b"\1\0"), "'x' is encrypted; decrypt it first"),
        "a method unknown": (in_directory(10, b"\x63\0"), "zip file is broken.*not supported"),
        "a size too large": (in_directory(24, size("<I", len(X) + 2)), "bytes follow after"),
        "two sizes": (
            in_directory(16, size("<II", zlib.crc32(X[:-100]), len(X) - 100)),
            "sizes contradict each other|ends after 1900 of 2000 bytes",
        ),
        "a place beyond the end": (in_directory(42, size("<I", 10**6)), "zip file is broken"),
        "a place of something else": (in_directory(42, size("<I", 5)), "zip file is broken"),
        "another name there": (in_directory(46, b"y"), "zip file is broken"),
        "deflated, cut": (
            in_directory(20, size("<I", 50), deflated),
            r"ends after \d+ of 2000 bytes|ends within its header|zip file is broken",
        ),
        "more than deflate can": (
            beyond_deflate,
            r"bytes of deflate cannot become 10995116278\d\d",
        ),
        "deflated, another checksum": (in_directory(16, b"\0\0\0\0", deflated), "Bad CRC-32"),
    }


BROKEN = files()


@pytest.mark.parametrize("case", BROKEN)
@both_ways
def test_broken_files_say_what_is_wrong(path: Path, case: str, mmap: bool) -> None:
    make, told = BROKEN[case]
    content = make(path)
    path.write_bytes(content)
    before = descriptors()
    with pytest.raises(ValueError, match=told) as refused:
        candle.load_npz(path, mmap=mmap)
    assert type(refused.value) is ValueError
    assert str(path) in str(refused.value)
    del refused
    assert mappings(path) == 0
    assert descriptors() <= before


def test_a_checksum_that_is_wrong(path: Path) -> None:
    """It is looked at where bytes are read, and not where they are mapped: the page says so."""
    content = aligned(path, np.arange(5000.0)).read_bytes()
    at = content.index(struct.pack("<d", 4000.0))
    path.write_bytes(changed(content, at, struct.pack("<d", 5.0)))
    assert candle.load_npz(path)["x"][3999:4001].tolist() == [3999, 5]
    with pytest.raises(ValueError, match="Bad CRC-32"):
        candle.load_npz(path, mmap=False)


@settings(max_examples=60)
@given(st.data())
def test_good_files_with_bytes_changed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.npz"
    method = METHODS[data.draw(st.sampled_from(sorted(METHODS)))]
    zip_of(path, {"x.npy": npy(np.arange(9)), "y.npy": npy(np.arange(3, dtype="u1"))}, method)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] = data.draw(st.integers(0, 255))
        else:
            del content[at : at + data.draw(st.integers(0, 30))]
        if not content:
            break
    path.write_bytes(content)
    mmap = data.draw(st.booleans())
    with assert_no_leak():
        tensors = None
        try:
            tensors = candle.load_npz(path, mmap=mmap)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
        except BufferError as error:
            assert str(path) in error.__notes__[0]  # noqa: PT017
        for t in (tensors or {}).values():
            t.tolist()
        t = tensors = None
    assert mappings(path) == 0


PEAK = """
    import sys
    import candle
    from model_files import resident
    candle.load_npz(sys.argv[2])  # loads the modules
    before = resident("RssAnon")
    open("/proc/self/clear_refs", "w").write("5")  # the peak begins here
    t = candle.load_npz(sys.argv[1])["x"]
    peak = resident("VmHWM") - resident("RssFile") - resident("RssShmem")
    assert peak - before < (64 << 20) + (4 << 20), (peak, before)
    assert t.nbytes == 64 << 20 and t[-1].item() == 1
"""


@pytest.mark.own_memory
@pytest.mark.parametrize("dtype", ["<f8", ">f8"])
def test_inflated_straight_into_place(
    path: Path, in_child: Callable[..., Child], dtype: str
) -> None:
    try:
        type(path)("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("this kernel does not measure peaks")
    small = path.with_name("small.npz")
    np.savez_compressed(small, x=np.ones(3, dtype))
    np.savez_compressed(path, x=np.ones(8 << 20, dtype))
    in_child(PEAK, str(path), str(small)).check()


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.EIO, "the disk is broken")])
def test_what_is_no_fault_of_the_file(error: Exception) -> None:
    """Want of memory, or a disk that fails, is told as it is."""

    def fails() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        npz._unzipped(ValueError, fails)
    assert caught.value is error
