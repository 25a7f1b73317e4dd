"""Loading safetensors files: by address, by values, by what the kernel says."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from model_files import DTYPES, descriptors, entry, mappings, whole, write

import candle
from candle.testing import live

if TYPE_CHECKING:
    from collections.abc import Callable

    from children import Child

both_ways = pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@both_ways
@pytest.mark.parametrize(("name", "own", "bits"), DTYPES, ids=[row[0] for row in DTYPES])
def test_every_dtype(path: Path, name: str, own: str, bits: int, mmap: bool) -> None:
    data = bytes(range(1, 8 * bits // 8 + 1)) if name != "BOOL" else bytes([0, 1] * 4)
    write(path, {"x": entry(name, [2, 4], 0, len(data))}, data)
    t = candle.load_safetensors(path, mmap=mmap)["x"]
    assert (str(t.dtype), t.shape, t.stride) == (own, (2, 4), (4, 1))
    assert not t.readonly
    assert candle.asarray(t.view((8,))).nbytes == len(data)
    kept = t.copy()
    assert bytes(np.frombuffer(_raw(kept), np.uint8)) == data
    with_values = candle.empty((2, 4), dtype=own)
    _raw(with_values)[:] = data
    assert t.tolist() == with_values.tolist() or "nan" in str(t.tolist())


def _raw(t: candle.Tensor) -> memoryview:
    """The bytes a row-major tensor lies in, whatever its dtype."""
    import ctypes

    return memoryview((ctypes.c_uint8 * t.nbytes).from_address(t.data_ptr())).cast("B")


def test_what_lies_in_the_file_is_shared(path: Path) -> None:
    """One mapping, each tensor at its place in it, at a page's beginning plus its offset."""
    x, y = np.arange(6, dtype="<f4"), np.arange(4, dtype="<u2")
    header = {"x": entry("F32", [2, 3], 0, 24), "y": entry("U16", [4], 24, 32)}
    write(path, header, x.tobytes() + y.tobytes())
    before = live()["storages"]
    with candle.trace() as moves:
        given = candle.load_safetensors(path)
    assert list(given) == ["x", "y"]
    assert type(given) is dict
    assert given["x"].tolist() == x.reshape(2, 3).tolist()
    assert given["y"].tolist() == y.tolist()
    assert given["y"].data_ptr() - given["x"].data_ptr() == 24
    assert given["x"].data_ptr() % os.sysconf("SC_PAGESIZE") == path.stat().st_size - 32
    assert mappings(path) == 1
    assert live()["storages"] - before == 1
    assert [(m.action, m.producer, m.consumer) for m in moves] == [
        ("share", "candle.SafetensorsFile", "candle")
    ] * 2
    assert candle.owner(given["x"]) is candle.owner(given["y"])


def test_the_mapping_lives_as_long_as_what_shares_it(path: Path) -> None:
    write(path, {"x": entry("F32", [4], 0, 16), "y": entry("F32", [0], 16, 16)}, b"\0" * 16)
    fds = descriptors()
    given = candle.load_safetensors(path)
    array = given["x"][1:].numpy()
    del given
    assert mappings(path) == 1
    assert array.tolist() == [0, 0, 0]
    del array
    gc.collect()
    assert mappings(path) == 0
    assert descriptors() <= fds


def test_an_empty_tensor_keeps_the_mapping_too(path: Path) -> None:
    write(path, {"x": entry("F32", [0, 3], 0, 0)})
    t = candle.load_safetensors(path)["x"]
    assert (t.shape, t.size, t.tolist()) == ((0, 3), 0, [])


@both_ways
def test_scalars_empty_tensors_and_empty_files(path: Path, mmap: bool) -> None:
    header = {
        "scalar": entry("I64", [], 0, 8),
        "empty": entry("F64", [3, 0, 2], 8, 8),
        "first": entry("F64", [0], 0, 0),
        "ones": entry("I8", [1, 1, 1], 8, 9),
    }
    write(path, header, (-7).to_bytes(8, "little", signed=True) + b"\x05")
    given = candle.load_safetensors(path, mmap=mmap)
    assert given["scalar"].item() == -7
    assert given["scalar"].shape == ()
    assert given["empty"].shape == (3, 0, 2)
    assert given["first"].tolist() == []
    assert given["ones"].tolist() == [[[5]]]
    write(path, {})
    assert candle.load_safetensors(path, mmap=mmap) == {}
    assert candle.safetensors_metadata(path) == {}


