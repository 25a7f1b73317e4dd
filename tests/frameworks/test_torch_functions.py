"""torch's functions take Tensors: `__torch_function__`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch")


def pair() -> tuple[candle.Tensor, Any]:
    """A tensor, and torch's over the same memory."""
    t = candle.Tensor(np.arange(6, dtype="float32").reshape(2, 3))
    return t, t.torch()


def frozen() -> candle.Tensor:
    return candle.Tensor(bytes(range(4)))


READS: dict[str, Callable[[Any, Any], Any]] = {
    "function": lambda t, _: torch.sin(t),
    "python function": lambda t, _: torch.nn.functional.relu(t),
    "operator": lambda t, tt: tt + t,
    "comparison": lambda t, tt: tt == t,
    "keyword": lambda t, tt: torch.add(tt, other=t),
    "first by keyword": lambda t, _: torch.sin(input=t),
    "method": lambda t, tt: tt.mul(t),
    "list": lambda t, tt: torch.cat([t, tt]),
    "tuple": lambda t, tt: torch.stack((tt, t)),
    "list in a list": lambda t, _: torch.block_diag(*[t, t]),
    "varargs": lambda t, tt: torch.einsum("ij,ij->i", t, tt),
    "list of operands": lambda t, tt: torch.einsum("ij,ij->i", [t, tt]),
    "where": lambda t, tt: torch.where(tt > 2, t, -tt),
    "operator packet": torch.ops.aten.add,
    "operator overload": lambda t, tt: torch.ops.aten.add.Tensor(tt, t),
    "views": lambda t, _: torch.split(t, 1)[1],
    "matrix product": lambda t, tt: tt @ t.T,
    "dtype": lambda t, _: torch.zeros_like(t),
}


@pytest.mark.parametrize("case", READS)
def test_reads(case: str) -> None:
    t, tt = pair()
    result = READS[case](t, tt)
    assert type(result) is torch.Tensor
    torch.testing.assert_close(result, READS[case](tt, tt))


def test_shares() -> None:
    t, _ = pair()
    seen = torch.t(t)
    assert seen.data_ptr() == t.data_ptr()
    seen[0, 1] = 42
    assert t[1, 0].item() == 42
    with candle.strict(), candle.trace() as moves:
        torch.neg(t)
    assert [(move.action, move.consumer) for move in moves] == [("share", "torch")]


def test_modules_and_gradients() -> None:
    t, tt = pair()
    layer = torch.nn.Linear(3, 2)
    torch.testing.assert_close(layer(t), layer(tt))
    loss = torch.nn.functional.mse_loss(layer(t), torch.zeros(2, 2))
    loss.backward()
    assert layer.weight.grad.abs().sum() > 0
    model = torch.nn.Sequential(torch.nn.Flatten(), layer, torch.nn.ReLU())
    torch.testing.assert_close(model(t), model(tt))


def test_assignment() -> None:
    t, _ = pair()
    rows = torch.zeros(2, 3)
    rows[1] = t[1]
    assert rows.tolist() == [[0, 0, 0], [3, 4, 5]]
    rows.copy_(t)
    assert rows.tolist() == t.tolist()


WRITES: dict[str, Callable[[Any], Any]] = {
    "out": lambda t: torch.add(torch.ones(2, 3), 1, out=t),
    "outs": lambda t: torch.max(
        torch.full((2, 3, 1), 2.0), 2, out=(t, torch.zeros(2, 3, dtype=torch.int64))
    ),
    "function": lambda t: torch.nn.functional.threshold_(t, 100, 2),
    "by keyword": lambda t: torch.fill_(input=t, value=2),
    "inplace": lambda t: torch.nn.functional.threshold(t, 100, 2, inplace=True),
}


@pytest.mark.parametrize("case", WRITES)
def test_writes(case: str) -> None:
    t, _ = pair()
    WRITES[case](t)
    assert t.tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("case", WRITES)
def test_does_not_write_to_read_only(case: str) -> None:
    base, _ = pair()
    array = base.numpy()
    array.flags.writeable = False
    t = candle.Tensor(array)
    with pytest.raises(ValueError, match=r"read-only.*t\.copy\(\)"):
        WRITES[case](t)
    assert t.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("case", WRITES)
