"""numpy's `__array__`, out: with a dtype, and with every `copy`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import candle


def test_a_dtype_is_cast_to_or_refused() -> None:
    """As numpy 2 has it: ValueError where copy=False cannot be met."""
    for name in ("float32", "bfloat16", "float8_e4m3fn", "int4"):
        t = candle.asarray([0.0, 1.0, 2.0]).to(name)
        for made in (t.__array__(np.float64), t.__array__("f8", copy=True), np.asarray(t, "f8")):
            assert (made.dtype, made.tolist()) == (np.dtype("f8"), [0, 1, 2])
            made[...] = 5
        assert t.tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match=rf"{name}.*without a copy|packed, several to a byte"):
            t.__array__(np.float64, copy=False)


def test_the_dtype_it_has_is_shared() -> None:
    t = candle.asarray([1.0, 2.0])
    for dtype in (None, "f4", np.float32, np.dtype("f4")):
        for copy in (None, False):
            assert t.__array__(dtype, copy=copy).ctypes.data == t.data_ptr()
        assert t.__array__(dtype=dtype, copy=True).ctypes.data != t.data_ptr()


class Marked(np.ndarray[Any, Any]):
    """A subclass, which is made a plain array of."""


class Gives:
    """An object with `__array__` and nothing else."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.given


def test_what_an_array_method_gives() -> None:
    array = np.arange(3.0)
    for given in (array, array.view(Marked)):
        t = candle.asarray(Gives(given), copy=False)
        assert (t.tolist(), t.data_ptr()) == ([0, 1, 2], array.ctypes.data)
    assert candle.asarray(Gives(np.float32(1.5))).item() == 1.5
    for wrong, said in ((5, "int"), ([1.0], "list"), (None, "None")):
        with pytest.raises(BufferError, match=said):
            candle.asarray(Gives(wrong))
    with pytest.raises(BufferError, match="mask"):
        candle.asarray(Gives(np.ma.masked_array([1.0], [True])))


def test_torch_functions_of_any_kind() -> None:
    """What has no name, or an odd one, is one that writes to nothing."""
    t = candle.arange(3)

    def whole(x: Any) -> Any:
        return type(x).__name__, x.tolist()

    for function in (functools.partial(whole), whole):
        pytest.importorskip("torch")
        assert candle.Tensor.__torch_function__(function, (), (t,)) == ("Tensor", [0, 1, 2])
    assert candle.Tensor.__torch_function__(lambda: 5, ()) == 5
    assert candle.Tensor.__torch_function__(whole, (), (t,), None) == ("Tensor", [0, 1, 2])

    class Numbered:
        __name__ = 5

        def __call__(self, x: Any, *, out: Any = None) -> Any:
            return whole(x), out is not None and whole(out)

    both = candle.Tensor.__torch_function__(Numbered(), (), (t,), {"out": candle.zeros(1)})
    assert both == (("Tensor", [0, 1, 2]), ("Tensor", [0]))
    whole.__name__ = "whole_"
    frozen = candle.asarray(bytes(4))
    with pytest.raises(ValueError, match="read-only"):
        candle.Tensor.__torch_function__(whole, (), (frozen,))
