"""`trace`: what is written down, where from, and how it is told."""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import copy
import inspect
import json
import os
import pickle
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle import ledger

if TYPE_CHECKING:
    from collections.abc import Iterator


def grid() -> candle.Tensor:
    return candle.arange(6, dtype="float32").reshape((2, 3))


def swapped() -> Any:
    return np.zeros(4, ">f4")


@pytest.fixture(autouse=True)
def _nobody_watches() -> Iterator[None]:
    yield
    assert ledger._watching.get() is None


def test_writing_is_one_move() -> None:
    """From whoever has the values, without a tensor in between."""
    pairs = np.zeros(3, [("a", "f4"), ("b", "i1")])
    writes: list[tuple[Any, str, str, tuple[str, ...]]] = [
        (np.ones(3), "numpy.ndarray", "numpy", ("requested", "dtype")),
        (swapped()[:3], "numpy.ndarray", "numpy", ("requested", "byte_order")),
        (pairs["a"], "numpy.ndarray", "numpy", ("requested", "odd_stride")),
        (candle.ones(3), "candle", "candle", ("requested",)),
        (b"abc", "bytes", "buffer", ("requested", "dtype")),
        ([1, 2, 3], "list", "sequence", ("python_values",)),
    ]
    t = candle.zeros(3)
    for source, producer, route, codes in writes:
        for write in (t.copy_, lambda x: t.__setitem__(slice(None), x)):
            with candle.trace() as moves:
                write(source)
            found = [(m.producer, m.consumer, m.route, m.action, m.nbytes) for m in moves]
            assert found == [(producer, "candle", route, "copy", 12)]
            assert tuple(reason.code for reason in moves[0].reasons) == codes


def test_every_move_is_written_down() -> None:
    t = grid()
    with candle.trace() as moves:
        candle.asarray(np.zeros(3, "float32"))
        t.numpy()
        t.__dlpack__()
        t.__dlpack__(max_version=(1, 3))
        t.memoryview()
        _ = t.__array_interface__
        t.T.reshape(6)
        candle.asarray([1, 2])
        t[:, ::-1].__dlpack__(max_version=(1, 3))
        t[0] = t[1]
    assert [(m.producer, m.consumer, m.route, m.action, m.nbytes) for m in moves] == [
        ("numpy.ndarray", "candle", "numpy", "share", 0),
        ("candle", "numpy", "numpy", "share", 0),
        ("candle", "a consumer of legacy DLPack capsules", "dlpack_legacy", "share", 0),
        ("candle", "a consumer of DLPack", "dlpack_versioned", "share", 0),
        ("candle", "a reader of the buffer", "buffer", "share", 0),
        ("candle", "a reader of the array interface", "array_interface", "share", 0),
        ("candle", "reshape()", "candle", "copy", 24),
        ("list", "candle", "sequence", "copy", 16),
        ("candle", "a consumer of DLPack", "dlpack_versioned", "copy", 24),
        ("candle", "candle", "candle", "copy", 12),
    ]
    assert all(move.seconds is not None and move.seconds >= 0 for move in moves)
    assert moves.nbytes == 76
    assert len(moves.copies) == 4
    starts = [move.started for move in moves]
    assert starts == sorted(starts)
    t.numpy()
    assert len(moves) == 10


def test_refusals_are_written_down() -> None:
    with candle.trace() as moves:
        for refused in (
            lambda: candle.from_dlpack(swapped(), copy=False),
            lambda: candle.asarray(np.ma.masked_array([1], [1])),
            lambda: candle.zeros(2, dtype="complex64").to("float32"),
        ):
            with pytest.raises(BufferError) as caught:
                refused()
            assert moves[-1] == caught.value.plan  # type: ignore[attr-defined]
            assert moves[-1].action == "refuse"
    assert len(moves) == 3


def test_a_copy_that_fails_took_no_time() -> None:
    t = candle.zeros(1).broadcast_to(2**50)
    with candle.trace() as moves, pytest.raises(MemoryError):
        t.copy()
    assert (moves[0].action, moves[0].seconds) == ("copy", None)


def test_where_is_the_line_of_the_caller() -> None:
    t = grid()
    with candle.trace() as moves:
        line = inspect.currentframe().f_lineno  # type: ignore[union-attr]
        t.T.contiguous()
        np.asarray(t)
        np.array(t, copy=True)
    assert [move.where for move in moves] == [f"{__file__}:{line + i}" for i in (1, 2, 3)]


def test_where_is_not_within_a_framework(framework: Any) -> None:
    torch, jax = framework("torch"), framework("jax")
    t = grid()
    with candle.trace() as moves:
        torch.from_dlpack(t)
        jax.dlpack.from_dlpack(t)
        t.jax()
        torch.asarray(t)
    assert {move.where.rpartition(":")[0] for move in moves} == {__file__}
    assert [move.consumer for move in moves if move.consumer == "jax"] == ["jax"]


def test_traces_nest_and_go_on() -> None:
    with candle.trace() as outer:
        grid().numpy()
        with candle.trace() as inner:
            grid().numpy()
        with inner:
            grid().numpy()
    assert (len(outer), len(inner)) == (3, 2)
    assert outer[1] == inner[0]
    assert bool(candle.trace())


