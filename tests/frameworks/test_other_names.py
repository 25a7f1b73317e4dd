"""Frameworks that are not installed here: what is known of their types, by stand-ins for them."""

from __future__ import annotations

from typing import Any

import pytest

import candle


@pytest.mark.isolated
@pytest.mark.parametrize("rows", [[[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0, 3.0]]])
def test_sequence_whose_stand_in_is_itself(rows: list[list[float]]) -> None:
    """Such as tensorflow's ragged tensors: no protocol, and rows by `[]`."""

    class Ragged:
        __module__ = "tensorflow.python.ragged"

        def __getitem__(self, i: int) -> Any:
            return candle.Tensor(rows[i])

    if len(rows[0]) == len(rows[1]):
        assert candle.Tensor(Ragged()).tolist() == rows
        assert candle.Tensor([Ragged(), Ragged()]).tolist() == [rows, rows]
    else:
        with pytest.raises(ValueError, match="different shapes"):
            candle.Tensor(Ragged())


def eager(dtype: str, cls: str = "EagerTensor") -> Any:
    """Something that says it is tensorflow's, with a dtype."""
    named = type("DType", (), {"name": dtype})()
    return type(cls, (), {"__module__": "tensorflow.python.framework.ops", "dtype": named})()


@pytest.mark.parametrize(
    ("x", "code"),
    [
        (eager("string"), "text"),
        (eager("qint8"), "quantised"),
        (eager("float32", "SymbolicTensor"), "traced"),
    ],
)
def test_tensorflow_refusals(x: Any, code: str) -> None:
    with pytest.raises(BufferError) as caught:
        candle.Tensor(x)
    assert caught.value.plan.reasons[0].code == code  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["tensorflow", "paddle", "mlx", "warp"])
def test_absent_frameworks(name: str) -> None:
    import importlib.util

    if importlib.util.find_spec(name) is not None:
        pytest.skip("it is installed")
    with pytest.raises(ImportError):
        candle.convert(candle.zeros(2), name)
    assert candle.explain(candle.zeros(2), name).consumer == name


def test_explain_knows_what_they_take() -> None:
    t = candle.zeros((4, 6))
    said = {
        name: [reason.code for reason in candle.explain(x, name).reasons]
        for name, x in {
            "tensorflow": t.T,
            "paddle": t[::-1],
            "mlx": t,
            "warp": t[0, 0],
        }.items()
    }
    assert said == {
        "tensorflow": ["order"],
        "paddle": ["negative_stride"],
        "mlx": ["consumer_copies"],
        "warp": ["axes"],
    }
    assert "as tensorflow takes them" in candle.explain(t.T, "tensorflow").reasons[0].fact
    assert candle.explain(t[:0], "mlx").action == "share"
