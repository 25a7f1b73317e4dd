"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import children

TESTS = """
import asyncio
import unittest

import pytest

import candle

def turned():
    return candle.zeros((2, 3)).T

def test_copies(no_copies):
    turned().contiguous()

def test_shares(no_copies):
    turned().numpy()

def test_free():
    turned().contiguous()

@pytest.mark.no_copies(allow="order")
def test_allowed():
    turned().contiguous()

@pytest.mark.no_copies
def test_marked():
    turned().contiguous()

def test_task(no_copies):
    async def copy():
        turned().contiguous()
    asyncio.run(copy())

def test_trace(candle_trace):
    turned().contiguous()
    assert [move.nbytes for move in candle_trace.copies] == [24]
    assert candle_trace[0].where.startswith(__file__)

@pytest.mark.no_copies("order")
def test_wrong_mark():
    pass

@pytest.mark.no_copies(allow=candle.ReasonCode.ORDER)
def test_code():
    turned().contiguous()

class TestCase(unittest.TestCase):
    @pytest.mark.no_copies
    def test_unit(self):
        with self.assertRaises(candle.CopyError):
            turned().contiguous()

class TestClass:
    pytestmark = pytest.mark.no_copies

    def test_class_mark(self):
        with pytest.raises(candle.CopyError):
            turned().contiguous()

    @pytest.mark.no_copies(allow=24)
    def test_budget(self):
        turned().contiguous()
        with pytest.raises(candle.CopyError):
            turned().contiguous()
"""


@pytest.fixture
def outcome(tmp_path: Path, run_child: Callable[..., children.Child]) -> str:
    file = tmp_path / "test_it.py"
    file.write_text(TESTS)
    ini = tmp_path / "pytest.ini"
    ini.write_text("[pytest]\n")
    arguments = (
        "-m",
        "pytest",
        "-p",
        "candle.testing.plugin",
        "-rA",
        "-c",
        ini,
        "--strict-markers",
    )
    child = run_child(*arguments, file, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return child.stdout + child.stderr


def test_fixtures_and_mark(outcome: str) -> None:
    failed = {"test_copies", "test_marked", "test_task"}
    passed = {"test_shares", "test_free", "test_allowed", "test_trace", "TestClass::test_budget"}
    passed |= {"test_code", "TestCase::test_unit", "TestClass::test_class_mark"}
    wrong = {"test_wrong_mark"}
    for names, word in ((failed, "FAILED"), (passed, "PASSED"), (wrong, "ERROR")):
        for name in names:
            assert re.search(rf"{word} \S*test_it.py::{name}\b", outcome), outcome
    assert "CopyError" in outcome


def test_entry_point() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"candle": "candle.testing.plugin"}
