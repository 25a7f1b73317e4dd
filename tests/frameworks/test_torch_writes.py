"""What torch functions write to is known of every one, and is never a copy."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.frameworks.torch_writes import writes as answer_for

if TYPE_CHECKING:
    from collections.abc import Callable

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")

# torch has no such dtype: whatever comes before it in a call has been looked at, and the function
# itself is never called.
STOP = candle.zeros((2,), dtype="uint4")
FROZEN = candle.Tensor(b"\1")


def writes(function: Any, place: int | str, *before: Any, **named: Any) -> bool:
    """Whether candle holds that a function writes to an argument: by position or by name."""
    args = (*before, *[None] * (place - len(before)), FROZEN) if isinstance(place, int) else before
    named = {**named, **({place: FROZEN} if isinstance(place, str) else {}), "a stop": STOP}
    with pytest.raises((ValueError, BufferError)) as caught:
        candle.Tensor.__torch_function__(function, (candle.Tensor,), args, named)
    if caught.type is ValueError:
        assert "read-only" in str(caught.value)
        return True
    assert "uint4" in str(caught.value)
    return False


def said(schema: Any) -> set[str]:
    """What a schema says is written to, in torch's own reading of it.

    torch knows there of the operators whose schemas leave it out.
    """
    reading = torch._C._SchemaInfo(schema)
    return {x.name for x in schema.arguments if reading.is_mutable(x.name)}


def overloads(name: str) -> list[Any]:
    """The schemas of torch's dispatcher, without TorchScript's for its own lists."""
    return [
        schema
        for schema in torch._C._jit_get_schemas_for_operator(name)
        if torch._C._dispatch_has_kernel(f"{name}.{schema.overload_name}".rstrip("."))
    ]


STATISTICS = {"running_mean", "running_var"}
# torch's own reading leaves these out; of others it leaves out some overloads.
LEFT_OUT = {
    *("batch_norm_update_stats", "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts"),
}


def written_to(name: str) -> set[str]:
    """What any overload of an operator writes to."""
    left_out = STATISTICS if name in LEFT_OUT else set()
    return left_out.union(*map(said, overloads(f"aten::{name}")))


ON: dict[str, Any] = {"training": True, "use_input_stats": True, "max_norm": 0.0}


def switched_on(parameters: list[str]) -> dict[str, Any]:
    return {name: on for name, on in ON.items() if name in parameters}


@pytest.mark.parametrize("namespace", ["aten", "prims"])
def test_every_operator(namespace: str) -> None:
    """Each argument of each overload, by position and by name; the packet is all of them."""
    names = {schema.name for schema in torch._C._jit_get_all_schemas()}
    seen = 0
    for name in sorted(name for name in names if name.startswith(f"{namespace}::")):
        schemas = overloads(name)
        bare = name.partition("::")[2]
        packet = getattr(getattr(torch.ops, namespace), bare)
        together: dict[tuple[int, str], bool] = {}
        for schema in schemas:
            overload = getattr(packet, schema.overload_name or "default")
            written = said(schema) | (written_to(bare) & STATISTICS)
            on = switched_on([x.name for x in schema.arguments])
            for place, x in enumerate(schema.arguments):
                if "Tensor" not in str(x.type):
                    continue
                expected = x.name in written
                assert writes(overload, x.name, **on) == expected, (schema, x.name)
                if not x.kwarg_only:
                    assert writes(overload, place, **on) == expected, (schema, place)
                key = (-1 if x.kwarg_only else place, x.name)
                together[key] = together.get(key, False) or expected
                seen += expected
        for (place, argument), expected in together.items():
            assert writes(packet, argument, **ON) >= expected, (name, argument)
            assert place < 0 or writes(packet, place, **ON) >= expected, (name, place)
    assert seen > {"aten": 1500, "prims": 2}[namespace]


def test_every_function_of_torch() -> None:
    """Those that torch names, by its table of parameters; "input" is the schemas' "self"."""
    seen = 0
    for function, stand_in in torch.overrides.get_testing_overrides().items():
        name = getattr(function, "__name__", "")
        schemas = overloads(f"aten::{name}")
        if isinstance(function, FunctionType) or not schemas:
            continue
        written = written_to(name)
        parameters = inspect.signature(stand_in).parameters.values()
        at = {x.name for schema in schemas for x in schema.arguments}
        for place, parameter in enumerate(parameters):
            argument = "self" if parameter.name == "input" else parameter.name
            if argument in at:
                expected = argument in written
                assert writes(function, parameter.name, **ON) == expected, (name, argument)
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name != "out":
                named = [x.arguments[place : place + 1] for x in schemas]
                expected = any(x[0].name in written and not x[0].kwarg_only for x in named if x)
                assert writes(function, place, **ON) == expected, (name, place)
                seen += expected
        assert writes(function, "out")
    assert seen > 100


