"""What the namespace says of itself."""

from __future__ import annotations

from ..cuda.provider import device_count
from ..devices import Device, as_device
from ..dtypes import as_dtype
from .casting import isdtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..dtypes import DType

__all__ = ["Info", "__array_namespace_info__"]

_DTYPES = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


class Info:
    """The standard's inspection of a namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Give what may be done: boolean indexing, shapes that depend on data, and 64 axes."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> Device:
        """Give the device of tensors made without one."""
        return as_device("cpu")

    def default_dtypes(self, *, device: object = None) -> dict[str, DType]:
        """Give the dtypes of tensors made without one."""
        return {
            "real floating": as_dtype("float32"),
            "complex floating": as_dtype("complex64"),
            "integral": as_dtype("int64"),
            "indexing": as_dtype("int64"),
        }

    def devices(self) -> tuple[Device, ...]:
        """Give the devices there are: the host, and the CUDA devices that a library computes on."""
        return (as_device("cpu"), *(as_device(f"cuda:{i}") for i in range(device_count())))

    def dtypes(self, *, device: object = None, kind: Any = None) -> dict[str, DType]:
        """Give the standard's dtypes, all or those of a kind, by name."""
        found = {name: as_dtype(name) for name in _DTYPES}
        if kind is None:
            return found
        return {name: dtype for name, dtype in found.items() if isdtype(dtype, kind)}


def __array_namespace_info__() -> Info:
    """Give the standard's inspection object."""
    return Info()
