"""Who waits for whom, on real streams: each case five times, beside a control that is too early."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import candle

SIZE = 1 << 20
TIMES = 5


class Unordered:
    """Hands on what it is given, with no ordering."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()

    def __dlpack__(self, *, stream: Any = None, **keywords: Any) -> Any:
        return self.x.__dlpack__(stream=-1, **keywords)


@pytest.fixture
def scene(torch: Any, cupy: Any) -> Any:
    """A torch tensor, two streams of torch's (A, C) and one of cupy's (B); all kernels are warm."""

    class Scene:
        A, C = torch.cuda.Stream(), torch.cuda.Stream()
        B = cupy.cuda.Stream(non_blocking=True)
        x = torch.zeros(SIZE, device="cuda")

        def take(self, t: Any) -> Any:
            with self.B:
                return cupy.from_dlpack(t)

    made = Scene()
    made.x.fill_(0)
    with made.B:
        cupy.from_dlpack(made.x)[:1].copy().get()
    torch.cuda._sleep(10)
    torch.cuda.synchronize()
    return made


def same(torch: Any, s: Any, late: Any, value: float) -> Any:
    with torch.cuda.stream(s.A):
        late(s.x, value, s.A)
        return s.take(candle.from_dlpack(s.x))


def left(torch: Any, s: Any, late: Any, value: float) -> Any:
    with torch.cuda.stream(s.A):
        late(s.x, value, s.A)
        t = candle.from_dlpack(s.x)
    return s.take(t)


def written_again(torch: Any, s: Any, late: Any, value: float) -> Any:
    with torch.cuda.stream(s.A):
        late(s.x, -value, s.A)
        t = candle.from_dlpack(s.x)
        late(s.x, value, s.A)
        return s.take(t)


def on_another(torch: Any, s: Any, late: Any, value: float) -> Any:
    with torch.cuda.stream(s.A):
        late(s.x, -value, s.A)
        t = candle.from_dlpack(s.x)
    s.C.wait_stream(s.A)
    with torch.cuda.stream(s.C):
        late(s.x, value, s.C)
        return s.take(t)


def legacy(torch: Any, s: Any, late: Any, value: float) -> Any:
    late(s.x, value, torch.cuda.current_stream())
    return s.take(candle.from_dlpack(s.x))


def in_a_thread(torch: Any, s: Any, late: Any, value: float) -> Any:
    with torch.cuda.stream(s.A):
        late(s.x, value, s.A)
        t = candle.from_dlpack(s.x)
    taken: list[Any] = []
    thread = threading.Thread(target=lambda: taken.append(s.take(t)))
    thread.start()
    thread.join()
    return taken[0]


def by_interface(torch: Any, s: Any, late: Any, value: float) -> Any:
    """The stream of candle's CUDA array interface is waited for by hand."""
    import cupy

    with torch.cuda.stream(s.A):
        late(s.x, value, s.A)
        t = candle.from_dlpack(s.x)
    stream = cupy.cuda.ExternalStream(t.__cuda_array_interface__["stream"])
    s.B.wait_event(stream.record())
    return s.take(Unordered(t))


CASES = [same, left, written_again, on_another, legacy, in_a_thread, by_interface]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_consumer_reads_what_was_written_last(
    torch: Any, scene: Any, write_late: Any, read_on: Any, case: Any
) -> None:
    seen = []
    for number in range(TIMES):
        a = case(torch, scene, write_late, number + 1.0)
        seen.append(read_on(a, scene.B))
        torch.cuda.synchronize()
    assert seen == [number + 1.0 for number in range(TIMES)]


def test_control_without_order_it_is_too_early(
    torch: Any, scene: Any, write_late: Any, read_on: Any
) -> None:
    early = 0
    for number in range(TIMES):
        write_late(scene.x, number + 1.0, scene.A)
        with torch.cuda.stream(scene.A):
            t = candle.from_dlpack(scene.x)
        early += read_on(scene.take(Unordered(t)), scene.B) != number + 1.0
        torch.cuda.synchronize()
    assert early >= TIMES - 1


def test_an_export_does_not_wait(torch: Any, scene: Any, write_late: Any) -> None:
    with torch.cuda.stream(scene.A):
        write_late(scene.x, 1.0, scene.A)
        t = candle.from_dlpack(scene.x)
        begin = time.perf_counter()
        scene.take(t)
        took = time.perf_counter() - begin
        assert not scene.A.query(), "the kernel is still running"
    assert took < 0.01


