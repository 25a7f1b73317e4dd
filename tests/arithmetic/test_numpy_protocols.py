"""numpy's functions on tensors: what comes back, and whose memory it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

np = pytest.importorskip("numpy")
pytest.importorskip("array_api_compat")

UFUNCS = sorted(name for name, value in vars(np).items() if isinstance(value, np.ufunc))


@pytest.mark.parametrize("name", UFUNCS)
def test_every_ufunc(name: str) -> None:
    ufunc = getattr(np, name)
    for dtype in ("float32", "int64", "bool"):
        arrays = [np.array([[1, 0], [1, 1]], dtype) for _ in range(ufunc.nin)]
        try:
            with np.errstate(all="ignore"):
                want = ufunc(*arrays)
        except TypeError:
            with pytest.raises(TypeError):
                ufunc(*map(candle.asarray, arrays))
            continue
        if np.asarray(want).dtype.kind not in "biufc":  # isnat and the like
            continue
        with np.errstate(all="ignore"), candle.trace() as moves:
            got = ufunc(*map(candle.asarray, arrays))
        assert [move for move in moves if move.action != "share"] == []
        both = (got, want) if isinstance(want, tuple) else ((got,), (want,))
        for one, other in zip(*both, strict=True):
            assert type(one) is candle.Tensor
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(np.asarray(one), other)


def test_out() -> None:
    t = candle.tensor([1.0, 2.0])
    assert np.add(t, 1, out=t) is t
    assert t.tolist() == [2, 3]
    a = np.zeros(2, "float32")
    assert np.add(t, 1, out=a) is a
    assert a.tolist() == [3, 4]
    whole, part = candle.zeros(2), candle.zeros(2)
    got = np.modf(candle.tensor([1.5, 2.25]), out=(part, whole))
    assert (got[0], got[1]) == (part, whole) or (got[0] is part and got[1] is whole)
    assert (part.tolist(), whole.tolist()) == ([0.5, 0.25], [1, 2])
    mixed = np.modf(candle.tensor([1.5]), out=(None, candle.zeros(1)))
    assert [x.tolist() for x in mixed] == [[0.5], [1.0]]
    total = candle.zeros(())
    assert np.sum(t, out=total) is total
    assert total.item() == 5
    assert np.add(a, t, where=[True, False], out=a).tolist() == [5, 4]


def test_methods_of_ufuncs() -> None:
    t = candle.tensor([1.0, 2.0, 3.0])
    assert np.add.reduce(t).item() == 6
    assert np.add.accumulate(t).tolist() == [1, 3, 6]
    assert np.multiply.outer(t, t).tolist()[2] == [3, 6, 9]
    assert np.add.reduceat(t, [0, 1]).tolist() == [1, 5]
    np.add.at(t, [0, 0, 2], 1)
    assert t.tolist() == [3, 2, 4]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda t: np.reshape(t, (3, 2)),
    "transpose": np.transpose,
    "ravel": np.ravel,
    "squeeze": np.squeeze,
    "expand_dims": lambda t: np.expand_dims(t, 0),
    "flip": np.flip,
    "swapaxes": lambda t: np.swapaxes(t, 0, 1),
    "broadcast_to": lambda t: np.broadcast_to(t, (4, 2, 3)),
    "split": lambda t: np.split(t, 2)[1],
    "diagonal": np.diagonal,
    "real": np.real,
    "atleast_3d": np.atleast_3d,
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_share(view: str) -> None:
    t = candle.asarray(np.arange(6.0).reshape(2, 3))
    with candle.trace() as moves:
        seen = VIEWS[view](t)
    assert type(seen) is candle.Tensor
    assert candle.shares_memory(seen, t)
    assert [move for move in moves if move.action != "share"] == []


def test_functions() -> None:
    t = candle.tensor([3.0, 1.0, 2.0])
    assert type(np.concatenate([t, np.ones(1, "float32")])) is candle.Tensor
    assert np.sort(t).tolist() == [1, 2, 3]
    assert np.linalg.norm(t).item() == pytest.approx(14**0.5)
    assert np.fft.fft(t).dtype is candle.complex64
    assert np.zeros(2, like=t).tolist() == [0, 0]
    values, counts = np.unique(candle.tensor([1, 1, 2]), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 2], [2, 1])
    assert np.linalg.svd(candle.eye(2)).S.tolist() == [1, 1]  # a named tuple stays one
    assert np.shape(t) == (3,)
    assert np.allclose(t, t) is True
    assert np.array2string(t) == "[3. 1. 2.]"
    assert np.dtype(t.dtype) == np.float32
    assert np.ones(1, t.dtype).dtype == np.float32


def test_who_has_own_functions() -> None:
    class Other:
        def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
            return "theirs"

        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> str:
            return "theirs"

    assert np.concatenate([candle.zeros(1), Other()]) == "theirs"
    assert np.add(candle.zeros(1), Other()) == "theirs"


def test_pandas_and_masked_arrays() -> None:
    pandas = pytest.importorskip("pandas")
    t = candle.tensor([1.0, 2.0], dtype="float64")
    series = pandas.Series([1.0, 2.0])
    for got in (t + series, series + t, np.add(t, series)):
        assert type(got) is pandas.Series
        assert got.tolist() == [2, 4]


def test_masked_arrays() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(BufferError, match="mask"):
        candle.tensor([1.0, 2.0]) + masked


def test_versions_of_the_namespace() -> None:
    from candle import array_api

    t = candle.tensor([1.0])
    assert t.__array_namespace__() is array_api
    assert t.__array_namespace__(api_version="2023.12") is array_api
    with pytest.raises(ValueError, match=r"2025\.12"):
        t.__array_namespace__(api_version="1999.01")


def test_first_use_loads_numpy(in_child: Callable[..., Any]) -> None:
    in_child("""
        import sys, candle
        t = candle.tensor([1, 2])
        assert "numpy" not in sys.modules
        assert (t + t).tolist() == [2, 4]
        assert "array_api_compat" not in sys.modules
        assert t.sum().item() == 3
        assert "array_api_compat" in sys.modules and "torch" not in sys.modules
    """).check()


def test_results_that_are_no_numbers_stay_numpys() -> None:
    t = candle.arange(3, dtype="float32")
    objects = np.array([None, "a", 1], dtype=object)
    for other in (
        objects,
        np.array(["a", "b", "c"]),
        np.array([1, 2, 3], "datetime64[s]"),
        np.array([1, 2, 3], np.longdouble),
        np.zeros(3, [("x", "f4")]),
    ):
        mine, theirs = np.broadcast_arrays(t, other)
        assert type(mine) is candle.Tensor
        assert type(theirs) is np.ndarray
        assert theirs.dtype == other.dtype


def test_what_out_names_is_the_result_if_numpy_wrote_it() -> None:
    t, o = candle.tensor([1.0, 2.0]), candle.zeros(2)
    assert np.cumsum(t, out=o) is o
    assert o.tolist() == [1, 3]
    before = o.numpy().copy()
    own = np.fft.hfft(t.numpy(), out=before)  # which numpy heeds from 2.5 on
    assert np.fft.hfft(t, out=o).tolist() == own.tolist()
    assert o.tolist() == before.tolist()


def test_sums_into_narrow_floats_round_once() -> None:
    ones, total = candle.ones(1000, dtype="bfloat16"), candle.zeros((), dtype="bfloat16")
    for function in (np.sum, np.add.reduce):
        total.fill_(0)
        assert function(ones, out=total) is total
        assert total.item() == 1000  # one by one: 256
    with pytest.raises(ValueError, match="shape"):
        np.sum(ones, out=candle.zeros(2, dtype="bfloat16"))
    fixed = candle.asarray(np.broadcast_to(total.numpy(), ()))
    with pytest.raises(ValueError, match="read-only"):
        np.sum(ones, out=fixed)


def test_what_may_not_be_written_by_name() -> None:
    one = candle.tensor([1.0])
    t = one.broadcast_to(2)
    for write in (
        lambda: np.copyto(dst=t, src=7),
        lambda: np.put(a=t, ind=0, v=7),
        lambda: np.place(arr=t, mask=[True, False], vals=[7]),
        lambda: np.put_along_axis(arr=t, indices=np.array([0]), values=7, axis=0),
        lambda: np.fill_diagonal(a=one.broadcast_to(2, 2), val=7),
    ):
        with pytest.raises(ValueError, match="stride 0"):
            write()
    assert one.tolist() == [1]


def test_universal_functions_of_python() -> None:
    t = candle.tensor([1.0, 2.0])
    got = np.frompyfunc(lambda x: x + 1, 1, 1)(t)
    assert type(got) is np.ndarray
    assert got.tolist() == [2, 3]


SORTING: dict[str, Callable[[Any], Any]] = {
    "sort": np.sort,
    "argsort": np.argsort,
    "partition": lambda t: np.sort(np.partition(t, 3)[:3]),
    "argpartition": lambda t: np.sort(np.argpartition(t, 3)[:3]),
    "lexsort": lambda t: np.lexsort((t, t)),
    "searchsorted": lambda t: np.searchsorted(np.sort(t), t),
    "digitize": lambda t: np.digitize(t, np.sort(t)[:4]),
    "median": np.median,
    "nanmedian": np.nanmedian,
    "percentile": lambda t: np.percentile(t, 25),
    "nanquantile": lambda t: np.nanquantile(t, 0.5),
    "unique": np.unique,
    "isin": lambda t: np.isin(t, np.concatenate([t[2:]] * 20)),
    "union1d": lambda t: np.union1d(t, t[2:]),
    "array_api.sort": lambda t: t.__array_namespace__().sort(t, descending=True),
    "array_api.argsort": lambda t: t.__array_namespace__().argsort(t),
    "array_api.unique_counts": lambda t: t.__array_namespace__().unique_counts(t).counts,
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_order_with_nan(dtype: str) -> None:
    """ml_dtypes' own has none: what stands before and behind a NaN stays where it is."""
    t = candle.tensor([4.0, 1.0, float("nan"), 2.0, 0.5, float("nan"), 8.0]).to(dtype)
    wide = t.to("float32")
    for name, function in SORTING.items():
        got, want = function(t), function(wide)
        np.testing.assert_array_equal(np.asarray(got.to(want.dtype)), np.asarray(want), name)
        assert got.dtype == (dtype if want.dtype == "float32" else want.dtype), name


def test_devices_among_the_arguments() -> None:
    t = candle.arange(3)
    got = np.zeros_like(t, device=t.device)
    assert type(got) is candle.Tensor
    assert got.tolist() == [0, 0, 0]
