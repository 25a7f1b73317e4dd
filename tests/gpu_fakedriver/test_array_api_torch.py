"""torch computes on CUDA devices: who is called, over whose memory, where, on which stream.

torch is the real one down to its kernels, behind the real array-api-compat; kernels are the CPU's,
late, on the fake driver. The calls are those of `standard_calls`, as for cupy.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import races
from standard_calls import CALLS, WAITING, faults, host
from torch_on_devices import crossings, lent, of_torch, raw

import candle
from candle.testing import info

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fake_driver import Driver

pytest.importorskip("array_api_compat")
pytestmark = pytest.mark.isolated(together="file")

# torch waits for whether a matrix was singular; its clip() picks nothing.
WAITING_CALLS = {*WAITING, "linalg.cholesky", "linalg.inv", "solve"} - {"clip"}
# What torch has not, and the text of the error.
LACKING = {"imag": "non-complex dtypes", "unique_all": "unique_all"}
EVERY = {name: call for name, call in {**CALLS, **WAITING}.items() if name not in LACKING}
# Those that make no kernel run, and give views.
VIEWS = {
    *("real", "linalg.diagonal", "linalg.matrix_transpose", "reshape"),
    *("permute_dims", "expand_dims", "moveaxis", "broadcast_to", "broadcast_arrays", "unstack"),
}
# Those that candle makes itself, of copies that were asked for.
CANDLES = {"astype", "likes", "tril", "meshgrid", "hf"}

OPERATORS = (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
    *("lshift", "rshift", "lt", "le", "gt", "ge", "eq", "ne", "neg", "pos", "abs", "invert"),
)


class Watch:
    """What torch did within the block, with tensors on a device."""

    def __init__(self, fake: Any, operands: Sequence[candle.Tensor]) -> None:
        self.torch, self.addresses = fake, {t.data_ptr() for t in operands}

    def __enter__(self) -> Watch:
        crossings()
        self.torch.called.clear()
        self.tracing = candle.trace()
        self.moves = self.tracing.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.tracing.__exit__(*error)
        self.crossed, self.called = crossings(), [*self.torch.called]

    def faults(self, name: str) -> Iterator[str]:
        if {move.action for move in self.moves} - {"share"} and name not in CANDLES:
            yield f"copied: {self.moves}"
        if "to the host" in self.crossed:
            yield "came back to the host"
        if bool(self.called) is (name in VIEWS) and name not in CANDLES:
            yield f"torch was called for {self.called}"
        if (
            self.called
            and name not in CANDLES
            and not self.addresses & set().union(*(c.addresses for c in self.called))
        ):
            yield "torch computed with other memory than that of the operands"


def check(
    driver: Driver, fake: Any, operands: Sequence[candle.Tensor], calls: dict[str, Any]
) -> None:
    wrong = faults(
        driver, operands, calls, WAITING_CALLS.__contains__, lambda: Watch(fake, operands)
    )
    assert not wrong, "\n".join(f"{name}: {fault}" for name, fault in wrong)
    for t, want in zip(operands, host(), strict=True):
        assert t.to("cpu").tolist() == want.tolist()


def test_every_function_runs_where_torchs_memory_is(computing: Any, driver: Driver) -> None:
    for device in (0, 1):
        check(driver, computing, of_torch(device), EVERY)


def test_torch_computes_with_anybodys_memory_without_cupy(alone: Any, driver: Driver) -> None:
    for device in (0, 1):
        check(driver, alone, raw(device), EVERY)


def test_torch_computes_with_cuda_cores_memory_without_cupy(alone: Any, driver: Driver) -> None:
    pytest.importorskip("cuda.core")
    from cuda_core_arrays import CoreFramework

    for device in (0, 1):
        framework = CoreFramework(device)
        x = framework.array()
        values = np.arange(races.N, dtype="float32")
        driver.view(framework.address(x), values.nbytes)[:] = values.tobytes()
        t = candle.asarray(x)
        alone.called.clear()
        with candle.strict():
            found = np.sin(t)
            t += 1
        assert [c.name for c in alone.called] == ["aten.sin.out", "aten.add.out"]
        assert all(framework.address(x) in c.addresses for c in alone.called)
        assert found.device == f"cuda:{device}"
        assert np.allclose(found.to("cpu").numpy(), np.sin(values))
        driver.drain()
        assert driver.view(framework.address(x), values.nbytes) == (values + 1).tobytes()
        del t, x
        driver.drain()


def test_what_torch_lacks_is_an_error_with_the_remedy(computing: Any) -> None:
    xp = candle.zeros(1).__array_namespace__()
    for device in (0, 1):
        operands = of_torch(device)
        for name, text in LACKING.items():
            with pytest.raises(TypeError, match=rf"torch.*{text}.*t\.to\('cpu'\)"):
                {**CALLS, **WAITING}[name](xp, *operands)
        refused = 0
        few = np.array([[1, 2], [3, 4]], "uint16")
        for name in OPERATORS:
            for more in ((), (few,), (2,)):
                refused += right_or_refused(getattr(operator, f"__{name}__"), few, more, device)
        assert refused > 3


def right_or_refused(function: Any, x: Any, more: Any, device: int) -> bool:
    """Whether torch refuses in the right way what numpy computes; else both give the same."""
    try:
        want = function(x, *more)
    except (TypeError, ValueError):
        return False
    t = lent(x, device)[1]
    given = [t if y is x else y for y in more]
    crossings()
    told = None
    try:
        got = function(t, *given)
    except TypeError as error:
        told = str(error)
    assert "to the host" not in crossings()
    if told is not None:
        assert "torch" in told
        assert "t.to('cpu')" in told
        return True
    assert got.device == f"cuda:{device}"
    back = got.to("cpu")
    assert (back.dtype, back.tolist()) == (want.dtype.name, want.tolist())
    return False


def test_torch_has_its_own_memory_where_cupy_is_too(computing: Any) -> None:
    import cupy

    for device in (0, 1):
        x, t = lent([1.0, 2.0], device)
        with cupy.cuda.Device(device):
            foreign = cupy.asarray(np.array([10.0, 20.0]))
        u = candle.from_dlpack(foreign)
        computing.called.clear()
        with candle.strict():
            assert (u + u).to("cpu").tolist() == [20, 40]
            assert computing.called == []  # cupy's
            totals = (t + u, u + t, np.add(u, t), t.__array_namespace__().add(t, u))
            assert [c.name for c in computing.called] == ["aten.add.out"] * 4
            for total in totals:
                assert total.device == f"cuda:{device}"
                assert total.to("cpu").tolist() == [11, 22]
        # bfloat16 cupy has not, whosever the memory is.
        y = candle.from_dlpack(foreign).to("bfloat16")
        assert (y + 1).to("cpu").tolist() == [11, 21]
        del x


def test_mixed_operands(computing: Any) -> None:
    import torch

    for device in (0, 1):
        x, t = lent(np.array([1, 2], "float32"), device)
        far = lent(np.array([10, 20], "float32"), 1 - device)[1]
        with candle.strict():
            found = [t + x, t * x, np.add(t, x), t.__array_namespace__().multiply(t, x)]
            assert all(type(y) is candle.Tensor for y in found)
            assert [y.to("cpu").tolist() for y in found] == [[2, 4], [1, 4]] * 2
            theirs = [x + t, torch.add(t, x), torch.sin(t)]
            assert all(type(y) is torch.Tensor and y.is_cuda for y in theirs)
            assert theirs[0].cpu().tolist() == [2, 4]
        for other in (np.array([10, 20], "float32"), torch.tensor([10.0, 20.0]), far):
            with candle.trace() as moves:
                got = t + other
            assert got.device == f"cuda:{device}"
            assert got.to("cpu").tolist() == [11, 22]
            assert [move.action for move in moves].count("copy") == 1
            with candle.strict(), pytest.raises(candle.CopyError):
                t + other
        t += far
        assert x.tolist() == [11, 22]


def test_results_are_ordered_with_torchs_streams(computing: Any, driver: Driver) -> None:
    import torch

    xp = candle.zeros(1).__array_namespace__()
    for device in (0, 1):
        a, b = (torch.cuda.Stream(f"cuda:{device}") for _ in "ab")
        consumer = driver.stream(device)
        with torch.cuda.stream(a):
            x = torch.empty(4, device=f"cuda:{device}").fill_(0)
            value = 1237.0 + device  # which no memory holds by chance
            x.fill_(value)  # queued, and held back
            t = candle.from_dlpack(x)
        computing.called.clear()
        with torch.cuda.stream(b), candle.strict():
            made = [t + t, np.multiply(t, 2), xp.sum(t, keepdims=True), t[[0, 1]]]
            t += 1
            made.append(t)
        ran = [c for c in computing.called if c.name not in ("aten.copy_", "aten.fill_")]
        assert ran
        assert {c.stream for c in ran} == {b.cuda_stream}
        wanted = (2 * value, 2 * value, 4 * value, value, value + 1)
        # The control: nobody waits, and what was there before is seen.
        for result, want in zip(made, wanted, strict=True):
            blind = result.__dlpack__(stream=-1, max_version=(1, 3))
            assert driver.read(info(blind).data, consumer, device=device) != [want]
        for result, want in zip(made, wanted, strict=True):
            with torch.cuda.stream(b):
                ordered = result.__dlpack__(stream=consumer, max_version=(1, 3))
            assert driver.read(info(ordered).data, consumer, device=device) == [want]


def test_creation_on_a_device_by_torch_alone(alone: Any, driver: Driver) -> None:
    xp = candle.zeros(1).__array_namespace__()
    for device in ("cuda:0", "cuda:1"):
        alone.called.clear()
        made = {
            "zeros": xp.zeros((2, 2), device=device),
            "full": xp.full(3, 7, device=device),
            "arange": xp.arange(4, device=device),
            "eye": xp.eye(2, device=device),
            "linspace": xp.linspace(0.0, 1.0, 3, device=device),
            "asarray": xp.asarray([1.5, 2.5], device=device),
            "fftfreq": xp.fft.fftfreq(4, device=device),
        }
        assert {t.device for t in made.values()} == {device}
        assert alone.called
        for name, t in made.items():
            assert (t + t).device == device
            source = xp.fft if name == "fftfreq" else xp
            arguments = {
                "zeros": ((2, 2),),
                "full": (3, 7),
                "arange": (4,),
                "eye": (2,),
                "linspace": (0.0, 1.0, 3),
                "asarray": ([1.5, 2.5],),
                "fftfreq": (4,),
            }[name]
            assert t.to("cpu").tolist() == getattr(source, name)(*arguments).tolist()
