"""The fake CUDA driver: late streams that nobody waits for give wrong values, and so on."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from fake_driver import FREED, FRESH, LEGACY, PER_THREAD, DriverError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 256
SIZE = 4 * N
INVALID_VALUE, NOT_INITIALIZED, NO_DEVICE, INVALID_CONTEXT = 1, 3, 100, 201
INVALID_HANDLE, NOT_READY = 400, 600
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_UNMATCHED = 900, 901, 903
CAPTURE_UNJOINED = 904
CAPTURE_ISOLATION, CAPTURE_IMPLICIT, CAPTURED_EVENT = 905, 906, 907


def code_of(call: Callable[..., object], *arguments: object) -> int:
    """The error that a call ends with."""
    with pytest.raises(DriverError) as raised:
        call(*arguments)
    return raised.value.code


def sees(driver: Driver, address: int, stream: int, value: float, device: int = 0) -> bool:
    return driver.read(address, stream, N, device=device) == [value] * N


# Streams and events


def test_control_who_does_not_wait_reads_too_early(driver: Driver) -> None:
    a, b = driver.stream(), driver.stream()
    address = driver.alloc(SIZE)
    driver.late_fill(a, address, 1.0, N)
    assert not sees(driver, address, b, 1.0)
    assert sees(driver, address, a, 1.0)
    driver.free(address)


def test_work_is_held_back_until_it_is_waited_for(driver: Driver) -> None:
    """And no more of it runs than that takes."""
    a, b, c = (driver.stream() for _ in range(3))
    address, ran = driver.alloc(SIZE), []
    driver.late_fill(a, address, 1.0, N, delay_us=0)
    driver.launch(a, lambda: ran.append("behind it"), delay_us=0)
    driver.launch(c, lambda: ran.append("elsewhere"), delay_us=0)
    driver.launch(b, lambda: ran.append("before it"), delay_us=0)
    with driver.context():
        event = driver.call("cuEventCreate", 2)
        driver.late_fill(a, address, 2.0, N, delay_us=0)
        driver.call("cuEventRecord", event, a)
        driver.launch(a, lambda: ran.append("too late"), delay_us=0)
        driver.call("cuStreamWaitEvent", b, event, 0)
    assert sees(driver, address, b, 2.0)
    assert sorted(ran) == ["before it", "behind it"]
    driver.drain()
    assert sorted(ran) == ["before it", "behind it", "elsewhere", "too late"]
    driver.free(address)


def test_fresh_memory_has_a_pattern(driver: Driver) -> None:
    address = driver.alloc(8)
    assert driver.read(address, driver.stream(), 8, dtype="B") == [FRESH] * 8
    driver.free(address)


def test_a_stream_keeps_its_order(driver: Driver) -> None:
    a = driver.stream()
    address = driver.alloc(SIZE)
    for value in range(5):
        driver.late_fill(a, address, value, N, delay_us=1000)
    assert sees(driver, address, a, 4.0)
    driver.free(address)


def test_an_event_orders_what_was_queued_before_it(driver: Driver) -> None:
    a, b = driver.stream(), driver.stream()
    address = driver.alloc(SIZE)
    with driver.context():
        event = driver.call("cuEventCreate", 2)
        driver.late_fill(a, address, 1.0, N)
        driver.call("cuEventRecord", event, a)
        driver.late_fill(a, address, 2.0, N, delay_us=50_000)
        driver.call("cuStreamWaitEvent", b, event, 0)
        driver.call("cuEventDestroy_v2", event)  # which undoes no wait
    assert sees(driver, address, b, 1.0)
    assert sees(driver, address, a, 2.0)
    driver.free(address)


def test_an_event_that_was_never_recorded_is_over(driver: Driver) -> None:
    with driver.context():
        event = driver.call("cuEventCreate", 2)
        driver.call("cuStreamWaitEvent", driver.stream(), event, 0)
        driver.call("cuEventQuery", event)
        driver.call("cuEventSynchronize", event)


def test_query_and_synchronize(driver: Driver) -> None:
    a = driver.stream()
    with driver.context():
        event = driver.call("cuEventCreate", 2)
        driver.launch(a, lambda: None)
        driver.call("cuEventRecord", event, a)
        assert code_of(driver.call, "cuStreamQuery", a) == NOT_READY
        assert code_of(driver.call, "cuEventQuery", event) == NOT_READY
        driver.call("cuEventSynchronize", event)
        driver.call("cuStreamSynchronize", a)
        driver.call("cuStreamQuery", a)


def test_order_goes_from_stream_to_stream(driver: Driver) -> None:
    streams = [driver.stream() for _ in range(5)]
    address = driver.alloc(SIZE)
    driver.late_fill(streams[0], address, 1.0, N)
    for first, then in itertools.pairwise(streams):
        driver.order(first, then)
    assert sees(driver, address, streams[-1], 1.0)
    driver.free(address)


LEGACY_CASES = {
    # which stream writes, which reads, whether the driver orders them by itself
    "legacy then blocking": (LEGACY, "blocking", True),
    "blocking then legacy": ("blocking", LEGACY, True),
    "legacy by its other handle": ("blocking", 0, True),
    "per-thread then legacy": (PER_THREAD, LEGACY, True),
    "legacy then per-thread": (LEGACY, PER_THREAD, True),
    "legacy then non-blocking": (LEGACY, "non-blocking", False),
    "non-blocking then legacy": ("non-blocking", LEGACY, False),
    "blocking then blocking": ("blocking", "blocking", False),
    "per-thread then blocking": (PER_THREAD, "blocking", False),
}


@pytest.mark.parametrize("case", LEGACY_CASES)
def test_what_the_legacy_stream_orders(driver: Driver, case: str) -> None:
    *streams, ordered = LEGACY_CASES[case]
    writer, reader = (
        stream if isinstance(stream, int) else driver.stream(blocking=stream == "blocking")
        for stream in streams
    )
    address = driver.alloc(SIZE)
    driver.late_fill(writer, address, 1.0, N)
    assert sees(driver, address, reader, 1.0) == ordered
    driver.drain()
    driver.free(address)


def test_the_legacy_streams_of_two_devices_are_two(driver: Driver) -> None:
    address = driver.alloc(SIZE)
    driver.late_fill(LEGACY, address, 1.0, N)
    assert not sees(driver, address, LEGACY, 1.0, device=1)
    assert sees(driver, address, LEGACY, 1.0)
    driver.free(address)


def test_each_thread_has_its_own_per_thread_stream(driver: Driver) -> None:
    names = [driver.name(PER_THREAD)]
    thread = threading.Thread(target=lambda: names.append(driver.name(PER_THREAD)))
    thread.start()
    thread.join()
    assert len(set(names)) == 2
    assert driver.name(PER_THREAD) == names[0]


def test_a_destroyed_stream_ends_its_work_and_is_an_error(driver: Driver) -> None:
    a = driver.stream()
    address = driver.alloc(SIZE)
    driver.late_fill(a, address, 1.0, N)
    driver.destroy_stream(a)
    with driver.context():
        event = driver.call("cuEventCreate", 2)
        for handle in (a, 0xDEAD00):
            assert code_of(driver.call, "cuEventRecord", event, handle) == INVALID_HANDLE
            assert code_of(driver.call, "cuStreamSynchronize", handle) == INVALID_HANDLE
            assert code_of(driver.call, "cuStreamWaitEvent", handle, event, 0) == INVALID_HANDLE
        driver.call("cuEventDestroy_v2", event)
        b = driver.stream()
        assert b != a
        assert code_of(driver.call, "cuStreamWaitEvent", b, event, 0) == INVALID_HANDLE
    driver.drain()
    assert driver.view(address, 4).cast("f")[0] == 1.0
    driver.free(address)


# Threads, contexts, devices


def test_a_thread_starts_with_no_context(driver: Driver) -> None:
    codes = []

    def job() -> None:
        codes.append(code_of(driver.call, "cuEventCreate", 2))
        with driver.context(1):
            codes.append(driver.call("cuCtxGetDevice"))
        codes.append(driver.call("cuCtxGetCurrent"))

    with driver.context():
        thread = threading.Thread(target=job)
        thread.start()
        thread.join()
        assert driver.call("cuCtxGetDevice") == 0
    assert codes == [INVALID_CONTEXT, 1, 0]


def test_an_event_goes_with_streams_of_its_device(driver: Driver) -> None:
    far, near = driver.stream(device=1), driver.stream()
    address = driver.alloc(SIZE, device=1)
    with driver.context(0):
        event = driver.call("cuEventCreate", 2)
        assert code_of(driver.call, "cuEventRecord", event, far) == INVALID_HANDLE
    with driver.context(1):
        driver.late_fill(far, address, 1.0, N)
        event = driver.call("cuEventCreate", 2)
        driver.call("cuEventRecord", event, far)
        driver.call("cuStreamWaitEvent", near, event, 0)  # waits may go across
    assert sees(driver, address, near, 1.0)
    driver.free(address)


def test_there_are_as_many_devices_as_wanted(driver: Driver) -> None:
    driver.configure(devices=5)
    driver.call("cuInit", 0)
    assert driver.call("cuDeviceGetCount") == 5
    with driver.context(4):
        assert driver.call("cuCtxGetDevice") == 4
    driver.configure(devices=2)
    assert code_of(driver.call, "cuDevicePrimaryCtxRetain", 2) == 101


def test_who_holds_a_context_is_counted(driver: Driver) -> None:
    before = driver.retained(1)
    with driver.context(1):
        assert driver.retained(1) == before + 1
        assert driver.call("cuDevicePrimaryCtxGetState", 1) == (0, 1)
    assert driver.retained(1) == before


# Memory


def test_counters_come_back_to_where_they_were(driver: Driver) -> None:
    before = driver.counters()
    addresses = [driver.alloc(1000, device, kind="device") for device in (0, 1)]
    addresses += [driver.alloc(1000, kind=kind) for kind in ("pinned", "managed")]
    during = driver.counters()
    assert during.live == before.live + 4
    assert during.bytes == before.bytes + 4000
    assert during.peak >= during.bytes
    for address in addresses:
        driver.free(address)
    assert driver.counters()[:2] == before[:2]


def attributes(driver: Driver, address: int) -> tuple[Any, ...]:
    """Type, ordinal and managed flag, as `cuPointerGetAttributes` gives them."""
    kind, ordinal, managed = ctypes.c_uint(7), ctypes.c_int(7), ctypes.c_uint(7)
    wanted = (ctypes.c_int * 3)(2, 9, 8)
    out = (ctypes.c_void_p * 3)(*(ctypes.addressof(each) for each in (kind, ordinal, managed)))
    get = driver.shared_object.cuPointerGetAttributes
    get.argtypes = [ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong]
    assert get(3, wanted, out, address) == 0
    return kind.value, ordinal.value, managed.value


def test_attributes_of_pointers(driver: Driver) -> None:
    driver.call("cuInit", 0)
    far, managed = driver.alloc(100, device=1), driver.alloc(100, kind="managed")
    pinned, host = driver.alloc(100, kind="pinned"), ctypes.create_string_buffer(100)
    assert attributes(driver, far) == (2, 1, 0)
    assert attributes(driver, far + 99) == (2, 1, 0)
    assert attributes(driver, managed) == (2, 0, 1)
    assert attributes(driver, pinned) == (1, 0, 0)
    for unknown in (ctypes.addressof(host), far + 100, 0):
        assert attributes(driver, unknown) == (0, -2, 0)
        assert code_of(driver.call, "cuPointerGetAttribute", 2, unknown) == INVALID_VALUE
    for address in (far, managed, pinned):
        driver.free(address)
    assert attributes(driver, far) == (0, -2, 0)


def test_the_pool_hands_a_freed_block_out_again(driver: Driver) -> None:
    """And the next owner's writes are seen by who still reads for the last one."""
    a, b = driver.stream(), driver.stream()
    with driver.context():
        before = driver.counters()
        block = driver.call("cuMemAllocAsync", SIZE, a)
        driver.late_fill(a, block, 5.0, N, delay_us=1000)
        driver.order(a, b)
        driver.launch(b, lambda: None)  # the consumer's kernel is slow
        driver.call("cuMemFreeAsync", block, a)
        assert driver.counters()[:2] == before[:2]
        assert attributes(driver, block) == (0, -2, 0)
        again = driver.call("cuMemAllocAsync", SIZE, a)
        assert again == block
        assert driver.call("cuMemAllocAsync", SIZE, b) != block
        driver.late_fill(a, again, 9.0, N, delay_us=1000)
        assert sees(driver, again, a, 9.0)
        assert sees(driver, block, b, 9.0)


