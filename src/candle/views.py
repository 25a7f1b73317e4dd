"""Tensor's methods that give a view: the same memory by another shape, order or dtype."""

from __future__ import annotations

from operator import index

from ._native import _core
from ._native._core import Tensor
from .attaching import attach
from .dtypes import as_dtype, is_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_reshapeable = _core.Demand("reshape()", c_order=True, host_only=False)


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


class _Views(Tensor):
    """All share memory, but for reshape() and flatten(), which copy where they must."""

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
        """The transpose of each matrix, the last two axes swapped. Shares memory."""
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
            and is_dtype(shape_or_dtype)
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


attach(_Views)
