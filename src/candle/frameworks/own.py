"""candle's own tensors: wanted as a framework's, and lent under another name."""

from __future__ import annotations

from .._native import _core
from .record import Record
from .target import Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["Lent", "PickleFrame", "examples", "record", "target"]


class Lent:
    """A Tensor over what something else has: that is who plans and refusals name, by its type.

    Ingested like any producer's memory, though nobody else can ask for it. What `tensor` has may
    be misaligned, which no other Tensor is.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor = tensor


class PickleFrame(Lent):
    """The bytes of a pickle that arrived somewhere, as the producer of a move."""

    __module__ = "candle"
    __slots__ = ()


def _tensor(x: Lent) -> Tensor:
    return x.tensor


def record(cls: type, base: type) -> Record | None:
    """Lent tensors come in as the tensors they are."""
    return Record("stand_in", stand_in=_tensor) if issubclass(cls, Lent) else None


def _give(t: Tensor, copy: bool | None) -> Tensor:
    return _core.materialise(t) if copy else t


def _share(t: Tensor) -> Tensor:
    return t


def target() -> Target:
    """Give Tensors as they are."""
    return Target("candle", types=(_core.Tensor,), give=_give, share=_share)


def examples() -> dict[str, Any]:
    """Make a tensor."""
    return {"candle": _core.asarray([[0.0] * 6] * 4)}
