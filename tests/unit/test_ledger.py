"""`strict` and `trace`: what counts, who notices, and what is written down."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle import ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def grid() -> candle.Tensor:
    return candle.arange(6, dtype="float32").reshape((2, 3))


def swapped() -> Any:
    return np.zeros(4, ">f4")


@pytest.fixture(autouse=True)
def _nobody_watches() -> Iterator[None]:
    yield
    assert ledger._watching.get() is None


# --- strict ---

UNASKED: dict[str, Callable[[], object]] = {
    "from_dlpack": lambda: candle.from_dlpack(swapped()),
    "asarray": lambda: candle.asarray(swapped()),
    "Tensor": lambda: candle.Tensor(swapped()),
    "order": lambda: candle.from_dlpack(grid().T, order="C"),
    "reshape": lambda: grid().T.reshape(6),
    "flatten": grid().T.flatten,
    "contiguous": grid().T.contiguous,
    "capsule": grid()[::-1].__dlpack__,
    "numpy": lambda: candle.zeros(3, dtype="int4").numpy(),
}
ASKED: dict[str, Callable[[], object]] = {
    "copy": grid().T.copy,
    "clone": lambda: grid().clone(),
    "copy=True": lambda: candle.asarray(swapped(), copy=True),
    "numpy(copy=True)": lambda: grid().numpy(copy=True),
    "tensor": lambda: candle.tensor(grid()),
    "to": lambda: grid().to("float64"),
    "dtype": lambda: candle.asarray(swapped(), dtype="float64"),
    "copy_": lambda: grid().copy_(grid()),
    "assignment": lambda: grid().__setitem__(0, grid()[1]),
    "fill": lambda: grid().fill_(1),
    "lists": lambda: candle.Tensor([[1, 2], [3, 4]]),
    "number": lambda: candle.asarray(1.5),
    "tensors": lambda: candle.asarray([grid(), grid()[::-1]]),
    "swapped in a list": lambda: candle.asarray([swapped(), swapped()]),
    "cat": lambda: candle.cat([grid(), grid()]),
    "creation": lambda: (candle.ones(3), candle.arange(4), candle.full((2,), grid()[0, 0])),
    "values": lambda: (grid().tolist(), repr(grid()), grid()[0, 0].item(), str(grid()[::-1])),
    "reshape(copy=True)": lambda: grid().reshape(6, copy=True),
}
SHARED: dict[str, Callable[[], object]] = {
    "views": lambda: (grid().T[::-1, None], grid().reshape(6), grid().contiguous()),
    "moves": lambda: (candle.asarray(np.zeros(3)), grid().numpy(), grid().__dlpack__()),
}


@pytest.mark.parametrize("name", UNASKED)
def test_strict_stops_what_nobody_asked_for(name: str) -> None:
    with candle.trace() as moves:
        UNASKED[name]()
        copied = moves[-1]
        with candle.strict(), pytest.raises(candle.CopyError, match=r"strict\(allow=") as caught:
            UNASKED[name]()
    plan = caught.value.plan
    assert copied.action == "copy"
    assert plan.action == "refuse"
    assert [r.code for r in plan.reasons] == [r.code for r in copied.reasons]
    assert plan.nbytes == copied.nbytes
    assert moves[-1] == plan
    assert moves[-1].seconds is None
    UNASKED[name]()


@pytest.mark.parametrize("name", [*ASKED, *SHARED])
def test_strict_lets_go_on(name: str) -> None:
    with candle.strict():
        {**ASKED, **SHARED}[name]()


def test_allow_takes_codes() -> None:
    for allow in ("order", {"order"}, ("byte_order", "order")):
        with candle.strict(allow=allow):
            grid().T.contiguous()
            with pytest.raises(candle.CopyError):
                grid()[::-1].__dlpack__()


def test_all_reasons_have_to_be_allowed() -> None:
    t = candle.zeros((4, 4))[::-1]
    t = candle.asarray(np.frombuffer(bytes(64), "float32").reshape(4, 4)[::-1])
    with candle.strict(allow="negative_stride"), pytest.raises(candle.CopyError):
        t.__dlpack__()  # read-only as well
    with candle.strict(allow={"negative_stride", "read_only"}):
        t.__dlpack__()


def test_allow_takes_bytes() -> None:
    t = grid().T
    limit = candle.strict(allow=60)
    for _ in range(2):  # each block has them all
        with limit:
            t.contiguous()
            t.contiguous()
            with pytest.raises(candle.CopyError):
                t.contiguous()
            t[:1, :].T.reshape(2)  # shares
    with candle.strict(allow=("byte_order", 24)):
        candle.asarray(swapped())
        t.contiguous()
        candle.asarray(swapped())
        with pytest.raises(candle.CopyError):
            t.contiguous()


@pytest.mark.parametrize(
    ("allow", "error"),
    [
        ("colour", ValueError),
        ("requires_grad", ValueError),
        (-1, ValueError),
        (True, TypeError),
        (1.5, TypeError),
        ([None], TypeError),
    ],
)
def test_wrong_allowances(allow: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        candle.strict(allow=allow)


def test_blocks_nest() -> None:
    with candle.strict(allow="order"):
        grid().T.contiguous()
        with candle.strict(), pytest.raises(candle.CopyError):
            grid().T.contiguous()
        grid().T.contiguous()
    both = candle.strict()
    with both, both, pytest.raises(candle.CopyError):
        grid().T.contiguous()
    grid().T.contiguous()


def test_an_exception_ends_the_block() -> None:
    with contextlib.suppress(candle.CopyError), candle.strict():
        grid().T.contiguous()
    grid().T.contiguous()


def test_decorated_functions() -> None:
    @candle.strict(allow="byte_order")
    def read(x: Any, *, order: str | None = None) -> candle.Tensor:
        """Read."""
        return candle.from_dlpack(x, order=order)

    assert read.__name__ == "read"
    assert read.__doc__ == "Read."
    assert list(inspect.signature(read).parameters) == ["x", "order"]
    assert read(swapped()).shape == (4,)
    with pytest.raises(candle.CopyError):
        read(grid().T, order="C")
    grid().T.contiguous()

    @candle.strict()
    async def later() -> None:
        await asyncio.sleep(0)
        grid().T.contiguous()

    with pytest.raises(candle.CopyError):
        asyncio.run(later())

    with pytest.raises(TypeError, match="generator"):

        @candle.strict()
        def items() -> Iterator[int]:
            yield 1


def test_other_threads_do_not_notice() -> None:
    inside, done = threading.Event(), threading.Event()
    outcome: list[object] = []

    def free() -> None:
        inside.wait(10)
        try:
            outcome.append(grid().T.contiguous().shape)
        except BaseException as error:
            outcome.append(error)
        done.set()

    def stopped() -> None:
        with candle.strict(), contextlib.suppress(candle.CopyError):
            grid().T.contiguous()
            outcome.append("copied")

    threads = [threading.Thread(target=each) for each in (free, stopped)]
    for thread in threads:
        thread.start()
    with candle.strict(), candle.trace() as moves:
        inside.set()
        assert done.wait(10)
        for thread in threads:
            thread.join()
        assert len(moves) == 0
    assert outcome == [(3, 2)]


def test_a_thread_with_the_context_notices() -> None:
    with candle.trace() as moves:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(grid().T.contiguous,))
        thread.start()
        thread.join()
    assert [move.action for move in moves.copies] == ["copy"]
    assert moves.copies[0].thread != threading.get_ident()


def test_tasks_do_not_disturb_each_other() -> None:
    async def careful(log: list[str]) -> None:
        with candle.strict():
            for _ in range(20):
                await asyncio.sleep(0)
                try:
                    grid().T.contiguous()
                    log.append("copied")
                except candle.CopyError:
                    log.append("stopped")

    async def careless(log: list[str]) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
            grid().T.contiguous()
            log.append("copied")

    async def traced() -> int:
        with candle.trace() as moves:
            for _ in range(20):
                await asyncio.sleep(0)
                grid().T.contiguous()
            await asyncio.create_task(careless([]))  # a task of this block
        return len(moves.copies)

    async def together() -> Any:
        logs: tuple[list[str], list[str]] = ([], [])
        _, _, counted = await asyncio.gather(careful(logs[0]), careless(logs[1]), traced())
        return *logs, counted

    stopped, copied, counted = asyncio.run(together())
    assert stopped == ["stopped"] * 20
    assert copied == ["copied"] * 20
    assert counted == 40


def test_a_task_that_outlives_its_block() -> None:
    async def late(begin: asyncio.Event) -> tuple[int, ...]:
        await begin.wait()
        return grid().T.contiguous().shape

    async def main() -> tuple[int, ...]:
        begin = asyncio.Event()
        with candle.strict(), candle.trace() as moves:
            task = asyncio.create_task(late(begin))
        begin.set()
        shape = await task
        assert len(moves) == 0
        return shape

    assert asyncio.run(main()) == (3, 2)


def test_left_in_another_context() -> None:
    """As an asynchronous fixture may: the block ends all the same."""
    block = candle.strict()
    context = contextvars.copy_context()
    context.run(block.__enter__)
    block.__exit__()
    context.run(grid().T.contiguous)


# --- trace ---


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
