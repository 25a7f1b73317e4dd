"""Raw capsules, wrong arguments, and what an import keeps and gives back."""

from __future__ import annotations

import ctypes
import gc
import sysconfig
import threading
from typing import Any

import pytest

import candle
from candle.ledger import listening
from candle.testing import Producer, capsules, info, take
from candle.testing.producers import SameCapsule

COPY_MODES = (None, False, True)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("copy", COPY_MODES)
def test_raw_capsule(versioned: bool, copy: bool | None) -> None:
    producer = Producer(shape=(4,))
    capsule = producer.capsule(versioned)
    name = info(capsule).name
    t = candle.from_dlpack(capsule, copy=copy)
    assert capsules.capsule_name(capsule) == f"used_{name}"
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (t.data_ptr() == producer.address) == (copy is not True)
    del t
    assert producer.deletes == 1
    del capsule
    assert (producer.deletes, producer.destructors) == (1, 0)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("copy", COPY_MODES)
def test_capsule_used_twice(versioned: bool, copy: bool | None) -> None:
    producer = Producer(shape=(4,))
    capsule = producer.capsule(versioned)
    t = candle.from_dlpack(capsule)
    with pytest.raises((BufferError, ValueError), match=r"(?i)(used|consumed)"):
        candle.from_dlpack(capsule, copy=copy)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    del t, capsule
    assert producer.deletes == 1


def test_same_capsule_twice_from_an_object() -> None:
    producer = Producer(shape=(4,))
    twice = SameCapsule(producer)
    t = candle.from_dlpack(twice)
    with pytest.raises((BufferError, ValueError), match=r"(?i)(used|consumed)"):
        candle.from_dlpack(twice)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    del t, twice
    assert producer.deletes == 1


@pytest.mark.parametrize(
    "name", ["tensor", "dltensor2", "DLTENSOR", "", "used_dltensor", "dltensor "]
)
def test_capsules_of_other_names(name: str) -> None:
    producer = Producer(shape=(4,))
    capsule = capsules.new_capsule(producer.export(False), name)
    with pytest.raises((BufferError, ValueError, TypeError)) as caught:
        candle.from_dlpack(capsule)
    assert name in str(caught.value)
    assert producer.deletes == 0
    assert capsules.capsule_name(capsule) == name, "what is not taken is left alone"


@pytest.mark.parametrize("copy", COPY_MODES)
def test_refused_capsule_can_be_given_to_others(copy: bool | None) -> None:
    producer = Producer(shape=(4,), dtype=(99, 32))
    capsule = producer.capsule()
    with pytest.raises(BufferError):
        candle.from_dlpack(capsule, copy=copy)
    assert producer.deletes == 0
    take(capsule).release()
    assert producer.deletes == 1


REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[Exception]]] = [
    ({"dtype": "float64", "copy": False}, {}, candle.CopyError),
    ({"order": "C", "copy": False}, {"strides": (1, 2), "shape": (2, 2)}, candle.CopyError),
    ({"copy": False}, {"byte_offset": 2}, candle.CopyError),
    ({"dtype": "float32"}, {"dtype": (5, 64)}, BufferError),
    ({"dtype": "float32", "copy": True}, {"dtype": (17, 4, 2)}, BufferError),
    ({}, {"device": (2, -1)}, BufferError),
    ({"device": "metal:0"}, {}, BufferError),
    ({"device": "cpu", "copy": False}, {"device": (2, 0)}, candle.CopyError),
    ({"copy": True}, {"device": (8, 0)}, BufferError),
    ({"stream": -1}, {"device": (2, 0)}, ValueError),
    ({"stream": "1"}, {"device": (2, 0)}, TypeError),
    ({"stream": 1}, {}, ValueError),
    ({"dtype": "no such dtype"}, {}, TypeError),
    ({"copy": "yes"}, {}, TypeError),
]


@pytest.mark.parametrize(("keywords", "arguments", "error"), REFUSED, ids=str)
@pytest.mark.parametrize("versioned", [False, True])
def test_capsule_refused_for_any_reason_is_as_it_was(
    keywords: dict[str, Any], arguments: dict[str, Any], error: type[Exception], versioned: bool
) -> None:
    producer = Producer(**{"shape": (4,), **arguments})
    capsule = producer.capsule(versioned)
    name = info(capsule).name
    for _ in range(2):
        with pytest.raises(error):
            candle.from_dlpack(capsule, **keywords)
        assert capsules.capsule_name(capsule) == name
    assert producer.deletes == 0
    if producer.device == (1, 0):
        t = candle.from_dlpack(capsule)
        assert t.shape == producer.shape
        del t
    else:
        take(capsule).release()
    assert producer.deletes == 1


