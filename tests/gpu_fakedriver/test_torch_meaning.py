"""torch on CUDA devices means what numpy means: in place, indices, dtypes, numpy's functions.

torch is the real one down to its kernels, on the fake driver: see `fake_torch_functions`.
"""

from __future__ import annotations

import operator
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from torch_on_devices import crossings, lent, raw, same

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytest.importorskip("array_api_compat")
pytestmark = pytest.mark.isolated(together="file")


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    **{
        f"{name} {kind}": lambda t, u, name=name, x=x: getattr(operator, name)(t, x(t, u))
        for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul")
        for kind, x in {
            "number": lambda t, u: 2,
            "tensor": lambda t, u: u,
            "itself": lambda t, u: t,
            "transposed": lambda t, u: t.T,
            "reversed": lambda t, u: t[::-1],
            "a row": lambda t, u: t[:1],
            "float": lambda t, u: 1.5,
            "too many axes": lambda t, u: u[None],
        }.items()
        if (name, kind) != ("imatmul", "too many axes")  # numpy drops the axis
    },
    "shifted": lambda t, u: operator.iadd(t[1:], t[:-1]),
    "shifted back": lambda t, u: operator.iadd(t[:-1], t[1:]),
    "too wide": lambda t, u: operator.iadd(t[0], t),
    "true": lambda t, u: operator.ior(t, True),
}


def test_in_place_means_what_it_means_to_numpy(computing: Any) -> None:
    wrong = []
    base = np.array([[4, 1, 2], [1, 3, 5], [2, 5, 6]])
    for device, dtypes in enumerate((("float32", "uint8"), ("int64", "complex64"))):
        for dtype in dtypes:
            for name, change in IN_PLACE.items():
                array, other = base.astype(dtype), (base.T + 1).astype(dtype)
                _, u = lent(other, device)
                x, t = lent(array, device)
                want: Any = None
                try:
                    change(array, other)
                except (TypeError, ValueError, OverflowError) as error:
                    want = type(error)
                try:
                    change(t, u)
                except (TypeError, ValueError, OverflowError) as error:
                    if want is None or not isinstance(error, want.__mro__[-3]):
                        wrong.append(f"{name} {dtype}: {error!r} instead of {want}")
                    continue
                if want is not None:
                    wrong.append(f"{name} {dtype}: no error, instead of {want}")
                elif x.cpu().numpy().tolist() != array.tolist() and not np.allclose(
                    x.cpu().numpy(), array, 1e-4
                ):
                    wrong.append(f"{name} {dtype}: {x.cpu().tolist()} instead of {array.tolist()}")
    assert not wrong, "\n".join(wrong)


INDICES: dict[str, Callable[[Any, Any], Any]] = {
    # `a` makes arrays of the library's own.
    "ints": lambda a, m: a([2, 0]),
    "negative ints": lambda a, m: a([-1, 0]),
    "a list": lambda a, m: [2, 0],
    "an empty list": lambda a, m: [],
    **{
        f"{k} for ints": lambda a, m, k=k: a([2, 0], k) for k in ("uint8", "int8", "int16", "int32")
    },
    "uint8 of an axis": lambda a, m: (slice(None), a([1, 1, 0], "uint8")),
    "an int, and ints": lambda a, m: (1, a([2, 0])),
    "an int, all, and ints": lambda a, m: (1, slice(None), a([2, 0])),
    "ints, all, and an int": lambda a, m: (a([1, 0]), slice(None), 0),
    "all, an int, and ints": lambda a, m: (slice(None), 1, a([3, 0])),
    "an int, ..., ints": lambda a, m: (0, ..., a([3, 0])),
    "an int, all, and a list": lambda a, m: (1, slice(None), [2, 0]),
    "an array of no axes, all, ints": lambda a, m: (a(1), slice(None), a([2, 0])),
    "an array of no axes": lambda a, m: a(1),
    "arrays of no axes": lambda a, m: (a(1), a(2)),
    "a bool of no axes": lambda a, m: a(True, "bool"),
    "..., an array of no axes": lambda a, m: (..., a(1)),
    "ints, all, ints": lambda a, m: (a([1, 0]), slice(None), a([2, 3])),
    "ints of two axes": lambda a, m: a([[0, 1], [1, 0]]),
    "ints and a slice": lambda a, m: (a([1, 0]), slice(1, 3)),
    "a new axis and ints": lambda a, m: (None, a([1, 0])),
    "a mask": lambda a, m: m,
    "a mask of rows": lambda a, m: a([True, False], "bool"),
    "..., a mask": lambda a, m: (..., a([True, False, False, True], "bool")),
    "..., a mask of two axes": lambda a, m: (..., a([[True, False, False, True]] * 3, "bool")),
    "a list of bools": lambda a, m: [True, False],
    "an int and a mask": lambda a, m: (0, slice(None), a([True, False, False, True], "bool")),
    "a mask, and an int": lambda a, m: (a([True, True], "bool"), slice(None), 2),
}


