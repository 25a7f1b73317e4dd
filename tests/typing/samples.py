"""What type checkers infer for candle's users: mypy and pyright read this, and a test runs it."""

from __future__ import annotations

import tempfile
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import candle
from candle import array_api as xp


def coming_in() -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3)
    assert_type(candle.from_dlpack(array), candle.Tensor)
    assert_type(candle.from_dlpack(array, copy=True, dtype="float16", order="C"), candle.Tensor)
    assert_type(candle.asarray([1, 2, 3], dtype=candle.int32), candle.Tensor)
    assert_type(candle.Tensor(array), candle.Tensor)
    assert_type(candle.tensor([[1.0]], device="cpu"), candle.Tensor)
    assert_type(candle.zeros((2, 3), dtype="bfloat16"), candle.Tensor)
    assert_type(candle.cat([candle.ones(2), candle.ones(2)]), candle.Tensor)
    assert_type(candle.meshgrid(candle.arange(2), candle.arange(3)), tuple[candle.Tensor, ...])


def from_arrow() -> None:
    column: object = candle.arange(3)  # anything with `__arrow_c_array__`
    assert_type(candle.from_arrow(column), candle.Tensor)
    assert_type(candle.from_arrow(column, nulls=0.0), candle.Tensor)
    assert_type(candle.from_arrow(column, nulls="mask"), tuple[candle.Tensor, candle.Tensor])
    assert_type(candle.from_arrow(column, chunks="list"), list[candle.Tensor])


def attributes() -> None:
    t = candle.ones((2, 3))
    assert_type(t.shape, tuple[int, ...])
    assert_type(t.stride, tuple[int, ...])
    assert_type(t.ndim, int)
    assert_type(t.size, int)
    assert_type(t.nbytes, int)
    assert_type(t.dtype, candle.DType)
    assert_type(t.dtype.name, str)
    assert_type(t.device, candle.Device)
    assert_type(t.readonly, bool)
    assert_type(t.flags.c_contiguous, bool)
    assert_type(t.flags["writeable"], bool)
    assert_type(t.data_ptr(), int)
    assert_type(t.is_contiguous(), bool)
    assert_type(len(t), int)


def views_and_copies() -> None:
    t = candle.ones((2, 3))
    assert_type(t[0], candle.Tensor)
    assert_type(t[:, None, ::-1], candle.Tensor)
    assert_type(t.T, candle.Tensor)
    assert_type(t.reshape(3, 2), candle.Tensor)
    assert_type(t.permute(1, 0).contiguous(), candle.Tensor)
    assert_type(t.view("int32"), candle.Tensor)
    assert_type(t.to("float64", copy=True), candle.Tensor)
    assert_type(list(t), list[candle.Tensor])
    t[0] = 5
    assert_type(t.copy_([1, 2, 3]).fill_(0), candle.Tensor)


def going_out() -> None:
    t = candle.ones((2, 3))
    assert_type(t.numpy(), npt.NDArray[Any])
    assert_type(t.memoryview(), memoryview)
    assert_type(t.__dlpack_device__(), tuple[int, int])
    assert_type(bool(t[0, 0]), bool)
    assert_type(float(t[0, 0]), float)


def arithmetic() -> None:
    t = candle.ones((2, 3))
    assert_type(t + 1, candle.Tensor)
    assert_type(2 / t, candle.Tensor)
    assert_type(t @ t.T, candle.Tensor)
    assert_type(t == 1, candle.Tensor)
    assert_type(-t > 0, candle.Tensor)
    assert_type(t.sum(axis=0), candle.Tensor)
    assert_type(xp.zeros((2,)), candle.Tensor)
    t += 1
    assert_type(t, candle.Tensor)


def knowing() -> None:
    x = np.ones((2, 3), "float32")
    plan = candle.explain(x, "numpy")
    assert_type(plan, candle.Plan)
    assert_type(plan.nbytes, int)
    assert_type(plan.reasons, tuple[candle.Reason, ...])
    with candle.strict(), candle.trace() as moves:
        candle.from_dlpack(x)
    assert_type(moves[0].nbytes, int)
    assert_type(moves[0].seconds, float | None)
    assert_type(moves.table(), str)
    try:
        candle.from_dlpack(x[::-1], copy=False).__dlpack__(copy=False)
    except candle.CopyError as error:
        assert_type(error.plan, candle.Plan)
        assert_type(error.plan.reasons[0].code, candle.ReasonCode)
    assert_type(candle.shares_memory(x, x), bool)


@candle.accepts("numpy")
def doubled(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return x + x


@candle.strict()
def checked(x: int) -> str:
    return str(x)


def decorated() -> None:
    assert_type(checked(3), str)
    assert_type(doubled(np.ones((2, 3), "float32")), npt.NDArray[np.float32])


def files() -> None:
    path = tempfile.mkdtemp() + "/model.safetensors"
    candle.save_safetensors({"a": candle.ones(2)}, path)
    assert_type(candle.load_safetensors(path), dict[str, candle.Tensor])
    assert_type(candle.safetensors_metadata(path), dict[str, str])
    assert_type(candle.load_safetensors(path)["a"], candle.Tensor)
