"""Batches have the memory of the Arrow table; where they cannot, they say so, and are one copy."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

datasets = pytest.importorskip("datasets")

if TYPE_CHECKING:
    from collections.abc import Callable

Value, List = datasets.Value, datasets.List

FEATURES: dict[str, Any] = {
    "number": Value("int64"),
    "label": datasets.ClassLabel(names=["a", "b"]),
    "fixed": List(Value("float32"), length=4),
    "list": List(Value("float64")),
    "deep": List(List(Value("int16"), length=2)),
    "grid": datasets.Array2D((2, 3), "float32"),
    "cube": datasets.Array3D((2, 1, 2), "uint8"),
}
SHAPES: dict[str, tuple[int, ...]] = {
    "number": (),
    "label": (),
    "fixed": (4,),
    "list": (3,),
    "deep": (2, 2),
    "grid": (2, 3),
    "cube": (2, 1, 2),
}
ROWS = 2500


def numbers(name: str) -> np.ndarray[Any, Any]:
    count = ROWS * int(np.prod(SHAPES[name]))
    top = 2 if name == "label" else 100
    return (np.arange(count) % top).reshape(ROWS, *SHAPES[name])


@pytest.fixture(scope="module")
def folder(saved: Callable[..., Any]) -> Path:
    made = saved(FEATURES, **{name: numbers(name) for name in FEATURES})
    return Path(made.cache_files[0]["filename"]).parent


@pytest.fixture
def dataset(folder: Path) -> Any:
    return datasets.load_from_disk(folder).with_format("candle")


def elements(array: Any) -> Any:
    """What lies below an array's lists."""
    array = getattr(array, "storage", array)
    return elements(array.values) if hasattr(array, "values") else array


def address(dataset: Any, name: str, row: int) -> int:
    """Where Arrow has the first element of a row."""
    column = dataset.data.column(name)
    for chunk in column.chunks:
        if row < len(chunk):
            leaf = elements(chunk)
            each = len(leaf) // len(chunk)
            first: int = leaf.buffers()[1].address
            return first + (leaf.offset + row * each) * leaf.type.byte_width
        row -= len(chunk)
    raise IndexError(row)


