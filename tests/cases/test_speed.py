"""What makes moves fast, seen without a clock: no object, no element and no copy too many.

The times themselves are measured side by side with other libraries by benchmarks/*.py.
"""

from __future__ import annotations

import array
import hashlib
import io
import itertools
import mmap
import sys
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle.ledger import listening
from candle.testing import exchange_api, info, live

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_an_export_makes_one_object() -> None:
    # Case 95: pytorch/pytorch#162113, pytorch/pytorch#162111
    for t in (
        candle.zeros((4, 5, 6)),
        candle.zeros((1, 5, 1))[:, ::2],
        candle.zeros((6, 4)).T,
        candle.zeros(()),
    ):
        for keywords in ({}, {"max_version": (1, 3)}):
            held: list[object] = [None] * 500
            t.__dlpack__(**keywords)
            before = sys.getallocatedblocks()
            for i in range(500):
                held[i] = t.__dlpack__(**keywords)
            made = sys.getallocatedblocks() - before
            assert made <= 2 * 500 + 20, (
                made
            )  # the capsule, and the struct if it is Python's memory
            strides = {info(capsule).strides for capsule in held}
            assert len(strides) == 1
            del held
    x = candle.zeros((3, 4))
    address = x.data_ptr()
    before = sys.getallocatedblocks()
    views = [x[1] for _ in range(500)]
    assert sys.getallocatedblocks() - before <= 500 + 20
    assert views[0].data_ptr() == address + 16


def test_torch_is_asked_by_its_c_table(monkeypatch: pytest.MonkeyPatch) -> None:
    # Case 96: dmlc/dlpack#174, dmlc/dlpack#175, Dao-AILab/flash-attention#2305. Consumers that use
    # candle's own table: tests/frameworks/test_tvm_ffi.py.
    torch = pytest.importorskip("torch")
    [table] = exchange_api(candle.Tensor)
    assert table.version[0] == 1

    def unused(*_: Any, **__: Any) -> Any:
        raise AssertionError("the way of Python")

    for name in ("__dlpack__", "__dlpack_device__", "numpy", "__array__", "tolist"):
        monkeypatch.setattr(torch.Tensor, name, unused)
    for dtype in (torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64):
        for x in (
            torch.zeros(3, 4, dtype=dtype),
            torch.zeros(3, 4, dtype=dtype).T[1:],
            torch.zeros((), dtype=dtype),
            torch.nn.Parameter(torch.zeros(3, dtype=dtype), requires_grad=False),
        ):
            t = candle.from_dlpack(x)
            assert t.data_ptr() == x.data_ptr()
            assert t.torch().data_ptr() == x.data_ptr()


class Untouchable(np.ndarray):
    """An array whose elements nobody may look at one by one."""

    def _touched(self, *_: Any) -> Any:
        raise AssertionError("an element was touched")

    __getitem__ = __iter__ = __float__ = __int__ = __len__ = __bool__ = __index__ = tolist = (
        item
    ) = _touched


def untouchable(*shape: int, dtype: str = "float64") -> Any:
    return np.ones(shape, dtype).view(Untouchable)


def test_lists_of_arrays_are_stacked_by_the_array() -> None:
    # Case 97: pytorch/pytorch#13918, pytorch/pytorch#24373, pytorch/pytorch#57467,
    # tensorflow/tensorflow#44555
    torch = pytest.importorskip("torch")
    before = live()["bytes"]
    for parts in (
        [untouchable(3, 64, 64) for _ in range(10)],
        [untouchable(8, 80, dtype="bool"), untouchable(8, 80, dtype="bool")],
        tuple(untouchable(5, dtype="int16").T for _ in range(300)),
        [torch.ones(4, 5, dtype=torch.bfloat16) for _ in range(7)],
        [candle.ones((2, 3))[::-1], torch.ones(2, 3), np.ones((2, 3), "f")],
        [[untouchable(4), untouchable(4)], [untouchable(4), untouchable(4)]],
        [array.array("i", [1, 1]), array.array("i", [1, 1])],
        [memoryview(np.ones(6)), memoryview(np.ones(6))],
    ):
        plans: list[candle.Plan] = []
        with listening(plans.append):
            t = candle.asarray(parts)
        assert len(plans) == 1
        assert plans[0].nbytes == t.nbytes
        assert live()["bytes"] - before < t.nbytes + 4096  # one allocation
        assert set(t.flatten().to("float32").tolist()) == {1.0}
        del t
    rows = [np.arange(5) + 10 * i for i in range(4)]
    assert candle.asarray(rows).tolist() == np.array(rows).tolist()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex128"])
