"""The tensors of a tree, and which of them show the same memory."""

from __future__ import annotations

from ._native import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ._native._core import Tensor
    from .dtypes import DType

__all__ = ["Leaf", "Span", "is_filled", "overlapping", "shows_the_same", "view_of"]


class Leaf:
    """A tensor of the tree that may have to be copied.

    Attributes
    ----------
    x : object
        It itself.
    t : Tensor
        It, taken in.
    dtype : DType, optional
        What it is cast to.
    low, high : int
        Where the memory that it shows begins and ends.
    needs_copy : bool
    by_itself : bool
        It cannot be copied together with others over the same memory.
    """

    __slots__ = ("by_itself", "dtype", "high", "low", "needs_copy", "t", "x")

    def __init__(self, x: Any, t: Tensor, dtype: DType | None) -> None:
        self.x: Any = x
        self.t: Tensor = t
        self.dtype: DType | None = dtype
        self.needs_copy: bool = dtype is not None
        self.by_itself: bool = t.dtype.bits * t.dtype.lanes < 8 or not t.size
        self.low: int = t.data_ptr()
        self.high: int = self.low
        for extent, stride in zip(t.shape, t.stride, strict=True):
            reach = (extent - 1) * stride * t.itemsize if t.size else 0
            self.low += min(reach, 0)
            self.high += max(reach, 0)
        self.high += t.itemsize if t.size else 0

    @property
    def is_dense(self) -> bool:
        """Whether it shows every byte from its first to its last."""
        t = self.t
        step = 1
        for stride, extent in sorted(zip(map(abs, t.stride), t.shape, strict=True)):
            if extent > 1 and stride != step:
                return False
            step *= extent
        return True

    @property
    def without_repeats(self) -> tuple[slice, ...]:
        """The index that leaves out what axes of stride 0 show again."""
        return tuple([slice(None if stride else 1) for stride in self.t.stride])

    @property
    def view(self) -> tuple[object, ...]:
        """What two tensors have in common that show the same elements in the same way."""
        t = self.t
        return t.device, t.data_ptr(), t.shape, t.stride, t.dtype

    @property
    def kind(self) -> tuple[int, ...]:
        """What tensors have in common that could be copied together: device, and dtype if cast."""
        return *self.t.device.dlpack, -1 if self.dtype is None else self.t.dtype.id


class Span:
    """A range of memory on the host, and who keeps it alive."""

    __slots__ = ("__array_interface__", "_kept")

    def __init__(self, low: int, high: int, read_only: bool, kept: object) -> None:
        self.__array_interface__: dict[str, Any] = {
            "data": (low, read_only),
            "shape": (high - low,),
            "typestr": "|u1",
            "version": 3,
        }
        self._kept = kept


def shows_the_same(a: Tensor, b: Tensor) -> bool:
    """Tell whether two tensors show the same elements of the same memory in the same way."""
    if a.device != b.device and not (a.device.on_host and b.device.on_host):
        return False
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if not a.size:
        return True
    strides = zip(a.shape, a.stride, b.stride, strict=True)
    return a.data_ptr() == b.data_ptr() and all(n == 1 or s == t for n, s, t in strides)


def view_of(block: Tensor, leaf: Leaf, low: int) -> Tensor:
    """See in a copy of memory what a tensor shows of the memory, which began at `low`."""
    t = leaf.t
    elements, begin = block, low
    if leaf.dtype is None:
        elements = _core.reinterpret(block[leaf.low - low : leaf.high - low], t.dtype.id)
        begin = leaf.low
    return _core.restride(elements, t.shape, t.stride, (t.data_ptr() - begin) // t.itemsize)


def is_filled(leaves: list[Leaf], high: int) -> bool:
    """Tell whether the dense ones, in order of memory, show all between the ends of all."""
    reach = leaves[0].low
    for leaf in leaves:
        if leaf.low <= reach and leaf.is_dense:
            reach = max(reach, leaf.high)
    return reach == high


def overlapping(leaves: list[Leaf]) -> Iterator[list[Leaf]]:
    """Group tensors whose ranges of memory overlap; those of each group by where they begin."""
    group: list[Leaf] = []
    high = 0  # where the memory of the group ends
    for leaf in sorted(leaves, key=lambda leaf: (leaf.kind, leaf.low)):
        if group and (leaf.kind != group[0].kind or leaf.low >= high):
            yield group
            group = []
        high = max(high, leaf.high) if group else leaf.high
        group.append(leaf)
    if group:
        yield group
