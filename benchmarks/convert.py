"""What a tree of small tensors costs: `candle.convert` beside the loop one writes by hand.

By hand means `isinstance`, then `.detach().numpy()`, in a dict comprehension: what a careful person
writes for a dict they know to be flat. `convert` gives the same dict, and also keeps equal objects
equal, goes into what is nested, refuses what would lose its meaning, and takes anybody's tensors.

All cases take turns, in an order that changes each round, and the least time counts. A figure holds
the call, the result, and dropping it. The garbage collector stays on.

    python benchmarks/convert.py [--json FILE] [--rounds N] [--leaves N]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder last: its copy.py is not the standard library's

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from machine import environment

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = 0.45


class Case(NamedTuple):
    """A tree, and two ways to convert it."""

    name: str
    tree: dict[str, Any]
    by_candle: Callable[[dict[str, Any]], object]
    by_hand: Callable[[dict[str, Any]], object]


def to_numpy_by_hand(tree: dict[str, Any]) -> dict[str, Any]:
    """Convert a flat dict of torch's tensors."""
    return {
        name: x.detach().numpy() if isinstance(x, torch.Tensor) else x for name, x in tree.items()
    }


def to_torch_by_hand(tree: dict[str, Any]) -> dict[str, Any]:
    """Convert a flat dict of arrays."""
    return {name: torch.from_numpy(x) for name, x in tree.items()}


def nested_by_hand(tree: Any) -> Any:
    """Convert dicts and lists of torch's tensors."""
    if isinstance(tree, torch.Tensor):
        return tree.detach().numpy()
    if isinstance(tree, dict):
        return {name: nested_by_hand(x) for name, x in tree.items()}
    if isinstance(tree, list):
        return [nested_by_hand(x) for x in tree]
    return tree


def cases(leaves: int) -> list[Case]:
    """Make the trees."""
    plain = {f"layer{i}.weight": torch.zeros(2, 3) for i in range(leaves)}
    parameters = {name: torch.nn.Parameter(x) for name, x in plain.items()}
    nested = {f"layer{i}": {"w": [x, i]} for i, x in enumerate(plain.values())}
    arrays = {name: x.numpy() for name, x in plain.items()}
    return [
        Case(
            "torch to numpy",
            plain,
            lambda tree: candle.convert(tree, "numpy"),
            to_numpy_by_hand,
        ),
        Case(
            "torch to numpy, detach=True",
            plain,
            lambda tree: candle.convert(tree, "numpy", detach=True),
            to_numpy_by_hand,
        ),
        Case(
            "Parameters to numpy, detach=True",
            parameters,
            lambda tree: candle.convert(tree, "numpy", detach=True),
            to_numpy_by_hand,
        ),
        Case(
            "torch to numpy, nested",
            nested,
            lambda tree: candle.convert(tree, "numpy"),
            nested_by_hand,
        ),
        Case(
            "numpy to torch", arrays, lambda tree: candle.convert(tree, "torch"), to_torch_by_hand
        ),
    ]


def microseconds(convert: Callable[[dict[str, Any]], object], tree: dict[str, Any]) -> float:
    """Time one call."""
    begin = time.perf_counter_ns()
    convert(tree)
    return (time.perf_counter_ns() - begin) / 1000


def measure(trees: list[Case], rounds: int) -> dict[str, dict[str, float]]:
    """Give the least microseconds of every case, both ways."""
    best = {case.name: {"candle": float("inf"), "by hand": float("inf")} for case in trees}
    for i in range(rounds):
        for case in trees:
            ways = [("candle", case.by_candle), ("by hand", case.by_hand)]
            for name, convert in ways if i % 2 else ways[::-1]:
                taken = microseconds(convert, case.tree)
                best[case.name][name] = min(best[case.name][name], taken)
    return best


def main() -> int:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description="Cost of a tree of tensors, beside a loop.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--leaves", type=int, default=100)
    options = parser.parse_args()
    best = measure(cases(options.leaves), options.rounds)
    report = {
        "environment": environment("torch", "numpy"),
        "leaves": options.leaves,
        "microseconds": best,
        "ratios": {name: least["candle"] / least["by hand"] for name, least in best.items()},
        "target": {"torch to numpy": TARGET},
    }
    print(", ".join(f"{name} {text}" for name, text in report["environment"].items()))
    print(f"\n{f'us for {options.leaves} leaves':34} {'candle':>8} {'by hand':>8} {'ratio':>6}")
    for name, least in best.items():
        ratio = report["ratios"][name]
        missed = f"  missed {TARGET}" if ratio > TARGET and name in report["target"] else ""
        print(f"{name:34} {least['candle']:8.1f} {least['by hand']:8.1f} {ratio:6.3f}{missed}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
