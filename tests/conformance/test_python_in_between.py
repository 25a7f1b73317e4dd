"""Python code of the producer that runs in the middle of an ingest and changes what is read."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from typing import Any, ClassVar

import pytest

import candle
from candle.testing import Producer, exchange_producer


def test_numbers_of_a_sequence_that_makes_them_anew() -> None:
    with pytest.raises(ValueError, match="uint64"):
        candle.asarray(range(2**63, 2**63 + 3))


def test_a_list_cleared_while_it_is_looked_through() -> None:
    outer: list[Any] = [1, 2, 3]

    class Clears:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            raise IndexError

        def __getattr__(self, name: str) -> Any:
            outer.clear()
            raise AttributeError(name)

    outer[1] = Clears()
    with pytest.raises((RuntimeError, ValueError)):
        candle.asarray(outer)


@pytest.mark.parametrize(
    ("offset", "shape"),
    [
        (2**63 - 1, (1,)),
        (-1, (1,)),
        (17, (0,)),
        (8, (2,)),
        (2**70, (1,)),
        ("a", (1,)),
        (0, (2**61,)),
    ],
)
def test_offsets_into_a_buffer(offset: Any, shape: tuple[int, ...]) -> None:
    class Offset:
        __array_interface__: ClassVar[dict[str, Any]] = {
            "shape": shape,
            "typestr": "<f8",
            "data": bytearray(16),
            "offset": offset,
            "version": 3,
        }

    if 0 in shape:
        assert candle.asarray(Offset()).shape == shape
    else:
        with pytest.raises(BufferError, match="interface"):
            candle.asarray(Offset())


def test_an_offset_inside_the_buffer() -> None:
    class Offset:
        __array_interface__: ClassVar[dict[str, Any]] = {
            "shape": (2,),
            "typestr": "<i4",
            "data": bytearray(b"\0\0\0\0\1\0\0\0\2\0\0\0"),
            "offset": 4,
            "version": 3,
        }

    assert candle.asarray(Offset()).tolist() == [1, 2]


def test_a_device_whose_type_is_no_int() -> None:
    class Number:
        def __index__(self) -> int:
            raise AssertionError("asked with an error pending")

    class Lies:
        def __dlpack_device__(self) -> Any:
            return object(), Number()

        def __dlpack__(self, **keywords: Any) -> Any:
            raise AssertionError("asked for memory on no device")

    with pytest.raises(BufferError, match="int"):
        candle.from_dlpack(Lies())


def test_pinned_memory_leaves_by_the_named_doors() -> None:
    torch = pytest.importorskip("torch")
    pinned = Producer(shape=(4,), device=(3, 0))
    t = candle.from_dlpack(pinned)
    out = t.torch()
    assert isinstance(out, torch.Tensor)
    assert out.data_ptr() == t.data_ptr() == t.numpy().__array_interface__["data"][0]


def test_views_of_empty_tensors_point_nowhere() -> None:
    assert candle.empty((3, 0))[1].data_ptr() == candle.empty((3, 0)).data_ptr()
    assert candle.empty((3, 0), dtype="int4")[1].shape == (0,)
    with pytest.raises(ValueError, match="gaps"):
        candle.empty((0, 2**60), dtype="float64").view("uint8")


LOOKUPS = (
    "__dlpack__",
    "__dlpack_device__",
    "__cuda_array_interface__",
    "__array_struct__",
    "__array_interface__",
    "__array__",
)


def failing(name: str, error: BaseException, *, of: type = object) -> Any:
    """An object whose one attribute raises, though nothing of it is called."""

    def look(_self: object) -> Any:
        raise error

    members: dict[str, Any] = {name: property(look)}
    if name == "__dlpack_device__":
        members["__dlpack__"] = lambda _self, **_keywords: None
    return type("Failing", (of,), members)()


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("error", [RuntimeError("mine"), ValueError("mine"), TypeError("mine")])
def test_error_of_a_lookup_is_told_like_one_of_a_call(name: str, error: Exception) -> None:
    ways = [candle.asarray, candle.Tensor, lambda x: candle.asarray([x])]
    if name.startswith("__dlpack"):
        ways.append(candle.from_dlpack)
    for way in ways:
        with pytest.raises(BufferError, match=r"Failing.*mine") as caught:
            way(failing(name, error))
        assert caught.value.__cause__ is error


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_interrupts_pass_out_of_a_lookup(name: str, error: type[BaseException]) -> None:
    for way in (candle.asarray, lambda x: candle.asarray([x])):
        with pytest.raises(error):
            way(failing(name, error()))


@pytest.mark.parametrize("name", ["__dlpack__", "__array_interface__", "__array__"])
def test_lookups_on_sequences(name: str) -> None:
    """A list that might speak a protocol is asked, and its answer is not swallowed."""
    for way in (candle.asarray, lambda x: candle.asarray([x])):
        with pytest.raises(KeyboardInterrupt):
            way(failing(name, KeyboardInterrupt(), of=list))
        with pytest.raises(BufferError, match="mine"):
            way(failing(name, RuntimeError("mine"), of=list))


class Settled:
    """What an object is turned into in the middle of a move."""


def turned(x: Any) -> None:
    x.__class__ = Settled
    gc.collect()  # the class it had is gone


@pytest.mark.parametrize("moment", ["__dlpack_device__", "__dlpack__", "__array_interface__"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.isolated
def test_class_that_goes_in_the_middle(moment: str, fails: bool) -> None:
    def made() -> Any:
        producer = Producer(shape=(4,))

        class Passing:
            def __dlpack_device__(self) -> tuple[int, int]:
                if moment == "__dlpack_device__":
                    turned(self)
                return (1, 0)

            def __dlpack__(self, **keywords: Any) -> object:
                if moment == "__dlpack__":
                    turned(self)
                if fails:
                    raise RuntimeError("mine")
                return producer.__dlpack__(**keywords)

        class ByInterface:
            @property
            def __array_interface__(self) -> dict[str, Any]:
                turned(self)
                if fails:
                    raise RuntimeError("mine")
                return {"shape": (2,), "typestr": "<f4", "data": bytearray(8), "version": 3}

        return (ByInterface if moment == "__array_interface__" else Passing)()

    for _ in range(50):
        x = made()
        gc.collect()
        if fails:
            with pytest.raises(BufferError, match="mine"):
                candle.asarray(x)
        else:
            assert candle.asarray(x).ndim == 1


@pytest.mark.isolated
def test_class_with_a_table_that_goes_in_the_middle() -> None:
    def going(address: int, out: Any) -> int:
        turned(ctypes.cast(address, ctypes.py_object).value)
        out[0] = producer.export()
        return 0

    for _ in range(20):
        producer = Producer(shape=(4,))
        x = exchange_producer(producer, managed_tensor_from_py_object_no_sync=going)
        vars(x).clear()
        assert candle.asarray(x).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_dict_emptied_while_it_is_read() -> None:
    interface: dict[str, Any] = {}

    class Clears:
        def __index__(self) -> int:
            interface.clear()
            gc.collect()
            return 2

    class Emptied:
        __array_interface__ = interface

    for key in ("shape", "strides"):
        interface.update(typestr="<f4", shape=(2,), data=bytearray(64), version=3)
        interface[key] = (Clears(),)
        with contextlib.suppress(BufferError):
            candle.asarray(Emptied())


def test_what_is_known_of_a_type_is_given_back_where_it_cannot_be_kept(in_child: Any) -> None:
    in_child(
        """
        import sys
        import candle
        from candle._native import _core
        from candle.frameworks.record import Record

        class Odd(Record):
            @property
            def stand_in(self):
                raise self.error
            stand_in = stand_in.setter(lambda self, value: None)

        class Marker:
            pass

        known = None
        _core.register(recognise=lambda cls: known)

        def gives(answer):
            global known
            known = answer
            x = type("Unknown", (), {})()
            try:
                candle.asarray(x)
            except BaseException as error:
                return type(error)

        keeps = {name: Marker() for name in ("hold", "explain", "is_conj", "is_neg")}
        before = {name: sys.getrefcount(marker) for name, marker in keeps.items()}

        broken = Record("\\ud800", byte_dtypes=(1,), **keeps)
        assert gives(broken) is UnicodeEncodeError
        for error in (KeyboardInterrupt, MemoryError, RuntimeError):
            odd = Odd("plain", **keeps)
            odd.error = error()
            assert gives(odd) is error, error
        whole = Odd("plain", **keeps)
        whole.error = AttributeError("stand_in")
        assert gives(whole) is TypeError
        import gc
        known = None
        del broken, odd, whole
        gc.collect()
        after = {name: sys.getrefcount(marker) for name, marker in keeps.items()}
        import sysconfig
        if sysconfig.get_config_var("Py_GIL_DISABLED"):  # another thread may be reading a record
            before = {name: count + 1 for name, count in before.items()}
        assert after == before, (before, after)
        """
    ).check()
