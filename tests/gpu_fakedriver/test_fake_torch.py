"""Torch without CUDA on the fake driver: its own protocol code, streams, late kernels."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import races

torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")


@pytest.fixture
def ft(torch: Any) -> Any:
    """The module, installed; None in the parent process."""
    if torch is None:
        return None
    import fake_torch_cuda

    fake_torch_cuda.recorded.clear()
    return fake_torch_cuda


class Direct:
    """What a consumer asks of torch, with nobody in between."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def export(self, stream: int) -> int:
        with torch.cuda.device(self.x.device):
            self.x.__dlpack__(stream=stream)
        return self.x.data_ptr()


class Unordered(Direct):
    def export(self, stream: int) -> int:
        return super().export(-1)


@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("case", races.CASES)
def test_torch_orders_its_current_stream(ft: Any, driver: Driver, case: str, device: int) -> None:
    framework = ft.TorchFramework(device)
    right = races.play(driver, case, Direct, framework, device)
    assert right == (case in races.Relay.right)
    right = races.play(driver, case, Unordered, framework, device)
    assert right == (case in races.NoOrder.right)


def test_streams_are_current_per_thread_and_device(ft: Any) -> None:
    a, far = torch.cuda.Stream(), torch.cuda.Stream("cuda:1")
    seen = []
    with torch.cuda.stream(a):
        with torch.cuda.stream(far):
            assert torch.cuda.current_device() == 1
            assert torch.cuda.current_stream() == far
            assert torch.cuda.current_stream("cuda:0") == a
            thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
            thread.start()
            thread.join()
        assert torch.cuda.current_device() == 0
        assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
        assert torch.cuda.current_stream() == torch.cuda.ExternalStream(a.cuda_stream)
    assert seen == [torch.cuda.default_stream(0)]
    assert torch.cuda.current_stream().cuda_stream == 0


@pytest.mark.parametrize(
    ("stream", "events"), [("absent", 0), (-1, 0), (None, 0), (1, 0), ("B", 1), ("A", 1)]
)
def test_stream_values(ft: Any, driver: Driver, stream: Any, events: int) -> None:
    x, b = torch.empty(4, device="cuda"), torch.cuda.Stream()
    values = {"A": torch.cuda.Stream().cuda_stream, "B": b.cuda_stream}
    x.__dlpack__(**({} if stream == "absent" else {"stream": values.get(stream, stream)}))
    assert [c.name for c in driver.trace()].count("cuStreamWaitEvent") == events


def test_stream_values_that_torch_refuses(ft: Any) -> None:
    x, far = torch.empty(4, device="cuda"), torch.empty(4, device="cuda:1")
    with pytest.raises(AssertionError):
        x.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="per-thread"):
        x.__dlpack__(stream=2)
    with pytest.raises(BufferError, match="different CUDA device"):
        far.__dlpack__(stream=-1)
    with torch.cuda.device(1):
        far.__dlpack__(stream=-1)


def test_views_and_kernels(ft: Any, driver: Driver) -> None:
    x = torch.arange(24.0).reshape(4, 6).cuda()
    assert x.device == torch.device("cuda", 0)
    y = x.T[::2, 1:].to(torch.float64).contiguous()
    assert torch.equal(y.cpu(), torch.arange(24.0).reshape(4, 6).T[::2, 1:].double())
    assert x[1:].data_ptr() == x.data_ptr() + 24
    assert torch.equal(x.to("cuda:1").cpu(), x.cpu())
    with driver.hold():
        x.fill_(5)
        other = driver.stream()
        assert driver.read(x.data_ptr(), other) == [0.0]
        assert driver.read(x.data_ptr(), 1) == [5.0]


def test_guards_that_torch_lacks_can_be_seen(ft: Any) -> None:
    z = torch.empty(4, dtype=torch.complex64, device="cuda")
    assert z.conj().is_conj()
    assert z.conj().imag.is_neg()
    assert torch.empty(4, device="cuda", requires_grad=True).requires_grad


def test_a_storage_holds_memory_and_can_be_recorded(ft: Any, driver: Driver) -> None:
    before = driver.counters().live
    x = torch.empty(4, device="cuda")
    address, storage, b = x.data_ptr(), x.untyped_storage(), torch.cuda.Stream()
    del x
    assert driver.counters().live == before + 1
    block = torch.empty(0, dtype=torch.uint8, device="cuda:0").set_(storage)
    assert block.data_ptr() == address
    block.record_stream(b)
    assert ft.recorded == [(address, b.cuda_stream)]


def test_exchange_between_two_of_its_tensors(ft: Any, driver: Driver) -> None:
    x, b = torch.empty(8, device="cuda"), torch.cuda.Stream()
    with torch.cuda.stream(b):
        y = torch.from_dlpack(x)
    assert y.data_ptr() == x.data_ptr()
    assert y.device == x.device
    assert x.__cuda_array_interface__["version"] == 2


def test_the_exchange_table_names_no_stream(ft: Any) -> None:
    from candle.testing import exchange_api

    [table, *_] = exchange_api(torch.Tensor)
    with torch.cuda.stream(torch.cuda.Stream()):
        assert table.current_work_stream((2, 0)) is None
    x = torch.empty(3, device="cuda:1")
    with table.from_py_object(x) as taken:
        assert taken.info.device == (2, 1)
        assert taken.info.data == x.data_ptr()
