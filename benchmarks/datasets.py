"""What a batch of a HuggingFace dataset costs: the format "candle" beside those it has.

The dataset is written to a file, which is mapped again: each batch is 1000 rows, one chunk, but the
last two cases. "arrow" hands out the table alone: what datasets itself needs to find the rows, and
nobody is quicker. The other formats make float32 and int64 of all numbers; candle keeps the dtypes,
which here are those.

All formats take turns, in an order that changes each round, and the least time counts. A figure
holds the query, the result, and dropping it.

    python benchmarks/datasets.py [--json FILE] [--rounds N]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder last: it has a datasets.py and a copy.py too

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

os.environ["HF_HUB_OFFLINE"] = "1"  # read when datasets is imported

import datasets
import numpy as np
from machine import environment

import candle  # noqa: F401  (tells datasets of its format)

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = ("candle", "numpy", "torch", "arrow")
ROWS = 4000
TARGET = 0.1  # of numpy's time


class Case(NamedTuple):
    """A question that is put to a dataset in each format."""

    name: str
    columns: list[str]
    ask: Callable[[Any], object]


def batch(dataset: Any) -> object:
    """Take one chunk."""
    return dataset[1000:2000]


CASES = (
    Case("embeddings", ["embedding"], batch),
    Case("embeddings, labels", ["embedding", "label"], batch),
    Case("images 3 x 32 x 32, labels", ["image", "label"], batch),
    Case("lists of one length", ["list"], batch),
    Case("labels", ["label"], batch),
    Case("tokens, uneven lists", ["tokens"], batch),
    Case("one row: embedding, label", ["embedding", "label"], lambda dataset: dataset[1234]),
    Case("across two chunks", ["embedding", "label"], lambda dataset: dataset[1500:2500]),
    Case("100 rows here and there", ["embedding", "label"], lambda dataset: dataset[0:4000:40]),
)


def make(folder: Path) -> Any:
    """Write a dataset, and open it: mapped, in chunks of 1000 rows."""
    random = np.random.default_rng(0)
    lengths = random.integers(5, 60, ROWS)
    features = {
        "embedding": datasets.List(datasets.Value("float32"), length=384),
        "label": datasets.ClassLabel(num_classes=10),
        "image": datasets.Array3D((3, 32, 32), "float32"),
        "list": datasets.List(datasets.Value("int64")),
        "tokens": datasets.List(datasets.Value("int64")),
    }
    columns = {
        "embedding": random.random((ROWS, 384), dtype="float32"),
        "label": random.integers(0, 10, ROWS),
        "image": random.random((ROWS, 3, 32, 32), dtype="float32"),
        "list": random.integers(0, 30000, (ROWS, 64)),
        "tokens": [random.integers(0, 30000, length) for length in lengths],
    }
    made = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    made.save_to_disk(folder)
    return datasets.load_from_disk(folder)


def measure(dataset: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Give the least microseconds of every case, in every format."""
    best: dict[str, dict[str, float]] = {}
    for case in CASES:
        least = best[case.name] = dict.fromkeys(FORMATS, float("inf"))
        chosen = dataset.select_columns(case.columns)
        formatted = {name: chosen.with_format(name) for name in FORMATS}
        for i in range(rounds):
            for name in FORMATS if i % 2 else FORMATS[::-1]:
                begin = time.perf_counter_ns()
                case.ask(formatted[name])
                least[name] = min(least[name], (time.perf_counter_ns() - begin) / 1000)
    return best


def main() -> int:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description="Cost of a batch of a dataset, by format.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        best = measure(make(Path(folder)), options.rounds)
    report = {
        "environment": environment("datasets", "pyarrow", "torch", "numpy"),
        "microseconds": best,
        "ratios": {name: least["candle"] / least["numpy"] for name, least in best.items()},
        "target": {CASES[0].name: TARGET, CASES[1].name: TARGET},
    }
    print(", ".join(f"{name} {text}" for name, text in report["environment"].items()))
    print(f"\n{'us for 1000 rows':28}" + "".join(f"{name:>9}" for name in FORMATS) + "  / numpy")
    for name, least in best.items():
        ratio = report["ratios"][name]
        missed = f"  missed {TARGET}" if ratio > TARGET and name in report["target"] else ""
        figures = "".join(f"{least[form]:9.1f}" for form in FORMATS)
        print(f"{name:28}{figures} {ratio:8.3f}{missed}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
