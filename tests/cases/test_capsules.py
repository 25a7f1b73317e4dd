"""Capsules: any number of exports, each good for one import, told apart from everything else."""

from __future__ import annotations

import array
import itertools
import random
from typing import Any

import numpy as np
import pytest
from offers import Holder

import candle
from candle.testing import Producer, capsules, info, take


def test_any_number_of_independent_exports() -> None:
    # Case 20: jax-ml/jax#4636
    rng = random.Random(20)
    for make in (
        lambda: candle.arange(12, dtype="int16").reshape(3, 4).T,
        lambda: candle.asarray(np.arange(12.0).reshape(2, 6)[:, ::3]),
        lambda: candle.ones((), dtype="bfloat16"),
        lambda: candle.zeros((0, 4), dtype="bool"),
    ):
        t = make()
        wanted = t.tolist()
        exports = [
            t.__dlpack__(max_version=max_version, copy=copy)
            for max_version, copy in itertools.product((None, (1, 3)), (None, False, True))
        ]
        structs = {capsules.capsule_address(c, str(capsules.capsule_name(c))) for c in exports}
        assert len(structs) == len(exports)
        rng.shuffle(exports)
        taken = []
        while exports:  # some are taken, in any order; some are dropped as they are
            one = exports.pop()
            if rng.random() < 0.6:
                taken.append(candle.from_dlpack(one))
            del one
            assert t.tolist() == wanted
            assert all(other.tolist() == wanted for other in taken)
        assert info(t.__dlpack__()).shape == t.shape


def test_the_second_use_raises() -> None:
    # Case 21: pytorch/pytorch#57110, pytorch/pytorch#70437
    takers = (candle.from_dlpack, candle.Tensor.from_dlpack, candle.asarray, candle.Tensor)
    for versioned in (True, False):
        for first, second in itertools.product(takers, takers):
            for shape, copy in (((4,), None), ((), None), ((0, 2), None), ((2, 2), True)):
                producer = Producer(shape=shape)
                capsule = producer.capsule(versioned)
                t = first(capsule, copy=copy)
                wanted = t.tolist()
                for again in (capsule, Holder(capsule)):
                    with pytest.raises((BufferError, ValueError), match=r"used|consumed|taken"):
                        (second if again is capsule else candle.from_dlpack)(again)
                assert t.tolist() == wanted
                del capsule, again
                assert t.tolist() == wanted
                assert producer.deletes <= (1 if copy or 0 in shape else 0)
                del t
                assert producer.deletes == 1


def test_candles_own_capsule_a_second_time() -> None:
    # Case 21: pytorch/pytorch#57110. Taken by another framework the first time.
    torch = pytest.importorskip("torch")
    for first in (torch.from_dlpack, lambda c: np.from_dlpack(Holder(c)), take):
        t = candle.arange(5, dtype="int32")
        capsule = t.__dlpack__(max_version=(1, 0))
        x = first(capsule)
        with pytest.raises((BufferError, ValueError), match="used"):
            candle.from_dlpack(capsule)
        t[2] = 77
        if not hasattr(x, "release"):
            assert int(x[2]) == 77
        else:
            x.release()


class OnlyDevice:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class NoneThere:
    """Names its protocol and then has none of it."""

    __dlpack__ = None
    __dlpack_device__ = None


def test_what_is_neither_object_nor_capsule() -> None:
    # Case 22: cupy/cupy#8795. Raw capsules of devices: tests/gpu_protocol.
    torch = pytest.importorskip("torch")
    for versioned in (True, False):
        assert candle.from_dlpack(Producer(shape=(3,)).capsule(versioned)).shape == (3,)
    others: list[Any] = [None, 3, 2.5, "text", b"bytes", [1, 2], {"a": 1}, object(), range(3)]
    others += [array.array("i", [1]), memoryview(b"abc"), iter([]), lambda: None, ..., slice(3)]
    others += [OnlyDevice(), NoneThere(), Exception("x"), candle, np]
    for x in others:
        with pytest.raises(TypeError) as caught:
            candle.from_dlpack(x)
        assert type(x).__name__ in str(caught.value), x
        assert "__dlpack__" in str(caught.value)
    for kind in (candle.Tensor, torch.Tensor, np.ndarray, Producer):  # the class, not one of it
        with pytest.raises(TypeError, match="__dlpack__"):
            candle.from_dlpack(kind)
    for name in ("dltensor ", "DLTENSOR", "used_", "arrow_array", "", None):
        with pytest.raises((TypeError, BufferError)):
            candle.from_dlpack(capsules.new_capsule(1, name))
