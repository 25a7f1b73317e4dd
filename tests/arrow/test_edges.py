"""What few producers hand out: the most axes, nulls in odd places, chunks on several devices."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import arrow_structs as arrow
import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arrow_structs import Array, Schema

FOUR = struct.pack("4i", 1, 2, 3, 4)
MOST = 64  # axes of a tensor


def nested(depth: int, schema: Schema, data: Array) -> tuple[Schema, Array]:
    """One row of lists of one item each, so many levels of them."""
    for _ in range(depth):
        schema, data = arrow.schema("+w:1", schema), arrow.array(1, [None], data)
    return schema, data


def deep(depth: int) -> tuple[Schema, Array]:
    return nested(depth, arrow.schema("i"), arrow.array(1, [None, FOUR]))


def deep_bytes(depth: int) -> tuple[Schema, Array]:
    return nested(depth, arrow.schema("w:4"), arrow.array(1, [None, FOUR]))


def deep_nothing(depth: int) -> tuple[Schema, Array]:
    """As deep, of tensors that have no axes."""
    schema, data = arrow.schema("i"), arrow.array(1, [None, FOUR])
    text = arrow.extension("arrow.fixed_shape_tensor", '{"shape":[]}')
    for _ in range(depth):
        schema, data = arrow.schema("+w:1", schema, metadata=text), arrow.array(1, [None], data)
    return schema, data


def tensor_of(shape: list[int], level: str = "+w:1") -> Schema:
    text = arrow.extension("arrow.fixed_shape_tensor", f'{{"shape":{shape}}}')
    return arrow.schema(level, arrow.schema("i"), metadata=text)


def deep_tensor(depth: int, axes: int) -> tuple[Schema, Array]:
    inner = arrow.array(1, [None], arrow.array(1, [None, FOUR]))
    return nested(depth, tensor_of([1] * axes), inner)


def table(schema: Schema, data: Array, **fields: Any) -> tuple[Schema, Array]:
    made = arrow.array(data.length, [fields.pop("nulls", None)], data, **fields)
    return arrow.schema("+s", schema), made


def test_as_many_axes_as_there_may_be() -> None:
    for schema, data in (deep(MOST - 1), deep_bytes(MOST - 2), deep_tensor(MOST - 5, 4)):
        assert candle.from_arrow(arrow.Exporter(schema, data)).ndim == MOST
    assert candle.from_arrow(arrow.Exporter(*table(*deep(MOST - 2)))).ndim == MOST
    assert candle.from_arrow(arrow.Exporter(*deep_nothing(MOST))).shape == (1,)


TOO_MANY: dict[str, Callable[[], tuple[Schema, Array]]] = {
    "lists": lambda: deep(MOST),
    "bytes": lambda: deep_bytes(MOST - 1),
    "tensors": lambda: deep_tensor(MOST - 1, 1),
    "axes of a tensor": lambda: deep_tensor(MOST - 4, 5),
    "a tensor of as many as there may be": lambda: deep_tensor(0, MOST),
    "levels of no axes": lambda: deep_nothing(MOST + 1),
    "a table of columns that just fit": lambda: table(*deep(MOST - 1)),
}


def test_more_axes_than_there_may_be() -> None:
    for kind, make in TOO_MANY.items():
        producer = arrow.Exporter(*make())
        with pytest.raises(BufferError, match="more axes than the 64"):
            candle.from_arrow(producer)
        # Of a table that is seen when its columns have been taken.
        assert producer.releases == (1 if "table" in kind else 0), kind


def test_tensors_in_lists_of_any_length() -> None:
    """The specification stores them in lists of fixed size alone."""
    offsets = struct.pack("2i", 0, 1)
    data = arrow.array(1, [None, offsets], arrow.array(1, [None, FOUR]))
    with pytest.raises(BufferError, match="lists of no fixed width"):
        candle.from_arrow(arrow.Exporter(tensor_of([1], "+l"), data))


def test_more_rows_than_can_be_counted() -> None:
    """In many chunks, each of which may be: nobody says how long a buffer is."""
    for count, format_, said in (
        (4097, "l", "more elements than memory can be addressed"),
        (100, "c", "no memory for"),
        (
            32769,
            "c",
            "more elements than memory can be addressed",
        ),  # their number alone is beyond 63 bits
    ):
        chunk = arrow.array(1 << 48, [None, FOUR])
        stream = arrow.StreamExporter(arrow.schema(format_), [chunk] * count)
        with pytest.raises((BufferError, MemoryError), match=said):
            candle.from_arrow(stream)
        assert arrow.released[chunk.private_data] == count


def test_more_elements_of_a_table_than_can_be_counted() -> None:
    """Of each column they can."""
    rows, width = 1 << 48, 1 << 11
    schema = arrow.schema("+s", *[arrow.schema(f"w:{width}") for _ in range(16)])
    data = arrow.array(rows, [None], *[arrow.array(rows, [None, FOUR]) for _ in range(16)])
    with pytest.raises(BufferError, match="more elements than memory can be addressed"):
        candle.from_arrow(arrow.Exporter(schema, data))


def test_rows_that_lie_further_apart_than_can_be_counted() -> None:
    """Each distance fits, of lists in lists, and only their sum does not."""
    far = 1 << 46
    inner = arrow.array(1 << 48, [None], arrow.array(1 << 48, [None, FOUR]))
    for rows, width in ((3, 1 << 16), (2, 1 << 17)):
        begins = struct.pack(f"{rows}q", *(far * row for row in range(rows)))
        data = arrow.array(rows, [None, begins, struct.pack(f"{rows}q", *[1] * rows)], inner)
        schema = arrow.schema("+vL", arrow.schema(f"+w:{width}", arrow.schema("c")))
        with pytest.raises(BufferError, match="impossible Arrow data"):
            candle.from_arrow(arrow.Exporter(schema, data))


def test_few_nulls_among_many() -> None:
    """Those that lie alone between bytes of none, at the ends, and in a slice."""
    rows = 83
    for where in ([3, 37], [0], [82], [8, 15, 16], [63, 64], list(range(83))):
        bits = bytearray(b"\xff" * 11)
        for row in where:
            bits[row // 8] &= ~(1 << row % 8)
        values = struct.pack(f"{rows}h", *range(rows))
        for offset in (0, 1, 8, 13):
            kept = [row for row in where if row >= offset]
            made = arrow.array(
                rows - offset, [bytes(bits), values], null_count=len(kept), offset=offset
            )
            schema = arrow.schema("s")
            want = [-1 if row in where else row for row in range(offset, rows)]
            assert candle.from_arrow(arrow.Exporter(schema, made), nulls=-1).tolist() == want


def test_nulls_become_elements_of_less_than_a_byte() -> None:
    made = arrow.array(4, [b"\x0d", FOUR], null_count=1)
    t = candle.from_arrow(arrow.Exporter(arrow.schema("i"), made), nulls=7, dtype="int4")
    assert (t.tolist(), t.dtype) == ([1, 7, 3, 4], candle.as_dtype("int4"))


COMPLEX = '{"type_name":"complex64","vendor_name":"candle"}'


def test_parts_of_complex_numbers_that_are_null() -> None:
    schema = arrow.schema(
        "+w:2", arrow.schema("f"), metadata=arrow.extension("arrow.opaque", COMPLEX)
    )
    parts = struct.pack("4f", 1, 2, 3, 4)
    for bits, count in ((b"\x0f", -1), (b"\x0d", 1)):
        data = arrow.array(2, [None], arrow.array(4, [bits, parts], null_count=count))
        producer = arrow.Exporter(schema, data)
        if count < 0:  # there is a buffer of nulls, and none in it
            assert candle.from_arrow(producer).tolist() == [1 + 2j, 3 + 4j]
            continue
        with pytest.raises(BufferError, match="parts of complex numbers are null") as caught:
            candle.from_arrow(producer)
        assert [reason.code for reason in caught.value.plan.reasons] == ["nulls"]  # type: ignore[attr-defined]


def test_parts_of_complex_numbers_that_may_be_null() -> None:
    """-1 is a count that nobody made; on a device nobody can."""
    schema = arrow.schema(
        "+w:2", arrow.schema("f"), metadata=arrow.extension("arrow.opaque", COMPLEX)
    )

    def made(rows: int, bits: bytes | None) -> tuple[Schema, Array]:
        parts = arrow.array(4, [bits, struct.pack("4f", 1, 2, 3, 4)], null_count=-1)
        return schema, arrow.array(rows, [None], parts)

    assert candle.from_arrow(arrow.Exporter(*made(2, None))).tolist() == [1 + 2j, 3 + 4j]
    assert candle.from_arrow(arrow.Exporter(*made(0, b"\0"))).shape == (0,)
    assert candle.explain(arrow.DeviceExporter(*made(2, None), (7, 0))).action != "refuse"
    with pytest.raises(BufferError, match="parts of complex numbers are null, or may be"):
        candle.from_arrow(arrow.DeviceExporter(*made(2, b"\x0f"), (7, 0)))


def test_nulls_that_nobody_has_counted() -> None:
    """There may be none: no buffer of them, no rows, or every row is there."""
    for bits, rows in ((None, 4), (b"\x0f", 4), (b"\0", 0)):
        column = arrow.schema("i"), arrow.array(4, [None, FOUR])
        schema, data = table(*column, nulls=bits, null_count=-1)
        data.length = rows
        taken = candle.from_arrow(arrow.Exporter(schema, data))
        assert taken.tolist() == [[1], [2], [3], [4]][:rows]
    offsets = struct.pack("3i", 0, 1, 3)
    lists = arrow.array(2, [None, offsets], arrow.array(4, [None, FOUR]), null_count=-1)
    with pytest.raises(BufferError, match="row 1 has 2 items and the first has 1"):
        candle.from_arrow(arrow.Exporter(arrow.schema("+l", arrow.schema("i")), lists))


def test_lists_of_nothing() -> None:
    """Wherever they are said to begin."""
    for begins in ((0, 0, 0), (4, 2, 0), (1, 2, 3), (3, 0, 3)):
        views = [None, struct.pack("3i", *begins), struct.pack("3i", 0, 0, 0)]
        data = arrow.array(3, views, arrow.array(4, [None, FOUR]))
        taken = candle.from_arrow(arrow.Exporter(arrow.schema("+vl", arrow.schema("i")), data))
        assert (taken.shape, taken.tolist()) == ((3, 0), [[], [], []])


def test_streams_without_chunks() -> None:
    for format_, shape in (("i", (0,)), ("w:4", (0, 4)), ("w:0", (0, 0))):
        taken = candle.from_arrow(arrow.StreamExporter(arrow.schema(format_), []))
        assert taken.shape == shape, format_


def test_more_in_the_metadata_than_is_known() -> None:
    text = COMPLEX[:-1] + ',"note":["x",{"y":-1.5e3}],"more":null}'
    schema = arrow.schema("+w:2", arrow.schema("f"), metadata=arrow.extension("arrow.opaque", text))
    data = arrow.array(2, [None], arrow.array(4, [None, struct.pack("4f", 1, 2, 3, 4)]))
    assert candle.from_arrow(arrow.Exporter(schema, data)).tolist() == [1 + 2j, 3 + 4j]


def test_a_column_to_a_device() -> None:
    made = arrow.array(4, [None, FOUR])
    t = candle.from_arrow(arrow.Exporter(arrow.schema("i"), made), device="cpu")
    assert (t.tolist(), t.device) == ([1, 2, 3, 4], candle.Device("cpu"))
    with pytest.raises((TypeError, ValueError), match="nowhere"):
        candle.from_arrow(t, device="nowhere")


# Devices, of which nothing is read


def test_rows_of_a_table_that_may_be_null_on_a_device() -> None:
    schema, data = table(arrow.schema("i"), arrow.array(4, [None, FOUR]), nulls=b"\x0f")
    data.null_count = -1
    producer = arrow.DeviceExporter(schema, data, (2, 0))
    with pytest.raises(BufferError, match="where is written on a device"):
        candle.from_arrow(producer)
    assert producer.releases == 0


class Wandering(arrow.StreamExporter):
    """A stream whose chunks lie on one device after the other."""

    def _get_next(self, stream: int, out: int) -> int:
        self.device = (2, self.given) if self.given else (1, 0)
        return super()._get_next(stream, out)


def test_chunks_on_several_devices() -> None:
    chunks = [arrow.array(4, [None, FOUR]) for _ in range(2)]
    with pytest.raises(BufferError, match="different devices; copy them to one first"):
        candle.from_arrow(Wandering(arrow.schema("i"), chunks, device=(1, 0)))
    assert [arrow.released[chunk.private_data] for chunk in chunks] == [1, 1]


class Reader(arrow.StreamExporter):
    """A stream that is an iterator as well, as pyarrow's RecordBatchReader is."""

    def __iter__(self) -> Iterator[Array]:
        return self

    def __next__(self) -> Array:
        raise StopIteration


