"""warp: arrays of one to four axes, without read-only ones, complex numbers and 8-bit floats."""

from __future__ import annotations

from .._native import _core
from .handout import capsule_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .target import Target

__all__ = ["demand", "examples", "target"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
)


def _demand_of(read_only: bool) -> _core.Demand:
    return _core.Demand(
        "warp",
        dtypes=_DTYPES,
        axes=(1, 4),
        negative_strides=False,
        read_only=read_only,
        host_only=False,
        route="dlpack_legacy",
    )


_demand = _demand_of(False)


def demand() -> _core.Demand:
    """Say what warp takes."""
    return _demand


def target() -> Target:
    """Import warp; read-only memory is copied, or shared on the caller's word."""
    import warp

    warp.init()
    return capsule_target(
        "warp", (warp.array,), warp.from_dlpack, _demand, _demand_of(True), read_only=False
    )


def examples() -> dict[str, Any]:
    """Make an array."""
    import warp

    return {"warp": warp.zeros((4, 6), dtype=float, device="cpu")}
