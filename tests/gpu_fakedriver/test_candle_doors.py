"""The named doors for memory on devices, torch's pinned memory, and a torch without its table."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import TYPE_CHECKING, Any

import isolation
import numpy as np
import pytest

import candle
from candle.frameworks import target
from candle.ledger import listening
from candle.testing import Producer, info, live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 64
SIZE = 4 * N


@pytest.fixture
def cupy(cupy: Any) -> Iterator[Any]:
    """The stand-in for cupy, which makes the copies."""
    if cupy is None:
        yield None
        return
    from candle.cuda import provider

    provider._loaded.clear()
    provider._loaded["torch"] = None
    yield cupy
    provider._loaded.clear()


@pytest.fixture
def plans() -> Iterator[list[candle.Plan]]:
    """The moves that copy."""
    seen: list[candle.Plan] = []
    with listening(seen.append):
        yield seen


def codes(plans: list[candle.Plan]) -> list[tuple[str, ...]]:
    return [tuple(reason.code for reason in plan.reasons) for plan in plans]


# cupy()


def test_cupy_shares(cupy: Any, driver: Driver, block: int, plans: list[candle.Plan]) -> None:
    """And its current stream comes after what is pending; the control is not ordered."""
    a, b = driver.stream(), cupy.cuda.Stream(non_blocking=True)
    t = candle.from_dlpack(Producer(block, shape=(8, 8), device=(2, 0)).capsule(), stream=a)
    driver.late_fill(a, block, 3.0, N)
    assert driver.read(block, b.ptr, N) != [3.0] * N
    with b:
        for view in (t, t.T, t[2:, ::3]):
            x = view.cupy()
            assert isinstance(x, cupy.ndarray)
            assert x.data.ptr == view.data_ptr()
            assert x.shape == view.shape
            assert [step // 4 for step in x.strides] == list(view.stride)
        assert driver.read(block, b.ptr, N) == [3.0] * N
        assert t.cupy(copy=False).data.ptr == block
    assert plans == []
    del x, view, t


def test_cupy_copies_on_request(
    cupy: Any, driver: Driver, block: int, plans: list[candle.Plan]
) -> None:
    a, b = driver.stream(), cupy.cuda.Stream(non_blocking=True)
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule(), stream=a)
    driver.late_fill(a, block, 4.0, N)
    with b:
        x = t.cupy(copy=True)
        assert x.data.ptr != block
        assert driver.read(x.data.ptr, b.ptr, N) == [4.0] * N
    assert codes(plans) == [("requested",)]
    del x, t


def test_cupy_turns_what_runs_backward(
    cupy: Any, driver: Driver, block: int, plans: list[candle.Plan]
) -> None:
    b = cupy.cuda.Stream(non_blocking=True)
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule())[::-1]
    with b:
        x = t.cupy()
        assert x.strides == (4,)
    assert codes(plans) == [("negative_stride",)]
    with pytest.raises(candle.CopyError):
        t.cupy(copy=False)
    del x, t


def test_cupy_of_memory_of_the_host(cupy: Any, driver: Driver, plans: list[candle.Plan]) -> None:
    """Copied once, to the device that is current in cupy."""
    t = candle.asarray(np.arange(12, dtype="float32").reshape(3, 4)).T
    for device in (0, 1):
        with cupy.cuda.Device(device):
            x = t.cupy()
            assert x.__dlpack_device__() == (2, device)
            stream = cupy.cuda.get_current_stream().ptr
            assert driver.read(x.data.ptr, stream, 12, device=device) == t.flatten().tolist()
    assert [plan.nbytes for plan in plans if "device" in codes([plan])[0]] == [48, 48]
    with pytest.raises(candle.CopyError):
        t.cupy(copy=False)
    del x


def test_cupy_is_not_given_what_it_would_write_to(
    cupy: Any, driver: Driver, block: int, plans: list[candle.Plan]
) -> None:
    """It has no read-only arrays: a copy, with one warning, or shared on the caller's word."""
    producer = Producer(block, shape=(N,), device=(2, 0), flags=1)
    t = candle.from_dlpack(producer.capsule())
    target._told.clear()
    with pytest.warns(candle.ReadOnlyCopyWarning, match=r"cupy\(copy=False\) shares"):
        x = t.cupy()
    assert x.data.ptr != block
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = t.cupy()
        assert t.cupy(copy=False).data.ptr == block
        assert t.cupy(copy=True).data.ptr != block
        assert candle.convert(t, "cupy", copy=False).data.ptr == block
        assert candle.convert([t], "cupy")[0].data.ptr != block
    assert codes(plans) == [("read_only",)] * 2 + [("requested",), ("read_only",)]
    assert cupy.from_dlpack(t).data.ptr == block  # the standard's door
    assert candle.explain(t, "cupy").action == "copy"
    del x, y, t
    driver.drain()
    gc.collect()
    assert producer.deletes == 1


@pytest.mark.parametrize("copy", [None, False, True])
def test_cupy_has_not_every_dtype(cupy: Any, driver: Driver, block: int, copy: bool | None) -> None:
    """What explain says is what happens."""
    bfloat16 = Producer(block, shape=(N,), device=(2, 0), dtype=(4, 16, 1))
    before = live()["exports"]
    for t in (candle.from_dlpack(bfloat16.capsule()), candle.zeros(3, dtype="bfloat16")):
        assert candle.explain(t, "cupy").action == "refuse"
        with pytest.raises(BufferError, match=r"cupy has no bfloat16"):
            t.cupy(copy=copy)
    assert live()["exports"] == before