def mapped(path: Path, at: int) -> bool:
    """Whether an address is in this process's mapping of a file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(path)):
            begin, end = (int(bound, 16) for bound in line.split()[0].split("-"))
            if begin <= at < end:
                return True
    return False


@pytest.mark.parametrize("name", FEATURES)
def test_batches_have_the_memory_of_the_file(name: str, dataset: Any) -> None:
    [file] = dataset.cache_files
    assert [len(chunk) for chunk in dataset.data.column(name).chunks] == [1000, 1000, 500]
    for begin, end in ((0, 1000), (1000, 2000), (1300, 1400), (2499, 2500)):
        with candle.strict(), candle.trace() as moves:
            batch = dataset[begin:end][name]
        assert {move.action for move in moves} == {"share"}
        assert batch.data_ptr() == address(dataset, name, begin)
        assert mapped(Path(file["filename"]), batch.data_ptr())
        assert batch.readonly
        assert batch.tolist() == numbers(name)[begin:end].tolist()


@pytest.mark.parametrize("name", FEATURES)
def test_rows_have_the_memory_of_the_file(name: str, dataset: Any) -> None:
    for row in (0, 999, 1000, 2345, -1):
        with candle.strict():
            one = dataset[row][name]
        assert one.data_ptr() == address(dataset, name, row % ROWS)
        assert one.shape == SHAPES[name]
        assert np.array_equal(one.tolist(), numbers(name)[row])
    with candle.strict():
        third = next(row for i, row in enumerate(dataset) if i == 3)[name]
    assert third.data_ptr() == address(dataset, name, 3)


def test_batches_in_order_are_shared(dataset: Any) -> None:
    with candle.strict():
        firsts = [batch["grid"].data_ptr() for batch in dataset.iter(batch_size=500)]
    assert firsts == [address(dataset, "grid", row) for row in range(0, ROWS, 500)]


def test_shared_batches_are_not_written_to(dataset: Any) -> None:
    batch = dataset[:10]["fixed"]
    with pytest.raises(ValueError, match="read-only"):
        batch[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        batch.numpy()[0] = 1
    own = batch.copy()
    own[0] = -1
    assert dataset[0]["fixed"].tolist() == numbers("fixed")[0].tolist()


def test_batches_outlive_their_dataset(dataset: Any) -> None:
    batch = dataset[1000:2000]["grid"]
    del dataset
    gc.collect()
    assert batch.tolist() == numbers("grid")[1000:2000].tolist()


@pytest.mark.parametrize("name", FEATURES)
def test_batches_across_chunks_are_one_copy(name: str, dataset: Any) -> None:
    with candle.trace() as moves:
        batch = dataset.with_format("candle", columns=[name])[900:2100][name]
    assert batch.tolist() == numbers(name)[900:2100].tolist()
    [move] = moves
    assert (move.action, move.nbytes) == ("copy", batch.nbytes)
    assert [reason.code for reason in move.reasons] == ["chunks"]
    assert move.where.startswith(__file__)
    assert not batch.readonly
    with candle.strict(), pytest.raises(candle.CopyError, match="in 3 chunks"):
        dataset[900:2100]


def test_the_whole_column_is_one_copy(dataset: Any) -> None:
    with candle.trace() as moves:
        column = dataset["number"][:]
    assert column.tolist() == list(range(100)) * 25
    assert [(move.action, move.nbytes) for move in moves] == [("copy", column.nbytes)]


@pytest.mark.parametrize("name", FEATURES)
def test_gathered_batches_are_one_copy(name: str, dataset: Any) -> None:
    dataset = dataset.with_format("candle", columns=[name])
    order = np.random.default_rng(6).permutation(ROWS)
    shuffled = dataset.shuffle(seed=1, keep_in_memory=True)
    for gathered, rows in (
        (dataset.select(order, keep_in_memory=True), order),
        (shuffled, np.array(shuffled._indices.column(0))),
    ):
        expected = numbers(name)[rows[:50]].tolist()
        with candle.trace() as moves:
            batch = gathered[:50][name]
        assert batch.tolist() == expected
        [move] = moves
        assert (move.action, move.nbytes) == ("copy", batch.nbytes)
        assert [reason.code for reason in move.reasons] == ["chunks"]
        with candle.strict():  # one row needs none
            assert gathered[7][name].tolist() == expected[7]


def test_a_selected_range_is_shared(dataset: Any) -> None:
    chosen = dataset.select(range(1100, 1200))
    with candle.strict():
        batch = chosen[10:20]["fixed"]
    assert batch.data_ptr() == address(dataset, "fixed", 1110)


def test_booleans_are_one_copy(saved: Callable[..., Any]) -> None:
    rows = [n % 3 == 0 for n in range(100)]
    dataset = saved(x=rows).with_format("candle")
    with candle.trace() as moves:
        batch = dataset[3:90]["x"]
    assert batch.tolist() == rows[3:90]
    [move] = moves
    assert ([reason.code for reason in move.reasons], move.nbytes) == (["bitmap"], 87)


def test_uneven_lists_are_shared_row_by_row(saved: Callable[..., Any]) -> None:
    rows = [list(range(n % 4)) for n in range(1500)]
    dataset = saved({"x": List(Value("int32"))}, x=rows).with_format("candle")
    chunk = dataset.data.column("x").chunk(0)
    with candle.strict(), candle.trace() as moves:
        batch = dataset[10:20]["x"]
    begin = chunk.values.buffers()[1].address
    offsets = chunk.offsets.to_pylist()
    for i, row in enumerate(batch, 10):
        assert row.tolist() == rows[i]
        assert row.readonly
        assert len(row) == 0 or row.data_ptr() == begin + 4 * offsets[i]
    assert {move.action for move in moves} == {"share"}  # and nothing of the try for one block
    with candle.strict():  # no block is asked for, so chunks do not matter
        across = dataset[990:1010]["x"]
        gathered = dataset.select([5, 1400, 3])[:]["x"]
    assert [row.tolist() for row in across] == rows[990:1010]
    assert [row.tolist() for row in gathered] == [rows[5], rows[1400], rows[3]]


def test_fields_are_shared(saved: Callable[..., Any]) -> None:
    feature = {"n": Value("int32"), "v": List(Value("float32"), length=2)}
    rows = [{"n": n, "v": [n, -n]} for n in range(40)]
    dataset = saved({"x": feature}, x=rows).with_format("candle")
    chunk = dataset.data.column("x").chunk(0)
    with candle.strict():
        batch = dataset[10:20]["x"]
    assert batch[3]["n"].data_ptr() == chunk.field("n").buffers()[1].address + 4 * 13
    assert batch[3]["v"].data_ptr() == chunk.field("v").values.buffers()[1].address + 8 * 13
    assert (batch[3]["n"].item(), batch[3]["v"].tolist()) == (13, [13, -13])


def test_batches_go_on_without_a_copy(dataset: Any) -> None:
    """What is read-only goes on shared where that is safe, or on the caller's word."""
    batch = dataset[1000:2000]["grid"]
    assert batch.numpy().ctypes.data == batch.data_ptr()
    torch = pytest.importorskip("torch")
    assert batch.torch(copy=False).data_ptr() == batch.data_ptr()
    assert torch.from_dlpack(batch).data_ptr() == batch.data_ptr()
