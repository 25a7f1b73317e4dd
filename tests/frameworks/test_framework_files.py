"""What candle knows of frameworks: one table, and files that keep to one protocol."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING

import pytest

from candle import frameworks
from candle.frameworks import _FRAMEWORKS
from candle.frameworks.file import FrameworkFile

if TYPE_CHECKING:
    from types import ModuleType

FUNCTIONS = {
    name: f for name, f in vars(FrameworkFile).items() if inspect.isfunction(f) and name[0] != "_"
}
CONSTANTS = FrameworkFile.__annotations__
# What the table says -> what a file then has to define.
NEEDED = {
    "demand": {"target", "demand", "examples"},
    "native": {"target", "examples"},
    None: {"record"},
}


def loaded(file: str, framework: str) -> ModuleType:
    if framework == "warp":  # whose file takes the dtypes' names from it
        pytest.importorskip("warp")
    return importlib.import_module(f"candle.frameworks.{file}")


@pytest.mark.parametrize("framework", [row[0] for row in _FRAMEWORKS])
def test_files_keep_to_the_protocol(framework: str) -> None:
    [(file, told)] = [(file, told) for name, file, _, told in _FRAMEWORKS if name == framework]
    module = loaded(file, framework)
    defined = {name for name in FUNCTIONS if hasattr(module, name)}
    assert defined >= NEEDED[told]
    for name in defined:
        wanted = list(inspect.signature(FUNCTIONS[name]).parameters)[1:]
        assert list(inspect.signature(getattr(module, name)).parameters) == wanted, name
    for name, kind in CONSTANTS.items():
        assert type(getattr(module, name, None)).__name__ in (kind, "NoneType")


def test_the_table_names_each_once() -> None:
    names = [name for name, *_ in _FRAMEWORKS]
    packages = [package for row in _FRAMEWORKS for package in row[2]]
    assert len(set(names)) == len(names)
    assert len(set(packages)) == len(packages)
    assert set(frameworks.TARGETS) <= set(names)
    assert len(set(frameworks.CONSUMERS)) == len(frameworks.CONSUMERS)
