"""numba, pandas, scikit-learn, matplotlib, Pillow, OpenCV, xgboost, h5py and zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from conftest import load  # type: ignore[import-not-found]

import candle

if TYPE_CHECKING:
    from pathlib import Path


def test_numba(t: candle.Tensor) -> None:
    numba = load("numba")

    @numba.njit  # type: ignore[untyped-decorator]
    def add_rows(a: Any) -> float:
        a[0, 0] += 1
        return float(a.sum())

    assert add_rows(t.numpy()) == sum(range(24)) + 1
    assert t[0, 0].item() == 1
    result = numba.njit(lambda a: a * 2)(t.numpy())
    assert candle.Tensor(result).data_ptr() == result.ctypes.data


def test_pandas_out(t: candle.Tensor) -> None:
    pd = load("pandas")
    column = t[:, 1]
    series = pd.Series(column)
    assert (series.tolist(), series.dtype) == (column.tolist(), np.float32)
    frame = pd.DataFrame({"a": t[0], "b": t[1]})
    assert frame["b"].tolist() == t[1].tolist()
    shared = pd.DataFrame(t.numpy(), copy=False)
    t[0, 0] = 42
    assert shared.iloc[0, 0] == 42
    assert frame.assign(c=t[2])["c"].tolist() == t[2].tolist()


def test_pandas_in() -> None:
    pd = load("pandas")
    series = pd.Series(np.arange(4.0))
    t = candle.Tensor(series)
    assert (t.data_ptr(), t.readonly) == (series.to_numpy().ctypes.data, True)
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3))
    assert candle.Tensor(frame).data_ptr() == frame.to_numpy().ctypes.data
    with pytest.raises(BufferError, match=r"text|Python objects"):
        candle.Tensor(pd.Series(["a", "b"]))


def test_scikit_learn(t: candle.Tensor) -> None:
    load("sklearn")
    from sklearn.cluster import KMeans
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import StandardScaler

    y = candle.Tensor([0, 1, 0, 1])
    array = t.numpy()
    scaled = StandardScaler().fit_transform(t)
    assert np.array_equal(scaled, StandardScaler().fit_transform(array))
    fitted = LinearRegression().fit(t, y).predict(t)
    assert np.allclose(fitted, LinearRegression().fit(array, y.numpy()).predict(array))
    forest = RandomForestClassifier(3, random_state=0)
    assert forest.fit(t, y).predict(t).shape == (4,)
    assert KMeans(2, n_init=1).fit_predict(t).shape == (4,)


def test_matplotlib(t: candle.Tensor) -> None:
    matplotlib = load("matplotlib")
    matplotlib.use("Agg")
    plt = load("matplotlib.pyplot")
    figure, axes = plt.subplots()
    [line] = axes.plot(t[0], t[1])
    assert line.get_ydata().tolist() == t[1].tolist()
    assert np.array_equal(axes.imshow(t).get_array(), t.numpy())
    counts, *_ = axes.hist(t[0])
    assert counts.sum() == 6
    axes.scatter(t[0], t[1])
    axes.bar(t[0], t[1])
    axes.contourf(t)
    axes.fill_between(t[0], t[1])
    figure.canvas.draw()
    plt.close(figure)


def test_pillow() -> None:
    Image = load("PIL.Image")
    t = candle.Tensor(np.arange(72, dtype="uint8").reshape(4, 6, 3))
    image = Image.fromarray(t.numpy())
    assert np.array_equal(np.asarray(image), t.numpy())
    assert candle.Tensor(image).tolist() == t.tolist()


def test_opencv() -> None:
    cv2 = load("cv2")
    t = candle.Tensor(np.arange(72, dtype="uint8").reshape(4, 6, 3)).copy()
    small = cv2.resize(t.numpy(), (3, 2))
    assert candle.Tensor(small).data_ptr() == small.ctypes.data
    before = t.tolist()
    cv2.bitwise_not(t.numpy(), dst=t.numpy())
    assert (255 - t.numpy()).tolist() == before


def test_xgboost(t: candle.Tensor) -> None:
    xgb = load("xgboost")
    matrix = xgb.DMatrix(t, label=t[:, 0])
    assert matrix.get_label().tolist() == t[:, 0].tolist()
    assert matrix.get_data().toarray().tolist() == t.tolist()
    model = xgb.XGBRegressor(n_estimators=1).fit(t, t[:, 0])
    assert np.array_equal(model.predict(t), model.predict(t.numpy()))


def says_that_it_copies(x: Any) -> None:
    with pytest.raises(candle.CopyError, match="would have to copy"):
        candle.Tensor(x, copy=False)
    plan = candle.explain(x)
    assert (plan.action, plan.nbytes) == ("copy", 96)
    assert [reason.code for reason in plan.reasons] == ["producer_copies"]


def test_h5py(t: candle.Tensor, tmp_path: Path) -> None:
    h5py = load("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("x", data=t)
        assert (stored.dtype, stored[:].tolist()) == (np.float32, t.tolist())
        assert candle.Tensor(stored).tolist() == t.tolist()
        says_that_it_copies(stored)
        other = candle.zeros((4, 6))
        stored.read_direct(other.numpy())
        assert other.tolist() == t.tolist()


def test_zarr(t: candle.Tensor) -> None:
    zarr = load("zarr")
    stored = zarr.create_array({}, shape=(4, 6), chunks=(2, 3), dtype="f4")
    stored[...] = t
    assert candle.Tensor(stored).tolist() == t.tolist()
    says_that_it_copies(stored)
