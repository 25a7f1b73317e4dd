"""Faults of other libraries on GPUs, of which the fake driver shows that candle has none.

docs/reliability.md says which case is shown where; most are in the other files here.
"""

from __future__ import annotations

import gc
import itertools
import os
import struct
from typing import TYPE_CHECKING, Any

import isolation
import numpy as np
import pytest

import candle
from candle.testing import Producer, info

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 48
SIZE = 4 * N


@pytest.fixture
def cupy(driver: Driver | None) -> Iterator[Any]:
    """The stand-in for cupy; None in the parent process."""
    if not isolation.is_child():
        yield None
        return
    import fake_cupy

    from candle.cuda import provider

    module = fake_cupy.install()
    kept = provider._loaded.copy()
    provider._loaded.clear()
    provider._loaded["torch"] = None
    yield module
    driver.drain()
    gc.collect()
    provider._loaded.clear()
    provider._loaded.update(kept)


class Interface:
    def __init__(self, address: int, **fields: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": (N,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
            **fields,
        }


def test_the_pointer_says_what_memory_it_is(driver: Driver) -> None:
    # Cases 79, 81, 84: pytorch/pytorch#96318, NVIDIA/cuda-python#1863, NVIDIA/MatX#1234,
    # rapidsai/cuvs#2239
    for kind, device in itertools.product(("device", "managed"), (0, 1)):
        address = driver.alloc(SIZE, device, kind=kind)
        for offset in (0, 64):
            t = candle.asarray(Interface(address + offset, shape=(4, 8)))
            assert t.__dlpack_device__() == (2, device)  # as torch and jax take it
            for view in (t, t[1:], t.T):
                fields = info(view.__dlpack__(stream=-1, max_version=(1, 3)))
                assert (fields.device, fields.data) == ((2, device), view.data_ptr())
            assert str(t.device) == f"cuda:{device}"
            del t, view
        driver.free(address)
    for device in (0, 1):  # by DLPack too, whatever the producer's device number is
        address = driver.alloc(SIZE, device, kind="managed")
        for announced in ((13, device), (2, device)):
            t = candle.from_dlpack(Producer(address, shape=(N,), device=announced).capsule())
            assert t.__dlpack_device__() == (2, device)
            del t
        driver.free(address)


def test_no_pointer_is_looked_up_of_nothing(driver: Driver) -> None:
    # Cases 44, 45: NVIDIA/cuda-python#1396, pytorch/pytorch#98133, cupy/cupy#2610
    address = driver.alloc(SIZE)
    for shape, where in itertools.product(((0,), (3, 0), (0, 2, 2)), (0, address, 0x1234_5678)):
        for strides in (None, (4,) * len(shape)):
            driver.trace()
            t = candle.asarray(Interface(where, shape=shape, strides=strides, typestr="<i8"))
            assert t.shape == shape
            for view in (t, t[...], t.unsqueeze(0)):
                for stream in (None, 1, driver.stream()):
                    assert info(view.__dlpack__(stream=stream, max_version=(1, 0))).data == 0
                assert view.__cuda_array_interface__["data"][0] == 0
            del t, view
    full = candle.asarray(Interface(address))
    for empty in (full[3:3], full[0:1:-1], full[N:]):
        assert info(empty.__dlpack__(stream=-1)).data == 0
    del full, empty
    driver.free(address)


def test_arrays_stay_where_they_are(cupy: Any, driver: Driver) -> None:
    # Case 86: pytorch/pytorch#132553, pytorch/pytorch#132595
    for device, dtype in itertools.product((0, 1), ("float32", "int64", "bool")):
        with cupy.cuda.Device(device):
            x = cupy.asarray(np.arange(12).reshape(3, 4).astype(dtype))
        for make in (
            candle.Tensor,
            candle.asarray,
            candle.from_dlpack,
            candle.tensor,
            lambda x: candle.asarray(x, copy=True),
            lambda x: candle.asarray(x, dtype="float64"),
        ):
            t = make(x)
            assert t.__dlpack_device__() == (2, device)
            shared = make in (candle.Tensor, candle.asarray, candle.from_dlpack)
            assert (t.data_ptr() == x.data.ptr) is shared
        with pytest.raises(candle.CopyError):
            candle.asarray(x, device="cpu", copy=False)
        assert (
            candle.asarray(x, device="cpu").tolist()
            == np.arange(12).reshape(3, 4).astype(dtype).tolist()
        )
        del t, x


class Plain:
    """A producer on the host that takes no target device, and notes what it is asked."""

    def __init__(self) -> None:
        self.x = np.arange(6, dtype="float32").reshape(2, 3)
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, *, max_version: Any = None, **keywords: Any) -> object:
        self.asked.append(keywords)
        if keywords.get("dl_device") not in (None, (1, 0)):
            raise BufferError("unsupported device requested")
        return self.x.__dlpack__(max_version=max_version)


