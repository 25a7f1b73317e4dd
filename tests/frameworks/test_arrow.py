"""pyarrow: numbers are shared read-only; nulls and what is no number are refused by name."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64"),
]


@pytest.fixture(autouse=True)
def _warnings_are_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("take", [candle.asarray, candle.from_dlpack])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_shared_read_only(name: str, take: Any) -> None:
    x = pa.array([1, 2, 3, 4], getattr(pa, name)())[1:]
    t = take(x, copy=False)
    assert (str(t.dtype), t.tolist(), t.readonly) == (name, [2, 3, 4], True)
    assert t.data_ptr() == x.to_numpy().ctypes.data


WITH_NULLS = {
    "integers": lambda: pa.array([1, None, 3]),
    "floats": lambda: pa.array([1.5, None]),
    "text": lambda: pa.array(["a", None]),
    "nothing else": lambda: pa.nulls(3),
    "chunks": lambda: pa.chunked_array([[1, 2], [None]]),
    "a table": lambda: pa.table({"a": [1, None], "b": [1.5, 2]}),
    "a batch": lambda: pa.record_batch({"a": [1, None]}),
}


@pytest.mark.parametrize("kind", WITH_NULLS)
def test_nulls_are_refused(kind: str) -> None:
    """Never as NaN, and without a warning about how candle asks."""
    for take in (candle.asarray, candle.Tensor, lambda x: candle.asarray([x])):
        with pytest.raises(BufferError, match=r"null.*fill_null"):
            take(WITH_NULLS[kind]())


NO_NUMBERS = {
    "string.*encode": lambda: pa.array(["a"]),
    r"bool.*cast\(": lambda: pa.array([True]),
    r"list.*cast\(": lambda: pa.array([[1], [2]]),
    "timestamp": lambda: pa.array([1], pa.timestamp("s")),
    "dictionary": lambda: pa.array(["a"]).dictionary_encode(),
    "struct": lambda: pa.array([{"a": 1}]),
}


@pytest.mark.parametrize("words", NO_NUMBERS)
def test_what_is_no_number_is_refused_by_its_type(words: str) -> None:
    for take in (candle.asarray, candle.from_dlpack):
        with pytest.raises(BufferError, match=words):
            take(NO_NUMBERS[words]())


def test_what_has_no_nulls_comes_in() -> None:
    assert candle.asarray(pa.chunked_array([[1, 2], [3]])).tolist() == [1, 2, 3]
    assert candle.asarray(pa.table({"a": [1, 2]})).shape == (2, 1)
    tensor = pa.Tensor.from_numpy(np.ones((2, 2)))
    assert candle.asarray(tensor).tolist() == [[1, 1], [1, 1]]
