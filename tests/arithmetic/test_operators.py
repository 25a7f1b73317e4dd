"""Operators, in-place operators, comparisons, masks: values, dtypes, sharing, refusals."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

np = pytest.importorskip("numpy")
pytest.importorskip("array_api_compat")

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
BITS = ("and_", "or_", "xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")

# Operands as every library would lay them: whole, by steps, reversed, transposed, repeated.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda a: a,
    "steps": lambda a: a.repeat(2, axis=1)[:, ::2],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "transposed": lambda a: a.T.copy().T,
    "row": lambda a: a[0],
    "single": lambda a: a[:1, :1],
}


def numbers(dtype: str) -> Any:
    return np.array([[3, 1, 2], [1, 4, 2]], dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ARITHMETIC + BITS + COMPARISONS)
def test_operators_do_what_numpy_does(name: str, layout: str) -> None:
    function = getattr(operator, name)
    for dtype in ("int64", "uint8") if name in BITS else ("float32", "int16"):
        a, b = numbers(dtype), LAYOUTS[layout](numbers(dtype))
        x, y = candle.asarray(a), candle.asarray(b)
        assert y.data_ptr() == b.__array_interface__["data"][0]
        with candle.trace() as moves:
            got = function(x, y)
        want = function(a, b)
        assert type(got) is candle.Tensor
        assert got.dtype == want.dtype
        assert got.tolist() == want.tolist()
        assert [move for move in moves if move.action != "share"] == []
        got[...] = 0
        assert (a == numbers(dtype)).all()


@pytest.mark.parametrize("name", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("number", [2, 2.0, True])
def test_python_numbers_take_the_tensors_dtype(name: str, number: Any) -> None:
    function = getattr(operator, name)
    for dtype in ("float32", "float64", "int32"):
        a = numbers(dtype)
        for got, want in (
            (function(candle.asarray(a), number), function(a, number)),
            (function(number, candle.asarray(a)), function(number, a)),
        ):
            assert (got.dtype, got.tolist()) == (want.dtype, want.tolist())


@pytest.mark.parametrize("name", ARITHMETIC + BITS)
def test_in_place(name: str) -> None:
    function = getattr(operator, f"i{name.strip('_')}")
    a = numbers("int64" if name in BITS else "float64")
    x = candle.asarray(a)
    before = x
    want = function(a.copy(), 2)
    x = function(x, 2)
    assert x is before
    assert a.tolist() == want.tolist()  # in the memory that both have


def test_unary() -> None:
    t = candle.tensor([[-1.5, 2.0]])
    assert (-t).tolist() == [[1.5, -2.0]]
    assert (+t).tolist() == t.tolist()
    assert abs(t).tolist() == [[1.5, 2.0]]
    assert (~candle.tensor([True, False])).tolist() == [False, True]
    assert (~candle.tensor([1])).tolist() == [-2]


def test_matmul() -> None:
    a = candle.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (a @ a.T).tolist() == [[5, 11], [11, 25]]
    assert a.matmul(candle.tensor([1.0, 0.0])).tolist() == [1, 3]
    assert (np.ones((1, 2), "float32") @ a).tolist() == [[4, 6]]
    a @= a
    assert a.tolist() == [[7, 10], [15, 22]]


@pytest.mark.parametrize("step", [-1, 2])
def test_in_place_over_its_own_memory(step: int) -> None:
    a = np.arange(8.0)
    t = candle.asarray(a.copy())
    t[: 8 // abs(step)] += t[::step]
    a[: 8 // abs(step)] = a[: 8 // abs(step)] + a[::step].copy()
    assert t.tolist() == a.tolist()


def test_in_place_keeps_dtype_and_shape() -> None:
    t = candle.tensor([1, 2])
    with pytest.raises(TypeError, match="int64"):
        t += 1.5
    with pytest.raises(ValueError, match="shape"):
        t += candle.tensor([[1], [2]])
    assert t.tolist() == [1, 2]


WRITES: dict[str, Callable[[Any], Any]] = {
    "+=": lambda t: operator.iadd(t, 1),
    "mask": lambda t: operator.setitem(t, t > 0, 7),
    "array": lambda t: operator.setitem(t, [0], 7),
    "out": lambda t: np.add(t, 1, out=t),
    "at": lambda t: np.add.at(t, [0], 1),
    "copyto": lambda t: np.copyto(t, 7),
    "put": lambda t: np.put(t, [0], 7),
    "putmask": lambda t: np.putmask(t, t.numpy() > 0, 7),
    "sum out": lambda t: np.sum(t.numpy()[None], axis=0, out=t),
}


@pytest.mark.parametrize("write", WRITES)
def test_what_may_not_be_written(write: str) -> None:
    fixed = np.array([1.0, 2.0])
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        WRITES[write](candle.asarray(fixed))
    assert fixed.tolist() == [1, 2]
    one = candle.tensor([1.0])
    with pytest.raises(ValueError, match="stride 0"):
        WRITES[write](one.broadcast_to(2))
    assert one.tolist() == [1]


@pytest.mark.parametrize("write", WRITES)
def test_packed_elements_are_not_lost_in_a_copy(write: str) -> None:
    packed = candle.tensor([1, 2]).to("int4")
    with pytest.raises(candle.CopyError, match="packed"):
        WRITES[write](packed)
    assert packed.tolist() == [1, 2]


@pytest.mark.parametrize("write", WRITES)
def test_writes_reach_the_memory(write: str) -> None:
    a = np.array([1.0, 2.0])
    WRITES[write](candle.asarray(a))
    want = np.array([1.0, 2.0])
    WRITES[write](_Array(want))
    assert a.tolist() == want.tolist()


class _Array(np.ndarray):
    """numpy's own array, with the method that the writes above ask for."""

    def __new__(cls, a: Any) -> _Array:
        made: _Array = a.view(cls)
        return made

    def numpy(self) -> Any:
        return self.view(np.ndarray)


