"""A producer's deleter runs exactly once, in every order of dropping, collector off."""

from __future__ import annotations

import gc
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

import candle
from candle.testing import Producer, exchange_producer, live, take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


IMPORTS: dict[str, Callable[[Producer], candle.Tensor]] = {
    "object": candle.from_dlpack,
    "versioned capsule": lambda producer: candle.from_dlpack(producer.capsule(True)),
    "legacy capsule": lambda producer: candle.from_dlpack(producer.capsule(False)),
    "exchange table": lambda producer: candle.from_dlpack(exchange_producer(producer)),
    "asarray": candle.asarray,
    "Tensor": candle.Tensor,
    "Tensor.from_dlpack": candle.Tensor.from_dlpack,
}

# What else holds the memory.
HOLDERS: dict[str, Callable[[candle.Tensor], Any]] = {
    "view": lambda t: t[:, 1:],
    "transpose": lambda t: t.T,
    "unused capsule": lambda t: t.__dlpack__(),
    "unused versioned capsule": lambda t: t.__dlpack__(max_version=(1, 3)),
    "import of its capsule": lambda t: candle.from_dlpack(t.__dlpack__()),
    "import of the tensor": candle.from_dlpack,
    "memoryview": lambda t: t.memoryview(),
}


@pytest.mark.parametrize("kind", IMPORTS)
@pytest.mark.parametrize("null_data", [False, True])
def test_plain_drop(kind: str, null_data: bool) -> None:
    for shape in [(2, 3), (0, 3)] if not null_data else [(0, 3)]:
        producer = Producer(shape=shape, null_data=null_data)
        t = IMPORTS[kind](producer)
        assert producer.deletes <= (0 if t.size else 1)
        del t
        assert producer.deletes == producer.exports == 1


@pytest.mark.parametrize("kind", IMPORTS)
@pytest.mark.parametrize("first", HOLDERS)
def test_every_order_of_dropping(kind: str, first: str) -> None:
    for second in HOLDERS.values():
        for order in itertools.permutations(range(3)):
            producer = Producer(shape=(2, 3))
            t = IMPORTS[kind](producer)
            held = [t, HOLDERS[first](t), second(t)]
            del t
            for place in order:
                assert producer.deletes == 0
                held[place] = None
            assert producer.deletes == 1


@pytest.mark.parametrize("kind", IMPORTS)
def test_chain_of_imports(kind: str) -> None:
    """Each import holds the last; only the end of the chain is kept."""
    producer = Producer(shape=(2, 3))
    t = IMPORTS[kind](producer)
    for turn in range(50):
        t = candle.from_dlpack(t.__dlpack__(max_version=(1, 3) if turn % 2 else None))
    assert producer.deletes == 0
    assert t.data_ptr() == producer.address
    del t
    assert producer.deletes == 1


def test_capsule_dropped_before_and_after_its_tensor() -> None:
    for capsule_first in (True, False):
        producer = Producer(shape=(2, 3))
        capsule = producer.capsule()
        t = candle.from_dlpack(capsule)
        if capsule_first:
            del capsule
            assert producer.deletes == 0
            del t
        else:
            del t
            assert producer.deletes == 1
            del capsule
        assert producer.deletes == 1


@pytest.mark.parametrize("keywords", [{"copy": True}, {"dtype": "int64"}, {"order": "C"}])
@pytest.mark.parametrize("kind", ["object", "legacy capsule", "exchange table"])
def test_copied_imports(keywords: dict[str, Any], kind: str) -> None:
    producer = Producer(shape=(3, 2), strides=(1, 3))
    x: Any = producer
    if kind == "legacy capsule":
        x = producer.capsule(versioned=False)
    elif kind == "exchange table":
        x = exchange_producer(producer)
    t = candle.from_dlpack(x, **keywords)
    assert producer.deletes == 1
    assert t.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    del t
    assert producer.deletes == 1


@pytest.mark.parametrize("kind", ["object", "exchange table"])
def test_failed_copies(kind: str) -> None:
    """The memory for the copy is not to be had: an extent of 2**45 and stride 0."""
    producer = Producer(shape=(2**45, 2), strides=(0, 1))
    x = producer if kind == "object" else exchange_producer(producer)
    counts = live()
    with pytest.raises(MemoryError):
        candle.from_dlpack(x, copy=True)
    assert producer.deletes == producer.exports == 1
    assert live() == counts


@pytest.mark.parametrize("kind", ["object", "exchange table"])
def test_cast_that_is_refused(kind: str) -> None:
    producer = Producer(shape=(2,), dtype=(5, 64))
    x = producer if kind == "object" else exchange_producer(producer)
    with pytest.raises(BufferError, match="complex64"):
        candle.from_dlpack(x, dtype="float32")
    assert producer.deletes == producer.exports


def test_dropped_by_many_threads_at_once() -> None:
    for _ in range(20):
        producer = Producer(shape=(2, 3))
        t = candle.from_dlpack(producer)
        taken = [take(t.__dlpack__()) for _ in range(8)]
        barrier = threading.Barrier(8)

        def release(one: Any, gate: threading.Barrier = barrier) -> None:
            gate.wait()
            one.release()

        threads = [threading.Thread(target=release, args=(one,)) for one in taken]
        del t
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert producer.deletes == 1


def test_imported_by_many_threads_at_once() -> None:
    producer = Producer(shape=(2, 3))
    barrier = threading.Barrier(8)
    wrong: list[object] = []

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            t = candle.from_dlpack(producer)
            view = t[1]
            del t
            if view.tolist() != [3.0, 4.0, 5.0]:
                wrong.append(view)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert producer.deletes == producer.exports == 1600


def test_raw_capsule_raced_for() -> None:
    """One of many threads gets it; the others are refused."""
    for _ in range(50):
        producer = Producer(shape=(2, 3))
        capsule = producer.capsule()
        barrier = threading.Barrier(4)
        won: list[Any] = []
        lost: list[Any] = []

        def work(one: Any = capsule, gate: Any = barrier, won: Any = won, lost: Any = lost) -> None:
            gate.wait()
            try:
                won.append(candle.from_dlpack(one))
            except (BufferError, ValueError):
                lost.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(won), len(lost)) == (1, 3)
        won.clear()
        assert producer.deletes == 1