def test_freed_memory_has_a_pattern(driver: Driver) -> None:
    a = driver.stream()
    with driver.context():
        block = driver.call("cuMemAllocAsync", 8, a)
        driver.late_fill(a, block, 1.0, 2)
        driver.call("cuMemFreeAsync", block, a)
        assert driver.call("cuMemAllocAsync", 8, a) == block
    assert driver.read(block, a, 8, dtype="B") == [FREED] * 8


def test_work_that_is_queued_keeps_its_memory(driver: Driver) -> None:
    a = driver.stream()
    address = driver.alloc(SIZE)
    driver.late_fill(a, address, 1.0, N)
    driver.free(address)
    driver.drain()
    assert code_of(driver.late_fill, a, address, 1.0, N) == INVALID_VALUE


def test_an_address_is_never_given_out_twice(driver: Driver) -> None:
    seen = set()
    for _ in range(100):
        address = driver.alloc(1000)
        seen.add(address)
        driver.free(address)
    assert len(seen) == 100


def test_beyond_the_end_of_memory(driver: Driver) -> None:
    address = driver.alloc(SIZE)
    a = driver.stream()
    assert code_of(driver.late_fill, a, address, 1.0, N + 1) == INVALID_VALUE
    assert code_of(driver.read, address + SIZE, a) == INVALID_VALUE
    driver.free(address)


