"""HuggingFace candle's methods: the results that candle-nn 0.4.2 gave for the same calls."""

from __future__ import annotations

import math
from typing import Any

import pytest

import candle

pytest.importorskip("array_api_compat")

F = candle.tensor([[1.0, 4.0, 2.0], [3.0, 0.5, 6.0]])
I = candle.tensor([[3, 1], [2, 5]], dtype="u32")  # noqa: E741
B = candle.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]])
ROW = candle.tensor([1.0, 2.0, 4.0])
PICK = candle.tensor([1, 0, 1], dtype="u32")
ONES = candle.tensor([[1, 0, 1], [0, 1, 0]], dtype="u32")

# What is called -> shape, dtype, values.
CASES: dict[str, tuple[tuple[int, ...], str, Any]] = {
    "F.abs()": ((2, 3), "f32", [[1, 4, 2], [3, 0.5, 6]]),
    "I.abs()": ((2, 2), "u32", [[3, 1], [2, 5]]),
    "F.argmax_keepdim(0)": ((1, 3), "u32", [[1, 0, 1]]),
    "F.argmax_keepdim(-1)": ((2, 1), "u32", [[1], [2]]),
    "F.argmin_keepdim(1)": ((2, 1), "u32", [[0], [1]]),
    "F.max_keepdim(1)": ((2, 1), "f32", [[4], [6]]),
    "F.min_keepdim(0)": ((1, 3), "f32", [[1, 0.5, 2]]),
    "I.max_keepdim(0)": ((1, 2), "u32", [[3, 5]]),
    "F.sum_keepdim(0)": ((1, 3), "f32", [[4, 4.5, 8]]),
    "F.sum_keepdim([0, 1])": ((1, 1), "f32", [[16.5]]),
    "F.sum_keepdim((0, 1))": ((1, 1), "f32", [[16.5]]),
    "F.sum_all()": ((), "f32", 16.5),
    "F.mean_all()": ((), "f32", 2.75),
    "I.sum_all()": ((), "u32", 11),
    "I.to_dtype('u8').sum_all()": ((), "u8", 11),
    "I.to_dtype('u8').sum_keepdim(0)": ((1, 2), "u8", [[5, 6]]),
    "F.to_dtype('bf16').sum_all()": ((), "bf16", 16.5),
    "F.to_dtype('f16').mean_all()": ((), "f16", 2.75),
    "F.broadcast_add(ROW)": ((2, 3), "f32", [[2, 6, 6], [4, 2.5, 10]]),
    "F.broadcast_sub(ROW)": ((2, 3), "f32", [[0, 2, -2], [2, -1.5, 2]]),
    "F.broadcast_mul(ROW)": ((2, 3), "f32", [[1, 8, 8], [3, 1, 24]]),
    "F.broadcast_div(ROW)": ((2, 3), "f32", [[1, 2, 0.5], [3, 0.25, 1.5]]),
    "I.broadcast_div(candle.tensor([2, 2], dtype='u32'))": ((2, 2), "u32", [[1, 0], [1, 2]]),
    "candle.tensor([-7, 7]).broadcast_div(candle.tensor([2, -2]))": ((2,), "i64", [-3, -3]),
    "F.broadcast_left((2,)).sum_all()": ((), "f32", 33),
    "F.broadcast_left(2)[1]": ((2, 3), "f32", [[1, 4, 2], [3, 0.5, 6]]),
    "F.sqr()": ((2, 3), "f32", [[1, 16, 4], [9, 0.25, 36]]),
    "F.powf(2)": ((2, 3), "f32", [[1, 16, 4], [9, 0.25, 36]]),
    "ROW.sqrt()": ((3,), "f32", [1, 1.4142135381698608, 2]),
    "ROW.recip()": ((3,), "f32", [1, 0.5, 0.25]),
    "ROW.powf(0.5)": ((3,), "f32", [1, 1.4142135381698608, 2]),
    "F.to_dtype('bf16').exp()": (
        (2, 3),
        "bf16",
        [[2.71875, 54.5, 7.375], [20.125, 1.6484375, 404]],
    ),
    "F.t()": ((3, 2), "f32", [[1, 3], [4, 0.5], [2, 6]]),
    "B.t()": ((2, 2, 2), "f32", [[[1, 3], [2, 4]], [[5, 7], [6, 8]]]),
    "F.get(1)": ((3,), "f32", [3, 0.5, 6]),
    "F.get(-1)": ((3,), "f32", [3, 0.5, 6]),
    "F.flatten_all()": ((6,), "f32", [1, 4, 2, 3, 0.5, 6]),
    "candle.tensor(1.5).flatten_all()": ((1,), "f32", [1.5]),
    "B.flatten_from(1)": ((2, 4), "f32", [[1, 2, 3, 4], [5, 6, 7, 8]]),
    "B.flatten_from(-2)": ((2, 4), "f32", [[1, 2, 3, 4], [5, 6, 7, 8]]),
    "B.flatten_to(1)": ((4, 2), "f32", [[1, 2], [3, 4], [5, 6], [7, 8]]),
    "B.flatten_to(0)": ((2, 2, 2), "f32", B.tolist()),
    "F.index_select(PICK, 0)": ((3, 3), "f32", [[3, 0.5, 6], [1, 4, 2], [3, 0.5, 6]]),
    "F.index_select(PICK, 1)": ((2, 3), "f32", [[4, 1, 4], [0.5, 3, 0.5]]),
    "F.gather(candle.tensor([[0, 1, 1]], dtype='u32'), 0)": ((1, 3), "f32", [[1, 0.5, 6]]),
    "F.gather(candle.tensor([[0, 2], [1, 1]]), 1)": ((2, 2), "f32", [[1, 2], [0.5, 0.5]]),
    "F.gather(candle.tensor([[0], [2]]), -1)": ((2, 1), "f32", [[1], [6]]),
    "(F > 2.0).where_cond(F, F * 0.0)": ((2, 3), "f32", [[0, 4, 0], [3, 0, 6]]),
    "ONES.where_cond(F, F * 0.0)": ((2, 3), "f32", [[1, 0, 2], [0, 0.5, 0]]),
    "F.matmul(F.t())": ((2, 2), "f32", [[21, 17], [17, 45.25]]),
    "B.matmul(B)": ((2, 2, 2), "f32", [[[7, 10], [15, 22]], [[67, 78], [91, 106]]]),
    "F.detach()": ((2, 3), "f32", [[1, 4, 2], [3, 0.5, 6]]),
    "I + 1": ((2, 2), "u32", [[4, 2], [3, 6]]),
    "F[PICK]": ((3, 3), "f32", [[3, 0.5, 6], [1, 4, 2], [3, 0.5, 6]]),
}


