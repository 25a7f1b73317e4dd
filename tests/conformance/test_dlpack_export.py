"""`Tensor.__dlpack__`: what candle hands out, no consumer can crash on or misread."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import layouts
import pytest

import candle
from candle._native import _core
from candle.testing import Producer, capsules, info, live
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


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn", "float6_e2m3fn"])
def test_consumers_of_dlpack_1_0_count_a_byte_an_element(dtype: str) -> None:
    """Only DLPack 1.1 says that elements lie several to a byte: they would go beyond the memory."""
    t = candle.asarray([1, 2, 3, 4, 1, 2, 3, 4]).to(dtype)
    with pytest.raises(candle.CopyError, match=r'DLPack 1\.0 takes one a byte.*t\.view\("uint8"\)'):
        t.__dlpack__(max_version=(1, 0), copy=False)
    copied = candle.from_dlpack(t.__dlpack__(max_version=(1, 0)))
    assert (copied.nbytes, copied.tolist()) == (8, t.tolist())
    shared = candle.from_dlpack(t.__dlpack__(max_version=(1, 1), copy=False))
    assert (shared.nbytes, shared.data_ptr()) == (t.nbytes, t.data_ptr())
    bytes_ = candle.from_dlpack(t.view("uint8").__dlpack__(max_version=(1, 0), copy=False))
    assert bytes_.data_ptr() == t.data_ptr()
    again = copied.__dlpack__(max_version=(1, 0), copy=False)  # one a byte already
    assert candle.from_dlpack(again).data_ptr() == copied.data_ptr()


@pytest.mark.parametrize("max_version", [1, "1.3", (), (1,), ("1", "3"), (1, 2, 3), (None, 0), 1.5])
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


@pytest.mark.parametrize("device", [(10, 1), (13, 0), (99, 0), (1, 5), (3, 0), (-1, 0), (2, -1)])
@pytest.mark.parametrize("copy", [None, False, True])
def test_device_it_is_not_on(device: tuple[int, int], copy: bool | None) -> None:
    with pytest.raises(BufferError, match=r"(?i)device"):
        candle.zeros((2, 3)).__dlpack__(dl_device=device, copy=copy)


def test_host_memory_is_not_called_a_devices() -> None:
    with pytest.raises(candle.CopyError, match=r"\(2, 0\) was asked for"):
        candle.zeros((2, 3)).__dlpack__(dl_device=(2, 0), copy=False)


@pytest.mark.parametrize("device", [1, "cpu", (), (1,), (1, 0, 0), ("1", 0)])
def test_wrong_device(device: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="dl_device"):
        candle.zeros((2, 3)).__dlpack__(dl_device=device)


def test_pinned_memory_goes_out_to_the_host_as_asked() -> None:
    t = layouts.foreign((4,), device=(3, 0))
    assert info(t.__dlpack__(**MODERN)).device == (3, 0)
    fields = info(t.__dlpack__(dl_device=(1, 0), **MODERN))
    assert fields.device == (1, 0)


def test_memory_of_the_host_is_that_of_any_of_its_devices() -> None:
    """Asked for on the host, or on the CPU of another number, it is shared as it lies."""
    for device in ((1, 3), (3, 0), (3, 1), (11, 0)):
        t = layouts.foreign((4,), device=device)
        assert (t.__dlpack_device__(), t.tolist()) == (device, [0, 1, 2, 3])
        for same in (candle.asarray(t, device="cpu"), candle.from_dlpack(t, device=(1, 0))):
            assert same.data_ptr() == t.data_ptr()
        assert t.to("cpu").tolist() == t.tolist()
        assert info(_core.legacy_capsule(t)).device == (1, 0)


def test_a_capsule_that_lost_its_name_is_its_consumers() -> None:
    """Consumers rename what they took; a name of NULL is as good as another."""
    for asked, name in (({}, "dltensor"), (MODERN, "dltensor_versioned")):
        before = live()
        capsule = candle.zeros(4).__dlpack__(**asked)
        managed = capsules.capsule_address(capsule, name)
        capsules._set_name(capsule, None)
        del capsule
        assert live()["exports"] == before["exports"] + 1
        candle.from_dlpack(capsules.new_capsule(managed, name))
        assert live() == before


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
    if layouts.must_copy(t, versioned=versioned) and copy is False:
        with pytest.raises(BufferError):
            t.__dlpack__(**asked)
        return
    copied = copy is True or layouts.must_copy(t, versioned=versioned)
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
    if not layouts.must_copy(t, versioned=bool(keywords)) and t.size > 0:
        kept = [
            (mine, theirs)
            for extent, mine, theirs in zip(t.shape, t.stride, fields.strides, strict=True)
            if extent > 1
        ]
        assert all(mine == theirs for mine, theirs in kept)


@pytest.mark.parametrize(
    "shape", [(1, 77), (77, 1), (1,), (1, 1), (1, 1, 2), (2, 1, 3), (0, 1), (1, 0)]
)
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
