"""`shares_memory` and `owner`."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest

import candle
from candle.testing import Producer


def views(seed: int) -> tuple[Any, Any]:
    """Two random views of one array."""
    random = np.random.default_rng(seed)
    base = np.zeros(120, random.choice(["u1", "f4", "c16"]))
    base = base.reshape([(120,), (10, 12), (4, 5, 6), (2, 3, 4, 5)][random.integers(4)])
    made = []
    for _ in range(2):
        steps = [
            slice(*sorted(random.integers(0, n + 1, 2)), random.integers(1, 4)) for n in base.shape
        ]
        view = base[tuple(steps)]
        if random.integers(2):
            view = view[::-1]
        made.append(view.T if random.integers(2) else view)
    return made[0], made[1]


@pytest.mark.parametrize("seed", range(300))
def test_as_numpys_exact_answer(seed: int) -> None:
    a, b = views(seed)
    assert candle.shares_memory(a, candle.asarray(b)) == np.shares_memory(a, b)


def test_across_frameworks(framework: Any) -> None:
    torch, jax = framework("torch"), framework("jax")
    x = torch.zeros(8, 16)
    t = candle.from_dlpack(x)
    a, j = t.numpy(), t.jax()
    for one in (x, t, a, j, x[2:], t.__dlpack__(), memoryview(a)):
        for other in (x, t[:, ::2], a[::-1], j):
            assert candle.shares_memory(one, other)
    assert not candle.shares_memory(x, x.clone())
    assert not candle.shares_memory(x[:4], a[4:])
    assert not candle.shares_memory(t[:, ::2], a[:, 1::2])
    assert not candle.shares_memory(x, jax.numpy.zeros((8, 16)))
    assert not candle.shares_memory(x[:0], x)


def test_what_candle_would_copy_or_refuse(framework: Any) -> None:
    torch = framework("torch")
    z = torch.zeros(4, dtype=torch.complex64)
    assert candle.shares_memory(z.conj(), z)
    w = torch.nn.Parameter(torch.zeros(4))
    assert candle.shares_memory(w, w.detach())
    swapped = np.zeros(4, ">f4")
    assert candle.shares_memory(swapped, swapped[1:])
    assert not candle.shares_memory(swapped[:1], swapped[1:])


def test_broadcast_and_sub_byte() -> None:
    row = candle.zeros(8)
    assert candle.shares_memory(row.broadcast_to((1000, 8)), row[3:4])
    assert not candle.shares_memory(row[:2].broadcast_to((1000, 2)), row[3:4])
    small = candle.zeros(8, dtype="int4")
    assert candle.shares_memory(small, small[2:4])
    assert not candle.shares_memory(small[:4], small[4:])
    assert candle.shares_memory(small[::4], small[2::4])  # by their ranges


def test_too_hard_is_answered_by_ranges() -> None:
    shape = (2,) * 20
    steps = [3**i + i for i in range(20)]
    base = np.zeros(sum(steps) * 2 + 8, "u1")
    a = np.lib.stride_tricks.as_strided(base, shape, steps)
    b = np.lib.stride_tricks.as_strided(base[1:], shape, [s + 1 for s in steps])
    assert isinstance(candle.shares_memory(a, b), bool)


def test_no_memory_to_share() -> None:
    with pytest.raises(TypeError, match="Python values"):
        candle.shares_memory([1, 2], candle.zeros(2))
    with pytest.raises(TypeError, match="Python values"):
        candle.shares_memory(candle.zeros(2), 1)
    with pytest.raises(BufferError, match="mask"):
        candle.shares_memory(np.ma.masked_array([1], [1]), candle.zeros(2))


def test_copies_tell_nothing(framework: Any) -> None:
    """A copy in the elements' place lies elsewhere, and may lie anywhere next time."""
    jnp = framework("jax").numpy
    x = jnp.arange(4, dtype="int4")
    with pytest.raises(BufferError, match="copy only"):
        candle.shares_memory(x, x)


def test_devices_have_memory_of_their_own() -> None:
    host = candle.zeros(4)
    there = Producer(shape=(4,), device=(2, 0))
    assert not candle.shares_memory(there, host)
    assert candle.shares_memory(there, there)


def test_owners(framework: Any) -> None:
    data = bytearray(16)
    assert candle.owner(data) is data
    assert candle.owner(memoryview(data)[2:]) is data
    assert candle.owner(candle.asarray(data)[4:]) is data
    assert candle.owner(candle.asarray(np.frombuffer(data, "f4")[1:]).numpy()) is data
    a = np.zeros(8)
    assert candle.owner(candle.from_dlpack(a[::2]).reshape(2, 2).T) is a
    assert candle.owner(candle.from_dlpack(a).numpy()[1:]) is a
    assert candle.owner(candle.from_dlpack(a).memoryview()) is a
    t = candle.zeros(4)
    assert candle.owner(t) is t
    assert candle.owner(t.numpy()[1:]) is t

    class Interface:
        __array_interface__ = a.__array_interface__

    lender = Interface()
    assert candle.owner(candle.asarray(lender)) is lender
    with mmap.mmap(-1, 64) as block:
        assert candle.owner(candle.asarray(block)) is block
    torch = framework("torch")
    x = torch.zeros(8)
    for seen in (x, x[2:], x.detach(), candle.from_dlpack(x)[1:], candle.from_dlpack(x).numpy()):
        kept = candle.owner(seen)
        assert isinstance(kept, torch.UntypedStorage)
        assert kept.data_ptr() == x.data_ptr()
    assert candle.owner(object) is object


def test_owner_of_what_has_no_storage(framework: Any) -> None:
    """It is its own: sparse tensors, those inside a transform, uninitialised ones."""
    torch = framework("torch")
    for x in (
        torch.eye(2).to_sparse(),
        torch.ones(2, 2).to_mkldnn(),
        torch.nn.parameter.UninitializedParameter(),
    ):
        assert candle.owner(x) is x

    def inside(x: Any) -> Any:
        assert candle.owner(x) is x
        return x

    torch.func.vmap(inside)(torch.ones(2, 2))


def test_owners_in_a_circle() -> None:
    class Circular(np.ndarray):
        other: Any

        @property
        def base(self) -> Any:  # type: ignore[override]
            return self.other

    a, b = np.zeros(2).view(Circular), np.zeros(2).view(Circular)
    a.other, b.other = b, a
    assert candle.owner(a) is b
    a.other = a
    assert candle.owner(a) is a