def test_indices_mean_what_they_mean_to_numpy(computing: Any) -> None:
    wrong = []
    base = np.arange(24.0).reshape(2, 3, 4)
    for device in (0, 1):

        def there(values: Any, dtype: Any = "int64", device: int = device) -> candle.Tensor:
            return lent(np.array(values, dtype), device)[1]

        for name, index in INDICES.items():
            array = base.copy()
            source = np.moveaxis(array, 1, 0) if name in LONG_FIRST else array
            _, whole = lent(base, device)
            t = whole.permute(1, 0, 2) if name in LONG_FIRST else whole
            mine = index(there, there(source > 5, "bool"))
            numpys = index(lambda v, d="int64": np.array(v, d), source > 5)
            with candle.strict():
                fault = same(t[mine], source[numpys], f"cuda:{device}")
            if fault:
                wrong.append(f"{name}: reading {fault}")
            source[numpys] = -source[numpys] - 1
            with candle.strict():
                t[mine] = -t[mine] - 1
            source[numpys] = 7
            t[mine] = 7
            if whole.to("cpu").tolist() != array.tolist():
                wrong.append(f"{name}: wrote {whole.to('cpu').tolist()}")
    assert not wrong, "\n".join(wrong)


# Their first axis has to have three items.
LONG_FIRST = {
    *("ints", "a list", "uint8 for ints", "int8 for ints", "int16 for ints", "int32 for ints"),
}


def test_what_is_assigned_may_be_memory_of_the_same_tensor(computing: Any) -> None:
    for device in (0, 1):
        x, t = lent(np.arange(5), device)
        index = lent(np.array([1, 2, 3, 4, 0]), device)[1]
        t[index] = t
        t[index[:4]] = t[1:]
        array = np.arange(5)
        array[[1, 2, 3, 4, 0]] = array.copy()
        array[[1, 2, 3, 4]] = array[1:].copy()
        assert x.tolist() == array.tolist()


def test_out_is_written_as_numpy_writes_it(computing: Any) -> None:
    import cupy

    for device in (0, 1):
        x, t = lent(np.array([1, 2], "float32"), device)
        for out in (candle.zeros_like(t), lent(np.zeros(2, "float32"), device)[1]):
            address = out.data_ptr()
            with candle.strict():
                assert np.add(t, 1, out=out) is out
                assert out.to("cpu").tolist() == [2, 3]
                assert np.concatenate([t[:1], t[:1]], out=out) is out
                assert np.sum(t, axis=0, keepdims=True, out=out[:1]).to("cpu").tolist() == [3]
                assert np.negative(out, out=out) is out
                assert np.add(out[:1], out[1:], out=out[:1]).to("cpu").tolist() == [-4]
            assert out.data_ptr() == address
            assert out.to("cpu").tolist() == [-4, -1]
        wide = candle.zeros(2, dtype="float64", device=out.device)
        assert np.add(t, t, out=wide).to("cpu").tolist() == [2, 4]
        for given, error in (
            (candle.zeros(3, device=out.device), ValueError),
            (candle.zeros((1, 2), device=out.device), ValueError),
            (candle.zeros(2, dtype="int64", device=out.device), TypeError),
            (candle.zeros(2), ValueError),
            (candle.zeros(2, device=f"cuda:{1 - device}"), ValueError),
            (np.zeros(2, "float32"), TypeError),
        ):
            before = given.tolist()
            with pytest.raises(error, match="out="):
                np.add(t, 1, out=given)
            assert given.tolist() == before
        assert x.tolist() == [1, 2]
    # As where cupy computes.
    there = candle.from_dlpack(cupy.asarray(np.array([1, 2], "float32")))
    for given in (np.zeros(2, "float32"), candle.zeros(2)):
        with pytest.raises((TypeError, ValueError), match="out="):
            np.add(there, 1, out=given)


