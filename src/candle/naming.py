"""Where types say that they come from."""

from __future__ import annotations

__all__ = ["module_of", "package_of"]


def module_of(cls: type) -> str:
    """Give the name of a type's module; "" where C code has named none."""
    return str(getattr(cls, "__module__", ""))


def package_of(cls: type) -> str:
    """Give the first part of the name of a type's module."""
    return module_of(cls).partition(".")[0]
