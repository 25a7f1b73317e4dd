"""What type checkers and editors are told of candle is true of it."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest

import candle

HERE = Path(__file__).parent
STUB_DOCS = HERE.parents[1] / ".ci" / "stub_docs.py"


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SAMPLES = load(HERE / "samples.py")
FUNCTIONS = [
    function
    for _, function in inspect.getmembers(SAMPLES, inspect.isfunction)
    if function.__module__ == "samples" and not inspect.signature(function).parameters
]


@pytest.mark.parametrize("sample", FUNCTIONS, ids=lambda sample: sample.__name__)
def test_samples_run(sample: Any) -> None:
    """What the checkers infer is inferred of code that works; they say so in CI."""
    sample()


def test_samples_were_found() -> None:
    assert len(FUNCTIONS) > 8


def test_stub_has_the_docstrings_of_the_library() -> None:
    """`python .ci/stub_docs.py` writes them anew."""
    tool = load(STUB_DOCS)
    stub = tool.STUB.read_text()
    assert tool.written(stub) == stub


def test_every_public_name_has_a_docstring() -> None:
    of_data = (candle.DType, float, str)
    bare = [
        name
        for name in candle.__all__
        if not isinstance(getattr(candle, name), of_data)
        and not inspect.getdoc(getattr(candle, name))
    ]
    assert bare == []
