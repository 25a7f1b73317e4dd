"""How datasets comes to know the format: by itself, in whatever order, in every process."""

from __future__ import annotations

import pickle
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import candle  # noqa: F401
from candle.frameworks.datasets import FormatName, register

datasets = pytest.importorskip("datasets")

if TYPE_CHECKING:
    from collections.abc import Callable


def test_either_order(in_child: Callable[..., Any]) -> None:
    for first, second in (("candle", "datasets"), ("datasets", "candle")):
        code = f"""
            import {first}, {second}
            x = datasets.Dataset.from_dict({{"x": [1, 2]}}).with_format("candle")[:]["x"]
            assert isinstance(x, candle.Tensor) and x.tolist() == [1, 2]
        """
        in_child(code).check()


def test_candle_loads_no_datasets(in_child: Callable[..., Any]) -> None:
    in_child("""
        import sys, candle
        candle.Tensor([1.0])
        assert "datasets" not in sys.modules
        assert "candle.frameworks.datasets" not in sys.modules
    """).check()


def test_a_pickled_dataset_brings_candle(tmp_path: Any, in_child: Callable[..., Any]) -> None:
    """So do the workers of a DataLoader get it that are spawned."""
    dataset = datasets.Dataset.from_dict({"x": [1, 2]}).with_format("candle")
    stream = dataset.to_iterable_dataset()
    path = tmp_path / "pickled"
    path.write_bytes(pickle.dumps((dataset, stream)))
    code = f"""
        import pickle, sys
        with open({str(path)!r}, "rb") as file:
            dataset, stream = pickle.load(file)
        assert repr(dataset[0]["x"]) == "tensor(1, dtype=int64)"
        assert [repr(one["x"]) for one in stream][1:] == ["tensor(2, dtype=int64)"]
    """
    in_child(code).check()


def test_the_name_is_a_string() -> None:
    dataset = datasets.Dataset.from_dict({"x": [1]}).with_format("candle")
    assert dataset.format["type"] == "candle"
    assert type(pickle.loads(pickle.dumps(FormatName("candle")))) is FormatName


def test_versions_that_do_it_otherwise_are_left_alone() -> None:
    module = ModuleType("datasets.formatting")
    register(module)
    assert set(vars(module)) == set(vars(ModuleType("datasets.formatting")))
