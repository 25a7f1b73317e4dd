"""Memory lives as long as somebody shows it, and is given back once and at once."""

from __future__ import annotations

import array
import ctypes
import gc
import itertools
import mmap
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from offers import ROADS, Holder, offers
from owned_capsules import owned_capsule

import candle
from candle.ledger import listening
from candle.testing import Producer, capsules, exchange_producer, info, live, take
from candle.testing.abi import DLManagedTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What breaks one of these breaks the heap: the file runs in a process of its own.
pytestmark = pytest.mark.isolated(together="file")

MIB = 2**20


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


# Who takes what candle exports. torch alone takes a bare capsule.
TAKERS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda capsule: np.from_dlpack(Holder(capsule)),
    "torch": lambda capsule: pytest.importorskip("torch").from_dlpack(capsule),
    "jax": lambda capsule: pytest.importorskip("jax").dlpack.from_dlpack(Holder(capsule)),
    "candle": candle.from_dlpack,
    "C": lambda capsule: Struct(take(capsule)),
}


class Struct:
    """A consumer in C: it calls the deleter when it goes."""

    def __init__(self, taken: Any) -> None:
        self.taken = taken

    def __del__(self) -> None:
        self.taken.release()


@pytest.mark.parametrize("taker", TAKERS)
def test_a_used_capsule_frees_nothing(taker: str) -> None:
    # Case 1: pytorch/pytorch#9260, cupy/cupy#1445
    for max_version in [None, (1, 3)] if taker != "jax" else [None]:
        for shape, dtype in (((5,), (0, 32)), ((2, 3, 4), (2, 16)), ((1, 7), (6, 8))):
            for order in itertools.permutations(range(3)):
                producer = Producer(bytes(2048), shape=shape, dtype=dtype)
                tensor = candle.from_dlpack(producer)
                capsule = tensor.__dlpack__(max_version=max_version)
                held = [tensor, capsule, TAKERS[taker](capsule)]
                del tensor, capsule
                for place in order:
                    held[place] = None
                    gone = held[0] is None and held[2] is None
                    if taker == "jax" and gone:  # its own threads let go, some time later
                        assert producer.deletes <= 1
                    else:
                        assert producer.deletes == gone, (max_version, shape, order)


@pytest.mark.own_memory
def test_imports_that_are_dropped_pin_nothing() -> None:
    # Case 2: pytorch/pytorch#9261, cupy/cupy#1443
    before, freed = live(), 0

    def free(block: list[Any]) -> None:
        nonlocal freed
        freed += 1
        block.clear()

    at_first = 0
    for turn in range(300):
        block = [ctypes.create_string_buffer(b"\1" * MIB, MIB)]
        dtype, item = [((0, 8), 1), ((2, 64), 8), ((5, 128), 16)][turn % 3]
        capsule = owned_capsule(
            ctypes.addressof(block[0]),
            lambda block=block: free(block),
            shape=(4, MIB // 4 // item),
            dtype=dtype,
            device=(1, 0),
            versioned=turn % 2 == 0,
        )
        t = candle.from_dlpack(capsule)
        del block, capsule
        t = t.T[3:]
        del t
        assert freed == turn + 1
        at_first = at_first or resident()
    assert resident() - at_first < 30 * MIB
    assert live() == before


COPIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # What the producer says, what the import asks for.
    "copy=True": ({"shape": (2, 3)}, {"copy": True}),
    "copy=True, transposed": ({"shape": (3, 2), "strides": (1, 3)}, {"copy": True}),
    "dtype": ({"shape": (5,)}, {"dtype": "float16"}),
    "dtype of a broadcast": ({"shape": (4, 2), "strides": (0, 1)}, {"dtype": "int32"}),
    "order": ({"shape": (3, 2), "strides": (1, 3)}, {"order": "C"}),
    "misaligned": ({"shape": (3,), "byte_offset": 2}, {}),
    "0-d": ({"shape": ()}, {"copy": True}),
    "empty": ({"shape": (3, 0)}, {"copy": True, "dtype": "float64"}),
}


