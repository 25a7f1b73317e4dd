"""Gradients of forward mode: a tensor that has one is refused, as those of backward mode are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

# torch's own, when it makes its first dual tensor.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")


def test_a_variable_of_a_module_is_followed(in_child: Callable[..., Any]) -> None:
    """Whatever it is set to, added, deleted, or another module's: without torch."""
    code = """
        import numpy, types
        import candle
        from candle._native import _core
        from candle.frameworks import recognise
        from candle.frameworks.record import Record

        asked = []

        def refuse(x):
            asked.append(x)
            if x.tangent:
                raise BufferError("it has a tangent")

        class Array:
            tangent = False
            dtype = "float32"

            def __dlpack__(self, **options):
                return numpy.ones(2, self.dtype).__dlpack__(**options)

            def __dlpack_device__(self):
                return (1, 0)

        class Other(Array):
            pass

        class Wrong(Array):
            pass

        first, second = types.ModuleType("first"), types.ModuleType("second")
        first._current_level = -1
        of = {Array: vars(first), Other: vars(second), Wrong: "no dict"}

        def known(cls):
            if cls not in of:
                return recognise(cls)
            return Record("plain", forward_mode=of[cls], refuse_tangent=refuse)

        _core.register(recognise=known)

        def is_open(x):
            asked.clear()
            assert candle.from_dlpack(x).tolist() == [1, 1]
            return asked == [x]

        x = Array()
        told = [is_open(x)]
        for value in (0, -1, 3, 1 << 80, -1, "no number", -1):
            first._current_level = value
            first.another = value
            told.append(is_open(x))
        del first._current_level
        told.append(is_open(x))
        first._current_level = -1
        told.append(is_open(x))
        print(told)

        first._current_level = 0
        x.dtype = "int32"
        assert not is_open(x)  # no gradients
        x.dtype, x.tangent = "float32", True
        try:
            candle.from_dlpack(x)
        except BufferError as error:
            print(error)
        first._current_level = -1
        candle.from_dlpack(x)

        y = Other()
        told = [is_open(y)]
        second._current_level = -1
        first._current_level = 5
        told.append(is_open(y))
        second._current_level = 0
        told.append(is_open(y))
        print(told)
        try:
            candle.from_dlpack(Wrong())
        except TypeError as error:
            print(error)
    """
    assert in_child(code).check().splitlines() == [
        "[False, True, False, True, True, False, True, False, True, False]",
        "it has a tangent",
        "[True, False, True]",
        "the variables of a module are a dict",
    ]


MAKES: dict[str, Callable[[Any], Any]] = {
    "dual": lambda d: d,
    "view": lambda d: d[1:],
    "computed": lambda d: -d,
    "complex": lambda d: (d + 1j).conj(),
    "half": lambda d: d.half(),
    "subclass": lambda d: d.as_subclass(subclass()),
}
TAKES: dict[str, Callable[[Any], Any]] = {
    "from_dlpack": candle.from_dlpack,
    "Tensor": candle.Tensor,
    "copy": lambda x: candle.Tensor(x, copy=True),
    "convert": lambda x: candle.convert([x], "numpy"),
    "assignment": lambda x: candle.zeros(tuple(x.shape)).copy_(x),
    "operator": lambda x: candle.zeros(tuple(x.shape)) + x,
}


def subclass() -> type:
    torch = pytest.importorskip("torch")
    return type("Own", (torch.Tensor,), {})


@pytest.mark.parametrize("made", MAKES)
def test_tangents_are_refused(made: str) -> None:
    torch = pytest.importorskip("torch")
    forward = torch.autograd.forward_ad
    base = torch.arange(3.0)
    with forward.dual_level():
        x = MAKES[made](forward.make_dual(base, torch.ones(3)))
        assert forward.unpack_dual(x).tangent is not None
        for way, take in TAKES.items():
            with pytest.raises(BufferError, match=r"tangent.*\.detach\(\)") as caught:
                take(x)
            plan = caught.value.plan  # type: ignore[attr-defined]
            assert (way, plan.action, plan.reasons[0].code) == (way, "refuse", "requires_grad")
        assert candle.explain(x, "numpy").action == "refuse"
        for free in (x.detach(), forward.unpack_dual(x).primal, base, torch.arange(3)):
            taken = candle.from_dlpack(free)
            assert taken.tolist() == free.tolist()
        [found] = candle.convert([x], "numpy", detach=True)
        assert found.tolist() == x.detach().tolist()
    assert candle.from_dlpack(x).tolist() == x.tolist()  # the level took its tangents with it


def test_functions_of_torch_go_on() -> None:
    """What has no tangent passes inside a level and inside jvp, and gradients flow past it."""
    torch = pytest.importorskip("torch")
    forward = torch.autograd.forward_ad
    t = candle.Tensor(np.arange(3, dtype="float32"))
    with forward.dual_level():
        x = forward.make_dual(torch.ones(3), torch.full((3,), 2.0))
        assert forward.unpack_dual(torch.sub(t, x)).tangent.tolist() == [-2, -2, -2]
        with pytest.raises(RuntimeError, match="forward mode"):
            forward.enter_dual_level()
    scale = torch.arange(3.0)
    for _ in range(2):
        value, tangent = torch.func.jvp(
            lambda v: v - candle.from_dlpack(scale).torch(), (torch.ones(3),), (torch.ones(3),)
        )
        assert (value.tolist(), tangent.tolist()) == ([1, 0, -1], [1, 1, 1])
    with pytest.raises(BufferError, match="transform"):
        torch.func.jvp(candle.from_dlpack, (scale,), (scale,))