PYTHON: dict[str, tuple[str, ...]] = {
    "torch.nn.functional.batch_norm": ("running_mean", "running_var"),
    "torch.nn.functional.instance_norm": ("running_mean", "running_var"),
    "torch.nn.functional.embedding": ("weight",),
    "torch.nn.functional.embedding_bag": ("weight",),
}


def test_every_function_written_in_python() -> None:
    """They write where their names or `inplace` say so, or as named here."""
    seen = set()
    for function in torch.overrides.get_testing_overrides():
        if not isinstance(inspect.unwrap(function), FunctionType):
            continue
        name = f"{function.__module__}.{function.__name__}"
        if name.startswith("torch.distributed."):
            continue
        parameters = inspect.signature(function).parameters
        on = switched_on(list(parameters))
        in_place = function.__name__.endswith("_") and not function.__name__.endswith("__")
        for place, (argument, parameter) in enumerate(parameters.items()):
            if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or argument in on:
                continue
            expected = argument in PYTHON.get(name, ()) or (place == 0 and in_place)
            given = {key: value for key, value in on.items() if list(parameters).index(key) > place}
            if argument != "out":
                assert writes(function, argument, **on) == expected, (name, argument)
            if len(given) == len(on):
                assert writes(function, place, **on) == expected, (name, place)
            seen |= {name} if expected else set()
        if "inplace" in parameters:
            first, last = next(iter(parameters)), list(parameters).index("inplace")
            for told in (True, False):
                assert writes(function, first, inplace=told) == told, name
                rest = [None] * (last - 1)
                call = functools.partial(candle.Tensor.__torch_function__, function, ())
                with pytest.raises(ValueError if told else BufferError, match=r"read|uint4"):
                    call((FROZEN, *rest, told, STOP))
    assert seen >= set(PYTHON)


COLLECTIVES = {
    "all_gather": "tensor_list",
    "all_gather_coalesced": "output_tensor_lists",
    "all_gather_single": "output_tensor",
    "all_reduce": "tensor",
    "all_reduce_coalesced": "tensors",
    "all_to_all": "output_tensor_list",
    "all_to_all_single": "output",
    "broadcast": "tensor",
    "gather": "gather_list",
    "irecv": "tensor",
    "isend": None,
    "recv": "tensor",
    "reduce": "tensor",
    "reduce_scatter": "output",
    "reduce_scatter_single": "output",
    "scatter": "tensor",
    "send": None,
}


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without collectives")
def test_every_collective() -> None:
    """Those that take others' tensors; every rank is taken to write what one does."""
    home = torch.distributed.distributed_c10d
    takes = {
        name
        for name, function in vars(home).items()
        if type(function) is FunctionType
        and "handle_torch_function" in inspect.unwrap(function).__code__.co_names
    }
    assert takes == set(COLLECTIVES)
    for name, written in COLLECTIVES.items():
        function = getattr(home, name)
        for place, argument in enumerate(inspect.signature(function).parameters):
            assert writes(function, argument) == (argument == written), (name, argument)
            assert writes(function, place) == (argument == written), (name, place)


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without collectives")
def test_collectives_write() -> None:
    t, given = candle.zeros((2,)), candle.Tensor([1.0, 1.0])
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        torch.distributed.all_gather_single(t, given)
        assert t.tolist() == [1, 1]
        with pytest.raises(ValueError, match="read-only"):
            torch.distributed.all_gather_single(candle.Tensor(bytes(8)).view("float32"), given)
        with pytest.raises(candle.CopyError, match="stride"):
            torch.distributed.all_reduce(candle.Tensor(np.ones(2, "float32"))[::-1])
    finally:
        torch.distributed.destroy_process_group()


def some(*shape: int) -> Any:
    return torch.arange(1, 1 + int(np.prod(shape)), dtype=torch.float32).reshape(shape)


