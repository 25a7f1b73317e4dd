"""The creation functions: values, dtypes, shapes, and what they refuse."""

from __future__ import annotations

import itertools
import math
import re

import pytest
from labels import label

import candle


def facts(t) -> tuple[object, object, str]:
    return t.tolist(), t.shape, str(t.dtype)


@pytest.mark.parametrize(("make", "value"), [(candle.zeros, 0.0), (candle.ones, 1.0)])
def test_zeros_and_ones(make, value):
    assert facts(make((2, 3))) == ([[value] * 3] * 2, (2, 3), "float32")
    assert facts(make(2, 3)) == facts(make([2, 3])) == facts(make(shape=(2, 3)))
    assert facts(make(3)) == facts(make((3,))) == ([value] * 3, (3,), "float32")
    assert facts(make(())) == (value, (), "float32")
    assert make((0, 3)).shape == (0, 3)
    assert make(2, dtype="i64").tolist() == [int(value)] * 2
    assert make(2, dtype=bool).tolist() == [bool(value)] * 2
    assert make(2, dtype="bf16", device="cpu").dtype is candle.bfloat16
    assert make(2).is_contiguous()
    assert not make(2).readonly


def test_empty():
    t = candle.empty(2, 3, dtype="f64")
    assert (t.shape, t.dtype, t.stride) == ((2, 3), candle.float64, (3, 1))
    assert t.data_ptr() % 256 == 0
    assert candle.empty((5,), align=4096).data_ptr() % 4096 == 0
    assert candle.empty(5, align=64).shape == (5,)


@pytest.mark.parametrize("align", [0, -1, 3, 96, 2**63, 2**70, 2**63 + 1, 1 << 90])
def test_empty_takes_powers_of_two(align):
    with pytest.raises(ValueError, match="power of 2"):
        candle.empty(3, align=align)


@pytest.mark.parametrize("make", [candle.zeros, candle.ones, candle.empty])
def test_wrong_shapes(make):
    with pytest.raises(ValueError, match="negative"):
        make((2, -1))
    with pytest.raises(ValueError, match="more elements"):
        make((1 << 40, 1 << 40))
    with pytest.raises(TypeError):
        make(2.5)
    with pytest.raises(TypeError):
        make((2.5,))
    with pytest.raises(TypeError):
        make()
    with pytest.raises(TypeError, match="not a dtype candle knows"):
        make(2, dtype="float")


def test_other_devices_are_refused_by_name():
    for make in (candle.zeros, candle.empty, candle.ones):
        with pytest.raises(BufferError, match=r"'metal:0'.*on the CPU and on CUDA"):
            make(2, device="metal")
    with pytest.raises(BufferError, match="on the CPU and on CUDA"):
        candle.arange(3, device=(10, 1))
    with pytest.raises(BufferError, match=r"DLPack device .*\(10, 0\)"):
        candle.tensor([1], device="rocm")
    with pytest.raises(ValueError, match="names no device"):
        candle.zeros(2, device="gpu")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(True, "bool"), (3, "int64"), (2.5, "float32"), (1 + 2j, "complex64")],
)
def test_full_takes_the_dtype_of_the_value(value, dtype):
    assert facts(candle.full((2, 2), value)) == ([[value] * 2] * 2, (2, 2), dtype)
    assert candle.full(3, value).shape == (3,)


def test_full():
    assert facts(candle.full(2, 3, dtype="f64")) == ([3.0, 3.0], (2,), "float64")
    assert candle.full((2, 2), [1, 2]).tolist() == [[1, 2], [1, 2]]
    assert candle.full((), 1 << 63, dtype="uint64").item() == 1 << 63
    with pytest.raises(ValueError, match="does not fit"):
        candle.full(2, 256, dtype="u8")
    with pytest.raises(ValueError, match="does not fit"):
        candle.full(2, 1 << 63)
    with pytest.raises(BufferError):
        candle.full(2, 1j, dtype="f32")


