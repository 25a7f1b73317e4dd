"""The functions of the standard that the engines have, made when they are first asked for."""

from __future__ import annotations

from ..delegating import delegate
from ..engines import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

__all__ = ["defined"]


def defined(module: str, names: dict[str, Any], public: Collection[str], name: str) -> Any:
    """Give a name of the standard's to a module of this package that does not define it.

    Parameters
    ----------
    module : str
        The module's name.
    names : dict
        What it has; the function is put there, so that it is made once.
    public : collection of str
        What it is to have.
    name : str
        What is asked for.

    Raises
    ------
    AttributeError
        If it is not to have that.
    """
    if name not in public:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    part = module.partition("array_api")[2].removeprefix(".")
    function: Any = delegate(name, part)
    function.__wrapped__ = host.standard(name, part)  # whose signature it shows
    function.__module__, function.__name__, function.__qualname__ = module, name, name
    function.__doc__ = (
        f"Do what the Python Array API standard says of `{part + '.' if part else ''}{name}`, in "
        "the library that the memory is with.\n\nThe arguments are shared with it, and the result "
        "with what it gives."
    )
    names[name] = function
    return function
