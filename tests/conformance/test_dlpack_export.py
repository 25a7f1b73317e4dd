"""`Tensor.__dlpack__`, clause by clause: what candle hands out, no consumer can crash on or misread."""

from __future__ import annotations

import contextlib
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

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

MODERN = {"max_version": (1, 3)}
ALIGNMENT = 256

every_layout = pytest.mark.parametrize(
    "make", [pytest.param(make, id=name) for name, make in layouts.LAYOUTS.items()]
)
both_kinds = pytest.mark.parametrize("keywords", [{}, MODERN], ids=["legacy", "versioned"])


def must_copy(t: candle.Tensor, versioned: bool) -> bool:
    """Whether only a copy can be handed out."""
    return layouts.has_negative_stride(t) or (t.readonly and not versioned)


# Version and name


@pytest.mark.parametrize("max_version", [None, (0, 0), (0, 8), (0, 99)])
def test_legacy_capsule(max_version: tuple[int, int] | None) -> None:
    fields = info(candle.zeros((2, 3)).__dlpack__(max_version=max_version))
    assert (fields.name, fields.version) == ("dltensor", None)


@pytest.mark.parametrize("max_version", [(1, 0), (1, 1), (1, 3), (1, 99), (2, 0), (9, 9)])
def test_versioned_capsule_of_our_own_version(max_version: Any) -> None:
    """The producer's own version, if the consumer's major is the same or higher."""
    fields = info(candle.zeros((2, 3)).__dlpack__(max_version=max_version))
    assert (fields.name, fields.version) == ("dltensor_versioned", (1, 3))


@pytest.mark.parametrize("max_version", [1, "1.3", (), (1,), ("1", "3"), (1, 2, 3), (None, 0), 1.3])
def test_wrong_max_version(max_version: Any) -> None:
    before = live()
    with pytest.raises((TypeError, ValueError), match="max_version"):
        candle.zeros((2, 3)).__dlpack__(max_version=max_version)
    assert live() == before


# Keywords


@pytest.mark.parametrize("stream", [None, -1])
def test_streams_of_the_host(stream: int | None) -> None:
    t = candle.zeros((2, 3))
    assert info(t.__dlpack__(stream=stream, **MODERN)).data == t.data_ptr()


@pytest.mark.parametrize("stream", [0, 1, 2, 12345, "stream", 1.5])
def test_other_streams_do_no_harm(stream: Any) -> None:
    with contextlib.suppress(TypeError, ValueError, BufferError):
        candle.zeros((2, 3)).__dlpack__(stream=stream)


@pytest.mark.parametrize("device", [None, (1, 0)])
def test_device_it_is_on(device: Any) -> None:
    t = candle.zeros((2, 3))
    fields = info(t.__dlpack__(dl_device=device, **MODERN))
    assert (fields.device, fields.data) == ((1, 0), t.data_ptr())


@pytest.mark.parametrize("device", [(2, 0), (10, 1), (13, 0), (99, 0), (1, 5), (-1, 0)])
def test_device_it_is_not_on(device: tuple[int, int]) -> None:
    with pytest.raises(BufferError, match=r"(?i)device"):
        candle.zeros((2, 3)).__dlpack__(dl_device=device)


@pytest.mark.parametrize("device", [1, "cpu", (), (1,), (1, 0, 0), ("1", 0)])
def test_wrong_device(device: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="dl_device"):
        candle.zeros((2, 3)).__dlpack__(dl_device=device)


def test_pinned_memory_goes_out_to_the_host_as_asked() -> None:
    t = layouts.foreign((4,), device=(3, 0))
    assert info(t.__dlpack__(**MODERN)).device == (3, 0)
    fields = info(t.__dlpack__(dl_device=(1, 0), **MODERN))
    assert fields.device == (1, 0)


@pytest.mark.parametrize("copy", ["yes", 2, 0.5, [], "True"])
def test_wrong_copy(copy: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="copy"):
        candle.zeros((2, 3)).__dlpack__(copy=copy)


