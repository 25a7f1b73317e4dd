"""HuggingFace candle's `candle.utils`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import candle
from candle import utils

if TYPE_CHECKING:
    from pathlib import Path


def test_the_names_that_stay(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {"x": candle.tensor([1.0, 2.0])}
    candle.utils.save_safetensors(str(path), tensors)
    given = candle.utils.load_safetensors(str(path))
    assert given["x"].values() == [1.0, 2.0]
    assert utils.get_num_threads() == candle.get_num_threads()
    assert utils.has_mkl() is utils.has_accelerate() is False


def test_cuda_is_what_cupy_or_torch_finds() -> None:
    try:
        candle.empty(1, device="cuda")
    except BufferError:
        assert utils.cuda_is_available() is False
    else:
        assert utils.cuda_is_available() is True
