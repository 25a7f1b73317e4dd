"""Casts worked out a second time, in exact fractions: what the copy engine is held against."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array = npt.NDArray[Any]

INTEGERS = {
    f"{sign}int{bits}": (bits, sign == "") for sign in ("", "u") for bits in (4, 8, 16, 32, 64)
}
IEEE = {"float32": (8, 23), "float64": (11, 52)}
SMALL_FLOATS = {
    "float16": 16,
    "bfloat16": 16,
    "float8_e3m4": 8,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 8,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
    "float4_e2m1fn": 4,
}
COMPLEX = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
REALS = (*IEEE, *SMALL_FLOATS)
NAMES = ("bool", *INTEGERS, *REALS, *COMPLEX)


def numpy_dtype(name: str) -> np.dtype:
    """The dtype of numpy or ml_dtypes; complex32 is two halves in a row there."""
    if name == "complex32":
        return np.dtype([("real", np.float16), ("imaginary", np.float16)])
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def bits_of(name: str) -> int:
    """Width of an element's code."""
    if name in INTEGERS:
        return INTEGERS[name][0]
    return SMALL_FLOATS.get(name) or numpy_dtype(name).itemsize * 8


def codes(array: Array) -> Array:
    """The elements' bits as unsigned integers, complex ones' components in an axis of their own."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "c" or array.dtype.names:
        size = array.itemsize // 2
        return array.view(f"u{size}").reshape(*array.shape, 2)
    return array.view(f"u{array.itemsize}")


def every_code(name: str) -> Array:
    """Every element of a dtype of at most 16 bits."""
    bits = bits_of(name)
    every = np.arange(2**bits, dtype=np.uint8 if bits <= 8 else np.uint16)
    return every.view(numpy_dtype(name))


def _doubles(array: Array) -> Array:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return array.astype(np.float64)


class Format(NamedTuple):
    """The numbers of a small float from 0 up, each the value of the code that is its index."""

    positive: list[Fraction]
    sign_bit: int
    infinity: int | None
    has_nan: bool
    has_negative_zero: bool


@cache
def _format(name: str) -> Format:
    every = _doubles(every_code(name))
    sign_bit = 1 << (SMALL_FLOATS[name] - 1)
    finite = [Fraction(float(x)) for x in every[:sign_bit] if np.isfinite(x)]
    infinite = np.flatnonzero(np.isposinf(every))
    return Format(
        finite,
        sign_bit,
        int(infinite[0]) if infinite.size else None,
        bool(np.isnan(every).any()),
        bool(every[sign_bit] == 0),
    )


def _nearest(sorted_values: Sequence[Fraction], magnitude: Fraction) -> int:
    """Index of the nearest value; of two equally near, the even one. Past the last: overflow."""
    above = bisect_right(sorted_values, magnitude)
    below = above - 1
    if above < len(sorted_values):
        upper = sorted_values[above]
    else:
        upper = 2 * sorted_values[-1] - sorted_values[-2]
    low, high = magnitude - sorted_values[below], upper - magnitude
    return below if low < high or (low == high and below % 2 == 0) else above


def _power_of_two(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _exponent(magnitude: Fraction) -> int:
    """Of the greatest power of two that is not above it."""
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return exponent - (magnitude < _power_of_two(exponent))


def _to_e8m0(value: float) -> int | None:
    if not value > 0 or math.isinf(value):
        return None
    exact = Fraction(value)
    exponent = _exponent(exact)
    power = _power_of_two(exponent)
    code = exponent + 127
    rest, half = exact - power, power / 2
    code += rest >= half
    return None if code > 254 else max(code, 0)


def _to_small_float(value: float, name: str) -> int | None:
    if name == "float8_e8m0fnu":
        return _to_e8m0(value)
    form = _format(name)
    nan = None if form.has_nan else 0
    if math.isnan(value):
        return nan
    negative = math.copysign(1, value) < 0
    sign = form.sign_bit if negative else 0
    largest = len(form.positive) - 1
    index = largest + 1 if math.isinf(value) else _nearest(form.positive, abs(Fraction(value)))
    if index > largest:
        if form.infinity is not None:
            return form.infinity | sign
        return None if form.has_nan else largest | sign
    if index == 0 and not form.has_negative_zero:
        return 0
    return index | sign


def _to_ieee(value: float, name: str) -> int | None:
    exponent_bits, mantissa_bits = IEEE[name]
    if math.isnan(value):
        return None
    sign = (math.copysign(1, value) < 0) << (exponent_bits + mantissa_bits)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    if math.isinf(value):
        return sign | infinity
    exact = abs(Fraction(value))
    if exact == 0:
        return sign
    lowest = 2 - (1 << (exponent_bits - 1))
    exponent = max(_exponent(exact), lowest)
    kept = round(exact / _power_of_two(exponent - mantissa_bits))
    return sign | min(((exponent - lowest) << mantissa_bits) + kept, infinity)


def _to_integer(value: float, name: str) -> int:
    bits, signed = INTEGERS[name]
    lowest = -(1 << (bits - 1)) if signed else 0
    highest = lowest + (1 << bits) - 1
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        whole = math.trunc(value) if math.isfinite(value) else value
        value = int(min(max(whole, lowest), highest))
    return value & ((1 << bits) - 1)


def rounded(value: float, name: str) -> int | None:
    """The code that an int or float becomes in a real dtype; None for NaN, whatever its payload."""
    if name == "bool":
        return int(value != 0)
    if name in INTEGERS:
        return _to_integer(value, name)
    return _to_ieee(value, name) if name in IEEE else _to_small_float(value, name)


def rounded_int(value: int, name: str) -> int | None:
    """The code of an int of any size, through no other type; infinity for what is too large."""
    exponent_bits, mantissa_bits = {**IEEE, "float16": (5, 10), "bfloat16": (8, 7)}.get(
        name, (5, 2)
    )
    if name not in (*IEEE, "float16", "bfloat16", "float8_e5m2"):
        raise ValueError(name)
    sign = (value < 0) << (exponent_bits + mantissa_bits)
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    size = abs(value)
    exponent = size.bit_length() - 1
    if exponent >= 1 << (exponent_bits - 1):
        return sign | infinity
    kept = round(Fraction(size, 1 << exponent) * (1 << mantissa_bits)) - (1 << mantissa_bits)
    bias = (1 << (exponent_bits - 1)) - 1
    return sign | min(((exponent + bias) << mantissa_bits) + kept, infinity)


def numbers(array: Array) -> list[Any]:
    """The elements as Python numbers, exactly; two in a row for each complex one."""
    dtype = array.dtype
    if dtype.kind == "c":
        return numbers(np.ascontiguousarray(array).view(f"f{dtype.itemsize // 2}"))
    if dtype.names:
        return numbers(np.ascontiguousarray(array).view(np.float16))
    if dtype.name == "bool":
        return [bool(x) for x in array.view(np.uint8)]
    if dtype.kind in "iu":
        return [int(x) for x in array]
    if dtype.name in INTEGERS:
        return [int(x) for x in array.astype(np.int64)]
    return [float(x) for x in _doubles(array)]


def expected(array: Array, name: str) -> list[int | None]:
    """The codes of `array` cast to `name`, components in a row for complex dtypes."""
    values = numbers(array)
    from_complex = array.dtype.kind == "c" or bool(array.dtype.names)
    component = COMPLEX.get(name)
    if from_complex and name == "bool":
        return [int(a != 0 or b != 0) for a, b in zip(values[::2], values[1::2], strict=True)]
    if component is None:
        return [rounded(value, name) for value in values]
    if from_complex:
        return [rounded(value, component) for value in values]
    return [code for value in values for code in (rounded(value, component), 0)]


def differences(source: Array, result: Array, name: str) -> list[str]:
    """What of `result` is not `source` cast to `name`, in words; empty when all is well."""
    component = COMPLEX.get(name, name)
    got = codes(result).ravel()
    nan = is_quiet_nan(got, component)
    wrong = []
    for i, want in enumerate(expected(source, name)):
        if not (nan[i] if want is None else int(got[i]) == want):
            element = source.ravel()[i // 2 if name in COMPLEX else i]
            shown = "NaN" if want is None else hex(want)
            wrong.append(f"{source.dtype} {element!r} to {name}: {int(got[i]):#x}, not {shown}")
    return wrong


def is_quiet_nan(got: Array, name: str) -> Array:
    """Which codes of a real dtype are a NaN that no processor traps on."""
    if name == "bool" or name in INTEGERS:
        return np.zeros(got.shape, bool)
    nan: Array = np.isnan(_doubles(got.view(numpy_dtype(name))))
    quiet_bit = {"float16": 9, "bfloat16": 6, "float32": 22, "float64": 51}.get(name)
    if quiet_bit is not None:
        nan &= (got >> np.array(quiet_bit, got.dtype)) & 1 == 1
    return nan


def edge_values(name: str, count: int = 200) -> Array:
    """Elements of a dtype of 32 or more bits where casts go wrong, and `count` random ones."""
    random = np.random.default_rng(0)
    noise = random.integers(0, 256, count * 16, np.uint8)
    if name in INTEGERS:
        dtype = numpy_dtype(name)
        near = _whole_edges()
        kept = near[(near >= np.iinfo(dtype).min) & (near <= np.iinfo(dtype).max)]
        return np.concatenate([kept.astype(dtype), noise.view(dtype)[:count]])
    component = numpy_dtype(COMPLEX.get(name, name))
    info = np.finfo(component)
    with np.errstate(over="ignore"):
        near = np.array(_middles()).astype(component)
        bounds = np.array([2.0**k + d for k in (3, 4, 7, 8, 15, 16, 31, 32, 63, 64) for d in NEAR])
    special = [0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal]
    up, down = component.type(np.inf), component.type(-np.inf)
    around = [near, np.nextafter(near, up), np.nextafter(near, down), bounds, special]
    positive = np.concatenate(around, dtype=component)
    whole = np.concatenate([positive, -positive, noise.view(component)[:count]])
    return whole[: whole.size // 2 * 2].view(numpy_dtype(name)) if name in COMPLEX else whole


NEAR = (-1, -0.5, 0, 0.5, 1)


@cache
def _whole_edges() -> Array:
    """Integers beside powers of two, and beside the middles of neighbours in every small float."""
    found = {2**k + d for k in range(65) for d in (-1, 0, 1)}
    found |= {
        2**k + 2 ** (k - kept) + d
        for k in (*range(12, 20), 30, 31, 40, 52, 53, 54, 61, 62, 63)
        for kept in (2, 3, 4, 5, 8, 9, 11, 12)
        for d in (-1, 0, 1)
    }
    return np.array(sorted(found | {-x for x in found}), dtype=object)


@cache
def _middles() -> list[float]:
    """Numbers halfway between two neighbours of every small float, and the neighbours of some."""
    found: set[float] = set()
    for name, bits in SMALL_FLOATS.items():
        if name == "float8_e8m0fnu":
            found.update(1.5 * 2.0**k for k in (-128, -127, -126, -1, 0, 1, 126, 127))
            continue
        values = [float(x) for x in _format(name).positive]
        values.append(2 * values[-1] - values[-2])
        step = 1 if bits <= 8 else 997
        picked = {*range(0, len(values) - 1, step), 0, 1, len(values) - 2}
        found.update((values[i] + values[i + 1]) / 2 for i in picked)
    return sorted(found)
