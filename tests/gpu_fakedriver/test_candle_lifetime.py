"""Memory of devices that is still read when it is given back, doors, threads, and the end."""

from __future__ import annotations

import gc
import sys
import threading
import types
import weakref
from typing import TYPE_CHECKING, Any

import pages
import pytest
from fake_driver import LEGACY

import candle
from candle.testing import Producer, exchange_api, info, live, take

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 64
SIZE = 4 * N


class Stream:
    """A stream object of no library that candle knows."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.handle)


# record_stream


def reuse_while_read(
    cupy: Any, driver: Driver, keep: Callable[[candle.Tensor, Any], object]
) -> float:
    """What a consumer's late kernel reads of memory that its owner has given away meanwhile."""
    a, b = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with a:
        x = cupy.empty(N, "float32")
        address = x.data.ptr
        driver.late_fill(a.ptr, address, 5.0, N)
        t = candle.from_dlpack(x)
    del x
    capsule = t.__dlpack__(stream=b.ptr)
    seen: list[float] = []
    driver.launch(b.ptr, lambda: seen.append(driver.view(address, SIZE).cast("f")[0]), delay_us=0)
    keep(t, b)
    del t, capsule
    with a:
        y = cupy.empty(N, "float32")
    assert y.data.ptr == address, "the pool gives the block out again"
    driver.late_fill(a.ptr, address, 9.0, N)
    driver.read(address, a.ptr)
    driver.drain()
    return seen[0]


def test_memory_waits_for_a_recorded_stream(cupy: Any, driver: Driver) -> None:
    assert reuse_while_read(cupy, driver, lambda t, b: t.record_stream(b)) == 5.0
    assert reuse_while_read(cupy, driver, lambda t, b: t[1:].view(7, 9).record_stream(b)) == 5.0
    twice = reuse_while_read(cupy, driver, lambda t, b: (t.record_stream(b), t.record_stream(b)))
    assert twice == 5.0


def test_control_without_a_record_it_is_overwritten(cupy: Any, driver: Driver) -> None:
    assert reuse_while_read(cupy, driver, lambda _t, _b: None) == 9.0


def test_a_recorded_stream_is_kept(driver: Driver) -> None:
    """Its handle would be another stream's if it went."""
    address, a = driver.alloc(SIZE), driver.stream()
    producer = Producer(address, shape=(N,), device=(2, 0))
    t = candle.from_dlpack(producer.capsule(), stream=a)
    stream = Stream(driver.stream())
    gone = weakref.ref(stream)
    t.record_stream(stream)
    del stream
    assert gone() is not None
    view = t[1:]
    del t
    assert (gone() is not None, producer.deletes) == (True, 0)
    driver.trace()
    del view
    assert (gone(), producer.deletes) == (None, 1)
    names = [called.name for called in driver.trace()]
    assert names.count("cuStreamWaitEvent") == 1
    assert not any("Synchronize" in name for name in names)
    driver.drain()
    driver.free(address)


def test_a_driver_that_fails_at_the_release(driver: Driver) -> None:
    """Nobody can be told: the memory goes as it would have gone."""
    address, a = driver.alloc(SIZE), driver.stream()
    producer = Producer(address, shape=(N,), device=(2, 0))
    t = candle.from_dlpack(producer.capsule(), stream=a)
    t.record_stream(Stream(driver.stream()))
    driver.fail("cuEventRecord", 719)
    del t
    assert producer.deletes == 1
    driver.free(address)


def test_torch_is_told_by_its_own_record_stream(torch: Any, driver: Driver) -> None:
    from fake_torch_cuda import recorded

    x = torch.zeros(N, device="cuda")
    address = x.untyped_storage().data_ptr()
    t = candle.from_dlpack(x)
    side = torch.cuda.Stream()
    recorded.clear()
    t[3:].record_stream(side)
    t.record_stream(Stream(side.cuda_stream))
    assert recorded == [(address, side.cuda_stream)] * 2
    del x, t


