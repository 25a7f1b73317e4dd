"""Arrow structs with fields changed at random: refused, or read within what there is.

Only changes that a consumer can notice: no length that buffers of this size do not have, unless it
overflows, because an Arrow buffer does not say how long it is.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import arrow_structs as arrow

import candle
from candle.testing import assert_no_leak

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ROWS = 24  # that every node has room for, and ITEMS in what its lists hold
WIDTH = 3
ITEMS = ROWS * WIDTH
BIG = 2**63 - 1
FORMATS = [
    *("n", "b", "c", "C", "s", "S", "i", "I", "l", "L", "e", "f", "g", "u", "z", "vu", "d:9,2"),
    *("w:4", "w:0", "tdD", "tsu:", "+l", "+L", "+vl", "+vL", "+w:3", "+w:0", "+w:1", "+s", "+m"),
    *("+r", "+ud:0", "", "?", "+w:-3", "+w:2147483647"),
]


def leaf(rng: random.Random, rows: int) -> tuple[arrow.Schema, arrow.Array]:
    # The largest item is of 8 bytes; a format may be changed to that of a larger one.
    return arrow.schema(rng.choice("bcsilefg")), arrow.array(rows, [bytes(rows), bytes(8 * rows)])


def fixed(rng: random.Random, rows: int) -> tuple[arrow.Schema, arrow.Array]:
    schema, items = leaf(rng, rows * WIDTH)
    text = b'{"shape":[%d],"permutation":[0]}' % WIDTH
    tensor = arrow.extension("arrow.fixed_shape_tensor", text)
    made = arrow.schema("+w:3", schema, metadata=tensor if rng.random() < 0.5 else None)
    return made, arrow.array(rows, [bytes(rows)], items)


def lists(rng: random.Random, rows: int) -> tuple[arrow.Schema, arrow.Array]:
    schema, items = leaf(rng, rows * WIDTH)
    offsets = [WIDTH * i for i in range(rows + 1)]
    for _ in range(rng.choice((0, 0, 1, 3))):
        offsets[rng.randrange(rows + 1)] = rng.choice(
            (-1, 0, ITEMS, ITEMS + 1, 2**31 - 1, -(2**31))
        )
    large = rng.random() < 0.5
    data = struct.pack(f"{rows + 1}{'q' if large else 'i'}", *offsets)
    return (
        arrow.schema("+L" if large else "+l", schema),
        arrow.array(rows, [bytes(rows), data + bytes(len(data))], items),
    )


def views(rng: random.Random, rows: int) -> tuple[arrow.Schema, arrow.Array]:
    schema, items = leaf(rng, rows * WIDTH)
    offsets = [WIDTH * i for i in range(rows)]
    sizes = [WIDTH] * rows
    for numbers in (offsets, sizes):
        for _ in range(rng.choice((0, 0, 2))):
            numbers[rng.randrange(rows)] = rng.choice((-1, 0, 1, ITEMS, 2**31 - 1))
    packed = [struct.pack(f"{rows}q", *numbers) for numbers in (offsets, sizes)]
    return arrow.schema("+vL", schema), arrow.array(rows, [bytes(rows), *packed], items)


def table(rng: random.Random, rows: int) -> tuple[arrow.Schema, arrow.Array]:
    columns = [rng.choice((leaf, fixed))(rng, rows) for _ in range(rng.randint(1, 3))]
    return (
        arrow.schema("+s", *[schema for schema, _ in columns]),
        arrow.array(rows, [bytes(rows)], *[data for _, data in columns]),
    )


KINDS: tuple[Callable[..., Any], ...] = (leaf, fixed, lists, views, table)


def nodes(root: Any) -> list[Any]:
    found = [root]
    for node in found:
        found += node.kept[0]
    return found


def change_array(rng: random.Random, node: arrow.Array) -> None:
    room, buffers = node.room  # type: ignore[attr-defined]
    left = room - max(0, min(node.offset, room))
    change = rng.randrange(9)
    if change == 0:
        node.length = rng.choice((-1, 0, min(1, left), left, -BIG - 1))
    elif change == 1:
        node.offset = rng.choice((-1, BIG, 2**62, -BIG - 1))
    elif change == 2:
        node.offset = rng.randint(0, room)
        node.length = room - node.offset
    elif change == 3:
        node.null_count = rng.choice((-2, -1, 0, 1, room, room + 1, BIG))
    elif change == 4:
        node.n_buffers = rng.choice((-1, 0, 1, 2, 3, 4, BIG))
    elif change == 5:
        node.n_children = rng.choice((-1, 0, 1, 2, 3, BIG))
    elif change == 6:
        node.buffers = None
    elif change == 7 and node.buffers:
        node.buffers[rng.randrange(buffers)] = None
    else:
        node.release = None


def change_schema(rng: random.Random, node: arrow.Schema) -> None:
    change = rng.randrange(5)
    if change == 0:
        other = arrow.schema(rng.choice(FORMATS))
        node.kept.append(other)
        node.format = other.format
    elif change == 1:
        block = bytearray(arrow.extension("arrow.fixed_shape_tensor", b'{"shape":[1,3]}'))
        for _ in range(rng.randint(1, 4)):
            block[rng.randrange(len(block))] = rng.randrange(256)
        # Where a length is wrong and small, what follows is read as text.
        other = arrow.schema("i", metadata=bytes(block) + bytes(1 << 20))
        node.kept.append(other)
        node.metadata = other.metadata
    elif change == 2:
        node.n_children = rng.choice((-1, 0, 1, BIG))
    elif change == 3:
        node.children = None
    else:
        node.release = None


def run(rng: random.Random) -> str:
    schema, data = rng.choice(KINDS)(rng, ROWS)
    kept = [nodes(schema), nodes(data)]
    for _ in range(rng.choice((0, 1, 1, 2))):
        if rng.random() < 0.6:
            change_array(rng, rng.choice(kept[1]))
        else:
            change_schema(rng, rng.choice(kept[0]))
    asked: dict[str, Any] = {
        "nulls": rng.choice(("error", "mask", 0)),
        "chunks": rng.choice(("copy", "list")),
        "times": rng.choice(("error", "integers")),
    }
    if rng.random() < 0.3:
        asked["dtype"] = rng.choice(("float32", "int8", "bool"))
    producer = arrow.Exporter(schema, data)
    before = producer.releases
    with assert_no_leak():
        try:
            made = candle.from_arrow(producer, **asked)
        except (BufferError, ValueError) as error:  # the second for a fill value that does not fit
            return f"{type(error).__name__} {str(error)[:40]}"
        for part in made if isinstance(made, list) else [made]:
            for t in part if isinstance(part, tuple) else [part]:
                t.tolist()
        shape = f"{type(made).__name__} {asked}"
        del made, part, t
    assert producer.releases == before + 1
    return shape
