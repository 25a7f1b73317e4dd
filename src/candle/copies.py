"""The copies that a tree needs: each block of memory once, whatever tensors show it."""

from __future__ import annotations

from . import frameworks
from ._native import _core
from .devices import as_device, cpu
from .dtypes import as_dtype, uint8
from .leaves import Leaf, Span, is_filled, overlapping, view_of
from .ledger import trying
from .plan import CopyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
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

    def detached(self, x: Any) -> Any:
        """Give a tensor that is no part of autograd, where that was asked for."""
        detach = frameworks.detacher(type(x)) if self.detach else None
        return x if detach is None else detach(x)

    def taken(self, x: Any) -> Tensor:
        """Take a tensor in, over its own memory."""
        try:
            return _core.shared(self.detached(x))
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


class _Task:
    """One copy that is to be made.

    Attributes
    ----------
    nbytes : int
        What it takes, for the progress that is shown.
    x : object
        The tensor that is named if it fails.
    make : callable
        Makes it, given the `Copies` that it is one of.
    """

    __slots__ = ("make", "nbytes", "x")

    def __init__(self, nbytes: int, x: Any, make: Callable[[Copies], object]) -> None:
        self.nbytes: int = nbytes
        self.x: Any = x
        self.make: Callable[[Copies], object] = make


