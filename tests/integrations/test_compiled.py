"""Functions of pybind11, nanobind and Cython take Tensors, or their memoryviews, without a copy."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from conftest import load  # type: ignore[import-not-found]

import candle

MAKERS = ("pybind11", "nanobind", "Cython")


@pytest.fixture(scope="module", params=MAKERS)
def maker(request: pytest.FixtureRequest) -> Any:
    load(request.param)
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    from compiled import functions

    return request.param, functions(request.param)


def given(name: str, t: candle.Tensor) -> Any:
    """Cython's memoryviews are of buffers, which the type itself does not offer."""
    return t.memoryview() if name == "Cython" else t


def test_shares_and_writes(maker: Any, t: candle.Tensor) -> None:
    name, f = maker
    assert f.array(given(name, t)) == t.data_ptr()
    assert t[0, 0].item() == 1
    assert f.array(t.memoryview()) == t.data_ptr()
    assert t[0, 0].item() == 2


def test_strides(maker: Any, t: candle.Tensor) -> None:
    name, f = maker
    for view in (t.T, t[1:, ::2]):
        assert f.array(given(name, view)) == view.data_ptr()


def test_read_only(maker: Any) -> None:
    """A function that may write refuses; one that promises not to shares."""
    name, f = maker
    frozen = candle.Tensor(bytes(24)).view("float32").reshape(2, 3)
    with pytest.raises((ValueError, TypeError, BufferError)):
        f.array(given(name, frozen))
    assert f.const_array(frozen.memoryview()) == frozen.data_ptr()
    assert frozen.tolist() == [[0] * 3] * 2


def test_other_dtypes_are_refused_or_converted(maker: Any, t: candle.Tensor) -> None:
    name, f = maker
    wide = t.to("float64")
    if name == "pybind11":  # array_t converts, as its documentation says
        assert f.const_array(wide) != wide.data_ptr()
    else:
        with pytest.raises((ValueError, TypeError, BufferError)):
            f.array(given(name, wide))
    assert wide.tolist() == t.tolist()


def test_pybind11_buffer(t: candle.Tensor) -> None:
    load("pybind11")
    from compiled import functions

    assert functions("pybind11").buffer(t.memoryview()) == t.data_ptr()
