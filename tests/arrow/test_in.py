"""pyarrow's columns come in: shared and read-only wherever their memory allows."""

from __future__ import annotations

import datetime
import decimal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBERS = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def address(x: Any) -> int:
    """Where the elements of an array begin that is no slice."""
    found: int = x.buffers()[-1].address
    return found


def tensors(shape: list[int], rows: int, **named: Any) -> tuple[Any, Any]:
    """An array of tensors, and what it says by the specification: axis i is permutation[i]."""
    items = np.arange(rows * int(np.prod(shape)), dtype="int32").reshape(rows, -1)
    if not items.size:
        items = np.zeros((rows, 0), "int32")
    storage = pa.array(list(items), pa.list_(pa.int32(), items.shape[1]))
    kind = pa.fixed_shape_tensor(pa.int32(), shape, **named)
    order = named.get("permutation", range(len(shape)))
    expected = items.reshape(rows, *shape).transpose(0, *[axis + 1 for axis in order])
    return pa.ExtensionArray.from_storage(kind, storage), expected


# Shared.


@pytest.mark.parametrize("take", [candle.asarray, candle.from_dlpack, candle.from_arrow])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_shared_read_only(name: str, take: Any) -> None:
    x = pa.array(np.array([1, 2, 3, 4], name))
    t = take(x, copy=False)
    assert (str(t.dtype), t.tolist(), t.readonly) == (name, [1, 2, 3, 4], True)
    assert t.data_ptr() == address(x)
    part = x[1:3]
    t = take(part, copy=False)
    assert t.tolist() == [2, 3]
    assert t.data_ptr() == address(x) + t.itemsize
    assert t.data_ptr() == part.to_numpy().ctypes.data


@pytest.mark.parametrize("part", [slice(None), slice(1, None), slice(2, 4), slice(4, 4)])
def test_fixed_size_lists_are_shared(part: slice) -> None:
    """A slice keeps all of its parent's items."""
    items = np.arange(30, dtype="float32")
    x = pa.FixedSizeListArray.from_arrays(pa.array(items), 6)[part]
    t = candle.from_arrow(x, copy=False)
    assert t.tolist() == items.reshape(5, 6)[part].tolist()
    assert t.readonly
    if t.size:
        assert t.data_ptr() == address(x) + part.indices(5)[0] * 24


def test_fixed_size_lists_of_slices_of_fixed_size_lists() -> None:
    items = pa.array(range(100), pa.int16())[4:]
    inner = pa.FixedSizeListArray.from_arrays(items, 3)[2:]
    outer = pa.FixedSizeListArray.from_arrays(inner, 5)[1:4]
    t = candle.from_arrow(outer, copy=False)
    assert t.shape == (3, 5, 3)
    assert t.tolist() == outer.to_pylist()
    assert t.data_ptr() == address(outer) + 2 * (4 + 2 * 3 + 1 * 5 * 3)


