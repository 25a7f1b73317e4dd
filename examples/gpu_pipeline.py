"""torch makes, cupy filters, jax sums: one block of GPU memory, three streams, in the right order.

Each framework works on a stream of its own, and nothing here waits for a stream: candle makes each
consumer's stream come after the producer's. On a machine without a GPU, or without one of the
frameworks, it says so and runs the same pipeline on the CPU, with numpy in cupy's place. The exit
status is 1 if memory moved or a value is wrong.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import numpy as np

import candle

faults: list[str] = []


def installed(name: str) -> Any:
    """Import a framework; None where it is absent."""
    try:
        return import_module(name)
    except ImportError:
        return None


def missing(torch: Any, cupy: Any, jax: Any) -> str | None:
    """Say what the GPU's pipeline lacks, if anything."""
    for name, module in (("torch", torch), ("cupy", cupy), ("jax", jax)):
        if module is None:
            return f"{name} is not installed"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    if not cupy.is_available():
        return "cupy finds no CUDA device"
    if jax.default_backend() != "gpu":
        return "jax has no CUDA backend"
    return None


def hop(name: str, x: Any, before: int, after: int) -> Any:
    """Print a hop, and remember it as a fault if the memory moved."""
    print(f"{name:16} {before:#x} -> {after:#x}  {'shared' if before == after else 'moved'}")
    if before != after:
        faults.append(f"{name} moved the memory")
    return x


torch, cupy, jax = installed("torch"), installed("cupy"), installed("jax")
lack = missing(torch, cupy, jax)
print(f"no GPU pipeline: {lack}; on the CPU instead" if lack else "on the GPU")
rows, columns = 1024, 256

# torch writes, on a stream of its own.
side = torch.cuda.stream(torch.cuda.Stream()) if torch and not lack else nullcontext()
with side:
    if torch:
        made: Any = torch.ones(rows, columns, device="cpu" if lack else "cuda")
        first = made.data_ptr()
    else:
        made = candle.ones((rows, columns)).numpy()
        first = made.ctypes.data
    t = candle.from_dlpack(made)  # taken inside the block: candle remembers its stream
hop("torch -> candle", t, first, t.data_ptr())

# cupy doubles it in place, on another stream. Its export waits there for torch's.
xp = np if lack else cupy
other = cupy.cuda.Stream(non_blocking=True) if not lack else nullcontext()
with other:
    a = xp.from_dlpack(t)
    a *= 2
    u = candle.from_dlpack(a)
hop("candle -> cupy", a, t.data_ptr(), u.data_ptr())

# jax sums it, on its own streams. The memory is 64-byte aligned and dense, so that jax takes it.
if jax:
    j = u.jax()
    total = float(j.sum())
    hop("candle -> jax", j, u.data_ptr(), j.unsafe_buffer_pointer())
else:
    total = float(u.numpy().sum())
print(f"sum: {total:g}")
if total != 2 * rows * columns:
    faults.append(f"the sum is {total:g}, not {2 * rows * columns}")

sys.exit("\n".join(faults) or None)
