"""``python -m tests.fuzz --seconds N``: try inputs for so long; see docs/fuzzing.md."""

from __future__ import annotations

import argparse
import collections
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .worker import HELPERS, STATE, STATE_SIZE, TARGETS

FOUND = Path(__file__).parents[1] / "hostile" / "found"
MOST_FAILURES = 20


class Worker:
    """A child process, and the file that says what it is at."""

    def __init__(self, options: argparse.Namespace, folder: Path, seed: int, late: float) -> None:
        self.options, self.late = options, late
        self.state = folder / f"state-{seed}"
        self.state.write_bytes(bytes(STATE_SIZE))
        self.out = (folder / f"out-{seed}").open("w+")
        self.errors = (folder / f"errors-{seed}").open("w+")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.worker"),
                *("--state", str(self.state), "--corpus", options.corpus, "--seed", str(seed)),
                *("--until", str(late), "--engine", options.engine),
                *("--targets", *options.targets, "--libraries", *options.libraries),
            ],
            stdout=self.out,
            stderr=self.errors,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )

    def tried(self) -> tuple[int, str, bytes]:
        """How many inputs it began, and the last: its target and bytes."""
        data = self.state.read_bytes()
        count, target, length = STATE.unpack_from(data)
        return count, TARGETS[target], data[STATE.size : STATE.size + length]

    def ended(self) -> bool:
        """Whether it is over; one that hangs is ended."""
        if self.process.poll() is not None:
            return True
        if time.monotonic() > self.late + 60:
            self.process.kill()
            self.process.wait()
            return True
        return False

    def close(self, totals: collections.Counter[str], failures: dict[str, dict[str, str]]) -> None:
        """Count what it did, and take its failures over."""
        count, target, data = self.tried()
        totals["tried"] += count
        self.out.seek(0)
        self.errors.seek(0)
        for line in self.out:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if "error" in told:
                failures.setdefault(told["error"], told)
            else:
                totals["edges"] = max(totals["edges"], told["edges"])
        said = self.errors.read()
        if self.process.returncode != 0 and count == 0:
            raise SystemExit(f"a worker does not begin:\n{said}")
        if self.process.returncode != 0:
            error = f"exit status {self.process.returncode}\n{said[-3000:]}"
            failures.setdefault(error, {"target": target, "data": data.hex(), "error": error})
        for file in (self.out, self.errors):
            file.close()
            Path(file.name).unlink()
        self.state.unlink()


def run(
    options: argparse.Namespace, folder: Path
) -> tuple[collections.Counter[str], dict[str, dict[str, str]]]:
    """Keep the workers at work until the time is up."""
    totals: collections.Counter[str] = collections.Counter()
    failures: dict[str, dict[str, str]] = {}
    late = time.monotonic() + options.seconds
    seed, workers = options.seed, []
    while True:
        time_left = late - time.monotonic() > 1 and len(failures) < MOST_FAILURES
        while time_left and len(workers) < options.workers:
            workers.append(Worker(options, folder, seed, late))
            seed += 1
        for worker in [one for one in workers if one.ended()]:
            workers.remove(worker)
            worker.close(totals, failures)
        if not workers and not time_left:
            return totals, failures
        time.sleep(0.05)


def report(failures: dict[str, dict[str, str]], keep: bool, libraries: list[str]) -> None:
    """Print the smallest input of each failure, and how to see it again."""
    for told in failures.values():
        command = [sys.executable, "-m", "tests.fuzz.minimise", told["target"], told["data"]]
        command += libraries
        # What is known is told first: making it smaller runs what may hang or crash.
        print(f"\nFAILURE in {told['target']}\n{told['error']}", flush=True)
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=False, timeout=600
            )
            smallest, *ending = done.stdout.splitlines() or [told["data"]]
        except subprocess.TimeoutExpired:
            smallest, ending = told["data"], ["it was not made smaller within ten minutes"]
        print(f"  {' '.join(ending[:1])}")
        loaded = f" --libraries {' '.join(libraries)}" * bool(libraries)
        print(f"  again: python -m tests.fuzz --replay {told['target']}:{smallest}{loaded}")
        if keep:
            FOUND.mkdir(exist_ok=True)
            (FOUND / f"{told['target']}-{smallest[:24]}.hex").write_text(smallest + "\n")


def replay(text: str) -> None:
    """Try one input here and now: a crash is this process's own."""
    sys.path.insert(0, str(HELPERS))
    from inputs.choices import Choices

    target, _, data = text.partition(":")
    print(importlib.import_module(f"inputs.{target}").run(Choices(bytes.fromhex(data))))


def main() -> int:
    """Fuzz; the exit status is 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--engine", choices=("auto", "seeded", "atheris"), default="seeded")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument(
        "--libraries",
        nargs="*",
        default=[],
        help="loaded, so that chains go by them: torch, tvm_ffi",
    )
    parser.add_argument("--corpus", help="a folder for inputs that showed something new")
    parser.add_argument("--keep", action="store_true", help="make tests of what is found")
    parser.add_argument("--replay", metavar="TARGET:HEX", help="try this input alone")
    options = parser.parse_args()
    if options.replay:
        for library in options.libraries:
            importlib.import_module(library)
        replay(options.replay)
        return 0
    if options.engine == "auto":
        options.engine = "atheris" if importlib.util.find_spec("atheris") else "seeded"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.corpus is None:
            options.corpus = str(folder / "corpus")
        Path(options.corpus).mkdir(exist_ok=True)
        started = time.monotonic()
        totals, failures = run(options, folder)
        kept = len(list(Path(options.corpus).iterdir()))
    took = time.monotonic() - started
    print(
        f"{totals['tried']} inputs in {took:.0f} s by {options.workers} workers "
        f"({options.engine}, seed {options.seed}); {kept} kept, "
        f"{totals['edges'] or 'no'} blocks of the core counted; {len(failures)} failures"
    )
    report(failures, options.keep, options.libraries)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
