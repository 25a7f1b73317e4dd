"""Structures are rebuilt where something changed in them, and left alone elsewhere."""

from __future__ import annotations

from collections import (
    ChainMap,
    Counter,
    OrderedDict,
    UserDict,
    UserList,
    defaultdict,
    deque,
    namedtuple,
)
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import pytest
from labels import label

from candle.trees import Walk, path_to


class Leaf:
    """What is replaced."""


class Other:
    """What replaces it."""


def leaf(cls: type) -> Any:
    return (lambda x: Other()) if cls is Leaf else None


def replaced(tree: Any) -> Any:
    return Walk(leaf)(tree)


@dataclass
class Batch:
    x: Any
    n: int = 0
    made: Any = field(default=None, init=False)
    shared: ClassVar[Any] = Leaf()
    scale: InitVar[int] = 1

    def __post_init__(self, scale: int) -> None:
        self.made = [Leaf()]


@dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Point(NamedTuple):
    x: Any
    y: Any


class Output(OrderedDict):
    """Members are items and attributes, as in transformers' ModelOutput."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@dataclass
class Settings(dict):
    """A mapping with a field that is none of its items."""

    x: Any = None


class Checked:
    """A descriptor that takes leaves only."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, object_: Any, owner: type) -> Any:
        return None if object_ is None else getattr(object_, self.name)

    def __set__(self, object_: Any, value: Any) -> None:
        if not isinstance(value, Leaf | None):
            raise RuntimeError("leaves only")
        object.__setattr__(object_, self.name, value)


@dataclass
class Picky:
    x: Any = Checked()


class Uncopied(dict):
    def __copy__(self) -> Any:
        raise RuntimeError("there is one of me")


class ReadOnly(dict):
    __setitem__ = None  # type: ignore[assignment]


