"""What the tests run in other processes, which import it by its name."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any, NamedTuple

import candle
from candle._native import _core
from candle.testing import live

# What is sent: a value of every kind, and layouts.
SENT = {
    "float32": lambda: candle.arange(6, dtype="float32").reshape(2, 3),
    "bfloat16": lambda: candle.arange(6).to("bfloat16"),
    "float8_e4m3fn": lambda: candle.arange(6).to("float8_e4m3fn"),
    "int4, packed": lambda: candle.arange(6).to("int4"),
    "bool": lambda: candle.asarray([True, False]),
    "complex64": lambda: candle.asarray([1 + 2j]),
    "0-d": lambda: candle.asarray(3.0),
    "empty": lambda: candle.zeros((0, 3)),
    "transposed": lambda: candle.arange(6).reshape(2, 3).T,
    "every other": lambda: candle.arange(6)[::2],
    "reversed": lambda: candle.arange(6)[::-1],
    "broadcast": lambda: candle.ones(1).broadcast_to(3),
    "read-only": lambda: candle.asarray(bytes(range(6))),
}


class Seen(NamedTuple):
    """What a process sees of a tensor."""

    kind: str
    dtype: str
    shape: tuple[int, ...]
    values: Any
    readonly: bool
    aligned: bool
    memory: str  # the name of the mapping that it lies in, "" for one without a name


def mapping(address: int) -> str:
    """The name of the file that is mapped at an address."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, _, _, _, _, *name = line.split(maxsplit=5)
        first, last = (int(edge, 16) for edge in extent.split("-"))
        if first <= address < last:
            return name[0] if name else ""
    return ""


def see(t: candle.Tensor) -> Seen:
    values = _core.as_bytes(t.copy()).tolist()
    step = t.itemsize // (2 if t.dtype.kind == "complex" else 1)
    aligned = t.size == 0 or t.data_ptr() % step == 0
    where = mapping(t.data_ptr())
    return Seen(type(t).__name__, t.dtype.name, t.shape, values, t.readonly, aligned, where)


def see_all(tree: dict[str, candle.Tensor]) -> dict[str, Seen]:
    return {name: see(t) for name, t in tree.items()}


def same(tree: dict[str, candle.Tensor], seen: dict[str, Seen]) -> None:
    """Assert that it was seen as it is."""
    assert list(tree) == list(seen)
    for name, t in tree.items():
        here, there = see(t), seen[name]
        assert here[:4] == there[:4], name
        assert there.aligned, name


def back(x: Any) -> Any:
    return x


def made(count: int, dtype: str) -> candle.Tensor:
    return candle.arange(count).to(dtype)


def doubled(t: candle.Tensor) -> candle.Tensor:
    return candle.asarray(t.numpy() * 2)


def overwrite(t: candle.Tensor) -> None:
    t[...] = 42


def opened(handle: candle.Shared) -> tuple[list[Any], str]:
    t = handle.open()
    return t.tolist(), mapping(t.data_ptr())


def loaded(stream: bytes) -> Any:
    import pickle

    return pickle.loads(stream)


def frameworks() -> set[str]:
    return {"torch", "jax", "tensorflow"} & set(sys.modules)


def alive() -> dict[str, int]:
    gc.collect()
    return live()


def serve(questions: Any, answers: Any) -> None:
    answers.put(see_all(questions.get(timeout=60)))


def running_with(variable: str) -> list[int]:
    """Processes that were started with an environment variable."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended, or is another's
            continue
    return found
