"""A DLPack producer whose every field can be set, to try consumers harder than frameworks do."""

from __future__ import annotations

import copy
import ctypes as C
import struct
from typing import TYPE_CHECKING, Any

from .._native import _core
from .abi import DLManagedTensor, DLManagedTensorVersioned, DLTensor, Managed
from .capsules import for_good, new_capsule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Raises = BaseException | Callable[[int, dict[str, Any]], BaseException | None]

ALIGNMENT = 256


class Notes(C.Structure):
    """What the native deleter and capsule destructor note of a producer's exports.

    ``deleted``, ``destructed``: how often each ran. ``pending``: how often the destructor found an
    exception pending. ``thread``, ``gil``, ``initialized``: where the deleter ran last, whether the
    GIL was held there (-1: no Python left), and whether Python was up.
    """

    _fields_ = [
        (name, C.c_long)
        for name in ("deleted", "destructed", "pending", "thread", "gil", "initialized")
    ]


_DELETE_LEGACY, _DELETE_VERSIONED, _DESTROY_CAPSULE = _core.counting_deleter()

# Exports outlive their producer: a deleter that is called late, or twice, is then counted and does
# not crash.
_kept: list[object] = for_good([])


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return row-major strides, in elements; an axis of extent 0 counts as 1."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(extent, 1)
    return tuple(strides)


