"""Beside the format's own package: its files here, candle's files there, and who refuses what."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import data_of, entry, header_of, whole

import candle

if TYPE_CHECKING:
    from pathlib import Path

safetensors = pytest.importorskip("safetensors")
torch = pytest.importorskip("torch")
by_torch = pytest.importorskip("safetensors.torch")

# torch's dtypes that the package writes, and candle loads.
TORCH = (
    *("bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)


def bits(x: Any) -> Any:
    return x.contiguous().view(torch.uint8) if x.ndim else x.reshape(1).view(torch.uint8)


def made(dtype: str, *shape: int) -> Any:
    size = getattr(torch, dtype).itemsize
    count = int(np.prod(shape, dtype=int))
    data = torch.arange(count * size, dtype=torch.int32).to(torch.uint8) % 2
    return data.view(getattr(torch, dtype)).reshape(shape)


def known(dtype: str) -> None:
    try:
        by_torch.save({"x": made(dtype, 1)})
    except Exception as error:
        pytest.skip(f"this safetensors has none: {error}")


@pytest.mark.parametrize("dtype", TORCH)
def test_both_ways(tmp_path: Path, dtype: str) -> None:
    known(dtype)
    path = tmp_path / "model.safetensors"
    tree = {"x": made(dtype, 3, 5), "scalar": made(dtype), "empty": made(dtype, 0, 4)}
    by_torch.save_file(tree, path, {"format": "pt"})
    theirs = header_of(path)
    given = candle.load_safetensors(path)
    assert candle.safetensors_metadata(path) == {"format": "pt"}
    for name, x in tree.items():
        back = given[name].torch()
        assert (back.dtype, back.shape) == (x.dtype, x.shape)
        assert torch.equal(bits(back), bits(x))
    candle.save_safetensors(tree, path, {"format": "pt"})
    ours = header_of(path)
    assert {n: (e["dtype"], e["shape"]) for n, e in ours.items() if n in tree} == {
        n: (e["dtype"], e["shape"]) for n, e in theirs.items() if n in tree
    }
    there = by_torch.load_file(path)
    assert there.keys() == tree.keys()
    for name, x in tree.items():
        assert there[name].dtype == x.dtype
        assert torch.equal(bits(there[name]), bits(x))
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_pairs_of_fp4_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    x = torch.arange(12, dtype=torch.uint8).view(torch.float4_e2m1fn_x2).reshape(3, 4)
    by_torch.save_file({"x": x}, path)
    t = candle.load_safetensors(path)["x"]
    assert (str(t.dtype), t.shape) == ("float4_e2m1fn", (3, 8))
    assert torch.equal(t.view("float4_e2m1fn_x2").torch().view(torch.uint8), x.view(torch.uint8))
    theirs, data = header_of(path), data_of(path)
    for tree in ({"x": x}, {"x": t}):
        candle.save_safetensors(tree, path)
        assert (header_of(path), data_of(path)) == (theirs, data)
    assert torch.equal(by_torch.load_file(path)["x"].view(torch.uint8), x.view(torch.uint8))


def test_its_numpy_reads_ours(tmp_path: Path) -> None:
    by_numpy = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "model.safetensors"
    tree = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(3, dtype="u1")}
    candle.save_safetensors({"n": tree, "f": np.asfortranarray(tree["a"])}, path, {"k": "ü"})
    there = by_numpy.load_file(path)
    assert {name: x.tolist() for name, x in there.items()} == {
        "n.a": tree["a"].tolist(),
        "n.b": tree["b"].tolist(),
        "f": tree["a"].tolist(),
    }
    by_numpy.save_file(tree, path)
    assert candle.load_safetensors(path)["a"].tolist() == tree["a"].tolist()


# Fields of an entry: mostly right, and each sometimes not.
extents = st.one_of(st.integers(0, 4), st.sampled_from([-1, 2**31, 2**62, 2**64, 1.0, None, "1"]))
offsets = st.one_of(st.integers(0, 24), st.sampled_from([-1, 2**62, 2**64, 0.0, None]))
dtypes = st.sampled_from(["U8", "I16", "BF16", "F32", "F64", "BOOL", "F4", "F6_E2M3", "f32", "", 1])
metadata = st.one_of(
    st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2),
    st.sampled_from([None, [], {"a": 1}, {"a": None}]),
)


@st.composite
def headers(draw: st.DrawFn) -> tuple[Any, int]:
    """A header that covers its data, with some of its fields changed; and the size of the data."""
    header: dict[str, Any] = {}
    reached = 0
    for name in draw(st.lists(st.text("ab", max_size=2), unique=True, max_size=3)):
        dtype, size = draw(st.sampled_from([("U8", 1), ("I16", 2), ("F32", 4), ("F64", 8)]))
        shape = draw(st.lists(st.integers(0, 3), max_size=2))
        end = reached + size * int(np.prod(shape, dtype=int))
        header[name] = entry(dtype, shape, reached, end)
        reached = end
    for name in list(header):
        change = draw(st.sampled_from(["", "", "dtype", "shape", "offsets", "lacks", "all"]))
        if change == "dtype":
            header[name]["dtype"] = draw(dtypes)
        elif change == "shape":
            header[name]["shape"] = draw(st.lists(extents, max_size=3))
        elif change == "offsets":
            header[name]["data_offsets"] = draw(st.lists(offsets, max_size=3))
        elif change == "lacks":
            del header[name][draw(st.sampled_from(["dtype", "shape", "data_offsets"]))]
        elif change == "all":
            header[name] = draw(st.sampled_from([None, 1, "a", [], {}]))
    if draw(st.booleans()):
        header["__metadata__"] = draw(metadata)
    return header, max(0, reached + draw(st.sampled_from([0, 0, 0, 0, -1, 1])))


@settings(max_examples=200)
@given(headers(), st.sampled_from(["", " ", "\n", "\t  ", "x", "\0", "{}"]))
def test_who_accepts_what(
    tmp_path_factory: pytest.TempPathFactory, header: tuple[Any, int], behind: str
) -> None:
    """candle takes what the package takes, and nothing else; with the same names and shapes."""
    entries, size = header
    content = whole(json.dumps(entries).encode() + behind.encode(), bytes(size))
    path = tmp_path_factory.getbasetemp() / "beside.safetensors"
    path.write_bytes(content)
    try:
        theirs = {
            name: (found["dtype"], list(found["shape"]), bytes(found["data"]))
            for name, found in safetensors.deserialize(content)
        }
    except Exception:
        theirs = None
    if entries.get("__metadata__", {}) is None:
        theirs = None  # the package takes null for no metadata; the format says "a map"
    if any(math.prod(n or 1 for n in shape) >= 2**63 for _, shape, _ in (theirs or {}).values()):
        theirs = None  # beside an extent of 0, where the package counts no further
    if theirs is None:
        with pytest.raises(ValueError, match="beside"):
            candle.load_safetensors(path)
        return
    given = candle.load_safetensors(path)
    assert {name: list(t.shape) for name, t in given.items()} == {
        name: shape for name, (_, shape, _) in theirs.items()
    }
