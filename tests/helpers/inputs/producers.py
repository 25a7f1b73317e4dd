"""Producers that lie in any field, answer anything, raise anywhere; deleters that run Python."""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import expected
import rules

import candle
from candle.ledger import listening
from candle.testing import Producer, abi, assert_no_leak, capsules

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

BLOCK, MIDDLE = bytes(range(256)) * 16, 2048
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
ODD_EXTENTS = (-1, 7, 2**31, 2**40, INT64_MAX, INT64_MIN)
ODD_STRIDES = (2**40, INT64_MAX, INT64_MIN)
ODD_OFFSETS = (8, 256, 2**40, 2**63, 2**64 - 1)
DTYPES = sorted(rules.DTYPES)


class Own(BaseException):
    """What only who raised it may catch."""


ERRORS: tuple[type[BaseException], ...] = (
    *(BufferError, TypeError, AttributeError, ValueError, RuntimeError, MemoryError),
    *(StopIteration, SystemError, Own),
)
FAULTS = (BufferError, TypeError, ValueError, MemoryError, Own)  # as what these come out


def seldom(rng: random.Random, *others: Any, usual: Any = None) -> Any:
    """Mostly the usual."""
    return rng.choice(others) if rng.random() < 0.15 else usual


def description(rng: random.Random, readable: bool) -> dict[str, Any]:
    """Arguments of a Producer; if `readable`, all elements lie in BLOCK."""
    shape = [
        rng.choice(ODD_EXTENTS) if not readable and rng.random() < 0.15 else rng.randint(0, 4)
        for _ in range(rng.randint(0, 3 if readable else 5))
    ]
    walked = 0 not in shape
    strides: Any = [
        rng.choice(ODD_STRIDES)
        if rng.random() < 0.15 and (not readable or not walked or extent <= 1)
        else rng.randint(-4, 8)
        for extent in shape
    ]
    offset = rng.randint(0, 64) + MIDDLE
    dtype = rng.choice(DTYPES)
    if rng.random() < 0.15:
        dtype = (rng.randrange(256), rng.randrange(256), rng.randrange(4))
    return {
        "shape": shape,
        "strides": rng.choice((None, "compact", strides)),
        "byte_offset": offset if readable else seldom(rng, *ODD_OFFSETS, usual=offset),
        "ndim": None if readable else seldom(rng, -1, 0, 1, 64, 65, -(2**31)),
        "dtype": dtype,
        "device": seldom(rng, (3, 0), (2, 0), (13, 1), (0, 0), (-1, -1), (8, 0), usual=(1, 0)),
        "version": seldom(rng, (1, 0), (1, 99), (0, 5), (2, 0), usual=(1, 3)),
        "flags": seldom(rng, 1, 2, 3, 4, 2**64 - 1, usual=0),
        "null_data": seldom(rng, True, usual=False),
        "null_shape": seldom(rng, True, usual=False),
        "null_deleter": seldom(rng, True, usual=False),
        "mode": rng.choice(("auto", "legacy", "versioned")),
        "signature": rng.choice(("full", "stream", "none")),
    }


class Index:
    """No int, and asked for one it raises."""

    def __index__(self) -> int:
        raise Own


ANSWERS: tuple[Any, ...] = (
    *((1, None), (3, 0), (2, 0), (1, 7), (0, 0), (-1, 0), (1, -1)),
    *((2**32 + 1, 0), (1, 2**32), (2**80, 0), (1,), (1, 0, 0), [1, 0], "cpu", 1),
    *((1.0, 0), (True, False), ("1", "0"), (Index(), 0), (1, Index()), ()),
)