def test_copies(driver: Driver) -> None:
    """Out of pageable memory at once, into it with the host waiting; pinned memory is late."""
    a = driver.stream()
    address, pinned = driver.alloc(8), driver.alloc(8, kind="pinned")
    with driver.context():
        host = ctypes.create_string_buffer(b"12345678", 8)
        driver.call("cuMemcpyAsync", address, ctypes.addressof(host), 8, a)
        host.raw = b"________"
        driver.call("cuMemcpyAsync", ctypes.addressof(host), address, 8, a)
        assert host.raw == b"12345678"
        driver.call("cuMemcpyAsync", pinned, address, 8, a)
        assert ctypes.string_at(pinned, 8) == bytes([FRESH] * 8)
        driver.call("cuStreamSynchronize", a)
        assert ctypes.string_at(pinned, 8) == b"12345678"
    driver.free(address)
    driver.free(pinned)


# Captures


@pytest.fixture
def capturing(driver: Driver | None) -> Any:
    """A stream that captures, within the context of its device."""
    if driver is None:
        yield None
        return
    a = driver.stream()
    with driver.context():
        driver.call("cuStreamBeginCapture_v2", a, 0)
        yield a


def end_of(driver: Driver, stream: int) -> int:
    try:
        driver.call("cuStreamEndCapture", stream)
    except DriverError as error:
        return error.code
    return 0


