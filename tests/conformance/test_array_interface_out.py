"""`Tensor.__array_interface__` and `Tensor.__array__`: what numpy makes of a Tensor."""

from __future__ import annotations

import gc
from typing import Any

import layouts
import pytest

import candle
from candle.testing import live

NATIVE = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NATIVE += ["float16", "float32", "float64", "complex64", "complex128"]
OTHERS = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


@pytest.mark.parametrize("dtype", NATIVE)
def test_interface_of_native_dtypes(framework: Any, dtype: str) -> None:
    np = framework("numpy")
    t = candle.zeros((2, 3), dtype=dtype)
    interface = t.__array_interface__
    assert interface["version"] == 3
    assert interface["shape"] == (2, 3)
    assert interface["typestr"] == np.dtype(dtype).str
    assert interface["data"] == (t.data_ptr(), False)
    array = np.asarray(t)
    assert (array.dtype, array.ctypes.data) == (np.dtype(dtype), t.data_ptr())


@pytest.mark.parametrize("dtype", OTHERS)
def test_no_interface_for_other_dtypes(framework: Any, dtype: str) -> None:
    """So that numpy goes on to `__array__`, which knows them."""
    np, ml_dtypes = framework("numpy"), framework("ml_dtypes")
    t = candle.zeros((2, 3), dtype=dtype)
    with pytest.raises(AttributeError, match=rf"no {dtype}; t\.numpy"):
        t.__array_interface__  # noqa: B018
    assert not hasattr(t, "__array_interface__")
    array = np.asarray(t)
    assert array.dtype == np.dtype(getattr(ml_dtypes, dtype))
    assert array.ctypes.data == t.data_ptr()


@pytest.mark.parametrize("make", [pytest.param(m, id=n) for n, m in layouts.LAYOUTS.items()])
def test_interface_of_every_layout(framework: Any, make: Any) -> None:
    """Negative strides go out as they are."""
    np = framework("numpy")
    t = make()
    if str(t.dtype) == "bfloat16":
        assert np.asarray(t).tolist() == t.tolist()
        return
    interface = t.__array_interface__
    strides = interface.get("strides")
    assert strides is None or isinstance(strides, tuple)
    assert interface["data"][1] == t.readonly
    array = np.asarray(t)
    assert array.shape == t.shape
    assert array.tolist() == t.tolist()
    assert array.flags.writeable == (not t.readonly)
    if t.size > 0:
        assert array.ctypes.data == t.data_ptr()
        kept = [
            (theirs, mine * t.itemsize)
            for extent, theirs, mine in zip(t.shape, array.strides, t.stride, strict=True)
            if extent > 1
        ]
        assert all(theirs == mine for theirs, mine in kept)


def test_numpy_array_holds_the_storage(framework: Any) -> None:
    np = framework("numpy")
    before = live()
    array = np.asarray(layouts.counting(1000))
    junk = [candle.full((1000,), 7.0) for _ in range(20)]
    assert array.tolist() == list(range(1000))
    del array, junk
    gc.collect()
    assert live() == before


def test_interface_dict_is_fresh() -> None:
    t = layouts.counting(4)
    t.__array_interface__["shape"] = (99,)
    assert t.__array_interface__["shape"] == (4,)


@pytest.mark.parametrize("dtype", [None, "float32", "float64", "int8"])
@pytest.mark.parametrize("copy", [None, True])
def test_array_method(framework: Any, dtype: str | None, copy: bool | None) -> None:
    np = framework("numpy")
    t = layouts.counting(2, 3)
    array = t.__array__(dtype, copy=copy) if dtype else t.__array__(copy=copy)
    assert isinstance(array, np.ndarray)
    assert array.dtype == np.dtype(dtype or "float32")
    assert array.tolist() == t.tolist()
    shared = copy is None and dtype in (None, "float32")
    assert (array.ctypes.data == t.data_ptr()) == shared


def test_array_method_without_a_copy(framework: Any) -> None:
    np = framework("numpy")
    t = layouts.counting(2, 3)
    assert t.__array__(copy=False).ctypes.data == t.data_ptr()
    assert np.asarray(t, copy=False).ctypes.data == t.data_ptr()
    with pytest.raises(ValueError, match=r"(?i)copy"):
        t.__array__(np.dtype("int8"), copy=False)
    with pytest.raises(ValueError, match=r"(?i)copy"):
        np.array(candle.zeros((2,), dtype="bfloat16"), dtype="float32", copy=False)


def test_numpy_functions_take_tensors(framework: Any) -> None:
    np = framework("numpy")
    t = layouts.counting(2, 3)
    assert np.array(t, copy=True).ctypes.data != t.data_ptr()
    assert np.add(np.asarray(t), 1).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert np.asarray(t, dtype="f8").tolist() == t.tolist()
    assert np.sum(np.asarray(candle.ones((3,), dtype="bfloat16")).astype("f4")) == 3


def test_there_is_no_struct_out() -> None:
    """One native description is enough; numpy takes the other."""
    assert not hasattr(layouts.counting(2), "__cuda_array_interface__")
