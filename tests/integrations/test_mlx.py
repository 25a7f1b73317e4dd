"""mlx: its arrays come in shared and read-only, and it copies what it is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import candle

DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "bfloat16", "complex64"),
)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(mx: Any, dtype: str) -> None:
    t = candle.Tensor([[0, 1], [1, 0]], dtype=dtype)
    x = candle.convert(t, "mlx")
    assert x.dtype == getattr(mx, "bool_" if dtype == "bool" else dtype)
    back = candle.Tensor(x)
    assert (back.dtype, back.readonly, back.tolist()) == (t.dtype, True, t.tolist())
    assert back.data_ptr() != t.data_ptr()
    assert candle.Tensor(x).data_ptr() == back.data_ptr()


def test_its_copy_is_said(mx: Any, t: candle.Tensor) -> None:
    plan = candle.explain(t, "mlx")
    assert (plan.action, plan.nbytes) == ("copy", t.nbytes)
    assert [reason.code for reason in plan.reasons] == ["consumer_copies"]
    with pytest.raises(candle.CopyError, match="mlx makes a copy"):
        candle.convert(t, "mlx", copy=False)
    with candle.strict(), pytest.raises(candle.CopyError):
        candle.convert(t, "mlx")
    with candle.trace() as moves:
        candle.convert([t, t.T], "mlx")
    given = [(move.action, move.nbytes) for move in moves if move.consumer == "mlx"]
    assert given == [("copy", t.nbytes)] * 2


def test_candle_makes_no_second_copy(mx: Any, t: candle.Tensor) -> None:
    from candle.testing import live

    before = live()["bytes"]
    given = candle.convert(t[:, 1:], "mlx")
    assert live()["bytes"] == before
    assert given.tolist() == t[:, 1:].tolist()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_nothing_is_narrowed(mx: Any, dtype: str) -> None:
    with pytest.raises(BufferError, match=rf"mlx would make {dtype} smaller"):
        candle.convert(candle.zeros(2, dtype=dtype), "mlx")


def test_views_of_its_arrays(mx: Any) -> None:
    x = mx.arange(24).reshape(4, 6)
    for view in (x.T, x[1:, ::2], x[::-1], x + 1):
        assert candle.Tensor(view).tolist() == view.tolist()


def test_its_functions(mx: Any, t: candle.Tensor) -> None:
    assert (mx.ones((4, 6)) + t).tolist() == (t.numpy() + 1).tolist()
    assert candle.convert(t[::-1], "mlx").tolist() == t[::-1].tolist()
    assert candle.convert(candle.zeros((0, 3)), "mlx").shape == (0, 3)


def test_examples(mx: Any) -> None:
    """What the doctor tries."""
    from candle import frameworks

    made = frameworks.examples("mlx")
    assert candle.asarray(made["mlx"]).tolist() == [[0.0] * 6] * 4


def test_hazards(mx: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from candle import frameworks

    [told] = frameworks.hazards("mlx", lambda do: do())
    assert "smaller" in told
    monkeypatch.setattr(mx, "array", lambda x: SimpleNamespace(dtype=mx.float64))
    assert frameworks.hazards("mlx", lambda do: do()) == []