@pytest.mark.parametrize("road", ROADS)
def test_a_copying_import_gives_back_at_once(road: str) -> None:
    # Case 3: rapidsai/cudf#4277, rapidsai/cudf#5212
    for name, (arguments, keywords) in COPIES.items():
        [(_, producer, x)] = offers(road, **arguments)
        t = candle.from_dlpack(x, **keywords)
        del x
        assert producer.deletes == producer.exports == 1, name
        del t
        assert producer.deletes == 1, name
    for name, (arguments, keywords) in COPIES.items():
        if name in ("misaligned", "order"):  # what strict() counts
            [(_, producer, x)] = offers(road, **arguments)
            with candle.strict(), pytest.raises(candle.CopyError):
                candle.from_dlpack(x, **keywords)
            del x
            assert producer.deletes == producer.exports, name


@pytest.mark.parametrize("road", ROADS)
def test_empty_imports_are_given_back(road: str) -> None:
    # Case 4: pytorch/pytorch#117273
    for shape, null_data in itertools.product([(0,), (0, 3), (3, 0), (2, 0, 5)], [False, True]):
        for strides in ("compact", None, (7,) * len(shape)):
            for keywords in ({}, {"copy": True}, {"copy": False}, {"dtype": "int8"}):
                if keywords == {"dtype": "int8"} and strides == (7,) * len(shape):
                    continue
                arguments = {"shape": shape, "null_data": null_data, "strides": strides}
                [(_, producer, x)] = offers(road, **arguments)
                t = candle.from_dlpack(x, **keywords)
                del x
                assert t.shape == shape
                del t
                assert producer.deletes == producer.exports == 1, (arguments, keywords)


def _unheard(_plan: object) -> None:
    raise ZeroDivisionError("the listener")


# Where each import stops, in the order of its steps.
STOPS: dict[str, tuple[dict[str, Any], dict[str, Any], type[BaseException]]] = {
    "device": ({"device_answer": OSError("no device")}, {}, BufferError),
    "export": ({"raises": RuntimeWarning("as an error")}, {}, BufferError),
    "second export": (
        {"raises": lambda number, _: TypeError("old") if number == 0 else OSError("late")},
        {},
        BufferError,
    ),
    "name": ({"capsule_name": "used_dltensor_versioned"}, {}, BufferError),
    "version": ({"version": (2, 0)}, {}, BufferError),
    "dtype": ({"dtype": (99, 8)}, {}, BufferError),
    "layout": ({"shape": (2**40, 2**40)}, {}, BufferError),
    "data": ({"null_data": True}, {}, BufferError),
    "device of the struct": ({"device": (2, 0), "device_answer": (1, 0)}, {}, BufferError),
    "copy forbidden": ({"byte_offset": 1}, {"copy": False}, candle.CopyError),
    "cast refused": ({"dtype": (5, 64)}, {"dtype": "int16"}, BufferError),
    "listener": ({}, {"copy": True}, ZeroDivisionError),
    "memory": (
        {"shape": (2**45, 2), "strides": (0, 1)},
        {"copy": True},
        MemoryError,
    ),
}


def test_a_failure_at_any_step_frees_once() -> None:
    # Case 5: pytorch/pytorch#56789
    for step, (arguments, keywords, error) in STOPS.items():
        producer = Producer(**{"shape": (2,), **arguments})
        before = live()
        if step == "listener":
            with listening(_unheard), pytest.raises(error):
                candle.from_dlpack(producer, **keywords)
        else:
            with pytest.raises(error):
                candle.from_dlpack(producer, **keywords)
        # A capsule already named as used is somebody else's: its struct is not candle's to free.
        wanted = 0 if step == "name" else producer.exports
        assert producer.deletes == wanted, step
        assert live() == before, step


