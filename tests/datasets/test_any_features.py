"""Whatever features nest in one another: the format says what datasets' own objects say."""

from __future__ import annotations

from typing import Any

import pytest

import candle

datasets = pytest.importorskip("datasets")
hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

Value, List, LargeList = datasets.Value, datasets.List, datasets.LargeList

LEAVES: dict[str, Any] = {
    "int16": st.integers(-9, 9),
    "uint64": st.integers(0, 9),
    "float32": st.integers(-9, 9).map(float),
    "bool": st.booleans(),
    "string": st.sampled_from(["", "a", "bc"]),
}


@st.composite
def columns(draw: Any, depth: int = 3) -> tuple[Any, Any]:
    """A feature, and a strategy of its rows."""
    kinds = ["leaf"] if depth == 0 else ["leaf", "list", "even", "fixed", "struct", "grid"]
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        dtype = draw(st.sampled_from(sorted(LEAVES)))
        return Value(dtype), LEAVES[dtype]
    if kind == "grid":
        rows = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=2, max_size=2)
        return datasets.Array2D((2, 3), "int8"), rows
    if kind == "struct":
        fields = {name: draw(columns(depth - 1)) for name in draw(st.sampled_from(["a", "ab"]))}
        rows = st.fixed_dictionaries({name: row for name, (_, row) in fields.items()})
        return {name: feature for name, (feature, _) in fields.items()}, rows
    feature, item = draw(columns(depth - 1))
    if kind == "list":
        return draw(st.sampled_from([List, LargeList]))(feature), st.lists(item, max_size=3)
    length = draw(st.integers(1, 2))
    rows = st.lists(item, min_size=length, max_size=length)
    return List(feature, length=length) if kind == "fixed" else List(feature), rows


def plain(x: Any) -> Any:
    if isinstance(x, candle.Tensor):
        return x.tolist()
    if isinstance(x, dict):
        return {name: plain(item) for name, item in x.items()}
    return [plain(item) for item in x] if isinstance(x, list) else x


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.data())
def test_it_says_what_python_says(data: Any) -> None:
    feature, row = data.draw(columns())
    rows = data.draw(st.lists(row, min_size=1, max_size=5))
    order = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4))
    features = datasets.Features({"x": feature})
    one = datasets.Dataset.from_dict({"x": rows}, features=features)
    two = datasets.concatenate_datasets([one, one.select(range(len(rows) - 1))])
    for dataset in (one, two, two.select(order)):
        expected = dataset[:]["x"]
        formatted = dataset.with_format("candle")
        assert plain(formatted[:]["x"]) == expected
        assert plain(formatted[1:4]["x"]) == expected[1:4]
        assert [plain(each["x"]) for each in formatted] == expected
        assert plain(formatted[range(0, len(expected), 2)]["x"]) == expected[::2]
        stream = dataset.to_iterable_dataset().with_format("candle")
        batches = [plain(batch["x"]) for batch in stream.iter(batch_size=3)]
        assert [each for batch in batches for each in batch] == expected
