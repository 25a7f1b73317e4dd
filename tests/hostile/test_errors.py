"""Errors in places where nobody expects one: nothing is taken for absent, kept, or left behind."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import fake_driver
import faults
import pytest
import roads

import candle
from candle.testing import Producer, abi, assert_no_leak, exchange_producer
from candle.testing.tables import make_exchange_table

FATAL = (MemoryError, KeyboardInterrupt)


class Key(str):
    """A key that cannot be compared."""

    error: BaseException

    def __eq__(self, other: object) -> bool:
        raise self.error

    __hash__ = str.__hash__


def interface(name: str, error: BaseException, **entries: Any) -> Any:
    key = Key(name)
    key.error = error
    members = {"typestr": "<f4", "shape": (2,), "data": bytearray(64), "version": 3, **entries}
    value = members.pop(name)
    return type("Keyed", (), {"__array_interface__": {**members, key: value}})()


ENTRIES: dict[str, Any] = {
    "mask": [True, False],
    "typestr": "<f4",
    "shape": (2,),
    "strides": (8,),
    "data": bytearray(64),
    "offset": 4,
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_that_cannot_be_read_is_not_absent(name: str) -> None:
    """Strides taken for absent would be other values; so would an offset, and a mask."""
    entry = {name: ENTRIES[name]}
    with pytest.raises(BufferError, match="mine"):
        candle.asarray(interface(name, RuntimeError("mine"), **entry))
    for kind in FATAL:
        with pytest.raises(kind):
            candle.asarray(interface(name, kind(), **entry))


@pytest.mark.parametrize("kind", FATAL)
@pytest.mark.parametrize("name", ["__dlpack__", "__arrow_c_array__"])
def test_nothing_wrong_is_kept_of_a_type(kind: type[BaseException], name: str) -> None:
    """What has both protocols goes by Arrow, also after it could not be looked at once."""
    raises = [kind]

    class Meta(type):
        def __getattribute__(cls, wanted: str) -> Any:
            if wanted == name and raises:
                raise raises.pop()
            return super().__getattribute__(wanted)

    class Both(metaclass=Meta):
        def __dlpack__(self, **_keywords: Any) -> Any:
            raise AssertionError("went by DLPack")

        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return roads.tensor().__arrow_c_array__()

    x = Both()
    with pytest.raises(kind):
        candle.asarray(x)
    assert candle.asarray(x).tolist() == roads.NUMBERS


@pytest.mark.parametrize("kind", FATAL)
@pytest.mark.parametrize("name", ["ndim", "dtype", "truth", "text"])
def test_an_index_that_raises(kind: type[BaseException], name: str) -> None:
    class Value:
        def __bool__(self) -> bool:
            raise kind

        __str__ = __bool__  # type: ignore[assignment]

    class Index:
        def __index__(self) -> int:
            return 1

        def __getattr__(self, wanted: str) -> Any:
            if wanted == name:
                raise kind
            if (name, wanted) in (("truth", "ndim"), ("text", "dtype")):
                return Value()
            raise AttributeError(wanted)

    t = candle.zeros((3, 3))
    with pytest.raises(kind):
        t[Index()]
    with pytest.raises(kind):
        t[Index()] = 1


def test_an_error_whose_words_raise() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise self.args[0]

    for inner, outer in ((ValueError, BufferError), *((kind, kind) for kind in FATAL)):
        with pytest.raises(outer):
            candle.from_dlpack(Producer(shape=(2,), raises=Mute(inner)))


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.isolated(together="file")
def test_a_chain_of_tables_that_leads_round_in_a_circle(length: int) -> None:
    """It has no table for us, and an end for nobody."""
    first = link = make_exchange_table(version=(2, 0))
    for _ in range(length - 1):
        link = make_exchange_table(version=(2, 0), prev_api=link)
    abi.DLPackExchangeAPIHeader.from_address(first).prev_api = link
    producer = Producer(shape=(4,))
    x = exchange_producer(producer, version=(3, 0), prev_api=link, dlpack=True)
    assert candle.from_dlpack(x).tolist() == roads.NUMBERS
    assert len(producer.calls) == 1


@pytest.mark.parametrize("answer", [(2**32 + 1, 0), (1, 2**32), (-(2**31) - 1, 0)])
def test_a_device_of_more_than_32_bits(answer: tuple[int, int]) -> None:
    """Cut to 32 bits it would be another one: the host."""
    producer = Producer(shape=(4,), device_answer=answer)
    with pytest.raises(BufferError, match="no device has"):
        candle.from_dlpack(producer)
    assert producer.deletes == producer.exports


@pytest.fixture(scope="module")
def native() -> ctypes.PyDLL:
    try:
        library = ctypes.PyDLL(str(faults.build()))
    except fake_driver.NoCompiler as error:
        pytest.skip(str(error))
    library.prepare.argtypes, library.prepare.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    return library


def function(library: ctypes.PyDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found


@pytest.mark.parametrize("slot", ["gives_with_error", "fails_with_result"])
@pytest.mark.isolated(together="file")
def test_a_slot_that_contradicts_itself(native: ctypes.PyDLL, slot: str) -> None:
    """The error it leaves counts; the tensor beside it may be anybody's, and is left alone."""
    for _ in range(3):
        producer = Producer(shape=(4,))
        address = producer.export()
        native.prepare(address, None)
        x = exchange_producer(
            producer, managed_tensor_from_py_object_no_sync=function(native, slot)
        )
        with pytest.raises(BufferError, match="left behind"), assert_no_leak():
            candle.from_dlpack(x)
        assert producer.deletes == 0


