"""A type that is asked for holds every value, or is refused: as pyarrow's own casts of arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import candle
from candle.testing import Producer

pa = pytest.importorskip("pyarrow")

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = {"float16": 11, "float32": 24, "float64": 53}
NUMBERS = ["bool", *INTEGERS, *FLOATS]
POWERS = (7, 8, 11, 15, 16, 24, 31, 32, 53, 62, 63, 64)

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")


def values(dtype: str) -> Any:
    """What lies at the limits of every dtype, and beyond."""
    if dtype == "bool":
        return np.array([False, True])
    near = [sign * (2**power + by) for power in POWERS for by in (-1, 0, 1) for sign in (1, -1)]
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        inside = [n for n in (0, 1, -1, *near) if limits.min <= n <= limits.max]
        return np.array([*inside, limits.min, limits.max], dtype)
    floats = np.finfo(dtype)
    special = [0.0, -0.0, 0.5, -0.5, 1.5, np.nan, np.inf, -np.inf, floats.max, -floats.max]
    small = [float(floats.smallest_subnormal), 1 - float(floats.eps), 2.0**52 - 0.5]
    beside = [float(n) + by for n in near for by in (-0.5, 0.5)]
    edges = [np.nextafter(float(n), 0) for n in near]
    return np.array([*special, *small, *map(float, near), *beside, *edges], "f8").astype(dtype)


def accepts(kind: Any, array: Any) -> bool | None:
    """Whether pyarrow casts an array; None where it never does."""
    try:
        pa.array(array, type=kind)
    except pa.ArrowNotImplementedError:
        return None
    except pa.ArrowInvalid:
        return False
    return True


def refusal(t: candle.Tensor, kind: Any) -> str:
    """What is said of a cast that is refused; nothing where it is made, by the rules of `to`."""
    try:
        made = pa.array(t, type=kind)
    except BufferError as error:
        return str(error)
    target = np.dtype(kind.to_pandas_dtype())
    expected = t.to(target.name).numpy()
    assert np.array_equal(np.array(made.to_pylist(), target), expected, target.kind == "f")
    return ""


def test_all_pairs_are_cast_as_pyarrow_casts_arrays() -> None:
    for source in NUMBERS:
        array = values(source)
        for target in NUMBERS:
            kind = pa.from_numpy_dtype(target)
            kept = []
            for i in range(len(array)):
                one = array[i : i + 1]
                said = refusal(candle.asarray(one), kind)
                kept.append(said == "")
                if said:
                    assert f"the element at (0,) is {one.item()!r}, " in said, (source, target)
                    assert f't.to("{target}")' in said
                if source in INTEGERS and target in FLOATS:
                    # pyarrow takes more for float16, and makes infinities of it.
                    assert kept[-1] == (abs(one.item()) <= 2 ** FLOATS[target])
                    assert target == "float16" or accepts(kind, one) == kept[-1]
                elif (theirs := accepts(kind, one)) is not None:
                    assert theirs == kept[-1], (source, target, one)
            assert refusal(candle.asarray(array[np.array(kept)]), kind) == ""
            if not all(kept):
                first = kept.index(False)
                assert f"the element at ({first},) is " in refusal(candle.asarray(array), kind)


def test_everybody_who_names_a_type_is_told() -> None:
    t = candle.tensor([1, 2, 300])
    schema = pa.schema([("x", pa.int8())])
    for go in (
        lambda: pa.array(t, type=pa.int8()),
        lambda: pa.table({"x": t}, schema=schema),
        lambda: pa.record_batch({"x": t}, schema=schema),
        lambda: pa.chunked_array([t], type=pa.int8()),
        lambda: t.arrow(type=pa.int8()),
        lambda: t.__arrow_c_device_array__(pa.int8().__arrow_c_schema__()),
        lambda: t.reshape(1, 3).arrow(type=pa.list_(pa.int8(), 3)),
        lambda: t.reshape(3, 1).arrow(type=pa.fixed_shape_tensor(pa.int8(), [1])),
    ):
        with pytest.raises(
            BufferError, match=r"is 300, which int8 does not hold; t\.to\(\"int8\"\)"
        ):
            go()
    assert pa.array(t.to("int8"), type=pa.int8()).to_pylist() == [1, 2, 44]
    with pytest.raises(BufferError, match=r"is 9007199254740993, beyond the integers that float64"):
        candle.tensor([2**53 + 1]).arrow(type=pa.float64())
    assert pa.table({"x": t}, schema=pa.schema([("x", pa.int16())]))["x"].to_pylist() == t.tolist()


def bad_at(shape: tuple[int, ...], index: tuple[int, ...], dtype: str, bad: float) -> Any:
    array = np.ones(shape, dtype)
    array[index] = bad
    return array


def test_the_first_is_found_in_any_layout() -> None:
    """By its index in the tensor, wherever it lies; what a view leaves out does not count."""
    for dtype, bad in (("int64", 300), ("int16", -129), ("float64", 0.5), ("float16", np.nan)):
        array = bad_at((6, 5, 4), (4, 3, 2), dtype, bad)
        t = candle.asarray(array)
        kind = pa.int8()
        for view in (
            t,
            t[::-1],
            t.permute(0, 2, 1),
            t[:, ::-1, 1::1],
            t[2:, :, 2],
            t[4, 3],
            t[:, None, 3, 2],
            t[4:5].broadcast_to(7, 5, 4),
            t[4:5, 3:4].broadcast_to(2, 3, 4),
        ):
            where = tuple(int(i) for i in np.argwhere(view.numpy() != 1)[0])
            named = pa.list_(kind, int(np.prod(view.shape[1:]))) if view.ndim > 1 else kind
            with pytest.raises(BufferError) as caught:
                view.arrow(type=named)
            assert f"the element at {where} is " in str(caught.value), (dtype, view.shape)
        for clean in (t[:4], t[:, :3], t[:, :, :2], t[::3], t[4:4]):
            named = pa.list_(kind, int(np.prod(clean.shape[1:])))
            assert len(clean.arrow(type=named)) == len(clean)


def test_long_tensors_are_looked_at_to_the_end() -> None:
    n = 70_001
    for dtype in ("int32", "uint64", "float32"):
        for index in (0, 4095, 4096, n - 1):
            t = candle.asarray(bad_at((n,), (index,), dtype, 2**24))
            for some in (t, t[::-1]):
                where = index if some is t else n - 1 - index
                with pytest.raises(BufferError, match=rf"at \({where},\) is 16777216"):
                    some.arrow(type=pa.uint16())
        assert len(candle.ones(n, dtype=dtype).arrow(type=pa.uint16())) == n


OPAQUE = [
    *("bfloat16", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e8m0fnu", "float8_e4m3fnuz", "float8_e3m4"),
]


def test_types_of_other_dtypes_hold_what_they_are_asked_for_too() -> None:
    """Integers exactly; floats unless NaN is made of them, as pyarrow has no say here."""
    whole = [0, 1, 2, 3, 8, 11, 16, 17, 256, 257, 448, 2048, 2049, 2**24 + 1, 2**53, 2**53 + 1, -1]
    reals = [0.0, -0.0, 0.3, 1.0, -1.0, 449.0, 500.0, 1e6, 1e300, np.nan, np.inf]
    bounded = {"bfloat16": 8, "complex32": 11, "complex64": 24, "complex128": 53}
    for name in OPAQUE:
        kind = candle.zeros(1).to(name).arrow().type
        for value in whole:
            t = candle.asarray([value], dtype="int64")
            exact = t.to(name).to("complex128").tolist() == [value] and abs(value) <= 2**53
            if name in bounded:
                exact = abs(value) <= 2 ** bounded[name]
            _held(t, kind, name, exact)
        for real in reals:
            t = candle.asarray([real], dtype="float64")
            became = t.to(name).to("complex128").item()
            _held(t, kind, name, bool(np.isnan(real) or not np.isnan(became)))
        for flag in (False, True):
            t = candle.asarray([flag])
            _held(t, kind, name, flag or name != "float8_e8m0fnu")
        large = candle.asarray([2**64 - 1], dtype="uint64")
        _held(large, kind, name, False)
        _held(candle.asarray([2], dtype="uint64"), kind, name, True)


def _held(t: candle.Tensor, kind: Any, name: str, held: bool) -> None:
    if held:
        back = candle.from_arrow(t.arrow(type=kind))
        assert (back.dtype, repr(back.tolist())) == (name, repr(t.to(name).tolist()))
        return
    with pytest.raises(BufferError, match=rf"the element at \(0,\) is .*{name}"):
        t.arrow(type=kind)


def test_small_elements_of_all_kinds_become_numbers() -> None:
    for name in ("int4", "uint4", "float8_e4m3fn", "float8_e8m0fnu", "bfloat16", "float4_e2m1fn"):
        held = [1.0, 4.0, 2.0]
        wrong = [-1.0] if name == "int4" else [0.5]
        made = candle.tensor(held).to(name)
        given = candle.asarray(np.array(held).astype(getattr(ml_dtypes, name)))  # a byte each
        for t in (made, given, made[::-1]):
            assert t.arrow(type=pa.uint8()).to_pylist() == [int(x) for x in t.tolist()]
        if name != "uint4":
            t = candle.tensor(held + wrong).to(name)
            with pytest.raises(BufferError, match=r"at \(3,\) is -1, |at \(3,\) is 0\.5, "):
                t.arrow(type=pa.uint8())
        assert made.arrow(type=pa.float64()).to_pylist() == held


def test_what_is_no_cast_says_so() -> None:
    with pytest.raises(BufferError, match="complex64 does not become float32"):
        candle.ones(2, dtype="complex64").arrow(type=pa.float32())
    flags = candle.asarray([0.5, np.nan, 0.0]).arrow(type=pa.bool_())
    assert flags.to_pylist() == [True, True, False]


def test_on_devices_nobody_looks() -> None:
    """A cast that may lose something is refused; of others only the copy can fail, or nothing."""
    t = candle.from_dlpack(Producer(shape=(4,), device=(10, 0)))
    for method in (t.__arrow_c_array__, t.__arrow_c_device_array__):
        with pytest.raises(
            BufferError, match=r"whether int32 holds its values.*t\.to\(\"int32\"\)"
        ):
            method(pa.int32().__arrow_c_schema__())
        with pytest.raises(BufferError, match="candle copies on the CPU"):
            method(pa.float64().__arrow_c_schema__())
    empty = candle.from_dlpack(Producer(shape=(0,), device=(10, 0)))
    with pytest.raises(BufferError, match="candle copies on the CPU"):
        empty.__arrow_c_device_array__(pa.int32().__arrow_c_schema__())


def test_complex_numbers_are_rounded_as_floats_are() -> None:
    t = candle.tensor([0.1 + 2j, complex("nan"), 1e300], dtype="complex128")
    kind = candle.zeros(1, dtype="complex64").arrow().type
    back = candle.from_arrow(t.arrow(type=kind))
    assert (back.dtype, repr(back.tolist())) == ("complex64", repr(t.to("complex64").tolist()))
