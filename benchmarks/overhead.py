"""What one move of a small tensor costs: candle beside torch, numpy and tvm-ffi, in one run.

Every case is timed for the same object again and again, and for fresh objects (a list of new ones,
consumed one after another). Rounds are interleaved, so that a disturbance hits every case alike,
and the minimum over the rounds counts. Nothing is subtracted: a figure holds the loop, the call,
making the result and dropping it. Functions are called by a name of their own, as they are after
`from candle import from_dlpack`. The garbage collector stays on.

The floor is what torch's own C exchange table costs with the deleter of what it gives, called from
C and with nothing kept: no consumer of that table can be faster.

    python benchmarks/overhead.py [--json FILE] [--rounds N] [--number N]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder last: its copy.py is not the standard library's

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import tvm_ffi
from machine import environment

import candle
from candle._native import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Loop = Callable[[Iterable[object]], None]

SHAPE = (2, 3)


class Case(NamedTuple):
    """A statement on `x`, and what makes an `x`."""

    name: str
    statement: str
    make: Callable[[], object]


class Target(NamedTuple):
    """A ratio of two cases to reach."""

    case: str
    peer: str
    limit: float


def torch_float() -> torch.Tensor:
    """Make a contiguous float32 tensor of torch's."""
    return torch.zeros(SHAPE)


def ndarray() -> np.ndarray[Any, Any]:
    """Make a contiguous float32 array of numpy's."""
    return np.zeros(SHAPE, np.float32)


def tensor() -> candle.Tensor:
    """Make a candle tensor over an array of numpy's."""
    return candle.from_dlpack(ndarray())


INPUTS: dict[str, Callable[[], object]] = {
    "torch float32": torch_float,
    "torch int64": lambda: torch.zeros(SHAPE, dtype=torch.int64),
    "torch transposed": lambda: torch.zeros(SHAPE).t(),
    "torch complex64": lambda: torch.zeros(SHAPE, dtype=torch.complex64),
    "ndarray": ndarray,
}

CASES = [
    Case("empty builtin call", "nothing(x)", ndarray),
    *(
        Case(f"candle.from_dlpack({name})", "candle_from_dlpack(x)", make)
        for name, make in INPUTS.items()
    ),
    *(
        Case(f"tvm_ffi.from_dlpack({name})", "tvm_from_dlpack(x)", make)
        for name, make in INPUTS.items()
    ),
    Case("np.from_dlpack(torch float32)", "np_from_dlpack(x)", torch_float),
    Case("np.from_dlpack(ndarray)", "np_from_dlpack(x)", ndarray),
    Case("torch.from_numpy(ndarray)", "torch_from_numpy(x)", ndarray),
    Case("torch float32.numpy()", "x.numpy()", torch_float),
    Case("candle.numpy()", "x.numpy()", tensor),
    Case("candle.to_torch()", "x.to_torch()", tensor),
    Case("torch.from_dlpack(ndarray)", "torch_from_dlpack(x)", ndarray),
    Case("torch.from_dlpack(candle)", "torch_from_dlpack(x)", tensor),
    Case("np.from_dlpack(candle)", "np_from_dlpack(x)", tensor),
    Case("np.from_dlpack(tvm_ffi)", "np_from_dlpack(x)", lambda: tvm_ffi.from_dlpack(ndarray())),
    Case("candle[1]", "x[1]", tensor),
    Case("ndarray[1]", "x[1]", ndarray),
]
FLOOR = "floor: torch's table and deleter"
if hasattr(_core, "exchange_floor"):
    CASES.insert(1, Case(FLOOR, "floor(x)", torch_float))

