"""`candle.from_dlpack` of any struct at all: shared, copied or refused as the rules say.

Structs that say they are on a device are at addresses of the host: nobody looks there.
"""

from __future__ import annotations

from typing import Any

import pytest
import rules

import candle
from candle.testing import Producer, assert_no_leak

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

BLOCK = 4096
MIDDLE = 2048
READ_ONLY = 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

dtypes = st.sampled_from(sorted(rules.DTYPES)) | st.tuples(
    st.integers(0, 255), st.integers(0, 255), st.integers(0, 3)
)
odd_extents = st.sampled_from([-1, 7, 2**31, 2**40, INT64_MAX, INT64_MIN])
odd_strides = st.sampled_from([2**40, INT64_MAX, INT64_MIN])
odd_offsets = st.sampled_from([8, 256, 2**40, 2**63, 2**64 - 1])


def usually(value: Any, *others: Any) -> Any:
    """A strategy that mostly says `value`."""
    return st.sampled_from([value] * (2 * len(others)) + list(others))


@st.composite
def descriptions(draw: Any, *, readable: bool) -> dict[str, Any]:
    """Arguments of a Producer; if `readable`, all elements lie in BLOCK bytes."""
    axes = 3 if readable else 5
    extents = st.integers(0, 4) if readable else st.integers(0, 4) | odd_extents
    steps = st.integers(-4, 8) if readable else st.integers(-4, 8) | odd_strides
    offsets = st.integers(0, 64).map(lambda n: n + MIDDLE)
    shape = draw(st.lists(extents, max_size=axes))
    # An axis that is not walked along may have any stride.
    walked = 0 not in shape
    strides = st.none() | st.tuples(
        *(steps if walked and extent > 1 else steps | odd_strides for extent in shape)
    )
    return {
        "shape": shape,
        "strides": draw(strides),
        "byte_offset": draw(offsets if readable else offsets | odd_offsets),
        "ndim": None if readable else draw(usually(None, -1, 0, 1, 64, 65, -(2**31))),
        "dtype": draw(dtypes),
        "device": draw(usually((1, 0), (3, 0), (2, 0), (13, 1), (0, 0), (-1, -1))),
        "version": draw(usually((1, 3), (1, 0), (1, 99), (0, 5), (2, 0))),
        "flags": draw(usually(0, 1, 2, 4, 2**64 - 1)),
        "null_data": draw(usually(False, True)),
        "null_shape": draw(usually(False, True)),
        "null_deleter": draw(st.booleans()),
        "mode": draw(st.sampled_from(["auto", "legacy", "versioned"])),
        "signature": draw(st.sampled_from(["full", "stream", "none"])),
    }


def gave_versioned(producer: Producer) -> bool:
    if producer.mode == "auto":
        return producer.signature == "full"
    return producer.mode == "versioned"


def ingest(arguments: dict[str, Any], copy: bool | None) -> None:
    """Import a producer of `arguments` and check the outcome against the rules."""
    producer = Producer(bytes(BLOCK), **arguments)
    with assert_no_leak():
        try:
            t = candle.from_dlpack(producer, copy=copy)
        except BufferError:
            did = "refuse"
        else:
            did = "share"
            assert t.shape == rules.extents(producer)
            assert copy is not True or producer.device[0] in rules.HOST
            shared = t.data_ptr() == producer.address + producer.byte_offset
            if copy is False and t.size > 0:
                assert shared
            if copy is True:
                assert not t.readonly
                assert not shared or t.size == 0 or producer.flags & 2
            elif shared and t.size > 0:
                assert t.readonly == bool(gave_versioned(producer) and producer.flags & READ_ONLY)
            del t
    wanted = rules.verdict(producer, gave_versioned(producer))
    on_device = producer.device[0] not in rules.HOST
    if on_device and (copy is True or producer.signature == "none"):
        wanted = "refuse"  # nobody copies there, and who takes no stream orders for none
    if copy is False or wanted == "share":
        assert wanted in ("either", did)
    assert producer.exports == (0 if on_device and producer.signature == "none" else 1)
    assert producer.deletes == (0 if producer.null_deleter else producer.exports)


@pytest.mark.isolated
@hypothesis.settings(max_examples=2000)
@hypothesis.given(descriptions(readable=False))
def test_any_description_is_shared_or_refused(arguments: dict[str, Any]) -> None:
    ingest(arguments, copy=False)


@pytest.mark.isolated
@hypothesis.settings(max_examples=1000)
@hypothesis.given(descriptions(readable=True), st.sampled_from([None, False, True]))
def test_readable_memory_is_shared_copied_or_refused(
    arguments: dict[str, Any], copy: bool | None
) -> None:
    ingest(arguments, copy)


@pytest.mark.isolated
@hypothesis.settings(max_examples=500)
@hypothesis.given(descriptions(readable=True), st.booleans())
def test_any_description_as_a_raw_capsule(arguments: dict[str, Any], versioned: bool) -> None:
    producer = Producer(bytes(BLOCK), **arguments)
    capsule = producer.capsule(versioned)
    with assert_no_leak():
        try:
            candle.from_dlpack(capsule, copy=False)
        except BufferError:
            did = "refuse"
        else:
            did = "share"
    del capsule
    assert rules.verdict(producer, versioned) in ("either", did)
    assert producer.deletes == (0 if producer.null_deleter else 1)


@pytest.mark.isolated
@hypothesis.settings(max_examples=500)
@hypothesis.given(
    descriptions(readable=True),
    st.fixed_dictionaries(
        {},
        optional={
            "order": st.sampled_from([None, "C"]),
            "dtype": st.sampled_from([None, "float64", "int8", "bool", "bfloat16"]),
            "copy": st.sampled_from([None, True]),
        },
    ),
)
def test_readable_memory_in_another_form(arguments: dict[str, Any], wanted: dict[str, Any]) -> None:
    producer = Producer(bytes(BLOCK), **arguments)
    with assert_no_leak():
        try:
            t = candle.from_dlpack(producer, **wanted)
        except BufferError:
            pass
        else:
            assert t.shape == rules.extents(producer)
            assert t.is_contiguous() or wanted.get("order") is None
            assert str(t.dtype) == wanted.get("dtype") or wanted.get("dtype") is None
            on_host = t.__dlpack_device__()[0] in rules.HOST
            assert on_host or t.size == 0 or t.data_ptr() >= producer.address
            del t
    assert producer.deletes == (0 if producer.null_deleter else producer.exports)
