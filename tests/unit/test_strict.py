"""`strict`: what counts, what it lets through, and who notices."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from labels import label

import candle
from candle import ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def grid() -> candle.Tensor:
    return candle.arange(6, dtype="float32").reshape((2, 3))


def swapped() -> Any:
    return np.zeros(4, ">f4")


@pytest.fixture(autouse=True)
def _nobody_watches() -> Iterator[None]:
    yield
    assert ledger._watching.get() is None


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


def test_allow_takes_members_of_the_enum() -> None:
    for allow in (candle.ReasonCode.ORDER, {candle.ReasonCode.ORDER, "byte_order", 0}):
        with candle.strict(allow=allow):
            grid().T.contiguous()
            with pytest.raises(candle.CopyError, match=r"allow={'negative_stride'}"):
                grid()[::-1].__dlpack__()


def test_all_reasons_have_to_be_allowed() -> None:
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
    for number in (np.int64(24), np.uint8(24), np.array(24), candle.asarray(24)):
        with candle.strict(allow=number):
            t.contiguous()
            with pytest.raises(candle.CopyError):
                t.contiguous()
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
        ([candle.ReasonCode.REQUIRES_GRAD], ValueError),
        (-1, ValueError),
        (np.int64(-1), ValueError),
        (True, TypeError),
        (np.True_, TypeError),
        (1.5, TypeError),
        (1e6, TypeError),
        (None, TypeError),
        ([None], TypeError),
        (b"order", TypeError),
        ([b"order"], TypeError),
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


class Decorated:
    """What a decorator may find in a class body."""

    @candle.strict()
    def method(self) -> object:
        return grid().T.contiguous()

    @candle.strict()
    @classmethod
    def of_class(cls) -> object:
        assert cls is Decorated
        return grid().T.contiguous()

    @candle.strict()
    @staticmethod
    def static() -> object:
        return grid().T.contiguous()

    @candle.strict()
    async def later(self) -> object:
        return grid().T.contiguous()

    async def __call__(self) -> object:
        return grid().T.contiguous()


@pytest.mark.parametrize("name", ["method", "of_class", "static"])
def test_decorated_methods(name: str) -> None:
    with pytest.raises(candle.CopyError):
        getattr(Decorated(), name)()
    grid().T.contiguous()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Decorated().later,
        lambda: candle.strict()(Decorated()),
        lambda: candle.strict()(functools.partial(Decorated.__call__, Decorated())),
        lambda: candle.strict()(Decorated().__call__),
    ],
    ids=["method", "object", "partial", "bound"],
)
def test_decorated_coroutine_functions(make: Callable[[], Any]) -> None:
    function = make()
    assert inspect.iscoroutinefunction(function)
    with pytest.raises(candle.CopyError):
        asyncio.run(function())


def numbers() -> Iterator[int]:
    yield 1


async def numbers_later() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    "x",
    [
        numbers,
        numbers_later,
        functools.partial(functools.partial(numbers)),
        type("Maker", (), {"__call__": lambda self: (yield 1)})(),
        property(lambda self: 1),
        Decorated,
        3,
    ],
    ids=label,
)
def test_what_strict_does_not_decorate(x: Any) -> None:
    with pytest.raises(TypeError, match=r"with candle.strict\(\):"):
        candle.strict()(x)


@pytest.mark.parametrize("kind", [candle.strict, candle.trace])
def test_leaving_what_was_not_entered(kind: Any) -> None:
    block = kind()
    with pytest.raises(RuntimeError, match="was not entered"):
        block.__exit__(None, None, None)
    with block:
        pass
    with pytest.raises(RuntimeError, match="was left before"):
        block.__exit__(None, None, None)
    grid().T.contiguous()


def test_a_generator_that_is_dropped_ends_its_block() -> None:
    def items() -> Iterator[int]:
        with candle.strict():
            yield 1
            yield 2

    running = items()
    next(running)
    with pytest.raises(candle.CopyError):
        grid().T.contiguous()
    running.close()
    grid().T.contiguous()


def test_threads_share_one_allowance() -> None:
    """Those that run in copies of the context the block was entered in."""
    made: list[bool] = []

    def copy() -> None:
        for _ in range(50):
            try:
                grid().T.contiguous()
                made.append(True)
            except candle.CopyError:
                made.append(False)

    with candle.strict(allow=24 * 100):
        contexts = [contextvars.copy_context() for _ in range(4)]
        threads = [threading.Thread(target=each.run, args=(copy,)) for each in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (made.count(True), len(made)) == (100, 200)


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


def test_what_a_block_has_started_goes_on_after_it() -> None:
    """A task of a block that is over is as free as any, though others are watched."""
    with candle.strict():
        context = contextvars.copy_context()
    reversed_view = candle.zeros(3)[::-1]
    with candle.trace() as moves:
        context.run(reversed_view.contiguous)
        reversed_view.contiguous()
    assert [move.action for move in moves] == ["copy"]