@pytest.mark.parametrize("part", [slice(None), slice(1, 4), slice(3, 3)])
@pytest.mark.parametrize(
    ("shape", "named"),
    [
        ([2, 3], {}),
        ([6], {"dim_names": ["x"]}),
        ([2, 3], {"permutation": [1, 0]}),
        ([2, 3, 4], {"permutation": [2, 0, 1], "dim_names": ["c", "h", "w"]}),
        ([1, 3, 1], {"permutation": [1, 2, 0]}),
        ([2, 0], {}),
    ],
)
def test_tensors_are_shared_as_they_lie(shape: list[int], named: Any, part: slice) -> None:
    x, expected = tensors(shape, 5, **named)
    t = candle.from_arrow(x[part], copy=False)
    assert t.shape == expected[part].shape
    assert t.tolist() == expected[part].tolist()
    if t.size:
        assert t.data_ptr() == address(x.storage) + part.indices(5)[0] * expected[0].nbytes
        strides = tuple(step // 4 for step in expected.strides)
        assert [s for s, n in zip(t.stride, t.shape, strict=True) if n > 1] == [
            s for s, n in zip(strides, t.shape, strict=True) if n > 1
        ]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("part", [slice(None), slice(1, 3), slice(2, 2)])
def test_variable_lists_of_one_length_are_shared(large: bool, part: slice) -> None:
    kind = pa.large_list if large else pa.list_
    rows = [[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]], [[13, 14, 15], [16, 17, 18]]]
    x = pa.array(rows, kind(kind(pa.int32())))[part]
    t = candle.from_arrow(x, copy=False)
    assert t.tolist() == rows[part]
    if t.size:
        assert t.shape == (len(rows[part]), 2, 3)
        assert t.data_ptr() == address(x) + part.indices(3)[0] * 24


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("row", [0, 1, 254, 255, 256, 257, 510, 511, 512, 599])
def test_one_list_of_another_length_is_seen_wherever_it_is(row: int, large: bool) -> None:
    lists, kind = (pa.LargeListArray, "int64") if large else (pa.ListArray, "int32")
    lengths = np.full(600, 3)
    for before, length in ((0, 2), (1, 4)):
        lengths[row] = length
        offsets = before + np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
        x = lists.from_arrays(pa.array(offsets), pa.array(np.arange(3000, dtype="uint8")))
        with pytest.raises(BufferError, match="items and the first has") as caught:
            candle.from_arrow(x)
        assert caught.value.plan.reasons[0].code == "ragged"  # type: ignore[attr-defined]
    lengths[row] = 3
    offsets = 1 + np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
    x = lists.from_arrays(pa.array(offsets), pa.array(np.arange(3000) % 251))
    assert candle.from_arrow(x, copy=False).tolist() == x.to_pylist()


def test_empty_lists_have_an_axis_of_no_extent() -> None:
    assert candle.from_arrow(pa.array([[], []], pa.list_(pa.int8()))).shape == (2, 0)
    assert candle.from_arrow(pa.array([], pa.list_(pa.list_(pa.int8(), 4)))).shape == (0, 0, 4)


@pytest.mark.parametrize("large", [False, True])
def test_list_views_at_equal_distances_are_shared(large: bool) -> None:
    kind = pa.LargeListViewArray if large else pa.ListViewArray
    items = pa.array(range(10), pa.int64())

    def views(offsets: list[int], sizes: list[int]) -> Any:
        number = pa.int64() if large else pa.int32()
        return kind.from_arrays(pa.array(offsets, number), pa.array(sizes, number), items)

    for offsets in ([0, 2, 4], [1, 5, 9], [0, 1, 2], [3]):
        size = 1 if 9 in offsets else 2
        x = views(offsets, [size] * len(offsets))
        t = candle.from_arrow(x, copy=False)
        assert t.tolist() == x.to_pylist()
        assert t.data_ptr() == address(items) + 8 * offsets[0]
    for offsets in ([4, 2, 0], [0, 2, 5], [0, 0, 0]):
        with pytest.raises(BufferError, match="row"):
            candle.from_arrow(views(offsets, [2, 2, 2]))


def test_bool8_is_shared() -> None:
    x = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, 1], pa.int8()))
    t = candle.from_arrow(x, copy=False)
    assert (t.dtype, t.tolist(), t.data_ptr()) == (candle.bool, [True, False, True], address(x))


def test_bytes_of_one_width_are_shared() -> None:
    x = pa.array([b"abc", b"def"], pa.binary(3))
    t = candle.from_arrow(x[1:], copy=False)
    assert (t.dtype, t.tolist()) == (candle.uint8, [list(b"def")])
    assert t.data_ptr() == address(x) + 3


def test_tables_of_one_column_are_shared() -> None:
    column = pa.array([1.0, 2.0, 3.0])
    for table in (pa.table({"a": column}), pa.record_batch({"a": column})):
        t = candle.from_arrow(table, copy=False)
        assert (t.shape, t.data_ptr()) == ((3, 1), address(column))
        part = candle.from_arrow(table.slice(1), copy=False)
        assert (part.tolist(), part.data_ptr()) == ([[2.0], [3.0]], address(column) + 8)


