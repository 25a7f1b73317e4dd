"""Every dtype cast to every other, held against exact fractions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cast_digests
import children
import ml_dtypes
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
        (3.0, "float8_e8m0fnu", 4.0),
        (1.5, "float8_e8m0fnu", 2.0),
        (0.75, "float8_e8m0fnu", 1.0),
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


def test_e8m0_ties_go_up_as_ml_dtypes_and_arithmetic_have_them() -> None:
    """All ties there are, by every dtype that holds them, and what is next to them in float32."""
    ties = np.array([1.5 * 2.0**k for k in range(-129, 128)])
    single = ties.astype("float32")
    normal = single[3:]  # of subnormal floats ml_dtypes 0.6 takes the one below the tie up too
    beside = np.concatenate([single, np.nextafter(normal, 0), np.nextafter(normal, np.inf)])
    for source in ("float64", "float32", "float16", "int64", "int8", "uint16"):
        with np.errstate(all="ignore"):
            x = beside if source == "float32" else ties.astype(source)
        if "int" in source:
            x = np.array([0, 1, *(3 << k for k in range(6 if source == "int8" else 14))], source)
        with np.errstate(all="ignore"):
            expected = x.astype(ml_dtypes.float8_e8m0fnu).view("u1")
        for given in (x, np.repeat(x, 2)[::2]):
            codes = candle.asarray(given).to("float8_e8m0fnu").view("uint8").numpy()
            assert np.array_equal(codes, expected), source
    for tie in (3.0, 1.5, 0.75, 384.0):
        low = candle.tensor([tie / 3]).to("float8_e8m0fnu")
        high = candle.tensor([tie / 3 * 2]).to("float8_e8m0fnu")
        assert (low + high).tolist() == candle.tensor([tie]).to("float8_e8m0fnu").tolist()
        assert candle.full(1, tie, dtype="float8_e8m0fnu").tolist() == (low + high).tolist()


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
    for name in ("bool", "float64", "bfloat16", "int4", "complex64", "complex128"):
        if name != source and (source not in COMPLEX or name in (*COMPLEX, "bool")):
            result = candle.asarray(foreign, dtype=name)
            assert rounding.differences(native, array_of(result), name) == []


# All codes, against numpy and ml_dtypes: those round once from what float32 holds exactly.

SHORT = [
    name
    for name in NAMES
    if name not in (*INTEGERS, *COMPLEX, "float8_e8m0fnu") and 8 <= rounding.bits_of(name) <= 32
]
WITH_NAN = [name for name in SHORT if name not in ("bool", "float32")]


@pytest.mark.parametrize("source", [name for name in SHORT if name != "bool"])
@pytest.mark.parametrize("name", ["float64", "float32", *WITH_NAN])
def test_all_codes_round_like_ml_dtypes(source: str, name: str) -> None:
    if source == name:
        return
    array = cast_digests.source(source)
    info = ml_dtypes.finfo(rounding.numpy_dtype(name))
    with np.errstate(all="ignore"):
        numbers = array.astype(np.float64)
        want = array.astype(np.float32).astype(rounding.numpy_dtype(name))
    got = cast_digests.cast(array, name)
    code = rounding.codes(want)
    nan = rounding.is_quiet_nan(got, name)
    largest = float(info.max)
    half = 2.0 ** (int(np.frexp(largest)[1]) - info.nmant - 2)
    is_even = int(np.array(info.max).view(got.dtype)) % 2 == 0
    magnitude = np.abs(numbers)
    beyond = magnitude > largest + half if is_even else magnitude >= largest + half
    beyond |= np.isinf(numbers)
    inside = ~beyond & ~np.isnan(numbers)
    np.testing.assert_array_equal(got[inside], code[inside])
    assert nan[np.isnan(numbers)].all()
    with np.errstate(all="ignore"):
        infinite = np.isinf(want.astype(np.float64)).any() or name.endswith(
            ("e5m2", "e4m3", "e3m4")
        )
    if infinite:
        decoded = got.view(want.dtype).astype(np.float64)[beyond]
        np.testing.assert_array_equal(decoded, np.copysign(np.inf, numbers[beyond]))
    else:
        assert nan[beyond].all()


@pytest.mark.parametrize("source", ["float64", *(name for name in SHORT if name != "bool")])
@pytest.mark.parametrize("name", [name for name in INTEGERS if rounding.bits_of(name) >= 8])
def test_all_codes_truncate_like_numpy_after_clip(source: str, name: str) -> None:
    array = cast_digests.source(source)
    info = np.iinfo(name)
    with np.errstate(all="ignore"):
        numbers = array.astype(np.float64)
        whole = np.trunc(np.where(np.isnan(numbers), 0, numbers))
        beyond = 2.0 ** (info.bits - (info.min < 0))
        inside = np.where((whole >= beyond) | (whole < info.min), 0, whole).astype(name)
    want = np.where(whole >= beyond, info.max, np.where(whole < info.min, info.min, inside))
    np.testing.assert_array_equal(candle.asarray(array).to(name).numpy(), want.astype(name))


@pytest.mark.parametrize("source", ["float64", "int64", "uint64", "int32", "uint32"])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_beside_the_middle_of_neighbours(source: str, name: str) -> None:
    array = cast_digests.source(source)
    picked = np.random.default_rng(4).permutation(array)[:3000]
    assert rounding.differences(picked, array_of(tensor_of(picked).to(name)), name) == []


# The same bits whatever instructions are used, and however many elements there are.


def test_every_level_of_instructions_gives_the_same_bits() -> None:
    program = Path(cast_digests.__file__)
    best = json.loads(children.run_child(program, CANDLE_SIMD="").check())
    for level in ("avx2", "baseline"):
        digests = json.loads(children.run_child(program, CANDLE_SIMD=level).check())
        assert [pair for pair in best if best[pair] != digests[pair]] == []
    assert cast_digests.digests() == best


COUNTED = ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("source", [*COUNTED, "int4", "float8_e4m3fn", "complex64", "complex128"])
def test_few_elements_at_any_address(source: str) -> None:
    guard = 64
    array = np.random.default_rng(5).permutation(cast_digests.source(source))[:70]
    for name in (*COUNTED, "float8_e4m3fn", "float8_e8m0fnu", "complex64", "complex128"):
        if name == source or (source in COMPLEX and name not in (*COMPLEX, "bool")):
            continue
        dtype = rounding.numpy_dtype(name)
        whole = cast_digests.cast(array, name)
        for count in range(array.size + 1):
            shift = count % 17
            memory = np.zeros(array.nbytes + shift, np.uint8)
            unaligned = memory[shift : shift + count * array.itemsize].view(array.dtype)
            unaligned[...] = array[:count]
            read = rounding.codes(candle.asarray(unaligned, dtype=name).numpy())
            assert read.tobytes() == whole[:count].tobytes(), (name, count)

            result = np.full(2 * guard + 100 * dtype.itemsize, 0xA5, np.uint8)
            start = guard + count % 7 * rounding.numpy_dtype(COMPLEX.get(name, name)).itemsize
            stop = start + count * dtype.itemsize
            target = candle.asarray(result[start:stop].view(dtype), copy=False)
            target.copy_(candle.asarray(array[:count]))
            assert result[start:stop].tobytes() == whole[:count].tobytes(), (name, count)
            assert (result[:start] == 0xA5).all()
            assert (result[stop:] == 0xA5).all()


def fits(value: float, name: str) -> bool:
    """Whether an integer dtype holds a Python float, once its fraction is cut; others hold any."""
    if "int" not in name:
        return True
    width = int(name.split("int")[1]) - (name[0] == "i")
    return abs(value) < np.inf and -(2**width) * (name[0] == "i") <= math.trunc(value) < 2**width


@pytest.mark.parametrize("name", NAMES)
def test_numbers_become_the_codes_that_runs_become(name: str) -> None:
    component = COMPLEX.get(name, name)
    array = np.random.default_rng(6).permutation(cast_digests.source("float64"))[:1000]
    if component == "float64":
        return
    array = array[[fits(value, component) for value in array.tolist()]]
    assert len(array) > 50
    codes = cast_digests.cast(array, component).tolist()
    assert [bits(value, name) for value in array.tolist()] == codes


def test_nan_keeps_its_sign_and_first_bits_where_there_are_infinities() -> None:
    nan = np.array([0x7FA00001, 0xFF812345], np.uint32).view(np.float32)
    wanted = {
        "float64": [0x7FFC000020000000, 0xFFF82468A0000000],
        "float16": [0x7F00, 0xFE09],
        "bfloat16": [0x7FE0, 0xFFC1],
        "float8_e5m2": [0x7F, 0xFE],
        "float8_e4m3": [0x7E, 0xFC],
        "float8_e4m3fn": [0x7F, 0xFF],
        "float8_e5m2fnuz": [0x80, 0x80],
    }
    for name, codes in wanted.items():
        assert cast_digests.cast(nan, name).tolist() == codes, name
    half = np.array([0x7D01, 0xFE00], np.uint16).view(np.float16)
    assert cast_digests.cast(half, "float32").tolist() == [0x7FE02000, 0xFFC00000]


# Elements one by one go by the same rules.


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_rounded_like_runs(name: str) -> None:
    component = COMPLEX.get(name, name)
    numbers = [0, 1, -0.0, 2.5, -3.25, 1e-9, 7.75, 1e300, float("inf"), float("-inf")]
    for value in numbers:
        want = rounding.rounded(value, component)
        if want is not None and fits(value, component):
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
