"""Every dtype cast to every other, held against exact fractions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import rounding
from rounding import COMPLEX, INTEGERS, NAMES, SMALL_FLOATS

import candle

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

PACKED = [name for name in (*INTEGERS, *SMALL_FLOATS) if rounding.bits_of(name) < 8]
REAL = [name for name in NAMES if name not in COMPLEX]


def elements(name: str) -> Array:
    """All of a small dtype, some of a dtype of 16 bits, the edges of a wide one."""
    if name == "bool":
        return np.arange(256, dtype=np.uint8).view(bool)
    if name == "complex32":
        halves = np.arange(0, 2**16, 113, dtype=np.uint16)
        return halves[: halves.size // 2 * 2].view(rounding.numpy_dtype(name))
    if rounding.bits_of(name) > 16:
        return rounding.edge_values(name, count=100)
    every = rounding.every_code(name)
    return every if every.size <= 256 else np.concatenate([every[::61], every[-1:]])


def tensor_of(array: Array) -> candle.Tensor:
    if array.dtype.names:
        return candle.asarray(array.view(np.uint32)).view("complex32")
    return candle.asarray(array)


def array_of(tensor: candle.Tensor) -> Array:
    halves = str(tensor.dtype) == "complex32"
    array: Array = (tensor.view("uint32") if halves else tensor).numpy()
    return array.view(rounding.numpy_dtype("complex32")) if halves else array


def bits(value: Any, name: str) -> int:
    """The code of one Python number cast by `fill_`."""
    tensor = candle.empty((1,), dtype=name)
    tensor.fill_(value)
    return int(rounding.codes(array_of(tensor)).ravel()[0])


@pytest.mark.parametrize("source", NAMES)
def test_every_pair_rounds_once(source: str) -> None:
    array = elements(source)
    tensor = tensor_of(array)
    for name in NAMES:
        if name != source and not (source in COMPLEX and name in REAL and name != "bool"):
            assert rounding.differences(array, array_of(tensor.to(name)), name) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_same_dtype_keeps_its_bits(name: str) -> None:
    array = elements(name)
    copied = array_of(tensor_of(array).copy())
    np.testing.assert_array_equal(rounding.codes(copied), rounding.codes(array))


@pytest.mark.parametrize("source", COMPLEX)
def test_complex_numbers_become_no_real_ones_but_bool(source: str) -> None:
    tensor = candle.asarray([1 + 2j, 0, 2j]).to(source)
    assert tensor.to("bool").tolist() == [True, False, True]
    for name in REAL:
        if name != "bool":
            with pytest.raises(BufferError, match=f"{source} does not become {name}"):
                tensor.to(name)


def test_fp4_pairs_stay_themselves() -> None:
    pairs = candle.asarray(np.arange(256, dtype=np.uint8)).view("float4_e2m1fn_x2")
    assert pairs[::-1].copy().view("uint8").tolist() == list(range(255, -1, -1))
    for name in ("float32", "float4_e2m1fn", "uint8"):
        with pytest.raises(BufferError):
            pairs.to(name)
        with pytest.raises(BufferError):
            candle.zeros((2,), dtype=name).to("float4_e2m1fn_x2")


# The rules by example. First of all what goes wrong by way of float32.


@pytest.mark.parametrize(
    ("dtype", "value", "name", "want"),
    [
        ("float64", 1 + 2**-8 + 2**-40, "bfloat16", 1 + 2**-7),
        ("float64", 1 + 2**-8, "bfloat16", 1.0),
        ("float64", 1 + 3 * 2**-8 - 2**-40, "bfloat16", 1 + 2**-7),
        ("float64", 1 + 2**-11 + 2**-40, "float16", 1 + 2**-10),
        ("float64", 65520 - 2**-20, "float16", 65504.0),
        ("float64", 2**-25 + 2**-60, "float16", 2**-24),
        ("float64", 1 + 2**-4 + 2**-40, "float8_e4m3fn", 1.125),
        ("int64", 2**62 + 2**54 + 1, "bfloat16", float(2**62 + 2**55)),
        ("int64", -(2**62) - 2**54 - 1, "bfloat16", -float(2**62 + 2**55)),
        ("uint64", 2**63 + 2**55 + 1, "bfloat16", float(2**63 + 2**56)),
        ("uint64", 2**63 + 2**39 + 1, "float32", float(2**63 + 2**40)),
        ("int64", 2**53 + 1, "float64", float(2**53)),
        ("int64", 2**11 + 1, "float16", 2048.0),
    ],
)
def test_one_rounding(dtype: str, value: float, name: str, want: float) -> None:
    array = np.array([value] * 3, dtype)
    assert candle.asarray(array).to(name).tolist() == [want] * 3
    tensor = candle.zeros((3,), dtype=name)
    tensor.fill_(value)
    assert tensor.tolist() == [want] * 3


@pytest.mark.parametrize(
    ("value", "name", "want"),
    [
        (65519.0, "float16", 65504.0),
        (65520.0, "float16", float("inf")),
        (-1e300, "bfloat16", float("-inf")),
        (464.0, "float8_e4m3fn", 448.0),
        (57344.0, "float8_e5m2", 57344.0),
        (61440.0, "float8_e5m2", float("inf")),
        (1e9, "float6_e3m2fn", 28.0),
        (float("-inf"), "float6_e2m3fn", -7.5),
        (float("inf"), "float4_e2m1fn", 6.0),
        (float("nan"), "float4_e2m1fn", 0.0),
        (1e-60, "float8_e8m0fnu", 2.0**-127),
        (3.0, "float8_e8m0fnu", 2.0),
        (1.5, "float8_e8m0fnu", 2.0),
        (0.75, "float8_e8m0fnu", 0.5),
        (1e10, "int32", 2**31 - 1),
        (-1e10, "int32", -(2**31)),
        (-1.0, "uint8", 0),
        (-0.99, "uint8", 0),
        (255.99, "uint8", 255),
        (2.0**63, "int64", 2**63 - 1),
        (2.0**64, "uint64", 2**64 - 1),
        (float("nan"), "int16", 0),
        (-7.9, "int4", -7),
        (99.0, "uint4", 15),
        (float("nan"), "bool", True),
        (-0.0, "bool", False),
        (1e-320, "bool", True),
    ],
)
def test_edges_of_the_range(value: float, name: str, want: float) -> None:
    assert candle.asarray(np.array([value])).to(name).tolist() == [want]


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz"]
)
def test_overflow_is_nan_where_there_is_no_infinity(name: str) -> None:
    values = candle.asarray([1e9, -1e9, float("inf"), float("nan")]).to(name).tolist()
    assert np.isnan(values).all()


def test_e8m0_has_no_zero_and_no_sign() -> None:
    values = candle.asarray([0.0, -0.0, -1.0, float("inf"), 1e300]).to("float8_e8m0fnu").tolist()
    assert np.isnan(values).all()


@pytest.mark.parametrize("name", [name for name in SMALL_FLOATS if name != "float8_e8m0fnu"])
def test_negative_zero_is_zero_where_it_would_be_nan(name: str) -> None:
    unsigned = name.endswith("fnuz")
    for value in (-0.0, -1e-60):
        assert bits(value, name) == (0 if unsigned else 1 << (rounding.bits_of(name) - 1))


def test_integers_wrap() -> None:
    wide = np.array([300, -1, 2**31, -(2**63), 2**63 - 1])
    for name in ("int8", "uint8", "int16", "uint32", "uint64", "int32"):
        assert candle.asarray(wide).to(name).tolist() == wide.astype(name).tolist()
    assert candle.asarray(wide).to("int4").tolist() == [-4, -1, 0, 0, -1]


def test_any_other_byte_is_true() -> None:
    array = np.array([0, 1, 2, 255], np.uint8).view(bool)
    assert candle.asarray(array).to("float32").tolist() == [0, 1, 1, 1]
    assert candle.asarray(array).to("int4").tolist() == [0, 1, 1, 1]
    assert candle.asarray(array).copy().view("uint8").tolist() == [0, 1, 2, 255]


@pytest.mark.parametrize(
    "source",
    ["int16", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128"],
)
def test_the_foreign_byte_order(source: str) -> None:
    native = elements(source)[:300]
    foreign = native.byteswap().view(native.dtype.newbyteorder())
    kept = candle.asarray(foreign).numpy()
    np.testing.assert_array_equal(rounding.codes(kept), rounding.codes(native))
    for name in ("float64", "bfloat16", "int4", "complex64", "complex128"):
        if name != source and (source not in COMPLEX or name in COMPLEX):
            result = candle.asarray(foreign, dtype=name)
            assert rounding.differences(native, array_of(result), name) == []


# Elements one by one go by the same rules.


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_rounded_like_runs(name: str) -> None:
    component = COMPLEX.get(name, name)
    numbers = [0, 1, -0.0, 2.5, -3.25, 1e-9, 7.75, 1e300, float("inf"), float("-inf")]
    for value in numbers:
        want = rounding.rounded(value, component)
        if want is not None:
            assert bits(value, name) == want, value


@pytest.mark.parametrize("name", NAMES)
def test_elements_are_read_exactly(name: str) -> None:
    array = elements(name)[:400]
    got = np.array(tensor_of(array).tolist())
    if name in COMPLEX:
        got = got.view(np.float64)
    want = np.array(rounding.numbers(array))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


# Strides on either side of a cast.


@pytest.mark.parametrize(
    "source", ["uint8", "float32", "float64", "complex64", "bfloat16", *PACKED]
)
@pytest.mark.parametrize("name", ["float32", "float16", "complex128", "int64", "bool", *PACKED])
def test_casts_of_strided_sides(source: str, name: str) -> None:
    if source == name or (source in COMPLEX and name in REAL and name != "bool"):
        return
    array = np.resize(np.arange(8), 720).astype(rounding.numpy_dtype(source)).reshape(10, 72)
    whole = rounding.codes(array_of(tensor_of(array.ravel()).to(name)))
    whole = whole.reshape(10, 72, *whole.shape[1:])
    tensor = tensor_of(array)
    packed = tensor.copy()
    for view in (np.s_[::-1], np.s_[:, ::2], np.s_[3::-2, 4::4], np.s_[::3]):
        for side in (tensor, packed):
            result = rounding.codes(array_of(side[view].to(name)))
            np.testing.assert_array_equal(result, whole[view])
        target = candle.zeros(packed[view].T.shape, dtype=name)
        target.copy_(packed[view].T)
        turned = rounding.codes(array_of(target))
        np.testing.assert_array_equal(turned, whole[view].swapaxes(0, 1))
