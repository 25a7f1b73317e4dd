"""The same object through every route that applies gives the same Tensor."""

from __future__ import annotations

import array
from typing import Any

import meeting
import numpy as np
import pytest

import candle
from candle._native import _core

pytestmark = pytest.mark.usefixtures("x64")

ROUTES = (
    "candle",
    "exchange",
    "numpy",
    "dlpack_versioned",
    "dlpack_legacy",
    "array_struct",
    "array_interface",
    "buffer",
    "array",
    "sequence",
)

ALWAYS = {
    "candle": {"candle", "dlpack_versioned", "dlpack_legacy", "array"},
    "jax": {"dlpack_versioned", "dlpack_legacy", "array"},
    "numpy": {"numpy", "array"},
    "torch": {"exchange", "dlpack_versioned", "dlpack_legacy"},
    "tvm_ffi": {"dlpack_versioned", "dlpack_legacy"},
}
# With numpy's own dtypes.
NATIVE = {
    "candle": {"array_interface"},
    "jax": {"buffer"},
    "numpy": {"dlpack_versioned", "dlpack_legacy", "array_struct", "array_interface", "buffer"},
    "torch": {"array"},
    "tvm_ffi": set(),
}
# DLPack goes out of candle without negative strides, and of numpy with them.
COPY_NEGATIVE = {"dlpack_versioned", "dlpack_legacy"}


def _applicable(producer: str, dtype: str, layout: str) -> set[str]:
    routes = set(ALWAYS[producer])
    if dtype in meeting.NUMPY_DLPACK:
        routes |= NATIVE[producer]
    if producer == "candle" and meeting.numpy_dtype(dtype) is None:
        routes -= {"array"}
    if producer == "numpy" and layout == "broadcast":
        routes -= {"dlpack_legacy"}  # read-only, which numpy refuses to export so
    return routes


def _long_strides(seen: meeting.Seen) -> list[int]:
    return [s for s, n in zip(seen.strides, seen.shape, strict=True) if n > 1]


@pytest.mark.parametrize("dtype", meeting.WHOLE)
@pytest.mark.parametrize("producer", meeting.PRODUCERS)
def test_every_route_that_applies(framework: Any, producer: str, dtype: str) -> None:
    framework(producer)
    for case in meeting.cases(producer, dtype):
        origin = meeting.see(case.x)
        for route in _applicable(producer, dtype, case.layout):
            said = f"{producer} by {route}, {dtype}, {case.layout}"
            t = _core.ingest_by(route, case.x)
            came = case.assert_came(t, f"by {route}")
            assert t.readonly == case.readonly, said
            if not t.size:
                continue
            if producer == "candle" and "negative" in case.layout and route in COPY_NEGATIVE:
                assert came.address != origin.address, said
                continue
            assert came.address == origin.address, said
            assert _long_strides(came) == _long_strides(origin), said


@pytest.mark.parametrize("dtype", meeting.WHOLE)
@pytest.mark.parametrize("producer", meeting.PRODUCERS)
def test_other_routes_refuse_or_are_right(framework: Any, producer: str, dtype: str) -> None:
    framework(producer)
    for case in meeting.cases(producer, dtype, ("contiguous", "stepped", "0-d", "empty")):
        for route in sorted(set(ROUTES) - _applicable(producer, dtype, case.layout)):
            try:
                t = _core.ingest_by(route, case.x)
            except (LookupError, BufferError):
                continue
            case.assert_came(t, f"by {route}")


# --- each protocol alone, as an object that speaks nothing else ---


class OnlyDLPack:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> object:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class OnlyOldDLPack(OnlyDLPack):
    def __dlpack__(self, stream: None = None) -> object:  # type: ignore[override]
        return self.array.__dlpack__(stream=stream)


class OnlyInterface:
    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> Any:
        return self.array.__array_interface__


class OnlyStruct:
    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __array_struct__(self) -> Any:
        return self.array.__array_struct__


class OnlyArray:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


