"""Pickling, copying and the size that is told: every layout, dtype and protocol."""

from __future__ import annotations

import array
import copy
import ctypes
import math
import pickle
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import candle
from candle._native import _core

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
ALL_DTYPES = [candle.as_dtype(row[0]) for row in _core.dtype_rows()]


def numbers(*shape: int) -> candle.Tensor:
    return candle.arange(math.prod(shape), dtype="float32").reshape(shape)


# Layouts; whether the memory is dense, in some order of the axes.
LAYOUTS: dict[str, tuple[Callable[[], candle.Tensor], bool]] = {
    "row-major": (lambda: numbers(3, 4), True),
    "column-major": (lambda: numbers(3, 4).T, True),
    "permuted": (lambda: numbers(2, 3, 4).permute(1, 2, 0), True),
    "extent 1": (lambda: numbers(1, 4, 1).permute(2, 1, 0), True),
    "0-d": (lambda: numbers(1)[0], True),
    "empty": (lambda: numbers(0, 3), True),
    "empty, permuted": (lambda: numbers(3, 0, 2).permute(2, 1, 0), True),
    "every other row": (lambda: numbers(6, 4)[::2], False),
    "reversed": (lambda: numbers(5)[::-1], False),
    "broadcast": (lambda: numbers(4).broadcast_to(3, 4), False),
    "cropped": (lambda: numbers(6, 6)[1:4, 2:5], False),
    "read-only": (lambda: candle.asarray(b"abcdef"), True),
}


