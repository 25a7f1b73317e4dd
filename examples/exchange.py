"""One block of memory goes from torch to candle, numpy, jax and back to torch, and never moves.

Frameworks that are not installed are left out; numpy alone is enough. Every hop prints the address
before and after, whether it shared or copied, and why; then one side writes and another reads.
The exit status is 1 if a hop did not do what it has to.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

import candle
from candle import ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    Named = tuple[str, Any]

faults: list[str] = []


def installed(name: str) -> Any:
    """Import a framework, or say that its hops are left out."""
    try:
        return import_module(name)
    except ImportError:
        print(f"{name} is not installed: its hops are left out")
        return None


def address(x: Any) -> int:
    """Say where the first element lies."""
    if isinstance(x, np.ndarray):
        return x.ctypes.data
    return int(x.data_ptr() if hasattr(x, "data_ptr") else x.unsafe_buffer_pointer())


def hop(name: str, x: Any, move: Callable[[Any], Any], because: str | None = None) -> Any:
    """Move x and print what happened; `because` says why it has to share, None that it cannot."""
    copies: list[candle.Plan] = []
    with ledger.listening(copies.append):  # the ledger hears of every copy, with its reasons
        result = move(x)
    before, after = address(x), address(result)
    shared = before == after and not copies
    reasons = [f"{reason.code}: {reason.fact}" for plan in copies for reason in plan.reasons]
    said = f"shared: {because}" if shared else f"copied: {'; '.join(reasons)}"
    print(f"{name:25} {before:#x} -> {after:#x}  {said}")
    if shared != (because is not None):
        faults.append(f"{name}: {said}, which is not what was expected")
    return result


def write_and_read(writer: Named, reader: Named, number: float, *, seen: bool = True) -> None:
    """Write through one object, read through the other."""
    writer[1][0, 0] = number
    value = float(reader[1][0, 0])
    print(f"{'':25} {writer[0]} writes {number:g}, {reader[0]} reads {value:g}")
    if (value == number) != seen:
        faults.append(f"{reader[0]} reads {value:g} after {writer[0]} wrote {number:g}")


torch, jax = installed("torch"), installed("jax")

if torch:
    first = ("torch", torch.zeros(8, 16))
else:  # candle's own memory lies at multiples of 256 bytes, which suits jax
    first = ("the first array", candle.zeros((8, 16)).numpy())
kind = "torch" if torch else "numpy"

t = hop(f"{kind} -> candle", first[1], candle.from_dlpack, "float32 on the CPU, plain strides")
write_and_read(first, ("candle", t), 1)

a = hop("candle -> numpy", t, candle.Tensor.numpy, "numpy has float32 and any strides")
write_and_read(("numpy", a), first, 2)

if jax:
    suits = "dense, and at a multiple of 64 bytes, as jax needs it"
    j = hop("numpy -> candle -> jax", a, lambda x: candle.from_dlpack(x).jax(), suits)
    write_and_read(first, ("jax", j), 3)  # only a proof: jax believes that its arrays are constant

if torch:
    kind, last = ("jax", j) if jax else ("numpy", a)
    word = "copy=False, the caller's word that read-only memory will not be written"
    why = word if jax else "torch has float32, and no stride is negative"
    name = f"{kind} -> candle -> torch"
    back = hop(name, last, lambda x: candle.from_dlpack(x).torch(copy=False), why)
    write_and_read(first, ("torch again", back), 4)

print("\nand what cannot be shared:")
if torch and jax:
    warnings.simplefilter("ignore", candle.ReadOnlyCopyWarning)  # it says what is printed here
    safe = hop("jax -> candle -> torch", j, lambda x: candle.from_dlpack(x).torch())
    write_and_read(("torch", safe), ("jax", j), 5, seen=False)
foreign = np.zeros((8, 16), np.dtype("float32").newbyteorder())  # the other byte order
t = hop("foreign bytes -> candle", foreign, candle.from_dlpack)
write_and_read(("candle", t), ("the foreign array", foreign), 6, seen=False)

sys.exit("\n".join(faults) or None)
