"""An allocation that fails, an error and an interrupt after every step of every road.

What is tried prints what was wrong; each runs in a child process, which may die of it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import fake_driver
import faults
import pytest

ISOLATED = Path(__file__).parent / "isolated"


def check(run_child: Any, script: str, *arguments: str, least: int) -> None:
    child = run_child("-X", "faulthandler", ISOLATED / script, *arguments)
    where = child.stderr.splitlines()[-40:]
    assert child.returncode == 0, "\n".join([child.signal or "", child.stdout, *where])
    *wrong, moves = child.stdout.splitlines()
    assert not wrong, "\n".join(wrong)
    assert int(moves) >= least, "fewer moves than there are"


@pytest.mark.parametrize("side", ["native", "python"])
def test_every_allocation_fails(run_child: Any, side: str) -> None:
    """MemoryError, nothing left alive, and the same move goes well afterwards."""
    try:
        faults.build()
    except fake_driver.NoCompiler as error:
        pytest.skip(str(error))
    if side == "python" and (3, 12) <= sys.version_info < (3, 14):
        pytest.skip("CPython 3.12 and 3.13 end the process where a function cannot be made")
    check(run_child, "allocations.py", side, least=200 if side == "native" else 1000)


def test_loading_without_memory(run_child: Any) -> None:
    """The import fails, and the next one works or says that a new process has to be started."""
    if (3, 12) <= sys.version_info < (3, 14):
        pytest.skip("CPython 3.12 and 3.13 crash or hang while they make a type")
    try:
        faults.build()
    except fake_driver.NoCompiler as error:
        pytest.skip(str(error))
    check(run_child, "loading.py", least=400)


def test_every_step_of_a_producer_raises(run_child: Any) -> None:
    """Errors are told as BufferError, interrupts pass; nothing is left alive or remembered."""
    check(run_child, "steps.py", least=1000)


def test_every_line_is_interrupted(run_child: Any) -> None:
    """By the road of each framework, too: no interrupt is swallowed, and nothing is left alive."""
    names = [name for name in ("torch", "pyarrow") if importlib.util.find_spec(name)]
    check(run_child, "interrupts.py", *names, least=1000)