def test_does_not_write_to_a_copy(case: str) -> None:
    t, _ = pair()
    with pytest.raises(candle.CopyError, match="stride"):
        WRITES[case](t[::-1])


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_reads_a_copy_of_read_only() -> None:
    t = frozen()
    with candle.trace() as moves:
        result = torch.bitwise_not(t)
    assert result.tolist() == [255, 254, 253, 252]
    [move] = moves
    assert [reason.code for reason in move.reasons] == ["read_only"]
    assert torch.t(t).data_ptr() != t.data_ptr()
    with candle.strict(), pytest.raises(candle.CopyError):
        torch.bitwise_not(t)


def test_warns_of_read_only_copies(in_child: Callable[..., Any]) -> None:
    code = """
        import warnings, torch, candle
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            torch.neg(candle.Tensor(b"ab").view("int8"))
        print([warning.category.__name__ for warning in told])
    """
    assert in_child(code).check() == "['ReadOnlyCopyWarning']\n"


def test_arguments_stay_the_same_objects() -> None:
    """What holds no Tensor is passed on as it is: functions may write to it, or compare it."""
    t, tt = pair()
    seen: list[Any] = []

    def function(*args: Any, **kwargs: Any) -> None:
        seen.extend([args, kwargs])

    holder, plain, key = [tt, [1, t]], {"a": [tt]}, (1, tt)
    candle.Tensor.__torch_function__(
        function, (candle.Tensor,), (t, holder, plain, key), {"x": {"y": t}, "z": plain}
    )
    args, kwargs = seen
    assert type(args[0]) is torch.Tensor
    assert type(args[1][1][1]) is torch.Tensor
    assert args[1][0] is tt
    assert args[2] is plain
    assert args[3] is key
    assert type(kwargs["x"]["y"]) is torch.Tensor
    assert kwargs["z"] is plain
    assert holder[1][1] is t, "the caller's list was written to"


def test_arguments_by_name() -> None:
    t, tt = pair()
    assert torch.sub(input=t, other=t[:1], alpha=2).tolist() == (tt - 2 * tt[:1]).tolist()


def test_other_types_with_the_protocol() -> None:
    """A subclass of torch's among the arguments has its say too."""

    class Logged(torch.Tensor):  # type: ignore[misc, name-defined]
        names: list[str] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(cls, func: Any, *rest: Any) -> Any:
            cls.names.append(func.__name__)
            return super().__torch_function__(func, *rest)

    t, tt = pair()
    logged = tt.as_subclass(Logged)
    for pair_of in ((t, logged), (logged, t)):
        assert isinstance(torch.add(*pair_of), Logged)
        assert "add" in Logged.names
        Logged.names.clear()


def test_subclass_of_tensor() -> None:
    class Named(candle.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, *rest: Any) -> Any:
            return (func.__name__, super().__torch_function__(func, *rest))

    name, result = torch.sin(Named([0.0]))
    assert (name, result.tolist()) == ("sin", [0.0])


def test_torch_takes_what_it_took_before() -> None:
    t, tt = pair()
    for made in (torch.from_dlpack(t), torch.as_tensor(t), torch.asarray(t)):
        assert made.data_ptr() == t.data_ptr()
    assert torch.tensor(t).tolist() == tt.tolist()
    assert not torch.is_tensor(t)


BAD: dict[str, Any] = {
    "no arguments": ((), {}),
    "args": ((torch.sin, (), [1]), {}),
    "kwargs": ((torch.sin, (), (), [1]), {}),
    "names": ((torch.sin, (), (), {1: candle.zeros(2)}), {}),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_calls(case: str) -> None:
    args, kwargs = BAD[case]
    with pytest.raises(TypeError):
        candle.Tensor.__torch_function__(*args, **kwargs)


def test_errors_pass_through() -> None:
    t, _ = pair()
    with pytest.raises(RuntimeError, match="must match"):
        torch.add(t, torch.zeros(4))
    with pytest.raises(BufferError, match="uint4"):
        torch.sin(candle.zeros((2,), dtype="uint4"))
    nested: list[Any] = []
    nested.append(nested)
    with pytest.raises(RecursionError):
        candle.Tensor.__torch_function__(torch.sin, (), (nested,))