def test_column_of_a_table() -> None:
    a, b = pa.array([1, 2, 3]), pa.array([0.5, 1.5, 2.5])
    table = pa.table({"a": a, "b": b, "c": ["x", "y", None]})
    for column in ("b", 1, -2):
        t = candle.from_arrow(table, column=column, copy=False)  # type: ignore[arg-type]
        assert (t.tolist(), t.data_ptr()) == ([0.5, 1.5, 2.5], address(b))
    with pytest.raises(ValueError, match="no column is called 'd'"):
        candle.from_arrow(table, column="d")
    for number in (3, -4, 2**70):
        with pytest.raises(IndexError, match="no column"):
            candle.from_arrow(table, column=number)
    with pytest.raises(ValueError, match="several columns"):
        candle.from_arrow(pa.table([a, a], ["a", "a"]), column="a")
    with pytest.raises(ValueError, match="one column"):
        candle.from_arrow(a, column=0)
    assert candle.from_arrow(a, column=None).tolist() == [1, 2, 3]


@pytest.mark.parametrize("kind", ["date32", "date64", "time32", "time64", "timestamp", "duration"])
def test_times_come_as_their_integers_when_asked(kind: str) -> None:
    make = getattr(pa, kind)
    unit = {"time32": ["ms"], "time64": ["us"], "timestamp": ["us", "UTC"], "duration": ["s"]}
    x = pa.array([1, 2, 3], pa.int32() if kind in ("date32", "time32") else pa.int64())
    times = x.view(make(*unit.get(kind, [])))
    t = candle.from_arrow(times, times="integers", copy=False)
    assert (t.tolist(), t.data_ptr()) == ([1, 2, 3], address(x))
    assert str(t.dtype) == str(x.type)
    for take in (candle.from_arrow, candle.asarray):
        with pytest.raises(BufferError, match="times") as caught:
            take(times)
        assert caught.value.plan.reasons[0].code == "datetime"  # type: ignore[attr-defined]


def test_mapped_files_are_shared(tmp_path: Any) -> None:
    table = pa.table({"a": candle.arange(1000, dtype="float32"), "b": candle.ones((1000, 3))})
    path = str(tmp_path / "table.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=400)
    with pa.memory_map(path) as mapped:
        read = pa.ipc.open_file(mapped).read_all()
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    [bounds] = [line[0] for line in lines if line[-1] == path]
    first, behind = (int(bound, 16) for bound in bounds.split("-"))
    parts = candle.from_arrow(read, column="b", chunks="list", copy=False)
    assert [part.shape for part in parts] == [(400, 3), (400, 3), (200, 3)]
    for part, chunk in zip(parts, read["b"].chunks, strict=True):
        assert part.data_ptr() == address(chunk.storage)
        assert first < part.data_ptr() < behind
        assert part.readonly
    del read
    assert parts[2].tolist() == [[1.0] * 3] * 200


# Copied, and why.


def reasons(x: Any, **asked: Any) -> tuple[list[str], int]:
    with candle.trace() as moves:
        candle.from_arrow(x, **asked)
    [move] = moves
    assert move.action == "copy"
    return [reason.code for reason in move.reasons], move.nbytes


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("first", [0, 1, 7, 8, 13])
def test_bits_become_booleans(count: int, first: int) -> None:
    values = np.random.default_rng(count).random(count + first) < 0.5
    x = pa.array(values)[first:]
    t = candle.from_arrow(x)
    assert (t.dtype, t.tolist()) == (candle.bool, values[first:].tolist())
    if count:
        assert reasons(x) == (["bitmap"], count)
        with pytest.raises(candle.CopyError, match="bits"):
            candle.from_arrow(x, copy=False)


def test_bits_in_lists() -> None:
    values = np.random.default_rng(0).random((5, 3, 4)) < 0.5
    x = pa.FixedSizeListArray.from_arrays(
        pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 4), 3
    )
    assert candle.from_arrow(x[1:4]).tolist() == values[1:4].tolist()
    kind = pa.fixed_shape_tensor(pa.bool_(), [3, 4], permutation=[1, 0])
    storage = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 12)
    permuted = pa.ExtensionArray.from_storage(kind, storage)
    assert candle.from_arrow(permuted).tolist() == values.transpose(0, 2, 1).tolist()


