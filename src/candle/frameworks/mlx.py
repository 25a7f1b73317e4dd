"""mlx: its arrays are immutable, and it copies whatever it is given."""

from __future__ import annotations

from .._native import _core
from .handout import capsule_target
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .target import Target

__all__ = ["demand", "examples", "hazards", "record", "target"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
)

_demand = _core.Demand(
    "mlx",
    dtypes=_DTYPES,
    narrows=("float64", "complex128"),
    negative_strides=False,
    copies=True,
    route="dlpack_legacy",
)


def record(cls: type, base: type) -> Record | None:
    """Read-only: its capsules are legacy ones and cannot say it."""
    return Record("plain", read_only=True)


def demand() -> _core.Demand:
    """Say what mlx takes."""
    return _demand


def target() -> Target:
    """Import mlx."""
    import mlx.core as mx

    return capsule_target("mlx", (mx.array,), mx.array, _demand, views=False, devices=False)


def examples() -> dict[str, Any]:
    """Make an array."""
    import mlx.core as mx

    return {"mlx": mx.zeros((4, 6))}


def hazards(trial: object) -> list[str]:
    """Try what the installed mlx does that surprises."""
    import mlx.core as mx

    if mx.array(_core.asarray([0.1], dtype="float64")).dtype != mx.float64:
        return ["mx.array makes float64 and complex128 smaller; candle refuses to give it those"]
    return []
