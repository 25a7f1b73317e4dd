"""Whole structures: every tensor in a tree to one framework."""

from __future__ import annotations

from . import frameworks
from ._native import _core
from .devices import as_device, cpu
from .dtypes import as_dtype, uint8
from .ledger import trying
from .plan import CopyError
from .trees import Walk, path_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    from ._native._core import Tensor
    from .dtypes import DType
    from .frameworks.target import Target
    from .trees import Action

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["Conversion", "convert", "is_tensor_type"]

_asarray = _core.asarray

# A tree with more bytes to copy than this shows its progress: about a second's worth.
PROGRESS_BYTES = 4 << 30

# Reasons that lie in one tensor's own layout: other memory under it does not put them right.
_LAYOUT = frozenset({"alignment", "negative_stride", "not_dense", "packed"})

_PROTOCOLS = (
    "__dlpack__",
    "__dlpack_c_exchange_api__",
    "__cuda_array_interface__",
    "__array_interface__",
    "__array_struct__",
)


def convert(
    tree: Any,
    to: object,
    *,
    copy: bool | None = None,
    dtype: Any = None,
    device: object = None,
    detach: bool = False,
) -> Any:
    """Give every tensor in a structure to one framework.

    Parameters
    ----------
    tree
        Tensors of any frameworks, mixed, in dicts, lists, tuples, named tuples, dataclasses, attrs
        classes, ordered and other mappings, in any depth; or one tensor.
    to : str or module
        The framework: ``"torch"``, ``"numpy"``, ``"jax"``, ``"cupy"``, ``"tvm_ffi"`` or
        ``"candle"``, or its module.
    copy : bool, optional
        None: share what can be shared, copy the rest. False: share, or raise. True: copy all.
    dtype : optional
        The dtype of every tensor; or a mapping of dtypes to dtypes, for those that are in it, such
        as ``{"float64": "float32"}``.
    device : optional
        Where every tensor is wanted. Default: where it is, if the framework has memory there.
    detach : bool
        Take tensors that require grad out of autograd. Otherwise they are refused.

    Returns
    -------
    object
        The same structure. Objects that are no tensors, tensors that are the framework's already
        (unless something else is asked of them), and containers in which nothing changed are the
        very same objects; other containers are new ones of the same type. The tree is not written
        to. An object that is in the tree twice is one object in the result.

    Raises
    ------
    CopyError
        With ``copy=False``, where a tensor cannot be shared.
    BufferError
        Where one cannot be given to the framework at all. A note says where in the tree it is.
    TypeError
        For a mapping or sequence that cannot be rebuilt.

    Notes
    -----
    Tensors that show the same memory go on doing so, also where it has to be copied: it is copied
    once, from the first byte they show to the last, and the results are views of the copy. The
    exceptions are tensors whose layout the framework does not have (a reversed view for torch; jax
    has no views at all) or that do not hold their values as they lie in memory (torch's
    conjugates, foreign byte order): each of those is copied by itself.

    Examples
    --------
    >>> import candle, numpy
    >>> batch = {"x": numpy.zeros(3), "ids": [numpy.arange(2)], "name": "a"}
    >>> given = candle.convert(batch, "candle")
    >>> given["ids"][0], given["name"]
    (tensor([0, 1], dtype=int64), 'a')
    """
    return Conversion(frameworks.target_of(to), copy, dtype, device, detach).run(tree)


_known: dict[type, bool] = {}


def is_tensor_type(cls: type) -> bool:
    """Tell whether objects of a type are tensors, of any framework."""
    known = _known.get(cls)
    if known is None:
        known = any(hasattr(cls, name) for name in _PROTOCOLS) and not frameworks.is_number(cls)
        if len(_known) == 256:  # it keeps the types alive
            _known.clear()
        _known[cls] = known
    return known


