"""What candle knows of each framework, one file each: recognise, take, give, limits.

This is the only Python that knows a framework by name. A file is loaded when the first object of
its framework is met; none imports a framework that is not there already, except where the caller
asks for that framework's tensor.
"""

from __future__ import annotations

import sys

from .._native import _core
from ..ledger import passed_through

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .record import Record

# First part of a type's module -> the file here that knows it.
_FILES = {
    "cupy": "cupy",
    "jax": "jax",
    "jaxlib": "jax",
    "mlx": "immutable",
    "numpy": "numpy",
    "pyarrow": "immutable",
    "tensorflow": "tensorflow",
    "torch": "torch",
}


passed_through.update(_FILES)


def _file(name: str) -> object:
    module = f"{__name__}.{name}"
    __import__(module)
    return sys.modules[module]


def recognise(cls: type) -> Record | None:
    """Say what is known of a type: the native core asks once for each it meets.

    A subclass that a user wrote counts as its framework's.
    """
    for base in cls.__mro__[:-1]:
        name = _FILES.get(str(base.__module__).partition(".")[0])
        if name is not None:
            record: Record | None = _file(name).record(cls, base)  # type: ignore[attr-defined]
            if record is not None:
                return record
    return None


def load_door(name: str) -> tuple[object, object, object, object]:
    """Import a framework.

    Its exchange table, its Demand, who tells of read-only copies, and who names its current stream
    where the table does not.
    """
    door: tuple[object, object, object, object] = _file(name).door()  # type: ignore[attr-defined]
    return door


def demand(name: str) -> _core.Demand:
    """Say what a framework takes that has no door in the native core."""
    takes: _core.Demand = _file(name).demand()  # type: ignore[attr-defined]
    return takes


def owner(x: object) -> object:
    """Give what a framework's tensor says that its memory belongs to, or None."""
    for base in type(x).__mro__[:-1]:
        name = _FILES.get(str(base.__module__).partition(".")[0])
        found = None if name is None else getattr(_file(name), "owner", None)
        if found is not None:
            belongs: object = found(x)
            return belongs
    return None


def _numpy_in(dtype: object) -> int:
    number: int = _file("numpy").dtype_in(dtype)  # type: ignore[attr-defined]
    return number


def _numpy_out(number: int) -> object:
    return _file("numpy").dtype_out(number)  # type: ignore[attr-defined]


_core.register(recognise=recognise, load_door=load_door, numpy_in=_numpy_in, numpy_out=_numpy_out)
