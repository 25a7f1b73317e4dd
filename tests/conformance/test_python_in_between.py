"""Python code of the producer that runs in the middle of an ingest and changes what is read."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import candle
from candle.testing import Producer


def test_numbers_of_a_sequence_that_makes_them_anew() -> None:
    with pytest.raises(ValueError, match="uint64"):
        candle.asarray(range(2**63, 2**63 + 3))


def test_a_list_cleared_while_it_is_looked_through() -> None:
    outer: list[Any] = [1, 2, 3]

    class Clears:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            raise IndexError

        def __getattr__(self, name: str) -> Any:
            outer.clear()
            raise AttributeError(name)

    outer[1] = Clears()
    with pytest.raises((RuntimeError, ValueError)):
        candle.asarray(outer)


@pytest.mark.parametrize(
    ("offset", "shape"),
    [
        (2**63 - 1, (1,)),
        (-1, (1,)),
        (17, (0,)),
        (8, (2,)),
        (2**70, (1,)),
        ("a", (1,)),
        (0, (2**61,)),
    ],
)
def test_offsets_into_a_buffer(offset: Any, shape: tuple[int, ...]) -> None:
    class Offset:
        __array_interface__: ClassVar[dict[str, Any]] = {
            "shape": shape,
            "typestr": "<f8",
            "data": bytearray(16),
            "offset": offset,
            "version": 3,
        }

    if 0 in shape:
        assert candle.asarray(Offset()).shape == shape
    else:
        with pytest.raises(BufferError, match="interface"):
            candle.asarray(Offset())


def test_an_offset_inside_the_buffer() -> None:
    class Offset:
        __array_interface__: ClassVar[dict[str, Any]] = {
            "shape": (2,),
            "typestr": "<i4",
            "data": bytearray(b"\0\0\0\0\1\0\0\0\2\0\0\0"),
            "offset": 4,
            "version": 3,
        }

    assert candle.asarray(Offset()).tolist() == [1, 2]


def test_a_device_whose_type_is_no_int() -> None:
    class Number:
        def __index__(self) -> int:
            raise AssertionError("asked with an error pending")

    class Lies:
        def __dlpack_device__(self) -> Any:
            return object(), Number()

        def __dlpack__(self, **keywords: Any) -> Any:
            raise AssertionError("asked for memory on no device")

    with pytest.raises(BufferError, match="int"):
        candle.from_dlpack(Lies())


def test_pinned_memory_leaves_by_the_named_doors() -> None:
    torch = pytest.importorskip("torch")
    pinned = Producer(shape=(4,), device=(3, 0))
    t = candle.from_dlpack(pinned)
    out = t.torch()
    assert isinstance(out, torch.Tensor)
    assert out.data_ptr() == t.data_ptr() == t.numpy().__array_interface__["data"][0]


def test_views_of_empty_tensors_point_nowhere() -> None:
    assert candle.empty((3, 0))[1].data_ptr() == candle.empty((3, 0)).data_ptr()
    assert candle.empty((3, 0), dtype="int4")[1].shape == (0,)
    with pytest.raises(ValueError, match="gaps"):
        candle.empty((0, 2**60), dtype="float64").view("uint8")