class Conversion:
    """One call of `convert`.

    The tree is walked once, and each tensor shared where it is met. If one cannot be, or more than
    sharing was asked for, all tensors are gathered, grouped by the memory they show, and copied;
    then the tree is walked again.
    """

    def __init__(
        self,
        target: Target,
        copy: bool | None = None,
        dtype: Any = None,
        device: object = None,
        detach: bool = False,
        done: dict[int, Any] | None = None,
    ) -> None:
        self.target = target
        self.copy = copy
        self.device = None if device is None else as_device(device)
        if self.device not in (None, cpu) and not target.devices:
            raise ValueError(f"{target.name} has no memory on {self.device}")
        self.detach = detach
        self.dtype: DType | None = None
        self.dtypes: dict[DType, DType] = {}
        if hasattr(dtype, "items"):
            self.dtypes = {as_dtype(old): as_dtype(new) for old, new in dtype.items()}
        elif dtype is not None:
            self.dtype = as_dtype(dtype)
        self.shares_only = not copy and dtype is None and device is None
        self.done = {} if done is None else done  # id of a tensor -> what becomes of it
        self.deferred = False

    def run(self, tree: Any) -> Any:
        """Give the tree, converted."""
        first = Walk(self.shared_leaf)
        if self.shares_only or self.copy is False:
            converted = self.walk(first, tree)
            if not self.deferred:
                return converted
        leaves: dict[int, Any] = {}

        def gather(x: Any) -> Any:
            leaves.setdefault(id(x), x)
            return x

        gathering = Walk(lambda cls: None if self.shared_leaf(cls) is None else gather)
        gathering(tree)
        try:
            _Copies(self, list(leaves.values())).make()
        except _Failed as failed:
            x, error = failed.args
            _add_path(error, path_to(x, tree, self.shared_leaf))
            raise error from None

        def look_up(x: Any) -> Any:
            key = id(x)
            if key not in self.done:  # a container that makes its members anew each time
                leaves[-len(leaves)] = x  # kept alive
                _Copies(self, [x]).make()
            return self.done[key]

        return self.walk(Walk(lambda cls: self.shared_leaf(cls) and look_up), tree)

    def walk(self, walk: Walk, tree: Any) -> Any:
        """Walk, and say in an exception where it was raised."""
        try:
            return walk(tree)
        except Exception as error:
            _add_path(error, "".join(walk.path))
            raise

    def shared_leaf(self, cls: type) -> Action | None:
        """Give the function that shares tensors of a type; None if they are to be left alone."""
        if not is_tensor_type(cls):
            return None
        if self.shares_only and issubclass(cls, self.target.types):
            return frameworks.detacher(cls) if self.detach else None
        if self.copy is False:
            return _core.sharer(self.done, self.detach, self.share_or_raise, self.share_slowly)
        share = self.target.natively or self.target.share
        return _core.sharer(self.done, self.detach, share, self.share_slowly)

    def share_slowly(self, x: Any) -> Any:
        """Share a tensor again, after a refusal: detached, in better words, or later."""
        try:
            if self.copy is False:
                result = self.share_or_raise(self.seen(x))
            else:
                with trying():
                    result = self.target.share(self.seen(x))
        except CopyError:
            if self.copy is False:
                raise
            self.deferred = True
            return x
        self.done[id(x)] = result
        return result

    def seen(self, x: Any) -> Tensor:
        """See a tensor's own memory."""
        detached = frameworks.detacher(type(x))
        if self.detach and detached is not None:
            x = detached(x)
        try:
            return _core.shared(x)
        except BufferError as error:
            if detached is not None and x.requires_grad:
                error.args = (f"{error}; or detach=True, for the whole tree",)
            raise

    def share_or_raise(self, t: Tensor) -> Any:
        """Give a tensor on, as it is wanted, without a copy."""
        if not self.shares_only:
            t = _asarray(t, dtype=self.dtype_for(t), device=self.device, copy=False)
        return self.target.give(t, False)

    def dtype_for(self, t: Tensor) -> DType | None:
        """Give the dtype a tensor is wanted in; None for its own."""
        return self.dtype or self.dtypes.get(t.dtype)


class _Failed(Exception):
    """A tensor, and what was raised over it."""


def _add_path(error: Exception, path: str) -> None:
    if path:
        error.add_note(f"this tensor is at tree{path}")


class _Leaf:
    """A tensor that may have to be copied, the memory it shows, and what it needs."""

    __slots__ = ("dtype", "high", "low", "needs_copy", "own_copy", "t", "x")

    def __init__(self, x: Any, t: Tensor, dtype: DType | None) -> None:
        self.x = x
        self.t = t
        self.dtype = dtype  # that it is cast to
        self.needs_copy = dtype is not None
        self.own_copy = t.dtype.bits * t.dtype.lanes < 8 or not t.size
        self.low = self.high = t.data_ptr()
        for extent, stride in zip(t.shape, t.stride, strict=True):
            reach = (extent - 1) * stride * t.itemsize if t.size else 0
            self.low += min(reach, 0)
            self.high += max(reach, 0)
        self.high += t.itemsize if t.size else 0

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


