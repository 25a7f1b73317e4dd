"""Read-only memory stays read-only, and writable memory writable, on every road."""

from __future__ import annotations

import itertools
import mmap
import warnings
from typing import TYPE_CHECKING, Any

import meeting
import numpy as np
import pytest
from forked import in_fork
from offers import VERSIONED, offers

import candle
from candle.frameworks import target
from candle.ledger import listening
from candle.testing import Producer, info, shares_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READ_ONLY, IS_COPIED = 1, 2


def frozen(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    x = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    x.flags.writeable = False
    return x


class Interface:
    def __init__(self, x: Any) -> None:
        self.x = x
        self.__array_interface__ = x.__array_interface__


SOURCES: dict[str, Callable[[], Any]] = {
    "numpy": lambda: frozen("uint16", 4, 3),
    "numpy, transposed": lambda: frozen("complex64", 4, 3).T,
    "numpy, 0-d": lambda: frozen("float64"),
    "numpy, broadcast": lambda: np.broadcast_to(np.float32(2), (5, 2)),
    "bytes": lambda: bytes(range(12)),
    "read-only memoryview": lambda: memoryview(bytearray(24)).cast("d").toreadonly(),
    "read-only mmap": lambda: mmap.mmap(-1, 64, prot=mmap.PROT_READ),
    "array interface": lambda: Interface(frozen("int32", 2, 6)),
    "DLPack": lambda: Producer(shape=(3, 4), flags=READ_ONLY, mode="versioned"),
    "jax": lambda: pytest.importorskip("jax").numpy.arange(6, dtype="int32").reshape(2, 3),
    "pyarrow": lambda: pytest.importorskip("pyarrow").array([1.5, 2.5, 3.5]),
    "candle, unpickled": lambda: candle.asarray(bytes(8)).view("int16"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_exports_of_read_only_memory(kind: str) -> None:
    # Case 23: numpy/numpy#20742, numpy/numpy#22542
    t = candle.asarray(SOURCES[kind]())
    assert t.readonly
    for view in (t, t[...], t.flatten() if t.is_contiguous() else t.T):
        for copy in (None, False):
            fields = info(view.__dlpack__(max_version=(1, 0), copy=copy))
            assert (fields.flags, fields.data) == (READ_ONLY, view.data_ptr())
        plans: list[candle.Plan] = []
        with listening(plans.append):
            fields = info(view.__dlpack__())
        assert fields.data != view.data_ptr()
        assert [str(reason.code) for plan in plans for reason in plan.reasons] == ["read_only"]
        with pytest.raises(BufferError, match="read-only"):
            view.__dlpack__(copy=False)
        for max_version, flags in ((None, None), ((1, 3), IS_COPIED)):
            assert info(view.__dlpack__(max_version=max_version, copy=True)).flags == flags


def test_writable_memory_goes_out_writable() -> None:
    # Case 24: numpy/numpy#28599
    for make in (
        lambda: candle.zeros((3, 4), dtype="int64"),
        lambda: candle.zeros((3, 4), dtype="complex128").T,
        lambda: candle.zeros((4, 6), dtype="bool")[1:, ::2],
        lambda: candle.asarray(bytearray(16)),
        lambda: candle.asarray(np.zeros((2, 2), "f2")),
        lambda: candle.from_dlpack(Producer(bytes(4096), shape=(2, 2), mode="legacy")),
        lambda: candle.zeros((), dtype="uint8"),
    ):
        t = make()
        for out in (
            np.from_dlpack,
            np.asarray,
            lambda t: t.numpy(),
            lambda t: np.asarray(t.memoryview()),
        ):
            x = out(t)
            assert x.flags.writeable
            x[...] = 1
            assert t.flatten().tolist() == [1] * t.size
            t.fill_(0)
            assert not x.any()


def test_jax_arrays_are_read_only_though_they_do_not_say_so() -> None:
    # Case 25: jax-ml/jax#40789, scverse/anndata#2561
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(64, dtype="float32").reshape(8, 8)
    for t in (candle.from_dlpack(x), candle.asarray(x), candle.Tensor(x).T):
        assert t.readonly
        with pytest.raises(ValueError, match="read-only"):
            t[2:, 3] = 1
        assert shares_memory(t.jax(), x)
    source = candle.asarray(frozen("float32", 16, 16))
    plans: list[candle.Plan] = []
    with listening(plans.append):
        taken = jax.dlpack.from_dlpack(source)
    legacy = not meeting.jax_asks_for_versions()  # which cannot say read-only
    codes = [str(reason.code) for plan in plans for reason in plan.reasons]
    assert codes == (["read_only"] if legacy else [])
    assert not (legacy and shares_memory(taken, source))
    own = candle.empty((16, 16), dtype="float32")
    own[...] = source
    held = candle.from_dlpack(own.jax())
    assert held.data_ptr() == own.data_ptr()  # the named door shares
    for offer in offers("object", shape=(2,)):
        candle.from_dlpack(offer.x)
        assert offer.producer.calls[0].get("max_version", (0, 0))[0] == 1


WRITES: dict[str, Callable[[candle.Tensor], object]] = {
    "t[...] = number": lambda t: t.__setitem__(..., 0),
    "t[0] = tensor": lambda t: t.__setitem__(0, candle.zeros(t.shape[1:], dtype=t.dtype)),
    "masked": lambda t: t.__setitem__(candle.ones(t.shape, dtype="bool"), 0),
    "copy_": lambda t: t.copy_(candle.zeros(t.shape, dtype=t.dtype)),
    "fill_": lambda t: t.fill_(0),
    "+=": lambda t: t.__iadd__(1),
    "*=": lambda t: t.__imul__(2),
    "numpy's out=": lambda t: np.add(1, 1, out=t.numpy()),
    "ufunc's out=": lambda t: np.add(t, 1, out=t),
    "memoryview": lambda t: t.view("uint8").memoryview().cast("B").__setitem__(0, 1),
    "numpy()": lambda t: t.numpy().__setitem__(..., 0),
    "np.from_dlpack": lambda t: np.from_dlpack(t).fill(0),
    "reversed view": lambda t: t[::-1].fill_(0),
    "element": lambda t: t[1, 1, ...].fill_(0),
    "bytes": lambda t: t.view("uint8").fill_(0),
}


def test_nothing_writes_to_read_only_memory(tmp_path: Path) -> None:
    # Case 26: pytorch/pytorch#5442, pytorch/pytorch#33615, pytorch/pytorch#51870,
    # pytorch/pytorch#46741
    numbers = np.arange(12, dtype="float32").reshape(3, 4)
    numbers.tofile(tmp_path / "numbers")
    mapped = np.memmap(tmp_path / "numbers", "float32", "r", shape=(3, 4))
    fixed = frozen("float32", 3, 4)
    for x in (fixed, numbers.tobytes(), mapped, Interface(fixed)):
        t = candle.asarray(x)
        if t.ndim == 1:
            t = t.view("float32").view(3, 4)
        for name, write in WRITES.items():
            with pytest.raises((ValueError, TypeError), match=r"read-only|read.only|readonly"):
                write(t)
            assert t.tolist() == numbers.tolist(), name
    for offer in offers(*VERSIONED, shape=(3, 4), flags=READ_ONLY, mode="versioned"):
        t = candle.from_dlpack(offer.x)
        for name, write in WRITES.items():
            with pytest.raises((ValueError, TypeError), match=r"read-only|read.only|readonly"):
                write(t)
            assert t.tolist() == numbers.tolist(), (name, offer.road)


def test_torch_writes_to_its_own_copy_of_a_mapped_file(tmp_path: Path) -> None:
    # Case 26: pytorch/pytorch#5442. A write to the mapping itself would end the process.
    pytest.importorskip("torch")
    np.arange(60, dtype="int16").tofile(tmp_path / "numbers")

    def write() -> None:
        warnings.simplefilter("ignore")
        mapped = np.memmap(tmp_path / "numbers", "int16", "r", shape=(5, 12))
        with (tmp_path / "numbers").open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        for x in (mapped, mapped.T, mapped[::-1], pages, memoryview(mapped)):
            t = candle.asarray(x)
            before = t.tolist()
            for y in (t.torch(), t.torch(copy=True), candle.convert(t, "torch"), t.copy().torch()):
                y.zero_()
            assert t.tolist() == before

    in_fork(write)


def test_each_call_says_what_it_wants() -> None:
    # Case 27: pytorch/pytorch#178261, ray-project/ray#25106, ray-project/ray#47776,
    # ray-project/ray#29808
    torch = pytest.importorskip("torch")
    t = candle.asarray(frozen("int16", 3, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):  # named choices are never warned about
            assert t.torch(copy=False).data_ptr() == t.data_ptr()
            private = t.torch(copy=True)
            private += 1
            assert candle.asarray(t, copy=True).readonly is False
            assert candle.asarray(t, copy=False).readonly is True
            assert candle.asarray(t).data_ptr() == t.data_ptr()
    assert t.tolist() == np.arange(15).reshape(3, 5).tolist()
    target._told.clear()
    with pytest.warns(candle.ReadOnlyCopyWarning) as told:
        copies = [view.torch() for view in (t, t.T, t[1:])]
    assert t.data_ptr() not in {copied.data_ptr() for copied in copies}
    assert len(told) == 1
    assert "copy=True" in str(told[0].message)
    assert "copy=False" in str(told[0].message)
    assert isinstance(t.torch(copy=False), torch.Tensor)


def test_values_of_immutable_kinds_do_not_change() -> None:
    # Case 28: jax-ml/jax#19123, jax-ml/jax#30228. mlx, tensorflow: tests/integrations.
    jax, pa = pytest.importorskip("jax"), pytest.importorskip("pyarrow")
    pytest.importorskip("torch")
    target._told.add("torch")
    for dtype, printed in itertools.product(("int32", "bfloat16", "bool", "uint8"), (False, True)):
        x = jax.numpy.ones((3, 64), dtype)
        if printed:
            assert repr(x)
        t = candle.from_dlpack(x)
        for view in (t, t[1:], t.T, t.view("uint8")):
            with pytest.raises(ValueError, match="read-only"):
                view.fill_(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                view.torch().zero_()
        assert shares_memory(t.jax(), x)
        if not printed:
            assert repr(x)
        assert bool((x == 1).all())
    column = pa.array(range(50), pa.int64())
    t = candle.asarray(column)
    with pytest.raises(ValueError, match="read-only"):
        t[3] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t[3:].torch().zero_()
    assert column.to_pylist() == list(range(50))


def test_read_only_comes_back_read_only() -> None:
    # Case 26: pytorch/pytorch#5442. Of a consumer that keeps the flag, and through every view.
    t = candle.asarray(frozen("float64", 2, 4))
    again = candle.from_dlpack(candle.from_dlpack(np.from_dlpack(t)))
    assert again.readonly
    assert again.data_ptr() == t.data_ptr()
    views = (t.T, t[1:], t[0, 2, ...], t.view("int32"), t.reshape(8), t.broadcast_to((3, 2, 4)))
    for view in (*views, *t, t.unsqueeze(0), t.permute(1, 0), t[::-1], t.numpy()):
        came = candle.asarray(view)
        assert came.readonly
        assert candle.from_dlpack(came).readonly
