"""Examples that are made of Python values: of generators, of map, into tables and out of them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.frameworks.python_values import tensors_of
from candle.testing import Producer

datasets = pytest.importorskip("datasets")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Value, List = datasets.Value, datasets.List
ASKED: dict[str, Any] = {"dtype": None, "device": None, "copy": None}


def described(x: Any) -> Any:
    """Tensors as values and dtypes."""
    if isinstance(x, candle.Tensor):
        return (x.tolist(), str(x.dtype))
    if isinstance(x, dict):
        return {name: described(item) for name, item in x.items()}
    return [described(item) for item in x] if isinstance(x, list | tuple) else x


def doubled(t: candle.Tensor) -> candle.Tensor:
    return candle.Tensor(t.numpy() * 2)


# Values alone.


def test_values_without_features() -> None:
    value = {
        "n": 1,
        "f": 1.5,
        "b": True,
        "s": "text",
        "none": None,
        "v": [1, 2],
        "m": [[1.5], [2.5]],
        "uneven": [[1], [2, 3]],
        "words": ["a", None],
        "in": {"t": (1, 2), "s": ["a"]},
        "dicts": [{"n": 1}, {"n": 2}],
        "scalar": np.float64(2),
        "array": np.arange(2, dtype="uint8"),
        "text array": np.array(["a"]),
    }
    made = tensors_of(value, None, ASKED)
    text = made.pop("text array")
    assert text is value["text array"]
    assert described(made) == {
        "n": (1, "int64"),
        "f": (1.5, "float32"),
        "b": (True, "bool"),
        "s": "text",
        "none": None,
        "v": ([1, 2], "int64"),
        "m": ([[1.5], [2.5]], "float32"),
        "uneven": [([1], "int64"), ([2, 3], "int64")],
        "words": ["a", None],
        "in": {"t": ([1, 2], "int64"), "s": ["a"]},
        "dicts": [{"n": (1, "int64")}, {"n": (2, "int64")}],
        "scalar": (2.0, "float64"),
        "array": ([0, 1], "uint8"),
    }
    assert made["array"].data_ptr() == value["array"].ctypes.data  # type: ignore[attr-defined]


def test_features_give_the_dtype() -> None:
    features = {
        "n": Value("uint8"),
        "v": List(Value("float64")),
        "g": datasets.Array2D((1, 2), "int16"),
        "c": datasets.ClassLabel(names=["a"]),
        "in": {"x": List(List(Value("float16")))},
        "dicts": List({"y": Value("int8")}),
        "s": Value("string"),
        "empty": List(Value("int32")),
        "other": Value("timestamp[s]"),
    }
    value = {
        "n": 1,
        "v": [1, 2],
        "g": [[1, 2]],
        "c": 0,
        "in": {"x": [[1.5], [2]]},
        "dicts": [{"y": 1}],
        "s": "a",
        "empty": [],
        "other": 5,
    }
    assert described(tensors_of(value, features, ASKED)) == {
        "n": (1, "uint8"),
        "v": ([1.0, 2.0], "float64"),
        "g": ([[1, 2]], "int16"),
        "c": (0, "int64"),
        "in": {"x": ([[1.5], [2.0]], "float16")},
        "dicts": [{"y": (1, "int8")}],
        "s": "a",
        "empty": ([], "int32"),
        "other": 5,
    }


def test_lists_of_features_as_versions_before_4_have_them() -> None:
    value = {"x": [1, 2], "y": [{"z": [1.0]}, {"z": [2.0]}]}
    features = {"x": [Value("int16")], "y": [{"z": [Value("float64")]}]}
    assert described(tensors_of(value, features, ASKED)) == {
        "x": ([1, 2], "int16"),
        "y": [{"z": ([1.0], "float64")}, {"z": ([2.0], "float64")}],
    }


def test_tensors_of_any_framework() -> None:
    x = Producer(bytearray(np.array([1.5, 2.5], "f4")), shape=(2,))
    assert described(tensors_of({"x": x, "y": [x, x]}, None, ASKED)) == {
        "x": ([1.5, 2.5], "float32"),
        "y": ([[1.5, 2.5]] * 2, "float32"),
    }


def test_tensors_are_stacked_where_they_are_alike() -> None:
    t = candle.arange(3, dtype="int8")
    assert tensors_of({"x": t}, None, ASKED)["x"] is t
    assert described(tensors_of([t, t], None, ASKED)) == ([[0, 1, 2]] * 2, "int8")
    mixed = tensors_of([t, t[1:], t.to("int16")], None, ASKED)
    assert [one.shape for one in mixed] == [(3,), (2,), (3,)]
    assert [str(one.dtype) for one in mixed] == ["int8", "int8", "int16"]


@pytest.mark.parametrize(
    ("value", "feature"),
    [
        ([1, None], None),
        ([[1], None], None),
        (None, Value("int8")),
        ([None], Value("int8")),
        ({"x": None}, {"x": List(Value("int8"))}),
        ([{"x": 1}, {"x": None}], List({"x": Value("int8")})),
    ],
)
def test_none_among_numbers_is_refused(value: Any, feature: Any) -> None:
    with pytest.raises(BufferError, match="among numbers is None"):
        tensors_of(value, feature, ASKED)


# Iterable datasets.


def examples() -> Iterator[dict[str, Any]]:
    for n in range(5):
        yield {"v": [n, n + 1], "n": n, "f": n / 2, "s": str(n), "u": [n] * n}


FEATURES = {
    "v": List(Value("int16")),
    "n": Value("uint8"),
    "f": Value("float64"),
    "s": Value("string"),
    "u": List(Value("int8")),
}


@pytest.fixture
def stream(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    features = datasets.Features(FEATURES)
    return datasets.IterableDataset.from_generator(examples, features=features)


SECOND = {
    "v": ([1, 2], "int16"),
    "n": (1, "uint8"),
    "f": (0.5, "float64"),
    "s": "1",
    "u": ([1], "int8"),
}


def test_stream(stream: Any) -> None:
    formatted = stream.with_format("candle")
    assert described(list(formatted)[1]) == SECOND
    assert described(list(formatted.skip(1).take(1))) == [SECOND]
    shuffled = list(formatted.shuffle(seed=3, buffer_size=3))
    assert sorted(one["n"].item() for one in shuffled) == [0, 1, 2, 3, 4]
    few = list(formatted.filter(lambda one: one["n"].item() == 1))
    assert described(few) == [SECOND]


def test_stream_in_batches(stream: Any) -> None:
    formatted = stream.with_format("candle")
    batches = list(formatted.iter(batch_size=2))
    assert [len(batch["s"]) for batch in batches] == [2, 2, 1]
    assert described(batches[1]) == {
        "v": ([[2, 3], [3, 4]], "int16"),
        "n": ([2, 3], "uint8"),
        "f": ([1.0, 1.5], "float64"),
        "s": ["2", "3"],
        "u": [([2, 2], "int8"), ([3, 3, 3], "int8")],
    }


def test_stream_mapped(stream: Any) -> None:
    formatted = stream.with_format("candle")
    twice = formatted.map(lambda one: {"w": doubled(one["v"])})
    assert described(list(twice)[1]) == {**SECOND, "w": ([2, 4], "int16")}
    batched = formatted.map(lambda batch: {"w": doubled(batch["v"])}, batched=True, batch_size=2)
    assert described(list(batched)[1]) == {**SECOND, "w": ([2, 4], "int16")}


def test_stream_of_a_table_is_shared() -> None:
    dataset = datasets.Dataset.from_dict({"e": np.arange(12, dtype="float32").reshape(4, 3)})
    stream = dataset.with_format("candle").to_iterable_dataset(num_shards=2)
    begin = dataset.data.column("e").chunk(0).values.buffers()[1].address
    with candle.strict():
        [first, second] = stream.iter(batch_size=2)
        rows = list(stream)
    assert first["e"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (first["e"].data_ptr(), second["e"].data_ptr()) == (begin, begin + 24)
    assert [row["e"].data_ptr() for row in rows] == [begin + 12 * n for n in range(4)]


# map, and datasets made of tensors.


@pytest.fixture
def table() -> Any:
    made = {"e": np.arange(12, dtype="float32").reshape(4, 3), "n": np.arange(4, dtype="int16")}
    return datasets.Dataset.from_dict(made).with_format("candle")


def test_map_of_rows(table: Any) -> None:
    def work(row: dict[str, Any]) -> dict[str, Any]:
        assert isinstance(row["e"], candle.Tensor)
        grid = candle.full((2, 2), row["n"].item(), dtype="int8")
        return {"e": doubled(row["e"]), "n": row["n"], "grid": grid}

    mapped = table.map(work)
    assert mapped.features["grid"] == List(List(Value("int8")))
    assert mapped.format["type"] == "candle"
    assert described(mapped[1]) == {
        "e": ([6, 8, 10], "float32"),
        "n": (1, "int16"),
        "grid": ([[1, 1], [1, 1]], "int8"),
    }


def test_map_of_batches(table: Any) -> None:
    """datasets takes no tensors of whole batches but those it names; ndarrays it does."""
    mapped = table.map(
        lambda batch: candle.convert({"w": doubled(batch["e"])}, "numpy"), batched=True
    )
    assert described(mapped[1:3]["w"]) == ([[6, 8, 10], [12, 14, 16]], "float32")
    mapped = table.map(lambda batch: {"w": list(doubled(batch["e"]))}, batched=True)
    assert described(mapped[1:3]["w"]) == ([[6, 8, 10], [12, 14, 16]], "float32")
    with pytest.raises(TypeError, match="Tensor"):
        table.map(lambda batch: {"w": doubled(batch["e"])}, batched=True)


def test_filter(table: Any) -> None:
    assert table.filter(lambda row: row["n"].item() > 1)[:]["n"].tolist() == [2, 3]


def test_datasets_of_tensors() -> None:
    grids = candle.arange(8, dtype="int32").reshape(2, 2, 2)
    features = datasets.Features({"x": datasets.Array2D((2, 2), "int32")})
    for columns, kept in (({"x": grids}, features), ({"x": list(grids)}, None)):
        dataset = datasets.Dataset.from_dict(columns, features=kept)
        assert described(dataset.with_format("candle")[:]["x"]) == (grids.tolist(), "int32")
    table = io.BytesIO()
    dataset.to_parquet(table)
    assert datasets.Dataset.from_dict({"x": [candle.Tensor(1.5)]})[0]["x"] == 1.5


def test_formats_last(table: Any, saved: Callable[..., Any], tmp_path: Any) -> None:
    table.save_to_disk(tmp_path / "kept")
    kept = datasets.load_from_disk(tmp_path / "kept")
    assert kept.format["type"] == "candle"
    assert kept[1]["n"].tolist() == 1
    both = datasets.concatenate_datasets([table, table])
    assert both[:]["n"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    several = datasets.DatasetDict({"a": saved(x=[1])}).with_format("candle")
    assert several["a"][:]["x"].tolist() == [1]
