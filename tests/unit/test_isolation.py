"""Tests in a process of their own: whatever kills it is a failure, and of whom."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
HEAD = """
import atexit, os, pytest, signal
pytestmark = pytest.mark.isolated(together="file")
here = []
def crash():
    os.kill(os.getpid(), signal.SIGKILL)
"""
TESTS = {
    "all are well": ("def test_a(): pass\ndef test_b(): pass", {"passed": 2}, ""),
    "one fails": ("def test_a(): assert 0\ndef test_b(): pass", {"passed": 1, "failed": 1}, ""),
    "one kills": (
        "def test_a(): crash()\ndef test_b(): pass",
        {"passed": 1, "failed": 1},
        "all of test_it.py together: killed: SIGKILL",
    ),
    "two together kill": (
        "def test_a(): here.append(1)\ndef test_b():\n    if here: crash()",
        {"passed": 1, "failed": 1},
        "all of test_it.py together: killed: SIGKILL",
    ),
    "one kills at the end": (
        "def test_a(): pass\ndef test_b(): atexit.register(crash)",
        {"passed": 1, "failed": 1},
        "all of test_it.py together: killed: SIGKILL",
    ),
}


@pytest.mark.parametrize("name", TESTS)
def test_deaths_are_failures(name: str, tmp_path: Path, run_child: Any) -> None:
    text, outcomes, told = TESTS[name]
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(HEAD + text)
    child = run_child("-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path)
    assert child.returncode == (1 if "failed" in outcomes else 0), child.stdout
    for outcome, count in outcomes.items():
        assert f"{count} {outcome}" in child.stdout.splitlines()[-1], child.stdout
    assert told in child.stdout
