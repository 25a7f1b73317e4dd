"""The copies that a tree needs: each block of memory once, whatever tensors show it."""

from __future__ import annotations

from . import frameworks
from ._native import _core
from .devices import as_device, cpu
from .dtypes import as_dtype, uint8
from .ledger import trying
from .plan import CopyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ._native._core import Tensor
    from .devices import Device
    from .dtypes import DType
    from .frameworks.target import Target

__all__ = ["Copies", "Failed", "Wanted"]

_asarray = _core.asarray

# A tree with more bytes to copy than this shows its progress: about a second's worth.
PROGRESS_BYTES = 4 << 30

# Tensors of one block are laid into one again if they show this part of it at least: what none of
# them shows is not read, but it is there.
LEAST_SHOWN = 0.25

# Reasons that lie in one tensor's own layout: other memory under it does not put them right.
_LAYOUT = frozenset({"alignment", "negative_stride", "not_dense", "packed"})


class Wanted:
    """What becomes of the tensors of one tree: the arguments of `convert`."""

    def __init__(
        self,
        target: Target,
        copy: bool | None,
        dtype: Any,
        device: object,
        detach: bool,
        done: dict[int, Any] | None,
    ) -> None:
        self.target = target
        self.copy = copy
        self.device: Device | None = None if device is None else as_device(device)
        if self.device not in (None, cpu) and not target.devices:
            raise ValueError(f"{target.name} has no memory on {self.device}")
        self.detach = detach
        self.dtype: DType | None = None
        self.dtypes: dict[DType, DType] = {}
        if hasattr(dtype, "items"):
            self.dtypes = {as_dtype(old): as_dtype(new) for old, new in dtype.items()}
        elif dtype is not None:
            self.dtype = as_dtype(dtype)
        self.shares_only: bool = not copy and dtype is None and device is None
        # id of a tensor -> what becomes of it
        self.done: dict[int, Any] = {} if done is None else done
        self.deferred = False  # whether a first walk has met what has to be copied

    def plain(self, x: Any) -> Any:
        """Give a tensor that is no part of autograd, where that was asked for."""
        detached = frameworks.detacher(type(x)) if self.detach else None
        return x if detached is None else detached(x)

    def seen(self, x: Any) -> Tensor:
        """See a tensor's own memory."""
        try:
            return _core.shared(self.plain(x))
        except BufferError as error:
            reasons = getattr(getattr(error, "plan", None), "reasons", ())
            if any(reason.code == "requires_grad" for reason in reasons):
                error.args = (f"{error}; or detach=True, for the whole tree",)
            raise

    def dtype_for(self, t: Tensor) -> DType | None:
        """Give the dtype a tensor is wanted in; None for its own."""
        return self.dtype or self.dtypes.get(t.dtype)


class Failed(Exception):
    """A tensor, and what was raised over it."""


class _Leaf:
    """A tensor that may have to be copied, the memory it shows, and what it needs."""

    __slots__ = ("dtype", "high", "low", "needs_copy", "own_copy", "t", "x")

    def __init__(self, x: Any, t: Tensor, dtype: DType | None) -> None:
        self.x: Any = x
        self.t: Tensor = t
        self.dtype: DType | None = dtype  # that it is cast to
        self.needs_copy: bool = dtype is not None
        self.own_copy: bool = t.dtype.bits * t.dtype.lanes < 8 or not t.size
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
    def once(self) -> tuple[slice, ...]:
        """The index of what it shows once: an axis of stride 0 shows the same elements again."""
        return tuple([slice(None if stride else 1) for stride in self.t.stride])

    @property
    def sight(self) -> tuple[object, ...]:
        """What two tensors have in common that show the same elements in the same way."""
        t = self.t
        return t.device, t.data_ptr(), t.shape, t.stride, t.dtype

    @property
    def order(self) -> tuple[object, ...]:
        """Where its memory is among others that could be copied together with it."""
        return *self.t.device.dlpack, -1 if self.dtype is None else self.t.dtype.id, self.low


class _Span:
    """A range of memory on the host, and who keeps it alive."""

    __slots__ = ("__array_interface__", "_kept")

    def __init__(self, low: int, high: int, read_only: bool, kept: object) -> None:
        self.__array_interface__ = {
            "data": (low, read_only),
            "shape": (high - low,),
            "typestr": "|u1",
            "version": 3,
        }
        self._kept = kept


