"""torch's DataLoader makes batches of a dataset in the format, in its workers too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

datasets = pytest.importorskip("datasets")
torch = pytest.importorskip("torch")

if TYPE_CHECKING:
    from collections.abc import Callable


def test_batches(saved: Callable[..., Any]) -> None:
    grid = np.arange(24, dtype="float32").reshape(6, 2, 2)
    features = {"grid": datasets.Array2D((2, 2), "float32"), "n": datasets.Value("int16")}
    features["s"] = datasets.Value("string")
    columns = {"grid": grid, "n": range(6), "s": list("abcdef")}
    dataset = saved(features, **columns).with_format("candle")
    for batch_size in (2, 4):
        loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size)
        batches = list(loader)
        assert all(type(batch["grid"]) is torch.Tensor for batch in batches)
        assert torch.cat([batch["grid"] for batch in batches]).tolist() == grid.tolist()
        assert torch.cat([batch["n"] for batch in batches]).dtype == torch.int16
        assert [s for batch in batches for s in batch["s"]] == list("abcdef")


def test_batches_of_tensors(saved: Callable[..., Any]) -> None:
    """With the batch taken whole nothing is made twice, and nothing is copied."""
    dataset = saved(x=np.arange(40, dtype="float32").reshape(20, 2)).with_format("candle")
    loader = torch.utils.data.DataLoader(
        dataset, sampler=[slice(0, 10), slice(10, 20)], batch_size=None
    )
    begin = dataset.data.column("x").chunk(0).values.buffers()[1].address
    with candle.strict():
        batches = [batch["x"] for batch in loader]
    assert [batch.shape for batch in batches] == [(10, 2), (10, 2)]
    assert [batch.data_ptr() for batch in batches] == [begin, begin + 80]


SCRIPT = """
import sys
import datasets
import torch

def loaded(dataset, context):
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=2, num_workers=1, multiprocessing_context=context
    )
    for batch in loader:
        x = batch["x"]
        print(context, type(x).__name__, x.is_shared(), x.tolist(), batch["n"].tolist(), batch["s"])

if __name__ == "__main__":
    import candle  # a spawned worker has it by the dataset alone

    dataset = datasets.load_from_disk(sys.argv[1]).with_format("candle")
    loaded(dataset, "fork")
    loaded(dataset.to_iterable_dataset(), "fork")
    loaded(dataset.shuffle(seed=1).select([1]), "spawn")
    loaded(dataset.to_iterable_dataset(), "spawn")
"""


def test_workers(tmp_path: Path, saved: Callable[..., Any], run_child: Callable[..., Any]) -> None:
    """In a spawned worker nobody but the pickled dataset could have told torch."""
    made = saved(x=np.arange(6, dtype="float32").reshape(3, 2), n=[0, 1, 2], s=["a", "b", "c"])
    row = made.shuffle(seed=1)[1]
    script = tmp_path / "load.py"
    script.write_text(SCRIPT)
    all_rows = ["[[0.0, 1.0], [2.0, 3.0]] [0, 1] ['a', 'b']", "[[4.0, 5.0]] [2] ['c']"]
    said = (
        run_child(script, Path(made.cache_files[0]["filename"]).parent)
        .check(quiet=False)
        .splitlines()
    )
    assert said == [
        *(f"fork Tensor True {rows}" for rows in all_rows * 2),
        f"spawn Tensor True [{row['x']}] [{row['n']}] ['{row['s']}']",
        *(f"spawn Tensor True {rows}" for rows in all_rows),
    ]