def test_a_capture_notes_work_and_runs_none(driver: Driver, capturing: int) -> None:
    address = driver.alloc(SIZE)
    driver.late_fill(capturing, address, 1.0, N, delay_us=0)
    assert driver.call("cuStreamIsCapturing", capturing) == 1
    assert end_of(driver, capturing) == 0
    assert driver.call("cuStreamIsCapturing", capturing) == 0
    assert not sees(driver, address, capturing, 1.0)
    driver.free(address)


def test_a_stream_joins_a_capture_by_an_event(driver: Driver, capturing: int) -> None:
    b = driver.stream()
    event = driver.call("cuEventCreate", 2)
    driver.call("cuEventRecord", event, capturing)
    driver.call("cuStreamWaitEvent", b, event, 0)
    assert driver.call("cuStreamIsCapturing", b) == 1
    driver.call("cuEventRecord", event, b)
    driver.call("cuStreamWaitEvent", capturing, event, 0)
    assert end_of(driver, b) == CAPTURE_UNMATCHED
    assert end_of(driver, capturing) == 0
    assert driver.call("cuStreamIsCapturing", b) == 0


def test_what_joins_a_capture_has_to_be_waited_for_in_it(driver: Driver, capturing: int) -> None:
    b, c = driver.stream(), driver.stream()
    event = driver.call("cuEventCreate", 2)
    for first, then in ((capturing, b), (b, c)):
        driver.call("cuEventRecord", event, first)
        driver.call("cuStreamWaitEvent", then, event, 0)
    assert end_of(driver, capturing) == CAPTURE_UNJOINED
    assert driver.call("cuStreamIsCapturing", c) == 0


def break_by_sync(driver: Driver, a: int) -> int:
    return code_of(driver.call, "cuStreamSynchronize", a)


