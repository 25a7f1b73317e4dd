"""tvm-ffi: it takes candle's exchange table; its tensors cannot say that they are read-only."""

from __future__ import annotations

from .._native import _core
from .target import Target, demands_of_writers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["demand", "examples", "hazards", "target"]

_demand, _on_your_word = demands_of_writers("tvm_ffi", route="exchange")


def demand() -> _core.Demand:
    """Say what tvm-ffi takes."""
    return _demand


def target() -> Target:
    """Import tvm-ffi; read-only memory is copied, or shared on the caller's word."""
    import tvm_ffi

    def take(t: Tensor) -> Any:
        return _core.quietly(tvm_ffi.from_dlpack, t)  # `conform` has told of the move

    def give(t: Tensor, copy: bool | None) -> Any:
        return take(_core.conform(t, _on_your_word if copy is False else _demand, copy))

    def share(t: Tensor) -> Any:
        return take(_core.conform(t, _demand, False))

    return Target(
        "tvm_ffi",
        types=(tvm_ffi.Tensor,),
        give=give,
        share=share,
        demand=_demand,
        read_only=False,
    )


def examples() -> dict[str, Any]:
    """Make a tensor over memory of candle's."""
    return {"tvm_ffi": target().give(_core.asarray([[0.0] * 6] * 4), None)}


def hazards(trial: object) -> list[str]:
    """Try what the installed tvm-ffi gets wrong."""
    import tvm_ffi

    t = _core.asarray(bytes(8))
    if tvm_ffi.from_dlpack(t).data_ptr() == t.data_ptr():
        return ["tvm_ffi.from_dlpack ignores READ_ONLY: what it gives can be written"]
    return []
