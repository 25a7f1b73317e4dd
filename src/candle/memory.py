"""Whose memory, and whether two tensors lie in the same: across frameworks."""

from __future__ import annotations

from . import frameworks
from ._native import _core
from .devices import as_device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["owner", "shares_memory"]

_CUDA = (2, 13)  # DLPack's types of memory in CUDA's address space, which is one for all devices
_WORK = 1_000_000  # what the exact answer may cost: some 10 ms


def shares_memory(a: object, b: object) -> bool:
    """Tell whether two tensors, of any frameworks, have a byte in common. Nothing is moved.

    Exact where the byte ranges of the two do not overlap, where the elements of both lie without
    gaps, and, by numpy's solver, for other layouts, unless that takes more than some milliseconds
    (layouts of many axes made for that purpose do) or elements are smaller than a byte. Then byte
    ranges decide: True may be wrong, False never is.

    Parameters
    ----------
    a, b
        Anything with memory that `candle.asarray` knows how to find, whether or not it could share
        it: tensors that require grad and conjugate views too.

    Returns
    -------
    bool
        False for empty tensors, which have no byte.

    Raises
    ------
    TypeError
        For what has no memory of its own: lists, numbers.
    BufferError
        For what candle always refuses: sparse tensors, masked arrays; and for what is handed on as
        a copy only: jax's integers of four bits, objects whose ``__array__`` refuses
        ``copy=False`` or does not know it.

    Notes
    -----
    `candle.testing.shares_memory` is for tests: it asks none of candle's code, and writes.

    Examples
    --------
    >>> import candle, numpy
    >>> a = numpy.zeros(8)
    >>> t = candle.from_dlpack(a)
    >>> candle.shares_memory(t[::2], a), candle.shares_memory(t[::2], a[1::2])
    (True, False)
    """
    first, second = _Layout(*_core.memory_of(a)), _Layout(*_core.memory_of(b))
    if first.empty or second.empty:
        return False
    if first.space != second.space or first.high <= second.low or second.high <= first.low:
        return False
    if first.dense and second.dense:
        return True
    if first.bits % 8 or second.bits % 8:
        return True
    return _exactly(first, second)


class _Layout:
    """The bytes a tensor lies in; axes that nobody walks are left out."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        bits: int,
        device_type: int,
        device: int,
    ) -> None:
        self.address, self.bits = address, bits
        self.space: object = (device_type, device)
        if device_type in _CUDA:
            self.space = "cuda"
        elif as_device((device_type, device)).on_host:
            self.space = "host"
        axes = sorted((abs(s), n, s) for n, s in zip(shape, strides, strict=True) if n > 1)
        self.axes = [(n, stride // 8) for _, n, stride in axes]
        self.empty = 0 in shape
        low = sum((n - 1) * s for _, n, s in axes if s < 0)
        high = sum((n - 1) * s for _, n, s in axes if s > 0) + bits
        self.low = address + low // 8
        self.high = address - -high // 8
        reach = bits
        self.dense = True
        for step, n, _ in axes:  # no gap: each axis steps no further than those within it reach
            self.dense &= step <= reach
            reach += (n - 1) * step

    def array(self) -> Any:
        """See the bytes as an array of numpy's, which is never read."""
        import numpy as np

        class Bytes:
            __array_interface__ = {  # noqa: RUF012
                "data": (self.address, True),
                "shape": (*(n for n, _ in self.axes), self.bits // 8),
                "strides": (*(step for _, step in self.axes), 1),
                "typestr": "|u1",
                "version": 3,
            }

        return np.asarray(Bytes())


def _exactly(first: _Layout, second: _Layout) -> bool:
    import numpy as np

    # Axes are at most 62, of 2 elements and more each: numpy takes 64, with one for the bytes.
    solve: Any = np.shares_memory  # its stub knows no number
    try:
        return bool(solve(first.array(), second.array(), max_work=_WORK))
    except np.exceptions.TooHardError:
        return True


def owner(x: object) -> object:
    """Give the object that the memory of a tensor belongs to in the end, as far as can be known.

    Parameters
    ----------
    x
        A tensor of any framework, or a memoryview.

    Returns
    -------
    object
        What is reached from `x` by numpy's ``base``, a memoryview's ``obj``, torch's
        ``untyped_storage()``, and by what candle holds for a Tensor. `x` itself, or the last object
        reached, where the trail ends: memory that candle allocated (of which each view is an
        owner), arrays of jax, and memory that came by a DLPack capsule, which does not tell.

    Examples
    --------
    >>> import candle, numpy
    >>> data = bytearray(8)
    >>> candle.owner(candle.asarray(numpy.frombuffer(data, "uint8"))[2:]) is data
    True
    """
    trail = [x]
    while True:
        behind = _behind(x)
        if behind is None or any(behind is each for each in trail):
            return x
        trail.append(x := behind)


def _behind(x: object) -> object:
    if isinstance(x, memoryview):
        return x.obj
    kept = _core.keeper(x)
    if isinstance(kept, tuple):  # an array interface's: the object, and what the interface holds
        return kept[0]
    return frameworks.owner(x) if kept is None else kept
