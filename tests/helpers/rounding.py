"""Casts worked out a second time, in exact fractions: what the copy engine is held against."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

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


def codes(array: npt.NDArray) -> npt.NDArray:
    """The elements' bits as unsigned integers, components apart in a last axis of complex arrays."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind == "c" or array.dtype.names:
        size = array.itemsize // 2
        return array.view(f"u{size}").reshape(*array.shape, 2)
    return array.view(f"u{array.itemsize}")


def every_code(name: str) -> npt.NDArray:
    """Every element of a dtype of at most 16 bits."""
    bits = bits_of(name)
    every = np.arange(2**bits, dtype=np.uint8 if bits <= 8 else np.uint16)
    return every.view(numpy_dtype(name))


class Format(NamedTuple):
    """The numbers of a small float from 0 up, each the value of the code that is its index."""

    positive: list[Fraction]
    sign_bit: int
    infinity: int | None
    has_nan: bool
    has_negative_zero: bool


@cache
def _format(name: str) -> Format:
    every = every_code(name).astype(np.float64)
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
    """Index of the nearest value; of two equally near, the even index. One past the last: overflow."""
    above = bisect_right(sorted_values, magnitude)
    below = above - 1
    if above < len(sorted_values):
        upper = sorted_values[above]
    else:
        upper = 2 * sorted_values[-1] - sorted_values[-2]
    low, high = magnitude - sorted_values[below], upper - magnitude
    return below if low < high or (low == high and below % 2 == 0) else above


def _to_power_of_two(value: float) -> int | None:
    if not value > 0 or math.isinf(value):
        return None
    exact = Fraction(value)
    exponent = math.frexp(value)[1] - 1 if isinstance(value, float) else value.bit_length() - 1
    power = Fraction(2) ** exponent
    code = exponent + 127
    rest, half = exact - power, power / 2
    code += rest > half or (rest == half and code % 2 == 1)
    return None if code > 254 else max(code, 0)


def _to_small_float(value: float, name: str) -> int | None:
    if name == "float8_e8m0fnu":
        return _to_power_of_two(value)
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
    lowest = 2 - 2 ** (exponent_bits - 1)
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    exponent -= exact < Fraction(2) ** exponent
    exponent = max(exponent, lowest)
    kept = round(exact / Fraction(2) ** (exponent - mantissa_bits))
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


def numbers(array: npt.NDArray) -> list:
    """The elements as Python numbers, exactly; two in a row for each complex one."""
    dtype = array.dtype
    if dtype.kind == "c":
        return numbers(np.ascontiguousarray(array).view(f"f{dtype.itemsize // 2}"))
    if dtype.names:
        return numbers(np.ascontiguousarray(array).view(np.float16))
    if dtype == bool:
        return (array.view(np.uint8) != 0).tolist()
    if dtype.kind in "iu":
        return [int(x) for x in array]
    if dtype.name in INTEGERS:
        return [int(x) for x in array.astype(np.int64)]
    return [float(x) for x in array.astype(np.float64)]


def expected(array: npt.NDArray, name: str) -> list[int | None]:
    """The codes of `array` cast to `name`, components in a row for complex dtypes."""
    values: Iterable = numbers(array)
    from_complex = array.dtype.kind == "c" or bool(array.dtype.names)
    component = COMPLEX.get(name)
    if from_complex and name == "bool":
        parts = iter(values)
        return [int(real != 0 or imaginary != 0) for real, imaginary in zip(parts, parts)]
    if component is None:
        return [rounded(value, name) for value in values]
    if from_complex:
        return [rounded(value, component) for value in values]
    return [code for value in values for code in (rounded(value, component), 0)]


def differences(source: npt.NDArray, result: npt.NDArray, name: str) -> list[str]:
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


def is_quiet_nan(got: npt.NDArray, name: str) -> npt.NDArray:
    """Which codes of a real dtype are a NaN that no processor traps on."""
    if name == "bool" or name in INTEGERS:
        return np.zeros(got.shape, bool)
    nan = np.isnan(got.view(numpy_dtype(name)).astype(np.float64))
    quiet_bit = {"float16": 9, "bfloat16": 6, "float32": 22, "float64": 51}.get(name)
    return nan if quiet_bit is None else nan & ((got >> np.array(quiet_bit, got.dtype)) & 1 == 1)


def edge_values(name: str, count: int = 200, seed: int = 0) -> npt.NDArray:
    """Elements of a dtype of 32 or more bits where casts go wrong, and random ones."""
    dtype = numpy_dtype(name)
    random = np.random.default_rng(seed)
    if name in INTEGERS:
        bits, signed = INTEGERS[name]
        near = [s * 2**k + d for k in range(bits + 1) for d in (-2, -1, 0, 1, 2) for s in (1, -1)]
        # One past the middle of two bfloat16, float16 and fp8 numbers, far below a double's last bit.
        near += [2**k + 2 ** (k - m) + d for k in range(12, 64) for m in (2, 3, 4, 5, 8, 9, 11, 12) for d in (-1, 0, 1)]
        low = -(2 ** (bits - 1)) if signed else 0
        kept = sorted({x for x in near if low <= x < low + 2**bits})
        noise = random.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
        return np.concatenate([np.array(kept, dtype), noise])
    component = np.dtype(f"f{dtype.itemsize // (2 if name in COMPLEX else 1)}")
    middles = _middles()
    with np.errstate(over="ignore"):
        near = np.array([x for m in middles for x in (m, -m)]).astype(component)
        around = [near, np.nextafter(near, component.type(np.inf)), np.nextafter(near, component.type(-np.inf))]
    bounds = np.array([s * (2.0**k + d) for k in (3, 4, 7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5, 1) for s in (1, -1)])
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, np.finfo(component).max, np.finfo(component).tiny, np.finfo(component).smallest_subnormal])
    noise = random.integers(0, 256, count * component.itemsize, np.uint8).view(component)
    whole = np.concatenate([*around, bounds.astype(component), special.astype(component), noise])
    return whole[: whole.size // 2 * 2].view(dtype) if name in COMPLEX else whole


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
