"""What HuggingFace candle's ``candle.utils`` has, as far as candle has it."""

from __future__ import annotations

from .. import cuda, io
from ..io import load_safetensors
from ..threads import get_num_threads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..io import Path

__all__ = [
    "cuda_is_available",
    "get_num_threads",
    "has_accelerate",
    "has_mkl",
    "load_safetensors",
    "save_safetensors",
]


def save_safetensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors to a file: `candle.save_safetensors` with the arguments exchanged."""
    io.save_safetensors(tensors, path)


def cuda_is_available() -> bool:
    """Tell whether candle can make tensors on a CUDA device: cupy or torch finds one."""
    return cuda.is_available()


def has_accelerate() -> bool:
    """Tell whether candle computes with Apple's Accelerate: it does not, it has no kernels."""
    return False


def has_mkl() -> bool:
    """Tell whether candle computes with Intel's MKL: it does not, it has no kernels."""
    return False
