"""Elements smaller than a byte, between the frameworks that have them: packed, or one a byte."""

from __future__ import annotations

import ctypes
from typing import Any

import meeting
import ml_dtypes
import numpy as np
import pytest

import candle
from candle.testing import info

ROWS, COLUMNS = 6, 8

LAYOUTS = {
    "contiguous": lambda x: x,
    "later rows": lambda x: x[1:],
    "every other row": lambda x: x[1:6:2],
    "later columns": lambda x: x[:, 4:8],
    "transposed": lambda x: x.T,
    "0-d": lambda x: x[2, 4, ...],
    "empty": lambda x: x[2:2],
}


def _bits(dtype: str) -> int:
    return meeting.DLPACK[dtype][1]


def _codes(dtype: str) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(4)
    return random.integers(0, 2 ** _bits(dtype), (ROWS, COLUMNS), np.uint8)


def _padded(dtype: str) -> np.ndarray[Any, Any]:
    """One element a byte, as ml_dtypes has them: what it makes of the codes' values."""
    codes = meeting.aligned_bytes(_codes(dtype)).reshape(ROWS, COLUMNS)
    return codes.view(np.dtype(getattr(ml_dtypes, dtype)))


def _packed(dtype: str) -> candle.Tensor:
    """Element i at bit `i * bits`, from the low end of each byte."""
    whole = sum(int(code) << i * _bits(dtype) for i, code in enumerate(_codes(dtype).ravel()))
    t = candle.empty((ROWS, COLUMNS), dtype=dtype)
    assert t.nbytes == ROWS * COLUMNS * _bits(dtype) // 8
    ctypes.memmove(t.data_ptr(), whole.to_bytes(t.nbytes, "little"), t.nbytes)
    return t


def _values(dtype: str, layout: str) -> Any:
    return LAYOUTS[layout](_padded(dtype)).astype(np.float64).tolist()


cases = pytest.mark.parametrize("layout", LAYOUTS)
dtypes = pytest.mark.parametrize("dtype", meeting.SUB_BYTE)


@dtypes
@cases
def test_padded_arrays_of_ml_dtypes_are_shared_both_ways(dtype: str, layout: str) -> None:
    array = LAYOUTS[layout](_padded(dtype))
    t = candle.asarray(array)
    assert (str(t.dtype), t.shape) == (dtype, array.shape)
    assert t.tolist() == _values(dtype, layout)
    assert array.size == 0 or t.data_ptr() == array.ctypes.data
    out = t.numpy(copy=False)
    assert out.dtype == array.dtype
    assert array.size == 0 or out.ctypes.data == array.ctypes.data
    assert out.astype(np.float64).tolist() == _values(dtype, layout)


@dtypes
@cases
def test_packed_elements_towards_numpy_are_unpacked(dtype: str, layout: str) -> None:
    t = LAYOUTS[layout](_packed(dtype))
    assert t.tolist() == _values(dtype, layout)
    if t.size:
        plan = meeting.refused(t.numpy, copy=False)
        assert [reason.code for reason in plan.reasons] == ["packed"]
    for out in (t.numpy(), t.numpy(copy=True), np.asarray(t)):
        assert out.dtype == np.dtype(getattr(ml_dtypes, dtype))
        assert out.shape == t.shape
        assert out.astype(np.float64).tolist() == _values(dtype, layout)


@dtypes
def test_there_and_back_keeps_the_codes(dtype: str) -> None:
    packed = _packed(dtype)
    back = candle.asarray(packed.numpy()).copy()
    assert back.nbytes == packed.nbytes
    assert ctypes.string_at(back.data_ptr(), back.nbytes) == ctypes.string_at(
        packed.data_ptr(), packed.nbytes
    )


@dtypes
@cases
def test_tvm_ffi_takes_packed_elements_shared(framework: Any, dtype: str, layout: str) -> None:
    tvm_ffi = framework("tvm_ffi")
    t = LAYOUTS[layout](_packed(dtype))
    x = tvm_ffi.from_dlpack(t)
    assert info(x.__dlpack__()).dtype == meeting.DLPACK[dtype]
    assert t.size == 0 or x.data_ptr() == t.data_ptr()
    back = candle.from_dlpack(x)
    assert (str(back.dtype), back.shape) == (dtype, t.shape)
    assert t.size == 0 or back.data_ptr() == t.data_ptr()
    assert back.tolist() == _values(dtype, layout)


@dtypes
@cases
def test_tvm_ffi_never_misreads_padded_elements(framework: Any, dtype: str, layout: str) -> None:
    """It knows packed ones only, and does not tell them apart."""
    tvm_ffi = framework("tvm_ffi")
    x = tvm_ffi.from_dlpack(candle.asarray(LAYOUTS[layout](_padded(dtype))))
    assert candle.from_dlpack(x).tolist() == _values(dtype, layout)


@pytest.mark.parametrize("consumer", ["torch", "jax"])
@dtypes
def test_consumers_without_the_dtype(framework: Any, dtype: str, consumer: str) -> None:
    framework(consumer)
    for t in (_packed(dtype), candle.asarray(_padded(dtype))):
        for copy in (None, False, True):
            with pytest.raises(BufferError, match=rf"{consumer}.*{dtype}.*\.to\("):
                getattr(t, consumer)(copy=copy)


def test_fp4_of_jax_comes_in_packed(framework: Any) -> None:
    jnp = framework("jax").numpy
    array = _padded("float4_e2m1fn")
    x = jnp.asarray(array)
    t = candle.asarray(x)
    assert (str(t.dtype), t.shape, t.readonly) == ("float4_e2m1fn", (ROWS, COLUMNS), True)
    assert t.nbytes == ROWS * COLUMNS // 2
    assert t.tolist() == _values("float4_e2m1fn", "contiguous")


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_integers_of_jax_are_copied(framework: Any, dtype: str) -> None:
    """jax itself does not export them."""
    jnp = framework("jax").numpy
    t = candle.from_dlpack(jnp.asarray(_padded(dtype)))
    assert (str(t.dtype), t.readonly) == (dtype, False)
    assert t.tolist() == _values(dtype, "contiguous")


def test_pairs_of_torch_keep_their_shape(framework: Any) -> None:
    torch = framework("torch")
    x = torch.arange(12, dtype=torch.uint8).reshape(3, 4).view(torch.float4_e2m1fn_x2)
    t = candle.from_dlpack(x)
    assert (str(t.dtype), t.shape, t.nbytes) == ("float4_e2m1fn_x2", (3, 4), 12)
    y = t.torch()
    assert (y.dtype, y.shape, y.data_ptr()) == (x.dtype, x.shape, x.data_ptr())
    with pytest.raises(BufferError):
        t.numpy()
