"""Tensors go out as Arrow arrays: over the same memory wherever rows lie without gaps."""

from __future__ import annotations

import ctypes
import gc
import io
import threading
from typing import Any

import arrow_structs as arrow
import numpy as np
import pytest

import candle
from candle.testing import live

pa = pytest.importorskip("pyarrow")

NUMBERS = [
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
]
OPAQUE = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32", "complex64", "complex128"]


def address(x: Any) -> int:
    found: int = x.buffers()[-1].address
    return found


def counted(*shape: int, dtype: str = "int32") -> candle.Tensor:
    return candle.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_are_shared(dtype: str) -> None:
    t = counted(5, dtype=dtype)
    x = pa.array(t)
    assert x.type == pa.from_numpy_dtype(dtype)
    assert (x.to_pylist(), address(x)) == (t.tolist(), t.data_ptr())
    t[0] = 7
    assert x[0].as_py() == 7
    part = t[1:4]
    assert (pa.array(part).to_pylist(), address(pa.array(part))) == (part.tolist(), part.data_ptr())


def test_everybody_who_takes_arrays_takes_tensors() -> None:
    t = counted(3, dtype="float64")
    for column in (
        pa.table({"x": t})["x"],
        pa.record_batch({"x": t})["x"],
        pa.chunked_array([t]),
        pa.Table.from_arrays([t], ["x"])["x"],
    ):
        chunk = column.chunk(0) if hasattr(column, "chunk") else column
        assert (chunk.to_pylist(), address(chunk)) == (t.tolist(), t.data_ptr())


@pytest.mark.parametrize(
    "order", [(0, 1), (1, 0), (0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 0, 3, 2)]
)
def test_more_axes_become_fixed_shape_tensors(order: tuple[int, ...]) -> None:
    extents = [2, 3, 4, 5][: len(order)]
    t = counted(4, *extents).permute(0, *[axis + 1 for axis in order])
    x = pa.array(t)
    named = {} if list(order) == sorted(order) else {"permutation": list(order)}
    assert x.type == pa.fixed_shape_tensor(pa.int32(), extents, **named)
    assert (x.to_numpy_ndarray().tolist(), address(x)) == (t.tolist(), t.data_ptr())
    back = candle.from_arrow(x, copy=False)
    assert (back.shape, back.stride) == (t.shape, t.stride)


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 0, 1), (1, 2, 3, 0)])
def test_orders_that_pyarrow_misreads_are_copied(order: tuple[int, ...]) -> None:
    """Those that are not their own inverse; by name they are shared as the specification says."""
    extents = [2, 3, 4, 5][: len(order)]
    t = counted(4, *extents).permute(0, *[axis + 1 for axis in order])
    x = pa.array(t)
    assert x.type == pa.fixed_shape_tensor(pa.int32(), t.shape[1:])
    assert x.to_numpy_ndarray().tolist() == t.tolist()
    assert [r.code for r in candle.explain(t, "arrow").reasons] == ["permuted"]
    named = t.arrow(type=pa.fixed_shape_tensor(pa.int32(), extents, permutation=order), copy=False)
    assert address(named) == t.data_ptr()
    back = candle.from_arrow(named, copy=False)
    assert (back.tolist(), back.stride) == (t.tolist(), t.stride)


def test_axes_of_one_element_turn_nothing() -> None:
    t = counted(4, 2, 1, 3).permute(0, 2, 3, 1)
    assert candle.explain(t, "arrow").action == "share"
    assert pa.array(t).to_numpy_ndarray().tolist() == t.tolist()


@pytest.mark.parametrize(
    "shape", [(0,), (0, 3), (3, 0), (1,), (1, 1), (3, 1), (1, 3), (2, 1, 3, 1)]
)
def test_extents_of_none_and_one(shape: tuple[int, ...]) -> None:
    t = counted(*shape)
    x = pa.array(t)
    back = candle.from_arrow(x, copy=False)
    assert (back.shape, back.tolist()) == (t.shape, t.tolist())
    x.validate(full=True)
    plain = candle.from_arrow(t.arrow(layout="list"))
    assert (plain.shape, plain.tolist()) == (t.shape, t.tolist())