class Hostile(Producer):
    """A Producer that answers and raises as it was told, and whose deleter may run Python."""

    def __init__(self, rng: random.Random, **fields: Any) -> None:
        super().__init__(BLOCK, **fields)
        kind = seldom(rng, *ERRORS)
        at = rng.choice((0, 0, 1))
        self.raises = (lambda number, _: kind("mine") if number == at else None) if kind else None
        answer = seldom(rng, *ANSWERS, *[error("mine") for error in ERRORS])
        if answer is not None:
            self.device_answer = answer
        self.lookup = seldom(rng, *ERRORS)
        self.looked_up = seldom(rng, "__dlpack__", "__dlpack_device__", usual="")
        self.gives = seldom(rng, *GIVEN, usual="a capsule")
        self.deleting = seldom(rng, *DELETING)
        self.given: Any = None

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__dlpack"):
            error = object.__getattribute__(self, "lookup")
            if error is not None and object.__getattribute__(self, "looked_up") == name:
                raise error("mine")
        return object.__getattribute__(self, name)

    def __dlpack__(self, *args: object, **keywords: Any) -> object:
        capsule = super().__dlpack__(*args, **keywords)
        return GIVEN[self.gives](self, capsule) if self.gives in GIVEN else capsule

    def export(self, versioned: bool = True) -> int:
        address = super().export(versioned)
        if self.deleting is not None and not self.null_deleter:
            kind = abi.DLManagedTensorVersioned if versioned else abi.DLManagedTensor
            deleter = calls_back(kind.from_address(address), DELETING[self.deleting])
            self._structs[-1][0].called_back = deleter  # lives as long as its struct
        return address


def calls_back(managed: Any, action: Callable[[], None]) -> Any:
    """Put a deleter in front of the struct's own that runs Python."""
    own = capsules.DELETER(managed.deleter)

    def delete(address: int) -> None:
        own(address)
        action()

    callback = capsules.DELETER(delete)
    managed.deleter = ctypes.cast(callback, ctypes.c_void_p).value
    return callback, own


def fails() -> None:
    raise RuntimeError("of a deleter")


def ingests() -> None:
    inner = Producer(shape=(3,))
    assert candle.from_dlpack(inner, copy=True).tolist() == [0.0, 1.0, 2.0]
    assert inner.deletes == 1


def exports() -> None:
    candle.from_dlpack(candle.zeros(3).__dlpack__()).fill_(1)


def refuses() -> None:
    with contextlib.suppress(BufferError):
        candle.from_dlpack(Producer(shape=(-1,)))


def on_a_thread() -> None:
    # A context of its own, where nobody watches: free-threaded Python 3.14 gives it the caller's.
    thread = threading.Thread(target=contextvars.Context().run, args=(ingests,))
    thread.start()
    thread.join()


DELETING: dict[str, Callable[[], None]] = {
    "fails": fails,
    "ingests": ingests,
    "exports": exports,
    "refuses": refuses,
    "collects": lambda: gc.collect(0) and None,
    "on a thread": on_a_thread,
}


def used(_self: Hostile, capsule: Any) -> Any:
    capsules.take(capsule).release()
    return capsule


def renamed(_self: Hostile, capsule: Any) -> Any:
    taken = capsules.take(capsule)
    capsules.rename(capsule, f"used_{taken.name}_by_another".encode())
    taken.release()
    return capsule


def again(self: Hostile, capsule: Any) -> Any:
    if self.given is None:
        self.given = capsule
    return self.given


class Sub:
    """Something that is no capsule."""


GIVEN: dict[str, Callable[[Hostile, Any], Any]] = {
    "a used capsule": used,
    "another name": renamed,
    "the same again": again,
    "no capsule": lambda self, capsule: Sub(),
    "None": lambda self, capsule: None,
    "an exchange table": lambda self, capsule: candle.Tensor.__dlpack_c_exchange_api__,
    "a producer": lambda self, capsule: self,
    "itself in a tuple": lambda self, capsule: (capsule,),
}


WAYS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "from_dlpack": lambda x, keywords: candle.from_dlpack(x, **keywords),
    "asarray": lambda x, keywords: candle.asarray(x, copy=keywords.get("copy")),
    "Tensor": lambda x, keywords: candle.Tensor(x, copy=keywords.get("copy")),
    "capsule": lambda x, keywords: candle.from_dlpack(x.capsule(x.mode != "legacy"), **keywords),
    "list": lambda x, keywords: candle.asarray([x, x]),
    "copy_": lambda x, keywords: candle.zeros((2, 2), dtype="float64").copy_(x),
    "assignment": lambda x, keywords: candle.zeros(3).__setitem__(Ellipsis, x),
    "explain": lambda x, keywords: candle.explain(x, "numpy"),
    "convert": lambda x, keywords: candle.convert({"a": x}, "numpy", copy=keywords.get("copy")),
    "shares_memory": lambda x, keywords: candle.shares_memory(x, x),
}


