"""Which library computes on a tensor's memory: numpy on the host, cupy or torch on CUDA devices."""

from __future__ import annotations

import sys

from . import frameworks
from ._native import _core
from .cuda.provider import library_for
from .devices import Device
from .dtypes import DType
from .ledger import permit_unasked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from types import ModuleType
    from typing import Any

    from ._native._core import Tensor

__all__ = ["Engine", "engine_for", "has_memory", "host", "tensors_in"]

_Tensor = _core.Tensor
_PLAIN = frozenset({bool, int, float, complex, str, slice, type(None), type(...)})
_PROTOCOLS = ("__dlpack__", "__array_interface__", "__array__")


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


_nothing = _Nothing()


def has_memory(x: object) -> bool:
    """Tell a tensor of any framework, or a number of one, from everything else."""
    return any(hasattr(type(x), name) for name in _PROTOCOLS)


def tensors_in(arguments: Iterable[Any]) -> list[Tensor]:
    """Give the tensors among some arguments, and in lists and tuples among them."""
    found = []
    for x in arguments:
        if isinstance(x, _Tensor):
            found.append(x)
        elif type(x) is list or type(x) is tuple:
            found += tensors_in(x)
    return found


class Engine:
    """A library that computes, over memory that it shares with tensors.

    Attributes
    ----------
    name : str
        Its name. ``array_api_compat`` has its functions by the names of the Python Array API
        standard.
    """

    __slots__ = ("_namespace", "name")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self._namespace: ModuleType | None = None

    @property
    def calls(self) -> ModuleType | None:
        """How it does what numpy's functions mean, where its own of the same names may not."""
        return None if self is host else frameworks.target_of(self.name).calls

    @property
    def writes_out(self) -> bool:
        """Whether its functions take ``out=`` as numpy's do.

        torch's give it another shape where the result's differs, and write beside it then.
        """
        return self.calls is None

    @property
    def module(self) -> ModuleType:
        """The library."""
        __import__(self.name)
        return sys.modules[self.name]

    @property
    def namespace(self) -> ModuleType:
        """Its functions, as the standard has them."""
        if self._namespace is None:
            from importlib import import_module

            self._namespace = import_module(f"array_api_compat.{self.name}")
        return self._namespace

    def standard(self, name: str, part: str = "") -> Any:
        """Give one of the standard's functions; `part` names the extension that it is of."""
        found = getattr(getattr(self.namespace, part) if part else self.namespace, name)
        if self is host:
            return _clip_beside(found) if name == "clip" else found
        calls = self.calls
        return found if calls is None else calls.standard(found, f"{part}.{name}" if part else name)

    def like(self, function: Any, method: str = "__call__") -> Any:
        """Give the library's function that does what one of numpy's does, or a method of a ufunc.

        Raises
        ------
        TypeError
            If it has none that does.
        """
        universal = type(function).__name__ == "ufunc"
        if self is host:
            return getattr(function, method) if universal else function
        path = [*getattr(function, "__module__", "numpy").split(".")[1:], function.__name__]
        calls = self.calls
        if calls is not None:
            return calls.like(".".join(path), method, universal=universal)
        found: Any = self.module
        for name in path if method == "__call__" else [*path, method]:
            found = getattr(found, name, None)
        if found is None:
            raise TypeError(f"{self.name} has no {'.'.join(path)}; t.to('cpu') is numpy's")
        return found

    def operation(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Give what does as one of Python's operators does."""
        calls = self.calls
        if calls is not None:
            return calls.operation(function)  # type: ignore[no-any-return]
        return _divided if function is divmod else function

    def compute_in_place(
        self, function: Callable[[Any, Any], Any], t: Tensor, other: Any, place: Device | None
    ) -> None:
        """Do as one of Python's operators in place does, in a tensor's memory."""
        array, operand = self.take_to_write(t), self.unwrapped(other, place)
        calls = self.calls
        if calls is not None:
            calls.in_place(function, array, operand)
            return
        found = function(array, operand)
        if found is not array:  # of operators that the library has not in place
            array[...] = found

    def index(self, index: Any, place: Device | None, array: Any) -> Any:
        """Give an index by masks and integers as the library's own array takes it."""
        found = self.unwrapped(index, place)
        calls = self.calls
        return found if calls is None else calls.index(found, array)

    def assign(self, t: Tensor, index: Any, items: Tensor, place: Device | None) -> None:
        """Write to the elements that an index by masks and integers chooses."""
        array, given = self.take_to_write(t), self.take(items, place)
        calls = self.calls
        if calls is not None:
            given = calls.apart(array, given)
        array[self.index(index, place, array)] = given

    def place(self, *arguments: Any) -> Device | None:
        """Give the device that some arguments are computed with on: the first one's that has one.

        None for the host.
        """
        if self is host:
            return None
        return next(t.device for t in tensors_in(arguments) if not t.device.on_host)

    def on(self, place: Device | None) -> AbstractContextManager[object]:
        """Make a device current, where the library computes on no other."""
        if place is None:
            return _nothing
        guard = frameworks.target_of(self.name).guard
        return _nothing if guard is None else guard(place.index)

    def take(self, t: Tensor, place: Device | None = None) -> Any:
        """Give the library's array over a tensor's memory, to read.

        Memory that is elsewhere than the operands on a device is copied there, which `strict`
        refuses: nobody has asked for it by name.
        """
        if self is host:
            array = t.numpy()
            if t.dtype.bits < 8 and not _core.is_padded(t):
                array.flags.writeable = False  # unpacked, a copy: what is written would be lost
            return array
        if place is not None and t.device is not place:
            permit_unasked(_core.plan_in(t, None, place)[1])
            t = _core.from_dlpack(t, device=place)
        # It is only read, so that torch and cupy need not have a copy of what is read-only, but for
        # axes that run backwards, which they have not.
        target = frameworks.target_of(self.name)
        copied = t.readonly and any(stride < 0 for stride in t.stride)
        if copied and target.demand is not None:
            permit_unasked(_core.plan_out(t, target.demand))
        return target.give(t, copied if t.readonly else None)

    def take_to_write(self, t: Tensor) -> Any:
        """Give the library's array over a tensor's memory, to write.

        Raises
        ------
        ValueError
            If the tensor may not be written: it is read-only, or has an axis of stride 0.
        CopyError
            If the library could only have a copy.
        """
        _core.check_writable(t)
        return frameworks.target_of(self.name).give(t, False)

    def unwrapped(self, x: Any, place: Device | None = None) -> Any:
        """Put the library's objects in the place of tensors, dtypes and devices, in lists too."""
        kind = type(x)
        if kind is _Tensor or isinstance(x, _Tensor):
            return self.take(x, place)
        if kind in _PLAIN:
            return x
        if kind is list or kind is tuple:
            return kind([self.unwrapped(item, place) for item in x])
        if isinstance(x, DType):
            return frameworks.dtype_for(self.name, x)
        if isinstance(x, Device):
            return "cpu" if self is host else str(x)
        if self is host and isinstance(x, (self.module.ndarray, self.module.generic)):
            return x
        return self.take(_core.asarray(x), place) if has_memory(x) else x

    def destinations(self, out: Any, given: dict[int, Any]) -> Any:
        """Give the library's arrays to write to for the argument ``out=``, one or a tuple.

        Whose they are is written to `given`, by their ids.
        """
        if isinstance(out, tuple):
            arrays = tuple([self.destinations(x, given) for x in out])
            return arrays[0] if len(arrays) == 1 and self is not host else arrays
        array = self.take_to_write(out) if isinstance(out, _Tensor) else self.unwrapped(out)
        if out is not None:
            given[id(array)] = out
        return array

    def wrapped(self, x: Any, given: dict[int, Any] | None = None) -> Any:
        """Put tensors in the place of the library's arrays and numbers, in lists and tuples too.

        What candle has no dtype for (objects, text, times, records) stays the library's; the arrays
        that `destinations` gave are what they were made of.
        """
        if type(x) in _PLAIN:
            return x
        if given and id(x) in given:
            return given[id(x)]
        if isinstance(x, tuple):
            items = [self.wrapped(item, given) for item in x]
            return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        if isinstance(x, list):
            return [self.wrapped(item, given) for item in x]
        if not has_memory(x) or not frameworks.has_numbers(x):
            return x
        calls = self.calls
        return _core.asarray(x if calls is None else calls.plain(x))


def _divided(a: Any, b: Any) -> tuple[Any, Any]:
    return a // b, a % b  # of int4, ml_dtypes' divmod is int8


def _clip_beside(function: Any) -> Any:
    """Give array-api-compat's ``clip`` copies of its bounds beside ints, where it writes to them.

    Its 1.16 puts the dtype's own bounds in the place of what lies outside them.
    """
    from functools import wraps

    @wraps(function)
    def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
        if x.dtype.kind in "iu":
            min, max = (b.copy() if hasattr(b, "copy") else b for b in (min, max))
        return function(x, min, max)

    return clip


host: Engine = Engine("numpy")
_on_devices: dict[str, Engine] = {}


def engine_for(*arguments: Any) -> Engine:
    """Choose who computes with some tensors, which may stand in lists and tuples.

    Returns
    -------
    Engine
        numpy, unless one of them is on a CUDA device; then torch if torch owns that memory or cupy
        is not there, else cupy.

    Raises
    ------
    BufferError
        For tensors on a CUDA device where neither is installed.
    """
    devices = [t for t in tensors_in(arguments) if not t.device.on_host]
    if not devices:
        return host
    name = library_for(*devices)
    engine = _on_devices.get(name)
    if engine is None:
        engine = _on_devices[name] = Engine(name)
    return engine