def test_full_of_a_numpy_scalar_keeps_its_dtype():
    np = pytest.importorskip("numpy")
    assert candle.full(2, np.float64(0.1)).dtype is candle.float64
    assert candle.full(2, np.int8(3)).dtype is candle.int8
    assert candle.full(2, np.bool_(True)).tolist() == [True, True]


def test_like():
    x = candle.asarray([[1, 2], [3, 4]], dtype="i16")
    assert facts(candle.zeros_like(x)) == ([[0, 0], [0, 0]], (2, 2), "int16")
    assert facts(candle.ones_like(x, dtype="f32")) == ([[1.0, 1.0]] * 2, (2, 2), "float32")
    assert facts(candle.full_like(x, 7)) == ([[7, 7], [7, 7]], (2, 2), "int16")
    assert facts(candle.full_like(x, 1.9)) == ([[1, 1], [1, 1]], (2, 2), "int16")
    assert (candle.empty_like(x).shape, candle.empty_like(x).dtype) == (x.shape, x.dtype)
    assert candle.empty_like(x[:, ::-1]).is_contiguous()
    with pytest.raises(BufferError, match="on the CPU and on CUDA"):
        candle.zeros_like(x, device="metal")


def test_like_takes_any_frameworks_tensor():
    torch = pytest.importorskip("torch")
    t = candle.zeros_like(torch.ones(2, 3, dtype=torch.bfloat16))
    assert (t.shape, t.dtype) == ((2, 3), candle.bfloat16)


@pytest.mark.parametrize(
    ("arguments", "values", "dtype"),
    [
        ((4,), [0, 1, 2, 3], "int64"),
        ((1, 4), [1, 2, 3], "int64"),
        ((5, 0, -2), [5, 3, 1], "int64"),
        ((0, 5, 2), [0, 2, 4], "int64"),
        ((3, 3), [], "int64"),
        ((4, 0), [], "int64"),
        ((0, -3), [], "int64"),
        ((2.0,), [0.0, 1.0], "float32"),
        ((0, 1, 0.25), [0.0, 0.25, 0.5, 0.75], "float32"),
        ((1.0, 0.0, -0.5), [1.0, 0.5], "float32"),
        (((1 << 62), (1 << 62) + 2), [1 << 62, (1 << 62) + 1], "int64"),
    ],
    ids=label,
)
def test_arange(arguments, values, dtype):
    assert facts(candle.arange(*arguments)) == (values, (len(values),), dtype)


def test_arange_of_a_dtype():
    assert facts(candle.arange(3, dtype="f16")) == ([0.0, 1.0, 2.0], (3,), "float16")
    assert facts(candle.arange(3, dtype="u8")) == ([0, 1, 2], (3,), "uint8")
    end = 1 << 64
    assert candle.arange(end - 2, end, dtype="u64").tolist() == [end - 2, end - 1]
    with pytest.raises(ValueError, match="does not fit"):
        candle.arange(300, dtype="u8")


def test_arange_is_made_in_parts():
    n = 100_000
    assert candle.arange(n).tolist() == list(range(n))
    t = candle.arange(7, 3 * n, 3, dtype="f64")
    assert t.tolist() == [float(x) for x in range(7, 3 * n, 3)]


def test_arange_rounds_once():
    t = candle.arange(0, 1, 0.1, dtype="f64")
    assert t.tolist() == [n * 0.1 for n in range(10)]


@pytest.mark.parametrize(
    "arguments", [(0, 5, 0), (0.0, 5.0, 0.0), (math.nan,), (math.inf,), (0, 1, math.nan)]
)
def test_arange_refuses(arguments):
    with pytest.raises(ValueError, match="arange"):
        candle.arange(*arguments)