@contextlib.contextmanager
def forbidding() -> Iterator[None]:
    def forbid(_plan: candle.Plan) -> None:
        raise Own

    with listening(forbid):
        yield


AROUND: tuple[Callable[[], contextlib.AbstractContextManager[Any]], ...] = (
    *(contextlib.nullcontext, contextlib.nullcontext, contextlib.nullcontext),
    *(candle.strict, candle.trace, forbidding),
)

USES: tuple[Callable[[candle.Tensor], Any], ...] = (
    lambda t: t.tolist(),
    repr,
    lambda t: t.numpy().tobytes(),
    lambda t: t.copy().tolist(),
    lambda t: t[::-1].tolist(),
    lambda t: candle.from_dlpack(t.__dlpack__(max_version=(1, 3))).tolist(),
    lambda t: candle.from_dlpack(t.__dlpack__()).tolist(),
    lambda t: t.to("float64").tolist(),
    lambda t: t.memoryview().tobytes(),
    lambda t: t.__arrow_c_array__(),
    lambda t: t.reshape(-1).tolist(),
    lambda t: t.fill_(1),
    lambda t: t == 1,
)


@contextlib.contextmanager
def deleters_may_fail() -> Iterator[None]:
    """A deleter cannot raise: what Python says of it then is expected."""
    before = sys.unraisablehook

    def told(unraisable: Any) -> None:
        error = unraisable.exc_value
        if not isinstance(error, Own) and str(error) != "of a deleter":
            before(unraisable)

    sys.unraisablehook = told
    try:
        yield
    finally:
        sys.unraisablehook = before


def use(rng: random.Random, t: candle.Tensor) -> str:
    """Read it, write it, hand it on."""
    try:
        rng.choice(USES)(t)
    except (BufferError, TypeError, ValueError, IndexError, OverflowError, Own) as error:
        return type(error).__name__
    return "used"


def right_values(producer: Hostile, t: candle.Tensor) -> bool:
    padded = producer.flags & abi.IS_SUBBYTE_TYPE_PADDED
    if producer.ndim is not None or padded or producer.device[0] not in rules.HOST or not t.size:
        return True
    values = expected.values(producer)
    return values is None or repr(t.tolist()) == repr(values)


def move(rng: random.Random, producer: Hostile, readable: bool) -> str:
    way = rng.choice(list(WAYS)) if readable else "from_dlpack"
    keywords: dict[str, Any] = {"copy": seldom(rng, None, True, usual=False)}
    if readable:
        keywords = {"copy": rng.choice((None, None, False, True))}
        if rng.random() < 0.2:
            keywords["dtype"] = rng.choice(("float64", "int8", "bool", "bfloat16", "complex64"))
        if rng.random() < 0.2:
            keywords["order"] = "C"
    elif keywords["copy"] is not False:
        keywords["copy"] = False
    with rng.choice(AROUND)():
        try:
            result = WAYS[way](producer, keywords)
        except FAULTS as error:
            if way == "from_dlpack":
                absent = producer.lookup is AttributeError and producer.looked_up == "__dlpack__"
                kinds = TypeError if absent else BufferError | MemoryError | Own
                assert isinstance(error, kinds), repr(error)
            return f"{way} {type(error).__name__} {str(error)[:60]}"
        word = f"{way} {type(result).__name__}"
        if isinstance(result, candle.Tensor) and way in ("from_dlpack", "asarray", "capsule"):
            assert result.shape == rules.extents(producer)
            assert result.ndim == len(result.stride)
            if readable:
                if "dtype" not in keywords:
                    assert right_values(producer, result), (
                        result.tolist(),
                        expected.values(producer),
                    )
                with contextlib.suppress(candle.CopyError, Own):  # of what is around
                    word += use(rng, result)
        del result
    return word


def run(rng: random.Random) -> str:
    """Make a producer and take what it has; what is left, and how often it was released."""
    readable = rng.random() < 0.6
    producer = Hostile(rng, **description(rng, readable))
    with deleters_may_fail(), assert_no_leak():
        word = move(rng, producer, readable)
        producer.given = None
    wanted = 0 if producer.null_deleter else producer.exports
    assert producer.deletes == wanted, f"{word}: {producer.deletes} of {wanted} deleted"
    return word