def test_what_would_become_of_a_reader_is_not_told() -> None:
    """To say it, the reader would have to be read, which goes once."""
    reader = Reader(arrow.schema("i"), [arrow.array(4, [None, FOUR])])
    with pytest.raises(TypeError, match="is an iterator, which is read once"):
        candle.explain(reader)
    assert (reader.given, reader.released) == (0, 0)
    assert candle.from_arrow(reader).tolist() == [1, 2, 3, 4]


# Metadata: JSON, of which most is of no interest, but has to be JSON

WHOLE = (
    r' { "type_name" : "complex64" , "vendor_name":"candle", "a\u00e9\n\"\/": '
    '[1, -0, 0.5, -12.75e+3, 1E-2, 2e5, true, false, null, {"b": []}, {}, '
    '"\u00e9\u20ac\U0001f600"] } '
)


def of_metadata(text: str | bytes) -> arrow.Exporter:
    metadata = arrow.extension("arrow.opaque", text)
    schema = arrow.schema("+w:2", arrow.schema("f"), metadata=metadata)
    data = arrow.array(2, [None], arrow.array(4, [None, struct.pack("4f", 1, 2, 3, 4)]))
    return arrow.Exporter(schema, data)


def test_metadata_that_ends_anywhere() -> None:
    assert candle.from_arrow(of_metadata(WHOLE)).tolist() == [1 + 2j, 3 + 4j]
    whole = WHOLE.rstrip().encode()
    for end in range(len(whole)):
        with pytest.raises(BufferError, match="opaque"):
            candle.from_arrow(of_metadata(whole[:end]))


