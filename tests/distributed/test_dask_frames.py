"""What Dask makes of tensors, and a scheduler asks about them: frames, size and tokens."""

from __future__ import annotations

import logging
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import candle

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")  # its own are many

COUNT = 1 << 16


@pytest.fixture
def protocol() -> Iterator[Any]:
    """How objects become frames."""
    pytest.importorskip("distributed")
    from distributed import protocol

    logging.disable()  # pytest keeps the records, these the tracebacks, those the tensors
    yield protocol
    logging.disable(logging.NOTSET)


def big() -> candle.Tensor:
    return candle.arange(COUNT, dtype="float64")


@pytest.mark.parametrize("layout", ["row-major", "transposed"])
def test_frames_are_the_memory(protocol: Any, layout: str) -> None:
    t = big().reshape(256, 256)
    t = t if layout == "row-major" else t.T
    with candle.strict():
        header, frames = protocol.serialize(t)
        assert candle.asarray(frames[-1]).data_ptr() == t.data_ptr()
        back = protocol.deserialize(header, frames)
    assert (back.data_ptr(), back.stride, back.readonly) == (t.data_ptr(), t.stride, False)


def test_read_only_stays_read_only(protocol: Any) -> None:
    t = candle.asarray(bytes(1000))
    assert protocol.deserialize(*protocol.serialize(t)).readonly


@pytest.mark.parametrize("offset", range(8))
def test_frames_at_any_address(protocol: Any, offset: int) -> None:
    header, frames = protocol.serialize(big())
    shifted = memoryview(bytearray(offset) + bytearray(frames[-1]))[offset:]
    back = protocol.deserialize(header, [*frames[:-1], shifted])
    assert back.data_ptr() % 8 == 0
    assert back.tolist() == big().tolist()
    assert (back.data_ptr() == candle.asarray(shifted).data_ptr()) == (offset == 0)


@pytest.mark.parametrize("change", [-8, -1, 1, 8])
def test_frames_of_the_wrong_length(protocol: Any, change: int) -> None:
    header, frames = protocol.serialize(big())
    wrong = bytes(COUNT * 8 + change)
    with pytest.raises(ValueError, match=rf"{len(wrong)} bytes arrived.*float64.*\({COUNT},\)"):
        protocol.deserialize(header, [*frames[:-1], wrong])


def test_frames_that_are_missing(protocol: Any) -> None:
    header, frames = protocol.serialize(big())
    with pytest.raises((pickle.UnpicklingError, IndexError)):
        protocol.deserialize(header, frames[:-1])


def test_size(protocol: Any) -> None:
    from dask.sizeof import sizeof

    t = big()
    assert COUNT * 8 <= sizeof(t) < COUNT * 8 + 200
    assert sizeof(t[:10]) < 300, "a view: what it shows"
    assert sizeof(candle.ones(1).broadcast_to(1 << 40)) < 300


def test_tokens(protocol: Any) -> None:
    from dask.base import tokenize

    t = big()
    other = {tokenize(x) for x in (t[1:], t.view("int64"), t[::-1])}
    assert tokenize(t) == tokenize(big())
    assert len(other | {tokenize(t)}) == 4
