"""Tells libraries of candle's Tensor, those that keep a list of what they know, when they load."""

from __future__ import annotations

from .._native import _core
from .arrival import when_loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

__all__ = ["register_on_load"]


def _collated(batch: Any, **options: Any) -> Any:
    from .torch import collated

    return collated(batch, **options)


def _with_dataloader(module: ModuleType) -> None:
    """Tell torch's DataLoader how samples that are Tensors make a batch: in every process alike."""
    functions = getattr(module, "default_collate_fn_map", None)
    if isinstance(functions, dict):
        functions[_core.Tensor] = _collated


def _with_einops(module: ModuleType) -> None:
    """Add candle to the kinds of tensors that einops knows."""
    base = getattr(module, "AbstractBackend", None)
    if isinstance(base, type):
        from .einops import backend

        # It looks among the subclasses, which nothing else keeps.
        module.CandleBackend = backend(base)  # type: ignore[attr-defined]


def _with_datasets(module: ModuleType) -> None:
    """Tell HuggingFace datasets of the format "candle"."""
    from .datasets import register

    register(module)


def register_on_load() -> None:
    """Wait for these libraries, without ever loading one."""
    when_loaded("einops._backends", _with_einops)
    when_loaded("torch.utils.data._utils.collate", _with_dataloader)
    when_loaded("datasets.formatting", _with_datasets)
