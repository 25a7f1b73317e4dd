"""The stand-ins for producers of device memory keep to the libraries' rules."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from device_producers import (
    ADDRESS,
    LEGACY,
    PRODUCERS,
    CoreLike,
    CupyLike,
    DeviceArray,
    HostLike,
    InterfaceOnly,
    JaxLike,
    OneApiLike,
    PaddleLike,
    RocmLike,
    Runtime,
    TensorflowLike,
    TorchLike,
    TorchPinnedLike,
    WarpLike,
    raw_capsule,
)

from candle.testing import info, take

A, B = 0xA000, 0xB000
NOTHING: list[Any] = []
ABSENT = "absent"

# What each value of `stream` makes wait, with A current; an error that it is instead.
ORDERS: dict[type[DeviceArray], dict[Any, Any]] = {
    TorchLike: {
        ABSENT: NOTHING,
        None: [(A, LEGACY)],
        -1: NOTHING,
        0: AssertionError,
        1: [(A, LEGACY)],
        2: BufferError,
        B: [(A, B)],
        A: NOTHING,
        "text": TypeError,
    },
    RocmLike: {
        ABSENT: NOTHING,
        None: [(A, 0)],
        -1: NOTHING,
        0: [(A, 0)],
        1: AssertionError,
        2: AssertionError,
        B: [(A, B)],
    },
    CupyLike: {
        ABSENT: [(A, LEGACY)],
        None: [(A, LEGACY)],
        -1: NOTHING,
        1: [(A, LEGACY)],
        2: [(A, 2)],
        B: [(A, B)],
        A: NOTHING,
    },
    JaxLike: {0: [("own", 0)], 1: [("own", 1)], 2: [("own", 2)], B: [("own", B)]},
    WarpLike: {
        ABSENT: [(A, LEGACY)],
        None: [(A, LEGACY)],
        -1: NOTHING,
        0: [(A, 0)],
        1: [(A, LEGACY)],
        B: [(A, B)],
    },
    PaddleLike: {
        ABSENT: [(A, LEGACY)],
        None: [(A, LEGACY)],
        -1: NOTHING,
        0: ValueError,
        1: [(A, LEGACY)],
        2: ValueError,
        B: [(A, B)],
        A: NOTHING,
        "text": TypeError,
    },
    TensorflowLike: {ABSENT: NOTHING, None: NOTHING, **dict.fromkeys([-1, 0, 1, B], RuntimeError)},
    CoreLike: dict.fromkeys([ABSENT, None, -1, 0, 1, 2, B], NOTHING),
}
CASES = [(kind, stream) for kind, streams in ORDERS.items() for stream in streams]


@pytest.mark.parametrize(("kind", "stream"), CASES)
def test_what_a_stream_makes_wait(runtime: Runtime, kind: type[DeviceArray], stream: Any) -> None:
    x = kind(runtime)
    keywords = {} if stream == ABSENT else {"stream": stream}
    wanted = ORDERS[kind][stream]
    with runtime.on(0, A):
        if isinstance(wanted, type):
            with pytest.raises(wanted):
                x.__dlpack__(**keywords)
            assert x.producer.exports == 0
        else:
            x.__dlpack__(**keywords)
            assert runtime.ordered == wanted
    assert x.streams == [stream]
    assert x.calls[0].keywords == keywords


def test_jax_blocks_the_host_or_hands_on_what_it_gets(runtime: Runtime) -> None:
    x = JaxLike(runtime)
    x.__dlpack__()
    x.__dlpack__(stream=None)
    assert runtime.waits == ["own", "own"]
    x.__dlpack__(stream=-1)
    assert runtime.handed_on == [-1]


def test_cupy_warns_of_stream_zero(runtime: Runtime) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with runtime.on(0, A):
            CupyLike(runtime).__dlpack__(stream=0)
    assert len(said) == 1
    assert runtime.ordered == [(A, LEGACY)]


def test_whose_device_counts(runtime: Runtime) -> None:
    runtime.streams = {0: A, 1: B}
    with pytest.raises(BufferError, match="different CUDA device"):
        TorchLike(runtime, device=1).__dlpack__(stream=-1)
    CupyLike(runtime, device=1).__dlpack__(stream=1)  # of the current device, which is wrong
    WarpLike(runtime, device=1).__dlpack__(stream=1)
    assert runtime.ordered == [(A, LEGACY), (B, LEGACY)]
    with runtime.on(1):
        x = TorchLike(runtime, device=1)
        x.__dlpack__(stream=-1)
    assert x.calls[0].device == 1


def test_what_requires_grad_is_refused(runtime: Runtime) -> None:
    x = TorchLike(runtime)
    x.requires_grad = True
    with pytest.raises(BufferError, match="gradient"):
        x.__dlpack__()


@pytest.mark.parametrize("name", PRODUCERS)
def test_capsules_say_what_was_announced(runtime: Runtime, name: str) -> None:
    x = PRODUCERS[name](runtime, device=2, shape=(4, 5))
    with runtime.on(2):
        if name == "warp":
            with pytest.raises(TypeError):
                x.__dlpack__(max_version=(1, 3))
            capsule = x.__dlpack__()
        else:
            capsule = x.__dlpack__(max_version=(1, 3))
    fields = info(capsule)
    assert x.__dlpack_device__()[1] == fields.device[1] == 2
    assert (x.__dlpack_device__()[0] == fields.device[0]) == (name != "torch pinned")
    assert fields.data == ADDRESS
    assert fields.shape == (4, 5)
    assert (fields.version is None) == (name in {"jax", "warp", "tensorflow"})
    taken = take(capsule)
    assert x.deletes == 0
    taken.release()
    del capsule
    assert x.deletes == 1


@pytest.mark.parametrize("stream", [-1, 0, 1, B])
def test_host_memory_takes_no_stream(runtime: Runtime, stream: int) -> None:
    with pytest.raises(RuntimeError):
        HostLike(runtime).__dlpack__(stream=stream)
    if stream != -1:
        with pytest.raises(AssertionError):
            TorchPinnedLike(runtime).__dlpack__(stream=stream)


def test_a_queue_is_passed_through(runtime: Runtime) -> None:
    x, queue = OneApiLike(runtime), OneApiLike.Queue()
    with pytest.raises(TypeError):
        x.__dlpack__(stream=1)
    x.__dlpack__(stream=queue)
    assert runtime.ordered == [("own", queue)]


def test_interfaces() -> None:
    assert "stream" not in InterfaceOnly(version=2).__cuda_array_interface__
    x = InterfaceOnly(stream=7, strides=NotImplemented, mask=None)
    assert x.__cuda_array_interface__["stream"] == 7
    assert "strides" not in x.__cuda_array_interface__
    assert "mask" in x.__cuda_array_interface__
    assert x.asked == 3
    assert JaxLike().__cuda_array_interface__["data"] == (ADDRESS, True)


def test_a_raw_capsule_counts_its_deleter() -> None:
    capsule, producer = raw_capsule(versioned=False, shape=(3,))
    assert info(capsule).version is None
    assert info(capsule).device == (2, 0)
    del capsule
    assert producer.deletes == 1