@pytest.mark.parametrize("moment", ["drop", "copy", "refuse", "capsule"])
@pytest.mark.isolated(together="file")
def test_a_deleter_that_leaves_an_error(
    native: ctypes.PyDLL, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is printed, as one of a finaliser is, and changes neither result nor error."""
    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda said: told.append(str(said.exc_value)))
    producer = Producer(shape=(4,), dtype=(99, 32) if moment == "refuse" else (2, 32))
    managed = abi.DLManagedTensorVersioned.from_address(producer.export())
    native.prepare(ctypes.addressof(managed), managed.deleter)
    managed.deleter = function(native, "deletes_with_error")
    slot = function(native, "gives")
    x = exchange_producer(producer, managed_tensor_from_py_object_no_sync=slot)
    if moment == "refuse":
        with pytest.raises(BufferError, match="impossible"):
            candle.from_dlpack(x)
    elif moment == "copy":
        assert candle.from_dlpack(x, copy=True).tolist() == roads.NUMBERS
    elif moment == "capsule":
        held = candle.from_dlpack(x).__dlpack__()
        del held
    else:
        t = candle.from_dlpack(x)
        assert t.tolist() == roads.NUMBERS
        del t
    assert producer.deletes == 1
    assert told == ["left behind"]


@pytest.mark.parametrize("kind", ["own memory", "buffer", "DLPack"])
def test_a_consumer_that_releases_after_the_end(in_child: Any, kind: str) -> None:
    """What needs Python is left alone then; the rest is freed."""
    make = {
        "own memory": "candle.zeros((4,))",
        "buffer": "candle.asarray(bytearray(16))",
        "DLPack": "candle.from_dlpack(candle.zeros((4,)).__dlpack__(max_version=(1, 3)))",
    }[kind]
    try:
        faults.build()
    except fake_driver.NoCompiler as error:
        pytest.skip(str(error))
    in_child(
        f"""
        import ctypes, faults, candle
        from candle.testing import take
        library = ctypes.PyDLL(str(faults.build()))
        library.release_at_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        taken = take({make}.__dlpack__(max_version=(1, 3)))
        taken.released = True
        library.release_at_exit(taken.address, taken.struct.deleter)
        """
    ).check()


def test_a_second_python_in_one_process(in_child: Any) -> None:
    """What the first left behind belongs to objects that are gone: it is told."""
    try:
        faults.build()
    except fake_driver.NoCompiler as error:
        pytest.skip(str(error))
    said = in_child(
        """
        import ctypes, faults, sys
        import candle
        assert candle.arange(3).tolist() == [0, 1, 2]
        library = ctypes.PyDLL(str(faults.build()))
        library.run_at_exit(
            f"import sys; sys.path[:] = {sys.path!r}\\n"
            "try:\\n"
            "    import candle\\n"
            "except ImportError as error:\\n"
            "    print(error)\\n".encode()
        )
        """
    ).check()
    assert "start a new process" in said
