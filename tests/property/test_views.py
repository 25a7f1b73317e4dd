"""Any chain of views in candle equals the same chain in numpy: values, and sharing."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

import candle

np = pytest.importorskip("numpy")


@st.composite
def an_index(draw: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """An int, slice, None or ellipsis for each of some of the axes."""
    items: list[Any] = []
    for extent in shape[: draw(st.integers(0, len(shape)))]:
        kind = draw(st.sampled_from(["slice", "slice", "int", "none"]))
        if kind == "none":
            items.append(None)
        if kind == "int" and extent:
            items.append(draw(st.integers(-extent, extent - 1)))
        else:
            bounds = st.none() | st.integers(-extent - 2, extent + 2)
            step = draw(st.none() | st.integers(-3, 3).filter(bool))
            items.append(slice(draw(bounds), draw(bounds), step))
    if draw(st.booleans()):
        items.append(Ellipsis)
    return tuple(items)


def index(draw: Any, t: Any, a: Any) -> tuple[Any, Any]:
    key = draw(an_index(a.shape))
    return t[key], a[key if Ellipsis in key else (*key, ...)]  # so that numpy gives no scalar


def permute(draw: Any, t: Any, a: Any) -> tuple[Any, Any]:
    order = draw(st.permutations(range(a.ndim)))
    return t.permute(*order) if order else t.permute(()), a.transpose(order)


def unsqueeze(draw: Any, t: Any, a: Any) -> tuple[Any, Any]:
    axis = draw(st.integers(-a.ndim - 1, a.ndim))
    return t.unsqueeze(axis), np.expand_dims(a, axis)


def squeeze(draw: Any, t: Any, a: Any) -> tuple[Any, Any]:
    return t.squeeze(), a.squeeze()


def broadcast(draw: Any, t: Any, a: Any) -> tuple[Any, Any]:
    shape = (draw(st.integers(0, 3)), *(draw(st.integers(1, 3)) if n == 1 else n for n in a.shape))
    return t.broadcast_to(shape), np.broadcast_to(a, shape)


def narrow(draw: Any, t: Any, a: Any) -> tuple[Any, Any]:
    if not a.ndim:
        return t, a
    axis = draw(st.integers(0, a.ndim - 1))
    start = draw(st.integers(0, a.shape[axis]))
    length = draw(st.integers(0, a.shape[axis] - start))
    key = (*[slice(None)] * axis, slice(start, start + length))
    return t.narrow(axis, start, length), a[key]


VIEWS = [index, index, permute, unsqueeze, squeeze, broadcast, narrow]
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def same_place(t: Any, a: Any) -> None:
    """A view of candle's and one of numpy's are of the same elements of the same memory."""
    assert t.shape == a.shape
    assert t.tolist() == a.tolist()
    if a.size:
        assert t.data_ptr() == a.__array_interface__["data"][0]
        steps = [s * t.itemsize for s, n in zip(t.stride, t.shape, strict=True) if n > 1]
        assert steps == [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1]


@hypothesis.given(st.data(), SHAPES, st.sampled_from(["u1", "f4", "c16"]))
def test_views(data: Any, shape: tuple[int, ...], dtype: str) -> None:
    a = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    t = candle.from_dlpack(a)
    for _ in range(data.draw(st.integers(1, 5))):
        t, a = data.draw(st.sampled_from(VIEWS))(data.draw, t, a)
        same_place(t, a)


@hypothesis.given(st.data(), SHAPES)
def test_reshape_shares_where_numpy_does(data: Any, shape: tuple[int, ...]) -> None:
    a = np.arange(np.prod(shape, dtype=int), dtype="i8").reshape(shape)
    t = candle.from_dlpack(a)
    for _ in range(3):
        t, a = data.draw(st.sampled_from(VIEWS))(data.draw, t, a)
    extents = data.draw(st.permutations(a.shape))
    if a.ndim > 1 and data.draw(st.booleans()):
        extents = [extents[0] * extents[1], *extents[2:]]
    reshaped = t.reshape(*extents) if extents else t.reshape(())
    expected = a.reshape(extents)
    assert reshaped.tolist() == expected.tolist()
    if a.size and not (np.array(a.strides)[np.array(a.shape) > 1] == 0).any():
        assert (reshaped.data_ptr() == t.data_ptr()) == np.shares_memory(expected, a)
    if a.size and reshaped.data_ptr() != t.data_ptr():
        with pytest.raises(candle.CopyError) as caught:
            t.reshape(*extents, copy=False)
        assert caught.value.plan.action == "refuse"
    assert t.reshape(*extents, copy=True).tolist() == expected.tolist() if extents else True


@hypothesis.given(st.data(), SHAPES)
def test_assignment(data: Any, shape: tuple[int, ...]) -> None:
    a = np.zeros(shape, "f4")
    t = candle.zeros(shape)
    key = data.draw(an_index(shape))
    target = np.asarray(a[key])
    value = np.arange(target.size, dtype="i4").reshape(target.shape)
    a[key] = value
    t[key] = value
    assert t.tolist() == a.tolist()
    a[key] = 3
    t[key] = 3
    assert t.tolist() == a.tolist()


@hypothesis.given(st.integers(1, 40), st.integers(-3, 3), st.integers(1, 3))
def test_overlapping_assignment(size: int, shift: int, step: int) -> None:
    a = np.arange(size, dtype="i4")
    t = candle.from_dlpack(a.copy())
    count = max(0, (size - abs(shift)) // step)
    source = slice(max(shift, 0), max(shift, 0) + count)
    target = slice(max(-shift, 0), max(-shift, 0) + count)
    a[target] = a[source][::-1].copy()
    t[target] = t[source][::-1]
    assert t.tolist() == a.tolist()
