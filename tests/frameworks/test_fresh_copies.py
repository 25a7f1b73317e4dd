"""Tensors that leave their framework as a copy only, by a stand-in for tensorflow's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import candle
from candle.ledger import listening


class DType:
    name = "float8_e5m2"  # which tensorflow's DLPack lacks


class EagerTensor:
    """Told from its module as tensorflow's tensors are."""

    __module__ = "tensorflow.python.framework.ops"
    dtype = DType()

    def __init__(self) -> None:
        self.made: list[Any] = []

    def numpy(self) -> Any:
        self.made.append(np.array([1.0, 2.0, -4.0], ml_dtypes.float8_e5m2))
        return self.made[-1]


def test_the_one_copy_is_what_it_becomes() -> None:
    """Told as the copy that it is, and not copied again."""
    for copy in (None, True):
        x, told = EagerTensor(), list[candle.Plan]()
        with listening(told.append):
            t = candle.asarray(x, copy=copy)
        assert (t.tolist(), str(t.dtype)) == ([1, 2, -4], "float8_e5m2")
        [array] = x.made
        assert t.data_ptr() == array.ctypes.data
        [plan] = told
        assert (plan.action, plan.nbytes) == ("copy", 3)
        assert "no_export" in [reason.code for reason in plan.reasons]
        assert not t.readonly


def test_what_else_is_asked_for_is_made_of_it() -> None:
    x = EagerTensor()
    t = candle.asarray(x, dtype="float64")
    assert (t.tolist(), str(t.dtype)) == ([1, 2, -4], "float64")
    into = candle.zeros(3)
    into.copy_(x)
    assert into.tolist() == [1, 2, -4]
    same = candle.zeros(3, dtype="float8_e5m2")
    same.copy_(x)
    assert same.tolist() == [1, 2, -4]
    assert len(x.made) == 3


def test_it_is_not_shared() -> None:
    with pytest.raises(candle.CopyError) as caught:
        candle.asarray(EagerTensor(), copy=False)
    assert [reason.code for reason in caught.value.plan.reasons] == ["no_export"]
    plan = candle.explain(EagerTensor())
    assert (plan.action, plan.nbytes) == ("copy", 3)
