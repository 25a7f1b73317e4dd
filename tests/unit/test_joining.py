"""cat and stack."""

from __future__ import annotations

import pytest

import candle


def test_cat():
    t = candle.cat([[1, 2], [3]])
    assert (t.tolist(), t.dtype) == ([1, 2, 3], candle.int64)
    a, b = candle.ones(2, 2), candle.zeros(2, 1)
    assert candle.cat([a, b], 1).tolist() == [[1, 1, 0], [1, 1, 0]]
    assert candle.cat((a, b), dim=-1).tolist() == [[1, 1, 0], [1, 1, 0]]
    assert candle.cat([a]).tolist() == a.tolist()
    assert candle.cat([a, candle.ones(0, 2)]).shape == (2, 2)
    joined = candle.cat([a])
    joined[0, 0] = 7
    assert a.tolist() == [[1, 1], [1, 1]]


def test_cat_of_views():
    x = candle.arange(12).reshape((3, 4))
    t = candle.cat([x.permute(1, 0), x[:, ::-1].permute(1, 0)], 1)
    assert t.tolist() == [
        [x[j, i].item() for j in range(3)] + [x[j, 3 - i].item() for j in range(3)]
        for i in range(4)
    ]
    assert t.is_contiguous()


def test_cat_joins_along_any_axis():
    np = pytest.importorskip("numpy")
    arrays = [np.arange(24).reshape(2, 3, 4), np.arange(24).reshape(2, 3, 4) * 10]
    for axis in range(-3, 3):
        assert candle.cat(arrays, axis).tolist() == np.concatenate(arrays, axis).tolist()


def test_stack():
    assert candle.stack([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert candle.stack([[1, 2], [3, 4]], 1).tolist() == [[1, 3], [2, 4]]
    assert candle.stack([1, 2]).tolist() == [1, 2]
    assert candle.stack([candle.ones(2, 0)] * 3).shape == (3, 2, 0)


def test_stack_along_any_axis():
    np = pytest.importorskip("numpy")
    arrays = [np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3) * 10]
    for axis in range(-3, 3):
        assert candle.stack(arrays, axis).tolist() == np.stack(arrays, axis).tolist()


@pytest.mark.parametrize("join", [candle.cat, candle.stack])
def test_frameworks_mix(join):
    np = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    parts = [np.ones(2, np.float32), torch.zeros(2), jnp.ones(2), candle.zeros(2), [1.0, 2.0]]
    t = join(parts)
    assert t.dtype is candle.float32
    assert t.reshape((10,)).tolist() == [1, 1, 0, 0, 1, 1, 0, 0, 1, 2]


@pytest.mark.parametrize("join", [candle.cat, candle.stack])
def test_what_does_not_join(join):
    with pytest.raises(ValueError, match="at least one"):
        join([])
    with pytest.raises(TypeError, match=r"float32 and int64; .*\.to\('float32'\)"):
        join([candle.ones(2), candle.ones(2, dtype=int)])
    with pytest.raises(ValueError, match="no axis 3"):
        join([candle.ones(2, 2)], 3)
    with pytest.raises(ValueError, match=r"\(2, 2\) and \(3, 3\) differ"):
        join([candle.ones(2, 2), candle.ones(3, 3)])
    with pytest.raises(ValueError, match=r"\(2,\) and \(2, 1\) differ"):
        join([candle.ones(2), candle.ones(2, 1)])


def test_cat_needs_an_axis():
    with pytest.raises(ValueError, match="use stack"):
        candle.cat([candle.ones(()), candle.ones(())])


@pytest.mark.parametrize(
    ("name", "wide"), [("int4", "int8"), ("uint4", "uint8"), ("float4_e2m1fn", "float32")]
)
def test_packed_parts_within_a_byte(name, wide):
    """What is asked for and the way to it are said; what begins on whole bytes is joined."""
    odd, even = candle.tensor([[1, 2, 3]]).to(name), candle.tensor([[1, 2, 3, 4]]).to(name)
    assert candle.cat([even, even]).tolist() == [[1, 2, 3, 4]] * 2
    assert candle.cat([even, odd], 1).tolist() == [[1, 2, 3, 4, 1, 2, 3]]
    assert candle.stack([even, even]).tolist() == [[[1, 2, 3, 4]]] * 2
    for join, parts in (("cat", [odd, odd]), ("stack", [odd[0], odd[0]])):
        said = rf"{join} would .* {name} elements are packed; join t\.to\('{wide}'\) of each"
        with pytest.raises(BufferError, match=said) as caught:
            getattr(candle, join)(parts)
        assert "view" not in str(caught.value)
        joined = getattr(candle, join)([part.to(wide) for part in parts]).to(name)
        assert joined.tolist() == [[1, 2, 3]] * 2