def test_nothing_is_written_back(path: Path, framework: Any) -> None:
    framework("torch")
    write(path, {"x": entry("F32", [4], 0, 16)}, np.arange(4, dtype="<f4").tobytes())
    content = path.read_bytes()
    t = candle.load_safetensors(path)["x"]
    x = t.torch()
    assert x.data_ptr() == t.data_ptr()
    x[0] = 42
    x.add_(1)
    t[3] = -1
    assert t.tolist() == [43, 2, 3, -1]
    assert x.tolist() == t.tolist()
    assert path.read_bytes() == content
    assert candle.load_safetensors(path)["x"].tolist() == [0, 1, 2, 3]
    del x, t
    assert path.read_bytes() == content


def test_every_framework_shares_it(path: Path, framework: Any) -> None:
    jax, torch = framework("jax"), framework("torch")
    write(path, {"x": entry("BF16", [32], 0, 64)}, b"\x80\x3f" * 32)
    t = candle.load_safetensors(path)["x"]
    there = candle.convert({"x": t}, "jax")["x"]
    assert isinstance(there, jax.Array)
    assert there.unsafe_buffer_pointer() == t.data_ptr()
    assert candle.convert({"x": t}, "torch")["x"].data_ptr() == t.data_ptr()
    assert t.torch().dtype == torch.bfloat16
    assert t.numpy().ctypes.data == t.data_ptr()
    assert float(there[31]) == 1.0


OFF = [("F32", 2, 4), ("BF16", 1, 2), ("C64", 2, 8), ("F64", 4, 8), ("I16", 1, 2)]


@pytest.mark.parametrize(("dtype", "off", "width"), OFF)
def test_misaligned_members_are_copied_with_the_reason(
    path: Path, dtype: str, off: int, width: int
) -> None:
    data = bytes(range(off)) + bytes(range(1, width + 1)) * 3
    header = {"before": entry("U8", [off], 0, off), "x": entry(dtype, [3], off, len(data))}
    write(path, header, data)
    with candle.trace() as moves:
        given = candle.load_safetensors(path)
    t = given["x"]
    assert t.data_ptr() % 256 == 0
    assert bytes(_raw(t)) == data[off:]
    assert [m.action for m in moves] == ["share", "copy"]
    assert [reason.code for reason in moves.copies[0].reasons] == ["misaligned"]
    assert moves.copies[0].producer == "candle.SafetensorsFile"
    assert moves.copies[0].nbytes == 3 * width
    assert moves.copies[0].where.startswith(__file__)
    with candle.trace() as moves:
        assert bytes(_raw(candle.load_safetensors(path, mmap=False)["x"])) == data[off:]
    assert not moves.copies


def test_strict_refuses_the_copy_of_a_misaligned_member(path: Path) -> None:
    header = {"b": entry("U8", [1], 0, 1), "weight": entry("F32", [1], 1, 5)}
    write(path, header, b"\0" * 5)
    with candle.strict(), pytest.raises(candle.CopyError, match="multiple of 4") as refused:
        candle.load_safetensors(path)
    assert "'weight'" in refused.value.__notes__[0]
    assert str(path) in refused.value.__notes__[0]
    del refused
    with candle.strict(allow="misaligned"):
        assert candle.load_safetensors(path)["weight"].item() == 0
    with candle.strict():
        assert candle.load_safetensors(path, mmap=False)["weight"].item() == 0
    with candle.strict():
        write(path, {"weight": entry("C64", [1], 0, 8)}, b"\0" * 8, start=4)
        assert candle.load_safetensors(path)["weight"].data_ptr() % 8 == 4  # its parts are aligned