def test_positional_and_unknown_arguments() -> None:
    t = candle.zeros((2, 3))
    with pytest.raises(TypeError):
        t.__dlpack__(None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        t.__dlpack__(colour=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        t.__dlpack_device__(1)  # type: ignore[call-arg]


def test_dlpack_device() -> None:
    assert candle.zeros((2, 3)).__dlpack_device__() == (1, 0)
    assert candle.zeros((0,)).__dlpack_device__() == (1, 0)


keywords = st.fixed_dictionaries(
    {},
    optional={
        "stream": st.sampled_from([None, -1]),
        "max_version": st.sampled_from([None, (0, 8), (1, 0), (1, 3), (9, 9)]),
        "dl_device": st.sampled_from([None, (1, 0)]),
        "copy": st.sampled_from([None, False, True]),
    },
)


@hypothesis.given(st.sampled_from(sorted(layouts.LAYOUTS)), keywords)
@hypothesis.settings(max_examples=600)
def test_keywords_in_any_company(name: str, asked: dict[str, Any]) -> None:
    t = layouts.LAYOUTS[name]()
    wanted_version = asked.get("max_version")
    versioned = wanted_version is not None and wanted_version[0] >= 1
    copy = asked.get("copy")
    if must_copy(t, versioned) and copy is False:
        with pytest.raises(BufferError):
            t.__dlpack__(**asked)
        return
    copied = copy is True or must_copy(t, versioned)
    fields = info(t.__dlpack__(**asked))
    assert fields.name == ("dltensor_versioned" if versioned else "dltensor")
    assert fields.shape == t.shape or (t.ndim == 0 and not fields.shape)
    assert fields.byte_offset == 0
    assert fields.deleter
    assert fields.device == (1, 0)
    if t.size == 0:
        assert fields.data == 0
    else:
        assert (fields.data == t.data_ptr()) == (not copied)
    if t.ndim > 0:
        assert fields.strides is not None
        assert all(stride >= 0 for stride in fields.strides)
    if versioned:
        assert fields.flags == (IS_COPIED if copied else READ_ONLY if t.readonly else 0)


# The struct


@every_layout
@both_kinds
def test_values_go_out_right(make: Make, keywords: dict[str, Any]) -> None:
    t = make()
    back = candle.from_dlpack(t.__dlpack__(**keywords))
    assert back.tolist() == t.tolist()
    assert back.dtype == t.dtype


@every_layout
@both_kinds
def test_strides_are_canonical(make: Make, keywords: dict[str, Any]) -> None:
    t = make()
    fields = info(t.__dlpack__(**keywords))
    if t.ndim == 0:
        return
    assert fields.strides is not None
    ones = [stride for extent, stride in zip(t.shape, fields.strides, strict=True) if extent == 1]
    assert all(stride > 0 for stride in ones)
    if t.is_contiguous():
        assert fields.strides == layouts.compact(t.shape)
    if not must_copy(t, bool(keywords)) and t.size > 0:
        kept = [
            (mine, theirs)
            for extent, mine, theirs in zip(t.shape, t.stride, fields.strides, strict=True)
            if extent > 1
        ]
        assert all(mine == theirs for mine, theirs in kept)


@pytest.mark.parametrize("shape", [(1, 77), (77, 1), (1,), (1, 1), (1, 1, 2), (2, 1, 3), (0, 1), (1, 0)])
def test_contiguous_shapes_have_compact_strides(shape: tuple[int, ...]) -> None:
    fields = info(candle.zeros(shape).__dlpack__(**MODERN))
    assert fields.strides == layouts.compact(shape)


@both_kinds
def test_zero_dimensional(keywords: dict[str, Any]) -> None:
    t = layouts.counting(3)[2]
    capsule = t.__dlpack__(**keywords)
    assert capsules.managed(capsule).dl_tensor.ndim == 0
    assert info(capsule).address == t.data_ptr()


@both_kinds
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 2)])
def test_empty_has_no_address(shape: tuple[int, ...], keywords: dict[str, Any]) -> None:
    fields = info(candle.zeros(shape).__dlpack__(**keywords))
    assert (fields.data, fields.byte_offset, fields.shape) == (0, 0, shape)
    assert info(layouts.counting(4)[2:2].__dlpack__(**keywords)).data == 0


