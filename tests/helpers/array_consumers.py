"""Calls of scipy and scikit-learn with tensors, beside the same calls with numpy's arrays.

`python array_consumers.py scipy` or `... sklearn` prints what came of each as JSON. scipy reads
SCIPY_ARRAY_API when it is imported, so that this runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

# All of float64: x and y (32 numbers below 1), o (0 to 31), m (6, 4) and s (4, 4).
SCIPY = """
fft.fft(x)
fft.ifft(x)
fft.rfft(x)
fft.irfft(x)
fft.hfft(x)
fft.fft2(m)
fft.fftn(m)
fft.rfftn(m)
fft.dct(x)
fft.dst(x)
fft.fftshift(x)
special.gammaln(x)
special.erf(x)
special.expit(x)
special.logit(x)
special.ndtr(x)
special.i0(x)
special.xlogy(x, y)
special.rel_entr(x, y)
special.betainc(x, y, 0.5)
special.logsumexp(x)
special.softmax(x)
special.log_softmax(x)
stats.zscore(x)
stats.skew(x)
stats.kurtosis(x)
stats.moment(x, 2)
stats.gmean(x)
stats.hmean(x)
stats.pmean(x, 2)
stats.entropy(x)
stats.variation(x)
stats.tmean(x)
stats.rankdata(x)
stats.ttest_1samp(x, 0.5).statistic
stats.ttest_ind(x, y).pvalue
stats.pearsonr(x, y).statistic
stats.chisquare(x).statistic
stats.jarque_bera(x).pvalue
stats.skewtest(x).statistic
stats.bartlett(x, y).statistic
signal.detrend(x)
signal.fftconvolve(x, y)
signal.convolve(x, y)
signal.hilbert(x)
signal.resample(x, 16)
signal.medfilt(x)
ndimage.gaussian_filter(m, 1.0)
ndimage.sobel(m)
ndimage.median_filter(m, 3)
ndimage.rotate(m, 30)
ndimage.zoom(m, 2)
ndimage.label(m > 0.5)[0]
integrate.trapezoid(x)
integrate.cumulative_trapezoid(x)
integrate.tanhsinh(lambda z: z**2, 0 * s, s).integral
interpolate.make_interp_spline(o, y)(o)
cluster.vq.whiten(m)
cluster.vq.vq(m, m[:2])[0]
cluster.vq.kmeans2(m, m[:2], minit='matrix')[0]
cluster.hierarchy.linkage(m)
optimize.elementwise.find_root(lambda z: z**2 - 0.5, (0 * s, 0 * s + 1)).x
optimize.elementwise.find_minimum(lambda z: (z - 0.5)**2, (0 * s, 0 * s + 0.4, 0 * s + 1)).x
differentiate.derivative(lambda z: z**2, x).df
spatial.transform.Rotation.from_quat(m).as_matrix()
""".strip().splitlines()

# What scipy computes in numpy, or gives as numbers, whatever comes.
SCIPY_IN_NUMPY = """
integrate.simpson(x)
linalg.inv(s)
linalg.solve(s, s)
linalg.svd(m)[1]
spatial.distance.cdist(m, m)
stats.spearmanr(x, y).statistic
signal.welch(x, nperseg=8)[1]
""".strip().splitlines()

SKLEARN = """
preprocessing.StandardScaler().fit_transform(X)
preprocessing.MinMaxScaler().fit_transform(X)
preprocessing.MaxAbsScaler().fit_transform(X)
preprocessing.Normalizer().fit_transform(X)
preprocessing.Binarizer().fit_transform(X)
preprocessing.PolynomialFeatures(2).fit_transform(X)
preprocessing.LabelEncoder().fit_transform(y)
preprocessing.KernelCenterer().fit_transform(X @ X.T)
decomposition.PCA(2, svd_solver='full').fit(X).transform(X)
linear_model.Ridge(solver='svd').fit(X, X[:, 0]).predict(X)
linear_model.LogisticRegression().fit(X, y).predict(X)
discriminant_analysis.LinearDiscriminantAnalysis().fit(X, y).predict(X)
mixture.GaussianMixture(2, init_params='random', random_state=0).fit(X).predict(X)
naive_bayes.GaussianNB().fit(X, y).predict(X)
pipeline.make_pipeline(preprocessing.MaxAbsScaler(), naive_bayes.GaussianNB()).fit(X, y).predict(X)
metrics.accuracy_score(y, y)
metrics.f1_score(y, y)
metrics.r2_score(X[:, 0], X[:, 1])
metrics.mean_squared_error(X[:, 0], X[:, 1])
metrics.mean_absolute_error(X[:, 0], X[:, 1])
metrics.roc_auc_score(y, X[:, 0])
metrics.confusion_matrix(y, y)
metrics.pairwise.cosine_similarity(X)
metrics.pairwise.euclidean_distances(X)
metrics.pairwise.rbf_kernel(X)
model_selection.train_test_split(X, random_state=0)[0]
""".strip().splitlines()

# Written in Cython for numpy's arrays: right with the dispatch off only.
SKLEARN_IN_NUMPY = """
ensemble.RandomForestClassifier(5, random_state=0).fit(X, y).predict(X)
cluster.KMeans(2, n_init=1, random_state=0).fit(X).predict(X)
neighbors.KNeighborsClassifier().fit(X, y).predict(X)
svm.SVC().fit(X, y).predict(X)
""".strip().splitlines()

_SCIPY_PARTS = (
    *("cluster", "cluster.hierarchy", "cluster.vq", "differentiate", "fft", "integrate"),
    *("interpolate", "linalg", "ndimage", "optimize", "optimize.elementwise", "signal"),
    *("spatial", "spatial.distance", "spatial.transform", "special", "stats"),
)
_SKLEARN_PARTS = (
    *("cluster", "decomposition", "discriminant_analysis", "ensemble", "linear_model", "metrics"),
    *("metrics.pairwise", "mixture", "model_selection", "naive_bayes", "neighbors", "pipeline"),
    *("preprocessing", "svm"),
)


def outcome(call: str, parts: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    """What a call gives with tensors, and whether that is what it gives with arrays."""
    import numpy as np

    import candle

    want = eval(call, parts, {name: a.copy() for name, a in arrays.items()})
    tensors = {name: candle.asarray(a.copy()) for name, a in arrays.items()}
    try:
        got = eval(call, parts, tensors)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    same = bool(np.allclose(np.asarray(got), np.asarray(want), equal_nan=True))
    return {"type": type(got).__name__, "same": same}


def modules(package: str, names: tuple[str, ...]) -> dict[str, Any]:
    from importlib import import_module

    return {
        name.partition(".")[0]: import_module(f"{package}.{name}") for name in sorted(names)[::-1]
    }


def main(which: str) -> dict[str, Any]:
    import numpy as np

    random = np.random.default_rng(0)
    if which == "scipy":
        parts = modules("scipy", _SCIPY_PARTS)
        shapes = {"x": 32, "y": 32, "m": (6, 4), "s": (4, 4)}
        arrays = {name: random.random(shape) for name, shape in shapes.items()}
        arrays["o"] = np.arange(32.0)
        return {call: outcome(call, parts, arrays) for call in SCIPY + SCIPY_IN_NUMPY}
    import sklearn

    parts = modules("sklearn", _SKLEARN_PARTS)
    data = random.random((80, 5))
    arrays = {"X": data, "y": (data.sum(axis=1) > 2.5).astype("int64")}
    found = {}
    for dispatch in (True, False):
        with sklearn.config_context(array_api_dispatch=dispatch):
            for call in SKLEARN + ([] if dispatch else SKLEARN_IN_NUMPY):
                found[f"{dispatch} {call}"] = outcome(call, parts, arrays)
    return found


if __name__ == "__main__":
    assert os.environ["SCIPY_ARRAY_API"] == "1"
    warnings.simplefilter("ignore")
    print(json.dumps(main(sys.argv[1])))
