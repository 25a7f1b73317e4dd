"""`convert` of tensors that share memory on a device: each block is copied once, and stays one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.ledger import listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

VALUES = np.arange(24, dtype="float32").reshape(4, 6)


def copied(do: Callable[[], Any]) -> tuple[Any, list[int]]:
    """What a function gives, and the bytes of each copy that it makes."""
    plans: list[candle.Plan] = []
    with listening(plans.append):
        return do(), [plan.nbytes for plan in plans]


@pytest.mark.parametrize("dtype", [None, "float64"])
@pytest.mark.parametrize("to", ["numpy", "torch", "cupy"])
def test_views_of_one_of_them(cupy: Any, driver: Driver, to: str, dtype: str | None) -> None:
    """What stands for the memory of all is copied, cast and brought to the host: once."""
    if to == "torch":
        pytest.importorskip(to)
    grid = cupy.asarray(VALUES)
    tree = {"row": grid[1], "all": grid, "turned": grid.T, "part": grid[2:, ::2]}
    how: dict[str, Any] = {"numpy": {}, "torch": {"device": "cpu"}, "cupy": {"copy": True}}[to]
    new, sizes = copied(lambda: candle.convert(tree, to, dtype=dtype, **how))
    assert sizes == [96 if dtype is None else 192]
    on_host = {name: candle.asarray(x, device="cpu").tolist() for name, x in new.items()}
    assert on_host == {
        **{"row": VALUES[1].tolist(), "all": VALUES.tolist()},
        **{"turned": VALUES.T.tolist(), "part": VALUES[2:, ::2].tolist()},
    }
    assert all(candle.shares_memory(x, new["all"]) for x in new.values())


def test_views_with_no_whole(cupy: Any, driver: Driver) -> None:
    """Nothing stands for the memory of both, and each is copied by itself."""
    grid = cupy.asarray(VALUES)
    for tree in ([grid[:3], grid[1:]], [grid[:, 1:5], grid[1:3, 2]]):
        new, sizes = copied(lambda tree=tree: candle.convert(tree, "numpy"))
        assert sizes == [x.nbytes for x in tree]
        assert [x.tolist() for x in new] == [x.get().tolist() for x in tree]
        assert not candle.shares_memory(*new)


def test_read_only_memory(cupy: Any, driver: Driver) -> None:
    """Cupy would write to it: one copy for all, and one warning."""
    from candle.frameworks import target
    from candle.testing import Producer

    grid = cupy.asarray(VALUES)
    whole = candle.from_dlpack(
        Producer(grid.data.ptr, shape=(4, 6), device=(2, 0), flags=1).capsule()
    )
    target._told.clear()
    with pytest.warns(candle.ReadOnlyCopyWarning):
        (a, b), sizes = copied(lambda: candle.convert([whole, whole[1]], "cupy"))
    assert sizes == [96]
    assert a.data.ptr != grid.data.ptr
    assert b.data.ptr == a.data.ptr + 24
    assert a.get().tolist() == VALUES.tolist()


def test_one_tensor(cupy: Any, driver: Driver) -> None:
    """Copied and cast at once."""
    grid = cupy.asarray(VALUES)
    new, sizes = copied(lambda: candle.convert([grid[1]], "numpy", dtype="float64"))
    assert sizes == [48]
    assert new[0].tolist() == VALUES[1].tolist()
