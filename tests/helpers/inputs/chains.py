"""Chains of views, moves, copies, casts and writes: the values and the sharing of numpy's chain."""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import candle
from candle.testing import assert_no_leak, exchange_api

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

DTYPES = ("u1", "i2", "i4", "i8", "f4", "f8", "c8", "c16", "?")
CASTS = ("uint8", "int16", "int64", "float32", "float64", "complex128")


class Link:
    """A tensor of candle's, and the array it should be; `apart`: how far their addresses are."""

    def __init__(self, t: candle.Tensor, a: Any, apart: int) -> None:
        self.t, self.a, self.apart = t, a, apart

    def check(self) -> None:
        t, a = self.t, self.a
        assert t.shape == a.shape, (t.shape, a.shape)
        assert t.tolist() == a.tolist(), (t.tolist(), a.tolist())
        if a.size:
            assert t.data_ptr() - self.apart == address(a), "another place in memory"
            steps = [s * t.itemsize for s, n in zip(t.stride, t.shape, strict=True) if n > 1]
            wanted = [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1]
            assert steps == wanted, (steps, wanted)

    def seen_as(self, t: candle.Tensor, a: Any) -> Link:
        """The same memory."""
        return Link(t, a, self.apart)

    def copied(self, t: candle.Tensor, a: Any) -> Link:
        """Memory of its own, of which the values alone are known; in an order of its own."""
        assert not t.size or t.data_ptr() - self.apart != address(self.a), "no copy"
        order = sorted(range(t.ndim), key=lambda axis: -abs(t.stride[axis]))
        back = [order.index(axis) for axis in range(t.ndim)]
        like = a.transpose(order).copy("C").transpose(back)
        return Link(t, like, t.data_ptr() - address(like))


def address(a: Any) -> int:
    found: int = a.__array_interface__["data"][0]
    return found


