"""Moves and copies on a real device: addresses, values, memory that comes back."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Iterator

DTYPES = ("float32", "float16", "bfloat16", "int64", "bool", "complex64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_gets_its_own_memory_back(torch: Any, dtype: str) -> None:
    x = torch.zeros(4, 6, device="cuda", dtype=getattr(torch, dtype))
    for view in (x, x.t(), x[1:, ::2], x[:0], x[0, 0]):
        t = candle.from_dlpack(view)
        for back in (torch.from_dlpack(t), t.torch(), t.torch(copy=False)):
            assert (back.shape, back.stride(), back.dtype) == (
                view.shape,
                view.stride(),
                view.dtype,
            ) or view.numel() <= 1
            assert back.data_ptr() == view.data_ptr() or view.numel() == 0
        assert t.device == "cuda:0"


def test_cupy_and_torch_share(torch: Any, cupy: Any) -> None:
    a = cupy.arange(24, dtype="float32").reshape(4, 6)
    t = candle.from_dlpack(a)
    assert torch.from_dlpack(t).data_ptr() == a.data.ptr
    assert cupy.from_dlpack(t).data.ptr == a.data.ptr
    assert cupy.asarray(candle.asarray(t)).data.ptr == a.data.ptr


def test_the_door_to_cupy(torch: Any, cupy: Any) -> None:
    x = torch.arange(24, dtype=torch.float32, device="cuda").reshape(4, 6)
    t = candle.from_dlpack(x)
    for view in (t, t.T, t[1:, ::2]):
        a = view.cupy()
        assert a.data.ptr == view.data_ptr()
        assert a.tolist() == view.tolist()
    assert t[::-1].cupy().tolist() == t[::-1].tolist()
    assert candle.asarray(VALUES).cupy().tolist() == VALUES.tolist()
    with pytest.raises(BufferError, match="cupy has no bfloat16"):
        t.to("bfloat16").cupy()


def test_jax_shares(torch: Any, jax: Any) -> None:
    x = torch.arange(24, dtype=torch.float32, device="cuda").reshape(4, 6)
    j = candle.from_dlpack(x).jax()
    assert j.unsafe_buffer_pointer() == x.data_ptr()
    t = candle.from_dlpack(jax.numpy.arange(6.0))
    assert t.readonly
    assert torch.from_dlpack(t).tolist() == [0, 1, 2, 3, 4, 5]


def test_pinned_memory(torch: Any) -> None:
    x = torch.arange(1024, dtype=torch.float32).pin_memory()
    t = candle.from_dlpack(x)
    assert t.__dlpack_device__() == x.__dlpack_device__() == t[1:].__dlpack_device__()
    assert np.from_dlpack(t).ctypes.data == t.numpy().ctypes.data == x.data_ptr()
    assert torch.from_dlpack(t).data_ptr() == t.torch().data_ptr() == x.data_ptr()


@pytest.fixture(params=["torch", "cupy"])
def provider(request: pytest.FixtureRequest) -> Iterator[str]:
    """The one framework that makes copies."""
    request.getfixturevalue(request.param)
    from candle.cuda import provider

    kept = provider._loaded.copy()
    provider._loaded.clear()
    provider._loaded[{"torch": "cupy", "cupy": "torch"}[request.param]] = None
    yield request.param
    provider._loaded.clear()
    provider._loaded.update(kept)


VALUES = np.arange(24, dtype="float32").reshape(4, 6)


def test_copies_of_every_layout(provider: str) -> None:
    t = candle.asarray(VALUES).to("cuda")
    assert t.device == "cuda:0"
    for key in np.s_[:, :], np.s_[::-1], np.s_[1:3, ::2], np.s_[::-2, ::-1], np.s_[:0], np.s_[2, 3]:
        part, wanted = t[key], VALUES[key]
        assert part.contiguous().numpy().tolist() == wanted.tolist()
        assert part.T.contiguous().tolist() == wanted.T.tolist() if part.ndim == 2 else True
        assert part.to("float64").tolist() == wanted.tolist()
        assert part.tolist() == part.to("cpu").tolist() == wanted.tolist()


def test_casts_and_creation(provider: str) -> None:
    t = candle.arange(6, dtype="float32", device="cuda")
    for name in ("float64", "float16", "int8", "bool", "complex64"):
        assert t.to(name).numpy().tolist() == np.arange(6.0).astype(name).tolist()
    assert candle.full((3,), 1.5, dtype="bfloat16", device="cuda").tolist() == [1.5] * 3
    assert candle.cat([t, t]).tolist() == [*range(6), *range(6)]
    if provider == "torch":
        assert t.to("float8_e4m3fn").to("cpu").to("float32").tolist() == list(range(6))


def test_writes(provider: str) -> None:
    model = VALUES.copy()
    t = candle.asarray(model).to("cuda")
    writes: list[tuple[Any, Any]] = [
        (np.s_[:, 0], 7.0),
        (np.s_[::-1, 1:3], VALUES[:, 3:5]),
        (np.s_[1], VALUES[0, ::-1]),
        (np.s_[:, 4:], VALUES[:, :2].astype("int64")),
    ]
    for key, value in writes:
        model[key] = value
        t[key] = value if isinstance(value, float) else candle.asarray(value).to("cuda")
        assert t.tolist() == model.tolist()
    t[:, 1:] = t[:, :-1]
    model[:, 1:] = model[:, :-1].copy()
    assert t.tolist() == model.tolist()


def test_all_memory_comes_back(torch: Any, cupy: Any) -> None:
    gc.collect()
    torch.cuda.synchronize()
    pool = cupy.get_default_memory_pool()
    before = torch.cuda.memory_allocated(), pool.used_bytes()
    for _ in range(2000):
        x, a = torch.empty(1 << 16, device="cuda"), cupy.empty(1 << 14, "float32")
        cupy.from_dlpack(candle.from_dlpack(x))
        torch.from_dlpack(candle.from_dlpack(a))
        candle.from_dlpack(x)
    del x, a
    gc.collect()
    torch.cuda.synchronize()
    assert (torch.cuda.memory_allocated(), pool.used_bytes()) == before


def test_recorded_streams_keep_memory(torch: Any, cupy: Any) -> None:
    """The block is given out again while a consumer still reads it."""
    spin = cupy.RawKernel(
        'extern "C" __global__ void spin(long long n) {'
        " long long t = clock64(); while (clock64() - t < n); }",
        "spin",
    )
    side = cupy.cuda.Stream(non_blocking=True)
    for _ in range(3):
        x = torch.full((1 << 22,), 5.0, device="cuda")
        t = candle.from_dlpack(x)
        with side:
            c = cupy.from_dlpack(t)
            spin((1,), (1,), (40_000_000,))
            z = c.copy()
        t.record_stream(side)
        del x, t, c
        y = torch.full((1 << 22,), 9.0, device="cuda")
        side.synchronize()
        assert float(z[0]) == 5.0
        del y, z


AT_EXIT = """
import builtins, torch, cupy, candle
x, a = torch.ones(9, device="cuda"), cupy.ones(9)
t, u = candle.from_dlpack(x), candle.from_dlpack(a)
builtins.keep = [t, u, cupy.from_dlpack(t), torch.from_dlpack(u), t.to("float64")]
u.record_stream(cupy.cuda.Stream())
"""


@pytest.mark.usefixtures("torch", "cupy")
def test_the_interpreter_ends(in_child: Any) -> None:
    assert in_child(AT_EXIT).returncode == 0