@pytest.mark.parametrize("stream", [0, 1, 1 << 20, True, None, "s", 1.0])
def test_what_cannot_be_recorded(driver: Driver, stream: Any) -> None:
    address = driver.alloc(SIZE)
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0)).capsule())
    with pytest.raises(TypeError, match=r"stream|handle"):
        t.record_stream(stream)
    del t
    driver.free(address)


def test_host_memory_has_no_streams() -> None:
    t = candle.zeros(3)
    for move in (t.record_stream, t.wait_for):
        with pytest.raises(BufferError, match="CUDA devices"):
            move(Stream(1))


# wait_for


@pytest.mark.parametrize("waits", [True, False])
def test_the_producer_waits_for_who_has_written(cupy: Any, driver: Driver, waits: bool) -> None:
    """Without it the producer reads too early."""
    a, b = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with a:
        x = cupy.empty(N, "float32")
        x.fill(1.0)
        t = candle.from_dlpack(x)
        t.__dlpack__(stream=b.ptr)
        driver.late_fill(b.ptr, x.data.ptr, 2.0, N)
        if waits:
            t.wait_for(b)
        found = driver.read(x.data.ptr, a.ptr, N)
    assert found == [2.0 if waits else 1.0] * N
    driver.drain()
    del x, t


def test_wait_for_takes_handles_and_objects(torch: Any, driver: Driver) -> None:
    x = torch.zeros(N, device="cuda")
    t = candle.from_dlpack(x)
    side = torch.cuda.Stream()
    value = 1.0
    for stream in (side, side.cuda_stream, Stream(side.cuda_stream)):
        value += 1
        driver.late_fill(side.cuda_stream, x.data_ptr(), value, N)
        t.wait_for(stream)
        assert driver.read(x.data_ptr(), LEGACY, N) == [value] * N
    del x, t


# Doors, and the C exchange table


def test_the_table_names_the_stream_of_who_works(cupy: Any, driver: Driver) -> None:
    [table] = exchange_api(candle.Tensor)
    a, b = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    with a:
        x = cupy.empty(N, "float32")
        x.fill(3.0)
        t = candle.from_dlpack(x)
        assert table.current_work_stream((2, 0)) == a.ptr
    assert table.current_work_stream((2, 0)) is None
    assert table.current_work_stream((1, 0)) is None
    with b:
        assert table.current_work_stream((2, 0)) == b.ptr
        taken = table.from_py_object(t)
        assert driver.read(x.data.ptr, b.ptr, N) == [3.0] * N
        driver.late_fill(a.ptr, x.data.ptr, 4.0, N)
        table.dltensor_from_py_object(t)
        assert driver.read(x.data.ptr, b.ptr, N) == [4.0] * N
        taken.release()
        made: Any = table.to_py_object(Producer(x.data.ptr, shape=(N,), device=(2, 0)).export())
        driver.late_fill(b.ptr, x.data.ptr, 5.0, N)
    made.__dlpack__(stream=a.ptr)  # after the stream that was current when it was taken
    assert driver.read(x.data.ptr, a.ptr, N) == [5.0] * N
    del x, t, made


def test_the_table_names_torchs_stream_first(torch: Any, driver: Driver) -> None:
    [table] = exchange_api(candle.Tensor)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert table.current_work_stream((2, 0)) == side.cuda_stream
        assert table.current_work_stream((2, 1)) is None
    assert table.current_work_stream((2, 0)) is None


def test_the_door_to_torch(torch: Any, driver: Driver) -> None:
    a = driver.stream()
    address = driver.alloc(SIZE)
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0)).capsule(), stream=a)
    side = torch.cuda.Stream()
    driver.late_fill(a, address, 3.0, N)
    with torch.cuda.stream(side):
        x, y = t.torch(), torch.from_dlpack(t)
        assert x.data_ptr() == y.data_ptr() == address
        assert x.device == torch.device("cuda", 0)
        assert driver.read(address, side.cuda_stream, N) == [3.0] * N
        driver.trace()
        back = candle.from_dlpack(x)
        back.torch()
        assert not any("Event" in called.name for called in driver.trace())
    del x, y, back, t
    driver.drain()
    driver.free(address)


