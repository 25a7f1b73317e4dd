"""triton: what a kernel's signature is made of, for Tensors as for torch's."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import load  # type: ignore[import-not-found]

import candle

pytestmark = pytest.mark.isolated(together="file")  # its LLVM does not bear another beside it


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    ],
)
def test_pointers(triton: Any, dtype: str) -> None:
    jit = load("triton.runtime.jit")
    torch = load("torch")
    t = candle.zeros(4, dtype=dtype)
    x = torch.zeros(4, dtype=getattr(torch, dtype))
    assert jit.mangle_type(t) == jit.mangle_type(x)
    assert str(t.dtype).rpartition(".")[2] == str(x.dtype).rpartition(".")[2] == dtype


def test_alignment(triton: Any) -> None:
    """Pointers at multiples of 16 bytes are told apart."""
    backend = load("triton.backends.compiler").BaseBackend
    native = load("triton._C.libtriton").native_specialize_impl
    load("torch")

    def said(x: Any) -> Any:
        return native(backend, x, False, True, True)

    for t in (candle.zeros(8), candle.zeros(9)[1:]):
        assert said(t) == said(t.torch())
    assert said(candle.zeros(8)) != said(candle.zeros(9)[1:])