# Operands of others


def test_operands_of_frameworks(framework: Callable[[str], Any]) -> None:
    t = candle.tensor([1.0, 2.0])
    torch = framework("torch")
    for other in (
        np.array([1, 2], "float32"),
        torch.tensor([1.0, 2.0]),
        framework("jax.numpy").asarray([1.0, 2.0]),
    ):
        for got in (t + other, t * other, t - other, t / other, t == other):
            assert type(got) is candle.Tensor
        assert (t + other).dtype is candle.float32
        assert (t - other).tolist() == [0, 0]
        assert (t == other).tolist() == [True, True]
        for got in (other + t, other - t, other == t):  # torch computes with Tensors by itself
            assert type(got) is (torch.Tensor if isinstance(other, torch.Tensor) else candle.Tensor)
        assert (other + t).tolist() == [2, 4]


def test_dtypes_of_operands() -> None:
    t = candle.tensor([1.0, 2.0])
    assert (t + np.float64(1)).dtype is candle.float64
    assert (np.float64(1) + t).dtype is candle.float64
    ints, floats = [1, 2], [1.0, 2.0]
    assert (t + ints).dtype is candle.float64  # a list of ints is a tensor of int64
    assert (t + floats).dtype is candle.float32
    assert (floats + t).tolist() == [2, 4]
    assert (t.to("float64") == [1.0 + 2**-40, 2.0]).tolist() == [False, True]


def test_operands_that_require_grad(framework: Callable[[str], Any]) -> None:
    x = framework("torch").tensor([1.0], requires_grad=True)
    t = candle.tensor([1.0])
    for compute in (lambda: t + x, lambda: t == x, lambda: operator.iadd(t, x)):
        with pytest.raises(BufferError, match="detach"):
            compute()
    assert (x + t).requires_grad  # torch computes it


def test_unknown_operands() -> None:
    class Unknown:
        def __radd__(self, other: object) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    t = candle.tensor([1.0])
    assert t + Unknown() == "mine"
    assert (t == Unknown()) is True
    for wrong in ("text", None, object(), {}):
        with pytest.raises(TypeError):
            t + wrong
        with pytest.raises(TypeError):
            _ = t < wrong
        with pytest.raises(TypeError):
            t += wrong
        assert (t == wrong) is False
        assert (t != wrong) is True


def test_who_computes_by_itself_gets_the_operand() -> None:
    class Labelled:
        __array_priority__ = 50

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(1)

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> str:
            return "labelled ufunc"

        def __radd__(self, other: object) -> str:
            return "labelled"

    t = candle.tensor([1.0])
    assert t + Labelled() == "labelled"
    assert np.add(t, Labelled()) == "labelled ufunc"


def test_sparse_matrices_are_refused_by_name() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(BufferError, match="sparse"):
        candle.ones((2, 2)) @ sparse.eye_array(2).tocsr()


def test_subclasses_give_tensors() -> None:
    class Named(candle.Tensor):
        pass

    t = Named([1.0, 2.0])
    assert type(t + t) is candle.Tensor
    assert type(t[t > 1]) is candle.Tensor
    t += 1
    assert type(t) is Named
    assert t.tolist() == [2, 3]


# Dtypes that numpy has not


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_narrow_floats(dtype: str) -> None:
    t = candle.tensor([1.0, 2.0, 4.0], dtype=dtype)
    for got, want in (
        (t + t, [2, 4, 8]),
        (t * 1.5, [1.5, 3, 6]),
        (1.5 * t, [1.5, 3, 6]),
        (t - 1, [0, 1, 3]),
        (2 / t, [2, 1, 0.5]),
        (-t, [-1, -2, -4]),
        (np.maximum(t, 1.5), [1.5, 2, 4]),
        (np.where(t > 1, t, 0.5), [0.5, 2, 4]),
        (t.clip(1.5, 3), [1.5, 2, 3]),
        (t.sum(), 7),
        (t.max(), 4),
        (t @ t, 20 if dtype == "float8_e5m2" else 21 if dtype != "float8_e4m3fn" else 20),
        (t.mean(), t.mean().item()),
    ):
        assert (got.dtype, got.tolist()) == (t.dtype, want)
    assert (t > 1.5).tolist() == [False, True, True]
    assert (t + candle.ones(3)).dtype is candle.float32
    t *= 2
    assert (t.dtype, t.tolist()) == (dtype, [2, 4, 8])