@pytest.mark.parametrize("versioned", [False, True])
def test_capsule_whose_copy_a_listener_forbids(versioned: bool) -> None:
    producer = Producer(shape=(4,))
    capsule = producer.capsule(versioned)

    def forbid(_plan: candle.Plan) -> None:
        raise RuntimeError("no copies here")

    with listening(forbid), pytest.raises(RuntimeError, match="no copies"):
        candle.from_dlpack(capsule, copy=True)
    assert producer.deletes == 0
    assert candle.from_dlpack(capsule).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.isolated
def test_capsule_used_by_the_listener(versioned: bool) -> None:
    producer = Producer(shape=(4,))
    capsule = producer.capsule(versioned)
    taken = []

    def use(_plan: candle.Plan) -> None:
        if not taken:
            taken.append(candle.from_dlpack(capsule))

    with listening(use), pytest.raises(BufferError, match="consumed before"):
        candle.from_dlpack(capsule, copy=True)
    assert taken[0].tolist() == [0.0, 1.0, 2.0, 3.0]
    taken.clear()
    assert producer.deletes == 1


def test_stream_goes_with_raw_capsules_only() -> None:
    with pytest.raises(ValueError, match="stream"):
        candle.from_dlpack(Producer(shape=(4,)), stream=1)


STREAMS: list[tuple[Any, type[Exception] | None]] = [
    (None, None),
    (-1, None),
    (0, ValueError),
    (1, ValueError),
    (2, ValueError),
    (True, ValueError),
    (-2, ValueError),
    (2**70, ValueError),
    (10**5000, ValueError),
    ("1", TypeError),
    (1.0, TypeError),
]


@pytest.mark.parametrize(("stream", "error"), STREAMS, ids=range(len(STREAMS)))
def test_memory_of_the_host_has_no_streams(stream: Any, error: type[Exception] | None) -> None:
    """Neither in, by a raw capsule, nor out."""
    producer = Producer(shape=(4,))
    capsule = producer.capsule()
    moves = (
        lambda: candle.from_dlpack(capsule, stream=stream),
        lambda: candle.zeros(2).__dlpack__(stream=stream),
    )
    for move in moves:
        if error is None:
            move()
        else:
            with pytest.raises(error, match="stream"):
                move()


def test_versions_and_devices_of_any_size() -> None:
    t = candle.zeros(2)
    for major in (2**70, 10**5000):
        assert info(t.__dlpack__(max_version=(major, major))).version == (1, 3)
        assert info(t.__dlpack__(max_version=(-major, 0))).version is None
        with pytest.raises(BufferError, match="dl_device"):
            t.__dlpack__(dl_device=(major, 0))
    with pytest.raises(TypeError, match="max_version"):
        t.__dlpack__(max_version=("1", 0))


@pytest.mark.parametrize("x", [None, 1, 1.5, "text", b"bytes", [1, 2], object(), Producer, int])
def test_what_has_no_dlpack_is_a_type_error(x: object) -> None:
    with pytest.raises(TypeError, match=type(x).__name__) as caught:
        candle.from_dlpack(x)
    assert "__dlpack__" in str(caught.value)


@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"copy": "yes"}, (TypeError, ValueError)),
        ({"copy": 2}, (TypeError, ValueError)),
        ({"order": "F"}, (TypeError, ValueError)),
        ({"order": 1}, (TypeError, ValueError)),
        ({"dtype": "no such dtype"}, (TypeError, ValueError)),
        ({"device": "no such device"}, (TypeError, ValueError)),
        ({"device": "cuda:0"}, BufferError),
        ({"colour": 1}, TypeError),
    ],
)
def test_wrong_arguments(keywords: dict[str, Any], error: Any) -> None:
    producer = Producer(shape=(4,))
    with pytest.raises(error):
        candle.from_dlpack(producer, **keywords)
    assert producer.deletes == producer.exports


# What is kept and what is given back


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("strides", ["compact", None, (3, 1)])
def test_description_is_copied_out(versioned: bool, strides: Any) -> None:
    producer = Producer(shape=(2, 3), strides=strides, byte_offset=8)
    t = candle.from_dlpack(producer.capsule(versioned))
    producer.spoil()
    assert t.shape == (2, 3)
    assert t.stride == (3, 1)
    assert not t.readonly
    assert t.tolist() == [[2.0, 3.0, 4.0], [5.0, 6.0, 7.0]]
    assert t[1].tolist() == [5.0, 6.0, 7.0]
    assert info(t.__dlpack__()).shape == (2, 3)
    del t
    assert producer.deletes == 1


