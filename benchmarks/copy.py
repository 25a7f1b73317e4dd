"""How fast copies go: candle beside numpy's copyto, torch's copy_ and plain memcpy, in one run.

Every peer copies the same memory to the same memory: candle's and torch's tensors are views of
numpy's arrays, shared by DLPack, and before anything is timed each peer's result is compared byte
by byte. A row is named after its source and destination; its size is that of the larger side, in
elements that are copied (4 KB, 256 KB and 64 MB are powers of two; where a shape has no such size,
the nearest below).

GB/s are (bytes read + bytes written) / time, in 10^9: each element of the destination is written
once, each element of the source in memory is read once (a broadcast one too). What a cache line
holds besides is not counted. memcpy, one thread of libc's, copies half that number of bytes, so
that it reads and writes as many in total; "of memcpy" is its time / candle's. "to best" is the
time of the best of numpy and torch / candle's: above 1 candle is faster.

A sample lasts a millisecond or one copy, whichever is more, and holds the call from Python. The
peers take turns, in an order that changes each round; the whole table is gone through several
times, and the least time counts. The memory is touched first, and larger than the caches at 64 MB;
at 4 KB and 256 KB it stays in them.

    python benchmarks/copy.py [--rounds N] [--rows PATTERN] [--sizes 4K,64M] [--peers torch,memcpy]
        [--threads N] [--pages huge|small] [--json FILE] [--chart FILE.svg]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # this folder last: this file is not the standard library's copy

import argparse
import contextlib
import ctypes
import itertools
import json
import math
import mmap
import os
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ml_dtypes
import numpy as np
import torch
from machine import environment

import candle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Array = np.ndarray[Any, Any]
    Views = Callable[[Array, Array, int], tuple[Array, Array]]
    Results = dict[str, float]

SIZES = {"4K": 4 << 10, "256K": 256 << 10, "64M": 64 << 20}
PEERS = ("candle", "numpy", "torch", "memcpy")
VISITS = 3  # how often the whole table is gone through
SAMPLE = 1e-3  # seconds at least
ROOM = 200 << 20  # each side's memory: every third of 64 MB, and what a crop leaves out


# What is copied. Each function gives the source's and the destination's view of two flat arrays.


def halves(items: int) -> tuple[int, int]:
    """Give two powers of two, the first of them the smaller, whose product is `items`."""
    low = items.bit_length() // 2
    return 1 << (items.bit_length() - 1 - low), 1 << low


def odd(items: int) -> tuple[int, int]:
    """Give two odd extents that make about as many items."""
    rows, columns = halves(items)
    return rows * 15 // 16 | 1, (columns * 17 // 16 - 1) | 1


def even(items: int) -> tuple[int, int]:
    """Give two multiples of 8 that are no powers of two."""
    rows, columns = halves(items)
    return max(rows * 15 // 16 // 8 * 8, 8), (columns * 17 // 16) // 8 * 8


def matrix(memory: Array, rows: int, columns: int) -> Array:
    """View the start of the memory as a matrix."""
    return memory[: rows * columns].reshape(rows, columns)


def contiguous(source: Array, target: Array, items: int) -> tuple[Array, Array]:
    """One run."""
    return source[:items], target[:items]


def transposed(extents: Callable[[int], tuple[int, int]]) -> Views:
    """Make a matrix that is transposed."""

    def views(source: Array, target: Array, items: int) -> tuple[Array, Array]:
        rows, columns = extents(items)
        return matrix(source, rows, columns).T, matrix(target, columns, rows)

    return views


def permuted(shape_of: Callable[[int], tuple[int, ...]], *order: int) -> Views:
    """Make a dense array whose axes go into another order."""

    def views(source: Array, target: Array, items: int) -> tuple[Array, Array]:
        shape = shape_of(items)
        turned = source[: math.prod(shape)].reshape(shape).transpose(order)
        return turned, target[: turned.size].reshape(turned.shape)

    return views


def activations(items: int) -> tuple[int, ...]:
    """Give the shape of a batch of feature maps, the channels last."""
    channels = 64 if items >= 1 << 14 else 16
    number = max(items >> 20, 1)
    height, width = halves(items // number // channels)
    return number, height, width, channels


def images(items: int) -> tuple[int, ...]:
    """Give the shape of a batch of RGB images, the channels last."""
    if items >= 8 * 224 * 224 * 3:
        return items // (224 * 224 * 3), 224, 224, 3
    height = math.isqrt(items // 3)
    return 1, height, items // 3 // height, 3


def channels_first(shape_of: Callable[[int], tuple[int, ...]]) -> Callable[[int], tuple[int, ...]]:
    """Give the same shape with the channels first."""

    def shape(items: int) -> tuple[int, ...]:
        number, height, width, channels = shape_of(items)
        return number, channels, height, width

    return shape


def heads(items: int) -> tuple[int, ...]:
    """Give (batch, time, heads, 64), whose last two axes are one in a model."""
    count = 16 if items >= 1 << 15 else 2
    batch = max(items >> 21, 1)
    return batch, items // (batch * count * 64), count, 64


def five(items: int) -> tuple[int, ...]:
    """Give five extents, none of them a power of two."""
    if items >= 1 << 20:
        return (12, 20, 24, 28, 104)
    return (5, 6, 9, 14, 17) if items >= 1 << 14 else (3, 4, 4, 4, 5)


def stepped(every_row: int, every_column: int, *, into: bool = False) -> Views:
    """Make every so many rows and columns of a matrix, to or `into` a dense one."""

    def views(source: Array, target: Array, items: int) -> tuple[Array, Array]:
        rows, columns = halves(items)
        dense = matrix(source if into else target, rows, columns)
        wide = matrix(target if into else source, rows * every_row, columns * every_column)
        parts = wide[::every_row, ::every_column]
        return (dense, parts) if into else (parts, dense)

    return views


def cropped(source: Array, target: Array, items: int) -> tuple[Array, Array]:
    """Give the middle of an image whose sides are a third longer."""
    side = math.isqrt(items // 3)
    whole = side * 4 // 3
    begin = (whole - side) // 2
    image = source[: whole * whole * 3].reshape(whole, whole, 3)
    part = image[begin : begin + side, begin : begin + side]
    return part, target[: part.size].reshape(part.shape)


def reversed_run(source: Array, target: Array, items: int) -> tuple[Array, Array]:
    """Give a run backwards."""
    return source[:items][::-1], target[:items]


def broadcast_row(source: Array, target: Array, items: int) -> tuple[Array, Array]:
    """Give every row the same elements."""
    rows, columns = halves(items)
    return np.broadcast_to(source[:columns], (rows, columns)), matrix(target, rows, columns)


def broadcast_column(source: Array, target: Array, items: int) -> tuple[Array, Array]:
    """Give every column the same elements."""
    rows, columns = halves(items)
    column = source[:rows].reshape(rows, 1)
    return np.broadcast_to(column, (rows, columns)), matrix(target, rows, columns)


class Row(NamedTuple):
    """A kind of copy: its name, the dtypes of source and destination, and their views."""

    name: str
    source: str
    target: str
    views: Views


ITEMS = {1: "uint8", 2: "int16", 4: "float32", 8: "float64", 16: "complex128"}
SHORT = {
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3fn",
}
CASTS = [
    ("float32", "float16"),
    ("float16", "float32"),
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "float64"),
    ("float64", "float32"),
    ("int64", "float32"),
    ("int64", "int32"),
    ("uint8", "float32"),
    ("float32", "uint8"),
    ("float32", "float8_e4m3fn"),
]


def same(name: str, dtype: str, views: Views) -> Row:
    """Make a row without a cast."""
    return Row(name, dtype, dtype, views)


TRANSPOSES = [
    same(f"transpose {size}-byte, {kind}", dtype, transposed(extents))
    for size, dtype in ITEMS.items()
    for kind, extents in {"2^n": halves, "odd": odd, "8n": even}.items()
    if kind != "8n" or size == 4
]
TO_FIRST, TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
ROWS = [
    same("contiguous", "float32", contiguous),
    *TRANSPOSES,
    same("NCHW -> NHWC f32", "float32", permuted(channels_first(activations), *TO_LAST)),
    same("NHWC -> NCHW f32", "float32", permuted(activations, *TO_FIRST)),
    same("NCHW -> NHWC u8", "uint8", permuted(channels_first(images), *TO_LAST)),
    same("NHWC -> NCHW u8", "uint8", permuted(images, *TO_FIRST)),
    Row("NHWC u8 -> NCHW f32", "uint8", "float32", permuted(images, *TO_FIRST)),
    same("attention heads f16", "float16", permuted(heads, 0, 2, 1, 3)),
    same("5-D permutation f32", "float32", permuted(five, 4, 2, 0, 3, 1)),
    same("every 2nd column f32", "float32", stepped(1, 2)),
    same("into every 2nd column f32", "float32", stepped(1, 2, into=True)),
    same("every 3rd row f32", "float32", stepped(3, 1)),
    same("crop u8", "uint8", cropped),
    same("reversed f32", "float32", reversed_run),
    same("broadcast row f32", "float32", broadcast_row),
    same("broadcast column f32", "float32", broadcast_column),
    *(Row(f"{SHORT[a]} -> {SHORT[b]}", a, b, contiguous) for a, b in CASTS),
    Row("f32 transposed -> bf16", "float32", "bfloat16", transposed(halves)),
]


class Target(NamedTuple):
    """What a summary is meant to reach: at least this, at these sizes."""

    summary: str
    limit: float
    sizes: tuple[str, ...]


LARGE = ("256K", "64M")
TARGETS = [
    Target("geometric mean to numpy", 3.0, LARGE),
    Target("geometric mean to torch", 1.6, LARGE),
    Target("worst to best", 0.95, LARGE),
    Target("worst to best", 0.90, ("4K",)),
    Target("worst transpose of memcpy", 0.60, LARGE),
]


# How it is copied.


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Give numpy's or ml_dtypes' dtype of that name."""
    return np.dtype(getattr(ml_dtypes, name, name))