def test_linspace():
    assert facts(candle.linspace(0, 1, 5)) == ([0.0, 0.25, 0.5, 0.75, 1.0], (5,), "float32")
    assert candle.linspace(0, 1, 4, endpoint=False).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert candle.linspace(2, 3, 1).tolist() == [2.0]
    assert candle.linspace(2, 3, 0).tolist() == []
    assert candle.linspace(3, 2, num=3, dtype="f64").tolist() == [3.0, 2.5, 2.0]
    assert facts(candle.linspace(0, 2j, 3)) == ([0j, 1j, 2j], (3,), "complex64")
    assert candle.linspace(0, 0.1, 30001, dtype="f64")[-1].item() == 0.1
    with pytest.raises(ValueError, match="negative"):
        candle.linspace(0, 1, -1)
    with pytest.raises(TypeError, match=r"\.to\('int64'\)"):
        candle.linspace(0, 1, 3, dtype="int64")


@pytest.mark.parametrize("k", range(-4, 5))
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (0, 3), (3, 0)])
def test_eye(shape, k):
    rows, cols = shape
    expected = [[float(j - i == k) for j in range(cols)] for i in range(rows)]
    assert facts(candle.eye(rows, cols, k=k)) == (expected, shape, "float32")


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn", "float6_e2m3fn"])
def test_eye_of_elements_below_a_byte(dtype):
    for rows, cols, k in itertools.product((1, 3, 4), (2, 3), range(-3, 4)):
        t = candle.eye(rows, cols, k=k, dtype=dtype)
        assert (t.dtype, t.shape, t.readonly) == (dtype, (rows, cols), False)
        assert t.tolist() == [[j - i == k for j in range(cols)] for i in range(rows)]


def test_eye_of_a_dtype():
    assert facts(candle.eye(2, dtype=bool)) == ([[True, False], [False, True]], (2, 2), "bool")


@pytest.mark.parametrize("k", range(-4, 5))
@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (0, 3), (3, 0)])
def test_triangles(shape, k):
    rows, cols = shape
    x = candle.arange(1, 1 + 2 * rows * cols).reshape((2, rows, cols))
    value = x.tolist()
    places = [(n, i, j) for n in range(2) for i in range(rows) for j in range(cols)]
    lower, upper = candle.tril(x, k=k), candle.triu(x, k=k)
    assert lower.shape == upper.shape == x.shape
    for n, i, j in places:
        assert lower[n, i, j].item() == (value[n][i][j] if j - i <= k else 0)
        assert upper[n, i, j].item() == (value[n][i][j] if j - i >= k else 0)
    assert x.tolist() == value


def test_triangles_take_matrices():
    with pytest.raises(ValueError, match="2 axes"):
        candle.tril(candle.ones(3))


def test_triangles_copy_read_only_and_transposed_memory():
    np = pytest.importorskip("numpy")
    a = np.arange(9.0).reshape(3, 3).T
    a.flags.writeable = False
    assert candle.tril(a).tolist() == np.tril(a).tolist()


def test_meshgrid():
    x, y = candle.meshgrid([1, 2], [3, 4, 5])
    assert facts(x) == ([[1, 2]] * 3, (3, 2), "int64")
    assert facts(y) == ([[3, 3], [4, 4], [5, 5]], (3, 2), "int64")
    x, y = candle.meshgrid([1, 2], [3, 4, 5], indexing="ij")
    assert x.tolist() == [[1, 1, 1], [2, 2, 2]]
    assert y.tolist() == [[3, 4, 5], [3, 4, 5]]
    x[0, 0] = 9
    assert x.tolist() == [[9, 1, 1], [2, 2, 2]]
    assert candle.meshgrid() == ()
    assert candle.meshgrid([1, 2])[0].tolist() == [1, 2]
    with pytest.raises(ValueError, match="vectors"):
        candle.meshgrid([[1]])
    with pytest.raises(ValueError, match="'xy' or 'ij'"):
        candle.meshgrid([1], indexing="yx")


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(2, 3), (2, 3, 4), (1, 2, 3, 4), (0, 2), (1, 1)])
def test_meshgrid_as_in_numpy(sizes, indexing):
    np = pytest.importorskip("numpy")
    vectors = [np.arange(n) * 10.0 for n in sizes]
    theirs = np.meshgrid(*vectors, indexing=indexing)
    for ours, expected in zip(candle.meshgrid(*vectors, indexing=indexing), theirs, strict=True):
        assert ours.shape == expected.shape
        assert ours.tolist() == expected.tolist()


