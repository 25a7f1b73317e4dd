"""Memory of the host that is not the first CPU's: numpy computes on it, in place, with no copy.

Pinned for CUDA or ROCm, or of another CPU, as jax counts them.
"""

from __future__ import annotations

import operator
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import candle
from candle.testing import Producer

DEVICES = {"cpu:1": (1, 1), "cuda_host:0": (3, 0), "cuda_host:1": (3, 1), "rocm_host:0": (11, 0)}
VALUES = np.array([[3.0, -1.0, 2.0], [0.5, 4.0, -2.0]], "float32")


def there(device: tuple[int, int]) -> candle.Tensor:
    return candle.from_dlpack(Producer(VALUES.tobytes(), shape=VALUES.shape, device=device))


BINARY = [
    getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "le", "gt", "ge", "eq")
]
SAME: dict[str, Any] = {
    **{f"t {f.__name__} t": lambda x, f=f: f(x, x) for f in BINARY},
    **{f"t {f.__name__} 2": lambda x, f=f: f(x, 2) for f in BINARY},
    **{f"2 {f.__name__} t": lambda x, f=f: f(2.0, x) for f in BINARY},
    "beside an array": lambda x: x + VALUES,
    "an array beside it": lambda x: VALUES + x,
    "divmod": lambda x: divmod(x, 2)[1],
    "power": lambda x: abs(x) ** 2,
    "matmul": lambda x: x @ x.T,
    "negative": lambda x: -x,
    "positive": lambda x: +x,
    "sum": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(),
    "argmax": lambda x: x.argmax(),
    "clip": lambda x: x.clip(0, 1),
    "np.sin": np.sin,
    "np.add.reduce": np.add.reduce,
    "np.concatenate": lambda x: np.concatenate([x, x]),
    "np.sort": np.sort,
    "mask": lambda x: x[x > 1],
    "indices": lambda x: x[[1, 0, 1]],
    "an array of indices": lambda x: x[np.array([1, 0])],
    "masked product": lambda x: (x * (x > 0)).sum(),
}


def copies(function: Any) -> tuple[Any, list[Any]]:
    with candle.trace() as moves:
        found = function()
    return found, [move for move in moves if move.action == "copy"]


@pytest.mark.parametrize("device", DEVICES)
def test_numpy_computes(device: str) -> None:
    t = there(DEVICES[device])
    assert str(t.device) == device
    assert t.device.on_host
    for name, function in SAME.items():
        found, made = copies(lambda f=function: f(t))
        wanted = function(VALUES)
        assert np.array_equal(np.asarray(found), wanted), name
        assert np.asarray(found).dtype == wanted.dtype, name
        assert not made, name
        assert not isinstance(found, candle.Tensor) or str(found.device) == "cpu", name


@pytest.mark.parametrize("device", DEVICES)
def test_written_in_place(device: str) -> None:
    t, a = there(DEVICES[device]), VALUES.copy()
    kept, address = t, t.data_ptr()
    t += 1
    a += 1
    t *= t
    a *= a
    t[t > 3] = 0
    a[a > 3] = 0
    t[[1]] = 7
    a[[1]] = 7
    np.negative(t, out=t)
    np.negative(a, out=a)
    assert t is kept
    assert t.data_ptr() == address
    assert np.array_equal(np.asarray(t), a)


@pytest.mark.parametrize("device", DEVICES)
def test_of_dtypes_that_numpy_has_not(device: str) -> None:
    values = np.array([3, -1, 2], "int16").view("uint16")
    t = candle.from_dlpack(
        Producer(values.tobytes(), shape=(3,), dtype=(4, 16), device=DEVICES[device])
    )
    here = candle.asarray(t).copy()
    for name, function in {
        "half": lambda x: x * 0.5,
        "int": lambda x: x + 1,
        "compared": lambda x: x > 0.25,
        "sum": lambda x: x.sum(),
        "index": lambda x: x[[2, 0]],
    }.items():
        found, wanted = function(t), function(here)
        assert found.dtype == wanted.dtype, name
        assert repr(found.tolist()) == repr(wanted.tolist()), name


@pytest.mark.parametrize("device", DEVICES)
def test_joined_converted_and_kept(device: str, tmp_path: Path) -> None:
    t = there(DEVICES[device])
    assert candle.cat([t, t]).tolist() == np.concatenate([VALUES, VALUES]).tolist()
    assert candle.stack([t, t]).tolist() == np.stack([VALUES, VALUES]).tolist()
    assert candle.zeros_like(t).tolist() == np.zeros_like(VALUES).tolist()
    assert t.tolist() == VALUES.tolist()
    assert t.to("float64").tolist() == VALUES.tolist()
    assert "3." in repr(t)
    assert pickle.loads(pickle.dumps(t)).tolist() == VALUES.tolist()
    candle.save_safetensors({"t": t}, tmp_path / "there")
    candle.save_safetensors({"t": VALUES}, tmp_path / "here")
    assert (tmp_path / "there").read_bytes() == (tmp_path / "here").read_bytes()
    [x, y] = candle.convert([t, t[1]], "numpy", copy=True)
    assert x.tolist() == VALUES.tolist()
    assert np.shares_memory(x, y)
    assert candle.share(t).open().tolist() == VALUES.tolist()
    assert (t == 10**400).tolist() == [[False] * 3] * 2  # which no element can be
    assert candle.shares_memory(t, candle.asarray(t.numpy()))


def test_who_is_on_the_host_is_asked_in_one_place() -> None:
    """Names of devices are compared by nobody but who names them."""
    package = Path(candle.__file__).parent
    naming = {path.name for path in package.rglob("*.py") if '"cuda_host"' in path.read_text()}
    assert naming == {"devices.py"}


def test_other_memory_is_not() -> None:
    for device in ("cuda", "cuda_managed", "metal", "oneapi", "rocm", "device_99"):
        assert not candle.Device(device).on_host
