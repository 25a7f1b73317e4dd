"""`explain` says what then happens: every producer, consumer, dtype and layout of the matrix."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import meeting
import numpy as np
import pytest

import candle
from candle.frameworks import target_of
from candle.testing import live

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning"),  # in jax
]

# What `explain` calls a way out, and the way out.
WAYS: dict[str, Callable[[candle.Tensor], Any]] = {
    "candle": lambda t: t,
    "numpy": lambda t: t.numpy(),
    "torch": lambda t: t.torch(),
    "jax": lambda t: t.jax(),
    "tvm_ffi": lambda t: target_of("tvm_ffi").give(t, None),  # as convert does
    "arrow": lambda t: t.__arrow_c_array__(),
    "dlpack": lambda t: t.__dlpack__(max_version=(1, 3)),
    "dlpack_legacy": lambda t: t.__dlpack__(),
}
MODULES = ("numpy", "torch", "jax", "tvm_ffi")


def happened(x: Any, to: str, **asked: Any) -> tuple[list[candle.Plan], Any]:
    """The moves that are made, as they were written down, and what came of them."""
    result = None
    with candle.trace() as moves, contextlib.suppress(BufferError):
        result = WAYS[to](candle.asarray(x, **asked))
    return list(moves), result


def check(x: Any, to: str, **asked: Any) -> candle.Plan:
    """The plan, once it was seen to hold."""
    before = live()
    plan = candle.explain(x, to, **asked)
    after = live()  # what earlier cells left may have been collected meanwhile
    assert all(after[kind] <= before[kind] for kind in before)
    moves, result = happened(x, to, **asked)
    steps = plan.steps or (plan,)
    assert tuple(moves)[-len(steps) :] == steps
    assert plan.nbytes == sum(step.nbytes for step in steps)
    assert plan.reasons == tuple(reason for step in steps for reason in step.reasons)
    assert all(reason.remedy for reason in plan.reasons)
    assert (result is None) == (plan.action == "refuse")
    if result is not None and "dlpack" not in to and to != "arrow":
        came, went = meeting.see(x), meeting.see(result)
        if went.content:
            assert (came.address == went.address) == (plan.action == "share")
        copies = [step for step in steps if step.action == "copy"]
        assert plan.nbytes == len(went.content) * len(copies)
    return plan


def cells() -> list[Any]:
    """Whether jax has x64 is its matter as the consumer."""
    made = [(producer, to, True) for producer in meeting.PRODUCERS for to in WAYS]
    made += [(producer, "jax", False) for producer in meeting.PRODUCERS if producer != "jax"]
    return [pytest.param(*cell, id=f"{cell[0]}-{cell[1]}-{cell[2]}") for cell in made]


@pytest.mark.parametrize(("producer", "to", "x64"), cells())
def test_every_cell(
    framework: Any, producer: str, to: str, x64: bool, request: pytest.FixtureRequest
) -> None:
    framework(producer)
    if to in MODULES:
        framework(to)
    if x64:
        request.getfixturevalue("x64")
    for name in meeting.WHOLE if x64 else ("int64", "float64", "float32"):
        if name not in meeting.known(producer):
            continue
        for layout in meeting.layouts_of(producer):
            try:
                check(meeting.make(producer, name, layout), to)
            except AssertionError as error:
                raise AssertionError(f"{name}, {layout}: {error}") from None


@pytest.mark.parametrize("to", WAYS)
@pytest.mark.parametrize("asked", [{"dtype": "float64"}, {"dtype": "int8"}, {"device": "cpu"}])
def test_what_the_caller_asks_for(
    framework: Any, to: str, asked: dict[str, str], x64: None
) -> None:
    if to in MODULES:
        framework(to)
    for layout in meeting.layouts_of("numpy"):
        check(meeting.make("numpy", "float32", layout), to, **asked)


ODD = {
    "list": [[1, 2], [3, 4]],
    "number": 2.5,
    "foreign bytes": np.zeros(3, ">i4"),
    "odd strides": np.zeros(3, "f4,u1")["f0"],
    "buffer": b"abcd",
    "tensors": [candle.ones(2), np.ones(2, "float32")],
    "masked": np.ma.masked_array([1.0, 2.0], [0, 1]),
    "objects": np.array(["a", None], object),
    "complex to real": np.zeros(2, "complex64"),
}


@pytest.mark.parametrize("to", WAYS)
@pytest.mark.parametrize("name", ODD)
def test_what_no_framework_makes(framework: Any, name: str, to: str, x64: None) -> None:
    if to in MODULES:
        framework(to)
    x = ODD[name]
    asked = {"dtype": "float32"} if name == "complex to real" else {}
    plan = candle.explain(x, to, **asked)
    moves, result = happened(x, to, **asked)
    assert tuple(moves) == (plan.steps or (plan,))
    assert (result is None) == (plan.action == "refuse")


def test_torch_tensors_with_a_meaning(framework: Any) -> None:
    torch = framework("torch")
    z = torch.zeros(8, dtype=torch.complex64)
    cases = {
        "requires_grad": torch.ones(3, requires_grad=True),
        "conj_bit": z.conj(),
        "neg_bit": z.conj().imag,
        "sparse": torch.eye(3).to_sparse(),
        "no_memory": torch.zeros(3, device="meta"),
        "requires_grad ": torch.nn.Parameter(torch.ones(3)),
    }
    for code, x in cases.items():
        for to in ("candle", "numpy", "torch", "dlpack_legacy"):
            plan = candle.explain(x, to)
            moves, _ = happened(x, to)
            assert tuple(moves) == (plan.steps or (plan,)), code
            assert plan.reasons[0].code == code.strip()


def test_modules_are_their_names(framework: Any) -> None:
    t = candle.zeros((4, 4))[::-1]
    assert candle.explain(t, np) == candle.explain(t, "numpy")
    assert candle.explain(t, candle) == candle.explain(t, "candle") == candle.explain(t)
    torch, jax = framework("torch"), framework("jax")
    assert candle.explain(t, torch) == candle.explain(t, "torch")
    assert candle.explain(t, jax.numpy) == candle.explain(t, jax) == candle.explain(t, "jax")
    assert candle.explain(t, "jax.numpy") == candle.explain(t, "jax")
    tvm_ffi = framework("tvm_ffi")
    assert (
        candle.explain(t, tvm_ffi) == candle.explain(t, "tvm-ffi") == candle.explain(t, "tvm_ffi")
    )


def test_cupy_takes_memory_on_cuda_devices() -> None:
    """Without cupy and without a device: what would be copied is known all the same."""
    plan = candle.explain(np.zeros(4, "float32"), "cupy")
    assert (plan.action, plan.nbytes, plan.reasons[0].code) == ("copy", 16, "device")
    plan = candle.explain(candle.zeros(4, dtype="bfloat16"), "cupy")
    assert (plan.action, plan.reasons[-1].code) == ("refuse", "dtype_unknown")
