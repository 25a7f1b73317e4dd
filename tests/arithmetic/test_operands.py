"""What may stand beside a tensor: what comes back, and who refuses."""

from __future__ import annotations

import operator
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

np = pytest.importorskip("numpy")
pytest.importorskip("array_api_compat")

OPERATORS = (operator.add, operator.truediv, operator.eq, operator.ne, operator.lt)


def tensor() -> candle.Tensor:
    return candle.tensor([1.0, 2.0, 3.0])


def outcome(compute: Callable[[], Any]) -> Any:
    """What is computed, as numpy has it; the class of what is raised."""
    try:
        found = compute()
    except Exception as error:
        return TypeError if isinstance(error, TypeError) else type(error)
    return np.asarray(found) if isinstance(found, candle.Tensor) else found


def same(got: Any, want: Any) -> bool:
    if isinstance(want, type) or isinstance(got, type):
        return got is want
    return bool(np.asarray(got).dtype == np.asarray(want).dtype and np.array_equal(got, want))


# numpy's arrays and numbers that candle has no dtype for: numpy computes, and the result is its.
OF_NUMPY: dict[str, Any] = {
    "objects": np.array([1, 2, 3], object),
    "nothing": np.array([None] * 3, object),
    "text": np.array(["a", "b", "c"]),
    "dates": np.array([1, 2, 3], "M8[s]"),
    "spans": np.array([1, 2, 3], "m8[s]"),
    "long double": np.ones(3, np.longdouble),
    "records": np.zeros(3, [("x", "f4")]),
    "a text": np.str_("a"),
    "a date": np.datetime64(1, "s"),
    "a long double": np.longdouble(1.5),
    "bytes": np.void(b"ab"),
}


@pytest.mark.parametrize("name", OF_NUMPY)
def test_what_candle_has_no_dtype_for_is_numpys(name: str) -> None:
    other, t = OF_NUMPY[name], tensor()
    a = t.numpy()
    for function in OPERATORS:
        for left, right, first, second in ((t, other, a, other), (other, t, other, a)):
            got = outcome(lambda f=function, x=left, y=right: f(x, y))
            want = outcome(lambda f=function, x=first, y=second: f(x, y))
            if isinstance(other, str) and want is not TypeError:  # text to Python, before numpy
                want = function is operator.ne
            assert same(got, want), (function, left is t)
    before = t
    with pytest.raises((BufferError, TypeError)):  # and not a result of numpy's by that name
        t += other
    assert t is before
    assert t.tolist() == [1, 2, 3]


def test_equal_to_nothing_else(framework: Callable[[str], Any]) -> None:
    torch = framework("torch")
    for other in (
        *(None, ..., "text", b"text", object(), int, len, {}, {1}, range(3), Decimal(1)),
        *(Fraction(1), ["a", "b", "c"], [None, 1, 2], candle.float32, candle.Device("cpu")),
        *(np.dtype("f4"), np.float32, np.random.default_rng(), torch.float32, torch.device("cpu")),
        *(torch, torch.nn.Identity(), torch.ones(3).untyped_storage()),
    ):
        assert (tensor() == other) is False
        assert (other == tensor()) is False
        assert (tensor() != other) is True
        with pytest.raises(TypeError):
            operator.lt(tensor(), other)
        with pytest.raises(TypeError):
            operator.add(tensor(), other)
    with pytest.raises(ValueError, match="broadcast"):
        operator.eq(tensor(), [1, 2])
    with pytest.raises(ValueError, match="ragged"):
        operator.eq(tensor(), [[1], [2, 3]])


def test_divmod() -> None:
    for dtype in ("int32", "uint8", "float64", "bfloat16", "bool"):
        t = candle.tensor([7, 1, 5]).to(dtype)
        a = t.numpy()
        for got, want in (
            (divmod(t, 2), divmod(a, 2))
            if dtype != "bfloat16"
            else (divmod(t, 2), (t // 2, t % 2)),
            (divmod(t, t + t), (t // (t + t), t % (t + t))),
            (divmod(9, t + 1), (9 // (t + 1), 9 % (t + 1))),
            (divmod([9, 9, 9], t + 1), ([9, 9, 9] // (t + 1), [9, 9, 9] % (t + 1))),
        ):
            assert [type(x) for x in got] == [candle.Tensor, candle.Tensor]
            for one, other in zip(got, want, strict=True):
                np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
                assert one.dtype == other.dtype
    with pytest.raises(TypeError):
        divmod(tensor(), None)  # type: ignore[operator]
    with pytest.raises(TypeError):
        divmod(tensor(), 1j)  # type: ignore[operator]


INTEGERS = (
    0,
    1,
    -1,
    7,
    8,
    15,
    16,
    127,
    128,
    200,
    255,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    2**70,
)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int8", "uint8", "int64", "uint64", "bfloat16"])
def test_comparisons_with_any_int(dtype: str) -> None:
    t = candle.tensor([0, 1, 5]).to(dtype)
    for function in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        for number in INTEGERS:
            assert function(t, number).tolist() == [function(x, number) for x in (0, 1, 5)]


# Assignment through masks and arrays of ints is that through slices.

VALUES: tuple[Any, ...] = (
    *(None, "7", b"7", object(), {1}, [None, 1], ["1", "2"], np.array([1, 2], object)),
    *(7.5, float("nan"), float("inf"), 300, -1, 2**70, 1j, True, np.float64(1e30), [1, 2]),
    *(np.array([300.0, -5]), candle.tensor([300.5, -5.5]), candle.tensor([1 + 2j, 3])),
    *(np.ma.array([1, 2], mask=[0, 1]), np.longdouble(2), candle.tensor([1, 2, 3])),
)


@pytest.mark.parametrize("dtype", ["int8", "float32", "bool", "bfloat16", "float8_e4m3fn"])
def test_assignment_is_the_same_through_any_index(dtype: str) -> None:
    def assigned(index: Any, value: Any) -> Any:
        t = candle.zeros(2, dtype=dtype)
        try:
            t[index] = value
        except Exception as error:
            assert t.tolist() == [0, 0]
            return type(error)
        return [str(x) for x in t.tolist()]  # NaN too

    for value in VALUES:
        want = assigned(slice(None), value)
        for index in (candle.tensor([True, True]), [0, 1], np.array([0, 1])):
            assert assigned(index, value) == want, (value, index)