def test_read_files_are_independent_of_the_file(path: Path) -> None:
    write(path, {"x": entry("U8", [3], 0, 3), "y": entry("F64", [2], 3, 19)}, b"\1" * 19)
    given = candle.load_safetensors(path, mmap=False)
    os.truncate(path, 0)
    assert given["x"].tolist() == [1, 1, 1]
    assert mappings(path) == 0
    assert all(t.data_ptr() % 256 == 0 for t in given.values())


def test_metadata(path: Path) -> None:
    header = {"__metadata__": {"format": "pt", "ünï": "\n😀"}, "x": entry("U8", [1], 0, 1)}
    write(path, header, b"\1")
    assert candle.safetensors_metadata(path) == {"format": "pt", "ünï": "\n😀"}
    assert list(candle.load_safetensors(path)) == ["x"]


def test_names_of_any_kind(path: Path) -> None:
    names = ["", "a.b", "ключ", "😀", 'quote"', "\\", "\n", "x" * 5000, "__metadata"]
    header = {name: entry("U8", [1], i, i + 1) for i, name in enumerate(names)}
    write(path, header, bytes(range(len(names))))
    assert {k: t.tolist() for k, t in candle.load_safetensors(path).items()} == {
        name: [i] for i, name in enumerate(names)
    }


def test_the_order_is_the_headers(path: Path) -> None:
    header = {"b": entry("U8", [1], 1, 2), "a": entry("U8", [1], 0, 1), "c": entry("U8", [0], 1, 1)}
    write(path, header, b"\1\2")
    given = candle.load_safetensors(path)
    assert list(given) == ["b", "a", "c"]
    assert given["b"].tolist() == [2]


@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
def test_paths(path: Path, kind: Callable[[Path], Any]) -> None:
    write(path, {"x": entry("U8", [1], 0, 1)}, b"\7")
    assert candle.load_safetensors(kind(path))["x"].item() == 7


def test_devices(path: Path) -> None:
    write(path, {"x": entry("U8", [1], 0, 1)}, b"\7")
    t = candle.load_safetensors(path, "cpu")["x"]
    assert mappings(path) == 1
    assert t.device == "cpu"
    with pytest.raises(BufferError, match=r"\(8, 0\)"):
        candle.load_safetensors(path, device="metal")
    with pytest.raises(ValueError, match="nowhere"):
        candle.load_safetensors("/no/such/file", device="nowhere")


def test_a_file_larger_than_memory(path: Path) -> None:
    """A private mapping, which Linux would refuse at this size if it had to back all of it."""
    size = 1 << 40
    header = {"x": entry("U8", [size], 0, size)}
    path.write_bytes(whole(header))
    try:
        os.truncate(path, path.stat().st_size + size)
    except OSError as error:
        pytest.skip(f"the file system has no such files: {error}")
    if Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2":
        pytest.skip("this machine promises no memory that it has not")
    t = candle.load_safetensors(path)["x"]
    assert t[-1].item() == 0
    t[12345] = 7
    assert t[12340:12350].tolist() == [0] * 5 + [7] + [0] * 4


TOUCHED = """
    import sys
    from pathlib import Path
    import numpy
    from model_files import resident
    import candle
    path = Path(sys.argv[1])
    candle.load_safetensors(path)  # loads the modules
    anon, file = resident("RssAnon"), resident("RssFile")
    given = candle.load_safetensors(path)
    x = given["x"].numpy()
    loaded, mapped = resident("RssAnon"), resident("RssFile")
    assert loaded - anon < 1 << 20, loaded - anon
    assert mapped - file < 1 << 20, mapped - file
    assert x.max() == 0
    assert resident("RssAnon") - anon < 2 << 20
    assert resident("RssFile") - file > 60 << 20
    x[: 1 << 20] = 1
    assert 1 << 20 <= resident("RssAnon") - anon < 4 << 20
"""


def test_memory_is_that_of_the_pages_touched(path: Path, in_child: Callable[..., Child]) -> None:
    size = 64 << 20
    path.write_bytes(whole({"x": entry("U8", [size], 0, size)}) + bytes(size))
    in_child(TOUCHED, str(path)).check()