@pytest.mark.parametrize("dtype", ["int8", "float32", "bfloat16", "float64"])
def test_bits_become_numbers_when_asked(dtype: str) -> None:
    t = candle.from_arrow(pa.array([True, False, True]), dtype=dtype)
    assert (str(t.dtype), t.tolist()) == (dtype, [1, 0, 1])


def test_chunks_are_put_together_by_one_copy() -> None:
    x = pa.chunked_array([[1, 2], [], [3], [4, 5, 6]])
    t = candle.from_arrow(x)
    assert t.tolist() == [1, 2, 3, 4, 5, 6]
    assert not t.readonly
    assert reasons(x) == (["chunks"], 48)
    with pytest.raises(candle.CopyError, match=r'3 chunks.*chunks="list"'):
        candle.from_arrow(x, copy=False)


def test_one_chunk_is_shared() -> None:
    column = pa.array([1, 2, 3])
    for x in (pa.chunked_array([column]), pa.chunked_array([column[:0], column, column[:0]])):
        t = candle.from_arrow(x, copy=False)
        assert t.data_ptr() == address(column)


def test_chunks_as_a_list_are_shared() -> None:
    parts = [pa.array([1, 2]), pa.array([3]), pa.array([], pa.int64())]
    made = candle.from_arrow(pa.chunked_array(parts), chunks="list", copy=False)
    assert [t.tolist() for t in made] == [[1, 2], [3], []]
    assert [t.data_ptr() for t in made[:2]] == [address(part) for part in parts[:2]]
    assert [t.tolist() for t in candle.from_arrow(parts[0], chunks="list")] == [[1, 2]]
    assert candle.from_arrow(pa.chunked_array([], pa.int8()), chunks="list") == []


def test_no_chunks_give_an_empty_tensor() -> None:
    lists = pa.list_(pa.list_(pa.bool_(), 3))
    for kind, shape in ((pa.float32(), (0,)), (pa.bool_(), (0,)), (lists, (0, 0, 3))):
        t = candle.from_arrow(pa.chunked_array([], kind), copy=False)
        assert t.shape == shape
    t = candle.from_arrow(pa.chunked_array([], pa.fixed_shape_tensor(pa.int8(), [2, 3])))
    assert t.shape == (0, 2, 3)
    assert candle.from_arrow(pa.table({"a": pa.array([], "f4")})).shape == (0, 1)


def test_chunks_of_lists() -> None:
    parts = [[[1, 2], [3, 4]], [[5, 6]]]
    for kind in (pa.list_(pa.int16()), pa.list_(pa.int16(), 2)):
        x = pa.chunked_array([pa.array(part, kind) for part in parts])
        assert candle.from_arrow(x, dtype="float32").tolist() == [[1, 2], [3, 4], [5, 6]]
    x = pa.chunked_array([pa.array([[1]]), pa.array([], pa.list_(pa.int64())), pa.array([[1, 2]])])
    with pytest.raises(BufferError, match="chunk 2") as caught:
        candle.from_arrow(x)
    assert caught.value.plan.reasons[0].code == "ragged"  # type: ignore[attr-defined]
    assert len(candle.from_arrow(x, chunks="list")) == 3


def test_columns_become_an_axis() -> None:
    table = pa.table({"a": [1, 2, 3], "b": [4, 5, 6]})
    assert candle.from_arrow(table).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert candle.asarray(pa.record_batch({"a": [1], "b": [4]})).tolist() == [[1, 4]]
    assert reasons(table) == (["columns"], 48)
    chunked = pa.concat_tables([table, table.slice(1)])
    assert candle.from_arrow(chunked).tolist() == [[1, 4], [2, 5], [3, 6], [2, 5], [3, 6]]
    assert reasons(chunked) == (["chunks", "columns"], 80)
    with pytest.raises(candle.CopyError, match="column=0"):
        candle.from_arrow(table, copy=False)


