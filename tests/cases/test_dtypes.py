"""Element types keep their meaning: bool is bool, bfloat16 is bfloat16, and nothing is guessed."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from offers import ROADS, Holder, offers

import candle
from candle.ledger import listening
from candle.testing import Producer, info, shares_memory, take

if TYPE_CHECKING:
    from collections.abc import Callable


def test_bool_is_bool_both_ways() -> None:
    # Case 48: pytorch/pytorch#67081, pytorch/pytorch#94463, pytorch/pytorch#114673,
    # deepspeedai/DeepSpeed#1859, jax-ml/jax#4719, jax-ml/jax#19352,
    # triton-inference-server/server#5820
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    for shape in ((), (1,), (64,), (4, 8, 16), (0, 2)):
        x = np.arange(int(np.prod(shape))).reshape(shape) % 3 == 0
        x = np.asarray(x)
        sources = [x, torch.tensor(x), jax.numpy.asarray(x), memoryview(x), Holder(x.__dlpack__())]
        for source in sources:
            t = candle.asarray(source)
            assert (str(t.dtype), t.dtype.code, t.dtype.bits) == ("bool", 6, 8)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", candle.ReadOnlyCopyWarning)
                outs = [
                    t.numpy(),
                    np.asarray(t),
                    np.from_dlpack(t),
                    t.torch(),
                    torch.from_dlpack(t),
                    t.jax(),
                ]
            for y in outs:
                assert "bool" in str(y.dtype)
                assert y.tolist() == x.tolist()
            assert info(t.__dlpack__(max_version=(1, 3))).dtype == (6, 8, 1)
            assert t.memoryview().format == "?"
            assert t.__array_interface__["typestr"] == "|b1"
            if x.size and t.data_ptr() % 64 == 0:
                assert shares_memory(t.jax(), t)
    wide = candle.asarray(np.array([0, 1, 2, 255], "uint8"))
    assert wide.dtype == "uint8"  # never a bool by its values
    assert wide.to("bool").tolist() == [False, True, True, True]


# The dtypes that each road can carry: written down here, and not read off the code.
PLAIN = (
    "bool",
    *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)
COMPLEX = ("complex64", "complex128")
SMALL = (
    "bfloat16",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
TORCH = tuple(d for d in SMALL if d not in ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"))


class Interface:
    def __init__(self, t: Any) -> None:
        self.t, self.__array_interface__ = t, t.__array_interface__


HALVES = ("complex32",) if hasattr(ml_dtypes, "complex32") else ()
THROUGH: dict[str, tuple[Callable[[candle.Tensor], Any], tuple[str, ...]]] = {
    "DLPack": (lambda t: t.__dlpack__(max_version=(1, 3)), (*PLAIN, *COMPLEX, *SMALL, "complex32")),
    "legacy DLPack": (lambda t: t.__dlpack__(), (*PLAIN, *COMPLEX, *SMALL, "complex32")),
    "buffer": (lambda t: t.memoryview(), (*PLAIN, *COMPLEX)),
    "interface": (Interface, (*PLAIN, *COMPLEX)),
    "numpy": (lambda t: t.numpy(), (*PLAIN, *COMPLEX, *SMALL, *HALVES)),
    "numpy's array": (np.asarray, (*PLAIN, *COMPLEX, *SMALL, *HALVES)),
    "torch": (lambda t: t.torch(), (*PLAIN, *COMPLEX, *TORCH, "complex32")),
    "torch.from_dlpack": (
        lambda t: pytest.importorskip("torch").from_dlpack(t),
        (*PLAIN, *COMPLEX, *TORCH, "complex32"),
    ),
    "jax": (
        lambda t: t.jax(),
        tuple(
            d
            for d in (*PLAIN, *COMPLEX, *SMALL)
            if d not in ("int64", "uint64", "float64", "complex128")
        ),
    ),
    "Arrow": (lambda t: t.arrow(), (*PLAIN, *COMPLEX, *SMALL, "complex32")),
    "exchange table": (lambda t: t, (*PLAIN, *COMPLEX, *SMALL, "complex32")),
}


@pytest.mark.parametrize("road", THROUGH)
def test_every_road_has_every_dtype_it_can(road: str) -> None:
    # Case 49: NVIDIA/DALI#4756
    for framework in ("torch", "jax", "pyarrow"):
        pytest.importorskip(framework)
    through, carried = THROUGH[road]
    for name in (*PLAIN, *COMPLEX, *SMALL, "complex32"):
        t = candle.zeros((3, 64), dtype=name)
        t.view("uint8").copy_(
            candle.arange(t.nbytes).reshape(3, -1).to("uint8") % (2 if name == "bool" else 251)
        )
        if name not in carried:
            with pytest.raises((BufferError, AttributeError)):
                through(t)
            continue
        back = candle.asarray(through(t))
        assert back.dtype == name, name
        assert back.view("uint8").tolist() == t.view("uint8").tolist(), name
        bits = (road, name) == ("Arrow", "bool")  # Arrow's booleans are bits: copied
        assert (back.data_ptr() == t.data_ptr()) is not bits, name


def test_unknown_dtypes_are_refused_by_their_numbers() -> None:
    # Case 50: cupy/cupy#8801
    known = {
        0: {4, 8, 16, 32, 64},
        1: {4, 8, 16, 32, 64},
        2: {16, 32, 64},
        4: {16},
        5: {32, 64, 128},
        6: {8},
        **{fp8: {8} for fp8 in range(7, 15)},
        15: {6},
        16: {6},
        17: {4},
    }
    for code, bits in itertools.product(
        (*range(20), 77, 255), (0, 1, 2, 4, 6, 8, 12, 16, 32, 64, 80, 128, 255)
    ):
        for lanes in (1, 0, 3):
            if bits in known.get(code, ()) and lanes == 1:
                continue
            producer = Producer(shape=(2,), dtype=(code, bits, lanes))
            with pytest.raises(BufferError) as caught:
                candle.from_dlpack(producer)
            assert (
                str(code) in str(caught.value)
                or str(bits) in str(caught.value)
                or str(lanes) in str(caught.value)
            )
            assert producer.deletes == producer.exports == 1
    for road in ROADS:
        [(_, producer, x)] = offers(road, shape=(2,), dtype=(3, 64))
        with pytest.raises(BufferError):
            candle.from_dlpack(x)
        del x
        assert producer.deletes == producer.exports


def test_narrow_floats_are_never_taken_for_bytes() -> None:
    # Cases 51, 53: numpy/numpy#19808, numpy/numpy#31256, ml-explore/mlx#3974, ml-explore/mlx#323,
    # safetensors/safetensors#598
    for name in SMALL:
        for shape in ((5,), (3, 4), (), (2, 0)):
            t = candle.ones(shape, dtype=name)
            for x in (t.numpy(), np.asarray(t), t.T.numpy().T if t.ndim == 2 else t.numpy()):
                assert x.dtype == np.dtype(getattr(ml_dtypes, name))
                assert x.ctypes.data == t.data_ptr() or not t.size
                assert x.astype("float32").tolist() == np.ones(shape).tolist()
            with pytest.raises(AttributeError):
                t.__array_interface__  # noqa: B018
            with pytest.raises(BufferError, match=name):
                t.memoryview()
            with pytest.raises(TypeError):
                memoryview(t)
            with pytest.raises(TypeError):
                bytes(memoryview(t))


def test_arrays_of_ml_dtypes_come_in_shared() -> None:
    # Case 52: pytorch/pytorch#109873 (deepmodeling/deepmd-kit#3601)
    torch = pytest.importorskip("torch")
    for name in SMALL:
        base = np.zeros((6, 8), getattr(ml_dtypes, name))
        for x in (base, base.T, base[1::2, ::3], base[0, 0, ...], base[:0], base[::-1]):
            t = candle.asarray(x)
            assert (t.dtype, t.shape) == (name, x.shape)
            assert t.data_ptr() == x.ctypes.data or not x.size
            if name in TORCH and x.size and min(x.strides, default=1) > 0:
                y = t.torch()
                assert y.dtype == getattr(torch, name)
                assert y.data_ptr() == x.ctypes.data
    for scalar in (ml_dtypes.bfloat16(1.5), ml_dtypes.float8_e5m2(1.5)):
        assert candle.asarray(scalar).dtype == scalar.dtype.name
        assert candle.asarray([scalar, scalar]).tolist() == [1.5, 1.5]


def test_eight_bits_of_float_keep_their_kind() -> None:
    # Case 53: dmlc/dlpack#156, dmlc/dlpack#146, dmlc/dlpack#158, pytorch/pytorch#150691,
    # pytorch/pytorch#148791
    torch = pytest.importorskip("torch")
    kinds = {
        "float8_e4m3fn": 10,
        "float8_e4m3fnuz": 11,
        "float8_e5m2": 12,
        "float8_e5m2fnuz": 13,
        "float8_e8m0fnu": 14,
    }
    for name, code in kinds.items():
        raw = torch.arange(48, dtype=torch.uint8).reshape(6, 8)
        x = raw.view(getattr(torch, name))
        for view in (x, x.T, x[1:, ::2]):
            t = candle.from_dlpack(view)
            assert (t.dtype, info(t.__dlpack__()).dtype) == (name, (code, 8, 1))
            back = t.torch()
            assert back.dtype == view.dtype
            assert back.data_ptr() == view.data_ptr()
            assert back.view(torch.uint8).tolist() == view.view(torch.uint8).tolist()
        for other in set(kinds) - {name}:
            assert candle.from_dlpack(x).dtype != other
        assert candle.from_dlpack(x).dtype != "int8"
    pairs = raw.view(torch.float4_e2m1fn_x2)
    t = candle.from_dlpack(pairs)
    assert info(t.__dlpack__(max_version=(1, 3))).dtype == (17, 4, 2)
    assert t.shape == tuple(pairs.shape)
    assert t.torch().dtype == pairs.dtype
    for code, bits in ((15, 8), (16, 8), (17, 8), (17, 6), (10, 4), (18, 32)):
        with pytest.raises(BufferError):
            candle.from_dlpack(Producer(shape=(4,), dtype=(code, bits)))


def test_elements_below_a_byte_have_their_own_shape() -> None:
    # Case 54: dmlc/dlpack#75, dmlc/dlpack#158, zarrs/zarrs#454, openxla/xla#16795,
    # flashinfer-ai/flashinfer#4659
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    packed, padded = 0, 4
    for dtype, flags in itertools.product(((0, 4), (1, 4), (17, 4)), (packed, padded)):
        for shape in ((128,), (4, 32), (3, 5), (0, 4)):
            for offer in offers(
                "object", "exchange table", shape=shape, dtype=dtype, flags=flags, mode="versioned"
            ):
                t = candle.from_dlpack(offer.x)
                assert t.shape == shape  # never a guess at another
                for consumer in (lambda t: t.torch(), torch.from_dlpack, np.from_dlpack):
                    with pytest.raises((BufferError, RuntimeError, candle.CopyError)) as caught:
                        consumer(t)
                    assert "4" in str(caught.value) or "dtype" in str(caught.value).lower()
                fields = info(t.__dlpack__(max_version=(1, 3)))
                assert (fields.shape, fields.dtype[:2]) == (shape, dtype)
    for bits in (1, 2, 3, 5, 7):
        with pytest.raises(BufferError):
            candle.from_dlpack(Producer(shape=(4,), dtype=(0, bits)))
    pairs = candle.from_dlpack(Producer(shape=(4, 6), dtype=(17, 4, 2)))
    assert pairs.shape == (4, 6)
    with pytest.raises(BufferError):
        pairs.numpy()


def test_unsigned_integers_are_themselves() -> None:
    # Case 55: pytorch/pytorch#33831, TorchIO-project/torchio#764, Project-MONAI/MONAI#4639
    torch = pytest.importorskip("torch")
    for bits in (16, 32, 64):
        top = 2**bits - 1
        x = np.array([[0, 1], [top - 1, top], [2 ** (bits - 1), 7]], f"uint{bits}")
        for view in (x, x.T, x[::2]):
            t = candle.asarray(view)
            assert (t.dtype, t.data_ptr(), t.tolist()) == (
                f"uint{bits}",
                view.ctypes.data,
                view.tolist(),
            )
            y = t.torch()
            assert y.dtype == getattr(torch, f"uint{bits}")
            assert y.tolist() == t.numpy().tolist() == view.tolist()
            plans: list[candle.Plan] = []
            with listening(plans.append):
                cast = candle.asarray(view, dtype="float32")
            assert cast.tolist() == view.astype("float32").tolist()
            assert [str(r.code) for plan in plans for r in plan.reasons] == ["dtype"]
            assert [plan.nbytes for plan in plans] == [4 * view.size]  # one pass
    deep = np.full((128, 128, 1), 65535, "uint16")
    assert float(candle.asarray(deep, dtype="float32").torch().min()) == 65535.0


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_element_becomes_narrower_unasked() -> None:
    # Case 56: jax-ml/jax#11895
    jax = pytest.importorskip("jax")
    if jax.config.jax_enable_x64:
        pytest.skip("64 bits are enabled")
    for name in ("int64", "uint64", "float64", "complex128"):
        for shape in ((5,), (), (2, 3), (0,)):
            t = candle.ones(shape, dtype=name)
            for copy in (None, False, True):
                with pytest.raises(BufferError, match="jax_enable_x64") as caught:
                    t.jax(copy=copy)
                assert ".to(" in str(caught.value)
            with pytest.raises(BufferError, match="jax_enable_x64"):
                candle.convert([t], "jax")
            assert (
                t.to(f"{name[:-2]}32" if name != "complex128" else "complex64").jax().shape == shape
            )
    for name in ("int64", "float64", "uint64"):  # in, by every road, and out again
        for offer in offers(shape=(2,), dtype={"i": (0, 64), "f": (2, 64), "u": (1, 64)}[name[0]]):
            assert candle.from_dlpack(offer.x).dtype == name
            assert candle.from_dlpack(offer.producer).numpy().dtype == name


def test_complex_numbers_are_no_pairs() -> None:
    # Case 57: jax-ml/jax#9497, pytorch/pytorch#55365
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    for name in ("complex64", "complex128"):
        x = (np.arange(12) * (1 - 2j)).astype(name).reshape(3, 4)
        for t in (
            candle.asarray(x),
            candle.from_dlpack(torch.from_numpy(x.copy())),
            candle.asarray(memoryview(x)),
        ):
            assert (t.dtype, t.tolist()) == (name, x.tolist())
            assert t.torch().tolist() == t.numpy().tolist() == x.tolist()
            assert info(t.__dlpack__()).dtype == (5, 64 if name == "complex64" else 128, 1)
            for real in ("float32", "float64", "int64", "bfloat16"):
                for cast in (
                    lambda t=t, real=real: t.to(real),
                    lambda t=t, real=real: candle.asarray(t, dtype=real),
                    lambda t=t, real=real: candle.zeros((3, 4), dtype=real).copy_(t),
                ):
                    with pytest.raises(BufferError, match="complex"):
                        cast()
    assert candle.ones((2, 64), dtype="complex64").jax().dtype == "complex64"
    for dtype, lanes in itertools.product(
        ((2, 32), (0, 8), (2, 64), (6, 8), (5, 64)), (0, 2, 4, 16, 65535)
    ):
        for offer in offers(shape=(2,), dtype=(*dtype, lanes)):
            with pytest.raises(BufferError, match="lanes"):
                candle.from_dlpack(offer.x)


def test_arrow_columns_are_what_they_say() -> None:
    # Case 58: apache/arrow#38472, apache/arrow#50929
    pa = pytest.importorskip("pyarrow")
    for column in (
        pa.array([1, None, 3]),
        pa.array([None], pa.float64()),
        pa.array([True, None]),
        pa.array([[1, 2], [None, 3]], pa.list_(pa.int8(), 2)),
        pa.chunked_array([[1], [None]]),
    ):
        for take_it in (candle.asarray, candle.from_arrow, lambda x: candle.asarray(x, copy=True)):
            with pytest.raises(BufferError, match="null"):
                take_it(column)
    bits = pa.array([True, False, True, True] * 5)
    for view in (bits, bits[3:], bits[1:14]):
        plans: list[candle.Plan] = []
        with listening(plans.append):
            assert candle.asarray(view).tolist() == view.to_pylist()
        assert [str(r.code) for plan in plans for r in plan.reasons] == ["bitmap"]
        with pytest.raises(candle.CopyError):
            candle.asarray(view, copy=False)
    for kind in (pa.int8(), pa.uint16(), pa.float32(), pa.int64()):
        base = pa.array(range(20), kind)
        for view in (base, base[3:], base[7:11], base[20:]):
            t = candle.asarray(view, copy=False)
            assert (t.tolist(), t.readonly) == (view.to_pylist(), True)
            if len(view):
                start = view.buffers()[1].address + view.offset * t.itemsize
                assert t.data_ptr() == start


def test_what_was_taken_as_it_came_is_given_as_it_came() -> None:
    # Case 49: NVIDIA/DALI#4756. Each struct's dtype is the one that comes out again.
    for dtype in (
        (0, 4, 1),
        (17, 4, 1),
        (17, 4, 2),
        (15, 6, 1),
        (16, 6, 1),
        (5, 32, 1),
        (14, 8, 1),
    ):
        for offer in offers(shape=(8,), dtype=dtype):
            with take(candle.from_dlpack(offer.x).__dlpack__(max_version=(1, 3))) as taken:
                assert (
                    taken.struct.dl_tensor.dtype.code,
                    taken.struct.dl_tensor.dtype.bits,
                    taken.struct.dl_tensor.dtype.lanes,
                ) == dtype
