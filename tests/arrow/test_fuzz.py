"""Any column and any tensor, there and back; and structs changed at random."""

from __future__ import annotations

import json
import math
import random
from itertools import pairwise
from typing import Any

import arrow_structs as arrow
import inputs.arrow
import numpy as np
import pytest

import candle

pa = pytest.importorskip("pyarrow")
hypothesis = pytest.importorskip("hypothesis")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

NUMBERS = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bool"),
]


@st.composite
def columns(draw: st.DrawFn, nulls: bool = False) -> Any:
    """A column: a leaf, lists of one length around it, each sliced after it was made."""
    rows = draw(st.integers(0, 6))
    widths = draw(st.lists(st.integers(1, 4), max_size=3))
    before, after = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    size = before + after
    need = rows + size
    for width in widths:
        need *= width
        need += size
    dtype = draw(st.sampled_from(NUMBERS))
    numbers = np.arange(need) % 100 if dtype != "bool" else np.arange(need) % 3 == 0

    def mask(count: int) -> Any:
        if not nulls:
            return None
        seed = draw(st.integers(0, 99))
        return np.random.default_rng(seed).random(count) < 0.3

    x = pa.array(numbers.astype(dtype), mask=mask(need))
    for width in reversed(widths):
        x = x[before : len(x) - after]
        x = x[: len(x) // width * width]
        count = len(x) // width
        kind = draw(st.sampled_from(("fixed", "tensor", "list", "large")))
        if nulls and kind in ("list", "large"):
            kind = "fixed"
        gone = None if (m := mask(count)) is None else pa.array(m)
        if kind in ("fixed", "tensor"):
            x = pa.FixedSizeListArray.from_arrays(x, width, mask=gone)
        else:
            number = pa.int32() if kind == "list" else pa.int64()
            offsets = pa.array(np.arange(count + 1) * width, number)
            x = (pa.ListArray if kind == "list" else pa.LargeListArray).from_arrays(offsets, x)
    return x[before : before + rows]


def none_at(values: Any, mask: Any) -> Any:
    """The values as pyarrow lists them, with None for what is masked as a whole."""
    if not isinstance(values, list):
        return None if mask else values
    return [none_at(v, m) for v, m in zip(values, mask, strict=True)]


def spread(values: Any, like: Any) -> Any:
    """pyarrow's list, a list of None for each None that is a list."""
    if isinstance(like, list):
        inner = values if values is not None else [None] * len(like)
        return [spread(v, part) for v, part in zip(inner, like, strict=True)]
    return values


@settings(max_examples=150)
@given(columns())
def test_columns_come_in_as_pyarrow_says(x: Any) -> None:
    t = candle.from_arrow(x)
    assert t.tolist() == x.to_pylist()
    assert len(t) == len(x)


@settings(max_examples=100)
@given(st.lists(columns(), min_size=1, max_size=3), st.data())
def test_chunks_come_in_as_pyarrow_says(parts: list[Any], data: st.DataObject) -> None:
    first = parts[0]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(first)), max_size=3)))
    bounds = [0, *cuts, len(first)]
    x = pa.chunked_array([first[a:b] for a, b in pairwise(bounds)])
    assert candle.from_arrow(x).tolist() == x.to_pylist()
    made = candle.from_arrow(x, chunks="list")
    assert [row for t in made for row in t.tolist()] == x.to_pylist()


@settings(max_examples=150)
@given(columns(nulls=True))
def test_nulls_come_in_as_pyarrow_says(x: Any) -> None:
    values, mask = candle.from_arrow(x, nulls="mask")
    expected = spread(x.to_pylist(), values.tolist())
    assert none_at(values.tolist(), mask.tolist()) == expected
    assert values.shape == mask.shape
    filled = candle.from_arrow(x, nulls=True if values.dtype == candle.bool else 7)
    chosen = np.where(mask.numpy(), filled.numpy().dtype.type(7), values.numpy())
    assert filled.tolist() == chosen.tolist()


@st.composite
def tensors(draw: st.DrawFn) -> candle.Tensor:
    dtype = draw(st.sampled_from([*NUMBERS, "bfloat16", "complex64", "float8_e5m2"]))
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    count = int(np.prod(shape))
    numbers = np.arange(count) % 50 if dtype != "bool" else np.arange(count) % 3 == 0
    t = candle.asarray(numbers.reshape(shape)).to(dtype)
    t = t.permute(draw(st.permutations(range(t.ndim))))
    for axis in range(t.ndim):
        step = draw(st.sampled_from((1, 1, 1, 2, -1)))
        t = t[(*[slice(None)] * axis, slice(None, None, step))]
    return t


