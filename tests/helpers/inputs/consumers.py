"""Consumers that ask with any keyword, and do with what they get what no consumer should."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import candle
from candle.testing import Producer, abi, assert_no_leak, capsules, exchange_api, take
from candle.testing.exchange import AllocatorError
from inputs.producers import Index, Own, seldom

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from candle.testing.capsules import Taken

DTYPES = ("float32", "bool", "bfloat16", "complex64", "int4", "float4_e2m1fn", "float8_e4m3fn")


class Truth:
    """Raises where it is asked whether it is true."""

    def __bool__(self) -> bool:
        raise Own


PAIRS: tuple[Any, ...] = (
    *((1, 3), (1, 0), (1, 99), (0, 5), (2, 0), (-1, -1), (2**70, 0), (1, 2**70), (1,), ()),
    *((1, 3, 0), [1, 3], "13", 1, (1.0, 0), (True, False), (Index(), 0), (1, Index()), Truth()),
)
KEYWORDS: dict[str, tuple[Any, ...]] = {
    "max_version": PAIRS,
    "dl_device": ((1, 0), (1, 0), (2, 0), (3, 0), (1, 1), (0, 0), (-1, 0), (2**32 + 1, 0), *PAIRS),
    "copy": (None, True, False, 0, 1, "yes", Truth(), ()),
    "stream": (None, -1, 0, 1, 2, 3, 2**70, -(2**70), "1", 1.5, True, Truth(), Index()),
    "other": (None,),
}
ERRORS = (BufferError, TypeError, ValueError, Own)


def tensor(rng: random.Random) -> candle.Tensor:
    """Of any layout; own memory, or somebody's."""
    shape = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.3:
        flags = rng.choice((0, abi.READ_ONLY))
        t = candle.from_dlpack(Producer(shape=shape, flags=flags, mode="versioned"))
    else:
        t = candle.zeros(shape, dtype=rng.choice(DTYPES))
    for axis in range(t.ndim):
        step = rng.choice((None, None, -1, 2))
        try:
            t = t[(*[slice(None)] * axis, slice(None, None, step))]
        except (ValueError, BufferError):  # of elements below a byte
            break
    return t.permute(*reversed(range(t.ndim))) if t.ndim > 1 and rng.random() < 0.5 else t


def spoil(rng: random.Random, struct: Any) -> None:
    """Overwrite what a consumer has no business with, the deleter apart."""
    described = struct.dl_tensor
    for extents in (described.shape, described.strides):
        for axis in range(described.ndim):
            extents[axis] = rng.choice((-1, 0, 2**62))
    described.data = None
    described.ndim = rng.choice((-1, 0, 1000))
    described.shape = described.strides = None
    struct.manager_ctx = rng.choice((None, 1))


def release(rng: random.Random, taken: Taken) -> str:
    """Call the deleter from wherever."""
    with taken:  # hypothesis may end an input anywhere
        if rng.random() < 0.3:
            spoil(rng, taken.struct)
        where = rng.choice(("here", "a foreign thread", "a thread"))
        if where == "a thread":
            thread = threading.Thread(target=taken.release)
            thread.start()
            thread.join()
        else:
            taken.release(foreign_thread=where == "a foreign thread")
    return where


def drop(rng: random.Random, capsule: Any) -> str:
    return "never taken"


def consume(rng: random.Random, capsule: Any) -> str:
    return release(rng, take(capsule))


def twice(rng: random.Random, capsule: Any) -> str:
    taken = take(capsule)
    for second in (take, candle.from_dlpack):
        try:
            second(capsule)
        except (ValueError, BufferError):
            continue
        raise AssertionError("taken twice")
    return release(rng, taken)


def rename(rng: random.Random, capsule: Any) -> str:
    """Whoever gives it any other name has taken it."""
    struct = capsules.managed(capsule)
    name = rng.choice((b"", b"mine", b"dltensor_", b"used_dltensor", b"dltensor_versioned2"))
    capsules.rename(capsule, name)
    return release(rng, capsules.Taken(struct))


