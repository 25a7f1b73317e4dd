"""einops: its functions take Tensors, and its views share memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

CASES: dict[str, Callable[[Any, Any], Any]] = {
    "transpose": lambda e, x: e.rearrange(x, "a b -> b a"),
    "split": lambda e, x: e.rearrange(x, "a (b c) -> c a b", c=2),
    "merge": lambda e, x: e.rearrange(x, "a b -> (b a)"),
    "list": lambda e, x: e.rearrange([x, x], "n a b -> a (n b)"),
    "repeat": lambda e, x: e.repeat(x, "a b -> a n b", n=3),
    "repeat, merged": lambda e, x: e.repeat(x, "a b -> (n a) b", n=3),
    "mean": lambda e, x: e.reduce(x, "a b -> a", "mean"),
    "max of all": lambda e, x: e.reduce(x, "a b ->", "max"),
    "pooling": lambda e, x: e.reduce(x, "(h 2) (w 3) -> h w", "sum"),
    "einsum": lambda e, x: e.einsum(x, x, "a b, a b -> a"),
    "pack": lambda e, x: e.pack([x, x], "* b")[0],
    "unpack": lambda e, x: e.unpack(x, [[1], [3]], "* b")[1],
}


@pytest.mark.parametrize("case", CASES)
def test_as_numpy(einops: Any, t: candle.Tensor, case: str) -> None:
    made = CASES[case](einops, t)
    assert type(made) is candle.Tensor
    assert np.array_equal(made.numpy(), CASES[case](einops, t.numpy()))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "int4", "int8", "bool"])
def test_other_dtypes(einops: Any, dtype: str) -> None:
    x = candle.Tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    for case in ("transpose", "merge", "list", "repeat", "repeat, merged", "max of all", "pack"):
        made = CASES[case](einops, x)
        if case != "max of all":  # which computes, with integers below a byte as int8
            assert made.dtype == dtype, case
        assert np.array_equal(made.to("float32"), CASES[case](einops, x.to("float32").numpy()))


def test_what_adds_up_is_rounded_once(einops: Any) -> None:
    """In bfloat16 itself 1000 ones are 256."""
    ones = candle.ones(1000, dtype="bfloat16")
    assert einops.reduce(ones, "a ->", "sum").item() == 1000
    assert einops.reduce(ones, "a ->", "mean").item() == 1
    assert einops.einsum(ones, ones, "a, a ->").item() == 1000


@pytest.mark.parametrize("case", ["transpose", "split", "repeat"])
def test_views_share(einops: Any, t: candle.Tensor, case: str) -> None:
    with candle.strict():
        assert CASES[case](einops, t).data_ptr() == t.data_ptr()


def test_anything_else(einops: Any, t: candle.Tensor) -> None:
    assert einops.parse_shape(t, "a b") == {"a": 4, "b": 6}
    assert einops.asnumpy(t).ctypes.data == t.data_ptr()
    assert np.array_equal(einops.rearrange(t.numpy(), "a b -> b a"), t.numpy().T)
    with pytest.raises(NotImplementedError, match="reduce_mean is not available"):
        einops.reduce(candle.arange(4), "a ->", "mean")


@pytest.mark.parametrize("first", ["candle", "einops"])
def test_in_any_order_of_imports(first: str, einops: Any, in_child: Callable[..., Any]) -> None:
    second = "einops" if first == "candle" else "candle"
    code = f"""
        import {first}, {second}
        print(einops.rearrange(candle.zeros((2, 3)), "a b -> b a").shape)
    """
    assert in_child(code).check() == "(3, 2)\n"


def test_what_its_backends_make(einops: Any) -> None:
    """What layers and indexing ask for."""
    backend = importlib.import_module("einops._backends").get_backend(candle.zeros(1))
    x = np.arange(3)
    made = backend.from_numpy(x)
    assert type(made) is candle.Tensor
    assert candle.shares_memory(made, x)
    assert backend.arange(2, 5).tolist() == [2, 3, 4]
    with pytest.raises(ValueError, match="does not broadcast"):
        backend.tile(candle.zeros((2, 1)), (3, 1))