def pages(size: int, kind: str) -> Array:
    """Give bytes that begin at a multiple of 2 MB, every page of them touched."""
    huge = 2 << 20
    block = mmap.mmap(-1, size + huge, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_HUGEPAGE if kind == "huge" else mmap.MADV_NOHUGEPAGE)
    whole = np.frombuffer(block, np.uint8)
    begin = -whole.ctypes.data % huge
    memory = whole[begin : begin + size]
    memory[:] = 1
    return memory


def fill(memory: Array, source: str, target: str) -> None:
    """Fill a source with values that every peer casts alike."""
    random = np.random.default_rng(0)
    count = 1 << 15
    values: Array
    if source.startswith("int") or source == "uint8":
        values = random.integers(0, 256, count * memory.itemsize, np.uint8).view(source)
    elif target == "uint8":
        values = random.uniform(0, 255.9, count)
    else:
        values = random.normal(0, 50, count).clip(-400, 400)
    whole = memory[: memory.size // count * count].reshape(-1, count)
    whole[:] = values.astype(memory.dtype)


STATEMENTS = {
    "candle": "dst.copy_(src)",
    "numpy": "copyto(dst, src)",
    "numpy cast": "copyto(dst, src, casting='unsafe')",
    "torch": "dst.copy_(src)",
    "memcpy": "memcpy(dst, src, count)",
}


def loop_over(statement: str, dst: object, src: object, count: int) -> Callable[[int], float]:
    """Compile what times a number of copies, in seconds for one."""
    memcpy = ctypes.CDLL(None).memcpy
    memcpy.restype = None
    names: dict[str, Any] = {
        "clock": time.perf_counter,
        "repeat": itertools.repeat,
        "copyto": np.copyto,
        "memcpy": memcpy,
        "count": ctypes.c_size_t(count),
    }
    lines = [
        "def loop(dst, src, number):",
        "    begin = clock()",
        "    for _ in repeat(None, number):",
        f"        {statement}",
        "    return (clock() - begin) / number",
    ]
    exec("\n".join(lines), names)
    loop = names["loop"]
    return lambda number: loop(dst, src, number)


class Job:
    """One row at one size: the peers' loops over the same memory, and their least times."""

    def __init__(self, row: Row, size: str, memory: tuple[Array, Array]) -> None:
        self.row, self.size = row, size
        self._memory = (
            memory[0].view(numpy_dtype(row.source)),
            memory[1].view(numpy_dtype(row.target)),
        )
        items = SIZES[size] // max(part.itemsize for part in self._memory)
        self.src, self.dst = row.views(*self._memory, items)
        axes = zip(self.src.shape, self.src.strides, strict=True)
        self.read = self.src.itemsize * math.prod(n for n, step in axes if step != 0)
        self.written = self.dst.nbytes
        self.loops = self._loops()
        self.numbers: dict[str, int] = {}
        self.seconds: Results = {}

    def _loops(self) -> dict[str, Callable[[int], float]]:
        cast = " cast" if self.row.source != self.row.target else ""
        dst, src = candle.from_dlpack(self.dst), candle.from_dlpack(self.src)
        bare = [ctypes.c_void_p(part.ctypes.data) for part in self._memory]
        sides: dict[str, Sequence[object]] = {
            "candle": (dst, src),
            f"numpy{cast}": (self.dst, self.src),
            "memcpy": bare[::-1],
        }
        with contextlib.suppress(candle.CopyError):  # torch has no negative strides
            sides["torch"] = dst.torch(copy=False), src.torch(copy=False)
        count = (self.read + self.written) // 2
        return {
            name.partition(" ")[0]: loop_over(STATEMENTS[name], to, from_, count)
            for name, (to, from_) in sides.items()
        }

    def fill(self) -> None:
        """Fill the source."""
        fill(self._memory[0], self.row.source, self.row.target)

    def check(self, peers: Iterable[str]) -> None:
        """Copy once with each peer, and compare what comes of it."""
        bits = f"u{self.dst.itemsize}" if self.dst.itemsize <= 8 else None
        first: Array | None = None
        for peer in peers:
            if peer == "memcpy" or peer not in self.loops:
                continue
            self.dst[...] = 0
            self.loops[peer](1)
            result = self.dst.view(bits) if bits else self.dst
            if first is None:
                first = result.copy()
            elif not np.array_equal(first, result):
                sys.exit(f"{self.row.name}, {self.size}: {peer}'s result is another")

    def calibrate(self, peer: str) -> None:
        """Find how many copies make a sample."""
        number = 1
        while (least := self.loops[peer](number) * number) < SAMPLE / 4:
            number *= 4
        self.numbers[peer] = max(1, math.ceil(SAMPLE / (least / number)))

    def sample(self, peer: str) -> None:
        """Time one sample of one peer."""
        taken = self.loops[peer](self.numbers[peer])
        self.seconds[peer] = min(self.seconds.get(peer, math.inf), taken)


def orders(peers: Sequence[str], rounds: int) -> Iterable[list[str]]:
    """Give each round its order: turned by one every second round, and backwards in between."""
    for i in range(rounds):
        at = i // 2 % len(peers)
        order = [*peers[at:], *peers[:at]]
        yield order[::-1] if i % 2 else order


def measure(
    rows: Sequence[Row], sizes: Sequence[str], peers: Sequence[str], rounds: int, kind: str
) -> list[Job]:
    """Give every row at every size, timed."""
    memory = pages(ROOM, kind), pages(ROOM, kind)
    jobs = [Job(row, size, memory) for size in sizes for row in rows]
    for visit in range(VISITS):
        for job in jobs:
            if sys.stderr.isatty():
                line = f"{visit + 1}/{VISITS} {job.size} {job.row.name}"
                print(f"\r{line:60}", end="", file=sys.stderr, flush=True)
            job.fill()
            there = [peer for peer in peers if peer in job.loops]
            if visit == 0:
                job.check(there)
                for peer in there:
                    job.calibrate(peer)
            share = len(range(visit, rounds, VISITS))
            for order in orders(there, share):
                for peer in order:
                    job.sample(peer)
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return jobs


# What comes of it.


def record(job: Job) -> dict[str, Any]:
    """Give a row's figures; None where a peer cannot do it, or was not asked."""
    seconds = job.seconds
    best = min((seconds[peer] for peer in ("numpy", "torch") if peer in seconds), default=None)

    def ratio(time: float | None) -> float | None:
        return None if time is None else time / seconds["candle"]

    return {
        "row": job.row.name,
        "size": job.size,
        "shape": list(job.dst.shape),
        "bytes_read": job.read,
        "bytes_written": job.written,
        "seconds": {peer: seconds.get(peer) for peer in PEERS},
        "gb_per_s": {
            peer: (job.read + job.written) / seconds[peer] / 1e9 if peer in seconds else None
            for peer in PEERS
        },
        "to_best": ratio(best),
        "of_memcpy": ratio(seconds.get("memcpy")),
    }


def geometric_mean(values: Sequence[float]) -> float | None:
    """Give the geometric mean, if there is any value."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def summary_of(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Sum up the rows of one size: each figure, and the row it is of."""
    found: dict[str, dict[str, Any]] = {}
    for peer in ("numpy", "torch"):
        pairs = [(each["seconds"][peer], each["seconds"]["candle"]) for each in records]
        ratios = [theirs / ours for theirs, ours in pairs if theirs is not None]
        found[f"geometric mean to {peer}"] = {"value": geometric_mean(ratios), "row": None}

    def worst(title: str, key: str, rows: list[dict[str, Any]]) -> None:
        rows = [each for each in rows if each[key] is not None]
        least = min(rows, key=lambda each: each[key], default=None)
        found[title] = {"value": least and least[key], "row": least and least["row"]}

    worst("worst to best", "to_best", records)
    names = {row.name for row in TRANSPOSES}
    transposes = [each for each in records if each["row"] in names]
    fractions = [each["of_memcpy"] for each in transposes if each["of_memcpy"] is not None]
    mean = geometric_mean(fractions)
    found["geometric mean of transposes of memcpy"] = {"value": mean, "row": None}
    worst("worst transpose of memcpy", "of_memcpy", transposes)
    return found


def shown(value: float | None, digits: int = 2) -> str:
    """Write a number, or a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def print_tables(report: dict[str, Any]) -> None:
    """Print the rows, size by size, and the summary with what it is meant to reach."""
    print(", ".join(f"{name} {text}" for name, text in report["environment"].items()))
    by_size: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in report["rows"]:
        by_size[each["size"]].append(each)
    for size, records in by_size.items():
        heads = "".join(f"{peer:>8}" for peer in PEERS)
        print(f"\n{'GB/s, ' + size + 'B':28}{heads} {'to best':>8} {'of memcpy':>9}")
        for each in records:
            figures = "".join(f"{shown(each['gb_per_s'][peer]):>8}" for peer in PEERS)
            ratios = f"{shown(each['to_best']):>8} {shown(each['of_memcpy']):>9}"
            print(f"{each['row']:28}{figures} {ratios}")
    print(f"\n{'summary':40} {'size':>5} {'reached':>8} {'target':>7}")
    for size, found in report["summary"].items():
        for title, figure in found.items():
            limits = [t.limit for t in TARGETS if t.summary == title and size in t.sizes]
            value = figure["value"]
            missed = "  missed" if limits and value is not None and value < limits[0] else ""
            target = shown(limits[0]) if limits else ""
            row = f"  {figure['row']}" if figure["row"] else ""
            print(f"{title:40} {size:>5} {shown(value):>8} {target:>7}{missed}{row}")


STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #d1d9e0 } .one { stroke: #59636e; stroke-dasharray: 4 3 }
.candle { fill: #d9480f } .numpy { fill: #4d77cf } .torch { fill: #8c959f }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .small { fill: #9198a1 }
  .grid { stroke: #3d444d } .one { stroke: #9198a1 }
  .candle { fill: #ff8a4c } .numpy { fill: #6c9bff } .torch { fill: #7d8590 }
}
"""


def chart(report: dict[str, Any]) -> str:
    """Draw the bandwidths at the largest size, relative to memcpy's, as an SVG."""
    size = report["rows"][-1]["size"]
    records = [each for each in report["rows"] if each["size"] == size and each["of_memcpy"]]
    bars = ("candle", "numpy", "torch")
    left, width, top, thick, gap = 190, 520, 66, 6, 6
    step = len(bars) * thick + gap

    def relative(each: dict[str, Any], peer: str) -> float:
        seconds = each["seconds"]
        return 0.0 if seconds[peer] is None else seconds["memcpy"] / seconds[peer]

    most = max((relative(each, peer) for each in records for peer in bars), default=1.0)
    tick = 0.25 if most <= 1.6 else 0.5
    ticks = math.ceil(most / tick)
    unit = width / (ticks * tick)
    height = top + len(records) * step + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {height}" '
        f'width="{left + width + 30}" height="{height}" role="img">',
        f"<title>Copies of {size}B: bandwidth relative to memcpy</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{left}" y="20">Bandwidth of copies of {size}B, memcpy = 1</text>',
    ]
    for i, peer in enumerate(bars):
        at = left + 90 * i
        parts.append(f'<rect class="{peer}" x="{at}" y="31" width="12" height="10" rx="2"/>')
        parts.append(f'<text x="{at + 18}" y="40">{peer}</text>')
    bottom = height - 26
    for i in range(ticks + 1):
        x = left + i * tick * unit
        line = "one" if i * tick == 1 else "grid"
        place = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top - 8}" y2="{bottom}"'
        parts.append(f'<line class="{line}" {place}/>')
        label = f"{i * tick:g}"
        parts.append(f'<text class="small middle" x="{x:.1f}" y="{bottom + 16}">{label}</text>')
    for i, each in enumerate(records):
        y = top + i * step
        name = each["row"].replace(">", "&gt;")
        middle = y + len(bars) * thick / 2 + 4
        parts.append(f'<text class="end" x="{left - 10}" y="{middle:.1f}">{name}</text>')
        for j, peer in enumerate(bars):
            long = relative(each, peer) * unit
            if long:
                place = f'x="{left}" y="{y + j * thick}" width="{long:.1f}" height="{thick - 1}"'
                parts.append(f'<rect class="{peer}" {place}/>')
    return "\n".join([*parts, "</svg>", ""])