def test_sums_of_narrow_floats_round_once() -> None:
    ones = candle.ones(1000, dtype="bfloat16")  # one by one they would end at 256
    for total in (ones.sum(), np.sum(ones), np.add.reduce(ones), ones @ ones, ones.sum_all()):
        assert (total.dtype, total.item()) == ("bfloat16", 1000)
    assert ones.to("float32").sum(dtype="bfloat16").item() == 1000
    assert ones.mean().item() == 1
    assert ones.std().item() == 0
    assert np.einsum("i,i", ones, ones).item() == 1000
    assert ones.sum(dtype="float32").dtype is candle.float32
    values = candle.asarray(np.random.default_rng(0).random(500, "float32"))
    narrow = values.to("bfloat16")
    assert narrow.sum().item() == narrow.to("float32").sum().to("bfloat16").item()


def test_small_integers() -> None:
    t = candle.tensor([1, 2, 7]).to("int4")
    assert ((t + 1).dtype, (t[:2] + t[:2]).tolist()) == ("int4", [2, 4])
    assert (t.sum().dtype, t.sum().item()) == ("int64", 10)
    assert t[t > 1].tolist() == [2, 7]
    with pytest.raises(ValueError, match="fit"):
        t + 100


# Masks and index arrays


def test_masks_and_index_arrays(framework: Callable[[str], Any]) -> None:
    torch = framework("torch")
    a = np.arange(12.0).reshape(3, 4)
    t = candle.asarray(a)
    rows = [candle.tensor([2, 0]), np.array([2, 0]), torch.tensor([2, 0]), [2, 0]]
    masks = [t > 5, a > 5, torch.tensor(a > 5)]
    for row in rows:
        assert t[row].tolist() == a[[2, 0]].tolist()
        assert t[:, row].tolist() == a[:, [2, 0]].tolist()
        assert t[row, row].tolist() == a[[2, 0], [2, 0]].tolist()
        assert t[..., None, row].shape == (3, 1, 2)
    for mask in masks:
        assert t[mask].tolist() == a[a > 5].tolist()
    assert t[True].shape == (1, 3, 4)
    picked = t[[0]]
    picked[...] = 9
    assert a[0, 0] == 0  # a copy
    t[t > 5] = -1
    t[:, [0]] = candle.tensor([[7.0], [8.0], [9.0]])
    assert a.tolist() == [[7, 1, 2, 3], [8, 5, -1, -1], [9, -1, -1, -1]]


@pytest.mark.parametrize("key", [1.0, "a", {0}, candle.tensor([0.5])])
def test_what_is_no_index(key: Any) -> None:
    t = candle.arange(3)
    with pytest.raises((TypeError, IndexError), match=r"index|indices"):
        t[key]
    with pytest.raises((TypeError, IndexError), match=r"index|indices"):
        t[key] = 1


# Reductions

REDUCTIONS = ("sum", "prod", "mean", "std", "var", "max", "min", "argmax", "argmin", "all", "any")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    for dtype in ("float64", "float32", "int64", "bool"):
        if dtype == "bool" and name not in ("all", "any"):
            continue
        a = numbers(dtype)
        t = candle.asarray(a)
        axes = [None, 0, -1] if name.startswith("arg") else [None, 0, -1, (0, 1)]
        for axis in axes:
            for keepdims in (False, True):
                got = getattr(t, name)(axis, keepdims=keepdims)
                want = getattr(np, name)(a, axis=axis, keepdims=keepdims)
                assert type(got) is candle.Tensor
                assert (got.shape, got.dtype) == (want.shape, want.dtype)
                assert got.tolist() == want.tolist()


def test_reductions_dtypes_and_corrections() -> None:
    t = candle.tensor([1, 2, 4], dtype="int32")
    assert t.sum().dtype is candle.int64
    assert t.to("uint8").sum().dtype is candle.uint64
    assert t.sum(dtype="f32").dtype is candle.float32
    x = t.to("float64")
    assert x.var(correction=1).item() == pytest.approx(7 / 3)
    assert x.std(correction=1).item() == pytest.approx((7 / 3) ** 0.5)
    assert x.clip(2, 3).tolist() == [2, 2, 3]
    with pytest.raises(ValueError, match="zero-size"):
        candle.empty((0,)).max()
