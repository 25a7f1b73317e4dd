"""onnxruntime: its OrtValues share memory in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import candle


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "bfloat16", "float8_e4m3fn"),
    ],
)
def test_shares(ort: Any, dtype: str) -> None:
    t = candle.Tensor([[0, 1], [1, 0]], dtype=dtype)
    value = ort.OrtValue.from_dlpack(t)
    assert value.data_ptr() == t.data_ptr()
    back = candle.Tensor(value)
    assert (back.dtype, back.data_ptr(), back.readonly) == (t.dtype, t.data_ptr(), False)


def test_read_only_is_copied(ort: Any, frozen: candle.Tensor) -> None:
    """It asks for a legacy capsule, which cannot say so."""
    with candle.trace() as moves:
        value = ort.OrtValue.from_dlpack(frozen)
    assert [reason.code for move in moves for reason in move.reasons] == ["read_only"]
    assert value.data_ptr() != frozen.data_ptr()


def test_takes_row_major_memory_only(ort: Any, t: candle.Tensor) -> None:
    with pytest.raises(RuntimeError, match="contiguous"):
        ort.OrtValue.from_dlpack(t.T)
    assert np.array_equal(ort.OrtValue.from_dlpack(t.T.contiguous()).numpy(), t.T.numpy())


def test_text(ort: Any) -> None:
    value = ort.OrtValue.ortvalue_from_shape_and_type([2], np.float32)
    assert candle.Tensor(value).data_ptr() == value.data_ptr()