class Stubborn(dict):
    """Keeps to itself what it is given."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, Leaf() if isinstance(value, Other) else value)


def output() -> Output:
    made = Output()
    made["logits"] = Leaf()
    return made


MADE: dict[str, tuple[Any, Any]] = {
    "dict": ({"a": Leaf()}, lambda t: t["a"]),
    "list": ([1, Leaf()], lambda t: t[1]),
    "tuple": ((Leaf(), 2), lambda t: t[0]),
    "named tuple": (Point(1, Leaf()), lambda t: t.y),
    "other named tuple": (namedtuple("Pair", "a b")(1, Leaf()), lambda t: t.b),
    "tuple subclass": (type("Row", (tuple,), {})([Leaf()]), lambda t: t[0]),
    "list subclass": (type("Rows", (list,), {})([Leaf()]), lambda t: t[0]),
    "ordered dict": (OrderedDict(b=1, a=Leaf()), lambda t: t["a"]),
    "default dict": (defaultdict(list, a=Leaf()), lambda t: t["a"]),
    "user dict": (UserDict(a=Leaf()), lambda t: t["a"]),
    "chain map": (ChainMap({"a": Leaf()}), lambda t: t["a"]),
    "mapping proxy": (MappingProxyType({"a": Leaf()}), lambda t: t["a"]),
    "items and attributes": (output(), lambda t: t.logits),
    "counter": (Counter(a=Leaf()), lambda t: t["a"]),
    "deque": (deque([1, Leaf()], maxlen=4), lambda t: t[1]),
    "deque subclass": (type("Frames", (deque,), {})([Leaf()]), lambda t: t[0]),
    "user list": (UserList([Leaf()]), lambda t: t[0]),
    "namespace": (SimpleNamespace(n=1, x=Leaf()), lambda t: t.x),
    "item of a dataclass": (Settings(), lambda t: t["a"]),
    "field of a mapping": (Settings(Leaf()), lambda t: t.x),
    "dataclass": (Batch(Leaf(), 3), lambda t: t.x),
    "field without init": (Batch(1), lambda t: t.made[0]),
    "frozen dataclass with slots": (Frozen(Leaf()), lambda t: t.x),
    "nested": ({"a": [(Frozen([Leaf()]),)]}, lambda t: t["a"][0][0].x[0]),
}


MADE["item of a dataclass"][0]["a"] = Leaf()


@pytest.mark.parametrize("name", MADE)
def test_made_anew(name: str) -> None:
    tree, member = MADE[name]
    before = member(tree)
    new = replaced(tree)
    assert type(new) is type(tree)
    assert new is not tree
    assert isinstance(member(new), Other)
    assert member(tree) is before


def test_other_members_stay() -> None:
    items = OrderedDict(b=1, a=Leaf(), c=object())
    items.note = "kept"  # type: ignore[attr-defined]
    new = replaced(items)
    assert list(new) == ["b", "a", "c"]
    assert new["c"] is items["c"]
    assert new.note == "kept"
    assert replaced(defaultdict(list, a=Leaf()))["new"] == []
    assert replaced(Batch(Leaf(), 7)).n == 7
    made = replaced(output())
    assert made.logits is made["logits"]
    frames = replaced(deque([1, Leaf()], maxlen=2))
    assert (frames[0], frames.maxlen, len(frames)) == (1, 2, 2)
    point = type("Noted", (Point,), {})(Leaf(), 1)
    point.note = "kept"
    assert replaced(point).note == "kept"
    both = Settings(Leaf())
    both["a"] = Leaf()
    new = replaced(both)
    assert [type(x) for x in (new.x, new["a"], both.x, both["a"])] == [Other, Other, Leaf, Leaf]


class Opaque:
    def __init__(self) -> None:
        self.x = Leaf()


@pytest.mark.parametrize(
    "tree",
    [
        *([], {}, (), 1, None, "a", b"a", {1, 2}, Opaque(), Leaf, Batch, len, range(3)),
        *(deque([1]), UserList([1]), SimpleNamespace(a=1), Settings(1), slice(1), iter([1])),
        {"a": [1, (2, Point(3, 4))]},
        Frozen(3),
        OrderedDict(a=1),
        MappingProxyType({"a": 1}),
        ReadOnly(a=1),
    ],
    ids=label,
)
def test_left_alone(tree: Any) -> None:
    assert replaced(tree) is tree


@pytest.mark.parametrize(
    "make",
    [
        lambda x: {x},
        lambda x: frozenset([x]),
        lambda x: iter([x]),
        lambda x: (each for each in [x]),
        lambda x: map(id, [x]),
        lambda x: {1: x}.values(),
        slice,
        lambda x: {x: 1},
        lambda x: Opaque(),
    ],
    ids=["set", "frozenset", "iterator", "generator", "map", "view", "slice", "key", "object"],
)
def test_what_is_in_them_is_left_alone(make: Any) -> None:
    """Looking into an iterator would use it up; a tensor is in a set, and a key, by its hash."""
    tree = make(Leaf())
    assert replaced([tree])[0] is tree


class Raising(type):
    def __getattr__(cls, name: str) -> Any:
        raise RuntimeError(f"no {name}")


@pytest.mark.parametrize("base", [object, tuple, list, dict, deque])
def test_classes_whose_metaclass_raises(base: type) -> None:
    made = Raising("Made", (base,), {})()
    assert replaced([made])[0] is made


def test_unchanged_part_is_the_same_object() -> None:
    part, other = {"n": [1, 2]}, [Leaf()]
    new = replaced({"part": part, "other": other})
    assert new["part"] is part
    assert new["other"] is not other


def test_shared_container_stays_shared() -> None:
    part, row = [Leaf()], (Leaf(),)
    new = replaced([part, part, row, {"again": row}])
    assert new[0] is new[1]
    assert new[2] is new[3]["again"]


@pytest.mark.parametrize(
    "part",
    [
        *(deque([Leaf()]), UserList([Leaf()]), SimpleNamespace(x=Leaf()), Settings(Leaf())),
        *(OrderedDict(x=Leaf()), Batch(Leaf()), Frozen(Leaf()), Point(Leaf(), 1)),
        MappingProxyType({"x": Leaf()}),
    ],
    ids=label,
)
def test_whatever_container_is_shared(part: Any) -> None:
    new = replaced([part, {"again": part}])
    assert type(new[0]) is type(part)
    assert new[0] is new[1]["again"] is not part


def test_cycle_through_a_mapping_that_cannot_be_written() -> None:
    rows: list[Any] = [Leaf()]
    tree = MappingProxyType({"rows": rows})
    rows.append(tree)
    new = replaced(tree)
    assert isinstance(new["rows"][0], Other)
    assert new["rows"][1] is new


def test_cycles() -> None:
    tree: dict[str, Any] = {"x": Leaf()}
    tree["me"] = tree
    new = replaced(tree)
    assert new["me"] is new
    assert isinstance(new["x"], Other)
    rows: list[Any] = [Leaf()]
    rows.append((rows,))
    again = replaced(rows)
    assert again[1][0] is again
    around = (rows, Leaf())
    rows[1] = around
    whole = replaced(around)
    assert whole[0][1] is whole
    parent, child = Batch(Leaf()), Batch(Leaf())
    parent.n, child.n = child, parent  # type: ignore[assignment]
    made = replaced(parent)
    assert made.n.n is made  # type: ignore[attr-defined]
    assert isinstance(made.n.x, Other)  # type: ignore[attr-defined]
    mapping = OrderedDict(x=Leaf())
    mapping["me"] = mapping
    assert replaced(mapping)["me"]["me"]["me"]["x"].__class__ is Other


@pytest.mark.parametrize("make", [deque, UserList, SimpleNamespace, Settings])
def test_other_cycles(make: Any) -> None:
    tree = make()
    members: Any = tree if hasattr(tree, "append") else []
    members.append(Leaf())
    members.append(tree)
    if isinstance(tree, SimpleNamespace):
        tree.members = members
    elif isinstance(tree, Settings):
        tree["members"] = members
    new = replaced(tree)
    new_members = new if hasattr(new, "append") else getattr(new, "members", None) or new["members"]
    assert isinstance(new_members[0], Other)
    assert new_members[1] is new


def test_cycle_of_nothing() -> None:
    tree: list[Any] = []
    tree.append(tree)
    new = replaced(tree)
    assert new[0] is new


@pytest.mark.parametrize(
    "tree",
    [ReadOnly(a=Leaf()), Stubborn(a=Leaf()), Picky(Leaf()), Uncopied(a=Leaf())],
    ids=lambda tree: type(tree).__name__,
)
def test_what_cannot_be_made(tree: Any) -> None:
    with pytest.raises(TypeError, match=f"make a {type(tree).__name__} of other members") as caught:
        replaced([tree])
    assert caught.value.__cause__ is not None


def test_tuple_that_cannot_be_made() -> None:
    class Pair(tuple):
        def __new__(cls, a: Any, b: Any) -> Pair:
            return super().__new__(cls, (a, b))

    with pytest.raises(TypeError, match="make a Pair of other members"):
        replaced([Pair(Leaf(), 1)])


def test_path_of_a_leaf() -> None:
    wanted = Leaf()
    tree = {"a": [1, Point(Leaf(), Frozen({"b": (wanted,)}))]}
    assert path_to(wanted, tree, leaf) == "['a'][1][1].x['b'][0]"
    assert path_to(Leaf(), tree, leaf) == ""


def test_attrs_by_its_protocol() -> None:
    """A class as attrs makes them, without attrs."""
    fields = [type("Attribute", (), {"name": name}) for name in ("x", "n")]
    cls = type("Row", (), {"__attrs_attrs__": fields})
    row = cls()
    row.x, row.n = Leaf(), 2  # type: ignore[attr-defined]
    new = replaced(row)
    assert new is not row
    assert isinstance(new.x, Other)
    assert new.n == 2