COPIED = {
    "reversed": (lambda t: t[::-1], {"negative_stride", "not_dense"}),
    "stepped": (lambda t: t[::2], {"not_dense"}),
    "columns of more": (lambda t: t[:, :1], {"not_dense"}),
    "rows inside": (lambda t: t.permute(1, 0, 2), {"not_dense"}),
    "broadcast": (lambda t: t[:1].broadcast_to(4, 2, 3), {"not_dense"}),
}


@pytest.mark.parametrize("kind", COPIED)
def test_other_layouts_are_copied_and_say_why(kind: str) -> None:
    view, codes = COPIED[kind]
    t = view(counted(4, 2, 3))
    plan = candle.explain(t, "pyarrow")
    with candle.trace() as moves:
        x = pa.array(t)
    assert list(moves) == [plan]
    assert (plan.action, plan.nbytes, {r.code for r in plan.reasons}) == ("copy", t.nbytes, codes)
    assert x.to_numpy_ndarray().tolist() == t.tolist()
    with pytest.raises(candle.CopyError) as caught:
        t.arrow(copy=False)
    assert {r.code for r in caught.value.plan.reasons} == codes
    with candle.strict(), pytest.raises(candle.CopyError):
        t.__arrow_c_array__()


def test_booleans_become_bits_by_one_copy() -> None:
    rng = np.random.default_rng(0)
    for shape in ((1,), (8,), (13,), (3, 5), (70_001,), (100, 9, 7)):
        t = candle.asarray(rng.random(shape) < 0.5)
        for view in (t, t[::-1], t[::3], t.T if t.ndim == 2 else t):
            x = pa.array(view)
            assert candle.from_arrow(x).tolist() == view.tolist()
            leaf = x.storage.flatten() if view.ndim > 1 else x
            assert leaf.type == pa.bool_()
    plan = candle.explain(candle.zeros((3, 5), dtype="bool"), "arrow")
    assert (plan.nbytes, [r.code for r in plan.reasons]) == (2, ["bitmap"])
    with pytest.raises(candle.CopyError, match=r't\.view\("uint8"\)'):
        candle.zeros(3, dtype="bool").arrow(copy=False)


def test_bool8_is_shared_when_asked() -> None:
    t = candle.asarray([True, False, True])
    x = t.arrow(type=pa.bool8(), copy=False)
    assert x.type == pa.bool8()
    assert (x.storage.to_pylist(), address(x)) == ([1, 0, 1], t.data_ptr())


@pytest.mark.parametrize("dtype", OPAQUE)
@pytest.mark.parametrize("shape", [(6,), (2, 3), (0, 3)])
def test_what_arrow_has_no_type_for_is_opaque(dtype: str, shape: tuple[int, ...]) -> None:
    t = candle.ones(shape).to(dtype)
    x = t.arrow(copy=False)
    storage = x.type if len(shape) == 1 else x.type.value_type
    assert (storage.type_name, storage.vendor_name) == (dtype, "candle")
    back = candle.from_arrow(x, copy=False)
    assert (str(back.dtype), back.shape, back.tolist()) == (dtype, shape, t.tolist())
    if t.size:
        assert address(x) == t.data_ptr() == back.data_ptr()
        sliced = candle.from_arrow(x[1:], copy=False)
        assert sliced.tolist() == t[1:].tolist()


@pytest.mark.parametrize("dtype", ["int4", "float4_e2m1fn", "float6_e2m3fn"])
def test_packed_elements_are_refused(dtype: str) -> None:
    t = candle.zeros(8).to(dtype)
    for go in (pa.array, candle.Tensor.arrow, candle.Tensor.__arrow_c_schema__):
        with pytest.raises(BufferError, match=rf"no {dtype} .*t\.to"):
            go(t)
    assert candle.explain(t, "arrow").action == "refuse"


def test_no_axes_are_refused() -> None:
    t = candle.asarray(1.5)
    for go in (pa.array, candle.Tensor.arrow, candle.Tensor.__arrow_c_schema__):
        with pytest.raises(BufferError, match=r"no axes.*t\.reshape\(1\)"):
            go(t)
    assert t.reshape(1).arrow().to_pylist() == [1.5]