def break_by_query(driver: Driver, a: int) -> int:
    return code_of(driver.call, "cuStreamQuery", a)


def break_by_device_sync(driver: Driver, _a: int) -> int:
    return code_of(driver.call, "cuCtxSynchronize")


def break_by_allocation(driver: Driver, _a: int) -> int:
    return code_of(driver.call, "cuMemAlloc_v2", SIZE)


def break_by_foreign_event(driver: Driver, a: int) -> int:
    event = driver.call("cuEventCreate", 2)
    driver.call("cuEventRecord", event, driver.stream())
    return code_of(driver.call, "cuStreamWaitEvent", a, event, 0)


def break_by_waiting_on_legacy(driver: Driver, a: int) -> int:
    event = driver.call("cuEventCreate", 2)
    driver.call("cuEventRecord", event, a)
    return code_of(driver.call, "cuStreamWaitEvent", LEGACY, event, 0)


def break_by_captured_event(driver: Driver, a: int) -> int:
    event = driver.call("cuEventCreate", 2)
    driver.call("cuEventRecord", event, a)
    return code_of(driver.call, "cuEventSynchronize", event)


BREAKERS = {
    break_by_sync: CAPTURE_UNSUPPORTED,
    break_by_query: CAPTURE_UNSUPPORTED,
    break_by_device_sync: CAPTURE_UNSUPPORTED,
    break_by_allocation: CAPTURE_UNSUPPORTED,
    break_by_foreign_event: CAPTURE_ISOLATION,
    break_by_waiting_on_legacy: CAPTURE_IMPLICIT,
    break_by_captured_event: CAPTURED_EVENT,
}


@pytest.mark.parametrize("breaker", BREAKERS)
def test_what_breaks_a_capture(driver: Driver, capturing: int, breaker: Any) -> None:
    assert breaker(driver, capturing) == BREAKERS[breaker]
    assert end_of(driver, capturing) == CAPTURE_INVALIDATED


def test_the_legacy_stream_during_the_capture_of_a_blocking_one(driver: Driver) -> None:
    a = driver.stream(blocking=True)
    with driver.context():
        event = driver.call("cuEventCreate", 2)
        driver.call("cuStreamBeginCapture_v2", a, 0)
        assert code_of(driver.call, "cuEventRecord", event, LEGACY) == CAPTURE_IMPLICIT
        assert end_of(driver, a) == CAPTURE_INVALIDATED


# Faults, trace, counters of waits


def test_an_entry_point_fails_when_told_to(driver: Driver) -> None:
    with driver.context():
        driver.fail("cuEventCreate", 2, after=1, times=2)
        driver.call("cuEventCreate", 0)
        assert [code_of(driver.call, "cuEventCreate", 0) for _ in range(2)] == [2, 2]
        driver.call("cuEventCreate", 0)
        driver.fail("cuStreamDestroy_v2")
        driver.fail("cuStreamDestroy_v2", times=0)
        driver.call("cuStreamDestroy_v2", driver.stream())


def find(driver: Driver, name: str) -> int:
    address, status = ctypes.c_void_p(), ctypes.c_int()
    get = driver.shared_object.cuGetProcAddress_v2
    get.argtypes = [
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_uint64,
        ctypes.c_void_p,
    ]
    code: int = get(name.encode(), ctypes.byref(address), 12000, 0, ctypes.byref(status))
    assert (code == 0) == (status.value == 0) == bool(address.value)
    return code


def test_entry_points_are_found_by_name(driver: Driver) -> None:
    for name in ("cuInit", "cuCtxPushCurrent", "cuEventRecord", "cuStreamSynchronize"):
        assert find(driver, name) == 0
    assert find(driver, "cuNoSuchThing") == 500


def test_the_trace_names_streams_and_events(driver: Driver) -> None:
    a, b = driver.stream(), driver.stream()
    with driver.context():
        event = driver.call("cuEventCreate", 2)
        driver.trace()
        driver.call("cuEventRecord", event, a)
        driver.call("cuStreamWaitEvent", b, event, 0)
        code_of(driver.call, "cuEventRecord", event, 0xDEAD00)
        first, second, third = driver.trace()
        assert first.name == "cuEventRecord"
        assert first.arguments[0] == driver.name(a)
        assert second == ("cuStreamWaitEvent", (driver.name(b), first.arguments[1]), 0)
        assert str(third) == "cuEventRecord = 400"
    driver.trace()
    driver.late_fill(a, driver.alloc(SIZE), 1.0, N)  # a test's own hand leaves no trace
    driver.drain()
    assert driver.trace() == []


