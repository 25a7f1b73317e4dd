"""Tensor's methods that are written in Python: attached to the native type at import."""

from __future__ import annotations

from operator import index

from ._native import _core
from ._native._core import Tensor
from .attaching import attach
from .devices import as_device
from .dtypes import as_dtype
from .pickling import occupied, reduced
from .printing import tensor_html, tensor_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

__all__ = ["Tensor"]

_row_major = _core.Demand("contiguous()", c_order=True, host_only=False)
_reshapeable = _core.Demand("reshape()", c_order=True, host_only=False)


class Flags:
    """What is true of a tensor's memory, by numpy's names, as attributes and as items."""

    __slots__ = ("aligned", "c_contiguous", "f_contiguous", "writeable")

    def __init__(self, t: Tensor) -> None:
        self.c_contiguous: bool = t.is_contiguous()
        self.f_contiguous: bool = t.is_fortran_contiguous()
        self.writeable: bool = not t.readonly
        self.aligned: bool = True  # other memory is copied when it comes in

    def __getitem__(self, name: str) -> bool:
        flag: bool = getattr(self, name.lower())
        return flag

    def __repr__(self) -> str:
        return "\n".join(f"{name.upper()} : {self[name]}" for name in self.__slots__)


def _axis(dim: int, ndim: int) -> int:
    axis = index(dim)
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {_core.in_words(dim)} does not exist in a tensor with {ndim} axes")
    return axis % ndim