@pytest.mark.parametrize("shape", [(0, 2**31), (0, 2**16, 2**15), (2**31, 0), (2, 0, 2**31)])
def test_lists_of_nothing_that_cannot_be_counted(shape: tuple[int, ...]) -> None:
    t = candle.zeros(shape, dtype="int8")
    for layout in ("tensor", "list"):
        if max(shape[1:]) <= 2**16 and 2**31 in shape:
            assert len(t.arrow(layout=layout)) == len(t)
            continue
        with pytest.raises(BufferError, match=r"2147483648 elements.*at most 2147483647"):
            t.arrow(layout=layout)


def test_rows_that_lists_cannot_count_are_refused() -> None:
    t = candle.empty((1, 2**31), dtype="uint8")  # memory that nobody touches is none
    assert [r.code for r in candle.explain(t, "arrow").reasons] == ["long_rows"]
    with pytest.raises(BufferError, match="2147483648 elements"):
        t.__arrow_c_array__()
    assert candle.explain(t.reshape(2, 2**30), "arrow").action == "share"


# What is asked for.


def test_lists_in_place_of_tensors() -> None:
    t = counted(2, 3, 4)
    x = t.arrow(layout="list", copy=False)
    assert x.type == pa.list_(pa.list_(pa.int32(), 4), 3)
    assert (x.to_pylist(), address(x)) == (t.tolist(), t.data_ptr())
    turned = t.permute(0, 2, 1)
    assert turned.arrow(layout="list").to_pylist() == turned.tolist()
    with pytest.raises(candle.CopyError, match="row-major"):
        turned.arrow(layout="list", copy=False)
    with pytest.raises(ValueError, match="layout"):
        t.arrow(layout="rows")


def test_requested_types_are_honoured() -> None:
    t = counted(2, 3, 4)
    flat = t.arrow(type=pa.list_(pa.int32(), 12), copy=False)
    assert (flat.to_pylist(), address(flat)) == (t.reshape(2, 12).tolist(), t.data_ptr())
    cast = pa.array(counted(3), type=pa.float64())
    assert (cast.type, cast.to_pylist()) == (pa.float64(), [0, 1, 2])
    bits = pa.array(counted(3), type=pa.bool_())
    assert bits.to_pylist() == [False, True, True]
    kind = pa.fixed_shape_tensor(pa.int32(), [4, 3], permutation=[1, 0], dim_names=["a", "b"])
    turned = t.arrow(type=kind)
    assert turned.type == kind
    assert turned.to_numpy_ndarray().tolist() == t.tolist()
    shared = t.permute(0, 2, 1).arrow(
        type=pa.fixed_shape_tensor(pa.int32(), [3, 4], permutation=[1, 0]), copy=False
    )
    assert address(shared) == t.data_ptr()
    stamps = counted(3, dtype="int64").arrow(type=pa.timestamp("us", "UTC"), copy=False)
    assert (stamps.type, stamps.cast("int64").to_pylist()) == (pa.timestamp("us", "UTC"), [0, 1, 2])
    field = pa.field("x", pa.list_(pa.field("y", pa.int32()), 12), metadata={"k": "v"})
    assert t.arrow(type=field).to_pylist() == flat.to_pylist()


JOINED: list[tuple[tuple[int, ...], Any]] = [
    ((2, 3), pa.list_(pa.int32(), 3)),
    ((2, 3, 4), pa.list_(pa.list_(pa.int32(), 4), 3)),
    ((2, 2, 3, 2), pa.list_(pa.list_(pa.int32(), 2), 6)),
    ((2, 2, 3, 2), pa.list_(pa.list_(pa.int32(), 6), 2)),
    ((2, 3, 1, 2), pa.list_(pa.list_(pa.int32(), 2), 3)),
    ((2, 1, 3, 1), pa.list_(pa.int32(), 3)),
    ((2,), pa.int32()),
    ((2, 1), pa.int32()),
    ((0, 3, 2), pa.list_(pa.int32(), 6)),
]


