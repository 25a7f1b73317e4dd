"""scipy, scikit-learn, xarray and einops with tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import array_consumers
import children
import pytest

import candle

np = pytest.importorskip("numpy")
pytest.importorskip("array_api_compat")


def results(which: str) -> dict[str, Any]:
    pytest.importorskip(which)
    child = children.run_child(Path(array_consumers.__file__), which, SCIPY_ARRAY_API="1")
    found: dict[str, Any] = json.loads(child.check(quiet=False))
    return found


@pytest.fixture(scope="module")
def scipy() -> dict[str, Any]:
    return results("scipy")


@pytest.fixture(scope="module")
def sklearn() -> dict[str, Any]:
    return results("sklearn")


@pytest.mark.parametrize("call", array_consumers.SCIPY)
def test_scipy_gives_tensors(scipy: dict[str, Any], call: str) -> None:
    assert scipy[call] == {"type": "Tensor", "same": True}


@pytest.mark.parametrize("call", array_consumers.SCIPY_IN_NUMPY)
def test_scipy_takes_tensors(scipy: dict[str, Any], call: str) -> None:
    assert scipy[call].get("same"), scipy[call]


@pytest.mark.parametrize("call", array_consumers.SKLEARN)
def test_sklearn_with_dispatch(sklearn: dict[str, Any], call: str) -> None:
    found = sklearn[f"True {call}"]
    number = found.get("type") == "float"
    assert found == {"type": "float" if number else "Tensor", "same": True}


@pytest.mark.parametrize("call", array_consumers.SKLEARN + array_consumers.SKLEARN_IN_NUMPY)
def test_sklearn_without_dispatch(sklearn: dict[str, Any], call: str) -> None:
    assert sklearn[f"False {call}"].get("same"), sklearn[f"False {call}"]


def test_xarray_keeps_tensors() -> None:
    xarray = pytest.importorskip("xarray")
    t = candle.asarray(np.arange(6.0).reshape(2, 3))
    a = xarray.DataArray(t, dims=("row", "column"), coords={"row": [10, 20]})
    assert a.data is t
    for got, want in (
        (a + 1, t + 1),
        (a * a, t * t),
        (a.sum("row"), t.sum(0)),
        (a.mean(), t.mean()),
        (a.T, t.T),
        (a.isel(column=slice(None, None, 2)), t[:, ::2]),
        (a.sel(row=20), t[1]),
        (a.where(a > 2, 0.0), t * (t > 2)),
        (np.sqrt(a), np.sqrt(t)),
    ):
        assert type(got.data) is candle.Tensor
        assert got.data.tolist() == want.tolist()
    assert candle.shares_memory(a.T.data, t)
    assert candle.shares_memory(a.isel(column=0).data, t)
    assert type((t + a).data) in (candle.Tensor, np.ndarray)


def test_einops() -> None:
    einops = pytest.importorskip("einops.array_api")
    t = candle.asarray(np.arange(24.0).reshape(2, 3, 4))
    moved = einops.rearrange(t, "b h w -> h (w b)")
    assert type(moved) is candle.Tensor
    assert moved.tolist() == t.permute(1, 2, 0).reshape(3, 8).tolist()
    assert einops.reduce(t, "b h w -> b", "max").tolist() == [11, 23]
    assert einops.repeat(t, "b h w -> b h w c", c=2).shape == (2, 3, 4, 2)
    swapped = einops.rearrange(t, "b h w -> w h b")
    assert candle.shares_memory(swapped, t)


def test_array_api_compat_knows_tensors() -> None:
    compat = pytest.importorskip("array_api_compat")
    from candle import array_api

    t = candle.zeros((2, 3))
    assert compat.is_array_api_obj(t)
    assert compat.array_namespace(t, t) is array_api
    assert compat.device(t) == candle.Device("cpu")
    assert compat.size(t) == 6
    assert compat.to_device(t, "cpu") is t
