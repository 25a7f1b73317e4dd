"""numpy's functions on a tensor and on its array: the same values, the same classes of errors."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

np = pytest.importorskip("numpy")
pytest.importorskip("array_api_compat")

# They read files, set options, give what was never set, take no arrays, or (nancum*) crash numpy.
NOT_THESE = """
    arange array_str array asanyarray asarray asarray_chkfinite ascontiguousarray
    asfortranarray asmatrix bmat DataSource empty empty_like errstate from_dlpack frombuffer
    fromfile fromfunction fromiter fromregex fromstring frompyfunc genfromtxt get_include
    get_printoptions getbufsize geterr geterrcall info is_busday load loadtxt mintypecode
    nancumprod nancumsum printoptions save savetxt savez savez_compressed set_printoptions
    setbufsize seterr seterrcall show_config show_runtime test typename
""".split()  # noqa: SIM905
FUNCTIONS = {
    f"{prefix}{name}": function
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft))
    for name, function in sorted(vars(module).items())
    if callable(function) and not isinstance(function, type) and name[0] != "_"
    if name not in NOT_THESE
}
CALLS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda f, x: f(x),
    lambda f, x: f(x, x),
    lambda f, x: f(x, 2),
    lambda f, x: f(1.5, x),
    lambda f, x: f([x, x]),
    lambda f, x: f([[x, x], [x, x]]),
    lambda f, x: f(x, axis=0),
    lambda f, x: f(x, axis=-1, keepdims=True),
    lambda f, x: f(x > 1, x, x),
    lambda f, x: f(x, out=x),
    lambda f, x: f(x, [0]),
)


def arrays() -> tuple[Any, ...]:
    return (
        np.array([[0.5, 1.5, 0.25], [2.0, 0.75, 1.25], [3.0, 0.1, 1.0]]),
        np.arange(4)[::-1],
        np.array(2.5),
        np.zeros((0, 3), "complex64"),
    )


def plain(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return [plain(item) for item in x]
    return np.asarray(x) if isinstance(x, candle.Tensor) else x


def called(call: Callable[[], Any]) -> Any:
    try:
        return plain(call())
    except Exception as error:
        return error


def difference(got: Any, want: Any) -> str | None:
    if isinstance(want, Exception) or isinstance(got, Exception):
        kinds = [IndexError, TypeError, ValueError, ArithmeticError, Exception]
        first, second = ([isinstance(x, kind) for kind in kinds] for x in (got, want))
        return None if first == second else f"{want!r} became {got!r}"
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f"{want} became {got}"
        parts = [difference(one, other) for one, other in zip(got, want, strict=True)]
        return next((part for part in parts if part), None)
    if isinstance(want, np.ndarray | np.generic):
        got, want = np.asarray(got), np.asarray(want)
        if got.dtype == want.dtype and got.shape == want.shape:
            if want.dtype == object and str(got) == str(want):
                return None
            if want.dtype != object and np.array_equal(
                got, want, equal_nan=want.dtype.kind in "fc"
            ):
                return None
        return f"{want!r} became {got!r}"
    return None if type(got) is type(want) else f"{want!r} became {got!r}"


def test_numpys_functions() -> None:
    wrong, right = [], 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name, function in FUNCTIONS.items():
            for number, call in enumerate(CALLS):
                for a, b in zip(arrays(), arrays(), strict=True):
                    t = candle.asarray(b)
                    want = called(lambda f=function, call=call, a=a: call(f, a))
                    got = called(lambda f=function, call=call, t=t: call(f, t))
                    found = difference(got, want) or difference(plain(t), a)
                    right += not isinstance(want, Exception)
                    if found and "construct a dtype from an array" not in str(want):
                        wrong.append(f"{name}, call {number}, {a.dtype}: {found}")
    assert not wrong, "\n".join(wrong)
    assert right > 3000