def test_a_trace_within_itself_writes_each_move_once() -> None:
    moves = candle.trace()
    with moves:
        with moves:
            grid().numpy()
        grid().numpy()
    assert len(moves) == 2
    grid().numpy()
    assert len(moves) == 2


def test_moves_can_be_copied_and_pickled() -> None:
    with candle.trace() as moves:
        grid().T.contiguous()
        grid().numpy()
    for again in (pickle.loads(pickle.dumps(moves)), copy.deepcopy(moves), copy.copy(moves)):
        assert list(again) == list(moves)
        assert again.to_json() == moves.to_json()
        assert repr(again[0]) == repr(moves[0])
    assert moves[:1] == [moves[0]]
    assert moves[-1].consumer == "numpy"


def test_names_that_html_and_json_have_to_escape(tmp_path: Any) -> None:
    made = type("A<b>&'\"", (), {"__module__": "m\n\udc80"})
    made.__array_interface__ = swapped().__array_interface__  # type: ignore[attr-defined]
    with candle.trace() as moves:
        candle.asarray(made())
    assert "<b>&" not in moves._repr_html_()
    assert "A<b>" not in moves[0]._repr_html_()
    moves.save(tmp_path / "trace.json")
    event = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"][0]
    assert event["name"].startswith("m\n\udc80.A<b>&'\" -> candle")
    assert json.loads(moves.to_json())[0]["producer"] == moves[0].producer


def test_chrome_trace_is_as_its_format_says() -> None:
    """Complete events: names and categories are text, times microseconds, ids small integers."""
    with candle.trace() as moves:
        contexts = [contextvars.copy_context() for _ in range(2)]
        threads = [
            threading.Thread(target=each.run, args=(grid().T.contiguous,)) for each in contexts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        grid().numpy()
        with contextlib.suppress(candle.CopyError):
            grid()[::-1].__dlpack__(copy=False)
    said = json.loads(moves.to_chrome_trace())
    assert said["displayTimeUnit"] in ("ms", "ns")
    events = said["traceEvents"]
    assert len(events) == len(moves)
    for event, move in zip(events, moves, strict=True):
        assert event["ph"] == "X"
        assert isinstance(event["name"], str)
        assert event["cat"] == move.action
        assert event["ts"] == pytest.approx(move.started * 1e6)
        assert event["dur"] == pytest.approx((move.seconds or 0) * 1e6)
        assert 0 <= event["tid"] < 2**31
        assert event["pid"] == os.getpid()
    assert len({event["tid"] for event in events}) == len({move.thread for move in moves})


def test_what_a_producer_does_is_its_own_move() -> None:
    class Wrapper:
        def __init__(self, inside: candle.Tensor) -> None:
            self.inside = inside

        def __dlpack__(self, **keywords: Any) -> object:
            return self.inside.__dlpack__(**keywords)

    with candle.trace() as moves:
        candle.from_dlpack(Wrapper(grid()[::-1]))
    assert [(m.producer.rpartition(".")[2], m.action) for m in moves] == [
        ("candle", "copy"),
        ("Wrapper", "share"),
    ]


def test_summary(tmp_path: Any) -> None:
    t = grid()
    with candle.trace() as moves:
        for _ in range(3):
            t.T.contiguous()
        t.numpy()
        with contextlib.suppress(candle.CopyError):
            t[::-1].__dlpack__(copy=False)
    lines = moves.table().splitlines()
    assert lines[0].split()[:4] == ["moves", "bytes", "time", "action"]
    assert lines[1].split()[:2] == ["3", "72"]
    assert "order" in lines[1]
    assert __file__ in lines[1]
    assert lines[-1] == "5 moves, 3 copies of 72 bytes"
    assert repr(moves) == moves.table()
    assert "<table>" in moves._repr_html_()
    said = json.loads(moves.to_json())
    assert [each["action"] for each in said] == ["copy"] * 3 + ["share", "refuse"]
    for field in ("producer", "consumer", "route", "nbytes", "seconds", "started", "where"):
        assert field in said[0]
    assert said[0]["reasons"][0]["code"] == "order"
    file = tmp_path / "trace.json"
    moves.save(file)
    events = json.loads(file.read_text())["traceEvents"]
    assert [event["ph"] for event in events] == ["X"] * 5
    assert events[0]["args"]["where"] == moves[0].where
    assert events[0]["dur"] == pytest.approx(moves[0].seconds * 1e6)  # type: ignore[operator]
    assert repr(moves[0]).startswith("candle -> contiguous() by candle: copy, 24 bytes, ")


def test_steps_of_a_move_are_no_moves() -> None:
    with candle.trace() as moves:
        candle.asarray([grid(), grid()[::-1]])
    assert [(m.producer, m.route, m.nbytes) for m in moves] == [("list", "sequence", 48)]


def test_call_without_a_line() -> None:
    """A thread whose first function is a native one: no line of Python has called."""
    with candle.trace() as moves:
        run = contextvars.copy_context().run
        _thread.start_new_thread(run, (candle.asarray, np.zeros(2)))
        late = time.monotonic() + 60
        while not len(moves) and time.monotonic() < late:
            time.sleep(0.001)
    assert [move.where for move in moves] == ["?"]
