"""Arrow device arrays: events order both ways, and nothing waits on the host."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ClassVar

import arrow_structs as arrow
import pytest
from fake_driver import LEGACY

import candle
from candle.testing import Producer, info, live

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 16


class Recorded:
    """An event that a producer has recorded, as the C device interface points to it."""

    def __init__(self, driver: Driver, stream: int) -> None:
        with driver.context():
            self.event = driver.call("cuEventCreate", 2)
            driver.call("cuEventRecord", self.event, stream)
        self.place = ctypes.c_void_p(self.event)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.place)


def column(block: int, event: int | None = None, **fields: Any) -> arrow.DeviceExporter:
    made = arrow.array(N, [fields.pop("valid", None), block])
    for name, value in fields.items():
        setattr(made, name, value)
    return arrow.DeviceExporter(arrow.schema("f"), made, (2, 0), event)


def test_the_consumer_comes_after_the_producers_event(driver: Driver, block: int) -> None:
    a, b = driver.stream(), driver.stream()
    driver.late_fill(a, block, 7.0, N)
    event = Recorded(driver, a)
    producer = column(block, event.address)
    before = driver.counters().host_syncs
    t = candle.from_arrow(producer, copy=False)
    assert (t.data_ptr(), t.device, t.readonly) == (block, candle.Device("cuda", 0), True)
    assert info(t.__dlpack__(stream=b, max_version=(1, 0))).data == block
    assert driver.counters().host_syncs == before
    assert driver.read(block, b, N) == [7.0] * N
    del t
    assert producer.releases == 1


def test_without_an_event_nothing_is_waited_for(driver: Driver, block: int) -> None:
    producer = column(block)
    driver.trace()
    t = candle.from_arrow(producer)
    assert t[2:].data_ptr() == block + 8
    t.__dlpack__(stream=driver.stream(), max_version=(1, 0))
    assert driver.trace() == []


def test_pinned_memory_is_read_after_the_event(driver: Driver) -> None:
    """On the host nobody else waits, so the host does."""
    address = driver.alloc(4 * N, kind="pinned")
    a = driver.stream()
    driver.late_fill(a, address, 3.0, N)
    event = Recorded(driver, a)
    made = arrow.array(N, [None, address])
    t = candle.from_arrow(arrow.DeviceExporter(arrow.schema("f"), made, (3, 0), event.address))
    assert t.tolist() == [3.0] * N
    del t
    driver.free(address)


def test_an_event_that_is_gone_is_an_error(driver: Driver, block: int) -> None:
    place = ctypes.c_void_p(0xDEAD0)
    producer = column(block, ctypes.addressof(place))
    with pytest.raises(BufferError, match="wait for the producer's event"):
        candle.from_arrow(producer)
    assert producer.releases == 0


@pytest.mark.parametrize("kind", ["nulls", "perhaps nulls", "lists", "bits", "chunks", "a table"])
def test_what_only_the_host_can_read_is_refused(driver: Driver, block: int, kind: str) -> None:
    schema, made = arrow.schema("f"), arrow.array(N, [None, block])
    if "nulls" in kind:
        made = arrow.array(N, [block, block], null_count=-1 if "perhaps" in kind else 2)
    if kind == "lists":
        schema, made = arrow.schema("+l", schema), arrow.array(2, [None, block], made)
    if kind == "bits":
        schema = arrow.schema("b")
    if kind == "a table":
        schema = arrow.schema("+s", arrow.schema("f"), arrow.schema("f"))
        made = arrow.array(N, [None], made, arrow.array(N, [None, block]))
    producer: Any = arrow.DeviceExporter(schema, made, (2, 0))
    if kind == "chunks":
        parts = [made, arrow.array(N, [None, block])]
        producer = arrow.StreamExporter(schema, parts, device=(2, 0))
    with pytest.raises(BufferError, match="device"):
        candle.from_arrow(producer)


def test_events_of_other_devices_cannot_be_waited_for(driver: Driver, block: int) -> None:
    event = ctypes.c_void_p(1)
    made = arrow.array(N, [None, block])
    producer = arrow.DeviceExporter(arrow.schema("f"), made, (10, 0), ctypes.addressof(event))
    with pytest.raises(BufferError, match="type 10"):
        candle.from_arrow(producer)
    made = arrow.array(N, [None, block])
    t = candle.from_arrow(arrow.DeviceExporter(arrow.schema("f"), made, (10, 1)))
    assert t.__dlpack_device__() == (10, 1)


def test_chunks_one_by_one(driver: Driver, block: int) -> None:
    parts = [arrow.array(N, [None, block]), arrow.array(4, [None, block])]
    stream = arrow.StreamExporter(arrow.schema("f"), parts, device=(2, 0))
    made = candle.from_arrow(stream, chunks="list", copy=False)
    assert [(t.shape, t.data_ptr()) for t in made] == [((N,), block), ((4,), block)]
    assert stream.released == 1


def test_an_export_is_marked_by_an_event(driver: Driver, block: int) -> None:
    a, b = driver.stream(), driver.stream()
    capsule = Producer(block, shape=(4, 4), device=(2, 0)).capsule()
    t = candle.from_dlpack(capsule, stream=a)
    driver.late_fill(a, block, 5.0, N)
    before = live()
    waits = driver.counters().host_syncs
    schema, exported = t.__arrow_c_device_array__()
    held = arrow.held_in(exported, b"arrow_device_array", arrow.DeviceArray)
    assert (held.device_type, held.device_id) == (2, 0)
    assert held.array.children[0].contents.buffers[1] == block
    assert driver.counters().host_syncs == waits
    event = ctypes.c_void_p.from_address(held.sync_event).value
    with driver.context():
        driver.call("cuStreamWaitEvent", b, event, 0)
    assert driver.read(block, b, N) == [5.0] * N
    driver.trace()
    del exported, schema
    assert [called.name for called in driver.trace()].count("cuEventDestroy") == 1
    assert live() == before


def test_an_export_of_nothing_pending_has_no_event(driver: Driver, block: int) -> None:
    t = candle.from_arrow(column(block))
    driver.trace()
    _, exported = t.__arrow_c_device_array__()
    held = arrow.held_in(exported, b"arrow_device_array", arrow.DeviceArray)
    assert held.sync_event is None
    assert driver.trace() == []


def test_who_is_to_be_asked_has_work_pending(driver: Driver, block: int) -> None:
    """A producer that orders its own stream, and an interface that names none yet."""
    a = driver.stream()

    class Asked:
        producer = Producer(block, shape=(N,), device=(2, 0))
        streams: ClassVar[list[Any]] = []

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, *, stream: int | None = None, **keywords: Any) -> object:
            self.streams.append(stream)
            if stream != -1:
                driver.order(a, stream or LEGACY)
            return self.producer.capsule(True)

    class Named:
        __cuda_array_interface__: ClassVar[dict[str, Any]] = {
            "shape": (N,),
            "typestr": "<f4",
            "data": (block, False),
            "version": 3,
            "stream": None,
        }

    asked, named = candle.from_dlpack(Asked()), candle.asarray(Named())
    Named.__cuda_array_interface__["stream"] = a
    for value, t in ((5.0, asked), (6.0, named)):
        driver.late_fill(a, block, value, N)
        _, exported = t.__arrow_c_device_array__()
        held = arrow.held_in(exported, b"arrow_device_array", arrow.DeviceArray)
        event, b = ctypes.c_void_p.from_address(held.sync_event).value, driver.stream()
        with driver.context():
            driver.call("cuStreamWaitEvent", b, event, 0)
        assert driver.read(block, b, N) == [value] * N
    assert Asked.streams == [-1, LEGACY]


def test_booleans_on_a_device_have_no_bits(cupy: Any, driver: Driver) -> None:
    """Nobody makes them there; on the host they are made."""
    x = cupy.asarray([True, False, True])
    t = candle.from_dlpack(x)
    with pytest.raises(BufferError, match=r"bool elements eight to a byte, .* first, t\.to\('cpu'"):
        t.__arrow_c_device_array__()
    schema, made = t.to("cpu").__arrow_c_device_array__()
    assert candle.from_arrow((schema, made)).tolist() == [True, False, True]
    del x, t


def test_packed_elements_on_a_device_stay_packed(cupy: Any, driver: Driver, block: int) -> None:
    """Nobody spreads them there for a consumer that counts a byte for each."""
    t = candle.from_dlpack(Producer(block, shape=(8,), dtype=(0, 4, 1), device=(2, 0)).capsule())
    assert info(t.__dlpack__(max_version=(1, 1))).data == block
    with pytest.raises(BufferError, match=r"int4 elements one a byte, .* first, t\.to\('cpu'"):
        t.__dlpack__(max_version=(1, 0))


def test_rows_with_gaps_are_copied_on_the_device(cupy: Any, driver: Driver) -> None:
    x = cupy.arange(8, dtype="float32")
    schema, made = candle.from_dlpack(x)[1::2].__arrow_c_device_array__()
    t = candle.from_arrow((schema, made))
    assert (t.device, t.shape) == (candle.Device("cuda", 0), (4,))
    assert t.to("cpu").tolist() == [1, 3, 5, 7]
    del x, t, schema, made


def test_back_and_forth(driver: Driver, block: int) -> None:
    capsule = Producer(block, shape=(4, 4), device=(2, 0)).capsule()
    t = candle.from_dlpack(capsule, stream=driver.stream())
    back = candle.from_arrow(t, copy=False)
    assert (back.shape, back.data_ptr(), back.device) == ((4, 4), block, t.device)
    assert candle.explain(t, "arrow").reasons[0].code == "device"
    nano = pytest.importorskip("nanoarrow.device")
    x = nano.c_device_array(t)
    assert (x.device_type_id, next(iter(x.array.children)).buffers[1]) == (2, block)