# Each writes to its two rows of three numbers.
CALLS: dict[str, Callable[[Any], Any]] = {
    "overload": lambda t: torch.ops.aten.add_.Tensor(t, some(2, 3)),
    "overload by name": lambda t: torch.ops.aten.add_.Tensor(self=t, other=some(2, 3)),
    "packet": lambda t: torch.ops.aten.add_(t, 1),
    "out of an overload": lambda t: torch.ops.aten.add.out(some(2, 3), some(2, 3), out=t),
    "outs of an overload": lambda t: torch.ops.aten.max.dim_max(
        some(2, 3, 2), 2, max=t, max_values=torch.zeros(2, 3, dtype=torch.int64)
    ),
    "outs": lambda t: torch.max(some(2, 3, 2), 2, out=(t, torch.zeros(2, 3, dtype=torch.int64))),
    "prims": lambda t: torch.ops.prims.copy_to(t, -some(2, 3)),
    "many": lambda t: torch._foreach_add_([some(2), t], 1),
    "many by name": lambda t: torch._foreach_mul_(self=[t], scalar=2),
    "many, overload": lambda t: torch.ops.aten._foreach_add_.Scalar([t], 1),
    "optimizer": lambda t: torch._fused_sgd_(
        *([t], [some(2, 3)], []),
        weight_decay=0,
        momentum=0,
        lr=0.5,
        dampening=0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
    ),
    "optimizer's state": lambda t: torch._fused_adam_(
        *([some(2, 3)], [torch.ones(2, 3)], [t], [some(2, 3)], [], [torch.ones(())]),
        lr=0.5,
        beta1=0.9,
        beta2=0.9,
        weight_decay=0,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    ),
    "old signature": lambda t: torch.addmv_(1, t[0], 1, some(3, 3), some(3)),
    "batch_norm": lambda t: F.batch_norm(some(4, 3), t[0], t[1], training=True),
    "batch_norm by position": lambda t: F.batch_norm(some(4, 3), t[0], t[1], None, None, True),
    "batch_norm of torch": lambda t: torch.batch_norm(
        some(4, 3), None, None, t[0], t[1], True, 0.1, 1e-5, False
    ),
    "batch_norm, overload": lambda t: torch.ops.aten.native_batch_norm.default(
        some(4, 3), None, None, t[0], t[1], True, 0.1, 1e-5
    ),
    "instance_norm": lambda t: F.instance_norm(some(2, 3, 4), t[0], t[1]),
    "statistics": lambda t: torch.batch_norm_update_stats(some(4, 3), t[0], t[1], 0.1),
    "embedding": lambda t: F.embedding(torch.tensor([0, 1]), t, max_norm=0.1),
    "embedding_bag": lambda t: F.embedding_bag(torch.tensor([[0, 1]]), t, max_norm=0.0),
    "embedding by name": lambda t: F.embedding(input=torch.tensor([0]), weight=t, max_norm=0.1),
    "initial values": lambda t: torch.nn.init.constant_(t, 7),
    "activation": lambda t: F.hardtanh(t, -0.5, 0.5, True),
    "noise": lambda t: torch._C._nn.rrelu_with_noise(-some(2, 3), t, 0.25, 0.5, True),
}


def rows() -> Any:
    return np.arange(1, 7, dtype="float32").reshape(2, 3)


@pytest.mark.filterwarnings("ignore:This overload of addmv_ is deprecated")
@pytest.mark.parametrize("case", CALLS)
def test_writes_or_refuses(case: str) -> None:
    expected = torch.from_numpy(rows())
    torch.manual_seed(0)
    CALLS[case](expected)
    assert expected.tolist() != rows().tolist()
    array = rows()
    torch.manual_seed(0)
    CALLS[case](candle.Tensor(array))
    assert array.tolist() == expected.tolist()
    array = rows()
    array.flags.writeable = False
    with pytest.raises(ValueError, match=r"read-only.*t\.copy\(\)"):
        CALLS[case](candle.Tensor(array))
    for turned in (array[:, ::-1], array[::-1, ::-1]):
        copied = turned.copy()  # that may be written
        with pytest.raises(candle.CopyError, match="stride"):
            CALLS[case](candle.Tensor(copied[::-1, ::-1]))
        assert copied.tolist() == turned.tolist()
    assert array.tolist() == rows().tolist()


# The same functions read only.
READS: dict[str, Callable[[Any], Any]] = {
    "batch_norm": lambda t: F.batch_norm(some(4, 3), t[0], t[1]),
    "batch_norm by position": lambda t: F.batch_norm(some(4, 3), t[0], t[1], None, None, False),
    "batch_norm of torch": lambda t: torch.batch_norm(
        some(4, 3), None, None, t[0], t[1], False, 0.1, 1e-5, False
    ),
    "instance_norm": lambda t: F.instance_norm(some(2, 3, 4), t[0], t[1], use_input_stats=False),
    "embedding": lambda t: F.embedding(torch.tensor([0, 1]), t),
    "embedding_bag": lambda t: F.embedding_bag(torch.tensor([[0, 1]]), t, max_norm=None),
    "activation": lambda t: F.hardtanh(t, -0.5, 0.5, False),
    "sort": lambda t: torch.ops.aten.sort(t)[0],
    "many": lambda t: torch._foreach_add([t], 1)[0],
    "a written one beside": lambda t: torch.ops.aten.add_.Tensor(some(2, 3), t),
    "a number first": lambda t: torch.pow(2, t),
}


