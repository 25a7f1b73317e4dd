"""The tensors of a structure by dotted names."""

from __future__ import annotations

from ..convert import is_tensor_type
from ..trees import field_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = ["named"]


def named(tree: Any) -> dict[str, Any]:
    """Give every tensor of a structure, of any framework, by the names that lead to it.

    Raises
    ------
    TypeError
        For a leaf that is no tensor, and a name that is no str.
    ValueError
        For two tensors of one name, and a container inside itself.
    """
    if is_tensor_type(type(tree)) or _members(tree) is None:
        raise TypeError(
            f"tensors are saved by name, and this is one {type(tree).__name__}: give a dict, "
            '{"weight": tensor}'
        )
    found: dict[str, Any] = {}
    for name, x in _leaves(tree):
        if name in found:
            raise ValueError(f"two tensors of the structure are called {name!r}; rename one")
        found[name] = x
    return found


def _leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    # A stack of our own: trees may be deeper than Python calls.
    walks = [("", tree, iter(_members(tree) or ()))]
    above = {id(tree)}
    while walks:
        path, container, members = walks[-1]
        try:
            key, x = next(members)
        except StopIteration:
            above.remove(id(container))
            walks.pop()
            continue
        if not isinstance(key, str):
            raise TypeError(
                f"names are str, and {path or 'the structure'} has the key {key!r}; use "
                f"{str(key)!r}"
            )
        name = f"{path}.{key}" if len(walks) > 1 else key
        if is_tensor_type(type(x)):
            yield name, x
            continue
        inner = _members(x)
        if inner is None:
            raise TypeError(
                f"{name!r} is no tensor but {type(x).__name__}: leave it out, make a tensor of it "
                "with candle.asarray, or put it into metadata= as text"
            )
        if id(x) in above:
            raise ValueError(f"{name!r} is a {type(x).__name__} that it lies inside of")
        above.add(id(x))
        walks.append((name, x, iter(inner)))


def _members(tree: Any) -> Iterable[tuple[Any, Any]] | None:
    """Give a container's members; None where it is none."""
    if isinstance(tree, dict):
        return tree.items()
    if isinstance(tree, type):
        return None
    if isinstance(tree, list | tuple) and not hasattr(tree, "_fields"):
        return ((str(i), x) for i, x in enumerate(tree))
    from collections.abc import Mapping

    if isinstance(tree, Mapping):
        return tree.items()
    names = getattr(tree, "_fields", None) if isinstance(tree, tuple) else field_names(type(tree))
    if not names:
        return None
    return ((name, getattr(tree, name)) for name in names if hasattr(tree, name))
