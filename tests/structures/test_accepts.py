"""`accepts`: who is given what, and what comes back."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import typing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from interfaces import Interface

import candle
from candle.accepting import _stands_for
from candle.testing import Producer, shares_memory


@candle.accepts("numpy")
def doubled(x: Any, scale: float = 2.0, *, out: Any = None) -> Any:
    """Double it."""
    assert isinstance(x, np.ndarray)
    return np.multiply(x, scale, out=out)


def kinds() -> dict[str, Any]:
    made: dict[str, Any] = {"numpy": np.arange(3.0), "candle": candle.arange(3.0)}
    for name in ("torch", "jax", "tvm_ffi"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        x = np.arange(3, dtype=np.float32)
        made[name] = {
            "torch": lambda module=module, x=x: module.from_numpy(x),
            "jax": lambda module=module, x=x: module.numpy.asarray(x),
            "tvm_ffi": lambda module=module, x=x: module.from_dlpack(x),
        }[name]()
    return made


@pytest.mark.parametrize("name", kinds())
def test_caller_gets_its_own_kind(name: str) -> None:
    x = kinds()[name]
    result = doubled(x)
    assert type(result) is type(x)
    assert candle.asarray(result).tolist() == [0, 2, 4]


def test_producer_that_names_no_device() -> None:
    """Its memory does."""
    x = Interface(np.arange(3.0).tobytes(), shape=(3,), typestr="<f8")
    assert doubled(x).tolist() == [0, 2, 4]
    assert type(doubled(x)) is candle.Tensor


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
@pytest.mark.parametrize("name", kinds())
def test_written_for_torch(name: str) -> None:
    torch = pytest.importorskip("torch")

    @candle.accepts(torch)
    def softmax(x: Any) -> Any:
        assert type(x) is torch.Tensor
        return {"p": torch.softmax(x, 0), "shape": tuple(x.shape), "rest": [x.sum()]}

    x = kinds()[name]
    result = softmax(x)
    assert type(result["p"]) is type(result["rest"][0]) is type(x)
    assert result["shape"] == (3,)
    assert candle.asarray(result["rest"][0]).item() == 3


def test_own_kind_is_passed_as_it_is() -> None:
    torch = pytest.importorskip("torch")

    @candle.accepts("torch")
    def same(x: Any, y: Any) -> Any:
        return x * 2, y

    x = torch.ones(2, requires_grad=True)
    y = np.ones(2)
    result, other = same(x, y)
    assert result.requires_grad
    assert isinstance(other, torch.Tensor)  # all follow the first
    assert shares_memory(other, y)


def test_first_tensor_is_followed_wherever_it_is() -> None:
    x, y = candle.arange(3), np.arange(3)
    take = candle.accepts("numpy")(lambda *args, **kwargs: np.ones(1))
    assert isinstance(take(1, "a", [None, {"x": x}], y), candle.Tensor)
    assert isinstance(take(1, y=y, x=x), np.ndarray)
    assert isinstance(take(1, x=x, y=y), candle.Tensor)
    assert isinstance(take(1), np.ndarray)


def test_what_is_handed_back_is_the_callers_object() -> None:
    take = candle.accepts("numpy")(lambda x: {"same": x, "view": x[1:], "none": None})
    x = candle.arange(3)
    result = take(x)
    assert result["same"] is x
    assert shares_memory(result["view"], x)
    out = candle.zeros(3, dtype="float64")
    assert doubled(candle.arange(3.0, dtype="float64"), out=out) is out
    assert out.tolist() == [0, 2, 4]


def test_writes_are_seen() -> None:
    @candle.accepts("numpy")
    def clear(x: Any) -> None:
        x[:] = 0

    x = candle.arange(3)
    assert clear(x) is None
    assert x.tolist() == [0, 0, 0]


def reversed_axis() -> Any:
    return np.arange(3.0)[::-1]


def read_only() -> Any:
    x = np.arange(3.0)
    x.flags.writeable = False
    return x


COPIED = {
    "reversed": ("torch", reversed_axis),
    "read-only": ("torch", read_only),
    "byte order": ("torch", lambda: np.arange(3, dtype=">f8")),
    "overlapping": ("jax", lambda: np.lib.stride_tricks.as_strided(np.zeros(1, "f4"), (3,), (0,))),
    "four bits": ("numpy", lambda: candle.arange(3, dtype="int4")),
    "of jax": ("torch", lambda: pytest.importorskip("jax").numpy.arange(3.0)),
    "of Arrow": ("torch", lambda: candle.from_arrow(pytest.importorskip("pyarrow").array([1.0]))),
    "conjugate": ("numpy", lambda: pytest.importorskip("torch").tensor([1j, 2.0]).conj()),
}


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
@pytest.mark.parametrize("way", ["plain", "async", "nested", "out"])
@pytest.mark.parametrize("case", COPIED)
def test_what_was_written_to_a_copy_comes_back(case: str, way: str) -> None:
    framework, make = COPIED[case]
    pytest.importorskip(framework)

    def increased(x: Any) -> Any:
        x += 1
        return x

    async def later(x: Any) -> Any:
        return increased(x)

    def into(x: Any, out: Any) -> Any:
        out[...] = x + 1 if framework != "jax" else out
        return out

    x = make()
    before = candle.tensor(x).tolist()
    expected = [value + 1 for value in before]
    if way == "plain":
        found = candle.accepts(framework)(increased)(x)
    elif way == "async":
        found = asyncio.run(candle.accepts(framework)(later)(x))
    elif way == "nested":
        found = candle.accepts(framework)(lambda x: {"a": [increased(x)]})(x)["a"][0]
    elif framework == "jax":
        pytest.skip("jax writes nothing")
    else:
        found = candle.accepts(framework)(into)(x, make())
    assert candle.tensor(found).tolist() == expected
    assert type(found) is type(x)
    assert candle.tensor(x).tolist() == before


def with_other_shape(x: Any) -> Any:
    x.shape = (3, 2)
    return x


def with_other_dtype(x: Any) -> Any:
    x.dtype = "int32"
    return x


def with_other_data(x: Any) -> Any:
    x.data = x.data.new_zeros(5)
    return x


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
@pytest.mark.parametrize(
    ("framework", "change", "expected"),
    [
        ("torch", lambda x: x.t_(), (3, 2)),
        ("torch", lambda x: x.unsqueeze_(0), (1, 2, 3)),
        ("torch", lambda x: x.resize_(2), (2,)),
        ("torch", with_other_data, (5,)),
        ("numpy", with_other_shape, (3, 2)),
        ("numpy", with_other_dtype, (2, 3)),
    ],
)
def test_what_was_changed_in_place_comes_back(framework: str, change: Any, expected: Any) -> None:
    """The function's tensor is another view of the caller's memory then."""
    pytest.importorskip(framework)
    others = [np.ones((2, 3), "f4")] if framework != "numpy" else []
    for x in (candle.ones((2, 3)), *others):
        found = candle.accepts(framework)(change)(x)
        assert found is not x
        assert tuple(found.shape) == expected
        assert str(found.dtype) == ("int32" if change is with_other_dtype else "float32")
        assert candle.shares_memory(found, x) == (change is not with_other_data)
        assert tuple(x.shape) == (2, 3)


def test_shared_ones_come_back_as_they_were() -> None:
    """Empty ones and axes of one element too."""
    arrays = (
        np.arange(3.0),
        np.zeros((2, 0)),
        np.zeros((1, 3, 1))[:, ::2],
        np.zeros(()),
    )
    tensors = tuple(map(candle.asarray, arrays))
    for framework, xs in (("torch", arrays + tensors), ("numpy", tensors), ("candle", arrays)):
        pytest.importorskip(framework)
        found = candle.accepts(framework)(lambda *xs: xs)(*xs)
        assert [a is b for a, b in zip(found, xs, strict=True)] == [True] * len(xs)


def test_what_a_tensor_stands_for() -> None:
    t = candle.arange(6).reshape((2, 3))
    same = (t, t[:], candle.asarray(t.numpy()), t.T.T, t[:, None][:, 0])
    assert all(_stands_for(x, t) for x in same)
    others = (
        t[:1],
        t.T,
        t[::-1],
        t.copy(),
        t.view("uint64"),
        candle.asarray(Producer(shape=(2, 3), dtype=(0, 64, 1), device=(10, 0))),
    )
    assert not any(_stands_for(x, t) for x in others)
    torch = pytest.importorskip("torch")
    own = torch.zeros(2, requires_grad=True)
    assert _stands_for(own, own)
    assert not _stands_for(own, own.detach())
    assert _stands_for(own.detach(), own)


def test_classes_are_refused() -> None:
    with pytest.raises(TypeError, match="not the class Answer; decorate its methods"):
        candle.accepts("numpy")(Answer)


def test_unknown_kinds_get_candle() -> None:
    assert isinstance(doubled(Producer(shape=(3,))), candle.Tensor)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Answer:
    value: Any
    shape: Any = None


def test_nested_arguments_and_results() -> None:
    @candle.accepts("numpy")
    def work(batch: Any, *rest: Any, options: Any, **more: Any) -> Any:
        assert isinstance(batch.value["x"][0], np.ndarray)
        assert isinstance(rest[1].second, np.ndarray)
        assert isinstance(options["scale"], np.ndarray)
        assert isinstance(more["last"], np.ndarray)
        x = batch.value["x"][0]
        return Answer(Pair(x + 1, {"again": x}), x.shape), [(x * options["scale"],)]

    x = candle.arange(3)
    other = np.arange(3)
    answer, rest = work(
        Answer({"x": (x,)}), 1, Pair(None, other), options={"scale": other}, last=other
    )
    assert type(answer) is Answer
    assert type(answer.value) is Pair
    assert answer.value.first.tolist() == [1, 2, 3]
    assert answer.value.second["again"] is x
    assert answer.shape == (3,)
    assert isinstance(rest[0][0], candle.Tensor)


def test_keyword_only_and_positional_only() -> None:
    @candle.accepts("numpy")
    def work(x: Any = None, /, *, y: Any, z: Any = None) -> Any:
        assert isinstance(y, np.ndarray)
        return y + 1

    assert isinstance(work(y=candle.zeros(2)), candle.Tensor)
    assert isinstance(work(candle.zeros(2), y=np.zeros(2)), candle.Tensor)
    # The first as the call has them, not as the signature does.
    assert isinstance(work(z=np.zeros(2), y=candle.zeros(2)), np.ndarray)


def test_reductions_come_back_as_tensors() -> None:
    """numpy gives its scalars in place of arrays without axes."""
    torch = pytest.importorskip("torch")
    take = candle.accepts("numpy")(
        lambda x: (x.sum(), x.max(), (x > 1).any(), x.mean(dtype="float32"), 7, np.str_("a"))
    )
    for x, kind in ((candle.arange(3), candle.Tensor), (torch.arange(3), torch.Tensor)):
        *tensors, number, text = take(x)
        assert [type(t) for t in tensors] == [kind] * 4
        assert [t.item() for t in tensors] == [3, 2, True, 1]
        assert [tuple(t.shape) for t in tensors] == [()] * 4
        assert type(number) is int
        assert isinstance(text, np.str_)
    assert isinstance(take(np.arange(3))[0], np.integer)
    # Among arguments they are numbers.
    scaled = candle.accepts("torch")(lambda x, n: (x * n, type(n)))
    assert scaled(np.ones(2), np.float32(2))[1] is np.float32


def test_messages_say_where() -> None:
    torch = pytest.importorskip("torch")

    @candle.accepts("numpy")
    def work(x: Any, *, options: Any = None) -> Any:
        return {"bad": [np.array([None])]} if options is None else np.array([None])

    grad = torch.ones(2, requires_grad=True)
    cases = {
        "this tensor is at args[1]['w']": lambda: work(np.ones(1), {"w": grad}),
        "this tensor is at kwargs['options'][0]": lambda: work(np.ones(1), options=[grad]),
        "this tensor is what test_messages_say_where.<locals>.work gave, at result['bad'][0]": (
            lambda: work(candle.ones(1))
        ),
        "this tensor is what test_messages_say_where.<locals>.work gave": (
            lambda: work(candle.ones(1), options=1)
        ),
        "this tensor is at args[1]": lambda: Model(None).method(grad),
    }
    for note, call in cases.items():
        with pytest.raises(BufferError) as caught:
            call()
        assert caught.value.__notes__ == [note]


def test_gradients_are_refused_or_detached() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(BufferError, match="detach=True"):
        doubled(x)
    detaching = candle.accepts("numpy", detach=True)(lambda x: x + 1)
    assert detaching(x).tolist() == [2, 2]
    torch_detaching = candle.accepts("torch", detach=True)(lambda x, y: y * 1)
    assert torch_detaching(np.ones(2), x).tolist() == [1, 1]
    kept = candle.accepts("torch", detach=True)(lambda x, y: x * 1)
    assert kept(x, np.ones(2)).requires_grad


@dataclass
class Model:
    weight: Any

    @candle.accepts("numpy")
    def method(self, x: Any) -> Any:
        assert isinstance(self.weight, candle.Tensor)  # the object is not looked into
        assert isinstance(x, np.ndarray)
        return x + 1

    @classmethod
    @candle.accepts("numpy")
    def of_class(cls, x: Any) -> Any:
        assert cls is Model
        return x + 1

    @candle.accepts("numpy")
    @classmethod
    def of_class_outside(cls, x: Any) -> Any:
        assert cls is Model
        return x + 1

    @staticmethod
    @candle.accepts("numpy")
    def static(x: Any) -> Any:
        return x + 1

    @candle.accepts("numpy")
    @staticmethod
    def static_outside(x: Any) -> Any:
        return x + 1


class Special(Model):
    pass


@pytest.mark.parametrize(
    "name", ["method", "of_class", "of_class_outside", "static", "static_outside"]
)
@pytest.mark.parametrize("cls", [Model, Special])
def test_methods(name: str, cls: type[Model]) -> None:
    if name.startswith("of_class") and cls is Special:
        pytest.skip("they assert that the class is Model")
    model = cls(candle.ones(2))
    result = getattr(model, name)(candle.zeros(2))
    assert isinstance(result, candle.Tensor)
    assert result.tolist() == [1, 1]
    again = Model.__dict__[name]
    assert isinstance(again, staticmethod | classmethod) or name == "method"
    assert Model.method(model, candle.zeros(2)).tolist() == [1, 1]


async def doubled_later(x: Any) -> Any:
    await asyncio.sleep(0)
    assert isinstance(x, np.ndarray)
    return x * 2


class DoubledLater:
    async def __call__(self, x: Any) -> Any:
        return await doubled_later(x)


@pytest.mark.parametrize(
    "function",
    [doubled_later, functools.partial(doubled_later), DoubledLater(), DoubledLater().__call__],
    ids=["function", "partial", "object", "bound"],
)
def test_async(function: Any) -> None:
    later = candle.accepts("numpy")(function)
    assert inspect.iscoroutinefunction(later)
    result = asyncio.run(later(candle.arange(3)))
    assert isinstance(result, candle.Tensor)
    assert result.tolist() == [0, 2, 4]


def test_signature_name_and_hints_stay() -> None:
    assert doubled.__name__ == "doubled"
    assert doubled.__doc__ == "Double it."
    assert str(inspect.signature(doubled)).startswith("(x: 'Any', scale: 'float' = 2.0, *, out")
    assert typing.get_type_hints(doubled)["scale"] is float
    assert doubled.__wrapped__.__code__.co_name == "doubled"  # type: ignore[attr-defined]


def test_what_cannot_be_decorated() -> None:
    def items(x: Any) -> Any:
        yield x

    async def items_later(x: Any) -> Any:
        yield x

    for function in (items, items_later, functools.partial(items)):
        with pytest.raises(TypeError, match="generator"):
            candle.accepts("numpy")(function)
    with pytest.raises(TypeError, match="decorates functions, not property"):
        candle.accepts("numpy")(property(len))
    with pytest.raises(TypeError, match="decorates functions, not int"):
        candle.accepts("numpy")(3)  # type: ignore[type-var]


def test_unknown_frameworks_are_told_of_at_once() -> None:
    with pytest.raises(ValueError, match="'pandas' is none of torch, numpy"):
        candle.accepts("pandas")
    for wrong in (len, None, np.ndarray, np.zeros(2)):  # `@candle.accepts` without a framework
        with pytest.raises(TypeError, match="named by a str or its module"):
            candle.accepts(wrong)


def test_exceptions_pass() -> None:
    @candle.accepts("numpy")
    def fails(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails(candle.zeros(2))


def test_threads() -> None:
    wrong = []

    def run(n: int) -> None:
        for _ in range(200):
            result = doubled(candle.ones(n))
            if not isinstance(result, candle.Tensor) or result.shape != (n,):
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