def same(a: candle.Tensor, b: candle.Tensor) -> bool:
    return (
        type(a) is type(b)
        and (a.shape, a.dtype, a.device, a.readonly) == (b.shape, b.dtype, b.device, b.readonly)
        and _core.as_bytes(a.copy()).tolist() == _core.as_bytes(b.copy()).tolist()
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout: str, protocol: int) -> None:
    t = LAYOUTS[layout][0]()
    assert same(pickle.loads(pickle.dumps(t, protocol)), t)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_dtype(protocol: int) -> None:
    for dtype in ALL_DTYPES:
        data = candle.asarray(bytearray(range(48)))
        t = _core.of_bytes(data, (48 * 8 // (dtype.bits * dtype.lanes),), dtype.id)
        if dtype.kind == "bool":
            t = candle.asarray([True, False, True])
        assert same(pickle.loads(pickle.dumps(t, protocol)), t), dtype


@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_of_band_shares_what_is_dense(layout: str) -> None:
    make, dense = LAYOUTS[layout]
    t = make()
    buffers: list[pickle.PickleBuffer] = []
    with candle.trace() as moves:
        stream = pickle.dumps(t, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1
    assert len(stream) < 200
    assert sum(move.nbytes for move in moves if move.action == "copy") == (0 if dense else t.nbytes)
    back = pickle.loads(stream, buffers=buffers)
    assert same(back, t)
    if dense and t.size:
        assert back.data_ptr() == t.data_ptr()
        assert back.stride == t.stride
        if not t.readonly:
            back[...] = 7
            assert set(_core.as_bytes(t.copy()).view("float32").tolist()) == {7.0}


def test_strict_forbids_the_copy_of_gaps() -> None:
    with candle.strict(), pytest.raises(candle.CopyError, match="row-major"):
        pickle.dumps(numbers(4, 4)[::2])
    with candle.strict():
        pickle.dumps(numbers(4, 4).T)


def test_read_only_buffers_make_read_only_tensors() -> None:
    t = numbers(4)
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(t, protocol=5, buffer_callback=buffers.append)
    frozen = [bytes(buffer) for buffer in buffers]
    back = pickle.loads(stream, buffers=frozen)
    assert back.readonly
    assert back.tolist() == t.tolist()


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int16", "bfloat16"])
@pytest.mark.parametrize("frozen", [False, True])
def test_frames_at_odd_addresses_are_copied_to_even_ones(dtype: str, frozen: bool) -> None:
    t = candle.arange(6).to(dtype)
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(t, protocol=5, buffer_callback=buffers.append)
    frame = memoryview(bytearray(b"x" + bytes(buffers[0])))[1:]
    aligned = candle.asarray(frame).data_ptr() % 2 == 0
    assert not aligned
    buffers = [frame.toreadonly() if frozen else frame]
    with candle.trace() as moves:
        back = pickle.loads(stream, buffers=buffers)
    [move] = moves
    assert (move.producer, move.consumer, move.action) == ("candle.PickleFrame", "candle", "copy")
    assert (move.nbytes, [reason.code for reason in move.reasons]) == (t.nbytes, ["misaligned"])
    with candle.strict(), pytest.raises(candle.CopyError, match="is not a multiple of"):
        pickle.loads(stream, buffers=buffers)
    assert back.data_ptr() % t.itemsize == 0
    assert back.readonly == frozen
    assert back.tolist() == t.tolist()


@pytest.mark.parametrize("frame", [b"", bytes(15), bytes(17), bytes(1000)], ids=len)
def test_frames_of_the_wrong_length(frame: bytes) -> None:
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(numbers(4), protocol=5, buffer_callback=buffers.append)
    with pytest.raises(ValueError, match=rf"{len(frame)} bytes arrived.*float32.*\(4,\)"):
        pickle.loads(stream, buffers=[frame])


# What may come in place of a frame of 24 bytes; what is raised, None where it is one.
FRAMES: dict[str, tuple[Callable[[], Any], type[Exception] | None]] = {
    "floats": (lambda: array.array("f", range(6)), None),
    "two axes": (lambda: memoryview(bytearray(24)).cast("B", (4, 6)), None),
    "column-major": (lambda: np.zeros((2, 3), "float32").T, None),
    "ctypes": (ctypes.c_float * 6, None),
    "None": (lambda: None, TypeError),
    "text": (lambda: "x" * 24, TypeError),
    "a list": (lambda: [0.0] * 6, TypeError),
    "a tensor": (lambda: numbers(6), TypeError),
    "no buffer's dtype": (lambda: np.zeros(3, "datetime64[s]"), TypeError),
    "every other byte": (lambda: memoryview(bytearray(48))[::2], BufferError),
    "reversed": (lambda: memoryview(bytearray(24))[::-1], BufferError),
    "every other float": (lambda: np.zeros(12, "float32")[::2], BufferError),
    "pointers": (lambda: np.array([None] * 3), BufferError),
}


def test_frames_of_other_kinds() -> None:
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(numbers(6), protocol=5, buffer_callback=buffers.append)
    for name, (make, wrong) in FRAMES.items():
        if wrong is None:
            assert pickle.loads(stream, buffers=[make()]).shape == (6,), name
            continue
        with pytest.raises(wrong, match=r"in place of a tensor's bytes.*give pickle.loads"):
            pickle.loads(stream, buffers=[make()])


def test_damaged_pickles_say_so() -> None:
    function, (cls, data, *described) = numbers(2, 3).__reduce_ex__(2)
    assert function(cls, data, *described).shape == (2, 3)
    for fewer_or_more in (described[:-1], [*described, 1], []):
        with pytest.raises(ValueError, match="made by another version, or is damaged"):
            function(cls, data, *fewer_or_more)
    for axes in ((), (0,), (0, 0), (1, 2), (-1, 0), (0, 1, 2), "ab"):
        with pytest.raises(ValueError, match="no order of the axes"):
            function(cls, data, *described[:2], axes, *described[3:])
    for shape in ((6, 2), (-2, -3), (1 << 62, 3), (0, 6)):
        with pytest.raises(ValueError, match="24 bytes arrived"):
            function(cls, data, described[0], shape, *described[2:])
    for dtype in ("float31", "", None):
        with pytest.raises(TypeError, match="not a dtype"):
            function(cls, data, dtype, *described[1:])
    padded = function(cls, data, *described[:4], True, *described[5:])
    assert not _core.is_padded(padded), "only elements below a byte can be"


@pytest.mark.parametrize("framework", ["torch", "numpy", "jax"])
def test_borrowed_memory_needs_no_framework_to_unpickle(framework: str, in_child: Any) -> None:
    pytest.importorskip(framework)
    t = candle.asarray(candle.convert(numbers(3), framework))
    code = """
        import pickle, sys
        t = pickle.loads(bytes.fromhex(sys.argv[1]))
        assert t.tolist() == [0, 1, 2], t
        assert not {"torch", "numpy", "jax"} & set(sys.modules)
    """
    in_child(code, pickle.dumps(t).hex()).check()


def test_aliases_in_one_pickle_stay_one_tensor() -> None:
    t = numbers(3)
    first, second = pickle.loads(pickle.dumps([t, t]))
    assert first is second


class Named(candle.Tensor):
    """What a user may derive."""

    name: Any


def test_subclasses_keep_their_class_and_attributes() -> None:
    t = Named([1, 2, 3])
    t.name = ["n"]
    for back in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert type(back) is Named
        assert back.name == ["n"]
        assert back.tolist() == [1, 2, 3]
    assert copy.copy(t).name is t.name
    assert copy.deepcopy(t).name is not t.name


class Stateful(candle.Tensor):
    """One with a state of its own making."""

    seen: Any

    def __getstate__(self) -> Any:
        return {"sum": sum(self.tolist())}

    def __setstate__(self, state: Any) -> None:
        self.seen = state


def test_a_state_of_the_users_making() -> None:
    t = Stateful([1, 2, 3])
    for back in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert back.seen == {"sum": 6}
        assert back.tolist() == [1, 2, 3]


class Reduced(candle.Tensor):
    """One that says itself how it is pickled."""

    def __reduce__(self) -> Any:
        return list, (self.tolist(),)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_of_the_users_making(protocol: int) -> None:
    assert pickle.loads(pickle.dumps(Reduced([1, 2]), protocol)) == [1, 2]


class Labelled(candle.Tensor):
    """One that adds to what the pickle holds anyway."""

    label: Any

    def __reduce__(self) -> Any:
        return relabelled, (super().__reduce__(), self.label)


def relabelled(reduced: Any, label: Any) -> Any:
    made = reduced[0](*reduced[1])
    made.label = label
    return made


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_that_the_user_adds_to(protocol: int) -> None:
    t = Labelled([1, 2])
    t.label = "x"
    back = pickle.loads(pickle.dumps(t, protocol))
    assert (type(back), back.tolist(), back.label) == (Labelled, [1, 2], "x")


@pytest.mark.parametrize("shape", [(1 << 50,), (1 << 29, 1 << 25)], ids=str)
def test_more_than_there_is_memory(shape: tuple[int, ...]) -> None:
    with pytest.raises(MemoryError):
        pickle.dumps(candle.zeros(1).broadcast_to(shape))


def test_many_threads_at_once() -> None:
    t, failures = numbers(50, 50), list[BaseException]()

    def there_and_back() -> None:
        try:
            for layout in (t, t.T, t[::2]):
                assert same(pickle.loads(pickle.dumps(layout)), layout)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=there_and_back) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_deep_copies_of_what_holds_itself_end() -> None:
    t = Named([1])
    t.name = [t]
    made = copy.deepcopy(t)
    assert made.name[0] is made
    made.name = t.name = None


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_are_fresh_and_writable(layout: str, duplicate: Any) -> None:
    t = LAYOUTS[layout][0]()
    made = duplicate(t)
    assert made.tolist() == t.tolist()
    assert not made.readonly
    assert not candle.shares_memory(made, t)


def test_deep_copies_of_aliases_are_one() -> None:
    t = numbers(3)
    first, second = copy.deepcopy([t, t])
    assert first is second
    assert first is not t


def test_size_told_to_schedulers() -> None:
    empty = sys.getsizeof(numbers(0))
    t = candle.zeros((1000, 1000))
    assert sys.getsizeof(t) - empty in range(4_000_000, 4_000_100)
    assert sys.getsizeof(t[:10]) - empty in range(40_000, 40_100), "views: what they show"
    repeated = candle.zeros(1000).broadcast_to(1000, 1000)
    assert sys.getsizeof(repeated) - empty in range(4000, 4100), "repeated memory is there once"
    assert sys.getsizeof(candle.zeros(8, dtype="int4")) - empty in range(4, 100)
