"""Files of tensors, loaded to a device."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from device_makers import Copies

import candle

if TYPE_CHECKING:
    from pathlib import Path

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")


def tree() -> dict[str, candle.Tensor]:
    numbers = candle.arange(12, dtype="float32").reshape(3, 4)
    made = {
        str(dtype): candle.asarray(numbers.tolist()).to(dtype)
        for dtype in ("bfloat16", "float8_e4m3fn", "float4_e2m1fn", "float6_e2m3fn", "complex64")
    }
    return {
        **made,
        "float32": numbers,
        "bool": candle.asarray([True, False, True]),
        "empty": candle.zeros((0, 3), dtype="int16"),
        "scalar": candle.asarray(3.5),
    }


@pytest.mark.parametrize("mmap", [True, False])
def test_safetensors(maker: Any, driver: Driver, tmp_path: Path, mmap: bool) -> None:
    path = tmp_path / "a.safetensors"
    saved = tree()
    candle.save_safetensors(saved, path)
    for device in ("cuda", "cuda:1", candle.Device("cuda", 1)):
        with Copies() as copies, candle.strict():  # the device was asked for by name
            found = candle.load_safetensors(path, device, mmap=mmap)
        assert copies.reasons == [("device",)] * len(saved)
        for name, t in found.items():
            expected = saved[name]
            assert t.device == ("cuda:0" if device == "cuda" else "cuda:1")
            assert (t.dtype, t.shape, t.readonly) == (expected.dtype, expected.shape, False)
            assert t.to("cpu").tolist() == expected.tolist(), name


@pytest.mark.parametrize("mmap", [True, False])
def test_a_misaligned_member(maker: Any, driver: Driver, tmp_path: Path, mmap: bool) -> None:
    """It is one copy, to the device, and right there."""
    path = tmp_path / "a.safetensors"
    header = {
        "odd": {"dtype": "F32", "shape": [3], "data_offsets": [1, 13]},
        "byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
    }
    text = json.dumps(header).encode()
    data = b"\7" + np.arange(3, dtype="<f4").tobytes()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    with Copies() as copies:
        found = candle.load_safetensors(path, "cuda", mmap=mmap)
    assert len(copies) == 2
    assert {name: t.to("cpu").tolist() for name, t in found.items()} == {
        "odd": [0, 1, 2],
        "byte": [7],
    }


def arrays() -> dict[str, Any]:
    grid = np.arange(6.0).reshape(2, 3)
    return {
        "row-major": grid,
        "column-major": np.asfortranarray(grid),
        "foreign": np.arange(6, dtype=">i4"),
        "foreign, column-major": np.asfortranarray(grid.astype(">c8")),
        "empty": np.zeros((0, 2), "int8"),
        "scalar": np.array(2.5, ">f2"),
        "bool": np.array([True, False]),
    }


@pytest.mark.parametrize("mmap", [True, False])
def test_npy(maker: Any, driver: Driver, tmp_path: Path, mmap: bool) -> None:
    path = tmp_path / "a.npy"
    for name, array in arrays().items():
        np.save(path, array)
        t = candle.load_npy(path, "cuda:1", mmap=mmap)
        assert (t.device, t.shape) == ("cuda:1", array.shape)
        assert t.to("cpu").tolist() == array.tolist(), name


@pytest.mark.parametrize("mmap", [True, False])
def test_npz(maker: Any, driver: Driver, tmp_path: Path, mmap: bool) -> None:
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **arrays())
        found = candle.load_npz(tmp_path / "a.npz", "cuda", mmap=mmap)
        assert {t.device for t in found.values()} == {candle.Device("cuda", 0)}
        assert {name: t.to("cpu").tolist() for name, t in found.items()} == {
            name: array.tolist() for name, array in arrays().items()
        }


def test_devices_that_cannot_be(maker: Any, driver: Driver, tmp_path: Path) -> None:
    """Each says of what file, and of which tensor."""
    paths = [tmp_path / name for name in ("a.safetensors", "a.npy", "a.npz")]
    candle.save_safetensors({"weight": candle.zeros(3)}, paths[0])
    np.save(paths[1], np.zeros(3))
    np.savez(paths[2], weight=np.zeros(3))
    loads = (candle.load_safetensors, candle.load_npy, candle.load_npz)
    for load, path in zip(loads, paths, strict=True):
        for mmap in (True, False):
            for device in ("rocm", "metal:0"):
                with pytest.raises(BufferError) as caught:
                    load(path, device, mmap=mmap)  # type: ignore[operator]
                [note] = caught.value.__notes__
                assert str(path) in note
                assert ("weight" in note) == (load is not candle.load_npy)
            for wrong, error in (("nowhere", ValueError), ("cuda:-1", ValueError), (3, TypeError)):
                with pytest.raises(error):
                    load(path, wrong, mmap=mmap)  # type: ignore[operator]