def test_producers_strides_are_not_filled_in() -> None:
    producer = Producer(shape=(2, 3), strides=None)
    capsule = producer.capsule()
    t = candle.from_dlpack(capsule)
    assert info(capsule).strides is None
    assert t.stride == (3, 1)


@pytest.mark.parametrize("versioned", [False, True])
def test_views_and_exports_hold_the_producer(versioned: bool) -> None:
    producer = Producer(shape=(2, 3))
    t = candle.from_dlpack(producer.capsule(versioned))
    row, capsule = t[1], t.T.__dlpack__()
    del t
    gc.collect()
    assert producer.deletes == 0
    assert row.tolist() == [3.0, 4.0, 5.0]
    del row
    assert producer.deletes == 0
    del capsule
    assert producer.deletes == 1


@pytest.mark.parametrize("keywords", [{"copy": True}, {"dtype": "float64"}, {"order": "C"}])
@pytest.mark.parametrize("versioned", [False, True])
def test_copied_import_gives_the_producer_back_at_once(
    keywords: dict[str, Any], versioned: bool
) -> None:
    producer = Producer(shape=(3, 2), strides=(1, 3))
    t = candle.from_dlpack(producer.capsule(versioned), **keywords)
    assert producer.deletes == 1
    assert t.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert t.stride == (2, 1)


@pytest.mark.parametrize(
    ("keywords", "fact"), [({"dtype": "float64"}, "float64"), ({"order": "C"}, "row-major")]
)
def test_copy_false_refuses_what_only_a_copy_gives(keywords: dict[str, Any], fact: str) -> None:
    producer = Producer(shape=(3, 2), strides=(1, 3))
    with pytest.raises(candle.CopyError, match=fact) as caught:
        candle.from_dlpack(producer, copy=False, **keywords)
    assert producer.deletes == producer.exports == 1
    assert caught.value.plan.action == "refuse"
    assert caught.value.plan.nbytes == 6 * (8 if "dtype" in keywords else 4)


@pytest.mark.parametrize("keywords", [{"dtype": "float32"}, {"order": "C"}, {"dtype": None}])
@pytest.mark.parametrize("copy", [None, False])
def test_what_already_fits_is_shared(keywords: dict[str, Any], copy: bool | None) -> None:
    producer = Producer(shape=(2, 3))
    t = candle.from_dlpack(producer, copy=copy, **keywords)
    assert t.data_ptr() == producer.address


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("null_data", [False, True])
@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("copy", COPY_MODES)
def test_empty_imports_are_given_back(
    shape: tuple[int, ...], null_data: bool, versioned: bool, copy: bool | None
) -> None:
    producer = Producer(shape=shape, null_data=null_data)
    t = candle.from_dlpack(producer.capsule(versioned), copy=copy)
    assert (t.shape, t.size) == (shape, 0)
    assert t.is_contiguous()
    del t
    assert producer.deletes == 1


def test_producer_may_be_dropped_first() -> None:
    producer = Producer(shape=(4,))
    notes = producer.notes
    t = candle.from_dlpack(producer)
    del producer
    gc.collect()
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    del t
    assert notes.deleted == 1


def test_deleter_runs_on_the_thread_that_drops_last() -> None:
    producer = Producer(shape=(4,))
    box = [candle.from_dlpack(producer)]
    ran_on = []

    def drop() -> None:
        ran_on.append(threading.get_ident())
        box.clear()

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    assert producer.deletes == 1
    # Without a GIL the thread that made an object may be the one that releases it.
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert producer.notes.thread % 2**32 == ran_on[0] % 2**32


def test_python_destructor_does_not_hide_the_refusal() -> None:
    """ctypes users write destructors in Python; one runs while candle refuses its capsule."""
    seen = []

    @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    def destructor(capsule: int) -> None:
        seen.append(capsule)

    producer = Producer(shape=(4,), dtype=(99, 32))
    address = ctypes.cast(destructor, ctypes.c_void_p).value

    class Foreign:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **_keywords: object) -> object:
            return capsules.new_capsule(producer.export(), "dltensor_versioned", address)

    with pytest.raises(BufferError, match="99"):
        candle.from_dlpack(Foreign())
    assert len(seen) == 1


def test_every_refusal_deletes_once() -> None:
    producer = Producer(shape=(2,), ndim=1000)
    for _ in range(1000):
        with pytest.raises(BufferError):
            candle.from_dlpack(producer)
    assert producer.deletes == producer.exports == 1000
