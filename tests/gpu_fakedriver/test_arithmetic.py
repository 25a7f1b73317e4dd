"""Arithmetic on CUDA devices, by the stand-in for cupy over the fake driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")


def array(cupy: Any, values: Any, device: int) -> Any:
    with cupy.cuda.Device(device):
        return cupy.asarray(np.array(values, "float32"))


@pytest.mark.parametrize("device", [0, 1])
def test_operators_run_where_the_memory_is(cupy: Any, driver: Driver, device: int) -> None:
    x = array(cupy, [[1, 2], [3, 4]], device)
    t = candle.from_dlpack(x)
    with candle.strict(), candle.trace() as moves:
        results = [t + t, t * 2.0, 1 + t, t > 2, t @ t, np.add(t, t), np.sin(t), t.T + t]
    assert {move.action for move in moves} == {"share"}
    wanted = [
        *([[2, 4], [6, 8]], [[2, 4], [6, 8]], [[2, 3], [4, 5]], [[False, False], [True, True]]),
        *([[7, 10], [15, 22]], [[2, 4], [6, 8]], np.sin(np.array([[1, 2], [3, 4]], "f4")).tolist()),
        [[2, 5], [5, 8]],
    ]
    for got, want in zip(results, wanted, strict=True):
        assert type(got) is candle.Tensor
        assert got.device == f"cuda:{device}"
        assert got.to("cpu").tolist() == want


@pytest.mark.parametrize("device", [0, 1])
def test_in_place_writes_the_devices_memory(cupy: Any, driver: Driver, device: int) -> None:
    x = array(cupy, [1, 2, 3], device)
    t = candle.from_dlpack(x)
    before = t
    t += 1
    t += t
    assert t is before
    assert x.get().tolist() == [4, 6, 8]
    with pytest.raises(ValueError, match="stride 0"):
        t[:1].broadcast_to(3).__iadd__(1)
    reversed_view = t[::-1]
    with pytest.raises(candle.CopyError):  # cupy could only have a copy, and what it writes be lost
        reversed_view += 1
    assert x.get().tolist() == [4, 6, 8]


def test_operators_that_the_library_has_not_in_place(
    cupy: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(cupy.ndarray, "__imatmul__")
    x = array(cupy, [[1, 2], [3, 4]], 1)
    t = candle.from_dlpack(x)
    t @= t
    assert t.device == "cuda:1"
    assert x.get().tolist() == [[7, 10], [15, 22]]


def test_read_only_memory_is_not_written(cupy: Any, driver: Driver) -> None:
    from torch_on_devices import raw

    [t] = raw(0, [candle.tensor([1.0, float("nan")])], read_only=True)
    assert np.nan_to_num(t).to("cpu").tolist() == [1, 0]
    for arguments in ((False,), (False, 7.0)):
        with pytest.raises(ValueError, match="read-only"):
            np.nan_to_num(t, *arguments)
    with pytest.raises(ValueError, match="read-only"):
        np.nan_to_num(t, copy=False)
    assert np.isnan(t.to("cpu").tolist()).tolist() == [False, True]


def test_functions_that_write_to_their_argument(cupy: Any, driver: Driver) -> None:
    for device in (0, 1):
        x = array(cupy, [1, float("nan")], device)
        t = candle.from_dlpack(x)
        np.nan_to_num(t, copy=False)
        assert x.get().tolist() == [1, 0]


def test_queued_work_comes_first(cupy: Any, driver: Driver) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = array(cupy, [0, 0], 0)
        x.fill(5)  # queued, and held back
        t = candle.from_dlpack(x)
    doubled = t + t  # on another stream
    assert doubled.to("cpu").tolist() == [10, 10]


def test_operands_elsewhere_are_copied_there(cupy: Any, driver: Driver) -> None:
    t = candle.from_dlpack(array(cupy, [1, 2], 1))
    elsewhere = candle.from_dlpack(array(cupy, [10, 20], 0))
    for other in (np.array([10, 20], "float32"), candle.tensor([10.0, 20.0]), elsewhere):
        with candle.trace() as moves:
            got = t + other
        assert got.device == "cuda:1"
        assert got.to("cpu").tolist() == [11, 22]
        assert [move.action for move in moves].count("copy") == 1
        with candle.strict(), pytest.raises(candle.CopyError):
            t + other
    t += candle.tensor([1.0, 1.0])
    assert t.to("cpu").tolist() == [2, 3]


def test_functions_that_the_library_has_not(cupy: Any, driver: Driver) -> None:
    t = candle.from_dlpack(array(cupy, [1, 2], 0))
    with pytest.raises(TypeError, match=r"cupy has no isnat.*cpu"):
        np.isnat(t)