class Copies:
    """The tensors of a tree, grouped by memory; `make` copies those that need it."""

    def __init__(self, wanted: Wanted, xs: list[Any]) -> None:
        self.wanted = wanted
        self.target: Target = wanted.target
        self.done: dict[int, Any] = wanted.done
        self.seen: dict[tuple[object, ...], Any] = {}
        # Bytes, a tensor, and what to do with what.
        self.work: list[tuple[int, Any, Callable[..., object], Any]] = []
        leaves = []
        with trying():
            for x in xs:
                try:
                    leaf = self.look_at(x)
                except BufferError as error:
                    raise Failed(x, error) from None
                if leaf is not None:
                    leaves.append(leaf)
        for group in _overlapping(leaves):
            self.plan(group)

    def make(self) -> None:
        """Make them; Failed says over which tensor."""
        with _Progress(sum(each[0] for each in self.work)) as advance:
            for size, x, do, what in self.work:
                try:
                    do(self, what)
                except BufferError as error:
                    raise Failed(x, error) from None
                advance(size)

    def look_at(self, x: Any) -> _Leaf | None:
        """Share a tensor if that is all it needs; None where it goes its own way.

        In a context in which a CopyError leads to another try.
        """
        wanted, target = self.wanted, self.target
        try:
            # After a first walk it has been told that this came in.
            t = _core.quietly(wanted.seen, x) if wanted.deferred else wanted.seen(x)
        except CopyError as error:  # its memory does not hold its elements as they are
            plain = wanted.plain(x)
            self.work.append((error.plan.nbytes, x, Copies.copy_alone, (x, plain)))
            return None
        dtype = wanted.dtype_for(t)
        leaf = _Leaf(x, t, None if dtype is t.dtype else dtype)
        if wanted.copy or wanted.device not in (None, t.device):
            leaf.needs_copy = True
        if leaf.needs_copy or id(x) in self.done:
            return leaf
        if isinstance(x, target.types):
            self.done[id(x)] = wanted.plain(x)
            return leaf
        try:
            self.done[id(x)] = target.share(t)
        except CopyError as error:
            leaf.needs_copy = True
            if not _LAYOUT.isdisjoint(reason.code for reason in error.plan.reasons):
                leaf.own_copy = True
        return leaf

    def plan(self, group: list[_Leaf]) -> None:
        """Decide how tensors that show one range of memory are copied."""
        together = [leaf for leaf in group if not leaf.own_copy] if self.target.views else []
        if (
            len(together) > 1
            and any(leaf.needs_copy for leaf in together)
            and self.add_together(together)
        ):
            group = [leaf for leaf in group if leaf.own_copy]
        for leaf in group:
            if leaf.needs_copy:
                self.add_alone(leaf)

    def add_together(self, leaves: list[_Leaf]) -> bool:
        """Plan to copy tensors so that they go on sharing memory, if that can be done."""
        low = leaves[0].low
        high = max(leaf.high for leaf in leaves)
        first = leaves[0]
        if first.dtype is not None and any((leaf.low - low) % first.t.itemsize for leaf in leaves):
            return False
        if _is_filled(leaves, high):
            t = self.memory(leaves, low, high)
            if t is None:
                return False
            self.work.append((high - low, first.x, Copies.copy_together, (leaves, t, low)))
            return True
        wanted = self.wanted
        read_only = self.target.demand is not None and any(leaf.t.readonly for leaf in leaves)
        copied = wanted.copy or first.dtype is not None or read_only
        on_host = first.t.device.on_host and self.place_of(first.t) in (None, cpu)
        if not copied or not on_host:
            return False
        shown = sum({leaf.sight: leaf.t[leaf.once].nbytes for leaf in leaves}.values())
        if shown < LEAST_SHOWN * (high - low):
            return False
        self.work.append((shown, first.x, Copies.copy_each_into_one, (leaves, low, high)))
        return True

    def add_alone(self, leaf: _Leaf) -> None:
        """Plan to copy a tensor by itself."""
        self.work.append((leaf.t.nbytes, leaf.x, Copies.copy_once, leaf))

    def copy_once(self, leaf: _Leaf) -> None:
        """Copy a tensor by itself; those that show the same become the same object."""
        known = self.seen.get(leaf.sight)
        if known is not None:
            self.done[id(leaf.x)] = known
            return
        self.seen[leaf.sight] = self.copy_alone((leaf.x, leaf.t))

    def copy_alone(self, what: tuple[Any, Any]) -> Any:
        """Copy a tensor by itself, given what is seen of it too, or else how it can be read."""
        x, source = what
        wanted = self.wanted
        dtype = wanted.dtype
        seen = isinstance(source, _core.Tensor)
        if wanted.dtypes:
            source = source if seen else _asarray(source)
            dtype = wanted.dtype_for(source)
        t = source
        if not (seen and wanted.shares_only):
            device = self.place_of(source) if seen else wanted.device
            t = _asarray(source, dtype=dtype, device=device, copy=wanted.copy)
        self.done[id(x)] = result = self.target.give(t, None)
        return result

    def place_of(self, t: Tensor) -> Device | None:
        """Say where a copy is made: at once where it is wanted, or where the framework has memory.

        None: where the tensor is.
        """
        if self.wanted.device is None and not self.target.devices and not t.device.on_host:
            return cpu
        return self.wanted.device

    def memory(self, leaves: list[_Leaf], low: int, high: int) -> Tensor | None:
        """See a range of memory as elements of the one dtype that is cast, else as bytes."""
        first = leaves[0].t
        if first.device.on_host:
            read_only = any(leaf.t.readonly for leaf in leaves)
            t = _core.quietly(_asarray, _Span(low, high, read_only, leaves))
        else:  # only a tensor over all of it can stand for it
            whole = next((leaf.t for leaf in leaves if leaf.t.nbytes == high - low), None)
            if whole is None or not (whole.is_contiguous() or whole.is_fortran_contiguous()):
                return None
            flat = _core.restride(whole, (whole.size,), (1,))
            t = _core.reinterpret(flat, uint8.id)
        return t if leaves[0].dtype is None else _core.reinterpret(t, first.dtype.id)

    def copy_together(self, what: tuple[list[_Leaf], Tensor, int]) -> None:
        """Copy a range of memory, and give the tensors as views of the copy."""
        leaves, t, low = what
        wanted, target = self.wanted, self.target
        dtype = leaves[0].dtype
        block = t
        device = self.place_of(t)
        if device is not None or not wanted.shares_only:
            block = _asarray(t, dtype=dtype, device=device, copy=wanted.copy)
        if target.demand is not None and block.readonly:
            if target.tell is not None:
                target.tell()
            block = _core.conform(block, target.demand, None)
        self.give_views(leaves, block, low)

    def copy_each_into_one(self, what: tuple[list[_Leaf], int, int]) -> None:
        """Copy tensors, and give them as views of one block; what none of them shows is 0 there."""
        leaves, low, high = what
        first = leaves[0]
        if first.dtype is None:
            block = _core.empty((high - low,), uint8.id)
        else:
            block = _core.empty(((high - low) // first.t.itemsize,), first.dtype.id)
        _core.fill(block, 0)
        for leaf in {leaf.sight: leaf for leaf in leaves}.values():
            copy = self.copy_of(leaf.t[leaf.once], leaf.dtype)
            _core.quietly(_core.copy_into, _view_of(block, leaf, low)[leaf.once], copy)
        self.give_views(leaves, block, low)

    def copy_of(self, t: Tensor, dtype: DType | None) -> Tensor:
        """Copy one of several tensors, to the host, for the reason that all are copied."""
        demand = self.target.demand
        if self.wanted.copy or dtype is not None or demand is None:
            return _asarray(t, dtype=dtype, copy=self.wanted.copy)
        if self.target.tell is not None:
            self.target.tell()
        return _core.conform(_core.frozen(t), demand, None)

    def give_views(self, leaves: list[_Leaf], block: Tensor, low: int) -> None:
        """Give tensors as views of the copy of the memory that they show."""
        for leaf in leaves:
            try:
                with trying():
                    self.done[id(leaf.x)] = self.target.share(_view_of(block, leaf, low))
            except CopyError:  # a layout that the framework does not have
                self.copy_once(leaf)


def _view_of(block: Tensor, leaf: _Leaf, low: int) -> Tensor:
    """See in a copy of memory what a tensor shows of the memory, which began at `low`."""
    t = leaf.t
    elements, begin = block, low
    if leaf.dtype is None:
        elements = _core.reinterpret(block[leaf.low - low : leaf.high - low], t.dtype.id)
        begin = leaf.low
    return _core.restride(elements, t.shape, t.stride, (t.data_ptr() - begin) // t.itemsize)


def _is_filled(leaves: list[_Leaf], high: int) -> bool:
    """Tell whether the dense ones, in order of memory, show all between the ends of all."""
    reach = leaves[0].low
    for leaf in leaves:
        if leaf.low <= reach and leaf.is_dense:
            reach = max(reach, leaf.high)
    return reach == high


def _overlapping(leaves: list[_Leaf]) -> Iterator[list[_Leaf]]:
    """Group tensors whose ranges of memory overlap; those of each group by where they begin."""
    group: list[_Leaf] = []
    high = 0
    for leaf in sorted(leaves, key=lambda leaf: leaf.order):
        if group and (leaf.order[:-1] != group[0].order[:-1] or leaf.low >= high):
            yield group
            group = []
        high = max(high, leaf.high) if group else leaf.high
        group.append(leaf)
    if group:
        yield group


class _Progress:
    """A progress bar over bytes, where there is much to copy and tqdm is there."""

    def __init__(self, total: int) -> None:
        self.bar: Any = None
        if total > PROGRESS_BYTES:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self.bar = tqdm(total=total, unit="B", unit_scale=True, desc="candle.convert")

    def __enter__(self) -> Callable[[int], object]:
        return (lambda size: None) if self.bar is None else self.bar.update

    def __exit__(self, *exc_info: object) -> None:
        if self.bar is not None:
            self.bar.close()
