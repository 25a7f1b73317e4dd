"""The stand-ins for consumers of device memory ask as the libraries do, and take what they take."""

from __future__ import annotations

from typing import Any

import pytest
from device_consumers import (
    CONSUMERS,
    JAX_STREAM,
    core_like,
    interface_blocking,
    interface_ordering,
    jax_like,
)
from device_producers import (
    CUDA_HOST,
    LEGACY,
    PRODUCERS,
    CoreLike,
    InterfaceOnly,
    PinnedLike,
    RocmLike,
    Runtime,
    WarpLike,
)

A = 0xA000

# What reaches `__dlpack__` of CUDA memory, with A current.
ASKED: dict[str, dict[str, Any]] = {
    "torch": {"max_version": (1, 0), "stream": A},
    "cupy": {"stream": A, "max_version": (1, 0), "copy": None},
    "jax": {"stream": JAX_STREAM},
    "warp": {"stream": A},
    "paddle": {"max_version": (1, 2), "stream": A},
    "cuda.core": {"stream": LEGACY, "max_version": (1, 0)},
    "tvm-ffi": {"max_version": (1, 1)},
}


@pytest.mark.parametrize("name", ASKED)
def test_what_a_consumer_passes(runtime: Runtime, name: str) -> None:
    x = CoreLike(runtime, device=1)
    runtime.streams[1] = A
    with CONSUMERS[name](x, runtime) as taken:
        assert taken.info.device == (2, 1)
    [call] = x.calls
    assert call.keywords == ASKED[name]
    assert call.arguments == ()
    assert call.device == (1 if name == "cupy" else 0)
    assert x.deletes == 1


def test_streams_of_host_memory(runtime: Runtime) -> None:
    class Pinned(PinnedLike):
        """Takes any stream."""

        def export(self, **_keywords: Any) -> object:
            return self.capsule()

    for name, wanted in {
        "jax": {"stream": None},
        "warp": {"stream": LEGACY},
        "cuda.core": {"stream": None, "max_version": (1, 0)},
        "numpy": {"dl_device": None, "copy": None, "max_version": (1, 0)},
    }.items():
        x = Pinned(runtime)
        CONSUMERS[name](x, runtime).release()
        assert x.calls[0].keywords == wanted


def test_torch_says_zero_to_rocm(runtime: Runtime) -> None:
    x = RocmLike(runtime)
    CONSUMERS["torch"](x, runtime).release()
    assert x.streams == [0]


def test_older_producers_are_asked_again(runtime: Runtime) -> None:
    for name in ("torch", "cupy", "paddle", "cuda.core", "tvm-ffi"):
        x = WarpLike(runtime)
        CONSUMERS[name](x, runtime).release()
        assert len(x.calls) == 2
        assert "max_version" not in x.calls[1].keywords


# Whose memory a consumer takes; all others' it refuses with the error.
CUDA_ARRAYS = {"torch", "cupy", "jax", "warp", "paddle", "cuda.core"}
TAKES: dict[str, tuple[set[str], type[Exception]]] = {
    "torch": ({*CUDA_ARRAYS, "torch pinned", "ROCm"}, BufferError),
    "cupy": ({*CUDA_ARRAYS, "managed"}, TypeError),
    "cuda.core": ({*CUDA_ARRAYS, "managed", "pinned", "torch pinned"}, BufferError),
}


@pytest.mark.parametrize("consumer", TAKES)
@pytest.mark.parametrize("producer", [name for name in PRODUCERS if name != "tensorflow"])
def test_who_takes_what(runtime: Runtime, consumer: str, producer: str) -> None:
    x = PRODUCERS[producer](runtime)
    takes, refusal = TAKES[consumer]
    if producer in takes:
        CONSUMERS[consumer](x, runtime).release()
    else:
        with pytest.raises(refusal):
            CONSUMERS[consumer](x, runtime)
    assert x.deletes == x.producer.exports


class VersionedOnly(CoreLike):
    def export(self, **_keywords: Any) -> object:
        return self.producer.capsule(True)


def test_jax_wants_dense_legacy_capsules(runtime: Runtime) -> None:
    for x in (VersionedOnly(runtime), CoreLike(runtime, shape=(2, 3), strides=(1, 2))):
        with pytest.raises(BufferError):
            jax_like(x, runtime)
        assert x.deletes == 1


def test_cuda_core_wants_to_be_told_a_stream(runtime: Runtime) -> None:
    x = CoreLike(runtime)
    with pytest.raises(BufferError):
        core_like(x, runtime, stream=None)
    core_like(x, runtime, stream=0).release()
    assert x.streams == [None]
    pinned = PinnedLike(runtime)
    assert core_like(pinned, runtime, stream=None).info.device == (CUDA_HOST, 0)


def test_interfaces_are_waited_for_or_ordered(runtime: Runtime) -> None:
    x = InterfaceOnly(stream=A)
    interface_blocking(x, runtime)
    interface_ordering(x, runtime, 7)
    interface_ordering(x, runtime, -1)
    interface_ordering(InterfaceOnly(version=2), runtime, 7)
    assert runtime.waits == [A]
    assert runtime.ordered == [(A, 7)]
    with pytest.raises(ValueError, match="0"):
        interface_blocking(InterfaceOnly(stream=0), runtime)
