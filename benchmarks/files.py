"""What it costs to load and save files of tensors, beside the format's own package and numpy.

A model of 500 MB, in 38 tensors, and one of many small tensors are written to a folder and loaded
from the page cache. All ways take turns, in an order that changes each round, and the least time
counts. A load holds the call, the result, and dropping it. Memory is what the process has more of
while it holds the result: anonymous, and pages of the file. Peers that are not installed are left
out.

    python benchmarks/files.py [--json FILE] [--rounds N] [--megabytes N] [--folder FOLDER]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder last: its copy.py is not the standard library's

import argparse
import gc
import json
import os
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from machine import environment

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

    Ways = dict[str, Callable[[], object]]

# Least times of candle, as parts of a peer's.
TARGETS = {
    ("load the model", "safetensors.torch"): 1.0,
    ("load the model, give to torch", "safetensors.torch"): 1.0,
    ("load the model", "safetensors.numpy"): 0.02,
}


def module(name: str) -> Any:
    """Import a peer, if it is there."""
    return import_module(name) if find_spec(name.partition(".")[0]) else None


def model(megabytes: int) -> dict[str, Any]:
    """Make 38 tensors: an embedding, and layers of four matrices and two vectors."""
    total = megabytes << 20
    width = int((total / 4 / (4 + 6 * 12)) ** 0.5) // 64 * 64
    rng = np.random.default_rng(0)
    tensors = {"embedding": np.empty((4 * width, width), "f4")}
    for i in range(6):
        for name, rows in (("q", 1), ("k", 1), ("up", 5), ("down", 5)):
            tensors[f"layers.{i}.{name}"] = np.empty((rows * width, width), "f4")
        tensors[f"layers.{i}.norm"] = np.empty(width, "f4")
        tensors[f"layers.{i}.bias"] = np.empty(width, "f4")
    tensors["norm"] = np.empty(width, "f4")
    for array in tensors.values():
        array[...] = rng.standard_normal(array.shape[-1], "f4")
    return tensors


def loads(path: Path) -> Ways:
    """Give the ways to load a file."""
    by_torch, by_numpy = module("safetensors.torch"), module("safetensors.numpy")
    ways: Ways = {
        "candle": lambda: candle.load_safetensors(path),
        "candle, mmap=False": lambda: candle.load_safetensors(path, mmap=False),
    }
    if by_torch and find_spec("torch"):
        ways["candle, give to torch"] = lambda: {
            name: t.torch() for name, t in candle.load_safetensors(path).items()
        }
        ways["safetensors.torch"] = lambda: by_torch.load_file(path)
    if by_numpy:
        ways["safetensors.numpy"] = lambda: by_numpy.load_file(path)
    return ways


def saves(tensors: dict[str, Any], path: Path) -> Ways:
    """Give the ways to save a file; candle's is synced to the disk."""
    by_torch, by_numpy = module("safetensors.torch"), module("safetensors.numpy")
    ways: Ways = {"candle": lambda: candle.save_safetensors(tensors, path)}

    def synced(save: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            save()
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)

        return run

    if by_torch and find_spec("torch"):
        import torch

        there = {name: torch.from_numpy(x) for name, x in tensors.items()}
        ways["safetensors.torch"] = lambda: by_torch.save_file(there, path)
        ways["safetensors.torch, synced"] = synced(ways["safetensors.torch"])
    if by_numpy:
        ways["safetensors.numpy"] = lambda: by_numpy.save_file(tensors, path)
    return ways


