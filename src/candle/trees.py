"""Walking a structure of containers, and rebuilding what changes in it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Action = Callable[[Any], Any]

__all__ = ["Walk", "field_names", "of_class", "path_to"]

# No containers, and no tensors either: passed over without a look.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, memoryview, range)


class _Kinds(dict[type, "Action | None"]):
    """What is done with objects of each type, asked once for each."""

    __slots__ = ("ask",)

    ask: Callable[[type], Action | None]

    def __missing__(self, cls: type) -> Action | None:
        action = self[cls] = self.ask(cls)
        return action


class Walk:
    """One walk through one tree: calling it, once, gives the tree with every leaf replaced.

    Nothing is written to. A container in which nothing changed stays the object it is; another is
    made anew, once, however often it is in the tree, and also where it is inside itself.

    Parameters
    ----------
    leaf : callable
        ``leaf(cls)``: a function of objects of that type which gives what they become; None where
        they are no leaves.

    Attributes
    ----------
    path : list of str
        After an exception: the way from the tree to where it was raised, in Python's words.
    """

    def __init__(self, leaf: Callable[[type], Action | None]) -> None:
        self.path: list[str] = []
        self._leaf = leaf
        self._made: dict[int, Any] = {}  # id of a container -> what becomes of it
        self._open: set[int] = set()  # ids of those whose members are being looked at
        self._kept: list[object] = []  # members that may live no longer than the look at them
        self._kinds = _Kinds(dict.fromkeys(_PLAIN))
        self._kinds.ask = self._kind
        self._kinds.update({dict: self._dict, list: self._list, tuple: self._tuple})

    def __call__(self, tree: Any) -> Any:  # noqa: D102
        try:
            return self._become(tree)
        finally:  # its methods would keep all that was made until the garbage collector comes
            self._kinds.clear()
            del self._kinds.ask

    def _become(self, tree: Any) -> Any:
        action = self._kinds[type(tree)]
        return tree if action is None else action(tree)

    def _kind(self, cls: type) -> Action | None:
        action = None if issubclass(cls, type) else self._leaf(cls)
        if action is not None:
            return action
        if issubclass(cls, tuple):
            named = of_class(cls, "_make") and of_class(cls, "_fields")
            make = cls._make if named else cls  # type: ignore[attr-defined]
            return lambda x: self._tuple(x, make)
        from collections import UserList, deque
        from collections.abc import Mapping
        from types import SimpleNamespace

        if issubclass(cls, list | UserList | deque):
            return self._other_list
        names = field_names(cls)
        if issubclass(cls, Mapping):
            return lambda x: self._mapping(x, names)
        if issubclass(cls, SimpleNamespace):
            return lambda x: self._fields(x, tuple(vars(x)))
        return (lambda x: self._fields(x, names)) if names else None

    # The containers nearly all trees are made of. What they become is made before their members
    # are looked at, and dropped if nothing changed: a cycle has changed by then.

    def _dict(self, tree: dict[Any, Any]) -> Any:
        key = id(tree)
        made = self._made
        if key in made:
            return made[key]
        new: dict[Any, Any] = {}
        made[key] = new
        kinds = self._kinds
        changed = False
        name = None
        try:
            for name, value in tree.items():
                action = kinds[type(value)]
                if action is None:
                    new[name] = value
                else:
                    new[name] = done = action(value)
                    if done is not value:
                        changed = True
        except Exception:
            self.path.insert(0, f"[{name!r}]")
            raise
        if changed:
            return new
        made[key] = tree
        return tree

    def _list(self, tree: list[Any]) -> Any:
        key = id(tree)
        if key in self._made:
            return self._made[key]
        new: list[Any] = []
        self._made[key] = new
        if self._members(tree, new):
            return new
        self._made[key] = tree
        return tree

    def _members(self, values: Iterable[Any], into: list[Any]) -> bool:
        """Put what the members become into a list; tells whether one changed."""
        kinds = self._kinds
        changed = False
        try:
            for value in values:
                action = kinds[type(value)]
                if action is None:
                    into.append(value)
                else:
                    done = action(value)
                    into.append(done)
                    if done is not value:
                        changed = True
        except Exception:
            self.path.insert(0, f"[{len(into)}]")
            raise
        return changed

    def _tuple(self, tree: tuple[Any, ...], make: Callable[[Any], Any] = tuple) -> Any:
        key = id(tree)
        if key in self._made:
            return self._made[key]
        members: list[Any] = []
        changed = self._members(tree, members)
        if key in self._made:  # it is in a cycle, which went through here
            return self._made[key]
        new = self._rebuilt(tree, make, members) if changed else tree
        if new is not tree and hasattr(tree, "__dict__"):
            new.__dict__.update(tree.__dict__)
        self._made[key] = new
        return new

    # The others are copied only if something changed in them, or where they are met inside
    # themselves.

    def _other_list(self, tree: Any) -> Any:
        return self._copied(tree, self._list_members, _put_members)

    def _list_members(self, tree: Iterable[Any]) -> list[Any] | None:
        members: list[Any] = []
        return members if self._members(tree, members) else None

    def _mapping(self, tree: Any, names: tuple[str, ...]) -> Any:
        """Rebuild a mapping; where it is a dataclass too, fields that are none of its items."""

        def members(tree: Any) -> tuple[Any, Any] | None:
            items = self._pairs(tree.items(), "[{!r}]")
            fields = ((name, getattr(tree, name)) for name in names if hasattr(tree, name))
            apart = [(name, x) for name, x in fields if name not in tree or tree[name] is not x]
            others = self._pairs(apart, ".{}")
            return (items or (), others or ()) if items or others else None

        if hasattr(tree, "__setitem__"):
            return self._copied(tree, members, _put_items_and_fields)
        key = id(tree)
        if key in self._made:
            return self._made[key]
        changed = members(tree)
        if key in self._made:
            return self._made[key]
        new = tree
        if changed is not None:
            new = self._rebuilt(tree, type(tree), {**tree, **dict(changed[0])})
            _put_fields(new, changed[1])
        self._made[key] = new
        return new

    def _fields(self, tree: Any, names: tuple[str, ...]) -> Any:
        def members(tree: Any) -> list[tuple[str, Any]] | None:
            values = ((name, getattr(tree, name)) for name in names if hasattr(tree, name))
            return self._pairs(values, ".{}")

        return self._copied(tree, members, _put_fields)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], words: str) -> list[tuple[Any, Any]] | None:
        """Give what changed of named members; None for nothing."""
        changed = []
        name = None
        try:
            for name, value in pairs:
                self._kept.append(value)
                done = self._become(value)
                if done is not value:
                    changed.append((name, done))
        except Exception:
            self.path.insert(0, words.format(name))
            raise
        return changed or None

    def _copied(self, tree: Any, members: Action, put: Callable[[Any, Any], None]) -> Any:
        key = id(tree)
        if key in self._made:
            return self._made[key]
        if key in self._open:
            new = self._made[key] = _shallow_copy(tree)
            return new
        self._open.add(key)
        changed = members(tree)
        self._open.remove(key)
        if changed is None:
            self._made.setdefault(key, tree)
            return tree
        if key not in self._made:
            self._made[key] = _shallow_copy(tree)
        new = self._made[key]
        try:
            put(new, changed)
        except Exception as error:
            raise _unbuildable(tree) from error
        return new

    def _rebuilt(self, tree: Any, make: Callable[[Any], Any], members: Any) -> Any:
        try:
            return make(members)
        except Exception as error:
            raise _unbuildable(tree) from error


def _put_members(new: Any, members: list[Any]) -> None:
    if hasattr(new, "maxlen"):  # a deque, which has no slices
        new.clear()
        new.extend(members)
    else:
        new[:] = members


def _put_items_and_fields(new: Any, changed: tuple[Any, Any]) -> None:
    items, fields = changed
    for name, value in items:
        new[name] = value
        if new[name] is not value:
            raise ValueError(f"it keeps something else as {name!r} than it is given")
    _put_fields(new, fields)


def _put_fields(new: Any, fields: Iterable[tuple[str, Any]]) -> None:
    for name, value in fields:
        object.__setattr__(new, name, value)  # frozen ones too


def _unbuildable(tree: object) -> TypeError:
    name = type(tree).__name__
    return TypeError(
        f"candle cannot make a {name} of other members; give its members in a dict or a list"
    )


def _shallow_copy(x: Any) -> Any:
    from copy import copy

    try:
        return copy(x)
    except Exception as error:
        raise _unbuildable(x) from error


def of_class(cls: type, name: str) -> Any:
    """Look an attribute up in a class and its bases, and ask nobody: a metaclass may raise."""
    return next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)


def field_names(cls: type) -> tuple[str, ...]:
    """Name the fields of a dataclass or an attrs class; there are none in another."""
    if of_class(cls, "__dataclass_fields__") is not None:
        return tuple(field.name for field in sys.modules["dataclasses"].fields(cls))
    return tuple(field.name for field in of_class(cls, "__attrs_attrs__") or ())


class _Found(Exception):
    """The leaf that was looked for."""


def path_to(wanted: object, tree: Any, leaf: Callable[[type], Action | None]) -> str:
    """Say where in a tree a leaf is, in Python's words; empty where it is the tree, or nowhere."""

    def look(x: object) -> object:
        if x is wanted:
            raise _Found
        return x

    walk = Walk(lambda cls: None if leaf(cls) is None else look)
    try:
        walk(tree)
    except _Found:
        return "".join(walk.path)
    return ""
