"""candle between producers and consumers of device memory: who is asked what, with no driver.

None of these producers is one that candle knows a stream of: each is asked again when its memory is
handed on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from device_consumers import CONSUMERS, JAX_STREAM
from device_producers import (
    ADDRESS,
    LEGACY,
    CoreLike,
    CupyLike,
    DeviceArray,
    EagerTensor,
    HostLike,
    JaxArrayImpl,
    JaxLike,
    ManagedLike,
    OneApiLike,
    PaddleTensor,
    PinnedLike,
    RocmLike,
    Runtime,
    TorchLike,
    TorchPinnedLike,
    UnknownLike,
    WarpLike,
    raw_capsule,
)

import candle
from candle._native import _core
from candle.frameworks.handout import capsule_target
from candle.testing import Producer, exchange_api, info, take

if TYPE_CHECKING:
    from collections.abc import Sequence

A, B = 0xA000, 0xB000
MODERN = {"max_version": (1, 3)}


def keywords_of(x: DeviceArray) -> list[dict[str, Any]]:
    assert all(call.arguments == () for call in x.calls)
    return [call.keywords for call in x.calls]


def imported(x: DeviceArray) -> candle.Tensor:
    """Taken by candle, with its calls forgotten."""
    t = candle.from_dlpack(x)
    x.calls.clear()
    return t


# Import


IMPORTS: dict[type[DeviceArray], Sequence[dict[str, Any]]] = {
    TorchLike: [{"stream": -1, **MODERN}],
    CupyLike: [{"stream": -1, **MODERN}],
    CoreLike: [{"stream": -1, **MODERN}],
    ManagedLike: [{"stream": -1, **MODERN}],
    RocmLike: [{"stream": -1, **MODERN}],
    JaxArrayImpl: [{"stream": 1, **MODERN}],  # -1 would reach the driver
    WarpLike: [{"stream": -1, **MODERN}, {"stream": -1}],
    PaddleTensor: [{"stream": -1, **MODERN}],
    HostLike: [MODERN],
    PinnedLike: [MODERN],
    TorchPinnedLike: [MODERN],
}


@pytest.mark.parametrize("kind", IMPORTS)
def test_what_an_import_passes(runtime: Runtime, kind: type[DeviceArray]) -> None:
    x = kind(runtime)
    with runtime.on(0, A):
        t = candle.from_dlpack(x)
    assert keywords_of(x) == IMPORTS[kind]
    assert runtime.waits == []
    assert runtime.handed_on == []
    assert t.data_ptr() == ADDRESS
    assert t.readonly == (kind is JaxArrayImpl)


@pytest.mark.parametrize("kind", [OneApiLike, UnknownLike])
def test_no_number_reaches_a_foreign_device(runtime: Runtime, kind: type[DeviceArray]) -> None:
    x = kind(runtime)
    t = candle.from_dlpack(x)
    assert all(stream in ("absent", None) for stream in x.streams)
    x.calls.clear()
    queue = OneApiLike.Queue()
    capsule = t.__dlpack__(stream=queue, max_version=(1, 3))
    assert info(capsule).device == (kind.kind, 0)
    assert x.streams == [queue]
    assert runtime.ordered == [("own", queue)]


@pytest.mark.parametrize("kind", [OneApiLike, UnknownLike, RocmLike])
def test_who_knows_no_stream_gets_memory_of_a_foreign_device_in_order(
    runtime: Runtime, kind: type[DeviceArray]
) -> None:
    """candle's C exchange table names the default stream there, and torch says its own or none."""
    [table] = exchange_api(candle.Tensor)
    x = kind(runtime)
    t = imported(x)
    table.from_py_object(t).release()
    table.dltensor_from_py_object(t)
    assert x.streams == [None, None]
    assert table.current_work_stream((kind.kind, 0)) is None


@pytest.mark.parametrize(
    ("kind", "stream"), [(OneApiLike, OneApiLike.Queue()), (RocmLike, B), (RocmLike, 0)]
)
def test_the_door_to_jax_passes_a_stream_on(
    runtime: Runtime, kind: type[DeviceArray], stream: Any
) -> None:
    x = kind(runtime)
    t = imported(x)
    assert info(_core.legacy_capsule(t, stream)).device == (kind.kind, 0)
    assert x.streams == [stream]