@pytest.mark.parametrize("error", [RuntimeError, TypeError])
def test_what_a_framework_refuses_is_a_buffer_error(
    cupy: Any, driver: Driver, block: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    t = candle.from_dlpack(Producer(block, shape=(N,), device=(2, 0)).capsule())

    def refuse(_x: object) -> object:
        raise error("not here")

    monkeypatch.setattr(cupy, "from_dlpack", refuse)
    with pytest.raises(BufferError, match=r"cupy does not take memory on cuda:0: not here"):
        t.cupy()
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(jax.dlpack, "from_dlpack", refuse)
    with pytest.raises(BufferError, match=r"jax does not take memory on cuda:0: not here"):
        t.jax()
    with pytest.raises(error):  # of the host's memory its own error is
        candle.zeros((8, 8)).jax()


WITHOUT_CUDA = """
import fake_driver
driver = fake_driver.load()
import candle, torch
from candle.testing import Producer
t = candle.from_dlpack(Producer(driver.alloc(256), shape=(64,), device=(2, 0)).capsule())
for _ in range(2):
    try:
        t.torch()
    except BufferError as error:
        print(error)
"""


def test_a_torch_without_cuda(in_child: Any) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("torch has CUDA of its own")
    said = in_child(WITHOUT_CUDA).check().splitlines()
    assert said == ["torch does not say which stream is current: AssertionError: "
                    "Torch not compiled with CUDA enabled"] * 2  # fmt: skip


# torch's pinned memory


@pytest.fixture
def pinned(driver: Driver | None) -> Iterator[Any]:
    """A torch tensor over pinned memory, N float32."""
    if not isolation.is_child():
        yield None
        return
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("torch has CUDA of its own")
    import fake_torch_cuda
    from owned_capsules import owned_capsule

    fake_torch_cuda.install()
    address = driver.alloc(SIZE, kind="pinned")
    x = torch.from_dlpack(
        owned_capsule(
            address,
            lambda: driver.free(address),
            shape=(N,),
            strides=(1,),
            dtype=(2, 32),
            device=(1, 0),
        )
    )
    yield x
    del x


@pytest.mark.parametrize("kind", ["tensor", "Parameter", "subclass"])
def test_pinned_memory_is_announced_as_torch_does(pinned: Any, driver: Driver, kind: str) -> None:
    """Announced as pinned, which who works on a device asks for; exported as what torch takes."""
    torch = sys.modules["torch"]

    class Subclass(torch.Tensor):
        pass

    x = {
        "tensor": lambda: pinned,
        "Parameter": lambda: torch.nn.Parameter(pinned, requires_grad=False),
        "subclass": lambda: pinned.as_subclass(Subclass),
    }[kind]()
    t = candle.from_dlpack(x)
    assert t.device == "cpu"
    for view in (t, t[1:], t.view(8, 8).T):
        assert view.__dlpack_device__() == x.__dlpack_device__() == (3, 0)
        for keywords in ({}, {"stream": 1}, {"stream": -1}, {"dl_device": (3, 0)}):
            fields = info(view.__dlpack__(**keywords))
            assert (fields.device, fields.data) == ((1, 0), view.data_ptr())
    assert torch.from_dlpack(t).data_ptr() == t.torch().data_ptr() == x.data_ptr()
    assert np.from_dlpack(t).ctypes.data == x.data_ptr()
    assert candle.from_dlpack(torch.from_dlpack(t)).__dlpack_device__() == (3, 0)
    assert t.copy().__dlpack_device__() == (1, 0)
    del t, view


def test_pinned_memory_goes_to_the_host_part_of_jax(pinned: Any) -> None:
    pytest.importorskip("jax")
    t = candle.from_dlpack(pinned)
    assert t.jax().unsafe_buffer_pointer() == pinned.data_ptr()


def test_other_memory_of_torchs_is_not_pinned(pinned: Any) -> None:
    t = candle.from_dlpack(sys.modules["torch"].zeros(4))
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(ValueError, match="no streams"):
        t.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="no device"):
        t.__dlpack__(dl_device=(3, 0))


# A torch that has no exchange table

NO_TABLE = """
import fake_torch_cuda, torch
driver = fake_torch_cuda.install()
del torch.Tensor.__dlpack_c_exchange_api__
import candle
from candle.testing import live
N = 64
before = driver.counters()[:2]
def play():
    for device in (0, 1):
        for kind in (lambda x: x, lambda x: torch.nn.Parameter(x, requires_grad=False)):
            x = kind(torch.empty(N, device=f"cuda:{device}"))  # cuda:0 is current
            a, b = torch.cuda.Stream(device), driver.stream(device)
            with torch.cuda.stream(a):
                t = candle.from_dlpack(x)
            driver.late_fill(a.cuda_stream, x.data_ptr(), 5.0, N, device=device)
            assert driver.read(x.data_ptr(), b, N, device=device) != [5.0] * N
            t.__dlpack__(stream=b)
            assert driver.read(x.data_ptr(), b, N, device=device) == [5.0] * N
            fake_torch_cuda.recorded.clear()
            t[1:].record_stream(a)
            assert fake_torch_cuda.recorded == [(x.data_ptr(), a.cuda_stream)]
            address = x.data_ptr()
            x.data = torch.empty(N, device=f"cuda:{device}")  # re-seated: the memory is still held
            driver.view(address, 4 * N)
            driver.drain()
with driver.hold():
    play()
driver.drain()
assert (driver.counters()[:2], live()["tensors"]) == (before, 0)
print("end")
"""


def test_a_torch_without_an_exchange_table(in_child: Any) -> None:
    """From before DLPack 1.3: any device, the stream left, record_stream, re-seating."""
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None:
        pytest.skip("torch has CUDA of its own")
    assert in_child(NO_TABLE).check() == "end\n"
