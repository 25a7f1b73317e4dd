"""Addresses that are no multiple of what the elements, or a consumer, want."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest
from offers import ROADS, offers

import candle
from candle.ledger import listening
from candle.testing import info, shares_memory


def codes(plans: list[candle.Plan]) -> list[str]:
    return [str(reason.code) for plan in plans for reason in plan.reasons]


def placed(x: np.ndarray[Any, Any], start: int) -> np.ndarray[Any, Any]:
    """A copy of an array, at an address that is `start` mod 256."""
    block = np.empty(x.nbytes + 512, "uint8")
    first = (start - block.ctypes.data) % 256
    y = block[first : first + x.nbytes].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


def test_jax_is_told_no_lies_about_alignment(capfd: pytest.CaptureFixture[str]) -> None:
    # Case 59: jax-ml/jax#29810, jax-ml/jax#29963, jax-ml/jax#30228
    jax = pytest.importorskip("jax")
    jax.numpy.zeros(1)
    capfd.readouterr()
    for dtype, shape in (
        ("float32", (10,)),
        ("int8", (3, 5)),
        ("complex64", (2, 2, 2)),
        ("bool", (64,)),
    ):
        x = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
        for start in (0, 64, 128, 16, 8, 32, 192 + 16):
            y = placed(x, start)
            t = candle.asarray(y)
            plans: list[candle.Plan] = []
            if start % 64 == 0:
                for copy in (None, False):
                    assert t.jax(copy=copy).unsafe_buffer_pointer() == y.ctypes.data
                continue
            with pytest.raises(candle.CopyError, match="64"):
                t.jax(copy=False)
            with listening(plans.append):
                z = t.jax()
            assert codes(plans) == ["alignment"]
            assert z.tolist() == y.tolist()
            y[...] = 0
            assert z.tolist() == x.tolist()  # what was said to be a copy is one
    for size in (1, 7, 100, 5000, 300_000):  # candle's own memory, whatever the size
        t = candle.zeros((size,), dtype="int8")
        assert t.data_ptr() % 256 == 0
        assert shares_memory(t.jax(copy=False), t)
        assert shares_memory(candle.from_dlpack(jax.dlpack.from_dlpack(t)), t)
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""


@pytest.mark.parametrize("road", ROADS)
def test_below_the_item_is_a_copy(road: str) -> None:
    # Cases 60, 61: VoVAllen/tf-dlpack#4, VoVAllen/tf-dlpack#5, dmlc/dlpack#83, numpy/numpy#20338
    block = bytes(range(256)) * 2
    for (code, bits), start in itertools.product(
        ((0, 16), (1, 32), (2, 64), (2, 32), (4, 16), (5, 64), (5, 128), (0, 8)), range(1, 20)
    ):
        unit = bits // 16 if code == 5 else bits // 8  # of complex numbers the component
        [(_, producer, x)] = offers(
            road, data=block, shape=(3, 5), dtype=(code, bits), byte_offset=start
        )
        raw = ctypes.string_at(producer.address + start, 15 * bits // 8)
        aligned = start % unit == 0
        if not aligned:
            with pytest.raises(candle.CopyError, match=r"multiple|align"):
                candle.from_dlpack(x, copy=False)
            [(_, producer, x)] = offers(
                road, data=block, shape=(3, 5), dtype=(code, bits), byte_offset=start
            )
        plans: list[candle.Plan] = []
        with listening(plans.append):
            t = candle.from_dlpack(x)
        assert codes(plans) == ([] if aligned else ["misaligned"])
        assert (t.data_ptr() == producer.address + start) is aligned
        assert bytes(t.view("uint8").flatten().tolist()) == raw
        del t, x


def test_the_kernels_load_anything() -> None:
    # Case 60: VoVAllen/tf-dlpack#4. Casts, transposes and fills at every natural address.
    for dtype in ("int16", "float32", "float64", "complex64"):
        item = np.dtype(dtype).alignment
        for start in range(0, 64, item):
            y = placed(np.arange(96).reshape(8, 12).astype(dtype), start)
            t = candle.asarray(y, copy=False)
            assert t.data_ptr() == y.ctypes.data
            assert t.T.copy().tolist() == y.T.tolist()
            assert t[1:, 1:].to("complex128").tolist() == y[1:, 1:].astype("complex128").tolist()
            into = candle.asarray(placed(np.zeros((12, 8), dtype), 64 - start))
            into.copy_(t.T)
            assert into.tolist() == y.T.tolist()
            into.fill_(3)
            assert into[3:, 5].tolist() == [3] * 9


def test_arrays_of_numpy_at_any_address() -> None:
    # Cases 60, 61: numpy/numpy#20338. numpy says which are aligned.
    class Interface:
        def __init__(self, x: Any) -> None:
            self.x, self.__array_interface__ = x, x.__array_interface__

    for dtype, start in itertools.product(
        ("int16", "float32", "int64", "complex128"), (1, 2, 4, 8, 12)
    ):
        block = np.zeros(200 + start, "uint8")
        first = (start - block.ctypes.data) % 16
        y = block[first : first + 96].view(dtype)
        y[...] = np.arange(y.size)
        for source in (y, Interface(y), memoryview(y)):
            t = candle.asarray(source)
            assert t.tolist() == y.tolist()
            assert (t.data_ptr() == y.ctypes.data) is y.flags.aligned
            if not y.flags.aligned:
                with pytest.raises(candle.CopyError):
                    candle.asarray(source, copy=False)


def test_the_address_is_where_the_elements_are() -> None:
    # Case 61: dmlc/dlpack#83
    t = candle.zeros((40, 3), dtype="int16")
    for view in (t, t[1:], t[7:, 1:], t.T[2:], t[39, 2], t[5:9].view("uint8")):
        for max_version in (None, (1, 3)):
            fields = info(view.__dlpack__(max_version=max_version))
            assert (fields.data, fields.byte_offset) == (view.data_ptr(), 0)
    assert candle.empty((3,), align=4096).data_ptr() % 4096 == 0
