"""How torch's C exchange table is found when a tensor first goes to torch, and what it may lack."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

DOORS = """
import ctypes, forked, torch, candle
from candle._native import _core
from candle.frameworks import torch as file
from candle.testing import abi, capsules, live, tables
from device_producers import CupyLike, RocmLike
from faults import Faults

table, demand, notice, streams = file.door()

TABLE = "dlpack_exchange_api"
kept = []

def table_of(**fields):
    return capsules.new_capsule(tables.make_exchange_table(**fields), TABLE)

def without(slot):
    own = abi.DLPackExchangeAPI.from_address(capsules.capsule_address(table, TABLE))
    kept.append(abi.DLPackExchangeAPI.from_buffer_copy(own))
    setattr(kept[-1], slot, None)
    return capsules.new_capsule(ctypes.addressof(kept[-1]), TABLE)

def check_shared():
    t = candle.arange(4)
    x = t.torch()
    t[0] = 7
    assert (x.data_ptr(), x.tolist()) == (t.data_ptr(), [7, 1, 2, 3])

def refused(call, error, said):
    before = live()
    try:
        call()
    except error as caught:
        assert said in str(caught), caught
    else:
        raise AssertionError(said)
    assert live() == before

def no_table():
    # It is asked for again the next time.
    t = candle.arange(4)
    for answer, error, said in (
        ((None, demand, notice, streams), BufferError, "no C exchange table of DLPack 1"),
        ((5, demand, notice, streams), BufferError, "no C exchange table"),
        ((table_of(version=(9, 0)), demand, notice, streams), BufferError, "no C exchange table"),
        ((table_of(), demand, notice, streams), BufferError, "no C exchange table"),
        (
            (without("managed_tensor_to_py_object_no_sync"), demand, notice, streams),
            BufferError,
            "no C exchange table",
        ),
        ((table, 5, notice, streams), TypeError, "int is no Demand"),
        ((table, demand), TypeError, "exactly 4 arguments"),
    ):
        file.door = lambda: answer
        refused(t.torch, error, said)
    def lacks():
        raise ImportError("no torch")
    file.door = lacks
    refused(t.torch, ImportError, "no torch")
    file.door = lambda: (table, demand, notice, streams)
    check_shared()

def two_at_once():
    # The first to have it is the one; here the second asks while the first does.
    asked = []
    def door():
        asked.append(1)
        if len(asked) == 1:
            check_shared()
        return table, demand, notice, streams
    file.door = door
    check_shared()
    check_shared()
    assert len(asked) == 2

def no_memory():
    faults, t, failed = Faults(_core.__file__), candle.arange(4), 0
    for word, armed in faults.each(native=True):
        try:
            armed(t.torch)
            break  # from here on it is open
        except MemoryError:
            failed += 1
    assert failed >= 1
    check_shared()

def asked(kind, streams):
    file.door = lambda: (table, demand, notice, streams)
    x = kind()
    t = candle.from_dlpack(x)
    x.calls.clear()
    try:
        t.torch()
    except BufferError as error:  # it takes no memory of devices
        assert str(error).startswith("torch does not take this memory: "), error
    return x.streams

class Stream:
    def __cuda_stream__(self):
        return (0, 0xA000)

def streams_of(streams, on_cuda, on_rocm):
    # The stream that the table names, or that is asked for, waits; the default has two names.
    assert asked(CupyLike, streams) == [on_cuda]
    assert asked(RocmLike, streams) == [on_rocm]
    check_shared()

def no_words_for_streams():
    # Neither by its table nor by a function of its own: the default stream it is.
    global table
    table = without("current_work_stream")
    assert asked(CupyLike, None) == [1]
    assert asked(RocmLike, None) == [None]
    check_shared()

def no_stream():
    for wrong in (None, "x", -1):
        file.door = lambda: (table, demand, notice, lambda index: wrong)
        t = candle.from_dlpack(RocmLike())
        refused(t.torch, BufferError, "torch does not say which stream is current")

for check in (
    no_table,
    two_at_once,
    no_memory,
    lambda: streams_of(None, 1, 0),
    lambda: streams_of(lambda index: 0, 1, 0),
    lambda: streams_of(lambda index: 0xA000, 0xA000, 0xA000),
    lambda: streams_of(lambda index: Stream(), 0xA000, 0xA000),
    no_words_for_streams,
    no_stream,
):
    forked.in_fork(check)
"""


def test_what_torch_says_of_itself_the_first_time(in_child: Any) -> None:
    """In a process that has not given it a tensor; each case in a fork of that."""
    in_child(DOORS).check()