@pytest.mark.parametrize("case", READS)
def test_reads(case: str) -> None:
    array = rows()
    expected = READS[case](torch.from_numpy(array))
    array.flags.writeable = False
    for t in (candle.Tensor(array), candle.Tensor(array[::-1].copy())[::-1]):
        assert READS[case](t).tolist() == expected.tolist()


def test_operators_of_others() -> None:
    """Their schemas say it; those that leave it out say it by their names, as torch's do."""

    def add(a: Any, b: Any) -> None:
        b.add_(a)

    library = torch.library.Library("candle_tests", "DEF")
    try:
        library.define("told(Tensor a, Tensor(a!) b) -> ()")
        library.define("untold_(Tensor a, Tensor b) -> ()")
        library.impl("told", add, "CPU")
        library.impl("untold_", lambda a, b: add(b, a), "CPU")
        told, untold = torch.ops.candle_tests.told, torch.ops.candle_tests.untold_
        for function in (told, told.default):
            assert [writes(function, place) for place in (0, 1)] == [False, True]
        for function in (untold, untold.default):
            assert [writes(function, place) for place in (0, 1)] == [True, False]
            assert writes(function, "a")
        t = candle.zeros((2,))
        told(some(2), t)
        untold(t, some(2))
        assert t.tolist() == [2, 4]
    finally:
        library._destroy()


def test_functions_that_come_and_go() -> None:
    """What is known of a function is not taken for that of another one at its address."""

    def make(name: str) -> Callable[..., object]:
        def function(first: object, second: object, *, inplace: bool = False) -> object:
            return first, second

        function.__name__ = name
        return function

    for _ in range(50):
        for name, written in (("changes_", True), ("looks", False), ("__eq__", False)):
            function = make(name)
            assert writes(function, 0) == writes(function, "first") == written
            assert not writes(function, 1)
            assert writes(function, 0, inplace=True)
    wrapped = functools.wraps(make("changes_"))(lambda *args: args)
    assert writes(wrapped, "first")
    assert writes([].append, 0) is writes(dict.get, 0) is writes(max, 0) is False
    assert writes(functools.partial(max), 0, inplace=True)


def test_positions() -> None:
    """A number that old signatures have first, what is left out, and places without end."""
    for number in (1, 1.5, 2j):
        assert writes(torch.addmv_, 1, number)
        assert not writes(torch.addmv_, 3, number)
    for function, written in ((F.instance_norm, True), (F.batch_norm, False)):
        with pytest.raises(ValueError if written else BufferError, match=r"read|uint4"):
            candle.Tensor.__torch_function__(function, (), (None, FROZEN, STOP))
    for place in (62, 63, 64, 65, 200):
        assert not writes(torch.ops.aten.add_.Tensor, place)


def test_threads_that_ask_at_once() -> None:
    operators = [torch.ops.aten.mul_.Tensor, torch.ops.aten.mul.Tensor, torch.sub, F.relu6]
    expected, found = [True, False, False, False], []
    gate = threading.Barrier(4)

    def ask() -> None:
        gate.wait()
        found.append([writes(operator, 0) for operator in operators])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


class Odd:
    """Fails to tell whether it is on, and what it is called."""

    @property
    def __name__(self) -> str:
        raise ArithmeticError("no name")

    def __bool__(self) -> bool:
        raise ArithmeticError("neither on nor off")


def test_errors_of_what_is_asked() -> None:
    with pytest.raises(ArithmeticError, match="neither"):
        candle.Tensor.__torch_function__(F.relu, (), (FROZEN,), {"inplace": Odd()})
    with pytest.raises(ArithmeticError, match="no name"):
        candle.Tensor.__torch_function__(Odd(), (), (FROZEN,))  # type: ignore[arg-type]


def test_functions_without_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only their names tell."""
    for function in (torch.Tensor.data_ptr, torch.Tensor.tolist, torch.from_numpy):
        assert answer_for(function)[2:6] == (1, (), -1, "inplace")
    assert answer_for(torch.Tensor.requires_grad_)[5] is None

    def endless(x: Any) -> None: ...

    endless.__wrapped__ = endless  # type: ignore[attr-defined]
    assert answer_for(endless)[2] == 1
    monkeypatch.delitem(sys.modules, "torch")
    assert answer_for(len)[5] == "inplace"