def aligned_block(data: bytes) -> tuple[int, object]:
    """Copy `data` to an address that is a multiple of 256; returns it, and what owns it."""
    block = C.create_string_buffer(len(data) + ALIGNMENT)
    address = -(-C.addressof(block) // ALIGNMENT) * ALIGNMENT
    C.memmove(address, data, len(data))
    return address, block


class Producer:
    """An object with ``__dlpack__`` and ``__dlpack_device__`` that says whatever you want.

    Its deleter and capsule destructor are native, need no Python and take notes.

    Parameters
    ----------
    data
        Bytes to copy in (to an address that is a multiple of 256), or an address, or None for 4 KB
        of the float32 numbers 0, 1, 2, ...
    keep
        What owns the memory, where `data` is an address.
    shape, dtype, strides, byte_offset, device, version, flags
        What the struct says. `strides` in elements; ``"compact"`` for row-major; None for NULL.
        `dtype` is (code, bits) or (code, bits, lanes).
    ndim
        What the struct says the number of axes is, if not the length of `shape`; axes beyond it
        have extent 1.
    null_data, null_shape, null_deleter
        Put NULL there.
    mode
        ``"auto"``: a versioned capsule for ``max_version`` of 1 or more, else a legacy one. Or
        ``"legacy"``, ``"versioned"``.
    signature
        ``"full"``: all keywords; ``"stream"``: only that; ``"none"``: any keyword is a
        ``TypeError``.
    device_answer
        What ``__dlpack_device__`` returns, or raises if it is an exception; `device` if None.
    capsule_name
        The capsule's name, if not the right one. It holds the word "versioned" where the struct is
        a versioned one: the capsule's destructor goes by that.
    returns
        What ``__dlpack__`` returns instead of a capsule.
    raises
        An exception that ``__dlpack__`` raises, or a function of the call's number (from 0) and
        keywords that returns one, or None.

    Attributes
    ----------
    address
        Where the memory starts.
    calls
        The keywords of every call of ``__dlpack__``.
    device_calls
        How often ``__dlpack_device__`` was called.
    exports
        How many structs were handed out.
    notes
        What the deleter and the destructor noted.

    Examples
    --------
    >>> import candle
    >>> from candle.testing import Producer
    >>> producer = Producer(shape=(2, 3))
    >>> t = candle.from_dlpack(producer)
    >>> del t
    >>> producer.deletes
    1
    """

    def __init__(
        self,
        data: bytes | bytearray | int | None = None,
        *,
        shape: Sequence[int],
        dtype: tuple[int, ...] = (2, 32, 1),
        strides: Sequence[int] | str | None = "compact",
        ndim: int | None = None,
        byte_offset: int = 0,
        device: tuple[int, int] = (1, 0),
        device_answer: object = None,
        mode: str = "auto",
        version: tuple[int, int] = (1, 3),
        flags: int = 0,
        null_data: bool = False,
        null_shape: bool = False,
        null_deleter: bool = False,
        signature: str = "full",
        capsule_name: str | None = None,
        returns: object = None,
        raises: Raises | None = None,
        keep: object = None,
    ) -> None:
        if not isinstance(data, int):
            raw = struct.pack("1024f", *range(1024)) if data is None else bytes(data)
            data, keep = aligned_block(raw)
        self.address = data
        self.keep = keep
        self.shape: tuple[int, ...] = tuple(shape)
        self.strides: Sequence[int] | None = (
            compact_strides(shape) if isinstance(strides, str) else strides
        )
        self.dtype: tuple[int, ...] = (*dtype, 1)[:3]
        self.ndim = ndim
        self.byte_offset = byte_offset
        self.device = device
        self.device_answer: object = device if device_answer is None else device_answer
        self.mode = mode
        self.version = version
        self.flags = flags
        self.null_data = null_data
        self.null_shape = null_shape
        self.null_deleter = null_deleter
        self.signature = signature
        self.capsule_name = capsule_name
        self.returns = returns
        self.raises = raises
        self.calls: list[dict[str, Any]] = []
        self.device_calls: int = 0
        self._forgotten: int = 0
        self.notes: Notes = Notes()
        self._structs: list[tuple[Managed, Any, Any]] = []
        _kept.append((self.notes, self._structs, keep))

    @property
    def exports(self) -> int:
        """How many structs were made; right also where several threads ask for some at once."""
        return self._forgotten + len(self._structs)

    @property
    def deletes(self) -> int:
        """How often the deleter ran, over all exports."""
        count: int = self.notes.deleted
        return count

    @property
    def destructors(self) -> int:
        """How often a capsule's destructor ran, over all exports."""
        count: int = self.notes.destructed
        return count

    def __dlpack_device__(self) -> object:
        self.device_calls += 1
        if isinstance(self.device_answer, BaseException):
            raise copy.copy(self.device_answer)
        return self.device_answer

    def __dlpack__(self, *args: object, **keywords: Any) -> object:
        number = len(self.calls)
        self.calls.append(keywords)
        allowed: dict[str, set[str]] = {"none": set(), "stream": {"stream"}}
        if args or set(keywords) - allowed.get(self.signature, set(keywords)):
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        error = self.raises
        if error is not None and not isinstance(error, BaseException):
            error = error(number, keywords)
        if error is not None:
            raise copy.copy(error)  # the one given would collect the frames of every call
        if self.returns is not None:
            return self.returns
        wanted = keywords.get("max_version")
        modern = wanted is not None and wanted[0] >= 1
        return self.capsule(self.mode == "versioned" or (self.mode == "auto" and modern))

    def capsule(self, versioned: bool = True) -> object:
        """Make a fresh capsule over a fresh struct."""
        name = self.capsule_name or ("dltensor_versioned" if versioned else "dltensor")
        if ("versioned" in name) != versioned:
            raise ValueError(f"a capsule named {name!r} does not go with versioned={versioned}")
        return new_capsule(self.export(versioned), name, _DESTROY_CAPSULE)

    def export(self, versioned: bool = True) -> int:
        """Make a fresh struct; returns its address, and the caller owns it."""
        managed: Managed = DLManagedTensorVersioned() if versioned else DLManagedTensor()
        if isinstance(managed, DLManagedTensorVersioned):
            managed.version.major, managed.version.minor = self.version
            managed.flags = self.flags
        managed.manager_ctx = C.addressof(self.notes)
        if not self.null_deleter:
            managed.deleter = _DELETE_VERSIONED if versioned else _DELETE_LEGACY
        shape, strides = self.fill(managed.dl_tensor)
        self._structs.append((managed, shape, strides))
        return C.addressof(managed)

    def fill(self, tensor: DLTensor) -> tuple[Any, Any]:
        """Write what this producer says into `tensor`; returns the arrays it points to."""
        # The arrays are longer than ndim says by one element at least, and hold 1s there: a
        # consumer that reads too far reads something.
        spare = [1] * max((self.ndim or 0) - len(self.shape), 1)
        kind = C.c_int64 * (len(self.shape) + len(spare))
        shape = kind(*self.shape, *spare)
        strides = None if self.strides is None else kind(*self.strides, *spare)
        tensor.data = None if self.null_data else self.address
        tensor.device.device_type, tensor.device.device_id = self.device
        tensor.ndim = len(self.shape) if self.ndim is None else self.ndim
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = self.dtype
        tensor.byte_offset = self.byte_offset
        if not self.null_shape:
            tensor.shape = shape
        if strides is not None:
            tensor.strides = strides
        return shape, strides

    def spoil(self) -> None:
        """Overwrite the description in every struct handed out so far, shape and strides included.

        A consumer that has copied out what it needs does not notice; the deleter and its context
        stay.
        """
        for managed, shape, strides in self._structs:
            C.memset(C.addressof(managed.dl_tensor), 0xA5, C.sizeof(DLTensor))
            if isinstance(managed, DLManagedTensorVersioned):
                managed.flags = 0xA5A5
            for extents in (shape, strides):
                if extents is not None:
                    C.memset(extents, 0xA5, C.sizeof(extents))

    def forget(self) -> None:
        """Give back the structs of all exports, which have all been deleted. For loops of many."""
        if self.deletes < self.exports:
            raise RuntimeError(
                f"{self.exports} exports and {self.deletes} deletions: some are in use"
            )
        self._forgotten += len(self._structs)
        self._structs.clear()


class SameCapsule:
    """Hands out one and the same capsule of a producer again: the second consumer has to refuse."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.capsule: object = None

    def __dlpack_device__(self) -> object:
        return self.producer.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> object:
        if self.capsule is None:
            self.capsule = self.producer.__dlpack__(**keywords)
        return self.capsule


class NoDevice:
    """A producer that lacks ``__dlpack_device__``."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer

    def __dlpack__(self, **keywords: Any) -> object:
        return self.producer.__dlpack__(**keywords)
