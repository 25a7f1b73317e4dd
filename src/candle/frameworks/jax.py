"""jax: its arrays are immutable, and it takes dense memory aligned to 64 bytes."""

from __future__ import annotations

from .._native import _core
from .record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._native._core import Tensor

__all__ = ["demand", "give", "record"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
_WIDE = ("int64", "uint64", "float64", "complex128")


def _demand(narrows: tuple[str, ...]) -> _core.Demand:
    """Describe what jax takes. It never writes, so that read-only memory is shared with it."""
    return _core.Demand(
        "jax",
        dtypes=_DTYPES,
        narrows=narrows,
        dense=True,
        alignment=64,
        negative_strides=False,
        host_only=False,
        route="dlpack_legacy",
    )


_with_x64 = _demand(())
_without_x64 = _demand(_WIDE)


def record(cls: type, base: type) -> Record | None:
    """Read-only: a jax capsule is a legacy one and cannot say it."""
    # -1 would go to the driver as it is, and None waits on the host.
    return Record("plain", read_only=True, import_stream=1)


class _Handout:
    """What jax is given: legacy capsules over a tensor that meets its demand."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, *, stream: int | None = None, **unused: object) -> object:
        return _core.legacy_capsule(self._tensor, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self._tensor.device
        # Pinned memory is memory of the host like any other.
        return (1, 0) if device.type in ("cpu", "cuda_host", "rocm_host") else device.dlpack


def demand() -> _core.Demand:
    """Say what jax takes as it is configured now."""
    import jax

    return _with_x64 if jax.config.jax_enable_x64 else _without_x64


def give(t: Tensor, copy: bool | None) -> Any:
    """Make a jax.Array over a tensor's memory, or of a copy where jax cannot take it."""
    import jax

    return jax.dlpack.from_dlpack(_Handout(_core.conform(t, demand(), copy)))