def test_from_cupy_to_torch(torch: Any, cupy: Any) -> None:
    spin = cupy.RawKernel(
        'extern "C" __global__ void spin(long long n) {'
        " long long t = clock64(); while (clock64() - t < n); }",
        "spin",
    )
    side, there = cupy.cuda.Stream(non_blocking=True), torch.cuda.Stream()
    a = cupy.zeros(SIZE, "float32")
    for value in range(1, TIMES + 1):
        with side:
            spin((1,), (1,), (40_000_000,))
            a.fill(value)
            t = candle.from_dlpack(a)
        with torch.cuda.stream(there):
            z = torch.from_dlpack(t)[:1].clone()
        there.synchronize()
        assert float(z[0]) == value
        torch.cuda.synchronize()


def test_a_consumer_that_has_written(torch: Any, cupy: Any, scene: Any) -> None:
    spin = cupy.RawKernel(
        'extern "C" __global__ void spin(long long n) {'
        " long long t = clock64(); while (clock64() - t < n); }",
        "spin",
    )
    t = candle.from_dlpack(scene.x)
    a = scene.take(t)
    with scene.B:
        spin((1,), (1,), (40_000_000,))
        a.fill(6)
    t.wait_for(scene.B)
    assert float(scene.x[0]) == 6.0


def test_capture(torch: Any) -> None:
    """A hop within a graph, with a tensor from outside of it too."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    x = torch.ones(1024, device="cuda")
    y = torch.empty_like(x)
    outside = candle.from_dlpack(x)
    with torch.cuda.stream(stream):
        (torch.from_dlpack(outside) * 2).clone()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            y.copy_(torch.from_dlpack(candle.from_dlpack(x)) * 2)
            y.add_(torch.from_dlpack(outside))
    x.fill_(14)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    assert float(y[0]) == 42.0


def test_jax_while_it_runs(torch: Any, jax: Any, write_late: Any) -> None:
    busy = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, y: y @ x / 2048, x))
    ones = jax.numpy.ones((2048, 2048))
    busy(ones).block_until_ready()
    got = torch.from_dlpack(candle.from_dlpack(busy(ones)))
    assert abs(float(got[0, 0]) - 1.0) < 1e-3
    x, side = torch.zeros(SIZE, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    write_late(x, 3.0, side)
    with torch.cuda.stream(side):
        t = candle.from_dlpack(x)
    assert float(t.jax().sum()) == 3.0 * SIZE


def test_every_stream_of_the_standard(torch: Any) -> None:
    """Whose number it is, a real driver says."""
    side = torch.cuda.Stream()
    x = torch.zeros(SIZE, device="cuda")
    with torch.cuda.stream(side):
        x.fill_(2)
        t = candle.from_dlpack(x)
    for stream in (None, 0, 1, 2, -1, side.cuda_stream, torch.cuda.Stream().cuda_stream):
        back = torch.from_dlpack(candle.from_dlpack(t.__dlpack__(stream=stream), stream=1))
        assert back.data_ptr() == x.data_ptr()
    for stream in (-2, 1 << 70, "1", True):
        with pytest.raises(ValueError, match="no CUDA stream"):
            t.__dlpack__(stream=stream)


class Unknown:
    """A tensor of torch's as one of a library nobody knows, which minds the current device."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.x.__dlpack__(**keywords)


@pytest.mark.usefixtures("two_devices")
def test_a_producer_is_asked_on_its_device(torch: Any) -> None:
    """Control: torch refuses where another one is current."""
    x = torch.ones(SIZE, device="cuda:1")
    assert torch.cuda.current_device() == 0
    with pytest.raises(BufferError):
        x.__dlpack__(stream=-1)
    t = candle.from_dlpack(Unknown(x))
    t.__dlpack__(stream=torch.cuda.Stream(1).cuda_stream)
    assert torch.cuda.current_device() == 0
    assert float(t.torch()[0]) == 1.0


@pytest.mark.usefixtures("two_devices")
def test_between_devices(torch: Any, write_late: Any) -> None:
    side = torch.cuda.Stream(device=1)
    x = torch.zeros(SIZE, device="cuda:1")
    write_late(x, 5.0, side)
    with torch.cuda.stream(side):
        t = candle.from_dlpack(x)
    moved = t.to("cuda:0")
    assert float(moved.torch()[0]) == 5.0
    assert torch.cuda.current_device() == 0
