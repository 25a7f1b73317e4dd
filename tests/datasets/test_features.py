"""What each feature of a dataset becomes: in batches, in rows, in columns."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

datasets = pytest.importorskip("datasets")

if TYPE_CHECKING:
    from collections.abc import Callable

Value, List, LargeList = datasets.Value, datasets.List, datasets.LargeList


def made(feature: Any, rows: list[Any]) -> Any:
    """A dataset of one column, x, in memory."""
    return datasets.Dataset.from_dict({"x": rows}, features=datasets.Features({"x": feature}))


def plain(x: Any) -> Any:
    """Tensors as lists, at any depth."""
    if isinstance(x, candle.Tensor):
        return x.tolist()
    if isinstance(x, dict):
        return {name: plain(item) for name, item in x.items()}
    return [plain(item) for item in x] if isinstance(x, list) else x


def tree(x: Any) -> Any:
    """Tensors as their shapes and dtypes."""
    if isinstance(x, candle.Tensor):
        return (x.shape, str(x.dtype))
    if isinstance(x, dict):
        return {name: tree(item) for name, item in x.items()}
    return [tree(item) for item in x] if isinstance(x, list) else type(x).__name__


def agree(rows: list[Any], dataset: Any) -> None:
    """Batches, rows and columns say the same, which is what was put in."""
    formatted = dataset.with_format("candle")
    batch = formatted[:]["x"]
    assert plain(batch) == rows
    assert plain(formatted["x"][:]) == rows
    assert len(batch) == len(rows)
    for i, row in enumerate(rows):
        one = formatted[i]["x"]
        assert plain(one) == row
        if i < 3:
            assert tree(one) == tree(batch[i])
            assert tree(formatted["x"][i]) == tree(one)


NUMBERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS += ["float16", "float32", "float64", "bool"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_keep_their_dtype(dtype: str) -> None:
    rows = [True, False, True] if dtype == "bool" else [1, 0, 100]
    for feature, values in (
        (Value(dtype), rows),
        (List(Value(dtype)), [rows, rows[::-1]]),
        (List(Value(dtype), length=3), [rows, rows[::-1]]),
        (List(List(Value(dtype))), [[rows, rows]] * 2),
        (LargeList(Value(dtype)), [rows, rows]),
    ):
        dataset = made(feature, values)
        agree(values, dataset)
        batch = dataset.with_format("candle")[:]["x"]
        assert isinstance(batch, candle.Tensor)
        assert batch.dtype == candle.as_dtype(dtype)
        assert batch.shape == np.shape(values)


@pytest.mark.parametrize("ndim", [2, 3, 4, 5])
def test_grids(ndim: int) -> None:
    shape = (2, 3, 2, 1, 2)[:ndim]
    rows = np.arange(3 * np.prod(shape), dtype="int16").reshape(3, *shape)
    feature = getattr(datasets, f"Array{ndim}D")(shape, "int16")
    dataset = made(feature, rows)
    agree(rows.tolist(), dataset)
    formatted = dataset.with_format("candle")
    assert tree(formatted[1:3]["x"]) == ((2, *shape), "int16")
    assert tree(formatted[0:0]["x"]) == ((0, *shape), "int16")
    assert formatted[1:3]["x"].tolist() == rows[1:3].tolist()


def test_grids_with_as_many_rows_as_they_like() -> None:
    rows = [[[1, 2]], [[3, 4], [5, 6]]]
    dataset = made(datasets.Array2D((None, 2), "int32"), rows)
    agree(rows, dataset)
    assert tree(dataset.with_format("candle")[:]["x"]) == [((1, 2), "int32"), ((2, 2), "int32")]


def test_class_labels_are_integers() -> None:
    dataset = made(datasets.ClassLabel(names=["cat", "dog"]), ["dog", "cat", "dog"])
    agree([1, 0, 1], dataset)
    assert tree(dataset.with_format("candle")[:]["x"]) == ((3,), "int64")


def test_lists_of_different_lengths_are_a_list_of_tensors() -> None:
    rows: list[Any] = [[1, 2], [], [3], [4, 5, 6]]
    dataset = made(List(Value("int64")), rows)
    agree(rows, dataset)
    assert tree(dataset.with_format("candle")[1:]["x"]) == [
        ((0,), "int64"),
        ((1,), "int64"),
        ((3,), "int64"),
    ]


def test_each_row_is_one_tensor_where_it_can_be() -> None:
    rows = [[[1, 2], [3, 4]], [[5], [6, 7]], [[8]]]
    dataset = made(List(List(Value("int8"))), rows)
    agree(rows, dataset)
    assert tree(dataset.with_format("candle")[:]["x"]) == [
        ((2, 2), "int8"),
        [((1,), "int8"), ((2,), "int8")],
        ((1, 1), "int8"),
    ]
    fixed = made(List(List(Value("int8")), length=2), rows[:2])
    agree(rows[:2], fixed)
    assert plain(fixed.with_format("candle")[1:]["x"]) == rows[1:2]


def test_text_bytes_and_times_are_left() -> None:
    day = datetime.date(2026, 1, 2)
    noon = datetime.datetime(2026, 1, 2, 12)
    for feature, rows in (
        (Value("string"), ["a", None, "c"]),
        (Value("large_string"), ["a", "", "c"]),
        (Value("binary"), [b"a", b"b", None]),
        (List(Value("string")), [["a", "b"], ["c", "d"], []]),
        (Value("date32"), [day, None, day]),
        (Value("timestamp[us]"), [noon, noon, noon]),
        (Value("null"), [None, None, None]),
        ({"s": Value("string"), "t": List(Value("string"))}, [{"s": "a", "t": ["b"]}] * 3),
        (datasets.Translation(languages=["de", "en"]), [{"de": "ja", "en": "yes"}] * 3),
    ):
        dataset = made(feature, rows)
        agree(rows, dataset)
        assert isinstance(dataset.with_format("candle")[:]["x"], list)


def test_times_as_integers() -> None:
    noon = datetime.datetime(2026, 1, 2, 12)
    dataset = made(Value("timestamp[s]"), [noon, noon]).with_format("candle", times="integers")
    stamp = int(noon.replace(tzinfo=datetime.UTC).timestamp())
    assert plain(dataset[:]["x"]) == [stamp, stamp]
    assert dataset[0]["x"].item() == stamp


def test_structs_are_dicts_of_tensors() -> None:
    feature = {"n": Value("int32"), "v": List(Value("float32")), "s": Value("string")}
    rows = [{"n": n, "v": [1.5] * n, "s": str(n)} for n in range(4)]
    dataset = made(feature, rows)
    agree(rows, dataset)
    assert tree(dataset.with_format("candle")[2:3]["x"]) == [
        {"n": ((), "int32"), "v": ((2,), "float32"), "s": "str"}
    ]
    agree(rows[1:3], made(feature, rows).select(range(1, 3)))


def test_lists_of_structs() -> None:
    feature = List({"n": Value("int32"), "in": {"v": List(Value("int8"), length=2)}})
    rows = [[{"n": n, "in": {"v": [n, n]}} for n in range(count)] for count in (2, 0, 3)]
    dataset = made(feature, rows)
    agree(rows, dataset)
    assert (
        tree(dataset.with_format("candle")[0]["x"])
        == [{"n": ((), "int32"), "in": {"v": ((2,), "int8")}}] * 2
    )


def test_images_are_left_as_datasets_gives_them() -> None:
    image = pytest.importorskip("PIL.Image")
    pictures = [image.new("RGB", (3, 2), (n, n, n)) for n in range(3)]
    dataset = made(datasets.Image(), pictures).with_format("candle")
    for one in (*dataset[:]["x"], dataset[0]["x"]):
        assert isinstance(one, image.Image)
    assert [one.getpixel((0, 0))[0] for one in dataset[1:]["x"]] == [1, 2]
    mixed = made({"i": datasets.Image(), "n": Value("int8")}, [{"i": pictures[0], "n": 1}])
    assert isinstance(mixed.with_format("candle")[0]["x"]["i"], image.Image)


def test_no_rows() -> None:
    rows = {"n": Value("int32"), "e": List(Value("int8"), length=4), "s": Value("string")}
    features = datasets.Features(rows)
    empty = datasets.Dataset.from_dict({name: [] for name in rows}, features=features)
    for dataset in (
        empty,
        datasets.Dataset.from_dict({"n": [1], "e": [[1] * 4], "s": ["a"]}, features=features),
    ):
        batch = dataset.with_format("candle")[0:0]
        assert tree(batch) == {"n": ((0,), "int32"), "e": ((0, 4), "int8"), "s": []}


# Nulls.


NULLS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "numbers": (Value("int16"), [1, None, 3], [1, 7, 3]),
    "booleans": (Value("bool"), [True, None], [True, False]),
    "in lists": (List(Value("int16")), [[1, None], [3, 4]], [[1, 7], [3, 4]]),
    "in uneven lists": (List(Value("int16")), [[1, None], [3]], [[1, 7], [3]]),
    "lists": (List(Value("int16")), [[1, 2], None, [3, 4]], [[1, 2], None, [3, 4]]),
    "lists of one length": (List(Value("int16"), length=2), [[1, 2], None], [[1, 2], [7, 7]]),
    "grids": (datasets.Array2D((1, 2), "int16"), [[[1, 2]], None], [[[1, 2]], None]),
    "fields": ({"n": Value("int16")}, [{"n": 1}, {"n": None}], [{"n": 1}, {"n": 7}]),
    "structs": ({"n": Value("int16")}, [{"n": 1}, None], [{"n": 1}, {"n": 7}]),
    "in lists of structs": (List({"n": Value("int16")}), [[{"n": None}], []], [[{"n": 7}], []]),
}


@pytest.mark.parametrize("case", NULLS)
def test_nulls(case: str) -> None:
    feature, rows, filled = NULLS[case]
    dataset = made(feature, rows)
    with pytest.raises(BufferError, match="null") as caught:
        dataset.with_format("candle")[:]
    assert "column 'x' of the dataset" in caught.value.__notes__[0]
    assert 'nulls="objects"' in caught.value.__notes__[0]
    null = next(i for i, row in enumerate(rows) if "None" in str(row))
    with pytest.raises(BufferError, match="null"):
        dataset.with_format("candle")[null]
    objects = dataset.with_format("candle", nulls="objects")
    assert objects[:]["x"] == dataset[:]["x"]
    assert objects[null]["x"] == dataset[null]["x"]
    fill = 0 if case == "booleans" else 7
    if case != "structs":  # datasets cannot tell a null struct from one of nulls
        fill_in = dataset.with_format("candle", nulls=fill)
        assert plain(fill_in[:]["x"]) == filled
        assert [plain(fill_in[i]["x"]) for i in range(len(rows))] == filled


def test_without_nulls_their_options_change_nothing() -> None:
    for nulls in ("error", "objects", 0):
        dataset = made(List(Value("int16")), [[1, 2], [3, 4]]).with_format("candle", nulls=nulls)
        assert tree(dataset[:]["x"]) == ((2, 2), "int16")


# Options.


def test_options() -> None:
    dataset = made(Value("int16"), [1, 2, 3])
    assert dataset.with_format("candle", dtype="float64")[:]["x"].dtype == candle.float64
    fresh = dataset.with_format("candle", copy=True)[:]["x"]
    assert not fresh.readonly
    shared = dataset.with_format("candle", copy=False)
    assert shared[:]["x"].readonly
    with pytest.raises(candle.CopyError, match="elements lie in 2 chunks") as caught:
        shared[[2, 0]]
    assert caught.value.__notes__ == ["column 'x' of the dataset"]


def test_wrong_options() -> None:
    dataset = made(Value("int16"), [1, 2, 3])
    with pytest.raises(ValueError, match="nulls is"):
        dataset.with_format("candle", nulls="mask")
    with pytest.raises(ValueError, match="times is"):
        dataset.with_format("candle", times="numpy")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        dataset.with_format("candle", null=0)
    with pytest.raises((TypeError, ValueError), match="float33"):
        dataset.with_format("candle", dtype="float33")


def test_columns_that_are_asked_for() -> None:
    dataset = datasets.Dataset.from_dict({"x": [1, None], "y": [1, 2]})
    batch = dataset.with_format("candle", columns=["y"], output_all_columns=True)[:]
    assert (tree(batch["y"]), batch["x"]) == (((2,), "int64"), [1, None])


def test_other_formats_go_on(saved: Callable[..., Any]) -> None:
    dataset = saved(x=[1, 2, 3])
    assert dataset.with_format("numpy")[:]["x"].tolist() == [1, 2, 3]
    assert dataset[:]["x"] == [1, 2, 3]


def test_a_table_alone() -> None:
    """Without features, and a column at once, which versions before 4 ask for by `dataset["x"]`."""
    import pyarrow
    from datasets.formatting import get_formatter

    table = pyarrow.table({"x": [1, 2], "s": ["a", "b"]})
    for features in (None, datasets.Features({"x": Value("int64")})):
        formatter = get_formatter("candle", features=features)
        assert plain(formatter(table, "batch")) == {"x": [1, 2], "s": ["a", "b"]}
        assert plain(formatter(table, "row")) == {"x": 1, "s": "a"}
        column = formatter(table, "column")
        assert type(column) is candle.Tensor
        assert column.tolist() == [1, 2]