def test_tensor_always_copies():
    x = candle.asarray([1, 2])
    y = candle.tensor(x)
    y[0] = 5
    assert x.tolist() == [1, 2]
    assert candle.tensor([[1, 2]], dtype="u32").dtype is candle.uint32
    assert not candle.tensor(b"ab").readonly


def test_needs_no_numpy(in_child):
    code = """
        import sys
        import candle
        m = candle.eye(3)
        candle.zeros(2), candle.ones((2, 3)), candle.full(2, 1), candle.arange(5), candle.empty(3)
        candle.linspace(0, 1, 3), candle.tril(m), candle.triu(m), candle.meshgrid([1], [2])
        candle.tensor([1.0]), candle.zeros_like(m), candle.cat([m, m]), candle.stack([m, m])
        assert "numpy" not in sys.modules
        candle.rand(2)
        assert "numpy" in sys.modules
    """
    in_child(code).check()


INTEGERS = {
    f"{'u' if low == 0 else ''}int{bits}": (low, high)
    for bits in (4, 8, 16, 32, 64)
    for low, high in ((0, 2**bits - 1), (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
}


def test_numbers_that_integers_do_not_hold_are_refused_everywhere():
    """Of a float what counts is what is left once its fraction is cut, as by `to`."""
    np = pytest.importorskip("numpy")
    from candle import array_api

    for name, (low, high) in INTEGERS.items():
        ways = {
            "full": lambda x, name=name: candle.full(2, x, dtype=name)[0],
            "full_like": lambda x, name=name: candle.full_like(candle.zeros(2, dtype=name), x)[0],
            "full_like, a dtype": lambda x, name=name: candle.full_like([1.0], x, dtype=name),
            "array_api.full": lambda x, name=name: array_api.full((1,), x, dtype=name),
            "tensor": lambda x, name=name: candle.tensor(x, dtype=name),
            "a list": lambda x, name=name: candle.tensor([x], dtype=name),
            "Tensor": lambda x, name=name: candle.Tensor([[x]], dtype=name),
            "fill_": lambda x, name=name: candle.zeros(2, dtype=name).fill_(x)[0],
            "assignment": lambda x, name=name: candle.zeros(1, dtype=name).__setitem__(..., x),
        }
        beyond = [float(high + 1), float(low - 1) if high < 2**53 else 2.0 * low - 1]
        for way, make in ways.items():
            for wrong in (math.nan, math.inf, -math.inf, 1e300, *beyond):
                with pytest.raises(ValueError, match=re.escape(f"{wrong!r} does not fit {name}")):
                    make(wrong)
            most = float(high) if high < 2**53 else math.nextafter(float(high), 0)
            fractions = (0.9, 0.5 - 1) if high < 2**50 else (0.0, 0.0)
            for held in (0.0, -0.0, most, most + fractions[0], low + fractions[1], 2.5, 5e-324):
                made = make(held)
                assert made is None or int(made.item()) == math.trunc(held), (way, name, held)
        for way in ("full", "full_like", "full_like, a dtype", "array_api.full"):
            for wrong in (np.float32(np.nan), np.float64(np.inf), np.float16(-np.inf), np.nan):
                with pytest.raises(ValueError, match=f"does not fit {name}"):
                    ways[way](wrong)
            assert ways[way](np.float32(2.5)).item() == 2
    with pytest.raises(ValueError, match="300 does not fit uint8"):
        candle.full(2, np.int64(300), dtype="uint8")
    assert candle.full(2, np.int8(-3)).dtype is candle.int8
    for name in ("float32", "float8_e4m3fn", "complex64"):
        assert math.isnan(candle.full(1, math.nan, dtype=name).to("complex64").item().real)
    assert candle.full(1, math.nan, dtype="bool").item() is True
    with pytest.raises(BufferError, match="times"):
        candle.full(1, np.datetime64("2020-01-01"), dtype="int64")
