"""What Arrow memory is held by, given back once, and told to who watches."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import arrow_structs as arrow
import pytest

import candle
from candle.testing import live

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES = bytes(range(64))


def numbers(length: int = 8, null_count: int = 0) -> arrow.Exporter:
    valid = b"\xfe" if null_count else None
    made = arrow.array(length, [valid, BYTES], null_count=null_count)
    return arrow.Exporter(arrow.schema("l"), made)


def bits() -> arrow.Exporter:
    return arrow.Exporter(arrow.schema("b"), arrow.array(8, [None, b"\x05"]))


def test_array_is_released_with_the_last_view() -> None:
    before = live()
    producer = numbers()
    t = candle.from_arrow(producer)
    view = t[2:].view("uint8")
    again = candle.from_dlpack(t)
    del t, again
    assert producer.releases == 0
    assert view[0].item() == 16
    del view
    assert producer.releases == 1
    assert live() == before


@pytest.mark.parametrize("copy", [True, None])
def test_copies_hold_nothing(copy: bool | None) -> None:
    producer = numbers() if copy else bits()
    t = candle.from_arrow(producer, copy=copy)
    assert (producer.releases, t.readonly) == (1, False)


def test_schema_stays_its_capsules() -> None:
    producer = numbers()
    t = candle.from_arrow(producer)
    assert arrow.released[producer.schema.private_data] == 0
    assert t.size == 8


@pytest.mark.parametrize(
    "refused",
    [
        lambda: (numbers(null_count=1), {}),
        lambda: (numbers(), {"column": 0}),
        lambda: (arrow.Exporter(arrow.schema("u"), arrow.array(1, [None, BYTES, BYTES])), {}),
    ],
    ids=["nulls", "a column", "text"],
)
def test_what_is_refused_for_what_it_is_stays_the_producers(refused: Callable[[], Any]) -> None:
    producer, asked = refused()
    with pytest.raises((BufferError, ValueError)):
        candle.from_arrow(producer, **asked)
    assert producer.releases == 0


@pytest.mark.parametrize(
    ("make", "asked"),
    [
        (bits, {"copy": False}),
        (numbers, {"dtype": "int8", "copy": False}),
        (lambda: numbers(null_count=1), {"nulls": 0.5}),
    ],
    ids=["bits", "a cast", "a fill value"],
)
def test_what_is_refused_later_is_released_once(make: Callable[[], Any], asked: Any) -> None:
    producer = make()
    with pytest.raises(ValueError, match=r"without a copy|does not fit"):
        candle.from_arrow(producer, **asked)
    gc.collect()
    assert producer.releases == 1


def test_chunks_are_released_each_with_its_tensor() -> None:
    chunks = [arrow.array(2, [None, BYTES]), arrow.array(3, [None, BYTES])]
    stream = arrow.StreamExporter(arrow.schema("l"), chunks)
    first, second = candle.from_arrow(stream, chunks="list")
    assert stream.released == 1
    counts = [chunk.private_data for chunk in chunks]
    del first
    assert [arrow.released[count] for count in counts] == [1, 0]
    del second
    assert [arrow.released[count] for count in counts] == [1, 1]


def test_chunks_put_together_are_released_at_once() -> None:
    chunks = [arrow.array(2, [None, BYTES]), arrow.array(3, [None, BYTES])]
    stream = arrow.StreamExporter(arrow.schema("l"), chunks)
    assert candle.from_arrow(stream).size == 5
    assert [arrow.released[chunk.private_data] for chunk in chunks] == [1, 1]


def test_empty_chunks_are_released() -> None:
    chunks = [arrow.array(0, [None, None]) for _ in range(3)]
    stream = arrow.StreamExporter(arrow.schema("l"), chunks)
    t = candle.from_arrow(stream)
    assert (t.shape, t.dtype) == ((0,), candle.int64)
    assert [arrow.released[chunk.private_data] for chunk in chunks] == [1, 1, 1]


def test_mask_does_not_hold_the_values() -> None:
    producer = numbers(null_count=1)
    values, mask = candle.from_arrow(producer, nulls="mask")
    assert mask.tolist() == [True] + [False] * 7
    del values
    assert producer.releases == 1
    assert mask.tolist()[0]


def test_release_runs_on_the_thread_of_the_last_reference() -> None:
    producer = numbers()
    kept = [candle.from_arrow(producer)]
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    assert producer.releases == 1


def test_release_in_the_middle_of_an_exception() -> None:
    """The producer's release is Python here; the exception under way stays."""
    producer = numbers()

    def fail() -> None:
        t = candle.from_arrow(producer)
        assert t.size == 8
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        fail()
    gc.collect()
    assert producer.releases == 1