def index_of(rng: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    items: list[Any] = []
    for extent in shape[: rng.randint(0, len(shape))]:
        kind = rng.choice(("slice", "slice", "int", "none"))
        if kind == "none":
            items.append(None)
        if kind == "int" and extent:
            items.append(rng.randint(-extent, extent - 1))
        else:
            bounds = [rng.choice((None, rng.randint(-extent - 2, extent + 2))) for _ in range(2)]
            items.append(slice(*bounds, rng.choice((None, None, 1, 2, -1, -2))))
    return (*items, ...)


def indexed(rng: random.Random, link: Link) -> Link:
    key = index_of(rng, link.a.shape)
    return link.seen_as(link.t[key], link.a[key])


def permuted(rng: random.Random, link: Link) -> Link:
    order = list(range(link.a.ndim))
    rng.shuffle(order)
    return link.seen_as(link.t.permute(tuple(order)), link.a.transpose(order))


def unsqueezed(rng: random.Random, link: Link) -> Link:
    axis = rng.randint(-link.a.ndim - 1, link.a.ndim)
    return link.seen_as(link.t.unsqueeze(axis), np.expand_dims(link.a, axis))


def squeezed(rng: random.Random, link: Link) -> Link:
    return link.seen_as(link.t.squeeze(), link.a.squeeze())


def broadcast(rng: random.Random, link: Link) -> Link:
    shape = [rng.randint(1, 3) if n == 1 else n for n in link.a.shape]
    shape.insert(0, rng.randint(0, 3))
    strides = np.broadcast_to(link.a, shape).strides
    a = np.lib.stride_tricks.as_strided(link.a, shape, strides)  # which may be written
    return link.seen_as(link.t.broadcast_to(tuple(shape)), a)


def copied(rng: random.Random, link: Link) -> Link:
    return link.copied(link.t.copy(), link.a)


def cast(rng: random.Random, link: Link) -> Link:
    dtype = rng.choice(CASTS)
    if link.a.dtype.kind == "c" or np.dtype(dtype) == link.a.dtype:
        return link
    return link.copied(link.t.to(dtype), link.a.astype(dtype))


def reshaped(rng: random.Random, link: Link) -> Link:
    t = link.t.reshape(-1) if link.a.size else link.t
    a = link.a.reshape(-1) if link.a.size else link.a
    if not np.shares_memory(a, link.a):
        shares = (np.array(link.a.strides)[np.array(link.a.shape) > 1] == 0).any()
        return link.copied(t, a) if not shares or t.data_ptr() != link.t.data_ptr() else link
    return link.seen_as(t, a)


def written(rng: random.Random, link: Link) -> Link:
    """Into the memory that all of the chain behind the last copy have in common."""
    key = index_of(rng, link.a.shape)
    target, part = link.t[key], link.a[key]
    if not part.size:
        return link
    repeats = any(s == 0 and n > 1 for s, n in zip(target.stride, target.shape, strict=True))
    if link.t.readonly or repeats:
        try:
            link.t[key] = 1
        except ValueError:
            return link
        raise AssertionError("written what may not be")
    if rng.random() < 0.5:
        link.t[key] = 3
        part[...] = 3
    else:
        values = (np.arange(part.size) % 50)[::-1].reshape(part.shape).astype(part.dtype)
        link.t[key] = values
        part[...] = values
    return link


def backwards(t: candle.Tensor) -> bool:
    return bool(t.size) and any(s < 0 and n > 1 for s, n in zip(t.stride, t.shape, strict=True))


def pinned_down(t: candle.Tensor) -> bool:
    return backwards(t) or t.readonly


def by_table(t: candle.Tensor) -> Any:
    api = exchange_api(candle.Tensor)[0]
    taken = api.from_py_object(t)
    taken.released = True
    return api.to_py_object(taken.address)


def by_arrow(t: candle.Tensor) -> candle.Tensor:
    return candle.from_arrow(Columns(t))


class Columns:
    """A tensor's Arrow side alone."""

    def __init__(self, t: candle.Tensor) -> None:
        self.t = t

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.t.__arrow_c_array__(requested_schema)


Copies = "Callable[[candle.Tensor], bool]"
# A way out and in again, and where only a copy can go that way.
MOVES: dict[str, tuple[Callable[[candle.Tensor], Any], Callable[[candle.Tensor], bool]]] = {
    "numpy": (lambda t: t.numpy(), lambda t: False),
    "np.asarray": (np.asarray, lambda t: False),
    "np.from_dlpack": (np.from_dlpack, backwards),
    "memoryview": (lambda t: t.memoryview(), lambda t: False),
    "legacy capsule": (lambda t: t.__dlpack__(), pinned_down),
    "versioned capsule": (lambda t: t.__dlpack__(max_version=(1, 3)), backwards),
    "exchange table": (by_table, backwards),
    "Tensor": (candle.Tensor, lambda t: False),
    "pickle": (lambda t: pickle.loads(pickle.dumps(t, 5)), lambda t: True),
}


def library_moves() -> dict[str, tuple[Any, Any]]:
    """Those of the libraries that are loaded."""
    found: dict[str, tuple[Any, Any]] = {}
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found |= {
            "torch": (lambda t: t.torch(), pinned_down),
            "torch.from_dlpack": (torch.from_dlpack, backwards),
        }
    if "tvm_ffi" in sys.modules:
        found["tvm_ffi"] = (sys.modules["tvm_ffi"].from_dlpack, backwards)
    if "jax" in sys.modules:
        found["jax"] = (lambda t: t.jax(), lambda t: candle.explain(t, "jax").action == "copy")
    if "pyarrow" in sys.modules:
        found["pyarrow"] = (
            lambda t: t.arrow(),
            lambda t: candle.explain(t, "arrow").action == "copy",
        )
    return found


def refused(t: candle.Tensor, name: str) -> bool:
    """jax without 64 bits, and Arrow's lists, take some tensors neither shared nor copied."""
    if name == "jax":
        return candle.explain(t, "jax").action == "refuse"
    return name == "pyarrow" and (t.ndim == 0 or 0 in t.shape or t.dtype.kind == "complex")


def moved(rng: random.Random, link: Link) -> Link:
    moves = {**MOVES, **library_moves()}
    name = rng.choice(list(moves))
    out, copies = moves[name]
    if name == "memoryview" and link.a.size == 0:
        return link  # its extents say too little
    must_copy = copies(link.t) and bool(link.t.size)
    if link.t.readonly and name.startswith(("torch", "tvm_ffi")):
        return link  # they have no read-only memory, and say so of a copy once a process
    if refused(link.t, name):
        return link
    x = out(link.t)
    t = candle.asarray(x)
    del x
    if must_copy:
        return link.copied(t, link.a)
    moved_to = link.seen_as(t, link.a)
    return moved_to if t.size else Link(t, link.a, 0)


def through_arrow(rng: random.Random, link: Link) -> Link:
    if link.a.ndim == 0 or link.a.dtype.kind == "c" or 0 in link.a.shape:
        return link
    copies = candle.explain(link.t, "arrow").action == "copy"
    t = by_arrow(link.t)
    assert t.readonly or t.dtype == candle.bool  # bools are bits in between
    return link.copied(t, link.a) if copies else link.seen_as(t, link.a)


STEPS = (
    *(indexed, indexed, permuted, unsqueezed, squeezed, broadcast, moved, moved, moved),
    *(copied, cast, reshaped, written, written, through_arrow),
)


def run(rng: random.Random) -> str:
    """Follow a chain; at the end every link shows what was written to any other."""
    shape = tuple(rng.randint(0, 4) for _ in range(rng.randint(0, 4)))
    dtype = rng.choice(DTYPES)
    size = int(np.prod(shape))
    a = (np.arange(size) % (2 if dtype == "?" else 100)).astype(dtype).reshape(shape)
    if rng.random() < 0.2:
        a.flags.writeable = False
    names = []
    with assert_no_leak():
        links = [Link(candle.asarray(a), a, 0)]
        for _ in range(rng.randint(1, 8)):
            step = rng.choice(STEPS)
            if links[-1].a.ndim > 12:
                break
            links.append(step(rng, links[-1]))
            names.append(step.__name__)
            links[-1].check()
        for link in links:
            link.check()
        del links, link
    return " ".join(names[:3])