def test_columns_of_several_dtypes_need_one() -> None:
    table = pa.table({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False]})
    with pytest.raises(BufferError, match="column 1 is float64") as caught:
        candle.from_arrow(table)
    assert caught.value.plan.reasons[0].code == "mixed"  # type: ignore[attr-defined]
    t = candle.from_arrow(table, dtype="float32")
    assert t.tolist() == [[1, 0.5, 1], [2, 1.5, 0]]
    lists = pa.table({"a": [1, 2], "b": [[1], [2]]})
    with pytest.raises(BufferError, match="another shape"):
        candle.from_arrow(lists)
    pairs = pa.table({"a": [[1, 2], [3, 4]], "b": [[5, 6], [7, 8]]})
    assert candle.from_arrow(pairs).tolist() == [[[1, 2], [5, 6]], [[3, 4], [7, 8]]]


def test_what_is_asked_for_is_no_surprise() -> None:
    x = pa.array([1.5, 2.5])
    with candle.strict():
        assert candle.from_arrow(x, dtype="int32").tolist() == [1, 2]
        copied = candle.from_arrow(x, copy=True)
        assert candle.from_arrow(pa.array([1, None]), nulls=0).tolist() == [1, 0]
        for surprise in (pa.array([True]), pa.chunked_array([[1], [2]])):
            with pytest.raises(candle.CopyError):
                candle.from_arrow(surprise)
    assert not copied.readonly
    assert copied.data_ptr() != address(x)


def test_assignment_goes_straight_into_place() -> None:
    t = candle.zeros((3,))
    t[...] = pa.chunked_array([[1, 2], [3]])
    assert t.tolist() == [1, 2, 3]
    t[::2] = pa.array([True, False])
    assert t.tolist() == [1, 2, 0]
    m = candle.zeros((2, 3))
    m[...] = pa.chunked_array([[1.0], [2.0, 3.0]])
    assert m.tolist() == [[1, 2, 3]] * 2
    m.T[...] = pa.table({"a": [1, 2, 3], "b": [4, 5, 6]})
    assert m.tolist() == [[1, 2, 3], [4, 5, 6]]
    m[...] = pa.array([[True, False, True]], pa.list_(pa.bool_(), 3))
    assert m.tolist() == [[1, 0, 1]] * 2
    with pytest.raises(ValueError, match="broadcast"):
        t[...] = pa.chunked_array([[1, 2], [3, 4]])


# Nulls.

WITH_NULLS = {
    "integers": lambda: pa.array([1, None, 3]),
    "floats": lambda: pa.array([1.5, None]),
    "booleans": lambda: pa.array([True, None]),
    "nothing else": lambda: pa.nulls(3),
    "chunks": lambda: pa.chunked_array([[1, 2], [None]]),
    "a table": lambda: pa.table({"a": [1, None], "b": [1.5, 2]}),
    "a batch": lambda: pa.record_batch({"a": [1, None]}),
    "lists": lambda: pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
    "items": lambda: pa.array([[1, 2], [3, None]], pa.list_(pa.int8(), 2)),
    "rows": lambda: pa.StructArray.from_arrays(
        [pa.array([1, 2])], ["a"], mask=pa.array([False, True])
    ),
}


@pytest.mark.parametrize("kind", WITH_NULLS)
def test_nulls_are_refused(kind: str) -> None:
    """Never as NaN, and without a warning about how candle asks."""
    for take in (candle.asarray, candle.Tensor, candle.from_arrow, lambda x: candle.asarray([x])):
        with pytest.raises(BufferError, match=r"null.*fill_null"):
            take(WITH_NULLS[kind]())