def test_dtypes_are_those_that_numpy_gives(computing: Any) -> None:
    xp = candle.zeros(1).__array_namespace__()
    names = ("bool", "uint8", "int16", "int32", "int64", "float32", "float64", "complex64")
    values = {name: np.array([1, 0, 1]).astype(name) for name in names}
    values |= {f"{name} of no axes": np.array(1).astype(name) for name in ("int8", "float64")}
    functions = [operator.add, operator.truediv, operator.eq, xp.add, np.multiply]
    wrong = []
    there = {name: lent(array, 1)[1] for name, array in values.items()}
    for function in functions:
        for a, x in values.items():
            others: dict[str, tuple[Any, Any]] = {b: (y, there[b]) for b, y in values.items()}
            if function in (operator.eq, xp.add):
                others = {b: pair for b, pair in others.items() if "no axes" in b}
            others |= {repr(n): (n, n) for n in (True, 2, 1.5, 2j)}
            for b, (y, mine) in others.items():
                numpys = {xp.add: np.add}.get(function, function)
                with np.errstate(all="ignore"):
                    want = numpys(x, y)
                with candle.strict():
                    fault = same(function(there[a], mine), want, "cuda:1")
                if fault:
                    wrong.append(f"{function.__name__} of {a} and {b} {fault}")
    for name in ("mean", "std", "var", "sum", "prod", "max", "argmax", "all"):
        for a in names:
            try:
                want = getattr(values[a], name)()
            except TypeError:
                continue
            if a == "uint8" and name in ("sum", "prod"):
                want = want.astype("int64")  # torch adds up no uint64
            if a == "complex64" and name in ("max", "argmax"):
                continue
            if (a, name) == ("bool", "argmax"):
                with pytest.raises(TypeError, match=r"torch.*t\.to"):
                    there[a].argmax()
                continue
            fault = same(getattr(there[a], name)(), want, "cuda:1")
            if fault:
                wrong.append(f"{name} of {a} {fault}")
    assert not wrong, "\n".join(wrong)


