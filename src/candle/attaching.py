"""How methods written in Python get onto the native Tensor type."""

from __future__ import annotations

from ._native._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["attach", "attach_one"]

_OF_THE_CLASS = (
    "__module__",
    "__qualname__",
    "__doc__",
    "__dict__",
    "__weakref__",
    "__hash__",
    "__firstlineno__",
    "__static_attributes__",
)


def attach(methods: type) -> None:
    """Move everything that a class body defines onto `Tensor`."""
    for name, value in vars(methods).items():
        if name not in _OF_THE_CLASS:
            attach_one(name, value)


def attach_one(name: str, value: Any) -> None:
    """Make a function or property an attribute of `Tensor`, under its name there."""
    function = getattr(value, "fget", value)
    function.__name__ = name
    function.__qualname__ = f"Tensor.{name}"
    setattr(Tensor, name, value)
