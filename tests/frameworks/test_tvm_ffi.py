"""tvm-ffi: takes candle's tensors by candle's own exchange table, and gives them back by it."""

from __future__ import annotations

from typing import Any

import meeting
import numpy as np
import pytest

import candle
from candle.testing import info, live

tvm_ffi = pytest.importorskip("tvm_ffi")


class Counting(candle.Tensor):
    """Counts who asks for a capsule."""

    __slots__ = ()
    asked = 0

    def __dlpack__(self, **keywords: Any) -> object:
        type(self).asked += 1
        return candle.Tensor.__dlpack__(self, **keywords)


def _counting() -> Any:
    Counting.asked = 0
    return Counting(np.arange(6, dtype=np.float32).reshape(2, 3))


def test_the_table_is_used_and_no_capsule_asked_for() -> None:
    counting = _counting()
    exports = live()["exports"]
    x = tvm_ffi.from_dlpack(counting)
    assert Counting.asked == 0
    assert live()["exports"] == exports + 1
    assert x.data_ptr() == counting.data_ptr()
    y = counting.torch() if meeting.present("torch") else None
    assert Counting.asked == 0
    del x, y
    assert live()["exports"] == exports


def test_counting_would_be_noticed() -> None:
    counting = _counting()
    np.from_dlpack(counting)
    assert Counting.asked == 1


def test_functions_take_and_give_candle_tensors() -> None:
    """What comes out of a function that was given candle's tensors is one of candle's."""
    same = tvm_ffi.convert(lambda x: x)
    for t in (_counting(), candle.arange(5), candle.zeros((0, 3)), candle.ones(())):
        y = same(t)
        assert type(y) is candle.Tensor
        assert (y.shape, y.dtype) == (t.shape, t.dtype)
        assert t.size == 0 or y.data_ptr() == t.data_ptr()
        assert y.tolist() == t.tolist()
    assert Counting.asked == 0


def test_inside_a_function_the_memory_is_the_same() -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []
    t = candle.arange(12, dtype="float32").reshape((3, 4)).T
    tvm_ffi.convert(lambda x: seen.append((x.data_ptr(), tuple(x.shape))))(t)
    assert seen == [(t.data_ptr(), (4, 3))]


def test_negative_strides_come_in_as_a_copy() -> None:
    t = candle.arange(6)[::-1]
    x = tvm_ffi.from_dlpack(t)
    assert all(stride > 0 for stride in x.strides)
    assert candle.from_dlpack(x).tolist() == t.tolist()
    assert x.data_ptr() != t.data_ptr()
    same = tvm_ffi.convert(lambda x: x)
    assert same(t).tolist() == t.tolist()


def test_read_only_memory_is_shared() -> None:
    """The table can say read-only; that tvm-ffi forgets it is tvm-ffi's."""
    a = np.arange(3.0)
    a.flags.writeable = False
    x = tvm_ffi.from_dlpack(candle.asarray(a))
    assert x.data_ptr() == a.ctypes.data


@pytest.mark.parametrize("dtype", meeting.WHOLE)
def test_dtypes_keep_their_codes(dtype: str) -> None:
    x = tvm_ffi.from_dlpack(candle.empty((2, 3), dtype=dtype))
    assert info(x.__dlpack__()).dtype == meeting.DLPACK[dtype]
    assert str(candle.from_dlpack(x).dtype) == dtype


def test_tensors_of_tvm_ffi_outlive_their_names() -> None:
    t = candle.from_dlpack(tvm_ffi.from_dlpack(candle.arange(1000)))
    filler = [candle.full((1000,), 7) for _ in range(50)]
    assert t.tolist() == list(range(1000))
    assert not t.readonly
    del filler


def test_a_list_of_them() -> None:
    parts = [tvm_ffi.from_dlpack(candle.full((3,), float(i))) for i in range(4)]
    assert candle.asarray(parts).tolist() == [[float(i)] * 3 for i in range(4)]
    assert candle.stack([candle.asarray(x) for x in parts]).shape == (4, 3)
