"""warp: arrays of one to four axes, without read-only ones, complex numbers and 8-bit floats."""

from __future__ import annotations

from .handout import capsule_target
from .target import demands_of_writers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Demand
    from .target import Target

__all__ = ["demand", "examples", "target"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
)


_demand, _on_your_word = demands_of_writers(
    "warp", dtypes=_DTYPES, axes=(1, 4), route="dlpack_legacy"
)


def demand() -> Demand:
    """Say what warp takes."""
    return _demand


def target() -> Target:
    """Import warp; read-only memory is copied, or shared on the caller's word."""
    import warp

    warp.init()
    return capsule_target(
        "warp", (warp.array,), warp.from_dlpack, _demand, _on_your_word, read_only=False
    )


def examples() -> dict[str, Any]:
    """Make an array."""
    import warp

    return {"warp": warp.zeros((4, 6), dtype=float, device="cpu")}
