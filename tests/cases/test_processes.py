"""Tensors that go to other processes, and children of fork."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import queue
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from forked import in_fork

import candle
from candle.testing import Producer

if TYPE_CHECKING:
    from collections.abc import Callable

TENSORS: dict[str, Callable[[], candle.Tensor]] = {
    "own": lambda: candle.arange(12, dtype="int16").reshape(3, 4),
    "numpy": lambda: candle.asarray(np.arange(12.0).reshape(3, 4)),
    "torch": lambda: candle.from_dlpack(pytest.importorskip("torch").arange(12).reshape(3, 4).T),
    "capsule": lambda: candle.from_dlpack(Producer(shape=(3, 4)).capsule()),
    "buffer": lambda: candle.asarray(bytearray(range(12))),
    "read-only": lambda: candle.asarray(bytes(range(12))),
    "backward": lambda: candle.arange(12)[::-1],
    "broadcast": lambda: candle.ones((1, 3)).broadcast_to((4, 3)),
    "bfloat16": lambda: candle.ones((3, 2), dtype="bfloat16"),
    "packed": lambda: candle.from_dlpack(Producer(shape=(8,), dtype=(0, 4))),
    "0-d": lambda: candle.ones(()),
    "empty": lambda: candle.zeros((2, 0, 3)),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_any_tensor_goes_through_a_pipe(kind: str) -> None:
    # Case 92: dusty-nv/jetson-inference#366. Of devices: tests/gpu_fakedriver/test_providers.py.
    t = TENSORS[kind]()
    here, there = multiprocessing.Pipe()
    with here, there:
        here.send({"t": t, "again": [t, t]})
        came = there.recv()
    assert came["t"] is came["again"][0] is came["again"][1]
    for back in (
        came["t"],
        copy.copy(t),
        copy.deepcopy(t),
        *(pickle.loads(pickle.dumps(t, p)) for p in range(6)),
    ):
        assert (back.shape, back.dtype, back.tolist()) == (t.shape, t.dtype, t.tolist())
        assert back.size == 0 or back.data_ptr() != t.data_ptr()
    local: queue.Queue[Any] = queue.Queue()
    local.put(t)
    assert local.get() is t


def test_views_pickle_what_they_show() -> None:
    # Case 92: dusty-nv/jetson-inference#366
    base = candle.zeros((1000, 1000))
    for view in (
        base[3],
        base[:, 5],
        base[::500, ::500],
        base[7, 7],
        base[3:3],
        base[0].broadcast_to((40, 1000))[:, :2],
    ):
        assert len(pickle.dumps(view, 5)) < view.nbytes + 1000
        frames: list[pickle.PickleBuffer] = []
        pickle.dumps(view, 5, buffer_callback=frames.append)
        assert sum(frame.raw().nbytes for frame in frames) <= max(view.nbytes, 1)


def test_children_of_fork_go_on() -> None:
    # Case 93: NVIDIA/DALI#3826, metatensor/metatrain#1229, vllm-project/vllm#29119. CUDA in such a
    # child: tests/gpu_fakedriver/test_reported_cases.py.
    torch = pytest.importorskip("torch")
    source = candle.arange(1 << 20, dtype="float32").reshape(1024, 1024)
    wanted = source.T.copy()[5, 3].item()  # the threads that share copies are there now
    array, tensor, own = np.ones(3), torch.ones(3), source[1:, 2:]
    held = candle.asarray(array), candle.asarray(tensor), own.__dlpack__()

    def child() -> None:
        for _ in range(3):
            assert source.T.copy()[5, 3].item() == wanted
        assert held[0].tolist() == held[1].tolist() == [1.0] * 3
        held[0][...] = 5
        assert candle.from_dlpack(held[2])[0, 0].item() == 1026.0
        in_fork(candle.zeros((1500, 1500)).T.copy)  # and its child

    for _ in range(3):
        in_fork(child)
    assert held[0].tolist() == [1.0] * 3  # the child wrote to its own pages


def test_pickles_out_of_band_are_the_memory() -> None:
    # Case 94: ray-project/ray#12317, ray-project/ray#26229, ray-project/ray#57639
    for t in (
        candle.zeros((128, 30, 7)),
        candle.ones((8, 9), dtype="bfloat16").T,
        candle.asarray(np.ones((3, 4), "c8")),
        candle.from_dlpack(Producer(shape=(4, 5))),
    ):
        frames: list[pickle.PickleBuffer] = []
        message = pickle.dumps(t, protocol=5, buffer_callback=frames.append)
        assert len(message) < 1000
        [frame] = frames
        raw = frame.raw()
        assert raw.nbytes == t.nbytes
        assert np.frombuffer(raw, "u1").ctypes.data == t.data_ptr()
        store = bytes(raw)  # immutable, as Ray's is
        first, second = (pickle.loads(message, buffers=[store]) for _ in range(2))
        assert first.tolist() == second.tolist() == t.tolist()
        assert first.readonly
        assert first.data_ptr() == second.data_ptr()
        with pytest.raises(ValueError, match="read-only"):
            first.fill_(0)
        writable = bytearray(raw)
        third = pickle.loads(message, buffers=[writable])
        assert not third.readonly
        third.view("uint8").fill_(0) if third.is_contiguous() else third.T.view("uint8").fill_(0)
        assert not any(writable)