WRAPPERS = (OnlyDLPack, OnlyOldDLPack, OnlyInterface, OnlyStruct, OnlyArray, memoryview)


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("dtype", meeting.NUMPY_DLPACK)
def test_one_protocol_alone(wrapper: Any, dtype: str) -> None:
    """asarray finds it; memory, layout and the owner are right, once the array's name is gone."""
    for layout in meeting.layouts_of("numpy"):
        made = meeting.make("numpy", dtype, layout)
        if not made.flags.writeable and wrapper is OnlyOldDLPack:
            with pytest.raises(BufferError):
                candle.asarray(wrapper(made))
            continue
        origin = meeting.see(made)
        t = candle.asarray(wrapper(made))
        writeable = made.flags.writeable
        del made
        came = meeting.see(t)
        assert str(t.dtype) == dtype, layout
        assert (came.shape, came.content) == meeting.expected(dtype, layout), layout
        assert t.readonly == (not writeable), layout
        assert t.size == 0 or came.address == origin.address, layout


@pytest.mark.parametrize("dtype", [d for d in meeting.WHOLE if d not in meeting.NUMPY_DLPACK])
def test_array_method_alone_carries_ml_dtypes(dtype: str) -> None:
    if meeting.numpy_dtype(dtype) is None:
        return
    made = meeting.make("numpy", dtype, "stepped")
    t = candle.asarray(OnlyArray(made))
    assert str(t.dtype) == dtype
    assert t.data_ptr() == made.ctypes.data
    for wrapper in (OnlyInterface, OnlyStruct):  # they say only how many bytes an element has
        with pytest.raises(BufferError):
            candle.asarray(wrapper(made))


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_buffers_of_the_standard_library(code: str) -> None:
    x = array.array(code, [1, 2, 3])
    t = candle.asarray(x)
    assert t.tolist() == [1, 2, 3]
    assert (t.data_ptr(), t.readonly) == (x.buffer_info()[0], False)
    assert t.dtype == np.dtype(code)
    frozen = candle.asarray(memoryview(x).toreadonly())
    assert (frozen.data_ptr(), frozen.readonly) == (x.buffer_info()[0], True)
    assert candle.asarray(b"\1\2").readonly
    assert not candle.asarray(bytearray(b"\1\2")).readonly


def test_lists_of_anything_agree_with_the_whole(framework: Any) -> None:
    """By rows, each from another framework: stacked once, and the dtype kept."""
    torch, jax = framework("torch"), framework("jax")
    whole = np.arange(24, dtype=np.float16).reshape(4, 6)
    rows = [
        whole[0],
        torch.from_numpy(whole[1]),
        jax.numpy.asarray(whole[2]),
        candle.asarray(whole[3]),
    ]
    for sequence in (rows, tuple(rows), [[row] for row in rows]):
        t = candle.asarray(sequence)
        assert str(t.dtype) == "float16"
        assert t.numpy().reshape(4, 6).tolist() == whole.tolist()
        assert not t.readonly


OTHER_ROUTES = ("cuda_array_interface", "arrow_array", "arrow_stream", "scalar")


def test_routes_that_do_not_apply() -> None:
    for route in ROUTES + OTHER_ROUTES:
        with pytest.raises(LookupError, match=f"the route {route} does not apply to object"):
            _core.ingest_by(route, object())


def test_routes_of_few() -> None:
    """By the name that they go by in a Plan."""
    t = candle.arange(3)
    by_arrow = _core.ingest_by("arrow_array", t)
    assert (by_arrow.tolist(), by_arrow.data_ptr()) == ([0, 1, 2], t.data_ptr())
    assert _core.ingest_by("scalar", 5).item() == 5

    class OnDevice:
        __cuda_array_interface__ = {  # noqa: RUF012
            "shape": (2,),
            "typestr": "<f4",
            "data": (1 << 40, False),
            "version": 9,
            "mask": t,
        }

    with pytest.raises(BufferError, match="has a mask"):
        _core.ingest_by("cuda_array_interface", OnDevice())
