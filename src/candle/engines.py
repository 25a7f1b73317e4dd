"""Which library computes on a tensor's memory: numpy on the host, cupy or torch on CUDA devices."""

from __future__ import annotations

import sys

from . import frameworks
from ._native import _core
from .cuda.provider import library_for
from .devices import Device, as_device
from .dtypes import DType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

    from ._native._core import Tensor

__all__ = ["Engine", "engine_for", "has_memory", "host"]

_Tensor = _core.Tensor
_cpu = as_device("cpu")
_PLAIN = frozenset({bool, int, float, complex, str, slice, type(None), type(...)})
_PROTOCOLS = ("__dlpack__", "__array_interface__", "__array__")


def has_memory(x: object) -> bool:
    """Tell a tensor of any framework, or a number of one, from everything else."""
    return any(hasattr(type(x), name) for name in _PROTOCOLS)


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
        self.name = name
        self._namespace: ModuleType | None = None

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

    def like(self, function: Any) -> Any:
        """Give the library's function that does what one of numpy's does.

        Raises
        ------
        TypeError
            If it has none of that name.
        """
        if self.name == "numpy":
            return function
        found: Any = self.module
        path = [*getattr(function, "__module__", "numpy").split(".")[1:], function.__name__]
        for name in path:
            found = getattr(found, name, None)
        if found is None:
            raise TypeError(f"{self.name} has no {'.'.join(path)}; t.to('cpu') is numpy's")
        return found

    def take(self, t: Tensor) -> Any:
        """Give the library's array over a tensor's memory."""
        if self.name == "numpy":
            return t.numpy()
        # It is the caller who writes, and only where he was let: torch need not have a copy.
        return frameworks.target_of(self.name).give(t, False if t.readonly else None)

    def unwrapped(self, x: Any) -> Any:
        """Put the library's objects in the place of tensors, dtypes and devices, in lists too."""
        if isinstance(x, _Tensor):
            return self.take(x)
        if type(x) in _PLAIN:
            return x
        if type(x) in (list, tuple):
            return type(x)([self.unwrapped(item) for item in x])
        if isinstance(x, DType):
            return frameworks.dtype_for(self.name, x)
        if isinstance(x, Device):
            return "cpu" if self.name == "numpy" else str(x)
        return self.take(_core.asarray(x)) if has_memory(x) else x

    def wrapped(self, x: Any) -> Any:
        """Put tensors and dtypes in the place of the library's objects, in lists and tuples too."""
        if type(x) in _PLAIN:
            return x
        if isinstance(x, tuple):
            items = [self.wrapped(item) for item in x]
            return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        if isinstance(x, list):
            return [self.wrapped(item) for item in x]
        return _core.asarray(x) if has_memory(x) else x


host = Engine("numpy")
_on_devices = {"cupy": Engine("cupy"), "torch": Engine("torch")}


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
    devices = [t for t in _tensors(arguments) if t.device is not _cpu]
    if not devices:
        return host
    return _on_devices[library_for(*devices)]


def _tensors(arguments: Any) -> Iterator[Tensor]:
    for x in arguments:
        if isinstance(x, _Tensor):
            yield x
        elif type(x) in (list, tuple):
            yield from _tensors(x)