def _extents(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """Accept both forms: (2, 3) and ((2, 3),)."""
    if len(shape) == 1 and not hasattr(shape[0], "__index__"):
        try:
            shape = tuple(shape[0])
        except TypeError:
            raise TypeError(f"a shape is made of ints, not of {type(shape[0]).__name__}") from None
    return tuple(index(extent) for extent in shape)


def _inferred(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Put the extent that is missing, if one is -1, in its place."""
    if -1 not in shape:
        return shape
    known = 1
    for extent in shape:
        known *= 1 if extent == -1 else extent
    if shape.count(-1) > 1 or known <= 0 or size % known:
        raise ValueError(f"{size} elements do not make the shape {_core.in_words(shape)}")
    return tuple(size // known if extent == -1 else extent for extent in shape)


def _as_view(t: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    stride = _core.reshaped_stride(t, shape)
    return None if stride is None else _core.restride(t, shape, stride)


def _is_dtype(x: object) -> bool:
    try:
        as_dtype(x)
    except TypeError:
        return False
    return True


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
    """The methods, in one place. They are attached to Tensor itself below."""

    # Views, sharing memory.

    def permute(self, *dims: Any) -> Tensor:
        """Reorder the axes. Shares memory.

        Parameters
        ----------
        *dims : int or one sequence of int
            For each axis of the result the axis of this tensor it is; all of them once.
        """
        order = tuple(_axis(dim, self.ndim) for dim in _extents(dims))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"{order} does not name each of the {self.ndim} axes once")
        shape, stride = self.shape, self.stride
        return _core.restride(self, tuple(shape[i] for i in order), tuple(stride[i] for i in order))

    def transpose(self, dim1: int, dim2: int) -> Tensor:
        """Swap two axes. Shares memory."""
        order = list(range(self.ndim))
        first, second = _axis(dim1, self.ndim), _axis(dim2, self.ndim)
        order[first], order[second] = second, first
        return self.permute(order)

    @property
    def T(self) -> Tensor:
        """The transpose of a tensor with two axes. Shares memory."""
        if self.ndim != 2:
            raise ValueError(
                f"T is for tensors with 2 axes, and this has {self.ndim}: mT swaps the last two, "
                "permute() any"
            )
        return self.permute(1, 0)

    @property
    def mT(self) -> Tensor:
        """The transpose of each matrix: the last two axes swapped. Shares memory."""
        if self.ndim < 2:
            raise ValueError(f"mT is for tensors with at least 2 axes, and this has {self.ndim}")
        return self.transpose(-2, -1)

    def squeeze(self, dim: int | tuple[int, ...] | None = None) -> Tensor:
        """Drop axes of extent 1: all, or those named. Shares memory.

        Raises
        ------
        ValueError
            If a named axis has another extent.
        """
        shape, stride = self.shape, self.stride
        if dim is None:
            dropped = {i for i, extent in enumerate(shape) if extent == 1}
        else:
            dropped = {
                _axis(d, self.ndim) for d in (dim if isinstance(dim, tuple | list) else (dim,))
            }
            for axis in dropped:
                if shape[axis] != 1:
                    raise ValueError(
                        f"axis {axis} has the extent {shape[axis]}, and only extent 1 can be "
                        "squeezed out"
                    )
        kept = [i for i in range(self.ndim) if i not in dropped]
        return _core.restride(self, tuple(shape[i] for i in kept), tuple(stride[i] for i in kept))

    def unsqueeze(self, dim: int) -> Tensor:
        """Insert an axis of extent 1 before axis `dim` of the result. Shares memory."""
        axis = _axis(dim, self.ndim + 1)
        shape, stride = list(self.shape), list(self.stride)
        shape.insert(axis, 1)
        stride.insert(axis, 1)
        return _core.restride(self, shape, stride)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Take `length` items of one axis from `start` on. Shares memory."""
        axis = _axis(dim, self.ndim)
        extent = self.shape[axis]
        begin = start + extent if start < 0 else start
        if not (begin >= 0 and 0 <= length <= extent - begin):
            raise IndexError(
                f"{_core.in_words(length)} items from {_core.in_words(start)} on reach outside "
                f"axis {axis} of extent {extent}"
            )
        return self[(*[slice(None)] * axis, slice(begin, begin + length))]

    def broadcast_to(self, shape: Any, *extents: int) -> Tensor:
        """See the tensor as a larger one whose new axes repeat it (stride 0). Shares memory.

        Writing through the result is refused where an axis has stride 0: its elements are one and
        the same memory.
        """
        wanted = _extents((shape, *extents))
        mine, stride = self.shape, self.stride
        added = len(wanted) - len(mine)
        if added < 0 or any(m not in (1, w) for m, w in zip(mine, wanted[added:], strict=True)):
            raise ValueError(f"shape {mine} does not broadcast to {_core.in_words(wanted)}")
        steps = [0] * added + [
            0 if m == 1 and w != 1 else s
            for m, w, s in zip(mine, wanted[added:], stride, strict=True)
        ]
        return _core.restride(self, wanted, steps)

    def broadcast_as(self, *shape: Any) -> Tensor:
        """HuggingFace candle's name for broadcast_to()."""
        return self.broadcast_to(*shape)

    def view(self, shape_or_dtype: Any, *extents: int) -> Tensor:
        """See the same memory in another shape, or its bytes as another dtype. Never copies.

        Parameters
        ----------
        shape_or_dtype : shape, or DType, or a dtype's name
            One extent of a shape may be -1. A dtype of another size changes the last axis, which
            has to lie without gaps.

        Raises
        ------
        ValueError
            Where the strides do not allow it; reshape() copies then.
        """
        if isinstance(shape_or_dtype, str):
            return _core.reinterpret(self, as_dtype(shape_or_dtype).id)
        if (
            not extents
            and not isinstance(shape_or_dtype, int | tuple | list)
            and _is_dtype(shape_or_dtype)
        ):
            return _core.reinterpret(self, as_dtype(shape_or_dtype).id)
        shape = _inferred(_extents((shape_or_dtype, *extents)), self.size)
        seen = _as_view(self, shape)
        if seen is None:
            raise ValueError(
                f"strides {self.stride} do not allow the shape {shape}; "
                "reshape() copies where it must"
            )
        return seen

    def unflatten(self, dim: int, sizes: Any) -> Tensor:
        """Split one axis into several. Shares memory; ValueError where the sizes do not fit."""
        axis = _axis(dim, self.ndim)
        shape = self.shape
        return self.view(
            (*shape[:axis], *_inferred(_extents((sizes,)), shape[axis]), *shape[axis + 1 :])
        )

    def reshape(self, shape: Any, *extents: int, copy: bool | None = None) -> Tensor:
        """Give the elements, in row-major order, another shape.

        Parameters
        ----------
        shape : shape
            One extent may be -1.
        copy : bool, optional
            None: share where the strides allow, else copy. False: share or raise CopyError. True:
            always copy.
        """
        wanted = _inferred(_extents((shape, *extents)), self.size)
        seen = None if copy else _as_view(self, wanted)
        if seen is not None:
            return seen
        seen = _as_view(_core.conform(self, _reshapeable, copy), wanted)
        assert seen is not None
        return seen

    def flatten(self, start_dim: int = 0, end_dim: int = -1, *, copy: bool | None = None) -> Tensor:
        """Join axes `start_dim` to `end_dim`: a view where the strides allow, else a copy."""
        if self.ndim == 0:
            return self.reshape((1,), copy=copy)
        first, last = _axis(start_dim, self.ndim), _axis(end_dim, self.ndim)
        if last < first:
            raise ValueError(f"end_dim {end_dim} lies before start_dim {start_dim}")
        shape = self.shape
        joined = 1
        for extent in shape[first : last + 1]:
            joined *= extent
        return self.reshape((*shape[:first], joined, *shape[last + 1 :]), copy=copy)

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
        """Write one number to every element. ValueError if the tensor is read-only.

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
        elif target is not None and _is_dtype(target):
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

    # Out.

    def cupy(self, *, copy: bool | None = None) -> Any:
        """Give a cupy.ndarray over the same memory on a CUDA device.

        Memory of the host is copied to cupy's current device with ``copy=None``. cupy has no
        read-only arrays: read-only memory is copied with ``copy=None``, and shared with
        ``copy=False`` on the caller's word that nothing is written. A dtype that cupy lacks is a
        BufferError. cupy's current stream is made to wait for what may be pending.
        """
        from .frameworks.cupy import give

        return give(self, copy)

    def jax(self, *, copy: bool | None = None) -> Any:
        """Give a jax.Array over the same memory.

        jax takes dense memory aligned to 64 bytes, and without x64 no 64-bit dtypes: the former is
        copied with ``copy=None``,
        the latter is a BufferError. jax never writes, so that read-only memory is shared.
        """
        from .frameworks.jax import give

        return give(self, copy)

    def arrow(
        self, *, layout: str = "tensor", type: object = None, copy: bool | None = None
    ) -> Any:
        """Give a pyarrow.Array over the same memory: a row for each index of the first axis.

        One axis becomes an array of numbers. More become a FixedShapeTensorArray, which keeps the
        shape of the rows and the order in which their axes lie. Rows that have gaps between them,
        or within, are copied with ``copy=None``. Booleans are copied to Arrow's bits;
        ``type=pyarrow.bool8()`` shares them. bfloat16, the 8-bit floats and complex numbers have no
        type in Arrow, and become pyarrow's OpaqueArray over the same bytes; `candle.from_arrow`
        knows them again.

        Parameters
        ----------
        layout : str
            ``"tensor"``, or ``"list"`` for nested lists of fixed size.
        type : optional
            An Arrow type: lists of fixed size, joined or not; an extension; other numbers, which
            are cast. What has ``__arrow_c_schema__``.
        copy : bool, optional
            None: share, else copy. False: share or raise CopyError. True: always copy.

        Notes
        -----
        Other libraries take a tensor as it is: ``polars.Series(t)``, ``nanoarrow.Array(t)``, a
        DuckDB query. They need no pyarrow.
        """
        from .frameworks.arrow import give

        return give(self, layout, type, copy)

    def to_hf_candle(self, *, copy: bool | None = None) -> Any:
        """Give a tensor of HuggingFace candle (candle-nn), which `candle.hf.load` has loaded.

        A copy, exact, of any layout and number of axes. ``copy=False`` is a CopyError. BufferError
        for dtypes other than uint8, uint32, int64, bfloat16, float16, float32 and float64.
        """
        from .frameworks.hf_candle import give

        return give(self, copy)

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        """Give a tensorflow tensor: what tensorflow's functions ask their arguments for.

        Shares memory in row-major order at a multiple of 64 bytes, read-only memory too, because
        tensorflow never writes; copies else. ValueError where another dtype is wanted.
        """
        from .frameworks.tensorflow import made_of

        return made_of(self, dtype)

    def __copy__(self) -> Tensor:
        """Give a copy, as numpy does: copy.copy(t) is t.copy()."""
        return _copied(self, None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return _copied(self, memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        own = type(self).__reduce__
        if own is not object.__reduce__:  # a subclass's, which Python prefers too
            return own(self)  # type: ignore[return-value]
        return reduced(self, index(protocol))

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
        return bool(_only(self))

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
        raise ValueError(f"a tensor of {t.size} elements has no single value; use tolist()")
    return t.item()


attach(_Methods)
