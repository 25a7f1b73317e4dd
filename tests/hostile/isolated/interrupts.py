"""Interrupt every line of candle's Python in turn, on every road: what is left alive.

Arguments: names of frameworks to go by too. Prints how many moves were interrupted, and what was
wrong.
"""

from __future__ import annotations

import gc
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import roads
from roads import Road

import candle
from candle.testing import live

if TYPE_CHECKING:
    from types import FrameType

HOME = str(Path(candle.__file__).parent)
TESTING = str(Path(HOME, "testing"))


def in_finaliser(frame: FrameType | None) -> bool:
    """What is raised there goes nowhere."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


class Lines:
    """Counts the lines of candle's that run, and raises KeyboardInterrupt in line `at`."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(HOME) or name.startswith(TESTING):
            return None
        if event == "line" and not in_finaliser(frame):
            self.seen += 1
            if self.seen - 1 == self.at:
                raise KeyboardInterrupt(f"{name}:{frame.f_lineno}")
        return self

    def run(self, road: Road, subject: Any) -> Any:
        sys.settrace(self)
        try:
            return road.go(subject)
        finally:
            sys.settrace(None)


def attempt(road: Road, at: int) -> int:
    """Returns how many lines ran."""
    lines = Lines(at)
    subject = road.make()
    before = live()
    where = ""
    try:
        result = lines.run(road, subject)
    except KeyboardInterrupt as error:
        where = str(error)
        del error
    else:
        assert lines.seen <= at, "an interrupt was swallowed"
        if road.read is not None:
            assert road.read(result) == roads.NUMBERS
        del result
    if live() != before:
        gc.collect()
    assert live() == before, f"{where}: before: {before}, after: {live()}"
    if isinstance(subject, roads.Ready):
        producer = subject.producer
        del subject
        assert producer.deletes == producer.exports == 1, f"{where}: {producer.deletes} deletions"
    return lines.seen


def files(folder: Path) -> dict[str, Road]:
    path, npy = folder / "x.safetensors", folder / "x.npy"
    candle.save_safetensors({"x": roads.tensor()}, path)
    roads.np.save(npy, roads.np.array(roads.NUMBERS, "f4"))

    def place() -> candle.Tensor:
        left = [one for one in folder.iterdir() if one.suffix == ".tmp"]
        for one in left:
            one.unlink()
        assert not left, "the last one left its file behind"
        return roads.tensor()

    def saved(t: candle.Tensor) -> candle.Tensor:
        candle.save_safetensors({"x": t}, folder / "y.safetensors")
        return candle.load_safetensors(folder / "y.safetensors")["x"]

    return {
        "save": Road(place, saved, roads.values),
        "load": Road(lambda: path, lambda p: candle.load_safetensors(p)["x"], roads.values),
        "load, read": Road(
            lambda: path, lambda p: candle.load_safetensors(p, mmap=False)["x"], roads.values
        ),
        "npy": Road(lambda: npy, candle.load_npy, roads.values),
        "share": Road(roads.tensor, lambda t: candle.share(t).open(), roads.values),
    }


def frameworks(names: list[str]) -> dict[str, Road]:
    found: dict[str, Road] = {}
    if "torch" in names:
        import torch

        def frozen() -> Any:
            return torch.nn.Parameter(torch.tensor(roads.NUMBERS), requires_grad=False)

        found |= {
            "torch in": Road(lambda: torch.tensor(roads.NUMBERS), roads.take, roads.values),
            "torch parameter": Road(frozen, roads.take, roads.values),
            "torch out": Road(roads.tensor, lambda t: t.torch(), roads.values),
            "torch function": Road(roads.tensor, lambda t: torch.add(t, 0), roads.values),
            "torch convert": Road(
                lambda: {"a": [torch.tensor(roads.NUMBERS)]},
                lambda x: candle.convert(x, "numpy")["a"][0],
                roads.values,
            ),
        }
    if "jax" in names:
        import jax.numpy as jnp

        found |= {
            "jax in": Road(lambda: jnp.array(roads.NUMBERS), roads.take, roads.values),
            "jax out": Road(roads.tensor, lambda t: t.jax(), roads.values),
        }
    if "pyarrow" in names:
        import pyarrow as pa

        found |= {
            "pyarrow in": Road(
                lambda: pa.array(roads.NUMBERS, pa.float32()), candle.asarray, roads.values
            ),
            "pyarrow out": Road(roads.tensor, lambda t: t.arrow(), lambda x: x.to_pylist()),
        }
    return found


def main(names: list[str]) -> None:
    moves = 0
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "in": roads.IN,
            "out": {**roads.OUT, "sum": Road(roads.tensor, lambda t: t + 0, roads.values)},
            "files": files(Path(folder)),
            "frameworks": frameworks(names),
        }
        gc.freeze()
        for way, table in tables.items():
            for name, road in table.items():
                most = attempt(road, 1 << 30)
                most = attempt(road, 1 << 30)
                for at in range(most):
                    word = f"{way}: {name}: line {at}"
                    print(word, file=sys.stderr, flush=True)
                    moves += 1
                    try:
                        attempt(road, at)
                        attempt(road, 1 << 30)
                    except AssertionError as error:
                        print(f"{word}: {error}")
    print(moves)


if __name__ == "__main__":
    main(sys.argv[1:])
