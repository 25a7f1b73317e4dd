"""rand and randn: shapes, dtypes, ranges, seeds."""

from __future__ import annotations

import pytest

import candle

np = pytest.importorskip("numpy")

both = pytest.mark.parametrize("draw", [candle.rand, candle.randn])
DTYPES = ["float32", "float64", "float16", "bfloat16"]


@both
def test_shapes(draw):
    assert draw(2, 3).shape == draw((2, 3)).shape == draw([2, 3]).shape == (2, 3)
    assert draw(3).shape == (3,)
    assert draw(()).shape == ()
    assert draw(0, 3).shape == (0, 3)
    assert draw(3).dtype is candle.float32
    assert draw(3).data_ptr() % 256 == 0


@both
@pytest.mark.parametrize("dtype", DTYPES)
def test_seeds(draw, dtype):
    first = draw(50, dtype=dtype, seed=1)
    assert first.dtype == dtype
    assert first.tolist() == draw(50, dtype=dtype, seed=1).tolist()
    assert first.tolist() != draw(50, dtype=dtype, seed=2).tolist()
    assert draw(50, dtype=dtype).tolist() != draw(50, dtype=dtype).tolist()
    rng = np.random.default_rng(1)
    assert first.tolist() == draw(50, dtype=dtype, seed=rng).tolist()
    assert first.tolist() != draw(50, dtype=dtype, seed=rng).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rand_is_evenly_distributed_below_one(dtype):
    values = np.array(candle.rand(100_000, dtype=dtype, seed=3).tolist())
    assert values.min() >= 0
    assert values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.var() - 1 / 12) < 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_randn_is_normally_distributed(dtype):
    values = np.array(candle.randn(100_000, dtype=dtype, seed=3).tolist())
    assert abs(values.mean()) < 0.02
    assert abs(values.var() - 1) < 0.02


@both
def test_refusals(draw):
    with pytest.raises(TypeError, match=r"\.to\('int64'\)"):
        draw(3, dtype="int64")
    with pytest.raises(BufferError, match="on the CPU and on CUDA"):
        draw(3, device="metal")
    with pytest.raises(ValueError, match="negative"):
        draw(-1)