def test_nulls_outside_of_a_slice_do_not_count() -> None:
    x = pa.array([None, 1, 2, None])
    assert candle.from_arrow(x[1:3], copy=False).tolist() == [1, 2]
    lists = pa.array([None, [1, 2], [3, None]], pa.list_(pa.int64(), 2))
    assert candle.from_arrow(lists[1:2], copy=False).tolist() == [[1, 2]]


def test_mask_beside_shared_values() -> None:
    x = pa.array([1.0, None, 3.0, None, 5.0])[1:]
    values, mask = candle.from_arrow(x, nulls="mask", copy=False)
    assert values.data_ptr() == address(x) + 8
    assert mask.tolist() == [True, False, True, False]
    assert (mask.dtype, mask.readonly) == (candle.bool, False)
    assert [v for v, m in zip(values.tolist(), mask.tolist(), strict=True) if not m] == [3.0, 5.0]
    values, mask = candle.from_arrow(pa.array([1, 2]), nulls="mask", copy=False)
    assert (values.tolist(), mask.tolist()) == ([1, 2], [False, False])


def test_mask_of_lists_and_items() -> None:
    rows = [[[1, None], [3, 4]], None, [None, [9, 10]]]
    inner = pa.list_(pa.int16(), 2)
    x = pa.array(rows, pa.list_(inner, 2))
    values, mask = candle.from_arrow(x, nulls="mask", copy=False)
    assert mask.tolist() == [
        [[False, True], [False, False]],
        [[True, True], [True, True]],
        [[True, True], [False, False]],
    ]
    filled = candle.from_arrow(x, nulls=-1)
    assert filled.tolist() == [[[1, -1], [3, 4]], [[-1, -1], [-1, -1]], [[-1, -1], [9, 10]]]
    assert values.shape == mask.shape == filled.shape
    part, covered = candle.from_arrow(x[2:], nulls="mask")
    assert (part.tolist()[0][1], covered.tolist()) == ([9, 10], [[[True, True], [False, False]]])


def test_mask_of_permuted_tensors() -> None:
    items = pa.array([None if i % 5 == 0 else i for i in range(12)], pa.int8())
    storage = pa.FixedSizeListArray.from_arrays(items, 6)
    kind = pa.fixed_shape_tensor(pa.int8(), [2, 3], permutation=[1, 0])
    values, mask = candle.from_arrow(pa.ExtensionArray.from_storage(kind, storage), nulls="mask")
    expected = (np.arange(12) % 5 == 0).reshape(2, 2, 3).transpose(0, 2, 1)
    assert mask.tolist() == expected.tolist()
    assert values.stride == (6, 1, 3)
    filled = candle.from_arrow(pa.ExtensionArray.from_storage(kind, storage), nulls=-7)
    assert (
        filled.tolist()
        == np.where(expected, -7, np.arange(12).reshape(2, 2, 3).transpose(0, 2, 1)).tolist()
    )


def test_mask_of_chunks_and_tables() -> None:
    x = pa.chunked_array([[1, None], [3], [None, 5]])
    values, mask = candle.from_arrow(x, nulls="mask")
    assert mask.tolist() == [False, True, False, True, False]
    assert [m.tolist() for _, m in candle.from_arrow(x, nulls="mask", chunks="list")] == [
        [False, True],
        [False],
        [True, False],
    ]
    table = pa.table({"a": [1, None, 3], "b": [None, 5, 6]})
    values, mask = candle.from_arrow(table, nulls="mask")
    assert mask.tolist() == [[False, True], [True, False], [False, False]]
    assert values.shape == (3, 2)
    rows = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3]), pa.array([4, None, 6])],
        ["a", "b"],
        mask=pa.array([True, False, False]),
    )
    values, mask = candle.from_arrow(rows[0:], nulls="mask")
    assert mask.tolist() == [[True, True], [False, True], [False, False]]


@pytest.mark.parametrize("count", [1, 9, 64, 200, 1000])
def test_many_nulls(count: int) -> None:
    rng = np.random.default_rng(count)
    numbers, gone = rng.integers(0, 99, count), rng.random(count) < rng.random()
    x = pa.array(numbers, mask=gone)
    for first in (0, 1, 5):
        _, mask = candle.from_arrow(x[first:], nulls="mask")
        assert mask.tolist() == gone[first:].tolist()
        filled = candle.from_arrow(x[first:], nulls=-1)
        assert filled.tolist() == np.where(gone, -1, numbers)[first:].tolist()


