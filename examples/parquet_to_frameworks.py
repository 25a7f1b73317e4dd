"""A column of a Parquet file goes to torch and jax, and no element is copied after it was read.

The file is made here: pictures as tensors of 3 x 8 x 8, beside their labels. pyarrow reads it; from
then on candle hands the same memory on. A framework that is not installed is left out. The exit
status is 1 if memory moved or a value is wrong.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import candle

faults: list[str] = []


def installed(name: str) -> Any:
    """Import a framework, or say that its hop is left out."""
    try:
        return import_module(name)
    except ImportError:
        print(f"{name} is not installed: its hop is left out")
        return None


def address(x: Any) -> int:
    """Say where the first element lies."""
    return int(x.data_ptr() if hasattr(x, "data_ptr") else x.unsafe_buffer_pointer())


def hop(name: str, before: int, x: Any) -> Any:
    """Print a hop, and remember it as a fault if the memory moved."""
    after = address(x)
    print(f"{name:20} {before:#x} -> {after:#x}  {'shared' if before == after else 'copied'}")
    if before != after:
        faults.append(f"{name} moved the memory")
    return x


pa, torch, jax = import_module("pyarrow"), installed("torch"), installed("jax")
parquet = import_module("pyarrow.parquet")
rows, shape = 1000, (3, 8, 8)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "pictures.parquet"
    made = candle.arange(rows * 192, dtype="float32").reshape(rows, *shape)
    labels = candle.arange(rows, dtype="int64")
    # A tensor is a column as it is; the file keeps the shape of its rows.
    parquet.write_table(pa.table({"picture": made, "label": labels}), path)
    table = parquet.read_table(path)

column = table["picture"]
print(f"{path.name}: {column.type}, {column.num_chunks} chunk")
began = column.chunk(0).storage.flatten().buffers()[1].address

pictures = hop("pyarrow -> candle", began, candle.from_arrow(table, column="picture", copy=False))
assert pictures.shape == (rows, *shape)
# Arrow's memory is read-only: torch() would copy it, and torch(copy=False) trusts us.
assert pictures.readonly

if torch:
    picture = hop("candle -> torch", began, pictures.torch(copy=False))
    if float(picture.mean()) != (rows * 192 - 1) / 2:
        faults.append("torch sees other values")
if jax:
    picture = hop("candle -> jax", began, pictures.jax(copy=False))
    if picture.shape != (rows, *shape) or float(picture[1, 2, 7, 7]) != 383:
        faults.append("jax sees other values")

for fault in faults:
    print(f"error: {fault}", file=sys.stderr)
sys.exit(1 if faults else 0)