@pytest.mark.parametrize("device", [8, 10, 14, 42])
@pytest.mark.parametrize("stream", [0, 1, B, OneApiLike.Queue()])
def test_a_stream_that_nobody_would_wait_for(device: int, stream: Any) -> None:
    """It is not dropped in silence; the capsule can still be taken."""
    producer = Producer(ADDRESS, shape=(2, 3), device=(device, 0))
    capsule = producer.capsule()
    with pytest.raises(ValueError, match="wait for the stream, and leave stream= out"):
        candle.from_dlpack(capsule, stream=stream)
    assert candle.from_dlpack(capsule).__dlpack_device__() == (device, 0)
    del capsule
    assert producer.deletes == 1


@pytest.mark.parametrize("version", [1, -1, "0", None])
def test_a_stream_of_another_protocol(version: Any) -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[Any, int]:
            return (version, B)

    capsule, producer = raw_capsule(versioned=True)
    with pytest.raises(TypeError, match=r"version .* of the protocol, and candle knows 0"):
        candle.from_dlpack(capsule, stream=Stream())
    t = candle.from_dlpack(capsule)
    for move in (t.wait_for, t.record_stream):
        with pytest.raises(TypeError, match="knows 0"):
            move(Stream())
    del capsule, t, move
    assert producer.deletes == 1


def test_a_form_that_works_is_not_sought_twice(runtime: Runtime) -> None:
    class NewWarp(WarpLike):
        pass

    x = NewWarp(runtime)
    first, second = candle.from_dlpack(x), candle.from_dlpack(x)
    first.__dlpack__(stream=B)
    second.__dlpack__(stream=B)
    assert x.streams[-2:] == [B, B]
    assert all("max_version" not in call.keywords for call in x.calls[-2:])


# Export


ASKED_AGAIN = [
    CoreLike,
    CupyLike,
    ManagedLike,
    JaxLike,
    JaxArrayImpl,
    WarpLike,
    TorchLike,
    PaddleTensor,
]
EXPORTS = {"absent": 1, None: 1, 0: 1, 1: 1, B: B}


@pytest.mark.parametrize("stream", EXPORTS)
@pytest.mark.parametrize("kind", ASKED_AGAIN)
def test_what_an_export_asks(runtime: Runtime, kind: type[DeviceArray], stream: Any) -> None:
    x = kind(runtime)
    t = imported(x)
    capsule = t.__dlpack__(**({} if stream == "absent" else {"stream": stream}), **MODERN)
    assert x.streams == [EXPORTS[stream]]
    assert runtime.waits == []
    fields = info(capsule)
    assert fields.device == (2, 0)
    assert fields.data == ADDRESS
    assert fields.byte_offset == 0
    assert fields.strides == (3, 1)


@pytest.mark.parametrize("kind", ASKED_AGAIN)
def test_minus_one_asks_nobody(runtime: Runtime, kind: type[DeviceArray]) -> None:
    x = kind(runtime)
    t = imported(x)
    t.__dlpack__(stream=-1, **MODERN)
    assert x.calls == []
    assert runtime.ordered == [] or kind is JaxArrayImpl


@pytest.mark.parametrize("kind", ASKED_AGAIN)
def test_a_stream_that_candle_does_not_know(runtime: Runtime, kind: type[DeviceArray]) -> None:
    """jax's, for one, waits for no default stream: no promise is made for it."""

    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, B)

    x = kind(runtime)
    t = imported(x)
    for move in (t.wait_for, t.record_stream):
        with pytest.raises(BufferError, match=r"does not know on which stream .* works; wait for"):
            move(Stream())
    assert x.calls == []


@pytest.mark.parametrize("stream", [-2, -(1 << 70), 1 << 70, "1", 1.5, True, b"", []])
def test_what_is_no_stream(runtime: Runtime, stream: Any) -> None:
    """Not a TypeError: a consumer would take it for an old signature and ask without."""
    x = CoreLike(runtime)
    t = imported(x)
    with pytest.raises((ValueError, OverflowError)):
        t.__dlpack__(stream=stream)
    assert x.calls == []


@pytest.mark.parametrize(
    ("stream", "asked"), [(None, None), (0, 0), (B, B), (1, BufferError), (2, BufferError)]
)
def test_streams_of_rocm(runtime: Runtime, stream: Any, asked: Any) -> None:
    x = RocmLike(runtime)
    t = imported(x)
    if asked is BufferError:
        with pytest.raises(BufferError):
            t.__dlpack__(stream=stream)
    else:
        assert info(t.__dlpack__(stream=stream)).device == (10, 0)
        assert x.streams == [asked]


@pytest.mark.parametrize("stream", [None, -1, 0, 1, B])
def test_pinned_memory_has_no_stream(runtime: Runtime, stream: Any) -> None:
    """warp passes one all the same."""
    x = PinnedLike(runtime)
    t = imported(x)
    assert info(t.__dlpack__(stream=stream)).device == (3, 0)
    assert x.calls == []