# Of operands of several dtypes, and of what numpy takes that torch takes otherwise.
b, h, s, i = (np.array([3, 1, 2], dtype) for dtype in ("int8", "float16", "int16", "int64"))
f, c, m = i.astype("float32"), i.astype("complex64"), np.array([True, False, True])
wide, few = np.array(300), np.arange(24.0).reshape(2, 3, 4)
SQUARE = np.array([[4, 1, 0], [1, 3, 0], [0, 0, 2]])
MIXED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "narrow ints make narrow floats": (lambda *x: [np.sin(y) for y in x], (b, s, i, m)),
    "whoever computes": (lambda b, s: (np.rint(b), np.fabs(s), np.exp2(b), np.radians(s)), (b, s)),
    "two of them": (lambda *x: [np.hypot(y, x[0]) for y in x], (b, s, i, m, h)),
    "and a number": (lambda b, m: (np.hypot(b, 300), np.hypot(b, 1.5), np.hypot(m, 2)), (b, m)),
    "but for quotients and means": (lambda b, s: (b / s, b / 300, 300 / s, np.mean(b)), (b, s)),
    "float16 and complex": (lambda h, c: (h + c, h * 2j, np.where(h > 1, h, 1j)), (h, c)),
    "transforms": (lambda *x: [np.fft.fft(y) for y in x], (b, h, f, i)),
    "no axes count": (lambda h, f, i: (h / f[0], h % i[0], f[0] - h, np.fmod(h, f[0])), (h, f, i)),
    "not for ints either": (lambda b, w: (b // w, b * w, np.lcm(b, w)), (b, wide)),
    "two arguments": (lambda f, i: (np.fmax(f, i), np.logaddexp2(f, i), np.fmin(i, f)), (f, i)),
    "products": (lambda *x: [y @ x[0] for y in x] + [np.vecdot(x[0], y) for y in x], (h, b, i, f)),
    "one of several": (lambda m, b, i: (np.where(m, b, 1.5), np.where(i, 1, b)), (m, b, i)),
    "bounds": (lambda b, i: (np.clip(i, 1.5, 2.5), np.clip(b, 1, 2)), (b, i)),
    "joined": (lambda f, i: (np.concatenate([f, i]), np.stack([i, f]), np.hstack([f, i])), (f, i)),
    "crossed": (np.cross, (f, i)),
    "matrices of ints": (
        lambda a: (np.linalg.inv(a), np.linalg.det(a), np.linalg.norm(a)),
        (SQUARE,),
    ),
    "equations": (np.linalg.solve, (SQUARE, f.astype("float64"))),
    "close": (np.isclose, (f, i)),
    "large ints": (lambda f, h: (f + 2**63, f * -(2**70), h / 2**63, h**1e30, 2**63 - f), (f, h)),
    "all, running": (lambda x: (np.cumsum(x), np.cumprod(x + 1), np.cumsum(x, 1)), (few,)),
    "all, sorted": (lambda x: (np.sort(-x, axis=None), np.argsort(-x, None), np.sort(-x)), (few,)),
    "all, taken": (lambda x, b, i: (np.take(x, b), np.take(x, i[None] - 1, axis=1)), (few, b, i)),
    "Python's dtypes": (lambda b: (np.ones_like(b, dtype=float), np.sum(b, dtype=complex)), (b,)),
}


def test_dtypes_and_axes_of_mixed_operands(computing: Any) -> None:
    wrong = []
    for device in (0, 1):
        for name, (call, arrays) in MIXED.items():
            with np.errstate(all="ignore"):
                want = call(*[x.copy() for x in arrays])
            operands = [lent(x, device)[1] for x in arrays]
            with candle.strict():
                fault = same(call(*operands), want, f"cuda:{device}")
            if fault:
                wrong.append(f"{name}: {fault}")
    assert not wrong, "\n".join(wrong)


def test_results_are_no_views_where_numpy_copies(computing: Any) -> None:
    for device in (0, 1):
        for dtype in ("float32", "complex64"):
            x, t = lent(np.array([1, 2], dtype), device)
            calls = (operator.pos, np.positive, np.conjugate, abs, np.copy, np.sort)
            for call in calls[: 6 if dtype == "float32" else 3]:
                made = call(t)
                assert made.to("cpu").tolist() == [1, 2]
                made += 5
                assert x.tolist() == [1, 2], call


def test_out_of_two_results(computing: Any) -> None:
    t = lent(np.array([7, -7]), 1)[1]
    places = (lent(np.zeros(2, "int64"), 1)[1], lent(np.zeros(2, "int64"), 1)[1])
    found = np.divmod(t, 2, out=places)
    assert [x is place for x, place in zip(found, places, strict=True)] == [True, True]
    assert [x.to("cpu").tolist() for x in found] == [[3, -4], [1, 1]]


def test_in_place_beside_no_axes(computing: Any) -> None:
    x, t = lent(np.array([100, 7], "int8"), 1)
    wide = lent(np.array(300), 1)[1]
    t //= wide  # which is 44 in int8
    assert x.tolist() == [0, 0]
    y, u = lent(np.array([1.5, 2.0], "float32"), 0)
    u += 2**63
    u -= -(2**70)
    assert y.tolist() == [float(2**63 + 2**70)] * 2


def test_parameters_of_numpys_functions(computing: Any) -> None:
    """Those that are left out by name, numbers in an array's place, dtypes of anybody's."""
    import torch

    no = np._NoValue
    wrong = []
    for device in (0, 1):
        a, t = SQUARE.astype("int16"), lent(SQUARE.astype("int16"), device)[1]
        for name, call in {
            "dot of no axes": lambda x: np.dot(x[0, 0], x),
            "dot with no axes": lambda x: np.dot(x, x[0, 0]),
            "dot of three axes": lambda x: np.dot(x[None], x),
            "sum": lambda x: np.sum(x, 0, None, None, no),
            "sum of no words": lambda x: np.sum(x, axis=None, dtype=None, initial=no, where=no),
            "mean": lambda x: np.mean(x, axis=0, dtype=None, where=no),
            "sort": lambda x: np.sort(x, kind=None, order=None),
            "prod": lambda x: np.prod(x, 1, np.float32),
            "cumsum": lambda x: np.cumsum(x, 1, "int64"),
            "float": lambda x: np.sum(x, dtype=float),
            "complex": lambda x: np.sum(x, dtype=complex),
        }.items():
            fault = same(call(t), call(a), f"cuda:{device}")
            if fault:
                wrong.append(f"{name}: {fault}")
        for dtype in ("float32", np.float32, np.dtype("f4"), candle.float32, torch.float32):
            fault = same(np.sum(t, dtype=dtype), np.sum(a, dtype="f4"), f"cuda:{device}")
            if fault:
                wrong.append(f"sum of {dtype}: {fault}")
    assert not wrong, "\n".join(wrong)


def test_what_torch_raises_of_the_device_stays(computing: Any) -> None:
    import torch

    from candle.frameworks import torch_calls, torch_numpy

    for error, told in (
        (torch.OutOfMemoryError("no"), torch.OutOfMemoryError),
        (RuntimeError("CUDA error: no"), RuntimeError),
        (RuntimeError("sizes"), ValueError),
        (KeyError("sizes"), KeyError),
    ):
        with pytest.raises(told) as caught, torch_calls.Guard(0):
            raise error
        assert type(caught.value) is told
    # numpy would lose a reference to the tensor of a method that is refused.
    for name, method in (("subtract", "reduce"), ("maximum", "accumulate"), ("add", "reduceat")):
        with pytest.raises(TypeError, match=rf"torch has no {name}\.{method} that.*t\.to\('cpu'\)"):
            torch_numpy.like(name, method, universal=True)


REFUSED: dict[str, tuple[Callable[..., Any], type[Exception]]] = {
    "a negative power": (lambda t, a: t**-1, ValueError),
    "a singular matrix": (lambda t, a: np.linalg.inv(a * 0.0), ValueError),
    "no element": (lambda t, a: np.max(t[:0]), ValueError),
    "no axes": (lambda t, a: t[0] @ t[0], ValueError),
    "no such axis": (lambda t, a: np.take(a, t, axis=2), IndexError),
    "nor of none": (lambda t, a: np.take(t[0], t, axis=1), IndexError),
    "a product of three axes": (lambda t, a: np.dot(a, a[None]), TypeError),
    "words that torch has not": (lambda t, a: np.sum(a, where=a > 1), TypeError),
    "three axes": (lambda t, a: np.diag(a[None]), ValueError),
    "one of several": (lambda t, a: np.where(t > 1, 300, t.to("int8")), OverflowError),
    "in another dtype": (lambda t, a: np.linalg.inv(a.to("float16")), TypeError),
    "of integers": (
        lambda t, a: (np.reciprocal(t), t.__array_namespace__().reciprocal(t)),
        TypeError,
    ),
    "of complex numbers": (lambda t, a: np.fabs(t.to("complex64")), TypeError),
    "NaN is another": (lambda t, a: np.heaviside(a, a), TypeError),
    "one result": (lambda t, a: np.linalg.qr(a * 1.0, mode="r"), TypeError),
    "sorted without axes": (lambda t, a: np.argsort(t[0]), TypeError),
    "... of no axes": (lambda t, a: a[t, ..., t], TypeError),
}


def test_errors_are_those_of_numpy_or_have_a_remedy(computing: Any) -> None:
    for device in (0, 1):
        t, a = lent(np.array([0, 1, 2]), device)[1], lent(SQUARE, device)[1]
        for name, (call, error) in REFUSED.items():
            remedy = r"t\.to\('cpu'\)" if error is TypeError else None
            with pytest.raises(error, match=remedy):
                pytest.fail(f"{name}: no error, but {call(t, a)}")


def test_numbers_that_no_element_can_be(computing: Any) -> None:
    xp = candle.zeros(1).__array_namespace__()
    for device in (0, 1):
        for dtype in ("uint8", "int8", "int64", "float32"):
            array = np.array([1, 2], dtype)
            _, t = lent(array, device)
            for number in (300, -300, 2**70, -(2**70)):
                for name in ("eq", "ne", "lt", "le", "gt", "ge"):
                    compare = getattr(operator, name)
                    with candle.strict():
                        assert not same(compare(t, number), compare(array, number), t.device)
                if dtype == "float32" or (dtype, abs(number)) == ("int64", 300):
                    continue
                for call in (operator.add, operator.iadd, lambda t, n: n * t, xp.add):
                    with pytest.raises(OverflowError):
                        call(t, number)
            assert t.to("cpu").tolist() == [1, 2]


def test_bfloat16_stays_on_the_device(computing: Any) -> None:
    import torch

    for device in (0, 1):
        x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16).to(f"cuda:{device}")
        t = candle.from_dlpack(x)
        crossings()
        with candle.strict():
            found = [t * 1.5, 1 + t, t + t, t**2, np.sin(t) * 0, t.sum(), t == 1, t < 2**70]
            t += 1.5
        assert crossings() == []
        assert [str(y.dtype) for y in found] == ["bfloat16"] * 6 + ["bool"] * 2
        assert [y.to("cpu").tolist() for y in found] == [
            *([1.5, 3], [2, 3], [2, 4], [1, 4], [0, 0], 3, [True, False], [True, True]),
        ]
        assert x.tolist() == [2.5, 3.5]
        narrow = candle.from_dlpack(x.to(torch.float8_e5m2))
        with pytest.raises(TypeError, match=r"torch.*Float8.*t\.to\('cpu'\)"):
            narrow + narrow


