"""Data in the byte order of another machine."""

from __future__ import annotations

import array
import ctypes
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.ledger import listening

if TYPE_CHECKING:
    from collections.abc import Callable

FOREIGN = ">" if sys.byteorder == "little" else "<"
DTYPES = ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")


class Interface:
    def __init__(self, x: Any) -> None:
        self.x, self.__array_interface__ = x, x.__array_interface__


class Struct:
    def __init__(self, x: Any) -> None:
        self.x, self.__array_struct__ = x, x.__array_struct__


class Array:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.x


ROADS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x,
    "subclass": lambda x: x.view(np.matrix) if x.ndim == 2 else x,
    "interface": Interface,
    "struct": Struct,
    "buffer": memoryview,
    "__array__": Array,
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "steps": lambda x: x[::2, 1::2],
    "backward": lambda x: x[::-1, ::-3],
    "0-d": lambda x: x[1, 2, ...],
    "row": lambda x: x[2],
    "broadcast": lambda x: np.broadcast_to(x[0], x.shape),
}


def codes(plans: list[candle.Plan]) -> set[str]:
    return {str(reason.code) for plan in plans for reason in plan.reasons}


@pytest.mark.parametrize("road", ROADS)
def test_foreign_numbers_are_swapped_by_a_copy(road: str) -> None:
    # Cases 62, 63: pytorch/pytorch#3671, pytorch/pytorch#541, cositools/cosipy#636, cupy/cupy#3652,
    # cupy/cupy#5320, cupy/cupy#5828
    for name in DTYPES:
        base = ((np.arange(24) - 3) * 1.5).reshape(4, 6).astype(FOREIGN + name)
        for view in VIEWS.values():
            x = view(base)
            source = ROADS[road](x)
            plans: list[candle.Plan] = []
            with listening(plans.append):
                t = candle.asarray(source)
            assert t.tolist() == x.tolist()
            assert t.dtype == x.dtype.newbyteorder("=")
            assert "byte_order" in codes(plans)
            assert len(plans) == 1
            with pytest.raises(candle.CopyError, match=r"byte.?order|byte order") as caught:
                candle.asarray(source, copy=False)
            assert "newbyteorder" in str(caught.value)  # the cure
            with candle.strict(), pytest.raises(candle.CopyError):
                candle.asarray(source)
            assert candle.asarray(source, dtype="complex128").tolist() == x.astype("c16").tolist()


def test_the_remedy_that_is_named_works() -> None:
    # Case 63: cositools/cosipy#636
    torch = pytest.importorskip("torch")
    x = np.linspace(0, 1, 12, dtype=FOREIGN + "f8").reshape(3, 4)
    native = x.astype(x.dtype.newbyteorder("="))
    with candle.strict():
        assert candle.asarray(native).data_ptr() == native.ctypes.data
    assert candle.asarray(x).torch().tolist() == x.tolist()
    assert torch.isfinite(candle.from_dlpack(x).torch()).all()


def test_one_byte_has_no_order() -> None:
    # Case 62: pytorch/pytorch#3671
    for name in ("u1", "i1", "?"):
        x = np.arange(6).astype(FOREIGN + name)
        assert candle.asarray(x, copy=False).data_ptr() == x.ctypes.data
        assert candle.asarray(Interface(x), copy=False).data_ptr() == x.ctypes.data


def test_foreign_buffers_of_the_standard_library() -> None:
    # Case 62: pytorch/pytorch#3671. ctypes has types of the other order.
    foreign = ctypes.c_int32.__ctype_be__ if FOREIGN == ">" else ctypes.c_int32.__ctype_le__
    block = (foreign * 3)(1, -2, 70000)
    t = candle.asarray(block)
    assert t.tolist() == [1, -2, 70000]
    assert t.data_ptr() != ctypes.addressof(block)
    with pytest.raises(candle.CopyError):
        candle.asarray(block, copy=False)
    swapped = array.array("h", [1, 2, 3])
    swapped.byteswap()  # says nothing of it: these are other numbers, and native
    assert candle.asarray(swapped).tolist() == [256, 512, 768]
