"""Frameworks that cannot name their current stream; a driver, and memory, that fail meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fake_driver import LEGACY
from faults import Faults

import candle
from candle._native import _core
from candle.testing import Producer, exchange_api, live

if TYPE_CHECKING:
    from fake_driver import Driver

pytestmark = pytest.mark.isolated(together="file")

N = 16
SAID = "say which stream is current"


class Stream:
    """A stream object of no library that candle knows; `answer` is what it says of itself."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __cuda_stream__(self) -> Any:
        if self.answer is KeyError:
            raise KeyError("mine")
        return self.answer


class Interface:
    """The CUDA array interface over memory of the fake driver."""

    def __init__(self, address: int, stream: int | None) -> None:
        self.__cuda_array_interface__ = {
            "shape": (N,),
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
            "stream": stream,
        }


def lent(block: int, stream: int | None = None) -> candle.Tensor:
    return candle.from_dlpack(
        Producer(block, shape=(N,), device=(2, 0)).capsule(True), stream=stream
    )


def test_cupy_cannot_name_its_stream(
    cupy: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each move that has to be ordered is refused, nothing is kept, and it goes on afterwards."""
    [table] = exchange_api(candle.Tensor)
    x, b = cupy.empty(N, "float32"), driver.stream()
    t = candle.from_dlpack(x)
    foreign = Producer(x.data.ptr, shape=(N,), device=(2, 0))
    moves = {
        "in": lambda: candle.from_dlpack(x),
        "capsule": lambda: t.__dlpack__(stream=b),
        "interface": lambda: t.__cuda_array_interface__,
        "wait_for": lambda: t.wait_for(b),
        "Arrow": t.__arrow_c_device_array__,
        "stream of the table": lambda: table.current_work_stream((2, 0)),
        "out by the table": lambda: table.from_py_object(t),
        "borrowed by the table": lambda: table.dltensor_from_py_object(t),
        "in by the table": lambda: table.to_py_object(foreign.export()),
    }
    error = RuntimeError("out of luck")

    def fail(*_: Any) -> Any:
        raise error

    before = live()
    with monkeypatch.context() as patch:
        patch.setattr(cupy.cuda, "get_current_stream", fail)
        for name, move in moves.items():
            with pytest.raises(BufferError, match=SAID) as caught:
                move()
            assert caught.value.__cause__ is error, name
            del caught
            assert live() == before, name
    assert foreign.deletes == 1, "what a table takes is its own, refused or not"
    t.__dlpack__(stream=b)


def test_torch_cannot_name_its_stream(
    torch: Any, driver: Driver, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = lent(block, driver.stream())
    t.torch()

    def fail(*_: Any) -> Any:
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "current_stream", fail)
        with pytest.raises(BufferError, match=f"torch.*{SAID}|{SAID}"):
            t.torch()
    assert t.torch().data_ptr() == block


def test_memory_that_torch_does_not_take(in_child: Any) -> None:
    """What it does with the struct then is not told: it is left alone, and so is the memory."""
    pytest.importorskip("torch")
    in_child(
        """
        import candle
        from candle.testing import Producer
        producer = Producer(1 << 40, shape=(4,), device=(14, 0))
        t = candle.from_dlpack(producer.capsule(True))
        try:
            t.torch()
        except BufferError as error:
            assert str(error).startswith("torch does not take this memory: "), error
        else:
            raise AssertionError("torch has oneAPI")
        del t
        assert producer.deletes == 0
        """
    ).check()


def test_the_producer_of_an_interface_waits(driver: Driver, block: int) -> None:
    """On the stream that the interface names now; on the default one where it names none."""
    a, b = driver.stream(), driver.stream()
    for value, stream, reader in ((7.0, a, a), (8.0, None, LEGACY)):
        t = candle.asarray(Interface(block, stream))
        driver.late_fill(b, block, value, N)
        assert driver.read(block, reader, N) != [value] * N
        t.wait_for(b)
        assert driver.read(block, reader, N) == [value] * N


ANSWERS: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "gives None, not a version and a handle"),
    ([0, 5], TypeError, r"gives \[0, 5\], not a version and a handle"),
    ((0,), TypeError, r"gives \(0,\), not a version and a handle"),
    ((0, 1, 2), TypeError, "not a version and a handle"),
    (("0", 1), TypeError, "speaks version '0' of the protocol"),
    ((1 << 70, 1), TypeError, "of the protocol, and candle knows 0"),
    ((0, None), TypeError, "a stream's handle is an int, not None"),
    ((0, -1), ValueError, "-1 is no handle"),
    ((0, 1 << 64), ValueError, "is no handle"),
    (KeyError, KeyError, "mine"),
]


def test_what_a_stream_says_of_itself(driver: Driver, block: int) -> None:
    t = lent(block, driver.stream())
    for answer, kind, said in ANSWERS:
        for move in (t.wait_for, t.record_stream):
            with pytest.raises(kind, match=said):
                move(Stream(answer))
    with pytest.raises(KeyError, match="mine"):
        candle.from_dlpack(
            Producer(block, shape=(N,), device=(2, 0)).capsule(True),
            stream=Stream(KeyError),
        )

    class Property:
        @property
        def __cuda_stream__(self) -> Any:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        t.wait_for(Property())
    older = Stream(None)
    older.__cuda_stream__ = (0, driver.stream())  # type: ignore[method-assign]
    t.wait_for(older)


def check_each(driver: Driver, name: str, t: candle.Tensor) -> None:
    stream, before = Stream((0, driver.stream())), live()
    for doing, move in (
        ("keep the memory for a stream", lambda: t.record_stream(stream)),
        ("make the producer's stream wait", lambda: t.wait_for(stream)),
        ("mark the end of the producer's work", t.__arrow_c_device_array__),
    ):
        driver.fail(name, 719)
        with pytest.raises(BufferError, match=rf"candle cannot {doing}: .*\(719\)"):
            move()
        assert live() == before
    t.record_stream(stream)


@pytest.mark.parametrize("name", ["cuCtxPushCurrent_v2", "cuEventCreate", "cuEventRecord"])
def test_a_driver_that_fails_meanwhile(driver: Driver, block: int, name: str) -> None:
    producer = Producer(block, shape=(N,), device=(2, 0))
    check_each(driver, name, candle.from_dlpack(producer.capsule(True), stream=driver.stream()))
    assert producer.deletes == 1


def record_without_memory(driver: Driver, faults: Faults, t: candle.Tensor) -> int:
    failed = 0
    for _word, armed in faults.each(native=True):
        stream = Stream((0, driver.stream()))
        try:
            armed(lambda stream=stream: t.record_stream(stream))
        except MemoryError:
            failed += 1
    return failed


def test_no_memory_to_keep_a_stream(driver: Driver, block: int) -> None:
    assert _core.__file__ is not None
    producer = Producer(block, shape=(N,), device=(2, 0))
    t = [candle.from_dlpack(producer.capsule(True), stream=driver.stream())]
    assert record_without_memory(driver, Faults(_core.__file__), t.pop()) >= 1
    assert producer.deletes == 1