def test_the_transfer_is_not_the_producers_work(cupy: Any, driver: Driver) -> None:
    # Case 83: pytorch/pytorch#169572, pytorch/pytorch#150218
    for device in (0, 1):
        plain = Plain()
        for source in (plain, plain.x, plain.x.T, candle.asarray(plain.x)):
            for make in (candle.from_dlpack, candle.asarray):
                t = make(source, device=f"cuda:{device}")
                assert t.__dlpack_device__() == (2, device)
                assert t.numpy().tolist() == (plain.x.T if t.shape == (3, 2) else plain.x).tolist()
        assert all(keywords.get("dl_device") in (None, (1, 0)) for keywords in plain.asked)
        with pytest.raises(candle.CopyError):
            candle.from_dlpack(plain, device=f"cuda:{device}", copy=False)
        del t


def test_to_the_host_in_the_standards_words(cupy: Any, driver: Driver) -> None:
    # Case 82: dmlc/dlpack#132, data-apis/array-api#626, data-apis/array-api#741, numpy/numpy#30937
    values = np.arange(24, dtype="int16").reshape(4, 6)
    x = cupy.asarray(values)
    t = candle.from_dlpack(x)
    for view, wanted in (
        (t, values),
        (t.T, values.T),
        (t[1:, ::2], values[1:, ::2]),
        (t[::-1], values[::-1]),
    ):
        for copy in (None, True):
            assert view.numpy(copy=copy).tolist() == wanted.tolist()
            capsule = view.__dlpack__(dl_device=(1, 0), copy=copy, max_version=(1, 0))
            assert (info(capsule).device, info(capsule).flags) == ((1, 0), 2)
            assert candle.from_dlpack(capsule).tolist() == wanted.tolist()
        for refused in (
            lambda v=view: v.numpy(copy=False),
            lambda v=view: v.__dlpack__(dl_device=(1, 0), copy=False),
        ):
            with pytest.raises(BufferError):
                refused()
    del t, view, x, capsule


def test_pinned_memory_of_either_kind_is_the_hosts(driver: Driver) -> None:
    # Case 80: jax-ml/jax#22346, jax-ml/jax#37896, AMReX-Codes/pyamrex#454, rapidsai/cugraph#5567
    address = driver.alloc(SIZE, kind="pinned")
    driver.view(address, SIZE)[:] = struct.pack(f"{N}f", *range(N))
    for kind in (3, 11):
        for mode in ("legacy", "versioned"):
            producer = Producer(address, shape=(6, 8), device=(kind, 0), mode=mode)
            t = candle.from_dlpack(producer)
            assert t[5].tolist() == [float(n) for n in range(40, 48)]
            assert t[1:].__dlpack_device__() == (kind, 0)
            assert t.numpy()[2, 3] == 19.0
            t[0, 0] = -1.0
            assert struct.unpack("f", driver.view(address, 4))[0] == -1.0
            t[0, 0] = 0.0
            del t
            assert producer.deletes == 1
    driver.free(address)


def test_a_fork_of_a_process_with_cuda_is_told(driver: Driver) -> None:
    # Case 93: NVIDIA/DALI#3826, metatensor/metatrain#1229, vllm-project/vllm#29119. A real driver
    # answers 3 to whatever a child of fork calls, and so does this one from here on.
    address, a, b = driver.alloc(SIZE), driver.stream(), driver.stream()
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0)).capsule(), stream=a)
    t.__dlpack__(stream=b)  # the parent has used CUDA
    host = candle.arange(1 << 20).reshape(1024, 1024)
    wanted = host.T.copy().numpy()[7, :9].tolist()  # on several threads, which the child has not
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for name in (
                "cuCtxPushCurrent",
                "cuEventCreate",
                "cuEventRecord",
                "cuStreamWaitEvent",
                "cuPointerGetAttributes",
                "cuDevicePrimaryCtxRetain",
                "cuCtxGetDevice",
            ):
                driver.fail(name, 3, times=1000)
            for move in (
                lambda t=t: t.__dlpack__(stream=b),
                lambda t=t: t[1:].__dlpack__(stream=1 << 20),
                lambda: candle.asarray(Interface(1 << 40)),
            ):
                with pytest.raises(BufferError, match="a child of fork cannot use CUDA"):
                    move()
            assert host.T.copy().numpy()[7, :9].tolist() == wanted
            assert info(t.__dlpack__(stream=-1)).data == address  # passing it on needs no driver
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert info(t.__dlpack__(stream=b)).data == address  # the parent goes on
    del t
    driver.drain()
    driver.free(address)


def test_a_first_query_needs_no_context_of_anybody(driver: Driver) -> None:
    # Case 85: pytorch/pytorch#36594. A thread that has never seen CUDA takes memory first thing.
    import threading

    address, b = driver.alloc(SIZE, 1), driver.stream(1)
    said: list[Any] = []

    def first_thing() -> None:
        t = candle.asarray(Interface(address, stream=1))
        said.append((t.__dlpack_device__(), info(t.__dlpack__(stream=b)).data))

    thread = threading.Thread(target=first_thing)
    thread.start()
    thread.join()
    assert said == [((2, 1), address)]
    driver.free(address)
