"""What users of HuggingFace candle's Python API write, with nothing lost on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import candle

EXACT = [
    ("int8", -3),
    ("int16", -300),
    ("int32", 1),
    ("int64", 2**40),
    ("uint8", 200),
    ("uint16", 60_000),
    ("uint32", 2**32 - 1),
    ("uint64", 2**64 - 1),
    ("float16", 0.1),
    ("float32", 16777216.0),
    ("float64", 1e300),
    ("bfloat16", 1.5),
    ("complex64", 1 + 2j),
    ("complex128", 1 - 2j),
    ("bool", True),
]


@pytest.mark.parametrize(("dtype", "value"), EXACT)
def test_torch_tensor_there_and_back(framework: Any, dtype: str, value: Any) -> None:
    """The dtype is the tensor's own, never guessed from the values; nothing goes through lists."""
    torch = framework("torch")
    x = torch.full((2, 3), value, dtype=getattr(torch, dtype))
    t = candle.Tensor(x)
    assert str(t.dtype) == dtype
    assert t.data_ptr() == x.data_ptr()
    back = t.to_torch()
    assert (back.dtype, back.data_ptr(), back.shape) == (x.dtype, x.data_ptr(), x.shape)
    assert t.values() == x.tolist()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 1, 3), (1, 2, 1, 2), (1,) * 5, (2,) * 8])
def test_any_rank_in_and_out(framework: Any, shape: tuple[int, ...]) -> None:
    """No limit of three axes, and tensors of one element keep theirs."""
    torch = framework("torch")
    x = torch.ones(shape)
    for source in (x, x.numpy(), x.tolist()):
        t = candle.Tensor(source)
        assert t.shape == shape
        assert t.rank == len(shape)
        assert t.to_torch().shape == x.shape
        assert t.values() == x.tolist()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_tensors_keep_shape_and_dtype(framework: Any, shape: tuple[int, ...]) -> None:
    torch = framework("torch")
    t = candle.Tensor(torch.empty(shape, dtype=torch.float64))
    assert (t.shape, str(t.dtype), t.nelement) == (shape, "float64", 0)
    assert t.to_torch().shape == shape
    assert str(candle.Tensor(np.empty(shape, np.uint8)).dtype) == "uint8"


def test_values_decide_nothing() -> None:
    assert str(candle.Tensor(np.array([1, 2], np.int32)).dtype) == "int32"
    assert str(candle.Tensor(np.array([True, False])).dtype) == "bool"
    assert str(candle.Tensor([True, False]).dtype) == "bool"
    assert str(candle.Tensor([1, 2, 3]).dtype) == "int64"
    assert str(candle.Tensor([-1, 2**40]).dtype) == "int64"
    assert str(candle.Tensor([1.0, 2]).dtype) == "float32"
    assert candle.Tensor(np.array([0.1])).values() == [0.1]
    assert candle.Tensor(np.array([2**63], np.uint64)).values() == [2**63]
    assert candle.Tensor(np.array([1, 2], ">f4")).values() == [1, 2]
    with pytest.raises(BufferError):
        candle.Tensor(np.array([1, 2], dtype=object))


def test_complex_keeps_its_imaginary_part() -> None:
    t = candle.Tensor(np.array([1 + 2j], np.complex64))
    assert (str(t.dtype), t.values()) == ("complex64", [1 + 2j])


def test_candle_tensors_and_nested_lists() -> None:
    t = candle.Tensor([[[[1.0, 2.0]]]])
    assert t.shape == (1, 1, 1, 2)
    assert candle.Tensor(t).data_ptr() == t.data_ptr()
    assert candle.Tensor(range(4)).values() == [0, 1, 2, 3]
    assert candle.Tensor(((1, 2), (3, 4))).values() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="ragged"):
        candle.Tensor([[1, 2], [3]])
    for nothing in ("text", None, {"a": 1}):
        with pytest.raises(TypeError):
            candle.Tensor(nothing)