def test_a_raw_capsule_outlives_a_failure() -> None:
    # Case 5: pytorch/pytorch#56789. Nothing was taken, so whoever comes next can take it.
    for step, (arguments, keywords, error) in STOPS.items():
        if step in ("device", "export", "second export", "name", "device of the struct"):
            continue
        producer = Producer(**{"shape": (2,), **arguments})
        capsule = producer.capsule()
        name = info(capsule).name if step not in ("layout", "version") else "dltensor_versioned"
        if step == "listener":
            with listening(_unheard), pytest.raises(error):
                candle.from_dlpack(capsule, **keywords)
        else:
            with pytest.raises(error):
                candle.from_dlpack(capsule, **keywords)
        if producer.deletes == 0:
            assert capsules.capsule_name(capsule) == name, step
        del capsule
        assert producer.deletes == 1, step


def test_no_deleter_is_no_deleter() -> None:
    # Case 6: pytorch/pytorch#43166
    for shape, null_shape in (((3,), False), ((), True), ((), False), ((0, 2), False)):
        for road in ROADS:
            if null_shape and road == "exchange table":
                continue
            [(_, producer, x)] = offers(
                road, shape=shape, null_shape=null_shape, strides=None, null_deleter=True
            )
            for keywords in ({}, {"copy": True}):
                t = candle.from_dlpack(x if not keywords else Producer(shape=shape), **keywords)
                assert t.shape == shape
                for max_version in (None, (1, 0)):
                    assert info(t.__dlpack__(max_version=max_version)).deleter
                    assert (
                        info(t.T.__dlpack__(max_version=max_version)).deleter if t.ndim == 2 else 1
                    )
                del t
            del x
            assert producer.deletes == 0


def test_nothing_is_touched_behind_the_deleter() -> None:
    # Case 7: dmlc/dlpack#39
    calls: list[int] = []

    @capsules.DELETER
    def wipe(address: int) -> None:
        calls.append(address)
        ctypes.memset(address, 0xA5, ctypes.sizeof(DLManagedTensor))  # its own pointer included

    for versioned, drop in itertools.product((True, False), ("copied", "shared", "viewed")):
        producer = Producer(shape=(2, 3))
        capsule = producer.capsule(versioned)
        managed = capsules.managed(capsule)
        managed.deleter = ctypes.cast(wipe, ctypes.c_void_p)
        before = len(calls)
        t = candle.from_dlpack(capsule, copy=True if drop == "copied" else None)
        producer.spoil()
        assert t.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        if drop == "viewed":
            t = t[1:].T
            assert t.__array_interface__["shape"] == (3, 1)
        else:
            assert (t.shape, t.stride, t.readonly) == ((2, 3), (3, 1), False)
        del t, capsule
        assert len(calls) == before + 1, (versioned, drop)


def test_a_destructor_that_ignores_the_name() -> None:
    # Case 8: dmlc/dlpack#51
    ran: list[int] = []

    @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    def careless(_capsule: int) -> None:
        ran.append(1)

    address = ctypes.cast(careless, ctypes.c_void_p).value
    for versioned, wrapped, copy in itertools.product((True, False), (True, False), (None, True)):
        producer = Producer(shape=(3,))
        name = "dltensor_versioned" if versioned else "dltensor"
        capsule = capsules.new_capsule(producer.export(versioned), name, address)
        t = candle.from_dlpack(Holder(capsule) if wrapped else capsule, copy=copy)
        assert capsules.capsule_name(capsule) == "used_" + name
        del capsule
        assert ran == []
        assert producer.deletes == (1 if copy else 0)
        assert t.tolist() == [0.0, 1.0, 2.0]
        del t
        assert producer.deletes == 1


class Buffer(bytearray):
    """Weakly referable."""


class Numbers(array.array):
    """Weakly referable."""


