"""Structures are rebuilt where something changed in them, and left alone elsewhere."""

from __future__ import annotations

from collections import ChainMap, OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import InitVar, dataclass, field
from types import MappingProxyType
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
    "dataclass": (Batch(Leaf(), 3), lambda t: t.x),
    "field without init": (Batch(1), lambda t: t.made[0]),
    "frozen dataclass with slots": (Frozen(Leaf()), lambda t: t.x),
    "nested": ({"a": [(Frozen([Leaf()]),)]}, lambda t: t["a"][0][0].x[0]),
}


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


class Opaque:
    def __init__(self) -> None:
        self.x = Leaf()


@pytest.mark.parametrize(
    "tree",
    [
        *([], {}, (), 1, None, "a", b"a", {1, 2}, Opaque(), Leaf, Batch, len, range(3)),
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


def test_cycle_of_nothing() -> None:
    tree: list[Any] = []
    tree.append(tree)
    new = replaced(tree)
    assert new[0] is new


@pytest.mark.parametrize(
    "tree", [ReadOnly(a=Leaf()), Stubborn(a=Leaf())], ids=["read-only", "stubborn"]
)
def test_what_cannot_be_made(tree: Any) -> None:
    with pytest.raises(TypeError):
        replaced(tree)


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


def test_attrs() -> None:
    attrs = pytest.importorskip("attrs")
    cls = attrs.make_class("Row", ["x", "n"], frozen=True)
    new = replaced(cls(Leaf(), 2))
    assert isinstance(new.x, Other)
    assert new.n == 2


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