def test_axes_are_joined_as_the_requested_lists_have_them() -> None:
    for shape, kind in JOINED:
        t = counted(*shape)
        if kind == pa.int32() and len(shape) > 1:  # lists of one are not the items
            with pytest.raises(BufferError, match="its rows have other axes"):
                t.arrow(type=kind)
            continue
        x = t.arrow(type=kind, copy=False)
        x.validate(full=True)
        rows = t.tolist()
        flat = np.array(rows, "int32").reshape(-1).tolist()
        leaf = x
        while leaf.type != pa.int32():
            leaf = leaf.flatten()
        assert (len(x), leaf.to_pylist()) == (len(t), flat), shape


def test_lists_of_tensors_are_asked_for_in_their_own_order() -> None:
    """No axes are joined there: a tensor of other axes is refused."""
    t = counted(2, 2, 3, 4)
    inner = pa.fixed_shape_tensor(pa.int32(), [3, 4])
    kind = pa.list_(inner, 2)
    x = t.arrow(type=kind, copy=False)
    assert (x.type, candle.from_arrow(x).tolist()) == (kind, t.tolist())
    with pytest.raises(BufferError, match="its rows have other axes"):
        t.arrow(type=pa.list_(inner, 1))
    nested = arrow.schema(
        "+w:6",
        arrow.schema("+w:4", arrow.schema("i")),
        metadata=arrow.extension("arrow.fixed_shape_tensor", '{"shape":[2,3]}'),
    )
    _, data = t.__arrow_c_array__(arrow.capsule(nested, b"arrow_schema"))
    again = arrow.capsule(nested, b"arrow_schema")
    assert candle.from_arrow((again, data)).tolist() == t.tolist()


def test_rows_of_bytes_are_refused_of_any_width() -> None:
    """Of no bytes as well, where the elements would go nowhere."""
    for shape in ((3,), (3, 2), (3, 0)):
        for dtype in ("uint8", "float32"):
            for width in (0, 1, 2):
                with pytest.raises(BufferError, match="makes no binary data"):
                    candle.ones(shape, dtype=dtype).arrow(type=pa.binary(width))
    with pytest.raises(BufferError, match="makes no binary data"):
        candle.ones((3, 2)).arrow(type=pa.list_(pa.binary(0), 2))


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.list_(pa.int32()),
        pa.list_(pa.int32(), 5),
        pa.list_(pa.list_(pa.int32(), 3), 4),
        pa.int32(),
        pa.fixed_shape_tensor(pa.int32(), [4, 3]),
        pa.fixed_shape_tensor(pa.int32(), [12]),
        pa.dictionary(pa.int8(), pa.int32()),
        pa.list_(pa.timestamp("s"), 12),
        pa.list_(pa.list_(pa.binary(1), 12), 1),
        pa.struct({"a": pa.int32()}),
    ],
    ids=str,
)
def test_types_that_cannot_be_are_refused(kind: Any) -> None:
    t = counted(2, 3, 4)
    with pytest.raises(BufferError, match="asked for"):
        t.arrow(type=kind)
    for wrong in (3, "int32"):
        with pytest.raises(TypeError):
            t.arrow(type=wrong)
        with pytest.raises(TypeError):
            t.__arrow_c_array__(wrong)


def test_copy_true_copies() -> None:
    t = counted(3)
    x = t.arrow(copy=True)
    assert (x.to_pylist(), address(x) == t.data_ptr()) == ([0, 1, 2], False)


def test_arguments_of_the_protocol() -> None:
    t = counted(3)
    assert len(t.__arrow_c_array__(requested_schema=None)) == 2
    assert len(t.__arrow_c_device_array__(None, later=None)) == 2
    with pytest.raises(NotImplementedError):
        t.__arrow_c_device_array__(later=1)
    with pytest.raises(TypeError):
        t.__arrow_c_array__(later=None)
    with pytest.raises(TypeError):
        t.__arrow_c_array__(None, None)
    for wrong in (3, t.__dlpack__()):
        for method in (t.__arrow_c_array__, t.__arrow_c_device_array__):
            with pytest.raises(TypeError, match='requested_schema is None or a capsule "arrow_sch'):
                method(wrong)
    assert pa.DataType._import_from_c_capsule(t.__arrow_c_schema__()) == pa.int32()