def test_fill_copies_only_where_there_are_nulls() -> None:
    whole = pa.array([1.0, 2.0])
    assert candle.from_arrow(whole, nulls=0.0, copy=False).data_ptr() == address(whole)
    x = pa.array([1.0, None])
    assert candle.from_arrow(x, nulls=0.5).tolist() == [1.0, 0.5]
    assert reasons(x, nulls=0.5) == (["filled"], 16)
    with pytest.raises(candle.CopyError, match='nulls="mask"'):
        candle.from_arrow(x, nulls=0.5, copy=False)
    assert candle.from_arrow(pa.array([True, None]), nulls=False).tolist() == [True, False]
    nan = candle.from_arrow(pa.array([1, None]), nulls=float("nan"), dtype="float32")
    assert np.isnan(nan.tolist()[1])
    assert candle.from_arrow(pa.array([1, None]), nulls=2.0).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int8", 128),
        ("int8", 0.5),
        ("int64", float("nan")),
        ("int64", 2.0**63),
        ("uint8", -1),
        ("float32", 1j),
        ("bool_", 2),
        ("bool_", 0.0),
    ],
)
def test_fill_has_to_be_of_the_dtype(kind: str, value: Any) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        candle.from_arrow(pa.array([None], getattr(pa, kind)()), nulls=value)


# Refused.

REFUSED = {
    "text.*encode": lambda: pa.array(["a"]),
    r"bytes.*cast\(": lambda: pa.array([b"a"]),
    "times.*integers": lambda: pa.array([datetime.date(2026, 1, 1)]),
    r"decimals.*cast\(": lambda: pa.array([decimal.Decimal("1.5")]),
    r"dictionary.*dictionary_decode\(": lambda: pa.array(["a"]).dictionary_encode(),
    "run-end.*decode": lambda: pa.RunEndEncodedArray.from_arrays([2], [1.5]),
    r"unions.*cast\(": lambda: pa.UnionArray.from_sparse(pa.array([0], "i1"), [pa.array([1])]),
    r"maps.*x\[": lambda: pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
    r"structs.*x\[": lambda: pa.array([[{"a": 1}]]),
    "row 1 has 2 items.*pad": lambda: pa.array([[1], [2, 3]]),
    "column 1 is float64": lambda: pa.array([{"a": 1, "b": 0.5}]),
    "no columns": lambda: pa.table({}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_tensor_is_refused_with_the_remedy(words: str) -> None:
    takes = [candle.asarray, candle.from_arrow]
    if hasattr(REFUSED[words](), "__dlpack__"):
        takes.append(candle.from_dlpack)
    for take in takes:
        with pytest.raises(BufferError, match=words) as caught:
            take(REFUSED[words]())
        assert candle.explain(REFUSED[words]()) == caught.value.plan  # type: ignore[attr-defined]


def test_pyarrow_tensor_has_no_arrow_protocol() -> None:
    tensor = pa.Tensor.from_numpy(np.ones((2, 2)))
    t = candle.asarray(tensor)
    assert (t.tolist(), t.readonly) == ([[1, 1], [1, 1]], True)
    with pytest.raises(TypeError, match="from_arrow takes"):
        candle.from_arrow(tensor)


def test_where_memory_in_parts_lies_is_not_told() -> None:
    x = pa.array([1, 2, 3])
    assert candle.shares_memory(x, x[1:])
    assert candle.shares_memory(candle.asarray(x), x)
    for parts in (pa.array([True]), pa.chunked_array([[1], [2]]), pa.table({"a": [1], "b": [2]})):
        with pytest.raises(BufferError, match="not told"):
            candle.shares_memory(parts, x)


# Lists between others, and null ones.


@pytest.mark.parametrize("gap", [0, 1, 3])
@pytest.mark.parametrize("inner", [pa.list_(pa.int16()), pa.large_list(pa.int16())])
def test_lists_below_views_with_gaps(gap: int, inner: Any) -> None:
    """What lies in the gaps is nobody's: its length does not count."""
    rows = [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]]]
    flat = [item for row in rows for item in (*row, *[[0]] * gap)]
    starts = pa.array([i * (2 + gap) for i in range(3)], pa.int32())
    x = pa.ListViewArray.from_arrays(starts, pa.array([2] * 3, pa.int32()), pa.array(flat, inner))
    if gap % 2:  # the lists between make what follows lie elsewhere
        t = candle.from_arrow(x[1:2], copy=False)
        assert t.tolist() == rows[1:2]
        with pytest.raises(BufferError, match="does not lie where the rows before it lead"):
            candle.from_arrow(x)
        flat = [item for row in rows for item in (*row, *[[0, 0]] * gap)]
        values = pa.array(flat, inner)
        x = pa.ListViewArray.from_arrays(starts, pa.array([2] * 3, pa.int32()), values)
    t = candle.from_arrow(x, copy=False)
    assert t.tolist() == rows
    assert t.data_ptr() == x.values.values.buffers()[1].address


