"""Fixtures for tests beside other libraries, which may be absent and are noisy."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isolation
import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.append(str(Path(__file__).parent))  # lines.py and compiled.py
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def load(name: str, request: pytest.FixtureRequest | None = None) -> Any:
    """Import a library, whatever it warns of; skip the test where it is absent.

    A test that runs in a process of its own imports it there alone.
    """
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        pytest.skip(f"{name} is not installed")
    elsewhere = request is not None and request.node.get_closest_marker("isolated") is not None
    if elsewhere and not isolation.is_child():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


@pytest.fixture
def t(request: pytest.FixtureRequest) -> Iterator[candle.Tensor]:
    """Memory of candle's own, 0 to 23."""
    yield candle.Tensor(np.arange(24, dtype="float32").reshape(4, 6)).copy()
    del request.node.funcargs["t"]  # gone before what is left alive is counted


@pytest.fixture
def frozen(request: pytest.FixtureRequest) -> Iterator[candle.Tensor]:
    """Read-only memory at a multiple of 256 bytes, 0 to 3."""
    array = candle.Tensor([0.0, 1.0, 2.0, 3.0]).numpy()
    array.flags.writeable = False
    yield candle.Tensor(array)
    del request.node.funcargs["frozen"]


@pytest.fixture
def tf(request: pytest.FixtureRequest) -> Any:
    return load("tensorflow", request)


@pytest.fixture
def paddle(request: pytest.FixtureRequest) -> Any:
    return load("paddle", request)


@pytest.fixture
def mx(request: pytest.FixtureRequest) -> Any:
    return load("mlx.core", request)


@pytest.fixture
def wp() -> Any:
    warp = load("warp")
    warp.config.quiet = True
    warp.init()
    return warp


@pytest.fixture
def ort(request: pytest.FixtureRequest) -> Any:
    return load("onnxruntime", request)


@pytest.fixture
def einops(request: pytest.FixtureRequest) -> Any:
    return load("einops", request)


@pytest.fixture
def triton(request: pytest.FixtureRequest) -> Any:
    return load("triton", request)
