"""What else is asked of cupy and torch on devices: counts, old streams, what they lack; trees."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle import doctor, frameworks
from candle.ledger import listening
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

VALUES = np.arange(24, dtype="float32").reshape(4, 6)


def test_devices_are_counted(maker: Any) -> None:
    """By whoever makes the copies."""
    from candle import array_api

    info = array_api.__array_namespace_info__()
    assert list(map(str, info.devices())) == ["cpu", "cuda:0", "cuda:1"]
    assert candle.utils.cuda_is_available() is True


def test_streams_before_they_knew_the_protocol(
    cupy: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their handle is asked for, and work is ordered as it is with others."""
    for cls in cupy.cuda.Stream.__mro__:
        if "__cuda_stream__" in vars(cls):
            monkeypatch.delattr(cls, "__cuda_stream__")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.asarray(np.zeros(4, "float32"))
        driver.late_fill(stream.ptr, x.data.ptr, 3.0, 4)
        t = candle.from_dlpack(x)
        made = t.to("cpu")
    assert made.tolist() == [3.0] * 4
    del x, t


def test_other_types_of_cupys(cupy: Any, driver: Driver) -> None:
    with pytest.raises(TypeError, match="Stream"):
        candle.asarray(cupy.cuda.Stream())


def test_dtypes_it_lacks(cupy: Any, driver: Driver) -> None:
    t = candle.from_dlpack(cupy.asarray(np.ones(4, "float32")))
    with pytest.raises(BufferError, match="cupy has no bfloat16"):
        frameworks.dtype_for("cupy", candle.bfloat16)
    from candle import array_api

    assert array_api.sum(t, dtype=candle.float64).to("cpu").item() == 4.0
    del t


def test_what_is_writable_is_shared_in_trees(cupy: Any, driver: Driver) -> None:
    x = cupy.asarray(np.ones(4, "float32"))
    t = candle.from_dlpack(x)
    assert candle.convert({"t": t}, "cupy")["t"].data.ptr == x.data.ptr
    del x, t


def test_packed_elements_are_written(maker: Any) -> None:
    a = candle.empty(8, dtype="int4", device="cuda")
    a.copy_(candle.asarray([1, 2, 3, 4, 5, 6, 7, -8], dtype="int4"))
    b = candle.zeros(8, dtype="int4").to("cuda")
    b.copy_(a)
    assert b.to("cpu").tolist() == [1, 2, 3, 4, 5, 6, 7, -8]
    del a, b


def test_misaligned_elements_are_cast(maker: Any, driver: Driver) -> None:
    """They are copied to where they are aligned first."""
    address = driver.alloc(64)
    driver.view(address + 2, 16)[:] = np.arange(4, dtype="float32").tobytes()
    far = Producer(address + 2, shape=(4,), device=(2, 0))
    t = candle.from_dlpack(far.capsule(), dtype="float64")
    assert t.to("cpu").tolist() == [0.0, 1.0, 2.0, 3.0]
    del t
    driver.drain()
    driver.free(address)


def test_operands_elsewhere_after_a_block(cupy: Any, driver: Driver) -> None:
    """What a strict block has started is not held to it when that is over."""
    arrays = []
    for device in (0, 1):
        with cupy.cuda.Device(device):
            arrays.append(candle.from_dlpack(cupy.asarray(np.ones(2, "float32"))))
    with candle.strict():
        context = contextvars.copy_context()
        with pytest.raises(candle.CopyError):
            arrays[0] + arrays[1]
    assert context.run(lambda: (arrays[0] + arrays[1]).to("cpu").tolist()) == [2.0, 2.0]
    arrays.clear()


def test_the_doctor(cupy: Any, driver: Driver) -> None:
    told = {
        pair["to"]: pair["outcome"]
        for to in ("candle", "numpy")
        for pair in doctor.route("cupy", to)
    }
    assert told == {"candle": "shared", "numpy": "copied"}
    assert doctor._cuda().startswith("driver for CUDA ")
    assert doctor._cuda().endswith(f", {driver.device_count} devices")
    driver.fail("cuInit", 100)
    assert doctor._cuda() == "a driver that does not start: cuInit gives 100"


# Trees of tensors that share memory: each block is copied once, and stays one.


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
