"""A process that tries inputs until it dies, or has done its share; run by ``tests.fuzz``.

What it is about to try stands in a file that it maps, so that it is known whatever happens. What
was wrong but no crash is printed, a line of JSON each.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import mmap
import os
import random
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HELPERS = Path(__file__).parents[1] / "helpers"
TARGETS = ("producers", "tables", "consumers", "chains", "arrow", "files")
LONGEST = 600  # bytes of an input
SHARE = 20_000  # inputs, after which a new worker begins: hostile structs are kept for good
TAKEN_OVER = 2000  # inputs that a worker begins with, of those that others kept

# What the mapped file holds: how many were tried, which target, how long the input is; the input.
STATE = struct.Struct("=QII")
STATE_SIZE = STATE.size + LONGEST


class Reporter:
    """Notes each input before it is tried, and tells of what failed."""

    def __init__(self, state: Path) -> None:
        sys.path.insert(0, str(HELPERS))
        from inputs.choices import Choices

        self.choices = Choices
        with state.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), STATE_SIZE)
        self.tried = 0
        self.modules: dict[str, Any] = {}

    def target(self, name: str) -> Any:
        """The module of an input's kind."""
        if name not in self.modules:
            self.modules[name] = importlib.import_module(f"inputs.{name}")
        return self.modules[name]

    def try_one(self, target: str, data: bytes) -> str:
        """Try an input; returns its word, empty where it failed."""
        data = data[:LONGEST]
        self.tried += 1
        header = STATE.pack(self.tried, TARGETS.index(target), len(data))
        self.memory[: STATE.size + len(data)] = header + data
        try:
            word: str = self.target(target).run(self.choices(data))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            told = traceback.format_exc(limit=-3)
            line = {"target": target, "data": data.hex(), "error": told}
            print(json.dumps(line), flush=True)
            return ""
        return word


class Corpus:
    """Inputs that showed something new, in a folder that workers have in common."""

    def __init__(self, folder: Path, coverage: Any, rng: random.Random) -> None:
        self.folder, self.coverage = folder, coverage
        self.words: set[tuple[str, str]] = set()
        self.inputs: dict[str, list[bytes]] = {name: [] for name in TARGETS}
        known = sorted(folder.glob("*.input"))
        for path in rng.sample(known, min(len(known), TAKEN_OVER)):
            target = path.name.partition("-")[0]
            if target in self.inputs:
                self.inputs[target].append(path.read_bytes())

    def next(self, rng: random.Random, target: str) -> bytes:
        """A fresh input, or a changed one."""
        known = self.inputs[target]
        if not known or rng.random() < 0.4:
            return rng.randbytes(rng.choice((30, 100, 200, 400)))
        data = bytearray(rng.choice(known))
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(data) + 1)
            change = rng.randrange(5)
            if change == 0:
                data[at : at + 1] = rng.randbytes(1)
            elif change == 1:
                data[at:at] = rng.randbytes(rng.randint(1, 4))
            elif change == 2:
                del data[at : at + rng.randint(1, 4)]
            elif change == 3:
                other = rng.choice(known)
                data[at:] = other[rng.randrange(len(other) + 1) :]
            else:
                data[at : at + 1] = bytes([rng.choice((0, 1, 2, 127, 128, 255))])
        return bytes(data[:LONGEST])

    def learn(self, target: str, data: bytes, word: str) -> None:
        """Keep it if its word, or what it reached of the native core, is new."""
        reached = self.coverage is not None and self.coverage.new_edges() > 0
        if not reached and (target, word) in self.words:
            return
        self.words.add((target, word))
        self.inputs[target].append(data)
        name = f"{target}-{hashlib.sha256(data).hexdigest()[:16]}.input"
        (self.folder / name).write_bytes(data)


def seeded(options: argparse.Namespace, reporter: Reporter, coverage: Any) -> None:
    """The engine with no library: random inputs, and changes of those that showed something new."""
    rng = random.Random(options.seed)
    corpus = Corpus(Path(options.corpus), coverage, rng)
    while reporter.tried < SHARE and time.monotonic() < options.until:
        target = rng.choice(options.targets)
        data = corpus.next(rng, target)
        corpus.learn(target, data, reporter.try_one(target, data))


def by_atheris(options: argparse.Namespace, reporter: Reporter) -> None:
    """Atheris, led by coverage of candle's Python, and of the core if clang built it for that."""
    flags = sys.getdlopenflags()
    sys.setdlopenflags(flags | os.RTLD_GLOBAL)
    import atheris

    sys.setdlopenflags(flags)
    with atheris.instrument_imports(include=["candle"]):
        for target in options.targets:
            reporter.target(target)

    def try_one(data: bytes) -> None:
        if data:
            target = options.targets[data[0] % len(options.targets)]
            reporter.try_one(target, data[1:])

    seconds = max(1, int(options.until - time.monotonic()))
    limits = [f"-max_total_time={seconds}", f"-runs={SHARE}", f"-max_len={LONGEST}"]
    atheris.Setup([sys.argv[0], *limits, f"-seed={options.seed}", options.corpus], try_one)
    atheris.Fuzz()


def main() -> None:
    """Do a share of the work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--until", type=float, required=True, help="by time.monotonic()")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--targets", nargs="+", required=True)
    parser.add_argument("--libraries", nargs="*", default=[])
    options = parser.parse_args()
    reporter = Reporter(options.state)
    coverage = None
    if options.engine == "seeded":
        from . import native

        coverage = native.load()
    if options.engine == "atheris":
        with contextlib.suppress(SystemExit):
            by_atheris(options, reporter)
        return
    for name in options.libraries:
        importlib.import_module(name)
    for target in options.targets:
        reporter.target(target)
    seeded(options, reporter, coverage)
    print(json.dumps({"edges": coverage.edges() if coverage is not None else 0}))


if __name__ == "__main__":
    main()