@pytest.mark.parametrize("size", [1, 3, 64, 1000, 100_000])
def test_own_memory_is_aligned(size: int) -> None:
    made = [candle.zeros((size,)), candle.ones((size,)), candle.empty((size,)), candle.arange(size)]
    assert [info(t.__dlpack__()).data % ALIGNMENT for t in made] == [0] * len(made)
    assert info(made[0].__dlpack__(copy=True)).data % ALIGNMENT == 0


@both_kinds
def test_byte_offset_is_folded_in(keywords: dict[str, Any]) -> None:
    producer = Producer(shape=(4,), byte_offset=8)
    t = candle.from_dlpack(producer)
    fields = info(t[1:].__dlpack__(**keywords))
    assert (fields.data, fields.byte_offset) == (producer.address + 12, 0)


@every_layout
@both_kinds
def test_struct_is_private_to_its_export(make: Make, keywords: dict[str, Any]) -> None:
    """Consumers write into it."""
    t = make()
    first, second = t.__dlpack__(**keywords), t.__dlpack__(**keywords)
    one, other = capsules.managed(first), capsules.managed(second)
    fields, values = info(second), t.tolist()
    shape, strides = t.shape, t.stride
    for axis in range(t.ndim):
        one.dl_tensor.shape[axis] = 12345
        one.dl_tensor.strides[axis] = -12345
    one.dl_tensor.byte_offset = 99
    one.dl_tensor.dtype.bits = 3
    assert info(second) == fields
    assert (t.shape, t.stride, t.tolist()) == (shape, strides, values)
    assert capsules.C.addressof(one) != capsules.C.addressof(other)


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("bool", (6, 8, 1)),
        *((f"int{bits}", (0, bits, 1)) for bits in (8, 16, 32, 64)),
        *((f"uint{bits}", (1, bits, 1)) for bits in (8, 16, 32, 64)),
        *((f"float{bits}", (2, bits, 1)) for bits in (16, 32, 64)),
        ("bfloat16", (4, 16, 1)),
        ("complex64", (5, 64, 1)),
        ("complex128", (5, 128, 1)),
        ("float8_e3m4", (7, 8, 1)),
        ("float8_e4m3", (8, 8, 1)),
        ("float8_e4m3b11fnuz", (9, 8, 1)),
        ("float8_e4m3fn", (10, 8, 1)),
        ("float8_e4m3fnuz", (11, 8, 1)),
        ("float8_e5m2", (12, 8, 1)),
        ("float8_e5m2fnuz", (13, 8, 1)),
        ("float8_e8m0fnu", (14, 8, 1)),
    ],
)
@both_kinds
def test_dtypes(dtype: str, wanted: tuple[int, int, int], keywords: dict[str, Any]) -> None:
    assert info(candle.empty((3,), dtype=dtype).__dlpack__(**keywords)).dtype == wanted


@pytest.mark.parametrize(
    "dtype", [(17, 4, 2), (17, 4, 1), (15, 6, 1), (16, 6, 1), (0, 4, 1), (1, 4, 1), (5, 32, 1)]
)
@both_kinds
def test_small_dtypes_are_passed_on(dtype: tuple[int, int, int], keywords: dict[str, Any]) -> None:
    producer = Producer(shape=(4,), dtype=dtype)
    fields = info(candle.from_dlpack(producer).__dlpack__(**keywords))
    assert (fields.dtype, fields.data, fields.shape) == (dtype, producer.address, (4,))


# Shared or copied


@every_layout
def test_copied_flag_says_what_candle_did(make: Make) -> None:
    t = make()
    for copy in (None, True):
        with take(t.__dlpack__(copy=copy, **MODERN)) as taken:
            copied = copy is True or must_copy(t, versioned=True)
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