def test_refusals_are_ordinary_exceptions_with_the_cause(framework: Any) -> None:
    torch = framework("torch")
    for x in (torch.ones(1, requires_grad=True), torch.eye(2).to_sparse()):
        with pytest.raises(BufferError, match=r"detach|to_dense"):
            candle.Tensor(x)
    assert candle.Tensor(torch.ones(2, dtype=torch.complex64).conj()).values() == [1, 1]


def test_tensor_function_always_copies() -> None:
    a = np.arange(3.0)
    t = candle.tensor(a)
    a[0] = 9
    assert t.values() == [0, 1, 2]
    assert candle.tensor([1.0, 2.0]).values() == [1, 2]
    assert candle.tensor(t).data_ptr() != t.data_ptr()
    assert str(candle.tensor([1, 2], dtype=candle.bf16).dtype) == "bfloat16"


def test_properties() -> None:
    t = candle.zeros((2, 3))
    assert (t.shape, t.stride, t.rank, t.nelement) == ((2, 3), (3, 1), 2, 6)
    assert t.is_contiguous()
    assert not t.is_fortran_contiguous()
    assert t.T.is_fortran_contiguous()
    assert str(t.device) == "cpu"


@pytest.mark.parametrize("name", ["bf16", "f16", "f32", "f64", "i64", "u32", "u8"])
def test_dtype_names(name: str) -> None:
    dtype = getattr(candle, name)
    t = candle.zeros((2, 3), dtype=dtype)
    assert t.dtype is dtype
    assert t.dtype == dtype
    assert t.dtype == name
    assert candle.ones((2,), dtype=name).dtype == dtype


def test_creation() -> None:
    assert candle.zeros((2, 3)).values() == [[0, 0, 0], [0, 0, 0]]
    assert candle.ones((2,)).values() == [1, 1]
    assert candle.rand((3,)).shape == (3,)
    assert candle.rand(3).shape == (3,)
    assert candle.randn(2, 3).shape == (2, 3)


def test_joining(framework: Any) -> None:
    a, b = candle.ones((2, 3)), candle.zeros((2, 3))
    assert candle.cat([a, b], 0).shape == (4, 3)
    assert candle.cat([a, b], 1).shape == (2, 6)
    assert candle.stack([a, b], 0).shape == (2, 2, 3)
    assert candle.stack([a, b], 0).values() == [a.values(), b.values()]
    torch = framework("torch")
    assert candle.cat([torch.ones(2), np.zeros(1, np.float32)], 0).values() == [1, 1, 0]


def test_views_and_conversions() -> None:
    t = candle.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert t.narrow(1, 1, 2).values() == [[2, 3], [5, 6]]
    assert t.narrow(1, 1, 2).data_ptr() == t.data_ptr() + 4
    assert t.transpose(0, 1).values() == t.T.values() == [[1, 4], [2, 5], [3, 6]]
    assert t.t().values() == t.T.values() if hasattr(t, "t") else True
    assert t.unsqueeze(0).shape == (1, 2, 3)
    assert t.unsqueeze(0).squeeze(0).shape == (2, 3)
    assert t.reshape((3, 2)).values() == [[1, 2], [3, 4], [5, 6]]
    assert t[0].broadcast_as((2, 3)).values() == [[1, 2, 3], [1, 2, 3]]
    assert t.to_dtype(candle.i64).values() == [[1, 2, 3], [4, 5, 6]]
    assert t.to_device("cpu").values() == t.values()
    assert t.copy().values() == t.contiguous().values() == t.values()
    assert [row.values() for row in t] == t.values()
    assert len(t) == 2


def test_bytes_are_one_element_each() -> None:
    for data in (b"\1\2", bytearray(b"\1\2"), memoryview(b"\1\2")):
        t = candle.Tensor(data)
        assert (str(t.dtype), t.values()) == ("uint8", [1, 2])
