"""Traps of the protocols and of their consumers that no other file here has.

docs/reliability.md numbers them, and says which test shows what candle does about each.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from forked import in_fork
from offers import Holder

import candle
from candle.testing import Producer, capsules, exchange_api, info, live, take

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_pending_exception_survives_every_release() -> None:
    # Trap 7
    class Owner:
        def __init__(self) -> None:
            self.array = np.ones(3)
            self.__array_interface__ = self.array.__array_interface__

        def __del__(self) -> None:  # Python, and an exception of its own that it catches
            try:
                raise ZeroDivisionError
            except ZeroDivisionError:
                str(list(range(3)))

    def fail(*held: object) -> None:
        del held
        raise KeyError("mine")

    for make in (
        lambda: candle.asarray(Owner()).__dlpack__(),
        lambda: candle.asarray(Owner()).__dlpack__(max_version=(1, 3)),
        lambda: candle.from_dlpack(Producer(shape=(3,))).__dlpack__(),
        lambda: candle.asarray(Owner())[1:],
        lambda: candle.asarray(Owner()).memoryview(),
        lambda: candle.asarray(Owner()).numpy(),
        lambda: candle.asarray(Owner()).__arrow_c_array__(),
        lambda: Producer(shape=(2,)).capsule(),
    ):
        before = live()
        with pytest.raises(KeyError, match="mine"):
            fail(make())
        with pytest.raises(TypeError):  # C code that fails with them in hand
            sorted([1], key=make())
        assert live() == before
    producer = Producer(shape=(2**40, 2**40))  # candle's own refusal, with the capsule in hand
    with pytest.raises(BufferError, match="63 bits"):
        candle.from_dlpack(producer)
    assert (producer.deletes, producer.notes.pending) == (1, 0)


def test_what_torch_deletes_twice_is_not_its_to_delete() -> None:
    # Trap 8. torch frees the struct of a device that it lacks, and its caller does as well.
    torch = pytest.importorskip("torch")

    def hand_over() -> None:
        for device in ((4, 0), (7, 0), (16, 0), (18, 0)):
            producer = Producer(0x10000, shape=(3,), device=device)
            t = candle.from_dlpack(producer.capsule())
            for _ in range(3):
                with pytest.raises(BufferError, match="torch does not take this memory"):
                    t.torch()
            assert t.shape == (3,)
            assert producer.deletes <= 1
        assert torch.zeros(2).tolist() == [0.0, 0.0]

    in_fork(hand_over)


def test_no_type_error_about_data() -> None:
    # Trap 9. Consumers take it for an old signature, and ask again with less.
    for t in (
        candle.zeros(3),
        candle.asarray(b"abc"),
        candle.arange(4)[::-1],
        candle.zeros((2, 0)),
        candle.from_dlpack(Producer(shape=(8,), dtype=(0, 4))),
        candle.from_dlpack(Producer(shape=(8,), dtype=(17, 4, 2))),
        candle.from_dlpack(Producer(0x10000, shape=(3,), device=(2, 0)).capsule()),
        candle.from_dlpack(Producer(0x10000, shape=(3,), device=(14, 0)).capsule()),
    ):
        for version in (None, (0, 5), (1, 0), (1, 3), (2, 0)):
            for stream in (None, -1, 0, 1, 2**40, -7):
                for device in (None, (1, 0), (2, 0), (2, 99), (99, 0)):
                    for copy in (None, False, True):
                        with contextlib.suppress(BufferError, ValueError):
                            t.__dlpack__(
                                stream=stream, max_version=version, dl_device=device, copy=copy
                            )
    torch = pytest.importorskip("torch")

    class Counting:
        def __init__(self, t: candle.Tensor) -> None:
            self.t, self.calls = t, 0

        def __dlpack_device__(self) -> Any:
            return self.t.__dlpack_device__()

        def __dlpack__(self, **keywords: Any) -> Any:
            self.calls += 1
            return self.t.__dlpack__(**{**keywords, "copy": False})

    for t in (candle.arange(4)[::-1], candle.arange(4)[::-2]):
        for consumer in (torch.from_dlpack, np.from_dlpack):
            counting = Counting(t)
            with pytest.raises(BufferError):
                consumer(counting)
            assert counting.calls == 1


def test_a_copied_flag_proves_nothing() -> None:
    # Traps 13, 14. Neither that memory was copied nor that it was not.
    for flags in (0, 2):
        lying = Producer(shape=(4,), flags=flags, mode="versioned")  # heeds no copy=
        for keywords in ({"copy": True}, {"dtype": "float64"}, {"copy": True, "order": "C"}):
            t = candle.from_dlpack(lying, **keywords)
            assert t.data_ptr() != lying.address
            t.fill_(9)
            assert ctypes.c_float.from_address(lying.address + 4).value == 1.0
        assert candle.from_dlpack(lying).data_ptr() == lying.address
        assert candle.from_dlpack(lying, copy=False).data_ptr() == lying.address
        raw = candle.from_dlpack(lying.capsule(), copy=True)
        assert raw.data_ptr() != lying.address
    torch = pytest.importorskip("torch")
    x = torch.zeros(3)
    t = candle.from_dlpack(x, copy=True)
    t.fill_(1)
    assert x.tolist() == [0.0] * 3
    for out in (
        lambda t: t.torch(copy=True),
        lambda t: t.numpy(copy=True),
        lambda t: torch.from_dlpack(t, copy=True),
        lambda t: np.from_dlpack(t, copy=True),
        lambda t: np.array(t, copy=True),
        lambda t: candle.from_dlpack(t, copy=True),
        lambda t: candle.from_dlpack(t.__dlpack__(copy=True)),
    ):
        y = out(t)
        y[...] = 5
        assert t.tolist() == [1.0] * 3


def test_the_old_name_of_the_table_is_not_cast_blindly() -> None:
    # Trap 18. It held an int once, and a capsule later; whatever it holds, `__dlpack__` is there.
    for attribute in (
        1,
        -1,
        0xDEAD,
        None,
        object(),
        capsules.new_capsule(8, "dlpack_exchange_api"),
        "text",
    ):
        kind = type("Kind", (Holder,), {"__c_dlpack_exchange_api__": attribute})
        producer = Producer(shape=(3,))
        t = candle.from_dlpack(kind(producer.capsule()))
        assert t.tolist() == [0.0, 1.0, 2.0]
        del t
        assert producer.deletes == 1
    assert not hasattr(candle.Tensor, "__c_dlpack_exchange_api__")


class Kind(enum.IntEnum):
    CPU = 1
    PINNED = 3


def test_devices_in_any_numbers() -> None:
    # Trap 28
    for answer in (
        (1, None),
        (Kind.CPU, 0),
        (np.int32(1), np.int64(0)),
        (Kind.PINNED, None),
        (1, 3),
        (np.uint8(1), None),
    ):
        producer = Producer(shape=(3,), device=(int(answer[0]), 0), device_answer=answer)
        assert candle.from_dlpack(producer).tolist() == [0.0, 1.0, 2.0]
    for code in (19, 20, 21, 99, 2**31 - 1):
        t = candle.from_dlpack(Producer(0x10000, shape=(3,), device=(code, 0)).capsule())
        assert t.__dlpack_device__() == (code, 0)
        assert info(t.__dlpack__(max_version=(1, 3))).device == (code, 0)
        for read in (
            lambda t=t: t.tolist(),
            lambda t=t: t.numpy(),
            lambda t=t: t.copy(),
            lambda t=t: t[0].item(),
        ):
            with pytest.raises(BufferError):
                read()
    for answer in ((), (1,), (1, 0, 0), None, 1, "cpu", ("1", "0"), (1.5, 0), (2**40, 0)):
        producer = Producer(shape=(3,))
        producer.device_answer = answer
        with contextlib.suppress(BufferError, TypeError, ValueError):
            candle.from_dlpack(producer)
        assert producer.deletes == producer.exports


def test_an_array_of_numpy_over_pinned_memory() -> None:
    # Trap 29. numpy takes device 3 for the host, and names it again when it exports.
    x = np.from_dlpack(Producer(shape=(2, 3), device=(3, 0)))
    assert x.__dlpack_device__()[0] in (1, 3)
    for source in (
        x,
        Holder(x.__dlpack__(max_version=(1, 0)), x.__dlpack_device__()),
        x.__dlpack__(max_version=(1, 0)),
    ):
        t = candle.from_dlpack(source)
        assert t.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        assert t.numpy().tolist() == t.copy().tolist() == t.tolist()
        assert t.data_ptr() == x.ctypes.data


def test_protocols_that_do_not_hold_are_not_there() -> None:
    # Trap 32. torch, jax, cupy and paddle look at the CUDA interface before all else.
    for t in (
        candle.zeros(3),
        candle.asarray(b"abc"),
        candle.zeros((2, 0)),
        candle.zeros(3, dtype="bfloat16"),
        candle.from_dlpack(Producer(shape=(8,), dtype=(0, 4))),
        candle.from_dlpack(Producer(shape=(3,), device=(3, 0))),
    ):
        assert not hasattr(t, "__cuda_array_interface__")
        for name in (
            "__cuda_array_interface__",
            "__array_interface__",
            "__array_struct__",
            "__jax_array__",
            "__tf_tensor__",
        ):
            with contextlib.suppress(AttributeError):
                getattr(t, name)
    device = candle.from_dlpack(Producer(0x10000, shape=(3,), device=(2, 0)).capsule())
    assert not hasattr(device, "__array_interface__")
    torch = pytest.importorskip("torch")
    for make in (torch.as_tensor, torch.asarray, torch.from_dlpack):
        t = candle.arange(4, dtype="int16")
        assert make(t).data_ptr() == t.data_ptr()


ASARRAY: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "array": np.array,
    "asanyarray": np.asanyarray,
    "ascontiguousarray": np.ascontiguousarray,
    "dtype": lambda t: np.asarray(t, dtype="complex128"),
    "in a list": lambda t: np.asarray([t, t]),
    "ufunc": lambda t: np.asarray(np.add(t, 0)),
    "__array__": lambda t: t.__array__(),
}


def test_numpy_makes_no_objects_of_tensors() -> None:
    # Trap 33
    for dtype in ("float32", "bool", "int64", "complex64", "bfloat16", "float8_e4m3fn"):
        for t in (
            candle.ones((2, 3), dtype=dtype),
            candle.ones((3, 2), dtype=dtype).T,
            candle.ones((), dtype=dtype),
        ):
            for name, make in ASARRAY.items():
                if name == "in a list" and not t.ndim:
                    continue  # numpy asks each for a number, and those of ml_dtypes take no other's
                x = make(t)
                assert x.dtype != object, (dtype, name)
                assert x.shape[-t.ndim :] == t.shape or not t.ndim
            for keywords in (
                {},
                {"dtype": None},
                {"copy": None},
                {"dtype": np.complex128},
                {"copy": True},
                {"copy": False},
            ):
                x = t.__array__(**keywords)
                assert isinstance(x, np.ndarray)
                if keywords == {"copy": True}:
                    assert x.ctypes.data != t.data_ptr()
                    x[...] = 0
                    assert t.flatten()[0].item() == 1
                elif keywords != {"dtype": np.complex128}:
                    assert x.ctypes.data == t.data_ptr()
    x = np.array(candle.zeros(3), copy=True)
    x[0] = 1
    with pytest.raises(ValueError, match="copy"):
        np.array(candle.zeros(3, dtype="bfloat16"), dtype="float32", copy=False)


def test_tools_keep_off_the_shared_ctypes() -> None:
    # Trap 35. Argument types set there hold for every other user of ctypes in the process.
    shared = ctypes.pythonapi
    names = (
        "PyCapsule_New",
        "PyCapsule_GetPointer",
        "PyCapsule_GetName",
        "PyCapsule_SetName",
        "PyCapsule_IsValid",
        "PyObject_IsTrue",
    )
    before = {
        name: (getattr(shared, name).argtypes, getattr(shared, name).restype) for name in names
    }
    producer = Producer(shape=(2,))
    take(producer.capsule()).release()
    candle.testing.describe(candle.zeros(2).__dlpack__())
    exchange_api(candle.Tensor)
    assert before == {
        name: (getattr(shared, name).argtypes, getattr(shared, name).restype) for name in names
    }


def test_names_of_capsules_live_for_good() -> None:
    # Trap 37. A capsule keeps the pointer to its name alone.
    get_name = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(
        ("PyCapsule_GetName", ctypes.PyDLL(None))
    )
    fresh: set[Any] = set()
    used: set[Any] = set()
    for _ in range(50):
        t = candle.zeros(3)
        foreign = Producer(shape=(2,)).capsule()
        own = [t.__dlpack__(max_version=(1, 3)) for _ in range(2)]
        fresh |= {get_name(capsule) for capsule in own}
        candle.from_dlpack(foreign)
        candle.from_dlpack(own[0])
        used |= {get_name(foreign), get_name(own[0])}
    assert len(fresh) == 1
    assert len(used) == 1
    assert ctypes.string_at(fresh.pop()) == b"dltensor_versioned"
    assert ctypes.string_at(used.pop()) == b"used_dltensor_versioned"
    assert get_name(candle.Tensor.__dlpack_c_exchange_api__) == get_name(
        type(t).__dlpack_c_exchange_api__
    )


def test_no_error_is_known_by_its_words() -> None:
    # Trap 40. Whatever class and words a producer has, but for the TypeError of an old signature.
    words = (
        "received an invalid capsule",
        "unexpected keyword",
        "",
        "'x' object has no attribute '__dlpack__'",
    )
    for kind in (
        RuntimeError,
        AttributeError,
        ValueError,
        KeyError,
        NotImplementedError,
        AssertionError,
        OSError,
        BufferError,
    ):
        for text in words:
            producer = Producer(shape=(2,), raises=kind(text))
            with pytest.raises(BufferError) as caught:
                candle.from_dlpack(producer)
            assert len(producer.calls) == 1
            assert isinstance(caught.value.__cause__ or caught.value, (kind, BufferError))
    for text in words:
        producer = Producer(
            shape=(2,), raises=lambda n, _, text=text: TypeError(text) if n == 0 else None
        )
        assert candle.from_dlpack(producer).tolist() == [0.0, 1.0]
        producer = Producer(shape=(2,), raises=TypeError(text))
        with pytest.raises(BufferError):
            candle.from_dlpack(producer)
        assert len(producer.calls) == 2


def test_arrays_with_a_meaning_of_their_own() -> None:
    # Trap 31. What would be lost is refused; what is memory alone comes in.
    for x in (
        np.ma.array([1, 2], mask=[True, False]),
        np.ma.array([1.5, 2]),
        np.ma.zeros((2, 2)).T,
    ):
        for take_it in (
            candle.asarray,
            candle.from_dlpack,
            candle.tensor,
            lambda x: candle.asarray(x, copy=True),
            lambda x: candle.asarray([x, x]),
            lambda x: candle.convert({"a": x}, "candle"),
        ):
            with pytest.raises(BufferError, match="mask"):
                take_it(x)
    matrix = np.arange(6.0).reshape(2, 3).view(np.matrix)
    assert candle.asarray(matrix)[0].shape == (3,)  # a matrix's rows have two axes, memory's one
    assert candle.asarray(matrix).data_ptr() == matrix.ctypes.data
    record = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    with pytest.raises(BufferError, match="field"):
        candle.asarray(record)
    assert candle.asarray(record["a"]).tolist() == [1, 3]