def test_managed_memory_is_handed_on_as_cudas(runtime: Runtime) -> None:
    """torch and jax refuse the real word, and numpy would read it with no wait."""
    t = candle.from_dlpack(ManagedLike(runtime, device=1))
    assert t.__dlpack_device__() == (2, 1)
    assert info(t.__dlpack__(stream=-1)).device == (2, 1)


def test_views_ask_the_same_producer(runtime: Runtime) -> None:
    x = CoreLike(runtime, shape=(4, 6))
    view = imported(x)[1:, ::2].T
    fields = info(view.__dlpack__(stream=B, **MODERN))
    assert x.streams == [B]
    assert (fields.data, fields.shape, fields.strides) == (ADDRESS + 24, (3, 3), (2, 6))


def test_a_legacy_consumer_gets_a_legacy_capsule(runtime: Runtime) -> None:
    t = imported(CoreLike(runtime))
    assert info(t.__dlpack__(stream=B)).version is None
    assert info(t.__dlpack__(stream=B, max_version=(1, 0))).version is not None


# What goes wrong


class Fickle(CoreLike):
    """Says something else, or raises, when it is asked again."""

    then: Any = None

    def export(self, **keywords: Any) -> object:
        if len(self.calls) > 1 or self.then is None:
            if isinstance(self.then, Exception):
                raise self.then
            self.producer.address += 4096 if self.then == "moved" else 0
        return super().export(**keywords)


@pytest.mark.parametrize("then", [RuntimeError("deleted"), BufferError("busy"), "moved"])
def test_a_producer_that_lost_its_memory(runtime: Runtime, then: Any) -> None:
    x = Fickle(runtime)
    t = candle.from_dlpack(x)
    x.then = then
    with pytest.raises(BufferError):
        t.__dlpack__(stream=B)
    del t
    assert x.deletes == x.producer.exports


@pytest.mark.parametrize("then", [RuntimeError("deleted"), "moved"])
def test_the_door_to_jax_passes_a_failure_on(runtime: Runtime, then: Any) -> None:
    """Nothing is asked, and nothing fails, where the consumer wants no order."""
    x = Fickle(runtime)
    t = candle.from_dlpack(x)
    x.then = then
    with pytest.raises(BufferError, match=r"deleted|moved"):
        _core.legacy_capsule(t, B)
    assert info(_core.legacy_capsule(t, -1)).device == (2, 0)
    assert len(x.calls) == 2
    del t  # which the error's traceback holds


@pytest.mark.parametrize("kind", [RocmLike, OneApiLike, PinnedLike])
def test_memory_of_other_devices_has_no_streams(runtime: Runtime, kind: type[DeviceArray]) -> None:
    t = candle.from_dlpack(kind(runtime))
    for name in ("record_stream", "wait_for"):
        with pytest.raises(BufferError, match=f"{name} is for memory on CUDA devices"):
            getattr(t, name)(B)


def test_dtypes_that_the_cuda_interface_has_no_name_for() -> None:
    for dtype, typestr in (((2, 32), "<f4"), ((4, 16), None), ((10, 8), None), ((5, 64), "<c8")):
        producer = Producer(ADDRESS, shape=(4,), device=(2, 0), dtype=(*dtype, 1))
        t = candle.from_dlpack(producer.capsule(True))
        if typestr is None:
            with pytest.raises(AttributeError, match=f"is {t.dtype} on DLPack device type 2"):
                t.__cuda_array_interface__  # noqa: B018
            assert not hasattr(t, "__cuda_array_interface__")
        else:
            assert t.__cuda_array_interface__["typestr"] == typestr


def test_what_the_table_takes_of_other_devices_and_versions() -> None:
    """A struct without a deleter owes nobody a call, refused or not."""
    [table] = exchange_api(candle.Tensor)
    for device in ((10, 0), (14, 1), (1, 0)):
        for null_deleter in (False, True):
            fields = {"shape": (2, 3), "device": device, "null_deleter": null_deleter}
            producer = Producer(None if device == (1, 0) else ADDRESS, **fields)
            t: Any = table.to_py_object(producer.export())
            assert (t.__dlpack_device__(), t.data_ptr()) == (device, producer.address)
            del t
            other = Producer(ADDRESS, version=(9, 0), **fields)
            with pytest.raises(BufferError, match=r"DLPack version 9\.0"):
                table.to_py_object(other.export())
            assert (producer.deletes, other.deletes) == ((0, 0) if null_deleter else (1, 1))