TARGETS = [
    Target("candle.from_dlpack(torch float32)", "tvm_ffi.from_dlpack(torch float32)", 0.65),
    Target("candle.from_dlpack(torch int64)", "tvm_ffi.from_dlpack(torch int64)", 0.50),
    Target("candle.from_dlpack(torch transposed)", "tvm_ffi.from_dlpack(torch transposed)", 1.00),
    Target("candle.from_dlpack(torch complex64)", "tvm_ffi.from_dlpack(torch complex64)", 1.00),
    Target("candle.from_dlpack(torch float32)", "np.from_dlpack(torch float32)", 0.06),
    Target("candle.from_dlpack(ndarray)", "tvm_ffi.from_dlpack(ndarray)", 0.25),
    Target("candle.from_dlpack(ndarray)", "np.from_dlpack(ndarray)", 0.30),
    Target("candle.to_torch()", "torch.from_dlpack(ndarray)", 0.30),
    Target("torch.from_dlpack(candle)", "torch.from_dlpack(ndarray)", 1.00),
    Target("np.from_dlpack(candle)", "np.from_dlpack(tvm_ffi)", 1.00),
    Target("candle.numpy()", "np.from_dlpack(ndarray)", 0.50),
    Target("candle[1]", "ndarray[1]", 0.90),
]


def loop_over(statement: str) -> Loop:
    """Compile the loop that is timed: `for x in objects: <statement>`."""
    names: dict[str, Any] = {
        "nothing": id,
        "floor": getattr(_core, "exchange_floor", None),
        "candle_from_dlpack": candle.from_dlpack,
        "tvm_from_dlpack": tvm_ffi.from_dlpack,
        "np_from_dlpack": np.from_dlpack,
        "torch_from_dlpack": torch.from_dlpack,
        "torch_from_numpy": torch.from_numpy,
    }
    exec(f"def loop(objects):\n    for x in objects:\n        {statement}", names)
    loop: Loop = names["loop"]
    return loop


def nanoseconds(loop: Loop, objects: Iterable[object], count: int) -> float:
    """Time one pass, per object."""
    begin = time.perf_counter_ns()
    loop(objects)
    return (time.perf_counter_ns() - begin) / count


def measure(rounds: int, number: int) -> dict[str, dict[str, float]]:
    """Give the least nanoseconds of every case, for the same object and for fresh ones."""
    loops = {case.name: loop_over(case.statement) for case in CASES}
    same = {case.name: case.make() for case in CASES}
    best = {case.name: {"same": float("inf"), "fresh": float("inf")} for case in CASES}
    fresh_number = max(1, number // 4)
    for _ in range(rounds):
        for case in CASES:
            loop, least = loops[case.name], best[case.name]
            again = itertools.repeat(same[case.name], number)
            least["same"] = min(least["same"], nanoseconds(loop, again, number))
            objects = [case.make() for _ in range(fresh_number)]
            least["fresh"] = min(least["fresh"], nanoseconds(loop, objects, fresh_number))
    return best


def ratios(best: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """Compare every target with what was reached."""
    return [
        {
            "case": target.case,
            "peer": target.peer,
            "target": target.limit,
            **{key: best[target.case][key] / best[target.peer][key] for key in ("same", "fresh")},
        }
        for target in TARGETS
    ]


def print_tables(report: dict[str, Any]) -> None:
    """Print what was measured, and how it compares with the targets."""
    print(", ".join(f"{name} {text}" for name, text in report["environment"].items()))
    print(f"\n{'ns per call':44} {'same':>8} {'fresh':>8}")
    for name, least in report["nanoseconds"].items():
        print(f"{name:44} {least['same']:8.1f} {least['fresh']:8.1f}")
    print(f"\n{'ratio':76} {'target':>6} {'same':>6} {'fresh':>6}")
    for row in report["ratios"]:
        missed = "  missed" if max(row["same"], row["fresh"]) > row["target"] else ""
        pair = f"{row['case']} / {row['peer']}"
        print(f"{pair:76} {row['target']:6.2f} {row['same']:6.3f} {row['fresh']:6.3f}{missed}")


def main() -> int:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description="Cost of one move, beside torch, numpy, tvm-ffi.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--number", type=int, default=8000, help="calls per case and round")
    options = parser.parse_args()
    best = measure(options.rounds, options.number)
    report = {
        "environment": environment("torch", "numpy", "apache-tvm-ffi"),
        "nanoseconds": best,
        "ratios": ratios(best),
    }
    print_tables(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