def threads_of(number: int | None) -> str:
    """Set the number of threads if one is given, and say how many the peers use."""
    ours = getattr(candle, "set_num_threads", None)
    if number is not None:
        torch.set_num_threads(number)
        if ours is not None:
            ours(number)
    count = getattr(candle, "get_num_threads", lambda: len(os.sched_getaffinity(0)))
    used = count() if ours is not None else 1
    return f"candle {used}, torch {torch.get_num_threads()}, numpy and memcpy 1"


def chosen(text: str, known: Iterable[str]) -> list[str]:
    """Read names with commas between them."""
    names = text.split(",")
    if unknown := set(names) - set(known):
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
    return [name for name in known if name in names]


def main() -> int:
    """Measure, print, and write JSON and a chart if asked."""
    parser = argparse.ArgumentParser(description="Bandwidth of copies, beside numpy and torch.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw an SVG there")
    parser.add_argument("--rounds", type=int, default=12, help="samples of each peer in each row")
    parser.add_argument("--rows", metavar="PATTERN", default="", help="regular expression")
    parser.add_argument("--sizes", type=lambda text: chosen(text, SIZES), default=list(SIZES))
    parser.add_argument(
        "--peers",
        type=lambda text: chosen(text, PEERS[1:]),
        default=list(PEERS[1:]),
        help="of numpy, torch and memcpy",
    )
    parser.add_argument("--threads", type=int, help="of candle and torch; else what they choose")
    parser.add_argument("--pages", choices=["huge", "small"], default="huge")
    options = parser.parse_args()
    rows = [row for row in ROWS if re.search(options.rows, row.name)]
    if not rows:
        parser.error(f"no row matches {options.rows!r}")
    threads = threads_of(options.threads)
    begin = time.perf_counter()
    jobs = measure(rows, options.sizes, ["candle", *options.peers], options.rounds, options.pages)
    records = [record(job) for job in jobs]
    report = {
        "environment": {
            **environment("torch", "numpy", "ml_dtypes"),
            "threads": threads,
            "pages": options.pages,
            "rounds": str(options.rounds),
            "seconds": f"{time.perf_counter() - begin:.0f}",
        },
        "rows": records,
        "summary": {
            size: summary_of([each for each in records if each["size"] == size])
            for size in options.sizes
        },
    }
    print_tables(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.chart:
        options.chart.write_text(chart(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
