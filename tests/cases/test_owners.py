"""Who keeps memory alive: views of temporaries, interfaces, chains of frameworks, caches."""

from __future__ import annotations

import ctypes
import gc
import inspect
import itertools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from offers import offers

import candle
from candle.testing import Producer, shares_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def junk(nbytes: int) -> list[bytearray]:
    """Memory that takes the place of what was just freed."""
    return [bytearray(b"\xcd" * nbytes) for _ in range(3)]


DOORS: dict[str, Callable[[Any], Any]] = {
    "numpy()": lambda t: t.numpy(),
    "asarray": np.asarray,
    "np.from_dlpack": np.from_dlpack,
    "interface": lambda t: np.array(t, copy=False),
    "memoryview": lambda t: np.asarray(t.memoryview()),
    "frombuffer": lambda t: np.frombuffer(t.memoryview(), "f").reshape(t.shape),
    "torch()": lambda t: t.torch(),
    "torch.from_dlpack": lambda t: pytest.importorskip("torch").from_dlpack(t),
    "jax()": lambda t: t.jax(),
    "arrow()": lambda t: t.arrow(),
    "capsule": lambda t: candle.from_dlpack(t.__dlpack__()),
}


@pytest.mark.parametrize("size", [10, 1000, 3_000_000])
def test_views_of_temporaries_hold_the_memory(size: int) -> None:
    # Cases 13, 15: AMReX-Codes/pyamrex#478, wjakob/nanobind#371, #488
    for framework in ("torch", "jax", "pyarrow"):
        pytest.importorskip(framework)
    for name, door in DOORS.items():
        for make in (
            lambda: candle.full((size,), 7.0, dtype="float32"),
            lambda: candle.full((2, size), 7.0, dtype="float32")[1],
            lambda: candle.from_dlpack(np.full((size,), 7.0, "f")),
        ):
            view = door(make())
            mess = junk(4 * size)
            first, last = view[0], view[size - 1]
            assert float(getattr(first, "as_py", lambda v=first: v)()) == 7.0, name
            assert float(getattr(last, "as_py", lambda v=last: v)()) == 7.0, name
            del view, mess, first, last


def test_an_interface_holds_its_object() -> None:
    # Case 14: numba/numba#5007, numba/numba#4886. On devices: tests/gpu_fakedriver.
    class Owner:
        """Its interface names an address that goes with the object, and does not hold it."""

        def __init__(self, size: int, struct: bool) -> None:
            self.array = np.arange(size, dtype="int32")
            if struct:
                self.__array_struct__ = self.array.__array_struct__
            else:
                interface = self.array.__array_interface__
                self.__array_interface__ = {**interface, "data": interface["data"]}

    for size, struct in itertools.product((3, 10_000), (False, True)):
        owner = Owner(size, struct)
        gone = weakref.ref(owner)
        t = candle.asarray(owner)[1:]
        del owner
        mess = junk(4 * size)
        assert gone() is not None
        assert t.tolist() == list(range(1, size))
        del t, mess
        assert gone() is None


def test_no_bare_addresses() -> None:
    # Case 15: wjakob/nanobind#371, wjakob/nanobind#488
    block = ctypes.create_string_buffer(64)
    pointer = ctypes.cast(block, ctypes.POINTER(ctypes.c_float))
    interface = {"shape": (4,), "typestr": "<f4", "data": (ctypes.addressof(block), False)}
    for bare in (pointer, ctypes.c_void_p(ctypes.addressof(block)), interface):
        for take_it in (candle.asarray, candle.Tensor, candle.tensor, candle.from_dlpack):
            with pytest.raises((TypeError, BufferError)):
                take_it(bare)
    assert candle.asarray(ctypes.addressof(block)).shape == ()  # a number like any other
    functions = [getattr(candle, name) for name in dir(candle) if not name.startswith("_")]
    functions += [getattr(candle.Tensor, name) for name in dir(candle.Tensor)]
    seen = 0
    for function in functions:
        try:
            parameters = set(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            continue
        seen += 1
        assert not parameters & {"ptr", "pointer", "address", "data_ptr", "addr"}, function
    assert seen > 50


def test_a_chain_of_hops_holds_the_first_owner() -> None:
    # Case 16: huggingface/candle#973. Its own tensors: tests/integrations/test_hf_candle.py.
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    hops: list[Callable[[Any], Any]] = [
        lambda t: candle.from_dlpack(t.numpy()),
        lambda t: candle.from_dlpack(torch.from_dlpack(t)),
        lambda t: candle.from_dlpack(t.__dlpack__()),
        lambda t: candle.asarray(t.memoryview()),
        lambda t: candle.asarray(np.asarray(t)[...]),
        lambda t: candle.from_dlpack(t.torch()[:]),
    ]
    for order in itertools.permutations(hops, 3):
        producer = Producer(shape=(8, 12))
        t = candle.from_dlpack(producer)
        for hop in order:
            t = hop(t)
        assert t.data_ptr() == producer.address
        assert producer.deletes == 0
        assert t[7, 11].item() == 95.0
        del t
        assert producer.deletes == 1


VIEWS: dict[str, Callable[[candle.Tensor], candle.Tensor]] = {
    "slice": lambda t: t[1:],
    "element": lambda t: t[2, 3],
    "reversed": lambda t: t[:, ::-2],
    "None": lambda t: t[None, ..., 0],
    "permute": lambda t: t.permute(1, 0),
    "T": lambda t: t.T,
    "mT": lambda t: t.mT,
    "reshape": lambda t: t.reshape(-1),
    "flatten": lambda t: t.flatten(),
    "unflatten": lambda t: t.unflatten(1, (2, 2)),
    "view": lambda t: t.view("uint8"),
    "unsqueeze": lambda t: t.unsqueeze(0),
    "squeeze": lambda t: t[:1].squeeze(0),
    "broadcast_to": lambda t: t.broadcast_to((5, 3, 4)),
    "narrow": lambda t: t.narrow(1, 1, 2),
    "iteration": lambda t: next(iter(t)),
    "itself": candle.from_dlpack,
    "detached": lambda t: t.contiguous(),
}


def test_each_view_owes_the_deleter() -> None:
    # Case 17: NVIDIA/cuda-python#1043, NVIDIA/cuda-python#1048
    for name, view in VIEWS.items():
        for offer in offers(shape=(3, 4)):
            producer = offer.producer
            t = candle.from_dlpack(offer.x)
            del offer
            v = view(t)
            assert shares_memory(v, t), name
            del t
            assert producer.deletes == 0, name
            del v
            assert producer.deletes == 1, name


def test_a_cache_of_views_holds_and_one_of_copies_does_not() -> None:
    # Case 18: NVIDIA/cutlass#2479
    producers = [Producer(shape=(n,)) for n in range(1, 9)]
    views = {n: candle.from_dlpack(producer) for n, producer in enumerate(producers)}
    assert [producer.deletes for producer in producers] == [0] * 8
    copies = {n: view.copy() for n, view in views.items()}
    views.clear()
    assert [producer.deletes for producer in producers] == [1] * 8
    assert copies[7].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