def test_lists_below_permuted_tensors() -> None:
    numbers = np.arange(24, dtype="int64").reshape(2, 2, 3, 2)
    lists = pa.array(numbers.reshape(12, 2).tolist())
    kind = pa.fixed_shape_tensor(lists.type, [2, 3], permutation=[1, 0])
    storage = pa.FixedSizeListArray.from_arrays(lists, 6)
    t = candle.from_arrow(pa.ExtensionArray.from_storage(kind, storage), copy=False)
    assert t.tolist() == numbers.transpose(0, 2, 1, 3).tolist()
    uneven = pa.array([*numbers.reshape(12, 2).tolist()[:-1], [1]])
    storage = pa.FixedSizeListArray.from_arrays(uneven, 6)
    with pytest.raises(BufferError, match="row 11 has 1 items and the first has 2"):
        candle.from_arrow(pa.ExtensionArray.from_storage(kind, storage))


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, pa.list_view])
def test_lists_that_are_null_and_hold_nothing(kind: Any) -> None:
    """Refused for what they are, and not for their length; with nulls welcome for that."""
    for rows in ([[1, 2], None, [3, 4]], [None, [1, 2]]):
        for x in (pa.array(rows, kind(pa.int8())), pa.array([rows], pa.list_(kind(pa.int8())))):
            assert [r.code for r in candle.explain(x).reasons] == ["nulls"]
            with pytest.raises(BufferError, match="1 element is null"):
                candle.from_arrow(x)
    for nulls in ("mask", 0):
        with pytest.raises(BufferError, match="row 1, which is null, has 0 items and the first"):
            candle.from_arrow(pa.array([[1, 2], None], kind(pa.int8())), nulls=nulls)


def test_numbers_of_other_libraries_fill_nulls() -> None:
    x = pa.array([1, None, 3], pa.int16())
    for number in (np.int8(7), np.float32(7), np.array(7), candle.asarray(7)):
        assert candle.from_arrow(x, nulls=number).tolist() == [1, 7, 3]
    for wrong in (np.arange(3), "7", [7], candle.arange(3), b"7", object()):
        with pytest.raises((TypeError, ValueError), match="nulls"):
            candle.from_arrow(x, nulls=wrong)


def test_many_chunks_take_little_room(in_child: Callable[..., Any]) -> None:
    """A chunk for each row; kilobytes for each would make 200 MB."""
    said = in_child(
        "import resource, candle, pyarrow as pa\n"
        "x = pa.chunked_array([pa.array([[1, 2]], pa.list_(pa.int64(), 2))] * 50_000)\n"
        "candle.from_arrow(x[:10])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert candle.from_arrow(x).shape == (50_000, 2)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    assert int(said.check(quiet=False)) < 100_000
