"""Arithmetic beside numpy's own: what it costs that the operands and the result are Tensors.

Run it alone on the machine: `python benchmarks/arithmetic.py [--json FILE]`. Both sides are timed
in turn, round by round, and the smallest time of each counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import environment

import candle
from candle import array_api as xp

sys.path.remove(str(Path(__file__).parent))  # copy.py here is not the standard library's


class Case(NamedTuple):
    """One computation, on tensors and on arrays of some elements."""

    statement: str
    size: int
    loops: int
    target: float | None  # what candle's time may be, as a multiple of numpy's


SMALL, LARGE = 10, 2_621_440  # 40 bytes, and 10 MB, of float32
CASES = [
    Case("t + t", SMALL, 2000, 2.5),
    Case("t * 2.0", SMALL, 2000, None),
    Case("t > t", SMALL, 2000, None),
    Case("np.add(t, t)", SMALL, 2000, None),
    Case("xp.add(t, t)", SMALL, 2000, None),
    Case("t.sum()", SMALL, 2000, None),
    Case("t += t", SMALL, 2000, None),
    Case("t + t", LARGE, 2, 1.05),
    Case("t += t", LARGE, 2, 1.05),
    Case("t.sum()", LARGE, 2, 1.05),
]


def loop_over(case: Case, namespace: Any) -> Any:
    """Compile the loop that is timed."""
    names = {"np": np, "xp": namespace}
    code = f"def loop(t, counts):\n    for _ in counts:\n        {case.statement}"
    exec(code, names)
    return names["loop"]


def measure(case: Case, rounds: int) -> tuple[float, float]:
    """Give the nanoseconds of one computation, with tensors and with arrays."""
    array = np.zeros(case.size, np.float32)
    sides = [
        (loop_over(case, xp), candle.asarray(array)),  # where memory lies counts more than who asks
        (loop_over(case, np), array),
    ]
    best = [float("inf")] * 2
    for _ in range(rounds):
        for side, (loop, operand) in enumerate(sides):
            begin = time.perf_counter_ns()
            loop(operand, range(case.loops))
            best[side] = min(best[side], (time.perf_counter_ns() - begin) / case.loops)
    return best[0], best[1]


def main() -> None:
    """Measure, print a table, and write the figures where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    found = []
    print(f"{'':<14} {'elements':>9} {'candle':>12} {'numpy':>12} {'ratio':>6}  target")
    for case in CASES:
        ours, theirs = measure(case, options.rounds)
        target = "" if case.target is None else f"{case.target:.2f}"
        print(
            f"{case.statement:<14} {case.size:>9} {ours:>9.0f} ns {theirs:>9.0f} ns "
            f"{ours / theirs:>6.2f}  {target}"
        )
        found.append({**case._asdict(), "candle_ns": ours, "numpy_ns": theirs})
    if options.json:
        told = {"environment": environment("numpy", "array-api-compat"), "cases": found}
        options.json.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
