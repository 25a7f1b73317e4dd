"""A model file goes to jax with no copy: the weights jax computes with are the file's own pages.

The file is made here, of numpy's arrays; any safetensors file of dense tensors will do. Every
weight prints where it lies in the mapping and in jax, and the result is compared with numpy's.
Without jax, numpy computes over the same pages. The exit status is 1 if a weight was copied or the
result is wrong.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import candle

WIDTH, LAYERS, CLASSES = 512, 4, 10

faults: list[str] = []


def installed(name: str) -> Any:
    """Import a framework, or say that it is not there."""
    try:
        return import_module(name)
    except ImportError:
        print(f"{name} is not installed: numpy computes")
        return None


def address(x: Any) -> int:
    """Say where the first element lies."""
    return x.ctypes.data if isinstance(x, np.ndarray) else int(x.unsafe_buffer_pointer())


def forward(weights: dict[str, Any], x: Any, largest: Any) -> Any:
    """Compute a small network."""
    for i in range(LAYERS):
        x = largest(x @ weights[f"layers.{i}.weight"] + weights[f"layers.{i}.bias"], 0)
    return x @ weights["head.weight"] + weights["head.bias"]


def model() -> dict[str, Any]:
    """Make weights, as a training would leave them: a tree of arrays."""
    rng = np.random.default_rng(0)

    def layer(rows: int, columns: int) -> dict[str, Any]:
        weight = (
            rng.standard_normal((columns, rows), "f4").T / rows**0.5
        )  # saved in row-major order
        return {"weight": weight, "bias": rng.standard_normal(columns, "f4")}

    return {"layers": [layer(WIDTH, WIDTH) for _ in range(LAYERS)], "head": layer(WIDTH, CLASSES)}


jax = installed("jax")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.safetensors")
    tree = model()
    candle.save_safetensors(tree, path, metadata={"made by": "examples/model_to_jax.py"})
    print(f"{path.stat().st_size} bytes, {candle.safetensors_metadata(path)}")

    with candle.trace() as moves:
        weights = candle.load_safetensors(path)
        given = candle.convert(weights, "jax" if jax else "numpy")
    faults += [f"a copy was made: {move}" for move in moves.copies]
    for name, t in weights.items():
        shared = t.data_ptr() == address(given[name])
        print(
            f"{name:18} {t.shape!s:12} {t.data_ptr():#x} -> {address(given[name]):#x}  "
            f"{'shared' if shared else 'copied'}"
        )
        if not shared:
            faults.append(f"{name} was copied")

    x = np.ones((2, WIDTH), "f4")
    if jax:
        result = np.asarray(jax.jit(lambda w, x: forward(w, x, jax.numpy.maximum))(given, x))
    else:
        result = forward(given, x, np.maximum)
    flat = {name: np.array(t.numpy()) for name, t in weights.items()}
    error = float(np.abs(result - forward(flat, x, np.maximum)).max())
    print(f"{'jax' if jax else 'numpy'} computes {result.shape}, {error:.1e} from numpy's own copy")
    if not error < 1e-3:
        faults.append(f"the result is {error} off")

sys.exit("\n".join(faults) or None)
