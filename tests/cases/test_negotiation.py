"""Who is asked with which keywords, and what candle makes of those it is asked with."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from offers import Holder

import candle
from candle.testing import Producer, info


class Old:
    """A producer from before a keyword came: any that it does not know is a TypeError."""

    def __init__(self, producer: Producer, *known: str) -> None:
        self.producer, self.known, self.calls = producer, set(known), 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **keywords: Any) -> object:
        self.calls += 1
        if set(keywords) - self.known:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.producer.__dlpack__(**keywords)


KNOWN = (
    (),
    ("stream",),
    ("max_version",),
    ("stream", "max_version"),
    ("stream", "max_version", "copy"),
)


def test_old_producers_are_asked_for_what_they_know() -> None:
    # Case 68: nv-legate/cupynumeric#1239
    for known, (copy, dtype, device, order) in itertools.product(
        KNOWN, itertools.product((None, False, True), (None, "float64"), (None, "cpu"), (None, "C"))
    ):
        if copy is False and dtype:
            continue
        producer = Producer(shape=(2, 3))
        old = Old(producer, *known)
        t = candle.from_dlpack(old, copy=copy, dtype=dtype, device=device, order=order)
        assert t.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        copied = bool(copy or dtype)
        assert (t.data_ptr() != producer.address) is copied
        assert not t.readonly
        assert old.calls <= 2
        del t
        assert producer.deletes == producer.exports == 1
    for copy in (None, False):  # nothing is sent that is not needed
        producer = Producer(shape=(3,))
        candle.from_dlpack(producer, copy=copy)
        assert [set(call) for call in producer.calls] == [{"max_version"}]


def test_every_version_that_is_asked_for() -> None:
    # Case 69: NVIDIA/DALI#6307, wjakob/nanobind#1373
    for t in (
        candle.zeros((2, 3)),
        candle.arange(4, dtype="bool")[1:],
        candle.asarray(np.zeros(3)),
        candle.zeros((0,)),
    ):
        for version in (
            None,
            (0, 0),
            (0, 8),
            (0, 99),
            (1, 0),
            (1, 3),
            (1, 99),
            (2, 0),
            (9, 9),
            (2**31 - 1, 0),
        ):
            for stream, copy, device in itertools.product(
                (None, -1), (None, False, True), (None, (1, 0))
            ):
                keywords = {
                    "max_version": version,
                    "stream": stream,
                    "copy": copy,
                    "dl_device": device,
                }
                fields = info(t.__dlpack__(**keywords))
                modern = version is not None and version[0] >= 1
                assert (fields.name == "dltensor_versioned") is modern
                if modern:
                    assert (fields.version or (0, 0))[0] == 1
                assert fields.shape == t.shape
        for unknown in (
            {"max_versions": (1, 0)},
            {"device": (1, 0)},
            {"readonly": True},
            {"Stream": None},
        ):
            with pytest.raises(TypeError):
                t.__dlpack__(**unknown)
        for arguments in ((None,), (-1, (1, 0)), ((1, 0),)):
            with pytest.raises(TypeError):
                t.__dlpack__(*arguments)
    for ignored in (
        "legacy",
        "versioned",
    ):  # a producer that takes max_version and does as it likes
        producer = Producer(shape=(3,), mode=ignored)
        assert candle.from_dlpack(producer).tolist() == [0.0, 1.0, 2.0]
        assert len(producer.calls) == 1


class Strict:
    """A host producer for which any stream but None is an error, as numpy's."""

    def __init__(self) -> None:
        self.x = np.arange(3.0)
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, *, stream: object = "absent", **keywords: Any) -> object:
        self.streams.append(stream)
        if stream not in ("absent", None):
            raise RuntimeError("no streams here")
        return self.x.__dlpack__(**keywords)


def test_no_stream_is_sent_to_the_host() -> None:
    # Case 70: NVIDIA/cuda-python#473
    for take in (
        candle.from_dlpack,
        candle.asarray,
        candle.Tensor,
        lambda x: candle.asarray([x, x]),
    ):
        strict = Strict()
        take(strict)
        assert set(strict.streams) == {"absent"}
    for copy, dtype in itertools.product((None, True), (None, "int8")):
        strict = Strict()
        candle.from_dlpack(strict, copy=copy, dtype=dtype, device="cpu")
        assert set(strict.streams) == {"absent"}
    for stream in (0, 1, -1, 2, 12345):
        for x in (np.zeros(3), Strict(), Holder(Producer(shape=(2,)).capsule()), candle.zeros(2)):
            with pytest.raises(ValueError, match="stream"):
                candle.from_dlpack(x, stream=stream)


def test_streams_of_the_host() -> None:
    # Case 71: wjakob/nanobind#1373, wjakob/nanobind#1383. docs/gpu.md says what others do.
    for t in (
        candle.zeros(3),
        candle.asarray(b"abc"),
        candle.zeros((2, 0)),
        candle.zeros((3, 3)).T[::-1],
    ):
        for stream in (None, -1):
            assert info(t.__dlpack__(stream=stream)).shape == t.shape
            assert info(t.__dlpack__(stream=stream, max_version=(1, 0))).device == (1, 0)
        for stream in (0, 1, 2, 3, 12345, 2**62, -2):
            with pytest.raises(
                ValueError, match="stream"
            ):  # never a TypeError: who asks would ask again
                t.__dlpack__(stream=stream)