def test_the_door_to_jax(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a consumer that asks as jax does: this machine's jax has no CUDA."""
    import device_consumers

    jax: Any = types.ModuleType("jax")
    own = driver.stream()
    monkeypatch.setattr(device_consumers, "JAX_STREAM", own)
    jax.config = types.SimpleNamespace(jax_enable_x64=False)
    jax.dlpack = types.SimpleNamespace(
        from_dlpack=lambda x: device_consumers.jax_like(x, device_consumers.Runtime())
    )
    monkeypatch.setitem(sys.modules, "jax", jax)
    address, a = driver.alloc(SIZE), driver.stream()
    producer = Producer(address, shape=(8, 8), device=(2, 0), flags=1)
    t = candle.from_dlpack(producer.capsule(), stream=a)
    driver.late_fill(a, address, 3.0, N)
    with t.jax() as taken:  # read-only memory too
        assert (taken.info.device, taken.info.data) == ((2, 0), address)
        assert driver.read(address, own, N) == [3.0] * N
        for view in (t[:, ::2], t[::-1]):
            with pytest.raises(candle.CopyError):
                view.jax(copy=False)
        del t, view
        assert producer.deletes == 0
    gc.collect()
    assert producer.deletes == 1
    driver.drain()
    driver.free(address)


# Who releases, and where


def test_released_by_any_thread_without_the_gil(cupy: Any, driver: Driver) -> None:
    before = live()
    for record in (False, True):
        stream = cupy.cuda.Stream(non_blocking=True)
        x = cupy.empty(N, "float32")
        t = candle.from_dlpack(x)
        if record:
            t.record_stream(stream)
        taken = [take(t[i:].__dlpack__(stream=stream.ptr)) for i in range(4)]
        gone = weakref.ref(x.data.owner)
        del x, t
        assert gone() is not None
        for number, one in enumerate(taken):
            one.release(foreign_thread=number % 2 == 0)
            assert (gone() is None) == (number == 3)
    assert live() == before


def test_many_threads(cupy: Any, driver: Driver) -> None:
    before, deletes = live(), []
    address = driver.alloc(SIZE)

    def work() -> None:
        for _ in range(50):
            producer = Producer(address, shape=(N,), device=(2, 0))
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                t = candle.from_dlpack(producer.capsule(), stream=stream)
                t.record_stream(stream)
                other = candle.from_dlpack(t[1:].__dlpack__(stream=stream.ptr), stream=stream)
            del t
            take(other.__dlpack__(stream=1)).release(foreign_thread=True)
            del other
            deletes.append(producer.deletes)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert deletes == [1] * 200
    assert live() == before
    driver.drain()
    driver.free(address)


def test_many_threads_record_streams_of_one_tensor(driver: Driver) -> None:
    address, a = driver.alloc(SIZE), driver.stream()
    producer = Producer(address, shape=(N,), device=(2, 0))
    t = candle.from_dlpack(producer.capsule(), stream=a)
    handle, gone = driver.stream(), []
    barrier = threading.Barrier(4)

    def work(t: candle.Tensor) -> None:
        barrier.wait()
        for _ in range(50):
            stream = Stream(handle)
            gone.append(weakref.ref(stream))
            t.record_stream(stream)

    threads = [threading.Thread(target=work, args=(t,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(gone) == 200
    assert all(kept() is not None for kept in gone)
    del t
    gc.collect()
    assert producer.deletes == 1
    assert not any(kept() is not None for kept in gone)
    driver.drain()
    driver.free(address)


def test_a_stream_that_takes_the_capsule_it_is_asked_for(driver: Driver) -> None:
    address = driver.alloc(SIZE)
    producer = Producer(address, shape=(N,), device=(2, 0))
    capsule, handle = producer.capsule(), driver.stream()
    taken = []

    class Takes(Stream):
        def __cuda_stream__(self) -> tuple[int, int]:
            if not taken:
                taken.append(candle.from_dlpack(capsule, stream=handle))
                assert taken.pop().shape == (N,)
                taken.append(None)
            return super().__cuda_stream__()

    with pytest.raises(BufferError, match="was consumed before"):
        candle.from_dlpack(capsule, stream=Takes(handle))
    assert producer.deletes == 1
    driver.drain()
    driver.free(address)


def test_every_deleter_once_and_all_memory_back(cupy: Any, torch: Any, driver: Driver) -> None:
    before, memory = live(), driver.counters()[:2]
    for number in range(50):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.zeros(N, device="cuda")
            t = candle.from_dlpack(x)
        a = cupy.from_dlpack(t)
        u = candle.from_dlpack(a)
        y = u.torch()
        assert y.data_ptr() == x.data_ptr()
        if number % 2:
            t.record_stream(torch.cuda.Stream())
        t.__dlpack__(), u.__cuda_array_interface__, candle.asarray(u[::2])
        del x, a, t, u, y
    driver.drain()
    gc.collect()
    assert live() == before
    assert driver.counters()[:2] == memory


ENDS = {
    "torch": """
import torch, fake_torch_cuda
driver = fake_torch_cuda.install()
x = torch.ones(64, device="cuda")
""",
    "cupy": """
import fake_cupy, fake_driver
cupy = fake_cupy.install()
driver = fake_driver.loaded()
x = cupy.empty(64, "float32")
""",
    "capsule": """
import fake_driver
from candle.testing import Producer
driver = fake_driver.load()
x = Producer(driver.alloc(256), shape=(64,), device=(2, 0)).capsule()
""",
}
END = """
import builtins, candle
from candle.testing import take
{make}
class Stream:
    def __init__(self): self.handle = driver.stream()
    def __cuda_stream__(self): return (0, self.handle)
t = candle.from_dlpack(x)
if {record}: t.record_stream(Stream())
builtins.keep = [t[1:], t.__dlpack__(stream=-1), take(t.__dlpack__(stream=-1))]
builtins.keep.append(t.__cuda_array_interface__)
print("end")
"""


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("name", ENDS)
def test_the_interpreter_ends_with_memory_lent(in_child: Any, name: str, record: bool) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    assert in_child(END.format(make=ENDS[name], record=record)).check() == "end\n"


@pytest.mark.parametrize("record", [False, True])
def test_memory_that_a_stream_reads_is_not_freed_by_the_end(in_child: Any, record: bool) -> None:
    """Nobody waits any more then; what nobody reads goes as always."""
    said = in_child(
        f"""
        import os, sys
        import candle, fake_driver
        from owned_capsules import owned_capsule
        driver = fake_driver.load()
        def release(write=os.write, ending=sys.is_finalizing):
            write(1, b"released in the end" if ending() else b"released too early")
        t = candle.from_dlpack(owned_capsule(driver.alloc(256), release, shape=(64,)))
        # Functions would lead from it to this module and the tensor: a cycle that stays.
        Stream = type("Stream", (), {{"__cuda_stream__": (0, driver.stream())}})
        if {record}: t.record_stream(Stream())
        """
    ).check()
    assert said == ("" if record else "released in the end")


def test_an_export_says_what_it_is(driver: Driver) -> None:
    address = driver.alloc(SIZE)
    t = candle.from_dlpack(Producer(address, shape=(N,), device=(2, 0), flags=1).capsule())
    fields = info(t.__dlpack__(stream=-1, max_version=(1, 3)))
    assert (fields.flags, fields.device, fields.version) == (1, (2, 0), (1, 3))
    del t
    driver.free(address)


def test_the_lines_of_the_page(cupy: Any, torch: Any, driver: Driver) -> None:
    """docs/gpu.md: each of its consumers reads what was written last."""
    [block] = pages.blocks("py", "docs/gpu.md")
    a, b, there = torch.cuda.Stream(), torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    x = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()  # the zeros are written on another stream than a
    names = {"torch": torch, "cupy": cupy, "candle": candle, "a": a, "b": b, "x": x}
    first, second = block.code.split("\n\n")
    with there:
        for part, value in ((first, 1.0), (second, 2.0)):
            exec(part, names)
            assert driver.read(names["c"].data.ptr, there.ptr, N) == [value] * N
            b.wait_stream(a)
    names.clear()
    driver.drain()
    del x
