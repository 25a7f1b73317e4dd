"""Giving tensors to a framework that takes legacy DLPack capsules."""

from __future__ import annotations

from .._native import _core
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._native._core import Demand, Tensor

__all__ = ["Handout", "capsule_target"]


class Handout:
    """Legacy capsules over a tensor that meets its consumer's demand, read-only or not."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, *, stream: int | None = None, **unused: object) -> object:
        return _core.legacy_capsule(self._tensor, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self._tensor.device
        # Pinned memory is memory of the host like any other.
        return (1, 0) if device.on_host else device.dlpack


def capsule_target(
    name: str,
    types: tuple[type, ...],
    take: Callable[[Any], Any],
    demand: Demand,
    on_your_word: Demand | None = None,
    **traits: Any,
) -> Target:
    """Describe how a framework is given tensors by its own function for DLPack.

    Parameters
    ----------
    name : str
    types : tuple of type
        Its tensors.
    take : callable
        Makes one of an object with ``__dlpack__``.
    demand, on_your_word : Demand
        What it takes; and under ``copy=False``, which is the caller's word that nothing is written
        to read-only memory.
    **traits
        Other attributes of the Target.
    """

    def give(t: Tensor, copy: bool | None) -> Any:
        promised = copy is False and on_your_word is not None
        return take(Handout(_core.conform(t, on_your_word if promised else demand, copy)))  # type: ignore[arg-type]

    def share(t: Tensor) -> Any:
        return take(Handout(_core.conform(t, demand, False)))

    return Target(name, types=types, give=give, share=share, demand=demand, **traits)