@settings(max_examples=200)
@given(tensors())
def test_tensors_go_out_and_come_back(t: candle.Tensor) -> None:
    plan = candle.explain(t, "arrow")
    x = t.arrow()
    x.validate(full=True)
    assert len(x) == len(t)
    back = candle.from_arrow(x)
    assert (back.dtype, back.shape, back.tolist()) == (t.dtype, t.shape, t.tolist())
    if t.size:
        assert (x.buffers()[-1].address == t.data_ptr()) == (plan.action == "share")
        if plan.action == "share":
            assert back.data_ptr() == t.data_ptr()
    plain = t.arrow(layout="list")
    if t.dtype in (candle.float32, candle.int64, candle.bool, candle.uint8):
        assert plain.to_pylist() == t.tolist()
        if t.ndim > 1 and t.dtype != candle.bool and t.size:
            assert x.to_numpy_ndarray().tolist() == t.tolist()
    again = candle.from_arrow(plain)
    assert (again.dtype, again.shape, again.tolist()) == (t.dtype, t.shape, t.tolist())


# Metadata of fixed_shape_tensor.

WIDTH = 6


def no_constant(text: str) -> Any:
    raise ValueError(text)


def number(text: str) -> Any:
    return float(text) if text.startswith("-") else int(text)  # an extent has no sign


def expected_shape(data: bytes) -> tuple[int, ...] | None:
    """The axes of a row by Python's own JSON; None where the metadata is wrong."""
    try:
        members = json.loads(
            data.decode(), object_pairs_hook=tuple, parse_constant=no_constant, parse_int=number
        )
    except ValueError:
        return None
    if not isinstance(members, tuple):
        return None
    found: dict[str, list[Any]] = {}
    for key, value in members:
        if key not in ("shape", "permutation", "dim_names"):
            continue
        if value is None and key not in found:
            continue
        kind = str if key == "dim_names" else int
        good = isinstance(value, list) and all(type(item) is kind for item in value)
        if not good or key in found:
            return None
        found[key] = value
    shape = found.get("shape")
    if shape is None or math.prod(shape) != WIDTH:
        return None
    order = found.get("permutation", list(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        return None
    if len(found.get("dim_names", shape)) != len(shape):
        return None
    return tuple(shape[axis] for axis in order)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)
extents = st.sampled_from([[6], [2, 3], [3, 2], [1, 6, 1], [6, 1], [2, 2], [], [0], [7]])


@st.composite
def metadata(draw: st.DrawFn) -> bytes:
    """Right metadata, or nearly so, written in one of many ways; some with a byte changed."""
    shape = draw(extents)
    members: list[tuple[str, Any]] = [("shape", draw(st.just(shape) | values))]
    if draw(st.booleans()):
        order = st.permutations(range(len(shape))).map(list)
        members.append(("permutation", draw(order | values)))
    if draw(st.booleans()):
        names = st.lists(st.text(max_size=2), min_size=len(shape), max_size=len(shape))
        members.append(("dim_names", draw(names | values)))
    if draw(st.booleans()):
        members.append((draw(st.text(max_size=3)), draw(values)))
    ascii_only = draw(st.booleans())
    blank = draw(st.sampled_from(("", " ", "\n\t")))
    said = [
        json.dumps(key) + blank + ":" + blank + json.dumps(value, ensure_ascii=ascii_only)
        for key, value in draw(st.permutations(members))
    ]
    data = bytearray((blank + "{" + ",".join(said) + blank + "}").encode())
    for _ in range(draw(st.sampled_from((0, 0, 1)))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@settings(max_examples=400)
@given(metadata())
def test_metadata_is_read_as_json_says(data: bytes) -> None:
    schema = arrow.schema(
        f"+w:{WIDTH}",
        arrow.schema("l"),
        metadata=arrow.extension("arrow.fixed_shape_tensor", data),
    )
    items = arrow.array(2 * WIDTH, [None, bytes(16 * WIDTH)])
    producer = arrow.Exporter(schema, arrow.array(2, [None], items))
    shape = expected_shape(data)
    if shape is None:
        with pytest.raises(BufferError, match=r"metadata|shape"):
            candle.from_arrow(producer)
    else:
        assert candle.from_arrow(producer).shape == (2, *shape)


@pytest.mark.isolated
@pytest.mark.parametrize("seed", range(2))
def test_structs_changed_at_random(seed: int) -> None:
    rng = random.Random(seed)
    words = [inputs.arrow.run(rng) for _ in range(3000)]
    refused = sum("Error" in word for word in words)
    assert 200 < refused < 2800, "most were refused, and not all"
