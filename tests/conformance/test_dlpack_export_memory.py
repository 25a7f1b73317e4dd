"""`Tensor.__dlpack__`: what is shared, what is copied, and how long it lives."""

from __future__ import annotations

import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import layouts
import pytest

import candle
from candle.testing import Producer, capsules, describe, info, live, shares_memory, take
from candle.testing.abi import IS_COPIED, READ_ONLY

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[[], candle.Tensor]


MODERN = {"max_version": (1, 3)}

every_layout = pytest.mark.parametrize(
    "make", [pytest.param(make, id=name) for name, make in layouts.LAYOUTS.items()]
)
both_kinds = pytest.mark.parametrize("keywords", [{}, MODERN], ids=["legacy", "versioned"])


# Shared or copied


@every_layout
def test_copied_flag_says_what_candle_did(make: Make) -> None:
    t = make()
    for copy in (None, True):
        with take(t.__dlpack__(copy=copy, **MODERN)) as taken:
            copied = copy is True or layouts.must_copy(t, versioned=True)
            flags = taken.info.flags
            assert flags is not None
            assert bool(flags & IS_COPIED) == copied
            if t.size > 0:
                assert (taken.info.data != t.data_ptr()) == copied


@every_layout
@both_kinds
def test_copy_true_is_private_and_writable(make: Make, keywords: dict[str, Any]) -> None:
    t = make()
    values = t.tolist()
    copied = candle.from_dlpack(t.__dlpack__(copy=True, **keywords))
    assert not copied.readonly
    assert not shares_memory(copied, t)
    if t.size > 0:
        copied.fill_(1)
        copied[...] = 0
    assert t.tolist() == values


def test_negative_strides_are_copied_or_refused() -> None:
    t = layouts.counting(3, 4)[:, ::-1]
    fields = info(t.__dlpack__(**MODERN))
    assert fields.flags == IS_COPIED
    assert fields.strides == (4, 1)
    with pytest.raises(candle.CopyError, match=r"axis 1.*-1") as caught:
        t.__dlpack__(copy=False, **MODERN)
    plan = caught.value.plan
    assert (plan.action, plan.nbytes) == ("refuse", 48)
    assert [reason.code for reason in plan.reasons] == ["negative_stride"]
    assert all(reason.fact and reason.remedy for reason in plan.reasons)


def test_read_only_is_flagged() -> None:
    t = layouts.foreign((4,), flags=READ_ONLY)
    fields = info(t.__dlpack__(**MODERN))
    assert (fields.flags, fields.data) == (READ_ONLY, t.data_ptr())
    assert info(t.__dlpack__(copy=False, **MODERN)).flags == READ_ONLY
    assert info(t[1:].__dlpack__(**MODERN)).flags == READ_ONLY
    assert info(t.__dlpack__(copy=True, **MODERN)).flags == IS_COPIED


def test_read_only_over_legacy_is_copied_or_refused() -> None:
    t = layouts.foreign((4,), flags=READ_ONLY)
    out = candle.from_dlpack(t.__dlpack__())
    assert not shares_memory(out, t)
    assert out.tolist() == t.tolist()
    with pytest.raises(candle.CopyError, match="read-only") as caught:
        t.__dlpack__(copy=False)
    assert [reason.code for reason in caught.value.plan.reasons] == ["read_only"]


def test_broadcast_goes_out_writable_with_stride_zero() -> None:
    t = layouts.counting(4).broadcast_to((3, 4))
    fields = info(t.__dlpack__(**MODERN))
    assert (fields.flags, fields.strides, fields.data) == (0, (0, 1), t.data_ptr())
    assert info(t.__dlpack__()).data == t.data_ptr()


def test_writes_are_seen_on_both_sides() -> None:
    t = layouts.counting(2, 3)
    for exported in (t.__dlpack__(), t.__dlpack__(**MODERN), t.__dlpack__(copy=False)):
        other = candle.from_dlpack(exported)
        other[0, 0] = 42
        assert t[0, 0].item() == 42
        t[0, 0] = 0
        assert other[0, 0].item() == 0


# Lifetime


@both_kinds
@pytest.mark.parametrize("copy", [None, True])
def test_unused_capsule_gives_everything_back(keywords: dict[str, Any], copy: bool | None) -> None:
    before = live()
    t = candle.zeros((1000,))
    capsule = t.__dlpack__(copy=copy, **keywords)
    assert live()["exports"] == before["exports"] + 1
    del capsule
    assert live()["exports"] == before["exports"]
    del t
    assert live() == before


