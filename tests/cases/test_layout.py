"""Strides are never ignored: the values are the producer's, for every layout on every road."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from forked import in_fork
from offers import ROADS, Holder, offers

import candle
from candle.ledger import listening
from candle.testing import Producer, info, shares_memory
from candle.testing.capsules import managed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL = [shape for rank in range(5) for shape in itertools.product((0, 1, 2), repeat=rank)]


def numbers(dtype: str = "float32", shape: tuple[int, ...] = (4, 6, 5)) -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape)), dtype="int64").reshape(shape).astype(dtype)


# Views of any array of numpy of three axes.
VIEWS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "permuted": lambda x: x.transpose(1, 2, 0),
    "stepped": lambda x: x[::2, 1::3, ::2],
    "backward 0": lambda x: x[::-1],
    "backward 1": lambda x: x[:, ::-1],
    "backward 2": lambda x: x[..., ::-2],
    "backward all": lambda x: x[::-1, ::-1, ::-1],
    "backward, transposed": lambda x: x[::-1].T,
    "zero": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "zero, backward": lambda x: np.broadcast_to(x[::-1, :, :1], x.shape),
    "F, stepped": lambda x: np.asfortranarray(x)[::2],
    "extent 1": lambda x: x[2:3, :, 4:],
    "extent 1, stepped": lambda x: x[::3][:1],
    "offset": lambda x: x[1:, 2:, 3:],
    "diagonal": lambda x: x[1].diagonal(1),
    "0-d": lambda x: x[3, 2, 1, ...],
    "empty": lambda x: x[:, 2:2],
}


class Interface:
    def __init__(self, x: Any) -> None:
        self.x, self.__array_interface__ = x, x.__array_interface__


class Struct:
    def __init__(self, x: Any) -> None:
        self.x, self.__array_struct__ = x, x.__array_struct__


IN: dict[str, Callable[[Any], candle.Tensor]] = {
    "numpy": candle.asarray,
    "from_dlpack": candle.from_dlpack,
    "interface": lambda x: candle.asarray(Interface(x)),
    "struct": lambda x: candle.asarray(Struct(x)),
    "buffer": lambda x: candle.asarray(memoryview(x)),
    "capsule": lambda x: candle.from_dlpack(x.__dlpack__(max_version=(1, 0))),
    "torch": lambda x: candle.asarray(pytest.importorskip("torch").from_numpy(x)),
    "list": lambda x: candle.asarray(list(x)) if x.ndim and len(x) else candle.asarray(x),
    "copied": lambda x: candle.asarray(x, copy=True),
    "cast": lambda x: candle.asarray(x, dtype="float64"),
    "C order": lambda x: candle.from_dlpack(x, order="C"),
}


def _assigned(t: candle.Tensor) -> candle.Tensor:
    into = candle.zeros(tuple(2 * n for n in t.shape), dtype=t.dtype)[
        (slice(None, None, 2),) * t.ndim
    ]
    into[...] = t
    return into


OUT: dict[str, Callable[[candle.Tensor], Any]] = {
    "tolist": lambda t: t,
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "np.from_dlpack": np.from_dlpack,
    "legacy": lambda t: np.from_dlpack(Holder(t.__dlpack__())),
    "memoryview": lambda t: t.memoryview(),
    "torch": lambda t: t.torch(),
    "jax": lambda t: np.asarray(t.jax()),
    "copy": lambda t: t.copy(),
    "contiguous": lambda t: t.contiguous(),
    "candle": lambda t: candle.from_dlpack(t.__dlpack__()),
    "assigned": _assigned,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.filterwarnings("ignore::candle.ReadOnlyCopyWarning")
def test_values_on_every_road(view: str) -> None:
    # Cases 38, 40, 41: NVIDIA/TensorRT-Incubator#229, dmlc/dgl#153, tensorflow/tensorflow#36862,
    # rapidsai/cudf#10849, rapidsai/cudf#10754, IntelPython/dpctl#1241
    for framework in ("torch", "jax"):
        pytest.importorskip(framework)
    for dtype in ("float32", "int16", "uint8"):
        x = VIEWS[view](numbers(dtype))
        wanted = x.tolist()
        for way_in, take in IN.items():
            if way_in == "torch" and (any(s < 0 for s in x.strides) or not x.flags.writeable):
                continue
            t = take(x)
            assert t.tolist() == wanted, way_in
            for way_out, give in OUT.items():
                if way_out == "jax" and str(t.dtype) == "float64":
                    continue
                assert give(t).tolist() == wanted, (way_in, way_out, dtype)


def layouts() -> Iterator[dict[str, Any]]:
    """What a producer says of 24 float32, in every order of axes."""
    for shape in ((24,), (4, 6), (2, 3, 4), (2, 1, 3, 4)):
        for axes in itertools.permutations(range(len(shape))):
            strides, step = [0] * len(shape), 1
            for axis in reversed(axes):
                strides[axis], step = step, step * shape[axis]
            yield {"shape": shape, "strides": strides}
            yield {"shape": shape, "strides": [3 * stride for stride in strides]}
            yield {"shape": shape, "strides": [0, *strides[1:]]}


def test_positive_strides_are_shared() -> None:
    # Case 39: jax-ml/jax#8082, jax-ml/jax#7657
    for arguments in layouts():
        for offer in offers(**arguments):
            t = candle.from_dlpack(offer.x, copy=False)
            assert t.data_ptr() == offer.producer.address
            fields = info(t.__dlpack__(max_version=(1, 3), copy=False))
            for extent, came, went in zip(
                t.shape, arguments["strides"], fields.strides, strict=True
            ):
                assert extent == 1 or came == went, arguments
            at = [
                sum(i * s for i, s in zip(place, arguments["strides"], strict=True))
                for place in np.ndindex(*t.shape)
            ]
            assert t.copy().flatten().tolist() == at


def backward() -> Iterator[np.ndarray[Any, Any]]:
    """Every choice of axes of three that run backward, in several dtypes."""
    for dtype, signs in itertools.product(
        ("float32", "int64", "bool", "complex64", "uint16"), itertools.product((1, -1), repeat=3)
    ):
        if -1 in signs:
            yield numbers(dtype, (2, 3, 4))[tuple(slice(None, None, sign) for sign in signs)]


def test_no_consumer_gets_a_negative_stride() -> None:
    # Cases 29, 30, 31: pytorch/pytorch#188023, pytorch/pytorch#188047,
    # scikit-learn/scikit-learn#34307, pytorch/pytorch#92680, pytorch/pytorch#33254,
    # tensorflow/tensorflow#51598, cupy/cupy#5665
    torch = pytest.importorskip("torch")

    def take() -> None:  # torch 2.13 ends the process that gives it one
        for x in backward():
            t = candle.asarray(x)
            assert t.data_ptr() == x.ctypes.data
            assert t.tolist() == x.tolist()
            for max_version in (None, (1, 3)):
                plans: list[candle.Plan] = []
                with listening(plans.append):
                    fields = info(t.__dlpack__(max_version=max_version))
                assert min(fields.strides or ()) > 0
                assert [str(r.code) for plan in plans for r in plan.reasons] == ["negative_stride"]
                with pytest.raises(BufferError, match=r"axis \d has stride -\d"):
                    t.__dlpack__(max_version=max_version, copy=False)
            for y in (
                torch.from_dlpack(t),
                torch.asarray(t),
                t.torch(),
                candle.convert(t, "torch"),
            ):
                assert y.tolist() == x.tolist()
            with pytest.raises(candle.CopyError, match=r"axis \d has stride -\d"):
                t.torch(copy=False)

    in_fork(take)


def test_a_negative_stride_that_means_nothing_is_shared() -> None:
    # Case 29: pytorch/pytorch#188023. On an extent of 1, or where there are no elements.
    torch = pytest.importorskip("torch")
    x = numbers("int32", (5, 6))
    for view in (x[4::-5], x[:, 5::-7], x[2:2, ::-1], x[3:2:-1, 1:0:-1]):
        t = candle.asarray(view)
        y = torch.from_dlpack(t)
        assert y.tolist() == view.tolist()
        assert all(stride >= 0 for stride in y.stride())
        if view.size:
            assert y.data_ptr() == view.ctypes.data
        assert np.from_dlpack(t).tolist() == view.tolist()


def flag_tests() -> Iterator[tuple[np.ndarray[Any, Any], candle.Tensor]]:
    for shape in SMALL:
        for make in (
            np.zeros,
            lambda s: np.zeros(s, order="F"),
            lambda s: np.zeros((2,) * len(s))[tuple(slice(n) for n in s)],
        ):
            x = make(shape)
            yield x, candle.asarray(x)


def test_contiguity_is_numpys() -> None:
    # Cases 32, 33: pytorch/pytorch#83069, pytorch/pytorch#83158, pytorch/pytorch#99803,
    # tensorflow/tensorflow#61184, apache/tvm#14797, triton-inference-server/python_backend#281
    seen = 0
    for x, t in flag_tests():
        seen += 1
        assert t.is_contiguous() == x.flags.c_contiguous, (x.shape, x.strides)
        assert t.is_fortran_contiguous() == x.flags.f_contiguous, (x.shape, x.strides)
        assert t.flags.c_contiguous == x.flags.c_contiguous
        assert t.contiguous().is_contiguous()
        if x.flags.c_contiguous and x.size:
            assert t.contiguous().data_ptr() == t.data_ptr()
    assert seen == 3 * 121


def test_strides_of_extents_of_1_are_canonical() -> None:
    # Cases 32, 33, 95: pytorch/pytorch#83069, pytorch/pytorch#99803,
    # tensorflow/tensorflow#61184, pytorch/pytorch#162113
    junk = (77, -5, 0, 2**40)
    for shape in [s for s in SMALL if s and 1 in s]:
        compact = [int(np.prod([n or 1 for n in shape[i + 1 :]])) for i in range(len(shape))]
        for odd in junk:
            strides = [odd if n == 1 else s for n, s in zip(shape, compact, strict=True)]
            t = candle.from_dlpack(Producer(shape=shape, strides=strides))
            assert t.is_contiguous(), (shape, strides)
            for max_version in (None, (1, 3)):
                fields = info(t.__dlpack__(max_version=max_version))
                assert list(fields.strides or ()) == compact, (shape, strides)
    t = candle.arange(16)[::3][:1]
    assert info(t.__dlpack__()).strides == (1,)
    assert t.is_contiguous()


def test_no_strides_mean_row_major() -> None:
    # Cases 34, 35: cupy/cupy#2095, pytorch/pytorch#18510, dmlc/dlpack#178
    for rank in range(5):
        for shape in itertools.product((1, 2, 3), repeat=rank):
            wanted = np.arange(int(np.prod(shape))).reshape(shape).tolist()
            for version in ((1, 0), (1, 3)):
                for offer in offers(shape=shape, strides=None, version=version):
                    t = candle.from_dlpack(offer.x)
                    assert t.tolist() == wanted
                    assert t.is_contiguous()
                    for max_version in (None, (1, 3)):
                        for view in (t, t.T if rank == 2 else t[...]):
                            went = info(view.__dlpack__(max_version=max_version)).strides
                            assert went is not None or view.ndim == 0
                            assert len(went or ()) == view.ndim
    for source in (np.arange(6, dtype="int8").reshape(2, 3), candle.arange(6).reshape(2, 3)):
        capsule = source.__dlpack__()  # whose struct another takes away its strides
        managed(capsule).dl_tensor.strides = None
        assert candle.from_dlpack(capsule).tolist() == [[0, 1, 2], [3, 4, 5]]


def uneven() -> Iterator[np.ndarray[Any, Any]]:
    """Arrays with a stride in bytes that is no multiple of the item."""
    yield numbers("float32", (2, 7))[:, :6].view("complex64")
    yield numbers("uint8", (3, 10))[:, :8].view("float64")
    yield numbers("int16", (4, 5))[:, :4].view("int32")[::-1]
    record = np.zeros(5, [("flag", "u1"), ("value", "<i4"), ("more", "<f8")])
    record["value"] = [5, -6, 7, 8, 9]
    yield record["value"]
    record["more"] = 0.5
    yield record["more"][1:]


def test_strides_between_items_are_not_divided() -> None:
    # Case 36: wjakob/nanobind#487, wjakob/nanobind#489
    for x in uneven():
        assert any(s % x.itemsize for s in x.strides)
        for take in (
            candle.asarray,
            candle.Tensor,
            lambda x: candle.asarray(Interface(x)),
            lambda x: candle.asarray(Struct(x)),
            lambda x: candle.asarray(memoryview(x)),
            candle.from_dlpack,
        ):
            assert take(x).tolist() == x.tolist()
            assert take(x).data_ptr() != x.ctypes.data
        for source in (x, Interface(x), memoryview(x)):
            with pytest.raises(BufferError, match="stride"):
                candle.asarray(source, copy=False)


def test_writing_where_elements_are_one() -> None:
    # Case 37: pytorch/pytorch#1424, numpy/numpy#4868, numpy/numpy#14808
    torch = pytest.importorskip("torch")
    for make in (
        lambda: candle.zeros((3, 1)).broadcast_to((3, 4)),
        lambda: candle.asarray(torch.zeros(1, 4).expand(3, 4)),
        lambda: candle.from_dlpack(Producer(bytes(4096), shape=(3, 4), strides=(4, 0))),
        lambda: candle.zeros(()).broadcast_to((3, 4)),
    ):
        b = make()
        assert not b.readonly
        for max_version in (None, (1, 3)):
            fields = info(b.__dlpack__(max_version=max_version))
            assert (fields.data, 0 in (fields.strides or ())) == (b.data_ptr(), True)
            assert fields.flags in (None, 0)
        assert torch.from_dlpack(b).data_ptr() == b.data_ptr()
        for write in (
            lambda b: b.fill_(1),
            lambda b: b.__setitem__(..., 1),
            lambda b: b.__iadd__(1),
            lambda b: b.copy_(candle.ones((3, 4))),
            lambda b: b[1:].fill_(1),
        ):
            with pytest.raises(ValueError, match=r"stride 0|several|same memory|broadcast"):
                write(b)
        assert not any(b.flatten().tolist())
        b[0, 0] = 2.0  # one element is one place
        assert b[0, 0].item() == 2.0
    frozen = candle.asarray(np.broadcast_to(np.zeros(3), (4, 3)))
    assert frozen.readonly
    assert candle.asarray(bytes(3)).broadcast_to((2, 3)).readonly


def test_fortran_order_goes_out_as_it_is() -> None:
    # Case 41: IntelPython/dpctl#1241
    torch = pytest.importorskip("torch")
    for shape, dtype in (((4, 25), "float32"), ((3, 4, 5), "int8"), ((2, 3, 4, 5), "complex128")):
        x = np.asfortranarray(numbers(dtype, shape))
        t = candle.asarray(x)
        steps = tuple(s // x.itemsize for s in x.strides)
        assert t.stride == steps
        assert torch.from_dlpack(t).stride() == t.torch().stride() == steps
        assert np.from_dlpack(t).strides == t.numpy().strides == np.asarray(t).strides == x.strides
        assert t.memoryview().strides == x.strides
        assert info(t.__dlpack__()).strides == steps
        for y in (torch.from_dlpack(t), np.from_dlpack(t)):
            assert y.tolist() == x.tolist()
            assert shares_memory(y, x)


def test_the_same_layout_is_the_same_on_every_device() -> None:
    # Case 42: NVIDIA/warp#420. Nothing is read here: the addresses of devices lead nowhere.
    address = 0x10000000
    block = ctypes.create_string_buffer(8192)
    host = ctypes.addressof(block)
    host += -host % 256
    for shape, strides in (
        ((6, 4), (1, 4)),
        ((2, 3, 4), (1, 2, 6)),
        ((4, 1), (5, 99)),
        ((3,), (2,)),
        ((2, 2), None),
        ((4, 3), (0, 1)),
    ):
        for dtype in ((0, 32), (2, 16), (5, 128)):
            seen = []
            for device, where in (
                ((1, 0), host),
                ((2, 0), address),
                ((2, 1), address),
                ((3, 0), host),
                ((10, 0), address),
                ((8, 0), address),
                ((14, 2), address),
            ):
                producer = Producer(where, shape=shape, strides=strides, dtype=dtype, device=device)
                t = candle.from_dlpack(producer.capsule())
                view = t.T if t.ndim == 2 else t[1:]
                seen.append(
                    (
                        t.shape,
                        t.stride,
                        t.is_contiguous(),
                        view.stride,
                        t.data_ptr() - where,
                        view.data_ptr() - where,
                    )
                )
                del t, view
            assert len(set(seen)) == 1, (shape, strides, dtype, seen)


def test_roads_are_as_many_as_there_are() -> None:
    # Case 38: NVIDIA/TensorRT-Incubator#229. Nested lists of any layout, by every road of DLPack.
    x = numbers("float32", (2, 3, 4))
    for view in (x.transpose(2, 0, 1), x[:, ::2], x[1], x[..., 1:]):
        steps = [s // 4 for s in view.strides]
        first = view.ctypes.data - x.ctypes.data
        for road in ROADS:
            for split in (0, first):
                [(_, producer, y)] = offers(
                    road,
                    shape=view.shape,
                    strides=steps,
                    byte_offset=split,
                    data=x.ctypes.data + first - split,
                    keep=x,
                )
                assert candle.from_dlpack(y).tolist() == view.tolist()
                assert producer.exports == 1
