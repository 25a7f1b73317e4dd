"""Tensors with no axes and with no elements."""

from __future__ import annotations

import ctypes
import itertools
import struct
from typing import Any

import numpy as np
import pytest
from forked import in_fork
from offers import Holder, offers

import candle
from candle.testing import Producer, info

EMPTY = [s for rank in range(1, 5) for s in itertools.product((0, 1, 3), repeat=rank) if 0 in s]


def test_no_elements_are_contiguous_and_keep_their_shape() -> None:
    # Case 43: microsoft/onnxruntime#27450
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    for shape in [*EMPTY, (1, 8, 0, 128)]:
        base = np.zeros([2 * n + 1 for n in shape], "float16")
        odd = base[tuple(slice(1, 1 + n) for n in shape)]  # with strides of something larger
        assert odd.shape == shape
        for t in (
            candle.zeros(shape, dtype="float16"),
            candle.asarray(odd),
            candle.asarray(odd.T).permute(*range(len(shape))[::-1]),
        ):
            assert t.is_contiguous()
            assert t.is_fortran_contiguous()
            assert t.contiguous().shape == t.reshape(shape).shape == t.copy().shape == shape
            with candle.strict():
                assert t.contiguous().reshape(shape).shape == shape
            for y in (t.numpy(), np.from_dlpack(t), t.torch(), torch.from_dlpack(t), t.jax()):
                assert tuple(y.shape) == shape
                assert "float16" in str(y.dtype)
            with candle.strict():
                assert t.jax().shape == shape


class Interface:
    def __init__(self, **fields: Any) -> None:
        self.__array_interface__ = {"version": 3, "typestr": "<f4", **fields}


def test_any_pointer_will_do_where_there_are_no_elements() -> None:
    # Cases 44, 45, 47: NVIDIA/cuda-python#1396, pytorch/pytorch#98133, cupy/cupy#2610,
    # apache/arrow#38472
    for shape in EMPTY:
        for data in (0, 8, 2**47 + 3):
            steps = tuple(7 * (i + 1) for i in range(len(shape)))
            sources: list[Any] = [Interface(shape=shape, data=(data, False))]
            sources.append(Interface(shape=shape, data=(data, True), strides=steps))
            arguments = {"shape": shape, "data": data, "null_data": data == 0, "strides": steps}
            sources += [offer.x for offer in offers(**arguments)]
            for source in sources:
                t = candle.asarray(source)
                assert (t.shape, t.flatten().tolist()) == (shape, [])
                assert t.data_ptr() == 0 or t.data_ptr() == data
                for view in (t, t[...], t.unsqueeze(0)):
                    fields = info(view.__dlpack__(max_version=(1, 3)))
                    assert (fields.data, fields.byte_offset) == (0, 0)
                    assert view.__array_interface__["shape"] == view.shape
                assert np.asarray(t).shape == t.copy().shape == shape


def test_no_elements_of_memory_elsewhere() -> None:
    # Case 45: pytorch/pytorch#98133. No driver is asked: there is none here, and no error.
    class Cuda:
        def __init__(self, shape: tuple[int, ...], data: int) -> None:
            self.__cuda_array_interface__ = {
                "shape": shape,
                "typestr": "<i8",
                "data": (data, False),
                "version": 3,
                "strides": None,
            }

    for shape in ((0,), (3, 0), (0, 2, 2)):
        try:
            t = candle.asarray(Cuda(shape, 0))
        except BufferError as error:  # which device it is, only a driver could say
            assert "libcuda" in str(error) or "driver" in str(error)  # noqa: PT017
        else:
            assert t.shape == shape
    for device in ((2, 0), (2, 3), (13, 0), (10, 0), (8, 1)):
        t = candle.from_dlpack(Producer(0x7000, shape=(2, 0, 3), device=device).capsule())
        for view in (t, t[1:], t[::-1], t.permute(2, 1, 0)):
            # Ordering is refused without a driver only where there is something to order.
            fields = info(view.__dlpack__(stream=-1, max_version=(1, 0)))
            assert fields.data == 0


def test_one_element_beyond_the_start() -> None:
    # Case 46: pytorch/pytorch#170432, Genesis-Embodied-AI/quadrants#450
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    for dtype, form in (((2, 32), "f"), ((0, 64), "q"), ((0, 8), "b"), ((2, 16), "e")):
        size = struct.calcsize(form)
        block = b"".join(struct.pack(form, number) for number in range(100))
        for place in (0, 1, 3, 64):
            for null_shape in (False, True):
                arguments = {"dtype": dtype, "byte_offset": place * size, "null_shape": null_shape}
                for offer in offers(shape=(), data=block, **arguments):
                    t = candle.from_dlpack(offer.x)
                    assert t.item() == place
                    assert np.from_dlpack(t).item() == t.torch().item() == place
                    if form != "q":
                        assert t.jax().item() == place
                    t.fill_(99)
                    address = offer.producer.address + place * size
                    assert struct.unpack(form, ctypes.string_at(address, size)) == (99,)
                    assert info(t.__dlpack__()).data == address


def test_what_goes_out_of_nothing() -> None:
    # Case 47: apache/arrow#38472. Frameworks that read one way or the other both get NULL.
    torch = pytest.importorskip("torch")
    for shape in EMPTY:
        for t in (
            candle.zeros(shape),
            candle.asarray(np.zeros(shape)),
            candle.asarray(torch.zeros(shape)),
            candle.ones([n + 1 for n in shape])[tuple(slice(n) for n in shape)],
        ):
            assert t.shape == shape
            for max_version in (None, (1, 3)):
                for copy in (None, False, True):
                    fields = info(t.__dlpack__(max_version=max_version, copy=copy))
                    assert (fields.data, fields.shape) == (0, shape)
            assert np.from_dlpack(Holder(t.__dlpack__())).shape == shape


def test_small_shapes_go_everywhere_and_come_back() -> None:
    # Cases 33, 43: all shapes of {0, 1, 2} with up to four axes, in a child: consumers crash on
    # less.
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")

    def hop() -> None:
        for rank in range(5):
            for shape in itertools.product((0, 1, 2), repeat=rank):
                t = candle.arange(int(np.prod(shape)), dtype="int32").reshape(shape)
                wanted = t.tolist()
                for y in (t.numpy(), np.from_dlpack(t), t.torch(), torch.from_dlpack(t)):
                    assert y.tolist() == wanted
                    assert candle.from_dlpack(y).tolist() == wanted
                    assert candle.from_dlpack(y).shape == shape

    in_fork(hop)
