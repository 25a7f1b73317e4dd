"""torch's DataLoader makes batches of samples that are Tensors, in every process alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

torch = pytest.importorskip("torch")


def collate(batch: list[Any]) -> Any:
    from torch.utils.data import default_collate

    return default_collate(batch)


def test_batches() -> None:
    t = candle.Tensor(np.arange(6, dtype="int32").reshape(2, 3))
    batch = collate([t, t[::-1], t])
    assert type(batch) is torch.Tensor
    assert batch.tolist() == [t.tolist(), t[::-1].tolist(), t.tolist()]


def test_structures() -> None:
    t = candle.Tensor([1.0, 2.0])
    batch = collate([{"x": t, "n": 1, "pair": (t, "a")}, {"x": t, "n": 2, "pair": (t, "b")}])
    assert batch["x"].tolist() == [[1, 2], [1, 2]]
    assert batch["n"].tolist() == [1, 2]
    assert batch["pair"][0].shape == (2, 2)
    assert batch["pair"][1] == ("a", "b")


def test_samples_of_both_kinds() -> None:
    t, x = candle.Tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert collate([t, x]).tolist() == [[1, 2], [3, 4]]
    assert collate([x, t]).tolist() == [[3, 4], [1, 2]]
    with pytest.raises(TypeError, match="expected Tensor as element 1"):
        collate([t, [3.0, 4.0]])


def test_subclass() -> None:
    class Sample(candle.Tensor):
        pass

    assert collate([Sample([1, 2]), Sample([3, 4])]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_read_only_samples_are_not_copied_one_by_one() -> None:
    samples = [candle.Tensor(bytes([n, n])) for n in range(3)]
    with candle.strict(), candle.trace() as moves:
        assert collate(samples).tolist() == [[0, 0], [1, 1], [2, 2]]
    assert {move.action for move in moves} == {"share"}
    with candle.trace() as moves:
        assert collate([sample[::-1] for sample in samples]).tolist() == [[0, 0], [1, 1], [2, 2]]
    assert {move.action for move in moves} == {"copy"}


def test_refuses_as_torch_does() -> None:
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        collate([candle.zeros((2,)), candle.zeros((3,))])


SCRIPT = """
{imports}

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        {late}
        return {{"x": candle.full((3,), i, dtype="int16"), "i": i}}

if __name__ == "__main__":
    {late}
    loader = torch.utils.data.DataLoader(
        Samples(), batch_size=2, num_workers={workers}, multiprocessing_context={context!r}
    )
    for batch in loader:
        print(type(batch["x"]).__name__, batch["x"].is_shared(), batch["x"].tolist())
"""
ORDERS = {
    "candle first": ("import candle\nimport torch", "pass"),
    "torch first": ("import torch\nimport candle", "pass"),
    "candle where it is used": ("import torch", "import candle"),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("context", ["fork", "spawn", None])
def test_workers(
    context: str | None, order: str, tmp_path: Path, run_child: Callable[..., Any]
) -> None:
    """In a spawned worker nobody but candle itself could have told torch."""
    imports, late = ORDERS[order]
    workers = 0 if context is None else 1
    script = tmp_path / "load.py"
    script.write_text(SCRIPT.format(imports=imports, late=late, workers=workers, context=context))
    shared = context is not None
    # At its end multiprocessing may say that a semaphore is gone already.
    assert run_child(script).check(quiet=False).splitlines() == [
        f"Tensor {shared} [[0, 0, 0], [1, 1, 1]]",
        f"Tensor {shared} [[2, 2, 2], [3, 3, 3]]",
    ]