def test_read_only_and_reversed_operands(alone: Any, driver: Driver) -> None:
    for device in (0, 1):
        [t] = raw(device, [candle.tensor([1.0, 2.0])], read_only=True)
        assert t.readonly
        for operand in (t, t[::-1], lent([1.0, 2.0], device)[1][::-1]):
            want = operand.to("cpu").tolist()
            assert (operand + 0).to("cpu").tolist() == want
            assert operand[[0, 1]].to("cpu").tolist() == want
            backward = operand.stride[0] < 0
            with candle.strict(), pytest.raises(candle.CopyError) if backward else nullcontext():
                operand + 0
        for write in (lambda t=t: t.__iadd__(1), lambda t=t: np.nan_to_num(t, copy=False)):
            with pytest.raises(ValueError, match="read-only"):
                write()


def numpys_functions() -> dict[str, Any]:
    """Every function of numpy's that asks a Tensor to compute it."""
    found: dict[Any, str] = {}
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name, function in sorted(vars(module).items()):
            if isinstance(function, np.ufunc) or hasattr(function, "_implementation"):
                found.setdefault(function, prefix + name)
    return {name: function for function, name in found.items()}


# They print, or save, or what they give is not set.
ASIDE = {
    *("array2string", "array_repr", "array_str", "empty_like"),
    *("save", "savetxt", "savez", "savez_compressed"),
}
REDUCED = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
# How numpy's functions may be called, with x, y: float64, (3, 3); i: int64, (3,).
WAYS: list[Callable[[Any, Any, Any, Any], Any]] = [
    lambda f, x, y, i: f(x),
    lambda f, x, y, i: f(i),
    lambda f, x, y, i: f(x, y),
    lambda f, x, y, i: f(i, i),
    lambda f, x, y, i: f(x, 1),
    lambda f, x, y, i: f(x, axis=0),
    lambda f, x, y, i: f([x, y]),
    lambda f, x, y, i: f(x[0], i),
    lambda f, x, y, i: f(x, (1, 0)),
    lambda f, x, y, i: f(x, 1, 2),
    lambda f, x, y, i: f(x, axis=1, keepdims=True),
    # Of others numpy loses a reference when a method is refused.
    lambda f, x, y, i: f.reduce(x) if f.__name__ in REDUCED else f(),
    lambda f, x, y, i: f.accumulate(x, 1) if f.__name__ in ("add", "multiply") else f(),
    lambda f, x, y, i: f.outer(i, i),
    lambda f, x, y, i: f.at(x, 0, 1),
]


