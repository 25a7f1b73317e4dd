"""warp: shared in both directions, one to four axes."""

from __future__ import annotations

from typing import Any

import pytest

import candle

DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(wp: Any, dtype: str) -> None:
    t = candle.Tensor([[0, 1], [1, 0]], dtype=dtype)
    x = candle.convert(t, "warp")
    assert (x.dtype.__name__, x.ptr) == (dtype, t.data_ptr())
    back = candle.Tensor(x)
    assert (back.dtype, back.readonly, back.data_ptr()) == (t.dtype, False, t.data_ptr())
    assert back.tolist() == t.tolist()


def test_layouts(wp: Any, t: candle.Tensor) -> None:
    for view in (t.T, t[:, ::2], t[1:, 2:]):
        x = candle.convert(view, "warp", copy=False)
        assert (x.ptr, x.numpy().tolist()) == (view.data_ptr(), view.tolist())
    assert candle.convert(t[::-1], "warp").numpy().tolist() == t[::-1].tolist()


def test_read_only(wp: Any, frozen: candle.Tensor) -> None:
    assert candle.convert(frozen, "warp").ptr != frozen.data_ptr()
    assert candle.convert(frozen, "warp", copy=False).ptr == frozen.data_ptr()


@pytest.mark.parametrize("shape", [(), (1,) * 5])
def test_axes(wp: Any, shape: tuple[int, ...]) -> None:
    with pytest.raises(BufferError, match=rf"{len(shape)} axes, and warp takes 1 to 4"):
        candle.convert(candle.zeros(shape), "warp")


@pytest.mark.parametrize("dtype", ["complex64", "float8_e4m3fn"])
def test_dtypes_it_lacks(wp: Any, dtype: str) -> None:
    with pytest.raises(BufferError, match=f"warp has no {dtype}"):
        candle.convert(candle.zeros(2, dtype=dtype), "warp")


def test_vectors_have_an_axis_more(wp: Any) -> None:
    x = wp.zeros(5, dtype=wp.vec3, device="cpu")
    assert candle.Tensor(x).shape == (5, 3)
    assert candle.Tensor(x).data_ptr() == x.ptr


def test_examples(wp: Any) -> None:
    """What the doctor tries."""
    from candle import frameworks

    made = frameworks.examples("warp")
    assert candle.asarray(made["warp"]).tolist() == [[0.0] * 6] * 4
