"""What makes the native type a `Tensor`: its methods written in Python, attached at import.

Those that give a view stand in views.py, the named ways out in doors.py.
"""

# Some modules are imported to attach.
# pyright: reportUnusedImport=false

from __future__ import annotations

from operator import index

from . import doors as _doors  # noqa: F401  (attached to Tensor)
from . import views as _views  # noqa: F401  (attached to Tensor)
from ._native import _core
from ._native._core import Tensor
from .attaching import attach
from .devices import as_device
from .dtypes import as_dtype, is_dtype
from .pickling import occupied, reduced
from .printing import tensor_html, tensor_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

__all__ = ["Tensor"]

_row_major = _core.Demand("contiguous()", c_order=True, host_only=False)


class Flags:
    """What is true of a tensor's memory, by numpy's names, as attributes and as items."""

    __slots__ = ("aligned", "c_contiguous", "f_contiguous", "writeable")

    def __init__(self, t: Tensor) -> None:
        self.c_contiguous: bool = t.is_contiguous()
        self.f_contiguous: bool = t.is_fortran_contiguous()
        self.writeable: bool = not t.readonly
        self.aligned: bool = True  # other memory is copied when it comes in

    @property
    def fnc(self) -> bool:
        """In Fortran's order and not in C's, which numpy's `isfortran` asks for."""
        return self.f_contiguous and not self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        flag: bool = getattr(self, name.lower())
        return flag

    def __repr__(self) -> str:
        return "\n".join(f"{name.upper()} : {self[name]}" for name in self.__slots__)


def _copied(t: Tensor, memo: dict[int, Any] | None) -> Tensor:
    """Copy a tensor, and the attributes that one of a subclass may have, deeply with a memo."""
    made = _core.materialise(t)
    if type(t) is not Tensor:
        made = Tensor.__new__(type(t), made, copy=False)
    if memo is not None:
        memo[id(t)] = made
    state: Any = t.__getstate__()  # what a subclass of the user's has besides
    if state is not None:
        if memo is not None:
            from copy import deepcopy

            state = deepcopy(state, memo)
        set_state: Any = getattr(made, "__setstate__", None)
        if set_state is not None:
            set_state(state)
        else:
            made.__dict__.update(state)
    return made


class _Methods(Tensor):
    """Writing, copies and casts, and what a tensor is to Python."""

    # Writing.

    def copy_(self, source: object) -> Tensor:
        """Write a source's elements, broadcast and cast, into this tensor, which is returned.

        Raises
        ------
        ValueError
            If the tensor is read-only, has an axis of stride 0, or the shapes do not broadcast.
        """
        _core.assign(self, source)
        return self

    def fill_(self, value: object) -> Tensor:
        """Write one number to every element. ValueError if read-only, or out of range.

        Parameters
        ----------
        value
            A number of Python's or of a framework's, or a tensor or array with no axes.
        """
        _core.fill(self, value)
        return self

    # Copies.

    def contiguous(self) -> Tensor:
        """Give the tensor itself if it lies in row-major order without gaps, else such a copy."""
        return _core.conform(self, _row_major, None)

    def copy(self) -> Tensor:
        """Give a fresh, writable copy in row-major order, aligned to 256 bytes."""
        return _core.materialise(self)

    def clone(self) -> Tensor:
        """Torch's name for copy()."""
        return _core.materialise(self)

    def to(
        self,
        target: object = None,
        *,
        dtype: object = None,
        device: object = None,
        copy: bool | None = None,
    ) -> Tensor:
        """Give the tensor with another dtype or device; the tensor itself where nothing changes.

        Parameters
        ----------
        target : DType, Device, Tensor, or a name
            A name is tried as a dtype's, then as a device's. A Tensor gives both.
        dtype, device : optional
            The same by keyword.
        copy : bool, optional
            None: copy where the dtype or the device changes. False: raise CopyError then. True:
            always copy.

        Notes
        -----
        Casts round once, to nearest even. Overflow gives inf where the dtype has it, else NaN.
        Float to integer truncates
        and saturates, NaN becomes 0. Integer to integer wraps. Complex to real is a BufferError.
        On CUDA devices cupy or torch copies and casts, by its own rules.
        """
        if isinstance(target, Tensor):
            dtype, device = target.dtype, target.device
        elif target is not None and is_dtype(target):
            dtype = target
        elif target is not None:
            try:
                device = as_device(target)
            except (TypeError, ValueError) as error:
                raise type(error)(
                    f"{target!r} is no dtype and no device of candle's: {error}"
                ) from None
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        where = self.device if device is None else as_device(device)
        if wanted is self.dtype and where is self.device and not copy:
            return self
        return _core.from_dlpack(self, dtype=wanted, device=where, copy=copy)

    def to_dtype(self, dtype: object) -> Tensor:
        """HuggingFace candle's name for to(dtype)."""
        return self.to(dtype=as_dtype(dtype))

    def to_device(self, device: object, /, *, stream: object = None) -> Tensor:
        """Give the tensor on another device, as `to` does (Python Array API).

        Parameters
        ----------
        device
            Where it is wanted.
        stream
            None: candle orders the copy after the work that fills the tensor, and its consumers
            after the copy. ValueError for anything else.
        """
        if stream is not None:
            raise ValueError("candle orders streams itself: leave stream= out")
        return self.to(device=as_device(device))

    # Python's own protocols for copies.

    def __copy__(self) -> Tensor:
        """Give a copy, as numpy does: copy.copy(t) is t.copy()."""
        return _copied(self, None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return _copied(self, memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        if type(self).__reduce__ is not Tensor.__reduce__:  # a subclass's, which Python prefers too
            return self.__reduce__()
        return reduced(self, index(protocol))

    def __reduce__(self) -> tuple[Any, ...]:
        """Give what every protocol can pickle: for subclasses that add to it."""
        return reduced(self, 2)

    # What it is.

    def __sizeof__(self) -> int:
        """Give the bytes of the object and of the memory its elements take, borrowed or not."""
        return object.__sizeof__(self) + occupied(self)

    @property
    def flags(self) -> Flags:
        """C_CONTIGUOUS, F_CONTIGUOUS, WRITEABLE and ALIGNED, which all are."""
        return Flags(self)

    def __repr__(self) -> str:
        return tensor_repr(self)

    def _repr_html_(self) -> str:
        return tensor_html(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.ndim == 0 else format(repr(self), spec)

    def __bool__(self) -> bool:
        if self.size != 1:  # numpy's class of error here, and TypeError in the others
            raise ValueError(
                f"a tensor of {self.size} elements is neither true nor false; use any() or all()"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(_only(self))

    def __float__(self) -> float:
        return float(_only(self))

    def __complex__(self) -> complex:
        return complex(_only(self))

    def __index__(self) -> int:
        if self.dtype.kind not in ("int", "uint"):
            raise TypeError(f"only tensors of integers can be an index, not of {self.dtype}")
        value: int = _only(self).__index__()
        return value


def _only(t: Tensor) -> Any:
    if t.size != 1:
        raise TypeError(f"a tensor of {t.size} elements has no single value; use tolist()")
    return t.item()


attach(_Methods)