def back(rng: random.Random, capsule: Any) -> str:
    t = candle.from_dlpack(capsule, copy=rng.choice((None, False)))
    return f"back, {t.ndim} axes"


def ruin_and_drop(rng: random.Random, capsule: Any) -> str:
    spoil(rng, capsules.managed(capsule))
    return "spoilt, never taken"


FATES: tuple[Callable[[random.Random, Any], str], ...] = (
    *(drop, consume, consume, twice, rename, back, ruin_and_drop),
)


def by_capsule(rng: random.Random, t: candle.Tensor) -> str:
    keywords: dict[str, Any] = {}
    for name, values in KEYWORDS.items():
        if name != "other" and rng.random() < 0.5:
            keywords[name] = rng.choice(values[:2] if rng.random() < 0.75 else values)
    if rng.random() < 0.03:
        keywords["other"] = None
    try:
        capsule = t.__dlpack__(**keywords)
    except ERRORS as error:
        return f"{type(error).__name__} {str(error)[:50]}"
    version = keywords.get("max_version")
    modern = isinstance(version, tuple) and version[0] >= 1
    assert capsules.capsule_name(capsule) == ("dltensor_versioned" if modern else "dltensor")
    found = capsules.info(capsule)
    assert found.byte_offset == 0
    assert found.deleter
    assert found.shape is None or found.shape == t.shape
    assert all(step >= 0 for step in found.strides or ())
    copied = modern and bool((found.flags or 0) & abi.IS_COPIED)
    if keywords.get("copy") is True and modern:
        assert copied
    if keywords.get("copy") is False and t.size:
        assert found.data == t.data_ptr()
    if rng.random() < 0.3:
        del t
    return rng.choice(FATES)(rng, capsule)


def by_table(rng: random.Random, t: candle.Tensor) -> str:
    api = exchange_api(candle.Tensor)[0]
    x: Any = seldom(rng, None, 1, "x", candle.Tensor, object(), usual=t)
    try:
        call = rng.choice(("from", "borrow", "to", "stream", "allocate"))
        if call == "from":
            return release(rng, api.from_py_object(x))
        if call == "borrow":
            return f"borrowed {capsules.struct_info(api.dltensor_from_py_object(x)).dtype}"
        if call == "stream":
            return f"stream {api.current_work_stream((rng.choice((0, 1, 3, -1, 99)), 0))}"
        if call == "allocate":
            shape = tuple(rng.choice((0, 1, 3, -1, 2**40)) for _ in range(rng.randint(0, 3)))
            dtype = (rng.randrange(20), rng.choice((4, 8, 16, 32, 0, 255)), rng.randrange(4))
            return release(rng, api.allocate(shape, dtype, (rng.choice((1, 1, 1, 2, 0)), 0)))
        taken = api.from_py_object(t)
        taken.released = True
        again: Any = api.to_py_object(taken.address)
        assert again.shape == t.shape
        return "there and back"
    except (BufferError, TypeError, AllocatorError) as error:
        return f"{type(error).__name__} {str(error)[:50]}"


def by_interface(rng: random.Random, t: candle.Tensor) -> str:
    """What is held is memory, whoever holds it."""
    road = rng.choice(("memoryview", "__array_interface__", "__arrow_c_array__", "__array__"))
    try:
        held = getattr(t, road)
        if callable(held):
            held = held()
    except (AttributeError, BufferError, TypeError, ValueError) as error:
        return f"{road} {type(error).__name__}"
    del t
    if road == "memoryview":
        held.tobytes()
    if road == "__arrow_c_array__" and rng.random() < 0.5:
        schema, array = held
        del schema, held
        held = array
    return road


def run(rng: random.Random) -> str:
    """Export a tensor and mistreat what was given."""
    ways = (by_capsule, by_capsule, by_capsule, by_table, by_interface)
    with assert_no_leak():
        return rng.choice(ways)(rng, tensor(rng))


assert ctypes.sizeof(abi.DLTensor) == 48