def test_a_gradient_is_not_dropped(runtime: Runtime) -> None:
    x = TorchLike(runtime)
    x.requires_grad = True
    with pytest.raises(BufferError, match="gradient"):
        candle.from_dlpack(x)
    assert x.producer.exports == 0


def test_who_takes_no_stream_is_refused_by_name(runtime: Runtime) -> None:
    """tensorflow orders nothing: on the host its tensors come in, and by a raw capsule any do."""
    x = EagerTensor(runtime)
    for move in (candle.from_dlpack, candle.Tensor):
        with pytest.raises(BufferError, match=r"GPU:0, and tensorflow tells nobody.*copy it with"):
            move(x)
    assert x.producer.exports == 0
    assert candle.explain(x).action == "refuse"
    t = candle.from_dlpack(x.capsule(), stream=LEGACY)  # the caller has waited for it
    assert t.__dlpack_device__() == (2, 0)
    del t
    assert x.deletes == x.producer.exports == 1


def test_paddle_knows_no_stream_per_thread(runtime: Runtime) -> None:
    t = imported(PaddleTensor(runtime))
    with pytest.raises(BufferError, match="stream=2 is not supported"):
        t.__dlpack__(stream=2)


@pytest.mark.parametrize("name", ["paddle", "warp"])
@pytest.mark.parametrize("read_only", [False, True])
def test_given_to_frameworks_by_a_capsule_of_a_device(
    runtime: Runtime, name: str, read_only: bool
) -> None:
    """As `convert` gives them memory of devices: the consumer's stream reaches the producer."""
    x = CoreLike(runtime, flags=int(read_only))
    t = imported(x)
    runtime.streams[0] = A
    module = import_module(f"candle.frameworks.{name}")
    unasked, on_your_word = module.demand(), module._on_your_word
    target = capsule_target(
        name, (), lambda handout: CONSUMERS[name](handout, runtime), unasked, on_your_word
    )
    given = target.give
    if read_only:
        with pytest.raises(BufferError, match="cupy or torch"):  # who would copy it
            given(t, None)
        assert x.calls == []
    with given(t, False if read_only else None) as taken:
        assert (taken.info.device, taken.info.data, taken.info.version) == ((2, 0), ADDRESS, None)
    if read_only:  # on nobody's word
        with pytest.raises(candle.CopyError, match="read-only"):
            target.share(t)
    else:
        with target.share(t) as taken:
            assert taken.info.data == ADDRESS
    assert x.streams == ([A] if read_only else [A, A])


# Lifetime


@pytest.mark.parametrize("kind", [*ASKED_AGAIN, PinnedLike, RocmLike, OneApiLike])
def test_every_struct_is_deleted_once(runtime: Runtime, kind: type[DeviceArray]) -> None:
    x = kind(runtime)
    t = candle.from_dlpack(x)
    taken = take(t.__dlpack__(**MODERN))
    t.__dlpack__(**MODERN)  # a capsule that nobody takes
    del t
    assert x.deletes == x.producer.exports - 1
    taken.release(foreign_thread=True)
    assert x.deletes == x.producer.exports


@pytest.mark.parametrize("versioned", [False, True])
def test_a_raw_capsule_asks_nobody(versioned: bool) -> None:
    capsule, producer = raw_capsule(versioned=versioned)
    t = candle.from_dlpack(capsule)
    assert t.__dlpack_device__() == (2, 0)
    again = t.__dlpack__(stream=LEGACY)  # the stream it is taken to be ready on: no call
    assert info(again).data == ADDRESS
    del capsule, again, t
    assert producer.deletes == 1


# Consumers


CONSUMES = {
    "torch": A,
    "cupy": A,
    "jax": JAX_STREAM,
    "warp": A,
    "paddle": A,
    "cuda.core": LEGACY,
    "tvm-ffi": LEGACY,  # it says none: the standard's default
}


@pytest.mark.parametrize("name", CONSUMES)
def test_a_consumers_stream_reaches_the_producer(runtime: Runtime, name: str) -> None:
    x = CoreLike(runtime)
    t = imported(x)
    runtime.streams[0] = A
    with CONSUMERS[name](t, runtime) as taken:
        assert taken.info.data == ADDRESS
        assert taken.info.device == (2, 0)
    assert x.streams == [CONSUMES[name]]


def test_numpy_is_refused_device_memory(runtime: Runtime) -> None:
    for kind in (CoreLike, ManagedLike):
        with pytest.raises(BufferError):
            CONSUMERS["numpy"](candle.from_dlpack(kind(runtime)), runtime)