@both_kinds
@pytest.mark.parametrize("order", ["ctd", "cdt", "tcd", "tdc", "dct", "dtc"])
@pytest.mark.parametrize("foreign_thread", [False, True])
def test_drops_in_any_order(keywords: dict[str, Any], order: str, foreign_thread: bool) -> None:
    """c: the used capsule; t: the tensor; d: the deleter runs."""
    before = live()
    producer = Producer(shape=(4,))
    held: dict[str, Any] = {"t": candle.from_dlpack(producer)}
    held["c"] = held["t"].__dlpack__(**keywords)
    taken = take(held["c"])
    for step in order:
        assert producer.deletes == 0
        if step == "d":
            assert taken.read(16) == b"".join(layouts.as_float32(n) for n in range(4))
            taken.release(foreign_thread=foreign_thread)
        else:
            del held[step]
        if not (set("td") - set(order[: order.index(step) + 1])):
            break
    assert producer.deletes == 1
    held.clear()
    assert producer.deletes == 1
    assert live() == before


def test_deleter_needs_no_gil_for_memory_that_python_does_not_own() -> None:
    producer = Producer(shape=(4,))
    taken = take(candle.from_dlpack(producer).__dlpack__(**MODERN))
    taken.release(foreign_thread=True)
    assert producer.deletes == 1
    assert producer.notes.gil == 0
    assert producer.notes.thread != threading.get_ident()


@both_kinds
def test_deleter_on_a_foreign_thread_drops_a_python_owner(keywords: dict[str, Any]) -> None:
    owner = bytearray(64)
    references = sys.getrefcount(owner)
    taken = take(candle.asarray(owner).__dlpack__(**keywords))
    with pytest.raises(BufferError):
        owner.append(1)
    taken.release(foreign_thread=True)
    assert sys.getrefcount(owner) == references
    owner.append(1)


def test_consumed_twice_by_name() -> None:
    capsule = candle.zeros((2, 3)).__dlpack__()
    with take(capsule):
        assert capsules.capsule_name(capsule) == "used_dltensor"
        with pytest.raises(ValueError, match="consumed before"):
            take(capsule)
        with pytest.raises((BufferError, ValueError)):
            candle.from_dlpack(capsule)


@both_kinds
def test_any_number_of_exports(keywords: dict[str, Any]) -> None:
    t = layouts.counting(4)
    capsules_ = [t.__dlpack__(**keywords) for _ in range(10)]
    imported = [candle.from_dlpack(capsule) for capsule in capsules_]
    assert [i.data_ptr() for i in imported] == [t.data_ptr()] * 10
    del t
    assert imported[9].tolist() == [0.0, 1.0, 2.0, 3.0]


@both_kinds
def test_exports_take_no_reference_to_the_tensor(keywords: dict[str, Any]) -> None:
    """They hold the storage."""
    t = layouts.counting(4)
    references = sys.getrefcount(t)
    capsule = t.__dlpack__(**keywords)
    assert sys.getrefcount(t) == references
    del t
    assert candle.from_dlpack(capsule).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_capsule_holds_the_memory_of_a_dropped_tensor() -> None:
    capsule = layouts.counting(1000).__dlpack__(**MODERN)
    junk = [candle.full((1000,), 7.0) for _ in range(50)]
    assert candle.from_dlpack(capsule).tolist() == [float(n) for n in range(1000)]
    del junk


def test_refused_exports_leave_nothing() -> None:
    t = layouts.foreign((4,), flags=READ_ONLY)
    before = live()
    for _ in range(100):
        with pytest.raises(BufferError):
            t.__dlpack__(copy=False)
        with pytest.raises(BufferError):
            t.__dlpack__(dl_device=(2, 0))
        with pytest.raises(TypeError):
            t.__dlpack__(colour=1)  # type: ignore[call-arg]
    gc.collect()
    assert live() == before


def test_capsule_dropped_while_an_exception_is_pending() -> None:
    def consume(_capsule: object) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        consume(layouts.counting(4).__dlpack__())


def test_description_for_people() -> None:
    assert "dltensor_versioned 1.3 flags=0 device=(1, 0)" in describe(
        candle.zeros((2, 3)).__dlpack__(**MODERN)
    )