def arrays(folder: Path) -> dict[str, Ways]:
    """Give the ways to load numpy's own files, of 64 MB."""
    x = np.ones((4096, 4096), "f4")
    npy, stored, deflated = folder / "x.npy", folder / "x.npz", folder / "deflated.npz"
    np.save(npy, x)
    np.savez(stored, x=x)
    np.savez_compressed(deflated, x=x)

    def by_numpy(path: Path) -> object:
        with np.load(path) as arrays:
            return dict(arrays)

    return {
        "load .npy": {
            "candle": lambda: candle.load_npy(npy),
            "candle, mmap=False": lambda: candle.load_npy(npy, mmap=False),
            "np.load": lambda: np.load(npy),
            "np.load, mmap_mode='c'": lambda: np.load(npy, mmap_mode="c"),
        },
        "load .npz": {
            "candle": lambda: candle.load_npz(stored),
            "np.load": lambda: by_numpy(stored),
        },
        "load .npz, deflated": {
            "candle": lambda: candle.load_npz(deflated),
            "np.load": lambda: by_numpy(deflated),
        },
    }


def measure(ways: Ways, rounds: int) -> dict[str, float]:
    """Give the least seconds of each way."""
    best = dict.fromkeys(ways, float("inf"))
    for i in range(rounds):
        for name in [*ways][:: 1 if i % 2 else -1]:
            begin = time.perf_counter()
            ways[name]()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def resident() -> dict[str, int]:
    """Say how many bytes of this process lie in memory."""
    status = Path("/proc/self/status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in status if line.startswith("Rss"))
    return {kind: int(text.split()[0]) * 1024 for kind, text in pairs}


def memory(ways: Ways) -> dict[str, dict[str, float]]:
    """Give the megabytes that hold the result of each way."""
    held = {}
    for name, load in ways.items():
        gc.collect()
        before = resident()
        result = load()
        after = resident()
        held[name] = {
            "anonymous": (after["RssAnon"] - before["RssAnon"]) / 1e6,
            "of the file": (after["RssFile"] - before["RssFile"]) / 1e6,
        }
        del result
    return held


def main() -> int:
    """Measure, print, and write JSON if asked."""
    parser = argparse.ArgumentParser(description="Files of tensors, beside the package and numpy.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="where the files are written")
    options = parser.parse_args()
    present = [name for name in ("torch", "safetensors", "numpy") if find_spec(name)]
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        tensors = model(options.megabytes)
        saving = saves(tensors, folder / "saved")
        seconds = {"save the model": measure(saving, max(1, options.rounds // 4))}
        (folder / "saved").rename(folder / "model")
        loading = loads(folder / "model")
        seconds["load the model"] = measure(loading, options.rounds)
        held = memory(loading)
        small = {f"layer{i}.weight": np.ones((2, 3), "f4") for i in range(5000)}
        seconds["save 5000 small ones"] = measure(
            saves(small, folder / "saved"), max(1, options.rounds // 2)
        )
        candle.save_safetensors(small, folder / "small")
        seconds["load 5000 small ones"] = measure(loads(folder / "small"), options.rounds)
        for case, ways in arrays(folder).items():
            seconds[case] = measure(ways, options.rounds)
        size = sum(x.nbytes for x in tensors.values())
    ratios = {}
    for case, peer in TARGETS:
        whole, _, more = case.partition(",")
        best = seconds[whole]
        own = f"candle,{more}" if more else "candle"
        if peer in best and own in best:
            ratios[f"{case} / {peer}"] = best[own] / best[peer]
    report = {
        "environment": environment(*present),
        "bytes": size,
        "tensors": len(tensors),
        "seconds": seconds,
        "megabytes held": held,
        "ratios": ratios,
        "targets": {f"{case} / {peer}": target for (case, peer), target in TARGETS.items()},
    }
    print(", ".join(f"{name} {text}" for name, text in report["environment"].items()))
    print(f"\nthe model: {size / 1e6:.0f} MB in {len(tensors)} tensors\n")
    for case, best in seconds.items():
        print(case)
        for name, least in best.items():
            more = held[name] if case == "load the model" else {}
            told = "".join(f"{amount:9.1f} MB {kind}" for kind, amount in more.items())
            print(f"  {name:28}{1000 * least:10.2f} ms{told}")
    print()
    for name, ratio in ratios.items():
        target = report["targets"][name]
        print(f"{name:60}{ratio:8.4f}{f'  missed {target}' if ratio > target else ''}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