@pytest.mark.parametrize("call", CASES)
def test_the_same_results(call: str) -> None:
    shape, dtype, values = CASES[call]
    got = eval(call)
    assert type(got) is candle.Tensor
    assert (got.shape, got.dtype) == (shape, dtype)
    assert got.values() == values


@pytest.mark.parametrize(
    ("name", "function"),
    [("cos", math.cos), ("sin", math.sin), ("exp", math.exp), ("log", math.log)],
)
def test_functions_of_one_tensor(name: str, function: Any) -> None:
    got = getattr(F, name)()
    assert (got.dtype, got.shape) == ("f32", F.shape)
    want = [[function(x) for x in row] for row in F.tolist()]
    assert [x for row in got.tolist() for x in row] == pytest.approx(
        [x for row in want for x in row], rel=1e-6
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("F.get(2)", IndexError),
        ("F.index_select(candle.tensor([0, 3]), 1)", IndexError),
        ("F.gather(candle.tensor([[0, 1, 1, 1]]), 0)", IndexError),
        ("F.argmax_keepdim(2)", ValueError),
        ("F.flatten_from(2)", IndexError),
        ("ROW.t()", ValueError),
    ],
)
def test_refusals(call: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        eval(call)


def test_views_share() -> None:
    for view in (F.t(), F.get(1), F.detach(), F.broadcast_left(2), B.flatten_to(1)):
        assert candle.shares_memory(view, F) or candle.shares_memory(view, B)