NO_JSON = [
    *("01", "1.", ".5", "-", "+1", "1e", "1e+", "0x1", "1 2", "tru", "nul", "nan", "Infinity"),
    *('"\\x"', '"\\u12g4"', '"\\u12', "'a'", "[1,]", "[1 2]", "[,1]", "{1:2}", '{"a" 1}', '{"a":}'),
    *('{"a":1,}', "[}", "{]", "[", '"', '"\n"', "[" * 200 + "]" * 200),
]


def test_metadata_that_is_no_json() -> None:
    for value in NO_JSON:
        text = '{"type_name":"complex64","vendor_name":"candle","more":' + value + "}"
        with pytest.raises(BufferError, match="opaque"):
            candle.from_arrow(of_metadata(text))


NO_UTF8 = [
    *(b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xc3", b"\xc3\x28", b"\xe0\x80\x80"),
    *(b"\xe0\x9f\xbf", b"\xe2\x82", b"\xe2\x28\xa1", b"\xe2\x82\x28", b"\xed\xa0\x80"),
    *(
        b"\xed\xbf\xbf",
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
    ),
    *(b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80", b"\xff", b"\xfe", b"\xf0\x28\x8c\xbc"),
]


def test_metadata_that_is_no_text() -> None:
    """Each way of UTF-8's to be wrong, and the codes next to them that are right."""
    before = b'{"type_name":"complex64","vendor_name":"candle","more":"'
    for wrong in NO_UTF8:
        with pytest.raises(BufferError, match="opaque"):
            candle.from_arrow(of_metadata(before + wrong + b'"}'))
    for code in (0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
        text = before + chr(code).encode() + b'"}'
        assert candle.from_arrow(of_metadata(text)).size == 2


FILLS: list[tuple[str, Any, Any]] = [
    # a column's format, what its null becomes, the values; None where that is refused
    ("s", 7, [1, 7, 3]),
    ("s", True, [1, 1, 3]),
    ("s", 7.0, [1, 7, 3]),
    ("s", 7.5, None),
    ("s", float("nan"), None),
    ("s", float("inf"), None),
    ("s", 1e300, None),
    ("s", 1 << 15, None),
    ("s", 1 << 70, None),
    ("s", 7 + 0j, None),
    ("S", -1, None),
    ("e", 7, [1, 7, 3]),
    ("e", 0.5, [1, 0.5, 3]),
    ("e", 1 << 70, [1, float("inf"), 3]),
    ("e", 7j, None),
]


def test_what_a_null_can_become() -> None:
    """A number that the dtype holds as it is, or rounded if it is one of fractions."""
    for format_, fill, values in FILLS:
        letter = {"s": "h", "S": "H", "e": "e"}[format_]
        made = arrow.array(3, [b"\x05", struct.pack(f"3{letter}", 1, 2, 3)], null_count=1)
        producer = arrow.Exporter(arrow.schema(format_), made)
        if values is None:
            with pytest.raises((ValueError, BufferError), match="does not"):
                candle.from_arrow(producer, nulls=fill)
        else:
            assert candle.from_arrow(producer, nulls=fill).tolist() == values, (format_, fill)


def test_what_a_null_of_a_complex_column_can_become() -> None:
    for fill in (2 - 1j, 0.5, 3, True):
        column = arrow.array(3, [b"\x05", struct.pack("3f", 1, 2, 3)], null_count=1)
        producer = arrow.Exporter(arrow.schema("f"), column)
        taken = candle.from_arrow(producer, nulls=fill, dtype="complex64")
        assert (str(taken.dtype), taken.tolist()) == ("complex64", [1, fill, 3])


def test_a_null_becomes_no_pair_of_numbers() -> None:
    column = arrow.array(3, [b"\x05", b"abc"], null_count=1)
    producer = arrow.Exporter(arrow.schema("C"), column)
    with pytest.raises(ValueError, match="nulls=0 does not fit float4_e2m1fn_x2"):
        candle.from_arrow(producer, nulls=0, dtype="float4_e2m1fn_x2")


def test_columns_of_several_dtypes_are_written_into_one() -> None:
    columns = [("s", struct.pack("2h", 1, 2)), ("g", struct.pack("2d", 0.5, -1))]
    schema = arrow.schema("+s", *[arrow.schema(format_) for format_, _ in columns])

    def made() -> arrow.Exporter:
        return arrow.Exporter(
            schema, arrow.array(2, [None], *[arrow.array(2, [None, data]) for _, data in columns])
        )

    with pytest.raises(BufferError, match="column 1 is float64 and the first is int16"):
        candle.from_arrow(made())
    t = candle.zeros((2, 2), dtype="float32")
    t[:] = made()
    assert t.tolist() == [[1, 0.5], [2, -1]]


def test_what_a_null_of_a_bit_can_become() -> None:
    for fill, value in ((True, True), (False, False), (1, True), (0, False)):
        producer = arrow.Exporter(
            arrow.schema("b"), arrow.array(3, [b"\x05", b"\x01"], null_count=1)
        )
        assert candle.from_arrow(producer, nulls=fill).tolist() == [True, value, False]
    for wrong in (2, -1, 1.0, 1j, 1 << 70):
        producer = arrow.Exporter(
            arrow.schema("b"), arrow.array(3, [b"\x05", b"\x01"], null_count=1)
        )
        with pytest.raises(ValueError, match="does not fit bool"):
            candle.from_arrow(producer, nulls=wrong)
