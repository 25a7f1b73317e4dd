"""HuggingFace candle's methods of tensors that compute, under its names and with its results."""

from __future__ import annotations

from operator import index

from ._native._core import Tensor
from .attaching import attach, attach_one
from .delegating import delegate
from .dtypes import uint32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_take, _take_along_axis, _where = (delegate(name) for name in ("take", "take_along_axis", "where"))

# Its name -> the standard's, for functions of one tensor that leave its dtype what it is.
_UNARY = {
    "abs": "abs",
    "cos": "cos",
    "exp": "exp",
    "log": "log",
    "recip": "reciprocal",
    "sin": "sin",
    "sqr": "square",
    "sqrt": "sqrt",
}


def _unary(name: str) -> Callable[[Tensor], Tensor]:
    compute = delegate(name)

    def method(self: Tensor) -> Tensor:
        found: Tensor = compute(self)
        return found

    method.__doc__ = f"Do what the Python Array API standard says of `{name}`."
    return method


class _Methods(Tensor):
    # Two tensors, whose shapes broadcast.

    def broadcast_add(self, rhs: object) -> Tensor:
        """Add; the same as ``+``."""
        return self + rhs

    def broadcast_sub(self, rhs: object) -> Tensor:
        """Subtract; the same as ``-``."""
        return self - rhs

    def broadcast_mul(self, rhs: object) -> Tensor:
        """Multiply; the same as ``*``."""
        return self * rhs

    def broadcast_div(self, rhs: Tensor) -> Tensor:
        """Divide; integers as in Rust, in their own dtype and towards zero (``/`` gives floats)."""
        if "real" in (self.dtype.kind, rhs.dtype.kind) or "complex" in (
            self.dtype.kind,
            rhs.dtype.kind,
        ):
            return self / rhs
        floor, rest = self // rhs, self % rhs
        opposite = ((self < 0) != (rhs < 0)) & (rest != 0)
        return floor + opposite.to(floor.dtype)

    # Reductions. All axes reduced stay, with extent 1.

    def sum_keepdim(self, dim: int | list[int] | tuple[int, ...]) -> Tensor:
        """Add up along one axis or several, in the tensor's own dtype."""
        axis = tuple(dim) if isinstance(dim, list) else dim
        return self.sum(axis, dtype=self.dtype, keepdims=True)

    def max_keepdim(self, dim: int) -> Tensor:
        """Give the largest along an axis."""
        return self.max(dim, keepdims=True)

    def min_keepdim(self, dim: int) -> Tensor:
        """Give the smallest along an axis."""
        return self.min(dim, keepdims=True)

    def argmax_keepdim(self, dim: int) -> Tensor:
        """Give where the first of the largest is along an axis, in uint32."""
        return self.argmax(dim, keepdims=True).to(uint32)

    def argmin_keepdim(self, dim: int) -> Tensor:
        """Give where the first of the smallest is along an axis, in uint32."""
        return self.argmin(dim, keepdims=True).to(uint32)

    def sum_all(self) -> Tensor:
        """Add up all elements, in the tensor's own dtype."""
        return self.sum(dtype=self.dtype)

    def mean_all(self) -> Tensor:
        """Give the mean of all elements."""
        return self.mean()

    # Chosen elements.

    def get(self, index: int) -> Tensor:
        """Give one item of the first axis. Shares memory."""
        return self[index]

    def index_select(self, rhs: object, dim: int) -> Tensor:
        """Copy the items of an axis that a vector of ints names."""
        found: Tensor = _take(self, rhs, axis=dim)
        return found

    def gather(self, index: Tensor, dim: int) -> Tensor:
        """Copy, along one axis, the elements that a tensor of ints names for each place of its own.

        Its other axes may be shorter than this tensor's.
        """
        axis = dim % self.ndim if self.ndim else 0
        source: Tensor = self
        for other, extent in enumerate(index.shape):
            if other != axis:
                source = source.narrow(other, 0, extent)
        found: Tensor = _take_along_axis(source, index, axis=axis)
        return found

    def where_cond(self, on_true: object, on_false: object) -> Tensor:
        """Take elements of one tensor where this one is not zero, and of the other where it is."""
        condition = self if self.dtype.kind == "bool" else self != 0
        found: Tensor = _where(condition, on_true, on_false)
        return found

    def powf(self, p: float) -> Tensor:
        """Raise every element to a power."""
        return self ** float(p)

    # Views.

    def t(self) -> Tensor:
        """Swap the last two axes; the same as ``mT``. Shares memory."""
        return self.mT

    def detach(self) -> Tensor:
        """Give the tensor itself: it is no part of anybody's autograd."""
        return self

    def broadcast_left(self, *shape: int | tuple[int, ...]) -> Tensor:
        """Put axes before the first, along which the tensor repeats (stride 0). Shares memory."""
        added = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        return self.broadcast_to((*added, *self.shape))

    def flatten_all(self) -> Tensor:
        """Join all axes: a view where the strides allow, else a copy."""
        return self.flatten()

    def flatten_from(self, dim: int) -> Tensor:
        """Join the axes from `dim` on: a view where the strides allow, else a copy."""
        return self.flatten(index(dim), -1)

    def flatten_to(self, dim: int) -> Tensor:
        """Join the axes up to `dim`, and that: a view where the strides allow, else a copy."""
        return self.flatten(0, index(dim))


for _name, _function in _UNARY.items():
    attach_one(_name, _unary(_function))
attach(_Methods)
