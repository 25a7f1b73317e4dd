"""Deleters on any thread and without the GIL, finalisers, first use by many threads, the end."""

from __future__ import annotations

import array
import gc
import itertools
import os
import subprocess
import sys
import sysconfig
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.testing import Producer, exchange_producer, live, take

if TYPE_CHECKING:
    from collections.abc import Callable

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))  # whether or not the GIL is on

# A fault here is a crash: the file runs in a process of its own.
pytestmark = pytest.mark.isolated(together="file")


class Owner:
    """Owns memory, and runs Python when it goes."""

    def __init__(self, array: Any, end: Callable[[], object]) -> None:
        self.array, self.end = array, end
        self.__array_interface__ = array.__array_interface__

    def __del__(self) -> None:
        self.end()


ended_on: list[int] = []


class Buffer(bytearray):
    pass


OWNERS: dict[str, Callable[[], Any]] = {
    "candle": lambda: candle.ones((3, 4)),
    "numpy": lambda: np.ones((3, 4)),
    "a finaliser": lambda: Owner(
        np.ones((3, 4)), lambda: ended_on.append(threading.get_native_id())
    ),
    "buffer": lambda: Buffer(12),
    "array.array": lambda: array.array("d", [1.0] * 12),
    "torch": lambda: pytest.importorskip("torch").ones(3, 4),
    "frozen Parameter": lambda: pytest.importorskip("torch").nn.Parameter(
        pytest.importorskip("torch").ones(3, 4), requires_grad=False
    ),
    "jax": lambda: pytest.importorskip("jax").numpy.ones((3, 4)),
    "pyarrow": lambda: pytest.importorskip("pyarrow").array([1.0] * 12),
    "DLPack": lambda: Producer(shape=(3, 4)),
    "exchange table": lambda: exchange_producer(Producer(shape=(3, 4))),
}


@pytest.mark.parametrize("kind", OWNERS)
def test_deleters_run_on_threads_that_python_never_saw(kind: str) -> None:
    # Cases 87, 88: numpy/numpy#22507, numpy/numpy#22510, pytorch/pytorch#88082, dmlc/dlpack#103,
    # dmlc/dlpack#129, dmlc/dlpack#140, CVCUDA/CV-CUDA#298, CVCUDA/CV-CUDA#188,
    # triton-inference-server/python_backend#198
    before = live()
    for max_version, held, foreign in itertools.product(
        (None, (1, 3)), (True, False), (True, False)
    ):
        owner = OWNERS[kind]()
        try:
            gone = weakref.ref(owner)
        except TypeError:
            gone = None
        producer = (
            getattr(owner, "producer", owner) if kind in ("DLPack", "exchange table") else None
        )
        t = candle.asarray(owner)
        taken = take(t.__dlpack__(max_version=max_version))
        if not held:
            del owner
        del t
        taken.release(foreign_thread=foreign)  # ctypes lets go of the GIL for the other thread
        if producer is not None:
            assert producer.deletes == 1
        if held:
            del owner
        del producer
        assert gone is None or gone() is None
    assert live() == before
    if kind == "a finaliser":
        assert len(ended_on) == 8
        # Some ran over there; a free-threaded Python may leave each to the thread that made it.
        assert len(set(ended_on)) > 1 or FREE_THREADED


def test_consumers_drop_on_their_own_threads() -> None:
    # Case 88: CVCUDA/CV-CUDA#298. Many at once, while the owner is still looked at here.
    before = live()
    for owner in (np.arange(1000.0), bytearray(8000), Producer(shape=(10, 10))):
        t = candle.asarray(owner)
        structs = [take(view.__dlpack__()) for view in (t, t[1:], t) for _ in range(20)]

        def drop(part: list[Any]) -> None:
            for struct in part:
                struct.release(foreign_thread=True)

        threads = [threading.Thread(target=drop, args=(structs[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(200):
            assert t[2:].shape[0] >= 8
        for thread in threads:
            thread.join()
        del t, structs
    assert live() == before


def test_owners_go_with_the_gil_held() -> None:
    # Case 90: wjakob/nanobind#377. A copy lets go of the GIL; what ends meanwhile ends as ever.
    ends: list[str] = []

    def end() -> None:  # Python, which needs the GIL: lists, strings, a collection
        ends.append("".join(["a", "b"]))
        [len(str(n)) for n in range(50)]

    big = candle.zeros((1024, 1024), dtype="float32")
    stop = threading.Event()

    def copy() -> None:
        while not stop.is_set():
            big.T.copy()

    threads = [threading.Thread(target=copy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            source = Owner(np.ones((64, 64)), end)
            result = candle.asarray(source, dtype="float32", copy=True)
            t = candle.asarray(source)
            del source
            held = t.__dlpack__()
            del t, held, result
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert ends == ["ab"] * 100


def test_the_first_use_by_many_threads(in_child: Any) -> None:
    # Case 91: pytorch/tensordict#1481. Whatever is filled on first use, at once and while
    # collecting.
    in_child(
        """
        import gc, threading, sys
        sys.setswitchinterval(1e-6)
        import candle
        from candle.testing import Producer, live
        barrier, wrong = threading.Barrier(8), []
        class Own(candle.Tensor): pass
        def work(number):
            try:
                barrier.wait()
                for turn in range(20):
                    t = candle.from_dlpack(Producer(shape=(4, 5)))
                    assert t.T[1:].flatten().tolist()[0] == 1.0
                    assert repr(t) and t.to("bfloat16").dtype == candle.bfloat16
                    assert candle.asarray([[1, 2], [3, 4]]).device == "cpu"
                    kind = type(f"Kind{number}", (), {"__array_interface__": {
                        "shape": (0,), "typestr": "<f4", "data": (0, False), "version": 3}})
                    assert candle.asarray(kind()).shape == (0,)
                    assert t.numpy().shape == (4, 5)  # the first import of numpy
                    assert candle.explain(t, "numpy").action == "share"
                    assert candle.Device("cuda:3") is candle.Device("cuda", 3)
                    if turn % 5 == 0: gc.collect()
            except BaseException as error:
                wrong.append(repr(error))
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert not wrong, wrong
        gc.collect()
        assert live()["tensors"] == 0, live()
        """
    ).check()


@pytest.mark.skipif(not FREE_THREADED, reason="needs a free-threaded Python")
def test_the_gil_stays_off() -> None:
    """The core says that it needs none: Python neither turns it on nor warns of that."""
    # Case 89: safetensors/safetensors#572, google/tensorstore#218, mreineck/ducc#57
    code = "import sys, candle, candle.testing; assert not sys._is_gil_enabled()"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHON_GIL"}
    subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, check=True)


def test_finalisers_that_come_back_into_candle() -> None:
    # Trap 39: dropping an owner runs any code, candle's own included, in the midst of a release.
    seen: list[Any] = []

    def end() -> None:
        t = candle.zeros((2, 2))
        t[...] = 3
        seen.append(candle.from_dlpack(t.__dlpack__()).tolist())
        if len(seen) < 50:
            candle.asarray(Owner(np.ones(2), end))  # whose end comes here again

    before = live()
    t = candle.asarray(Owner(np.ones(4), end))
    view = t[1:]
    struct = take(view.__dlpack__())
    del t, view
    struct.release(foreign_thread=True)
    gc.collect()
    assert seen == [[[3.0, 3.0], [3.0, 3.0]]] * 50
    assert live() == before
