"""Run the tests of this folder and the timings on a machine with a CUDA device; write a report.

    python tests/gpu/report.py [report.json]

Takes less than eight minutes: no part is begun after 450 seconds. The exit status is 1 if a test
fails, and 2 where there is no CUDA device. Times are minima; nothing is asserted of them.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import timeit
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
LAST_BEGIN = 450.0  # seconds

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class Outcomes:
    """What became of each test."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.tests: list[dict[str, Any]] = []

    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self.until:
            pytest.skip("out of time")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.tests.append(
                {
                    "test": report.nodeid.rpartition("/")[2],
                    "outcome": report.outcome,
                    "seconds": round(report.duration, 3),
                    **({} if report.passed else {"text": report.longreprtext[-2000:]}),
                }
            )


def versions() -> dict[str, str]:
    """What is installed."""
    found = {"python": platform.python_version()}
    for name in ("candle-dlpack", "numpy", "torch", "cupy-cuda12x", "cupy-cuda13x", "jax"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def per_call(call: Callable[[], object], count: int = 3000) -> float:
    """Microseconds: the least of five rounds."""
    call()
    return round(min(timeit.repeat(call, number=count, repeat=5)) / count * 1e6, 3)


def calls(torch: Any, cupy: Any) -> dict[str, float]:
    """What a hop costs, beside direct exchange."""
    import candle

    x, a = torch.ones(1024, device="cuda"), cupy.ones(1024, "float32")
    t, other = candle.from_dlpack(x), cupy.cuda.Stream(non_blocking=True)
    modern = {"max_version": (1, 0)}
    timed: dict[str, Callable[[], object]] = {
        "torch.from_dlpack(torch)": lambda: torch.from_dlpack(x),
        "candle.from_dlpack(torch)": lambda: candle.from_dlpack(x),
        "cupy.from_dlpack(torch)": lambda: cupy.from_dlpack(x),
        "cupy.from_dlpack(candle)": lambda: cupy.from_dlpack(t),
        "torch.from_dlpack(cupy)": lambda: torch.from_dlpack(a),
        "torch.from_dlpack(candle)": lambda: torch.from_dlpack(t),
        "candle.torch()": t.torch,
        "candle.from_dlpack(cupy)": lambda: candle.from_dlpack(a),
        "torch.__dlpack__(none)": lambda: x.__dlpack__(stream=-1, **modern),
        "candle.__dlpack__(none)": lambda: t.__dlpack__(stream=-1, **modern),
        "candle.__dlpack__(equal)": lambda: t.__dlpack__(stream=1, **modern),
        "torch.__dlpack__(other)": lambda: x.__dlpack__(stream=other.ptr, **modern),
        "candle.__dlpack__(other)": lambda: t.__dlpack__(stream=other.ptr, **modern),
        "candle[1:]": lambda: t[1:],
    }
    return {name: per_call(call) for name, call in timed.items()}


def bandwidth(torch: Any, cupy: Any) -> dict[str, float]:
    """GB/s, read plus written, of copies by candle and by each framework."""
    import candle

    def rate(call: Callable[[], object], moved: int, count: int = 10) -> float:
        call()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return round(moved * count / (begin.elapsed_time(end) * 1e-3) / 1e9, 1)

    n = 1 << 28
    x = torch.zeros(1 << 14, 1 << 14, device="cuda")
    y, a, t = torch.empty_like(x), cupy.from_dlpack(x), candle.from_dlpack(x)
    rates = {
        "torch copy": rate(lambda: y.copy_(x), 8 * n),
        "torch transpose": rate(lambda: x.t().contiguous(), 8 * n),
        "cupy transpose": rate(lambda: cupy.ascontiguousarray(a.T), 8 * n),
        "candle transpose": rate(t.T.contiguous, 8 * n),
        "torch every second column": rate(x[:, ::2].contiguous, 4 * n),
        "candle every second column": rate(t[:, ::2].contiguous, 4 * n),
        "torch to float16": rate(lambda: x.to(torch.float16), 6 * n),
        "cupy to float16": rate(lambda: a.astype("float16"), 6 * n),
        "candle to float16": rate(lambda: t.to("float16"), 6 * n),
    }
    pageable = candle.empty(n, dtype="uint8")
    there = candle.from_dlpack(torch.zeros(n, dtype=torch.uint8, device="cuda"))
    pinned = torch.zeros(n, dtype=torch.uint8).pin_memory()
    gpu = there.torch()
    return {
        **rates,
        "torch pinned to the device": rate(lambda: gpu.copy_(pinned, non_blocking=True), n, 4),
        "torch pinned to the host": rate(lambda: pinned.copy_(gpu, non_blocking=True), n, 4),
        "candle to the device": rate(lambda: pageable.to("cuda"), n, 4),
        "candle to the host": rate(lambda: there.to("cpu"), n, 4),
    }


def random_hops(torch: Any, cupy: Any, seconds: float = 20.0) -> dict[str, int]:
    """Streams of torch and cupy in a random mix, the value read every tenth time."""
    import random

    import candle

    choose = random.Random(7)
    mine = [torch.cuda.Stream() for _ in range(4)]
    theirs = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    x = torch.zeros(1 << 16, device="cuda")
    torch.cuda.synchronize()
    last, hops, wrong = mine[0], 0, 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        here, there = choose.choice(mine), choose.choice(theirs)
        here.wait_stream(last)
        with torch.cuda.stream(here):
            if hops % 10 == 0:
                torch.cuda._sleep(1_000_000)
            x.fill_(float(hops))
            t = candle.from_dlpack(x)
        with there:
            a = cupy.from_dlpack(t)
            if hops % 10 == 0:
                wrong += float(a[:1].copy().get()[0]) != float(hops)
        t.wait_for(there)
        last = here
        torch.cuda.current_stream().wait_stream(here)
        hops += 1
    torch.cuda.synchronize()
    return {"hops": hops, "wrong": wrong}


def main() -> int:
    """Write the report; return the exit status."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "helpers")]
    from conftest import device_count

    begin = time.monotonic()
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "report.json")
    report: dict[str, Any] = {"versions": versions(), "devices": device_count()}
    if report["devices"] == 0:
        print("no CUDA device: nothing was run")
        path.write_text(json.dumps(report, indent=1) + "\n")
        return 2
    outcomes = Outcomes(begin + LAST_BEGIN)
    status = pytest.main(["-q", "-p", "no:cacheprovider", str(HERE)], plugins=[outcomes])
    report |= {"status": int(status), "tests": outcomes.tests}
    try:
        import cupy
        import torch
    except ImportError as error:
        report["timings"] = f"left out: {error}"
    else:
        report["device"] = torch.cuda.get_device_name(0)
        for part in (calls, random_hops, bandwidth):
            if time.monotonic() - begin > LAST_BEGIN:
                report[part.__name__] = "left out: out of time"
                continue
            try:
                report[part.__name__] = part(torch, cupy)
            except Exception as error:
                report[part.__name__] = f"{type(error).__name__}: {error}"
                status = 1
    report["seconds"] = round(time.monotonic() - begin, 1)
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({key: value for key, value in report.items() if key != "tests"}, indent=1))
    return int(status != 0)


if __name__ == "__main__":
    sys.exit(main())