def test_waits_of_the_host_are_counted(driver: Driver) -> None:
    a = driver.stream()
    with driver.context():
        before = driver.counters().host_syncs
        event = driver.call("cuEventCreate", 2)
        driver.call("cuEventRecord", event, a)
        driver.call("cuStreamWaitEvent", driver.stream(), event, 0)
        assert driver.counters().host_syncs == before
        driver.call("cuStreamSynchronize", a)
        driver.call("cuEventSynchronize", event)
        driver.call("cuCtxSynchronize")
        assert driver.counters().host_syncs == before + 3


def test_many_hops_between_streams(driver: Driver) -> None:
    """Each adds one in turn, to what the one before it left."""
    streams = [driver.stream() for _ in range(6)]
    address = driver.alloc(4)
    memory = driver.view(address, 4).cast("i")
    memory[0] = 0
    driver.launch(streams[0], lambda: None, delay_us=1000)

    def add() -> None:
        memory[0] += 1

    for number in range(300):
        first, then = streams[number % 6], streams[(number * 5 + 1) % 6]
        driver.launch(first, add, delay_us=0)
        driver.order(first, then)
        driver.order(then, streams[(number + 1) % 6])
    assert driver.read(address, streams[300 % 6], dtype="i") == [300]
    memory.release()
    driver.free(address)


# What takes a process of its own


HEAD = "import ctypes, fake_driver, sys; driver = fake_driver.load()\n"


def run(in_child: Any, code: str) -> Any:
    return in_child(HEAD + code)


def test_the_host_cannot_touch_device_memory(driver: Driver, in_child: Any) -> None:
    for touch in ("ctypes.string_at(p, 1)", "ctypes.memset(p, 0, 1)"):
        child = run(in_child, f"p = driver.alloc(4096); print('so far', flush=True); {touch}")
        assert child.stdout == "so far\n"
        assert child.signal == "SIGSEGV"


def test_the_host_cannot_touch_memory_that_was_freed(driver: Driver, in_child: Any) -> None:
    code = "p = driver.alloc(4096); driver.free(p); ctypes.string_at(p, 1)"
    assert run(in_child, code).signal == "SIGSEGV"


def test_everybody_gets_this_driver(driver: Driver, in_child: Any) -> None:
    code = "print(hasattr(ctypes.CDLL('libcuda.so.1'), 'fake_drain'))"
    assert run(in_child, code).check() == "True\n"


def test_a_process_ends_with_work_queued(driver: Driver, in_child: Any) -> None:
    code = """\
for _ in range(20):
    a = driver.stream()
    driver.late_fill(a, driver.alloc(4096), 1.0, 1024, delay_us=200_000)
    driver.launch(a, lambda: None)
print("end")
"""
    assert run(in_child, code).check() == "end\n"


def test_a_driver_that_does_not_start(driver: Driver, in_child: Any) -> None:
    code = """\
driver.{how}
try:
    driver.call("cuInit", 0)
except fake_driver.DriverError as error:
    print(error.code)
print(driver.shared_object.cuCtxGetDevice(None))
"""
    said = run(in_child, code.format(how="fail('cuInit', 999)")).check()
    assert said.split() == ["999", str(NOT_INITIALIZED)]
    said = run(in_child, code.format(how="configure(devices=0)")).check()
    assert said.split() == [str(NO_DEVICE), str(NOT_INITIALIZED)]


def test_an_entry_point_can_be_missing(driver: Driver, in_child: Any) -> None:
    code = """\
driver.hide("cuEventRecord")
get = driver.shared_object.cuGetProcAddress_v2
get.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]
out = ctypes.c_void_p()
print([get(name, ctypes.byref(out), 12000, 0, None) for name in (b"cuEventRecord", b"cuInit")])
"""
    assert run(in_child, code).check() == "[500, 0]\n"


def test_lateness_is_real(driver: Driver) -> None:
    """The one test of a time: a kernel does not start before its delay is over."""
    a = driver.stream()
    start = time.monotonic()
    driver.launch(a, lambda: None, delay_us=50_000)
    driver.drain()
    assert time.monotonic() - start >= 0.05