# Owners and releases.


def test_memory_lives_as_long_as_the_array() -> None:
    before = live()
    t = counted(4, 3)
    expected = t.tolist()
    x = t.arrow()
    del t
    assert x.to_numpy_ndarray().tolist() == expected
    part = x[2:]
    del x
    assert part.to_numpy_ndarray().tolist() == expected[2:]
    del part
    gc.collect()
    assert live() == before


def test_capsules_nobody_took_release_what_they_hold() -> None:
    before = live()
    t = counted(4, 3)
    capsules = [t.__arrow_c_array__(), t.__arrow_c_device_array__(), t.__arrow_c_schema__()]
    assert live()["exports"] == before["exports"] + 4
    del capsules, t
    assert live() == before


def test_moved_children_outlive_their_parent() -> None:
    """The consumer takes the items alone, and releases the lists first."""
    before = live()
    t = counted(4, 3)
    _, capsule = t.__arrow_c_array__()
    parent = arrow.held_in(capsule, b"arrow_array", arrow.Array)
    child = arrow.Array()
    ctypes.memmove(ctypes.byref(child), parent.children[0], ctypes.sizeof(arrow.Array))
    parent.children[0].contents.release = None
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    del t
    release(parent.release)(ctypes.addressof(parent))
    assert not parent.release
    assert live()["exports"] == before["exports"] + 1
    items = np.ctypeslib.as_array((ctypes.c_int32 * 12).from_address(child.buffers[1]))
    assert items.tolist() == list(range(12))
    release(child.release)(ctypes.addressof(child))
    assert not child.release
    del capsule
    assert live() == before


def test_moved_child_schemas_outlive_their_parent() -> None:
    capsule = counted(4, 3).__arrow_c_schema__()
    parent = arrow.held_in(capsule, b"arrow_schema", arrow.Schema)
    child = arrow.Schema()
    ctypes.memmove(ctypes.byref(child), parent.children[0], ctypes.sizeof(arrow.Schema))
    parent.children[0].contents.release = None
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    release(parent.release)(ctypes.addressof(parent))
    assert ctypes.string_at(child.format) == b"i"
    release(child.release)(ctypes.addressof(child))


def test_release_on_another_thread_without_the_gil() -> None:
    """ctypes lets go of the GIL for a call; the owner is a Python object."""
    owner = bytearray(64)
    t = candle.asarray(owner)
    _, capsule = t.__arrow_c_array__()
    held = arrow.held_in(capsule, b"arrow_array", arrow.Array)
    del t
    with pytest.raises(BufferError):
        owner.append(0)
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(held.release)
    thread = threading.Thread(target=release, args=(ctypes.addressof(held),))
    thread.start()
    thread.join()
    owner.append(0)


def test_round_trip_through_parquet_and_ipc() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    t = counted(100, 4, 3, dtype="float32")
    half = candle.ones((100, 2)).to("bfloat16")
    table = pa.table({"t": t, "turned": t.permute(0, 2, 1), "half": half, "bits": t[:, 0, 0] != 0})
    file = io.BytesIO()
    parquet.write_table(table, file)
    read = parquet.read_table(file)
    assert read.schema == table.schema
    for name, expected in (("t", t), ("turned", t.permute(0, 2, 1)), ("half", half)):
        back = candle.from_arrow(read, column=name)
        assert (back.dtype, back.shape) == (expected.dtype, expected.shape)
        assert back.tolist() == expected.tolist()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    file = pa.ipc.open_file(sink.getvalue()).read_all()
    assert candle.from_arrow(file, column="t", copy=False).tolist() == t.tolist()


def test_wrong_calls() -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match='layout is "tensor" or "list", not \'rows\''):
        candle.zeros(2).arrow(layout="rows")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="type is an Arrow type, not 'float32'"):
        candle.zeros(2).arrow(type="float32")
