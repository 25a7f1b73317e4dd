"""The first element lies at data + byte_offset; what goes out has no byte_offset."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest
from offers import ROADS, offers

import candle
from candle.testing import Producer, exchange_api, exchange_producer, info


@pytest.mark.parametrize("road", ROADS)
def test_reads_writes_and_exports_begin_behind_the_offset(road: str) -> None:
    # Case 64: NVIDIA/cuda-python#2592, NVIDIA/cuda-python#2594, NVIDIA/warp#1573
    for dtype, form in (((0, 64), "q"), ((2, 32), "f"), ((1, 16), "H"), ((0, 8), "b")):
        size = struct.calcsize(form)
        block = struct.pack(f"100{form}", *range(100))
        for place in (0, 1, 8, 31):
            for shape, strides in (
                ((8,), (1,)),
                ((2, 3), (3, 1)),
                ((3, 2), (1, 3)),
                ((2, 2), (20, 5)),
            ):
                arguments: dict[str, Any] = {"data": block, "dtype": dtype, "shape": shape}
                [(_, producer, x)] = offers(
                    road, strides=strides, byte_offset=place * size, **arguments
                )
                t = candle.from_dlpack(x)
                wanted = [
                    [place + strides[0] * i]
                    if len(shape) == 1
                    else [place + strides[0] * i + strides[1] * j for j in range(shape[1])]
                    for i in range(shape[0])
                ]
                assert t.reshape(shape[0], -1).tolist() == wanted
                again = candle.from_dlpack(t.__dlpack__(max_version=(1, 3)))
                assert np.from_dlpack(t).reshape(shape[0], -1).tolist() == wanted
                again[0] = 77
                first = producer.address + place * size
                assert struct.unpack(form, ctypes.string_at(first, size)) == (77,)
                if place:
                    assert struct.unpack(form, ctypes.string_at(first - size, size)) == (place - 1,)
                del t, again, x


def test_exports_have_no_offset() -> None:
    # Case 65: pytorch/pytorch#168177, pytorch/pytorch#168193, pytorch/pytorch#170432,
    # iree-org/iree#21153
    [table] = exchange_api(candle.Tensor)
    sources = [
        candle.arange(60, dtype="int16").reshape(5, 12),
        candle.asarray(np.arange(60.0).reshape(5, 12)),
        candle.from_dlpack(Producer(shape=(5, 12), byte_offset=128)),
        candle.from_dlpack(exchange_producer(Producer(shape=(5, 12), byte_offset=4))),
        candle.asarray(bytearray(60)).view(5, 12),
    ]
    for t in sources:
        for view in (
            t,
            t[2:],
            t[:, 5:],
            t[1:, 3::4],
            t.T[1:],
            t[4, 11, ...],
            t[3:3],
            t[::-1],
            t[1:].view("uint8"),
        ):
            structs = [
                info(view.__dlpack__(max_version=v, copy=c))
                for v in (None, (1, 3))
                for c in (None, True)
            ]
            with table.from_py_object(view) as taken:
                structs.append(taken.info)
            for fields in structs:
                assert fields.byte_offset == 0
                assert (fields.data == 0) is (view.size == 0)
            if view.size and min(view.stride, default=1) > 0:
                assert structs[0].data == structs[2].data == view.data_ptr()
