"""Structs, metadata, lists and streams that are wrong: an error each, nothing kept, no crash."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import arrow_structs as arrow
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_structs import Array, Schema

FOUR = struct.pack("4i", 1, 2, 3, 4)
BIG = 2**63 - 1


def numbers(**fields: Any) -> Array:
    made = arrow.array(4, [None, FOUR])
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def lists(offsets: list[int], child: int, *, length: int | None = None, large: bool = False) -> Any:
    data = struct.pack(f"{len(offsets)}{'q' if large else 'i'}", *offsets)
    items = arrow.array(child, [None, bytes(8 * 64)])
    made = arrow.array(len(offsets) - 1 if length is None else length, [None, data], items)
    return arrow.schema("+L" if large else "+l", arrow.schema("l")), made


def fixed(width: int, rows: int, child: int, **fields: Any) -> Any:
    made = arrow.array(rows, [None], arrow.array(child, [None, bytes(1024)]))
    for name, value in fields.items():
        setattr(made, name, value)
    return arrow.schema(f"+w:{width}", arrow.schema("f")), made


def spoilt(kind: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(kind, name, value)
    return kind


def child_spoilt(**fields: Any) -> Any:
    schema, made = fixed(2, 2, 4)
    spoilt(made.children[0].contents, **fields)
    return schema, made


def pairs(*numbers: Schema, level: str = "+w:2") -> tuple[Schema, Array]:
    data = arrow.array(2, [None], arrow.array(4, [None, bytes(64)]))
    return arrow.schema(level, *numbers, metadata=opaque("complex64")), data


WIDEST = "+w:2147483647"

IMPOSSIBLE: dict[str, Callable[[], tuple[Schema, Array]]] = {
    "negative length": lambda: (arrow.schema("i"), numbers(length=-1)),
    "negative offset": lambda: (arrow.schema("i"), numbers(offset=-1)),
    "length and offset overflow": lambda: (arrow.schema("i"), numbers(length=BIG, offset=1)),
    "bytes overflow": lambda: (arrow.schema("l"), numbers(length=BIG // 4)),
    "null count below -1": lambda: (arrow.schema("i"), numbers(null_count=-2)),
    "more nulls than rows": lambda: (arrow.schema("i"), numbers(null_count=5)),
    "nulls without a buffer": lambda: (arrow.schema("i"), numbers(null_count=1)),
    "no elements": lambda: (arrow.schema("i"), arrow.array(4, [None, None])),
    "no buffers": lambda: (arrow.schema("i"), numbers(n_buffers=0)),
    "too many buffers": lambda: (arrow.schema("i"), numbers(n_buffers=3)),
    "negative buffers": lambda: (arrow.schema("i"), numbers(n_buffers=-1)),
    "buffers at NULL": lambda: (arrow.schema("i"), numbers(buffers=None)),
    "a child too many": lambda: (arrow.schema("i"), numbers(n_children=1)),
    "children at NULL": lambda: spoilt_pair(fixed(2, 2, 4), children=None),
    "no child": lambda: spoilt_pair(fixed(2, 2, 4), n_children=0),
    "a NULL child": lambda: null_child(fixed(2, 2, 4)),
    "released array": lambda: (arrow.schema("i"), numbers(release=None)),
    "released child": lambda: child_spoilt(release=None),
    "child with a negative length": lambda: child_spoilt(length=-5),
    "child too short": lambda: fixed(2, 2, 3),
    "child too short for the offset": lambda: fixed(2, 2, 5, offset=1),
    "width times rows overflows": lambda: fixed(2**31 - 1, 2**33, 4),
    "more rows than memory": lambda: fixed(2**31 - 1, 2, 4, offset=2**62),
    "rows of a slice overflow": lambda: fixed(2**31 - 1, 2, 4, offset=2**40),
    "widths of widths overflow": lambda: (
        arrow.schema("+w:131072", arrow.schema(WIDEST, arrow.schema(WIDEST, arrow.schema("c")))),
        arrow.array(
            1,
            [None],
            arrow.array(2**17, [None], arrow.array(2**48, [None], arrow.array(9, [None, FOUR]))),
        ),
    ),
    "bytes beyond memory": lambda: (
        arrow.schema("w:2147483647"),
        arrow.array(1, [None, FOUR], offset=2**31),
    ),
    "offsets before the first": lambda: lists([-1, 1, 3], 4),
    "offsets that go back": lambda: lists([2, 1, 0], 4),
    "offsets beyond the child": lambda: lists([0, 3, 6], 5),
    "the first offset beyond the child": lambda: lists([2**31 - 1, 2**31 - 1], 5),
    "large offsets that overflow": lambda: lists([-(2**63), 2**63 - 1], 5, large=True),
    "large offsets beyond the child": lambda: lists([0, 2**62], 5, large=True),
    "a large offset that lies 2^63 before the first": lambda: lists([1, -(2**63)], 5, large=True),
    "offsets that lead beyond those that 31 bits count": lambda: lists(
        [0, 2**30, -(2**31), -(2**30), 0], 2**33
    ),
    "offsets at NULL": lambda: (
        arrow.schema("+l", arrow.schema("l")),
        arrow.array(2, [None, None], arrow.array(4, [None, bytes(64)])),
    ),
    "sizes at NULL": lambda: (
        arrow.schema("+vl", arrow.schema("l")),
        arrow.array(2, [None, bytes(8), None], arrow.array(4, [None, bytes(64)])),
    ),
    "views beyond the child": lambda: (
        arrow.schema("+vl", arrow.schema("l")),
        arrow.array(
            2,
            [None, struct.pack("2i", 0, 3), struct.pack("2i", 2, 2)],
            arrow.array(4, [None, FOUR * 2]),
        ),
    ),
    "negative sizes": lambda: (
        arrow.schema("+vL", arrow.schema("l")),
        arrow.array(
            2,
            [None, struct.pack("2q", 0, 2), struct.pack("2q", -1, -1)],
            arrow.array(4, [None, FOUR * 2]),
        ),
    ),
    "table columns too few": lambda: (
        arrow.schema("+s", arrow.schema("i", name=b"a"), arrow.schema("i", name=b"b")),
        arrow.array(4, [None], numbers()),
    ),
    "table columns too short": lambda: (
        arrow.schema("+s", arrow.schema("i", name=b"a")),
        arrow.array(5, [None], numbers()),
    ),
    "table columns at NULL": lambda: (
        spoilt(arrow.schema("+s"), n_children=3),
        arrow.array(4, [None], numbers()),
    ),
    "table with a NULL column": lambda: (
        null_child((arrow.schema("+s", arrow.schema("i")), None), schema=True)[0],
        arrow.array(4, [None], numbers()),
    ),
    "table of more columns than there can be": lambda: (
        spoilt(arrow.schema("+s", arrow.schema("i")), n_children=2**60),
        arrow.array(4, [None], numbers()),
    ),
    "pairs cut off": lambda: (
        arrow.schema("+w:2", arrow.schema("f"), metadata=opaque("complex64")),
        arrow.array(3, [None], arrow.array(5, [None, bytes(64)])),
    ),
    "pairs that begin with the second": lambda: (
        arrow.schema("+w:2", arrow.schema("f"), metadata=opaque("complex64")),
        arrow.array(2, [None], arrow.array(4, [None, bytes(64)], offset=1)),
    ),
    "opaque elements of another size": lambda: (
        arrow.schema("w:3", metadata=opaque("bfloat16")),
        arrow.array(2, [None, bytes(16)]),
    ),
    "opaque packed elements": lambda: (
        arrow.schema("w:1", metadata=opaque("int4")),
        arrow.array(2, [None, bytes(16)]),
    ),
    **{
        f"opaque bfloat16 in {text!r}": lambda text=text: (  # type: ignore[misc]
            arrow.schema(text, metadata=opaque("bfloat16")),
            arrow.array(2, [None, bytes(16)]),
        )
        for text in ("s", "w:x", "w:", "+w:2", "w")
    },
    "opaque complex elements in no pairs": lambda: pairs(arrow.schema("f"), level="+w:4"),
    "opaque pairs of nothing": pairs,
    "opaque pairs of released numbers": lambda: pairs(spoilt(arrow.schema("f"), release=None)),
    "opaque pairs of texts": lambda: pairs(arrow.schema("u")),
    "opaque pairs of integers": lambda: pairs(arrow.schema("i")),
    "opaque pairs of another width": lambda: pairs(arrow.schema("g")),
    "bool8 that is no int8": lambda: (
        arrow.schema("i", metadata=arrow.extension("arrow.bool8")),
        numbers(),
    ),
    "schema without a format": lambda: (arrow.schema(None), numbers()),
    "released schema": lambda: (spoilt(arrow.schema("i"), release=None), numbers()),
    "released child schema": lambda: (
        arrow.schema("+w:2", spoilt(arrow.schema("f"), release=None)),
        fixed(2, 2, 4)[1],
    ),
    "schema with too many children": lambda: (
        arrow.schema("+w:2", arrow.schema("f"), arrow.schema("f")),
        fixed(2, 2, 4)[1],
    ),
    "schema with a NULL child": lambda: (
        null_child((arrow.schema("+w:2", arrow.schema("f")), None), schema=True)[0],
        fixed(2, 2, 4)[1],
    ),
    "elements with children": lambda: (arrow.schema("i", arrow.schema("i")), numbers()),
    "a schema inside itself": lambda: (endless(), numbers()),
}


def opaque(name: str) -> bytes:
    text = f'{{"type_name":"{name}","vendor_name":"candle"}}'
    return arrow.extension("arrow.opaque", text)


def spoilt_pair(pair: Any, **fields: Any) -> Any:
    return pair[0], spoilt(pair[1], **fields)


def null_child(pair: Any, schema: bool = False) -> Any:
    held = pair[0] if schema else pair[1]
    held.children[0] = type(held.children[0])()
    return pair


def endless() -> Schema:
    made = arrow.schema("+w:1", arrow.schema("i"))
    made.children[0].contents = made
    return made


@pytest.mark.parametrize("kind", IMPOSSIBLE)
def test_impossible_structs_are_refused(kind: str) -> None:
    for take in (candle.from_arrow, candle.asarray):
        producer = arrow.Exporter(*IMPOSSIBLE[kind]())
        with pytest.raises(BufferError, match=r"impossible Arrow data|consumed before"):
            take(producer)
        assert producer.releases == 0, "what was refused is its producer's to release"


FORMATS = [
    *("", "x", "ii", "i ", "+", "+w", "+w:", "+w:x", "+w:-1", "+w:1x", "+w: 1", "+w:99999999999"),
    *("+w:2147483648", "+ll", "+v", "+vx", "w:", "w:-2", "w:2.", "t", "td", "tdx", "ts", "tss"),
    *("tsx:", "tDx", "tix", "+u", "+ux:0", "\xff\xfe", "i" * 1000, "+w:" + "1" * 5000),
    *("tsq:UTC", "tsmx"),
]


@pytest.mark.parametrize("text", FORMATS)
def test_malformed_formats_are_refused(text: str) -> None:
    for data in (numbers(), fixed(2, 2, 4)[1]):
        child = [arrow.schema("f")] if text[:2] in ("+w", "+l", "+v") else []
        with pytest.raises(BufferError, match="does not define"):
            candle.from_arrow(arrow.Exporter(arrow.schema(text, *child), data))


KINDS = {
    **dict.fromkeys(("u", "U", "vu"), "text"),
    **dict.fromkeys(("z", "Z", "vz", "d:5,2", "d:38,10,256", "tiM", "tiD", "tin"), "no_dtype"),
    **dict.fromkeys(("+ud:0,1", "+us:0"), "no_dtype"),
    **dict.fromkeys(
        ("tdD", "tdm", "tts", "ttm", "ttu", "ttn", "tss:", "tsn:UTC", "tDu"), "datetime"
    ),
    **dict.fromkeys(("+m",), "structured"),
    "+r": "encoded",
    "n": "nulls",
}


@pytest.mark.parametrize("text", KINDS)
def test_other_types_are_refused_by_name(text: str) -> None:
    """At the top, in lists, and in a column of a table."""
    for wrapped in (
        lambda schema: schema,
        lambda schema: arrow.schema("+w:2", schema),
        lambda schema: arrow.schema("+s", arrow.schema("+l", schema)),
    ):
        with pytest.raises(BufferError) as caught:
            candle.from_arrow(arrow.Exporter(wrapped(arrow.schema(text)), numbers()))
        [reason] = caught.value.plan.reasons  # type: ignore[attr-defined]
        assert (reason.code, caught.value.plan.action) == (KINDS[text], "refuse")  # type: ignore[attr-defined]
        assert reason.remedy in str(caught.value)


def test_dictionaries_are_refused() -> None:
    with pytest.raises(BufferError, match="dictionary-encoded"):
        candle.from_arrow(arrow.Exporter(arrow.schema("i", dictionary=True), numbers()))


TENSOR = "arrow.fixed_shape_tensor"
JSON = [
    *(
        "",
        " ",
        "null",
        "[]",
        "1",
        '"shape"',
        "{",
        "}",
        "{}",
        '{"shape"}',
        '{"shape":}',
        '{"shape":6}',
    ),
    *('{"shape":[6]', '{"shape":[6}', '{"shape":[6]}}', '{"shape":[6],}', '{"shape":[6,]}'),
    *('{"shape":[,6]}', '{"shape":["6"]}', '{"shape":[6.0]}', '{"shape":[6e0]}', '{"shape":[-6]}'),
    *('{"shape":[06]}', '{"shape":[99999999999999999999]}', '{"shape":[2,4]}', '{"shape":[]}'),
    *('{"shape":[6],"shape":[6]}', "{'shape':[6]}", '{"shape":[6],"permutation":[1]}'),
    *('{"shape":[2,3],"permutation":[0]}', '{"shape":[2,3],"permutation":[0,0]}'),
    *('{"shape":[2,3],"permutation":[0,2]}', '{"shape":[2,3],"permutation":[0,1,2]}'),
    *('{"shape":[2,3],"permutation":[-1,0]}', '{"shape":[2,3],"permutation":[64,0]}'),
    *('{"shape":[2,3],"permutation":{}}', '{"shape":[2,3],"dim_names":["a"]}'),
    *('{"shape":[2,3],"dim_names":[1,2]}', '{"shape":[2,3],"dim_names":["a","\\x"]}'),
    *('{"shape":[2,3],"dim_names":["a","\\u12"]}', '{"shape":[2,3],"dim_names":["a","b]}'),
    *('{"shape":[6],"more":tru}', '{"shape":[6],"more":[1,2}', '{"shape":[6],"more":01}'),
    *('{"shape":[6],"more":1.}', '{"shape":[6],"more":-}', '{"shape":[6],"more":"\n"}'),
    *('{"shape":[6', '{"shape":[0', '{"shape":[2,3],"permutation":[1,0', '{"shape":[6],"more":[1'),
    *('{"shape":[2,3],"dim_names":["a","\\u00fG"]}', '{"shape":[6],"more":"\\u00:0"}'),
    '{"shape":[6],"more":' + "[" * 100 + "]" * 100 + "}",
    '{"shape":[6],"more":' + '{"x":' * 100 + "1" + "}" * 101,
    '{"shape":[' + ",".join(["1"] * 65) + "]}",
    '{"shape":[4294967296,4294967296]}',
    b'{"shape":[6],"dim_names":["\xff"]}',
    b'{"shape":[6],"dim_names":["\xc0\xaf"]}',
    b'{"shape":[6],"dim_names":["\xed\xa0\x80"]}',
    b'{"shape":[6],"dim_names":["\xf4\x90\x80\x80"]}',
    b'{"shape":[6],"dim_names":["\xe2\x82"]}',
    b'{"shape":[6]}\x00',
]


@pytest.mark.parametrize("text", JSON, ids=range(len(JSON)))
def test_tensor_metadata_that_is_wrong(text: str | bytes) -> None:
    schema = arrow.schema("+w:6", arrow.schema("f"), metadata=arrow.extension(TENSOR, text))
    with pytest.raises(BufferError, match="impossible Arrow data"):
        candle.from_arrow(arrow.Exporter(schema, fixed(6, 2, 12)[1]))


GOOD_JSON = {
    '{"shape":[6]}': (2, 6),
    ' {\t"shape" : [ 2 ,3 ]\r\n} ': (2, 2, 3),
    '{"shape":[2,3],"permutation":[1,0]}': (2, 3, 2),
    '{"shape":[2,3],"permutation":null,"dim_names":null}': (2, 2, 3),
    '{"dim_names":["a","\\u00e9\\"é"],"shape":[2,3]}': (2, 2, 3),
    '{"dim_names":["\\u00E9","\\uAbCF"],"shape":[2,3]}': (2, 2, 3),
    '{"x":{"y":[1,-2.5e+3,true,false,null,"{"],"z":{}},"shape":[1,6,1]}': (2, 1, 6, 1),
}


@pytest.mark.parametrize("text", GOOD_JSON)
def test_tensor_metadata_that_is_right(text: str) -> None:
    schema = arrow.schema("+w:6", arrow.schema("f"), metadata=arrow.extension(TENSOR, text))
    assert candle.from_arrow(arrow.Exporter(schema, fixed(6, 2, 12)[1])).shape == GOOD_JSON[text]


def test_tensor_without_axes_is_one_element_a_row() -> None:
    text = arrow.extension(TENSOR, '{"shape":[]}')
    schema = arrow.schema("+w:1", arrow.schema("f"), metadata=text)
    assert candle.from_arrow(arrow.Exporter(schema, fixed(1, 3, 3)[1])).shape == (3,)


BLOCKS = {
    "a negative count": struct.pack("=i", -1),
    "a negative length": struct.pack("=ii", 1, -1),
    "a key of 2 GB": struct.pack("=ii", 1, 2**31 - 1),
    "a value of 2 GB": struct.pack("=ii3si", 1, 3, b"key", 2**31 - 1),
    "too much in all": struct.pack("=ii", 1, 1 << 20) + bytes(1 << 20),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_metadata_blocks_that_lie(kind: str) -> None:
    producer = arrow.Exporter(arrow.schema("i", metadata=BLOCKS[kind]), numbers())
    with pytest.raises(BufferError, match="metadata"):
        candle.from_arrow(producer)


def test_metadata_of_others_is_passed_over() -> None:
    text = arrow.metadata([(b"", b""), (b"PARQUET:field_id", b"1"), (b"x" * 9999, bytes(9999))])
    assert candle.from_arrow(arrow.Exporter(arrow.schema("i", metadata=text), numbers())).size == 4
    other = arrow.extension("com.example.unknown", b"\xff\x00")
    assert candle.from_arrow(arrow.Exporter(arrow.schema("i", metadata=other), numbers())).size == 4


def test_opaque_of_others_is_refused() -> None:
    for text in ('{"type_name":"bfloat16","vendor_name":"someone"}', "{}", '{"type_name":"x"}'):
        schema = arrow.schema("w:2", metadata=arrow.extension("arrow.opaque", text))
        with pytest.raises(BufferError, match="opaque"):
            candle.from_arrow(arrow.Exporter(schema, arrow.array(2, [None, bytes(4)])))
    schema = arrow.schema("w:2", metadata=arrow.extension("arrow.opaque", '{"type_name":1}'))
    with pytest.raises(BufferError, match="not what its specification says"):
        candle.from_arrow(arrow.Exporter(schema, arrow.array(2, [None, bytes(4)])))


class Gives:
    """An object whose methods give what they were given."""

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            setattr(self, f"__arrow_c_{name}__", lambda value=value: value)


def test_wrong_capsules_are_refused() -> None:
    good = arrow.Exporter(arrow.schema("i"), numbers())
    schema, data = good.__arrow_c_array__()
    for given in (
        (data, schema),
        (schema, schema),
        (data, data),
        (schema, None),
        (schema,),
        [schema, data],
        schema,
        None,
        (schema, candle.zeros(3).__dlpack__()),
    ):
        with pytest.raises(BufferError):
            candle.from_arrow(Gives(array=given))
        with pytest.raises(BufferError):
            candle.from_arrow(Gives(device_array=given))
    for given in (schema, data, None, (schema, data), candle.zeros(3).__dlpack__()):
        with pytest.raises(BufferError):
            candle.from_arrow(Gives(stream=given))
        with pytest.raises(BufferError):
            candle.from_arrow(Gives(device_stream=given))
    assert good.releases == 0
    assert candle.from_arrow(Gives(array=(schema, data))).tolist() == [1, 2, 3, 4]
    with pytest.raises(BufferError, match="consumed before"):
        candle.from_arrow(Gives(array=(schema, data)))


def test_device_capsules_serve_once() -> None:
    one = arrow.DeviceExporter(arrow.schema("i"), numbers(), (1, -1))
    schema, data = one.__arrow_c_device_array__()
    assert candle.from_arrow(Gives(device_array=(schema, data))).tolist() == [1, 2, 3, 4]
    with pytest.raises(BufferError, match='"arrow_device_array" was consumed before'):
        candle.from_arrow(Gives(device_array=(schema, data)))
    several: Any = arrow.StreamExporter(arrow.schema("i"), [numbers()], device=(1, -1))
    stream = several.__arrow_c_device_stream__()
    assert candle.from_arrow(Gives(device_stream=stream)).tolist() == [1, 2, 3, 4]
    with pytest.raises(BufferError, match='"arrow_device_array_stream" was consumed before'):
        candle.from_arrow(Gives(device_stream=stream))
    assert (one.releases, several.released) == (1, 1)


def test_capsules_themselves() -> None:
    producer = arrow.Exporter(arrow.schema("i"), numbers())
    assert candle.from_arrow(producer.__arrow_c_array__()).tolist() == [1, 2, 3, 4]
    stream = arrow.StreamExporter(arrow.schema("i"), [numbers(), numbers()])
    assert candle.from_arrow(stream.__arrow_c_stream__()).size == 8
    assert stream.released == 1
    with pytest.raises(BufferError, match="consumed before"):
        candle.from_arrow(stream.__arrow_c_stream__())
    good = arrow.Exporter(arrow.schema("i"), numbers())
    schema, data = good.__arrow_c_array__()
    for tuple_ in ((), (schema,), (schema, data, data), (schema, None), (None, data)):
        with pytest.raises(TypeError, match="or their capsules, and tuple has none"):
            candle.from_arrow(tuple_)
    assert candle.from_arrow((schema, data)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("call", ["get_schema", "get_next"])
@pytest.mark.parametrize("error", [b"out of luck", None, b"x" * 5000])
def test_stream_that_fails(call: str, error: bytes | None) -> None:
    chunks = [numbers(), numbers()]
    stream = arrow.StreamExporter(arrow.schema("i"), chunks, fails=call, error=error)
    said = "it gives no reason" if error is None else error[:300].decode()
    with pytest.raises(BufferError, match=said):
        candle.from_arrow(stream)
    assert stream.released == 1
    taken = len(chunks) if call == "get_next" else 0
    assert [arrow.released[chunk.private_data] for chunk in chunks] == [1] * taken + [0] * (
        2 - taken
    )


@pytest.mark.parametrize("fields", [{"get_next": None}, {"get_schema": None}])
def test_stream_without_functions(fields: dict[str, Any]) -> None:
    stream = arrow.StreamExporter(arrow.schema("i"), [])
    spoilt(stream.stream, **fields)
    with pytest.raises(BufferError, match="NULL"):
        candle.from_arrow(stream)
    assert stream.released == 1


def test_stream_without_words_for_its_error() -> None:
    stream = arrow.StreamExporter(arrow.schema("i"), [], fails="get_next")
    spoilt(stream.stream, get_last_error=None)
    with pytest.raises(BufferError, match="gives no reason"):
        candle.from_arrow(stream)


def test_stream_with_a_bad_chunk_releases_all() -> None:
    chunks = [numbers(), numbers(length=-1), numbers()]
    stream = arrow.StreamExporter(arrow.schema("i"), chunks)
    with pytest.raises(BufferError, match="length -1"):
        candle.from_arrow(stream)
    assert [arrow.released[chunk.private_data] for chunk in chunks] == [1, 1, 0]
    assert stream.released == 1


def test_device_streams_on_the_host() -> None:
    """They come before plain ones; the host has any number."""
    for device in ((1, -1), (1, 0), (3, 0)):
        chunks = [numbers(), numbers(length=2)]
        stream = arrow.StreamExporter(arrow.schema("i"), chunks, device=device)
        assert candle.from_arrow(stream).tolist() == [1, 2, 3, 4, 1, 2]
        assert stream.released == 1
        assert [arrow.released[chunk.private_data] for chunk in chunks] == [1, 1]


@pytest.mark.parametrize("number", [-2, 2**31, 2**32, -(2**63)])
def test_devices_that_no_number_counts(number: int) -> None:
    for kind in (1, 2):
        producer = arrow.DeviceExporter(arrow.schema("i"), numbers(), (kind, number))
        with pytest.raises(BufferError, match=f"impossible Arrow data: .* device {number}"):
            candle.from_arrow(producer)
        assert producer.releases == 0


def test_columns_that_have_no_such_name() -> None:
    for name in ("b", "", "a\0", "\ud800", "a" * 10**6):
        schema = arrow.schema("+s", arrow.schema("i", name=b"a"), arrow.schema("i", name=None))
        table = arrow.array(4, [None], numbers(), numbers())
        with pytest.raises(ValueError, match="no column is called") as refused:
            candle.from_arrow(arrow.Exporter(schema, table), column=name)
        assert type(refused.value) is ValueError


def test_producer_that_raises() -> None:
    class Raises:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            raise ValueError("not today")

    for take in (candle.from_arrow, candle.asarray):
        with pytest.raises(BufferError, match="ValueError: not today"):
            take(Raises())


def test_producer_that_lacks_a_package() -> None:
    class Lacks:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ImportError("no pyarrow here")

        def __array__(self, dtype: object = None, copy: object = None) -> Any:
            return candle.arange(3).numpy()

    assert candle.asarray(Lacks()).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="no pyarrow here"):
        candle.from_arrow(Lacks())


def test_what_has_no_arrow() -> None:
    for x in ([1, 2], b"abc", None, 3, candle.zeros(2).numpy(), (1, 2), Gives):
        with pytest.raises(TypeError, match="from_arrow takes"):
            candle.from_arrow(x)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"nulls": "drop"}, ValueError),
        ({"nulls": None}, TypeError),
        ({"nulls": [1]}, TypeError),
        ({"chunks": "join"}, ValueError),
        ({"chunks": 1}, TypeError),
        ({"times": "int64"}, ValueError),
        ({"column": 1.5}, TypeError),
        ({"column": True}, TypeError),
        ({"column": "a"}, ValueError),
        ({"copy": 3}, TypeError),
        ({"dtype": "no"}, TypeError),
        ({"more": 1}, TypeError),
    ],
)
def test_wrong_arguments(arguments: Any, error: type[Exception]) -> None:
    producer = arrow.Exporter(arrow.schema("i"), numbers())
    with pytest.raises(error):
        candle.from_arrow(producer, **arguments)
    assert producer.releases == 0
    with pytest.raises(TypeError):
        candle.from_arrow()  # type: ignore[call-overload]