def test_transposed_copies_of_unlucky_strides(dtype: str) -> None:
    # Case 98: pytorch/pytorch#172205, pytorch/pytorch#1603, numpy/numpy#16498, numpy/numpy#32672.
    # benchmarks/copy.py has the times; these sizes are page multiples and their neighbours.
    for shape in ((64, 64, 64), (16, 256, 33), (7, 512, 40), (128, 65, 17)):
        x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
        for axes in itertools.permutations(range(3)):
            y = x.transpose(axes)
            t = candle.asarray(y)
            with listening(lambda _: None):
                copied = t.contiguous() if not t.is_contiguous() else t.copy()
            assert copied.is_contiguous()
            assert np.array_equal(copied.numpy(), y)
            into = candle.empty(y.shape, dtype=dtype)
            into[...] = t
            assert np.array_equal(into.numpy(), y)


def _written(t: candle.Tensor) -> bytes:
    file = io.BytesIO()
    assert file.write(t.memoryview()) == t.nbytes
    return file.getvalue()


WRITERS: dict[str, Callable[[candle.Tensor], bytes]] = {
    "file": _written,
    "hash": lambda t: hashlib.sha256(t.memoryview()).digest(),
    "checksum": lambda t: zlib.crc32(t.memoryview()).to_bytes(4, "little"),
    "compressed": lambda t: zlib.compress(t.memoryview()),
    "joined": lambda t: b"".join([t.memoryview()]),
    "bytearray": lambda t: bytes(bytearray(t.memoryview())),
    "slice": lambda t: bytes(t.memoryview().cast("B")[8:16]),
}


def test_writers_take_the_memory_itself(tmp_path: Path) -> None:
    # Case 100: huggingface/datasets#2498, #5841, #6104, #7753, #7787, safetensors/safetensors#564,
    # #529
    x = np.arange(240, dtype="float32").reshape(10, 24)
    t = candle.asarray(x)
    plans: list[candle.Plan] = []
    with listening(plans.append):
        for name, write in WRITERS.items():
            again = {
                "hash": hashlib.sha256(x).digest(),
                "checksum": zlib.crc32(x).to_bytes(4, "little"),
                "compressed": zlib.compress(x),
                "slice": x.tobytes()[8:16],
            }
            assert write(t) == again.get(name, x.tobytes()), name
        assert t.memoryview().obj is not None
        assert np.asarray(t.memoryview()).ctypes.data == t.data_ptr()
    assert plans == []  # nothing was copied for it
    (tmp_path / "rows").write_bytes(t.memoryview())
    with (tmp_path / "rows").open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for source in (
            bytearray(x),
            memoryview(x),
            pages,
            array.array("f", x.ravel()),
            pickle_buffer(x),
        ):
            with candle.strict():
                came = candle.asarray(source, copy=False)
            raw = came.view("uint8").flatten() if came.dtype != "uint8" else came.flatten()
            assert bytes(raw.memoryview()) == x.tobytes()
            assert np.frombuffer(source, "u1").ctypes.data == came.data_ptr()
            del came, raw, source


def pickle_buffer(x: Any) -> Any:
    import pickle

    return pickle.PickleBuffer(x)


class Offers:
    """One protocol, and a sequence that nobody may walk through."""

    def __init__(self, **protocols: Any) -> None:
        self.__dict__ |= protocols

    def _touched(self, *_: Any) -> Any:
        raise AssertionError("an element was touched")

    __getitem__ = __iter__ = __len__ = __float__ = __int__ = _touched


class WithArray(Offers):
    def __init__(self, x: Any) -> None:
        self.x = x

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.x


class WithDLPack(WithArray):
    __array__ = None

    def __dlpack_device__(self) -> Any:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.x.__dlpack__(**keywords)


def test_array_likes_are_never_walked_through() -> None:
    # Case 101: wjakob/nanobind#1165
    x = np.arange(200_000.0)
    for source in (
        Offers(__array_interface__=x.__array_interface__),
        Offers(__array_struct__=x.__array_struct__),
        WithArray(x),
        WithDLPack(x),
        x.view(Untouchable),
        memoryview(x),
        array.array("d", x),
    ):
        for take in (candle.asarray, candle.Tensor, lambda s: candle.asarray(s, dtype="float32")):
            before = live()["bytes"]
            t = take(source)
            assert t.shape == x.shape
            assert t[-1].item() == 199_999.0
            assert live()["bytes"] - before in (0, 4 * x.size)
            del t


def test_a_conversion_that_is_refused_keeps_nothing() -> None:
    # Case 101: wjakob/nanobind#1165. The overload that did not match leaked.
    before = live()
    for source in (
        np.zeros(10, "M8[s]"),
        np.ma.array([1, 2], mask=[0, 1]),
        np.zeros(3, "i4,f4"),
        [[1], [2, 3]],
        [np.zeros(2), np.zeros(3)],
        ["a"],
        [None],
        [1, "a"],
        [np.zeros(2), "a"],
    ):
        counts = sys.getrefcount(source)
        for _ in range(50):
            with pytest.raises((TypeError, ValueError, BufferError)):
                candle.asarray(source)
        assert sys.getrefcount(source) == counts
    assert live() == before
