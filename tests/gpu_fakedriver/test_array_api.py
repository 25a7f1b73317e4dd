"""The standard's functions on CUDA devices: who is called, over whose memory, and where.

cupy's kernels are numpy's here, behind the real array-api-compat.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import isolation
import numpy as np
import pytest
from standard_calls import CALLS, WAITING, faults, host

import candle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_driver import Driver

pytest.importorskip("array_api_compat")
pytestmark = pytest.mark.isolated(together="file")


@pytest.fixture
def cupy(driver: Driver | None) -> Iterator[Any]:
    """The module, installed; None in the parent process."""
    if not isolation.is_child():
        yield None
        return
    import fake_cupy

    yield fake_cupy.install()
    driver.drain()
    gc.collect()


def on_device(cupy: Any, device: int, stream: Any = None) -> tuple[list[Any], list[candle.Tensor]]:
    with cupy.cuda.Device(device):
        arrays = [cupy.asarray(t.numpy()) for t in host()]
    return arrays, [candle.from_dlpack(array) for array in arrays]


def check(cupy: Any, driver: Driver, calls: dict[str, Any], waits: bool) -> None:
    wrong = []
    for device in (0, 1):
        kept, operands = on_device(cupy, device)
        for name, fault in faults(driver, operands, calls, lambda _: waits):
            wrong.append(f"{name}: {fault}")
        assert [
            (x == y.numpy()).all() for x, y in zip([a.get() for a in kept], host(), strict=True)
        ]
    assert not wrong, "\n".join(wrong)


def test_every_function_runs_where_the_memory_is(cupy: Any, driver: Driver) -> None:
    check(cupy, driver, CALLS, waits=False)


def test_functions_that_have_to_wait(cupy: Any, driver: Driver) -> None:
    check(cupy, driver, WAITING, waits=True)


def test_functions_wait_for_what_is_queued(cupy: Any, driver: Driver) -> None:
    xp = candle.zeros(1).__array_namespace__()
    for device in (0, 1):
        with cupy.cuda.Device(device):
            with cupy.cuda.Stream(non_blocking=True):
                x = cupy.asarray(np.zeros(4, "float32"))
                x.fill(5)  # queued, and held back
                t = candle.from_dlpack(x)
            with cupy.cuda.Stream(non_blocking=True):
                total = xp.sum(xp.square(t))
                t += 1
        assert total.to("cpu").item() == 100
        assert x.get().tolist() == [6] * 4


def test_assignment_through_masks_and_ints(cupy: Any, driver: Driver) -> None:
    for device in (0, 1):
        [x, *_], [t, _, ints, mask] = on_device(cupy, device)
        want = host()[0]
        with candle.strict():  # an assignment asks for its copies
            for value in (7, candle.tensor([1.5, 2.5, 3.5]), t[0] + 1):
                t[mask] = 0
                t[ints] = value
                want[host()[3]] = 0
                want[[2, 0, 1]] = value.to("cpu") if isinstance(value, candle.Tensor) else value
                assert x.get().tolist() == want.tolist()
            with pytest.raises(TypeError):
                t[mask] = None


def test_functions_of_numpy_write_where_they_are_told(cupy: Any, driver: Driver) -> None:
    for device in (0, 1):
        _, [t, y, *_] = on_device(cupy, device)
        out = candle.zeros_like(t)
        assert out.device == f"cuda:{device}"
        with candle.strict():
            assert np.add(t, y, out=out) is out
            assert np.concatenate([t, y]).device == out.device
            assert type(np.linalg.inv(t)) is candle.Tensor
        assert out.to("cpu").tolist() == (host()[0] + host()[1]).tolist()


def test_nobody_to_compute(driver: Driver) -> None:
    from candle.cuda import provider

    memory = driver.alloc(16, 1)
    from owned_capsules import owned_capsule

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provider, "_loaded", {"cupy": None, "torch": None})
        capsule = owned_capsule(
            memory, lambda: None, shape=(4,), strides=(1,), dtype=(2, 32), device=(2, 1)
        )
        t = candle.from_dlpack(capsule)
        for text in (
            *("t + t", "2 * t", "t == 1", "t.sum()", "t[[0, 1]]", "t.__iadd__(1)", "np.sin(t)"),
            *("np.concatenate([t, t])", "t.__array_namespace__().exp(t)"),
        ):
            with pytest.raises(BufferError, match=r"cupy or torch.*pip install"):
                eval(text, {"t": t, "np": np})
        del t
    driver.free(memory)
