"""What the fuzzer says of a failure, whatever becomes of the search for a smaller input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from children import Child

ROOT = Path(__file__).parents[2]

REPORT = """
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from tests.fuzz import __main__ as fuzz, minimise

def slow(*arguments, timeout, **options):
    raise subprocess.TimeoutExpired("minimise", timeout)

def nothing(*arguments, **options):
    return subprocess.CompletedProcess("minimise", -6, stdout="")

for how in (slow, nothing):
    subprocess.run = how
    told = {"target": "files", "data": "0102", "error": how.__name__ + " failure"}
    fuzz.report({"it": told}, False, ["torch"])

tried = []
def ending(target, data):
    tried.append(data)
    return "fails" if data.count(7) else ""

minimise.ending = ending
print(minimise.minimised("files", bytes(100) + bytes([7]) + bytes(100)).hex())
tried.clear()
print(len(minimise.minimised("files", bytes([7]) * 50, seconds=-1)), len(tried))
"""


def test_a_failure_is_told_also_where_no_smaller_input_is_found(
    in_child: Callable[..., Child],
) -> None:
    said = in_child(REPORT, str(ROOT)).check()
    for how in ("slow", "nothing"):
        assert f"FAILURE in files\n{how} failure\n" in said
    assert said.count("again: python -m tests.fuzz --replay files:0102 --libraries torch\n") == 2
    assert said.splitlines()[-2:] == ["07", "50 0"]