def test_many_threads_take_and_give() -> None:
    t = candle.arange(1000, dtype="int64")
    errors: list[BaseException] = []
    before = live()

    def work() -> None:
        try:
            for _ in range(200):
                shared = candle.from_arrow(t)
                assert shared.data_ptr() == t.data_ptr()
                copied = candle.from_arrow(candle.from_arrow(t), copy=True)
                assert copied[-1].item() == 999
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    gc.collect()
    assert live() == before


def test_moves_are_told_with_their_route_and_bytes() -> None:
    stream = arrow.StreamExporter(
        arrow.schema("l"), [arrow.array(2, [None, BYTES]), arrow.array(3, [None, BYTES])]
    )
    with candle.trace() as moves:
        candle.from_arrow(numbers())
        candle.from_arrow(bits())
        candle.from_arrow(stream)
        candle.zeros((2, 3)).__arrow_c_array__()
        candle.zeros((2, 3)).T.__arrow_c_array__()
    assert [(m.route, m.action, m.nbytes, [r.code for r in m.reasons]) for m in moves] == [
        ("arrow_array", "share", 0, []),
        ("arrow_array", "copy", 8, ["bitmap"]),
        ("arrow_stream", "copy", 40, ["chunks"]),
        ("arrow_array", "share", 0, []),
        ("arrow_array", "copy", 24, ["not_dense"]),
    ]
    assert all(move.where.startswith(__file__) for move in moves)
    assert [move.consumer for move in moves][-1] == "a consumer of Arrow"


def test_a_watcher_that_forbids_stops_the_move() -> None:
    producer = bits()
    with candle.strict(), pytest.raises(candle.CopyError, match="bits"):
        candle.from_arrow(producer)
    gc.collect()
    assert producer.releases == 1
    with candle.strict(), pytest.raises(candle.CopyError, match="bits"):
        candle.zeros(3, dtype="bool").__arrow_c_array__()


def test_explain_moves_nothing_and_holds_nothing() -> None:
    before = live()
    producer = numbers()
    assert candle.explain(producer).action == "share"
    producer = bits()
    plan = candle.explain(producer, "torch") if _has("torch") else candle.explain(producer)
    assert plan.action == "copy"
    gc.collect()
    assert live() == before


def _has(name: str) -> bool:
    return pytest.importorskip(name) is not None


def test_misaligned_elements_are_copied_right() -> None:
    data = b"\0" + BYTES
    held = arrow.array(1, [None, data])
    made = arrow.array(8, [None, held.buffers[1] + 1])
    producer = arrow.Exporter(arrow.schema("l"), made)
    assert [reason.code for reason in candle.explain(producer).reasons] == ["misaligned"]
    made = arrow.array(8, [None, held.buffers[1] + 1])
    t = candle.from_arrow(arrow.Exporter(arrow.schema("l"), made))
    assert t.view("uint8").tolist() == list(BYTES)
    assert (t.data_ptr() % 8, t.readonly) == (0, False)


def test_both_protocols_go_by_arrow() -> None:
    """Of an object that has both, the __dlpack__ is not asked."""

    class Both(arrow.Exporter):
        def __dlpack__(self, **keywords: object) -> object:
            raise TypeError("no column of mine")

        def __dlpack_device__(self) -> tuple[int, int]:
            raise TypeError("nor where it is")

    for take in (candle.asarray, candle.from_dlpack, candle.Tensor):
        t = take(Both(arrow.schema("l"), arrow.array(3, [None, BYTES])))
        assert t.size == 3
    with pytest.raises(TypeError, match="from_dlpack takes"):
        candle.from_dlpack(numbers())


def test_buffers_come_before_arrow_and_arrow_before_array() -> None:
    class Buffer(bytearray):
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            raise AssertionError("not asked")

    class Array(arrow.Exporter):
        def __array__(self, *arguments: object, **keywords: object) -> object:
            raise AssertionError("not asked")

    assert candle.asarray(Buffer(3)).tolist() == [0, 0, 0]
    assert candle.asarray(Array(arrow.schema("l"), arrow.array(3, [None, BYTES]))).size == 3


def test_alive_at_exit(in_child: Callable[..., Any]) -> None:
    code = """
        import candle
        kept = [candle.from_arrow(candle.arange(10)), candle.zeros((3, 2)).__arrow_c_array__()]
        kept.append(candle.asarray(bytearray(8)).__arrow_c_array__())
        import builtins
        builtins.kept = kept
        {pyarrow}
    """
    in_child(code.format(pyarrow="")).check()
    pytest.importorskip("pyarrow")
    pa = "import pyarrow as pa; kept += [pa.array(candle.ones(3)), candle.asarray(pa.array([1]))]"
    in_child(code.format(pyarrow=pa)).check()
