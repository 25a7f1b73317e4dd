"""The standard's functions on arrays made at random: array-api-strict says dtypes and errors."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import candle
from candle import array_api as xp

np = pytest.importorskip("numpy")
strict = pytest.importorskip("array_api_strict")
pytest.importorskip("array_api_compat")
hypothesis = pytest.importorskip("hypothesis")
numpy_strategies = pytest.importorskip("hypothesis.extra.numpy")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
UNARY = """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag
    isfinite isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round
    sign signbit sin sinh square sqrt tan tanh trunc
""".split()  # noqa: SIM905
BINARY = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign
    divide equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and
    logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract
""".split()  # noqa: SIM905
OPERATORS = """
    __add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ __and__ __or__ __xor__
    __lshift__ __rshift__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__
""".split()  # noqa: SIM905
REDUCTIONS = "all any argmax argmin count_nonzero max mean min prod std sum var".split()  # noqa: SIM905
quick = settings(max_examples=12, derandomize=True)


def arrays(dtypes: tuple[str, ...] = DTYPES, **shapes: Any) -> Any:
    """numpy's arrays with small elements, of every layout that a step makes."""
    shape = numpy_strategies.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    whole = st.sampled_from(dtypes).flatmap(
        lambda dtype: numpy_strategies.arrays(
            dtype, shapes.get("shape", shape), elements=elements(dtype)
        )
    )
    return st.builds(lambda a, turned: a[::-1] if turned and a.ndim else a, whole, st.booleans())


def elements(dtype: str) -> Any:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind == "u":
        return st.integers(0, 9)
    if kind == "i":
        return st.integers(-9, 9)
    if kind == "f":
        return st.sampled_from([0.0, -0.0, 0.5, -1.0, 2.0, 7.25, float("inf"), float("nan")])
    return st.sampled_from([0j, 1 + 2j, -0.5j, 3 + 0j])


def both(function: Any, *operands: Any) -> tuple[Any, Any]:
    """What candle and array-api-strict make of the same operands; an error is given as it is."""
    found = []
    for namespace, make in ((xp, candle.asarray), (strict, strict.asarray)):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            made = [make(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in operands]
            try:
                found.append(function(namespace, *made))
            except Exception as error:
                found.append(error)
    return found[0], found[1]


def compare(got: Any, want: Any) -> None:
    """The same dtype, shape and values, or the same sort of error.

    Where array-api-strict refuses dtypes that the standard leaves open, candle may compute.
    """
    if isinstance(want, TypeError):
        return
    if isinstance(want, Exception):
        assert isinstance(got, Exception), f"no {want!r}, but {got}"
        return
    if isinstance(got, Exception):
        raise got
    assert type(got) is candle.Tensor
    assert str(got.dtype) == str(want.dtype).rpartition(".")[2]
    assert got.shape == want.shape
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name: str) -> None:
    @quick
    @given(arrays())
    def check(a: Any) -> None:
        compare(*both(lambda xp, x: getattr(xp, name)(x), a))

    check()


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name: str) -> None:
    @quick
    @given(pairs())
    def check(two: Any) -> None:
        a, b = two
        if "shift" in name:
            b = abs(b)  # the standard leaves open what other shifts give
        compare(*both(lambda xp, x, y: getattr(xp, name)(x, y), a, b))

    check()


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    @quick
    @given(pairs(), st.sampled_from([None, True, 2, 1.5, 1j]))
    def check(two: Any, number: Any) -> None:
        a, b = two
        if "shift" in name:
            b = abs(b)
        operands = (a, b if number is None else number)

        def compute(xp: Any, x: Any, y: Any) -> Any:
            found = getattr(type(x), name)(x, y)
            if found is NotImplemented:
                raise TypeError
            return found

        compare(*both(compute, *operands))

    check()


def pairs() -> Any:
    shapes = numpy_strategies.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3)
    return shapes.flatmap(
        lambda two: st.tuples(*[arrays(shape=shape) for shape in two.input_shapes])
    )


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    @quick
    @given(arrays(), st.sampled_from([None, 0, -1, 1, 5]), st.booleans())
    def check(a: Any, axis: Any, keepdims: bool) -> None:
        compare(*both(lambda xp, x: getattr(xp, name)(x, axis=axis, keepdims=keepdims), a))

    check()


SHAPING = {
    "reshape": lambda xp, x: xp.reshape(x, (-1,)),
    "wrong reshape": lambda xp, x: xp.reshape(x, (5, 7)),
    "flip": lambda xp, x: xp.flip(x),
    "roll": lambda xp, x: xp.roll(x, 1),
    "expand_dims": lambda xp, x: xp.expand_dims(x, axis=1),
    "squeeze": lambda xp, x: xp.squeeze(x, axis=0),
    "permute_dims": lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1]),
    "moveaxis": lambda xp, x: xp.moveaxis(x, 0, -1),
    "concat": lambda xp, x: xp.concat([x, x], axis=0),
    "stack": lambda xp, x: xp.stack([x, x], axis=-1),
    "tile": lambda xp, x: xp.tile(x, (2,)),
    "repeat": lambda xp, x: xp.repeat(x, 2, axis=0),
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (2, *x.shape)),
    "wrong broadcast_to": lambda xp, x: xp.broadcast_to(x, (5, 7)),
    "sort": lambda xp, x: xp.sort(x),
    "argsort": lambda xp, x: xp.argsort(x),
    "unique_values": lambda xp, x: xp.sort(xp.unique_values(x)),
    "cumulative_sum": lambda xp, x: xp.cumulative_sum(x, axis=0),
    "where": lambda xp, x: xp.where(xp.equal(x, x), x, x),
    "take": lambda xp, x: xp.take(x, xp.asarray([0]), axis=0),
    "matrix_transpose": lambda xp, x: xp.matrix_transpose(x),
    "matmul": lambda xp, x: xp.matmul(x, xp.matrix_transpose(x)),
    "wrong matmul": lambda xp, x: xp.matmul(x, xp.ones((5, 7))),
    "tril": lambda xp, x: xp.tril(x),
    "mask": lambda xp, x: x[xp.equal(x, x)],
    "too many indices": lambda xp, x: x[(0,) * (x.ndim + 1)],
    "astype": lambda xp, x: xp.astype(x, xp.complex64),
    "zeros_like": lambda xp, x: xp.zeros_like(x),
    "full_like": lambda xp, x: xp.full_like(x, 1),
}


@pytest.mark.parametrize("name", SHAPING)
def test_shapes(name: str) -> None:
    @quick
    @given(arrays())
    def check(a: Any) -> None:
        compare(*both(SHAPING[name], a))

    check()


@pytest.mark.parametrize("one", DTYPES)
def test_promotion(one: str) -> None:
    for other in DTYPES:
        names = [getattr(strict, one), getattr(strict, other)]
        try:
            want = strict.result_type(*names)
        except TypeError:
            continue  # mixed kinds, which the standard leaves open
        assert str(xp.result_type(one, other)) == str(want).rpartition(".")[2]
        assert str((xp.ones(1, dtype=one) == xp.ones(1, dtype=other)).dtype) == "bool"
    for other in DTYPES:
        try:
            allowed = strict.can_cast(getattr(strict, one), getattr(strict, other))
        except TypeError:
            continue
        if allowed:
            assert xp.can_cast(one, other)