class _Copies:
    """The tensors of a tree, grouped by memory; `make` copies those that need it."""

    def __init__(self, conversion: Conversion, xs: list[Any]) -> None:
        self.conversion = conversion
        self.target = conversion.target
        self.done = conversion.done
        self.seen: dict[tuple[object, ...], Any] = {}
        self.work: list[tuple[int, Any, Callable[[], None]]] = []  # bytes, a tensor, what to do
        leaves = []
        for x in xs:
            try:
                leaf = self.look_at(x)
            except BufferError as error:
                raise _Failed(x, error) from None
            if leaf is not None:
                leaves.append(leaf)
        for group in _overlapping(leaves):
            self.plan(group)

    def make(self) -> None:
        with _progress(sum(size for size, _, _ in self.work)) as advance:
            for size, x, do in self.work:
                try:
                    do()
                except BufferError as error:
                    raise _Failed(x, error) from None
                advance(size)

    def look_at(self, x: Any) -> _Leaf | None:
        """Share a tensor if that is all it needs; None where it goes its own way."""
        conversion, target = self.conversion, self.target
        try:
            with trying():
                # After a first walk it has been told that this came in.
                quiet = conversion.deferred
                t = _core.quietly(conversion.seen, x) if quiet else conversion.seen(x)
        except CopyError as error:  # its memory does not hold its elements as they are
            detached = frameworks.detacher(type(x)) if conversion.detach else None
            plain = x if detached is None else detached(x)
            self.work.append((error.plan.nbytes, x, lambda: self.copy_alone(x, plain)))
            return None
        wanted = conversion.dtype_for(t)
        leaf = _Leaf(x, t, None if wanted is t.dtype else wanted)
        if conversion.copy or conversion.device not in (None, t.device):
            leaf.needs_copy = True
        if leaf.needs_copy or id(x) in self.done:
            return leaf
        if isinstance(x, target.types):
            detached = frameworks.detacher(type(x)) if conversion.detach else None
            self.done[id(x)] = x if detached is None else detached(x)
            return leaf
        try:
            with trying():
                self.done[id(x)] = target.share(t)
        except CopyError as error:
            leaf.needs_copy = True
            if not _LAYOUT.isdisjoint(reason.code for reason in error.plan.reasons):
                leaf.own_copy = True
        return leaf

    def plan(self, group: list[_Leaf]) -> None:
        """Decide how tensors that show one range of memory are copied."""
        together = [leaf for leaf in group if not leaf.own_copy] if self.target.views else []
        if len(together) > 1 and any(leaf.needs_copy for leaf in together):
            low = together[0].low
            high = max(leaf.high for leaf in together)
            t = self.memory(together, low, high)
            if t is not None:
                first = together[0].x
                self.work.append((high - low, first, lambda: self.copy_together(together, t, low)))
                group = [leaf for leaf in group if leaf.own_copy]
        for leaf in group:
            if leaf.needs_copy:
                self.add_alone(leaf)

    def add_alone(self, leaf: _Leaf) -> None:
        self.work.append((leaf.t.nbytes, leaf.x, lambda: self.copy_once(leaf)))

    def copy_once(self, leaf: _Leaf) -> None:
        """Copy a tensor by itself; those that show the same become the same object."""
        known = self.seen.get(leaf.sight)
        if known is not None:
            self.done[id(leaf.x)] = known
            return
        self.seen[leaf.sight] = self.copy_alone(leaf.x, leaf.t)

    def copy_alone(self, x: Any, source: Any) -> Any:
        conversion = self.conversion
        dtype = conversion.dtype
        seen = isinstance(source, _core.Tensor)
        if conversion.dtypes:
            source = source if seen else _asarray(source)
            dtype = conversion.dtype_for(source)
        t = source
        if not (seen and conversion.shares_only):
            t = _asarray(source, dtype=dtype, device=conversion.device, copy=conversion.copy)
        self.done[id(x)] = result = self.target.give(t, None)
        return result

    def memory(self, leaves: list[_Leaf], low: int, high: int) -> Tensor | None:
        """See a range of memory as elements of the one dtype that is cast, else as bytes."""
        first = leaves[0].t
        if leaves[0].dtype is not None:
            unit = first.itemsize
            if any((leaf.low - low) % unit for leaf in leaves):
                return None
        if first.device.type in ("cpu", "cuda_host"):
            read_only = any(leaf.t.readonly for leaf in leaves)
            t = _core.quietly(_asarray, _Span(low, high, read_only, leaves))
        else:  # only a tensor over all of it can stand for it
            whole = next((leaf.t for leaf in leaves if leaf.t.nbytes == high - low), None)
            if whole is None or not (whole.is_contiguous() or whole.is_fortran_contiguous()):
                return None
            flat = _core.restride(whole, (whole.size,), (1,))
            t = _core.reinterpret(flat, uint8.id)
        return t if leaves[0].dtype is None else _core.reinterpret(t, first.dtype.id)

    def copy_together(self, leaves: list[_Leaf], t: Tensor, low: int) -> None:
        """Copy a range of memory, and give the tensors as views of the copy."""
        conversion, target = self.conversion, self.target
        dtype = leaves[0].dtype
        block = t
        if not conversion.shares_only:
            block = _asarray(t, dtype=dtype, device=conversion.device, copy=conversion.copy)
        if target.demand is not None and block.readonly:
            if target.tell is not None:
                target.tell()
            block = _core.conform(block, target.demand, None)
        elif not target.devices and block.device is not cpu:
            block = _asarray(block, device=cpu)
        for leaf in leaves:
            seen = leaf.t
            unit = seen.itemsize
            if dtype is None:
                elements = _core.reinterpret(block[leaf.low - low : leaf.high - low], seen.dtype.id)
                offset = (seen.data_ptr() - leaf.low) // unit
            else:
                elements = block
                offset = (seen.data_ptr() - low) // unit
            view = _core.restride(elements, seen.shape, seen.stride, offset)
            try:
                with trying():
                    self.done[id(leaf.x)] = target.share(view)
            except CopyError:  # a layout that the framework does not have
                self.copy_once(leaf)


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


class _progress:
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