def test_functions_of_numpy_mean_what_they_say_or_are_refused(computing: Any) -> None:
    base = np.array([[4, 1, 0.5], [1, 3, 0.25], [0.5, 0.25, 2]])
    arrays = (base, base[::-1].copy() + 0.5, np.array([2, 1, 1]))
    wrong, right = [], set()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in numpys_functions().items():
            if name in ASIDE:
                continue
            mine, there = [x.copy() for x in arrays], [lent(x, 1)[1] for x in arrays]
            for number, way in enumerate(WAYS):
                numpys = [x.copy() for x in mine]
                try:
                    want = way(function, *numpys)
                except Exception:  # numpy does not take it
                    continue
                try:
                    with candle.strict():
                        got = way(function, *there)
                except candle.CopyError:  # numpy takes no notice of tensors in lists
                    continue
                except TypeError as error:
                    fault = "" if "t.to('cpu')" in str(error) else f"refused with {error!r}"
                    if f"torch has no {name} that" in str(error):
                        break
                except (ValueError, RuntimeError):
                    continue
                else:
                    fault = "" if want is None else same(got, want, "cuda:1")
                    right.add(name)
                    mine = numpys  # with what was written
                if fault:
                    wrong.append(f"{name}, call {number}: {fault}".replace("\n", "")[:150])
            for t, array in zip(there, mine, strict=True):
                if not np.allclose(t.to("cpu").numpy(), array, equal_nan=True):
                    wrong.append(f"{name} wrote {t.to('cpu')} instead of {array}")
    assert not wrong, "\n".join(wrong)
    assert len(right) > 150