SOURCES: dict[str, Callable[[], Any]] = {
    "numpy": lambda: np.arange(600, dtype="int16").reshape(20, 30),
    "numpy, Fortran order": lambda: np.asfortranarray(np.ones((20, 30))),
    "numpy, read-only": lambda: np.broadcast_to(np.ones(30), (20, 30)).view(),
    "buffer": lambda: Buffer(600),
    "array.array": lambda: Numbers("d", range(600)),
    "torch": lambda: (
        pytest.importorskip("torch").zeros(20, 30).to(pytest.importorskip("torch").bfloat16)
    ),
    "torch, frozen Parameter": lambda: pytest.importorskip("torch").nn.Parameter(
        pytest.importorskip("torch").zeros(20, 30), requires_grad=False
    ),
    "DLPack": lambda: Producer(shape=(20, 30)),
    "exchange table": lambda: exchange_producer(Producer(shape=(20, 30))),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_the_last_view_takes_the_producer_with_it(kind: str) -> None:
    # Cases 9, 10: tensorflow/tensorflow#40061, PaddlePaddle/Paddle#47171
    for hold in ("tensor", "view", "capsule", "memoryview", "ndarray"):
        source = SOURCES[kind]()
        gone = weakref.ref(source)
        t = candle.asarray(source)
        if kind.startswith("DLPack") or kind == "exchange table":
            producer = source if kind == "DLPack" else source.producer
        else:
            producer = None
        del source
        if hold == "view":
            t = t[..., 3:][1:] if t.ndim == 2 else t[3:]
        elif hold == "capsule":
            t = t.__dlpack__(max_version=(1, 0))
        elif hold == "memoryview" and t.dtype != "bfloat16":
            t = t.memoryview()
        elif hold == "ndarray":
            t = t.numpy()[1:]
        if producer is not None:
            assert producer.deletes == 0
        elif not kind.startswith("torch"):  # of a torch tensor candle holds the memory alone
            assert gone() is not None, hold
        del t
        if producer is not None:
            assert producer.deletes == 1, hold
        del producer
        assert gone() is None, hold


@pytest.mark.own_memory
def test_round_trips_need_nobody_who_renames_capsules() -> None:
    # Case 11: iree-org/iree#20849
    torch = pytest.importorskip("torch")
    before, at_first = live(), 0
    for turn in range(60):
        x = torch.ones((256, 1024), dtype=torch.float32) if turn % 2 else np.ones((256, 1024), "f")
        back = candle.from_dlpack(x).torch()
        result = candle.from_dlpack((back.T + 1).contiguous())
        if turn % 3:
            result = candle.from_dlpack(result.__dlpack__())
        assert result[3, 7].item() == 2.0
        del x, back, result
        at_first = at_first or resident()
    assert resident() - at_first < 30 * MIB
    assert live() == before


EXPORTS: dict[str, Callable[[candle.Tensor], object]] = {
    "legacy": lambda t: t.__dlpack__(),
    "versioned": lambda t: t.__dlpack__(max_version=(1, 3)),
    "copied": lambda t: t.__dlpack__(copy=True),
    "copied, versioned": lambda t: t.__dlpack__(max_version=(1, 0), copy=True),
    "reversed": lambda t: t[::-1].__dlpack__(),
    "arrow": lambda t: t.__arrow_c_array__(),
    "arrow, device": lambda t: t.__arrow_c_device_array__(),
    "memoryview": lambda t: t.memoryview(),
    "interface": lambda t: t.__array_interface__,
}


@pytest.mark.parametrize("export", EXPORTS)
def test_exports_nobody_takes_are_given_back(export: str) -> None:
    # Case 19: pytorch/pytorch#9297
    before = live()
    for turn in range(500):
        producer = Producer(shape=(2, 3), mode="versioned" if turn % 2 else "legacy")
        t = candle.from_dlpack(producer)
        unused = [EXPORTS[export](t), EXPORTS[export](t.T)]
        del t, unused
        assert producer.deletes == 1
    assert live() == before
    own = candle.zeros((64, 1024))
    unused = [EXPORTS[export](own) for _ in range(20)]
    del own, unused
    assert live() == before