class Copies:
    """The tensors of a tree, grouped by memory: shared if they can be, else planned to be copied.

    `make` carries the plan out. What becomes of each tensor is written down in ``wanted.done``.
    """

    def __init__(self, wanted: Wanted, xs: list[Any]) -> None:
        self.wanted = wanted
        self.target: Target = wanted.target
        self.done: dict[int, Any] = wanted.done
        self.copied: dict[tuple[object, ...], Any] = {}  # a leaf's view -> what became of it
        self.tasks: list[_Task] = []
        leaves = []
        with trying():
            for x in xs:
                try:
                    leaf = self.share_or_defer(x)
                except BufferError as error:
                    raise Failed(x, error) from None
                if leaf is not None:
                    leaves.append(leaf)
        for group in overlapping(leaves):
            self.plan(group)

    def make(self) -> None:
        """Make the copies; Failed says over which tensor."""
        with _Progress(sum(task.nbytes for task in self.tasks)) as advance:
            for task in self.tasks:
                try:
                    task.make(self)
                except BufferError as error:
                    raise Failed(task.x, error) from None
                advance(task.nbytes)

    # What is to be copied, and how.

    def share_or_defer(self, x: Any) -> Leaf | None:
        """Share a tensor if that is all it needs; None where it is copied as it comes in.

        In a context in which a CopyError leads to another try.
        """
        wanted, target = self.wanted, self.target
        try:
            # After a first walk it has been told that this came in.
            t = _core.quietly(wanted.taken, x) if wanted.deferred else wanted.taken(x)
        except CopyError as error:  # its memory does not hold its elements as they are
            source = wanted.detached(x)
            self.add(error.plan.nbytes, x, lambda copies: copies.copy_coming_in(x, source))
            return None
        dtype = wanted.dtype_for(t)
        leaf = Leaf(x, t, None if dtype is t.dtype else dtype)
        if wanted.copy or wanted.device not in (None, t.device):
            leaf.needs_copy = True
        if leaf.needs_copy or id(x) in self.done:
            return leaf
        if isinstance(x, target.types):
            self.done[id(x)] = wanted.detached(x)
            return leaf
        try:
            self.done[id(x)] = target.share(t)
        except CopyError as error:
            leaf.needs_copy = True
            if not _LAYOUT.isdisjoint(reason.code for reason in error.plan.reasons):
                leaf.by_itself = True
        return leaf

    def plan(self, group: list[Leaf]) -> None:
        """Decide how tensors that show one range of memory are copied."""
        together = [leaf for leaf in group if not leaf.by_itself] if self.target.views else []
        if (
            len(together) > 1
            and any(leaf.needs_copy for leaf in together)
            and self.plan_together(together)
        ):
            group = [leaf for leaf in group if leaf.by_itself]
        for leaf in group:
            if leaf.needs_copy:
                self.plan_alone(leaf)

    def plan_together(self, leaves: list[Leaf]) -> bool:
        """Plan to copy tensors so that they go on sharing memory, if that can be done."""
        first = leaves[0]
        low, high = first.low, max(leaf.high for leaf in leaves)
        if first.dtype is not None and any((leaf.low - low) % first.t.itemsize for leaf in leaves):
            return False
        if is_filled(leaves, high):
            span = self.memory(leaves, low, high)
            if span is None:
                return False
            self.add(high - low, first.x, lambda copies: copies.copy_span(leaves, span, low))
            return True
        wanted = self.wanted
        read_only = self.target.demand is not None and any(leaf.t.readonly for leaf in leaves)
        copied = wanted.copy or first.dtype is not None or read_only
        on_host = first.t.device.on_host and self.device_for(first.t) in (None, cpu)
        if not copied or not on_host:
            return False
        shown = sum({leaf.view: leaf.t[leaf.without_repeats].nbytes for leaf in leaves}.values())
        if shown < LEAST_SHOWN * (high - low):
            return False
        self.add(shown, first.x, lambda copies: copies.copy_into_one_block(leaves, low, high))
        return True

    def plan_alone(self, leaf: Leaf) -> None:
        """Plan to copy a tensor by itself."""
        self.add(leaf.t.nbytes, leaf.x, lambda copies: copies.copy_once(leaf))

    def add(self, nbytes: int, x: Any, make: Callable[[Copies], object]) -> None:
        """Plan one copy; `make` holds no reference to this object, which holds it."""
        self.tasks.append(_Task(nbytes, x, make))

    def memory(self, leaves: list[Leaf], low: int, high: int) -> Tensor | None:
        """Give a range of memory as elements of the one dtype that is cast, else as bytes."""
        first = leaves[0].t
        if first.device.on_host:
            read_only = any(leaf.t.readonly for leaf in leaves)
            t = _core.quietly(_asarray, Span(low, high, read_only, leaves))
        else:  # only a tensor over all of it can stand for it
            whole = next((leaf.t for leaf in leaves if leaf.t.nbytes == high - low), None)
            if whole is None or not (whole.is_contiguous() or whole.is_fortran_contiguous()):
                return None
            flat = _core.restride(whole, (whole.size,), (1,))
            t = _core.reinterpret(flat, uint8.id)
        return t if leaves[0].dtype is None else _core.reinterpret(t, first.dtype.id)

    def device_for(self, t: Tensor) -> Device | None:
        """Say where a copy is made: at once where it is wanted, or where the framework has memory.

        None: where the tensor is.
        """
        if self.wanted.device is None and not self.target.devices and not t.device.on_host:
            return cpu
        return self.wanted.device

    # The copies themselves.

    def copy_coming_in(self, x: Any, source: Any) -> None:
        """Copy a tensor that cannot be taken in as it is."""
        wanted = self.wanted
        dtype = wanted.dtype
        if wanted.dtypes:
            source = _asarray(source)
            dtype = wanted.dtype_for(source)
        t = _asarray(source, dtype=dtype, device=wanted.device, copy=wanted.copy)
        self.done[id(x)] = self.target.give(t, None)

    def copy_once(self, leaf: Leaf) -> None:
        """Copy a tensor by itself; those that show the same become the same object."""
        if leaf.view not in self.copied:
            t = leaf.t
            if not self.wanted.shares_only:
                dtype, device = self.wanted.dtype_for(t), self.device_for(t)
                t = _asarray(t, dtype=dtype, device=device, copy=self.wanted.copy)
            self.copied[leaf.view] = self.target.give(t, None)
        self.done[id(leaf.x)] = self.copied[leaf.view]

    def copy_span(self, leaves: list[Leaf], span: Tensor, low: int) -> None:
        """Copy a range of memory, and give the tensors as views of the copy."""
        block = span
        device = self.device_for(span)
        if device is not None or not self.wanted.shares_only:
            dtype = leaves[0].dtype
            block = _asarray(span, dtype=dtype, device=device, copy=self.wanted.copy)
        if self.target.demand is not None and block.readonly:
            self.tell_read_only()
            block = _core.conform(block, self.target.demand, None)
        self.give_views(leaves, block, low)

    def copy_into_one_block(self, leaves: list[Leaf], low: int, high: int) -> None:
        """Copy tensors, and give them as views of one block; what none of them shows is 0 there."""
        first = leaves[0]
        if first.dtype is None:
            block = _core.empty((high - low,), uint8.id)
        else:
            block = _core.empty(((high - low) // first.t.itemsize,), first.dtype.id)
        _core.fill(block, 0)
        for leaf in {leaf.view: leaf for leaf in leaves}.values():
            copy = self.copy_of(leaf.t[leaf.without_repeats], leaf.dtype)
            place = view_of(block, leaf, low)[leaf.without_repeats]
            _core.quietly(_core.copy_into, place, copy)
        self.give_views(leaves, block, low)

    def copy_of(self, t: Tensor, dtype: DType | None) -> Tensor:
        """Copy one of several tensors, to the host, for the reason that all are copied."""
        demand = self.target.demand
        if self.wanted.copy or dtype is not None or demand is None:
            return _asarray(t, dtype=dtype, copy=self.wanted.copy)
        self.tell_read_only()
        return _core.conform(_core.frozen(t), demand, None)

    def tell_read_only(self) -> None:
        """Tell that read-only memory is copied, where the framework's users are told."""
        if self.target.tell is not None:
            self.target.tell()

    def give_views(self, leaves: list[Leaf], block: Tensor, low: int) -> None:
        """Give tensors as views of the copy of the memory that they show."""
        for leaf in leaves:
            try:
                with trying():
                    self.done[id(leaf.x)] = self.target.share(view_of(block, leaf, low))
            except CopyError:  # a layout that the framework does not have
                self.copy_once(leaf)


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
