"""Whole structures: every tensor in a tree to one framework."""

from __future__ import annotations

from . import frameworks
from ._native import _core
from .copies import Copies, Failed, Wanted
from .ledger import trying
from .plan import CopyError
from .trees import Walk, of_class, path_to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._native._core import Tensor
    from .frameworks.target import Target
    from .trees import Action

__all__ = ["Conversion", "convert", "is_tensor_type"]

_asarray = _core.asarray

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
        classes, ordered and other mappings, deques and plain namespaces, in any depth; or one
        tensor. Sets, iterators and objects of other classes are left alone, with all that is in
        them.
    to : str or module
        The framework: ``"torch"``, ``"numpy"``, ``"jax"``, ``"cupy"``, ``"tensorflow"``,
        ``"paddle"``, ``"mlx"``, ``"warp"``, ``"tvm_ffi"``, ``"hf_candle"`` or ``"candle"``, or its
        module.
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
        known = any(
            of_class(cls, name) is not None for name in _PROTOCOLS
        ) and not frameworks.is_number(cls)
        known = known or frameworks.is_mute(cls)
        if len(_known) >= 256:  # it keeps the types alive
            _known.clear()
        _known[cls] = known
    return known


def _in_tree(path: str) -> str:
    return f"this tensor is at tree{path}" if path else ""


class Conversion(Wanted):
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
        numbers: bool = False,
        where: Callable[[str], str] = _in_tree,
    ) -> None:
        super().__init__(target, copy, dtype, device, detach, done)
        self.numbers = numbers  # whether what numpy gives in place of arrays without axes counts
        self.where = where  # what is said of a path, in an exception's note

    def run(self, tree: Any) -> Any:
        """Give the tree, converted."""
        if self.shares_only or self.copy is False:
            converted = self.walk(Walk(self.shared_leaf), tree)
            if not self.deferred:
                return converted
        leaves: dict[int, Any] = {}

        def gather(x: Any) -> Any:
            leaves.setdefault(id(x), x)
            return x

        gathering = Walk(lambda cls: None if self.shared_leaf(cls) is None else gather)
        gathering(tree)
        try:
            Copies(self, list(leaves.values())).make()
        except Failed as failed:
            x, error = failed.args
            self.add_path(error, path_to(x, tree, self.shared_leaf))
            raise error from None

        def look_up(x: Any) -> Any:
            key = id(x)
            if key not in self.done:  # a container that makes its members anew each time
                leaves[-len(leaves)] = x  # kept alive
                Copies(self, [x]).make()
            return self.done[key]

        return self.walk(Walk(lambda cls: self.shared_leaf(cls) and look_up), tree)

    def walk(self, walk: Walk, tree: Any) -> Any:
        """Walk, and say in an exception where it was raised."""
        try:
            return walk(tree)
        except Exception as error:
            self.add_path(error, "".join(walk.path))
            raise

    def shared_leaf(self, cls: type) -> Action | None:
        """Give the function that shares tensors of a type; None if they are to be left alone."""
        if not (is_tensor_type(cls) or (self.numbers and frameworks.is_array_of_one(cls))):
            return None
        if self.shares_only and issubclass(cls, self.target.types):
            return frameworks.detacher(cls) if self.detach else None
        if self.copy is False:
            return _core.sharer(self.done, self.detach, self.share_or_raise, self.share_slowly)
        share: Any = self.target.natively or self.target.share  # a name only where the core has it
        return _core.sharer(self.done, self.detach, share, self.share_slowly)

    def share_slowly(self, x: Any) -> Any:
        """Share a tensor again, after a refusal: detached, in better words, or later."""
        try:
            if self.copy is False:
                result = self.share_or_raise(self.taken(x))
            else:
                with trying():
                    result = self.target.share(self.taken(x))
        except CopyError:
            if self.copy is False:
                raise
            self.deferred = True
            return x
        self.done[id(x)] = result
        return result

    def share_or_raise(self, t: Tensor) -> Any:
        """Give a tensor on, as it is wanted, without a copy."""
        if not self.shares_only:
            t = _asarray(t, dtype=self.dtype_for(t), device=self.device, copy=False)
        return self.target.give(t, False)

    def add_path(self, error: Exception, path: str) -> None:
        """Say in an exception where its tensor is."""
        note = self.where(path)
        if note:
            error.add_note(note)
