"""`candle.from_dlpack` against producers that say anything at all: sound is shared, unsound is refused, once deleted."""

from __future__ import annotations

import ctypes
import gc
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import children
import pytest

import candle
from candle.testing import CASES, Producer, capsules, info, take
from candle.testing.producers import NoDevice, SameCapsule

if TYPE_CHECKING:
    from candle.testing.cases import Case

COPY_MODES = (None, False, True)
SCRIPT = Path(__file__).parent / "isolated" / "hostile_cases.py"

# What a refusal has to name, besides being a BufferError.
NAMED = {
    "version 2.0": "2.0",
    "version 0.9": "0.9",
    "raises BufferError": "no",
    "raises RuntimeError": "no",
    "raises TypeError": "of its own",
    "capsule of another name": "tensor",
    "NULL data with elements": "NULL",
    "NULL data, 0-d": "NULL",
    "NULL shape with ndim 2": "shape",
    "ndim -1": "-1",
    "ndim 1000": "1000",
    "extent -2": "-2",
    "dtype code 99": "99",
    "float of 33 bits": "33",
    "lanes 2": "2 lanes",
    "device memory": "device",
    "unknown device": "99",
    "device answer, host capsule": "__dlpack_device__",
    "host answer, device capsule": "device",
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """Every case's outcome; a case that killed its process has the outcome 'killed'."""
    found: dict[str, Any] = {}
    start = 0
    while start < len(CASES):
        child = children.run_child("-X", "faulthandler", SCRIPT, str(start))
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        found |= {CASES[line["case"]].name: line["results"] for line in lines if "results" in line}
        if child.returncode == 0:
            break
        if not lines:
            pytest.fail(f"hostile_cases.py did not start:\n{child.stderr}")
        start = lines[-1]["case"]
        found[CASES[start].name] = {
            "killed": f"{child.signal or child.returncode}\n{child.stderr}"
        }
        start += 1
    return found


def outcome(outcomes: dict[str, Any], case: Case, copy: bool | None) -> dict[str, Any]:
    results = outcomes[case.name]
    assert "killed" not in results, results["killed"]
    got: dict[str, Any] = results[repr(copy)]
    # The deleter runs once for every struct that was made. A capsule whose name says that it was consumed is its
    # consumer's to delete, and there is none.
    consumed = str(case.arguments.get("capsule_name")).startswith("used_")
    no_deleter = case.arguments.get("null_deleter") or consumed
    assert got["deletes"] == (0 if no_deleter else got["exports"]), got
    return got


def cases(*wanted: str) -> Any:
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=case.name) for case in CASES if case.wanted in wanted]
    )


@pytest.mark.parametrize("copy", [None, False])
@cases("share", "read-only")
def test_sound_is_shared(outcomes: dict[str, Any], case: Case, copy: bool | None) -> None:
    got = outcome(outcomes, case, copy)
    assert "error" not in got, got
    assert got["shape"]
    assert got["values"]
    if 0 not in case.arguments["shape"]:
        assert got["address"]
        assert got["deletes_meanwhile"] == 0
    assert got["readonly"] == (case.wanted == "read-only")


@cases("share", "read-only")
def test_copy_true_gives_fresh_writable_memory(outcomes: dict[str, Any], case: Case) -> None:
    got = outcome(outcomes, case, True)
    assert "error" not in got, got
    assert got["shape"]
    assert got["values"]
    assert not got["readonly"]
    if 0 not in case.arguments["shape"] and case.name != "copied flag":
        assert not got["address"]
        assert got["deletes_meanwhile"] == (0 if case.arguments.get("null_deleter") else 1)


@cases("read-only")
def test_read_only_memory_is_not_written(outcomes: dict[str, Any], case: Case) -> None:
    for copy in (None, False):
        got = outcome(outcomes, case, copy)
        assert got["write"] == "ValueError"
        assert got["untouched"]
    assert outcome(outcomes, case, True)["write"] == "written"


@pytest.mark.parametrize("copy", COPY_MODES)
@cases("refuse")
def test_unsound_is_refused(outcomes: dict[str, Any], case: Case, copy: bool | None) -> None:
    got = outcome(outcomes, case, copy)
    assert "BufferError" in got.get("error", []), got
    assert len(got["message"]) > 20 or NAMED.get(case.name) == "no", got["message"]
    assert NAMED.get(case.name, "") in got["message"]
    assert len(got["calls"]) <= 2


@pytest.mark.parametrize("copy", COPY_MODES)
@cases("sound")
def test_right_or_refused(outcomes: dict[str, Any], case: Case, copy: bool | None) -> None:
    got = outcome(outcomes, case, copy)
    if "error" in got:
        assert "BufferError" in got["error"], got
        assert copy is False, "a copy puts this right"
    else:
        assert got["shape"]
        assert got["values"]


def test_capsules_destructor_is_cleared(outcomes: dict[str, Any]) -> None:
    """So that a producer whose destructor ignores the capsule's name does not free what candle holds."""
    for case in CASES:
        if case.wanted == "share":
            assert outcome(outcomes, case, None)["destructors"] == 0, case.name


# How candle asks


def test_asks_for_a_versioned_capsule_first() -> None:
    producer = Producer(shape=(4,))
    candle.from_dlpack(producer)
    assert len(producer.calls) == 1
    assert producer.calls[0]["max_version"][0] == 1
    assert set(producer.calls[0]) == {"max_version"}, "the others are sent only where needed"


def test_no_stream_is_sent_to_a_host_producer() -> None:
    for copy in COPY_MODES:
        producer = Producer(shape=(4,))
        candle.from_dlpack(producer, copy=copy)
        assert all("stream" not in call for call in producer.calls)


@pytest.mark.parametrize("signature", ["none", "stream"])
@pytest.mark.parametrize("copy", COPY_MODES)
def test_old_signature_is_asked_once_more(signature: str, copy: bool | None) -> None:
    producer = Producer(shape=(4,), signature=signature)
    t = candle.from_dlpack(producer, copy=copy)
    assert producer.calls[1:] == [{}]
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert (t.data_ptr() == producer.address) == (copy is not True)
    del t
    assert producer.deletes == 1


def test_max_version_accepted_and_ignored() -> None:
    producer = Producer(shape=(4,), mode="legacy")
    t = candle.from_dlpack(producer)
    assert len(producer.calls) == 1
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    "error", [BufferError("mine"), ValueError("mine"), RuntimeError("mine"), AttributeError("mine")]
)
def test_error_of_any_call_is_a_buffer_error(number: int, error: Exception) -> None:
    def raises(call: int, _keywords: dict[str, Any]) -> Exception | None:
        return error if call == number else TypeError("old signature")

    producer = Producer(shape=(4,), raises=raises)
    with pytest.raises(BufferError, match="mine"):
        candle.from_dlpack(producer)
    assert len(producer.calls) == number + 1


def test_type_error_of_its_own_is_told() -> None:
    producer = Producer(shape=(4,), raises=TypeError("a column of strings"))
    with pytest.raises(BufferError, match="a column of strings") as caught:
        candle.from_dlpack(producer)
    assert len(producer.calls) == 2
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_interrupts_pass(error: type[BaseException]) -> None:
    producer = Producer(shape=(4,), raises=error())
    with pytest.raises(error):
        candle.from_dlpack(producer)
    assert len(producer.calls) == 1


# The device


@pytest.mark.parametrize("copy", COPY_MODES)
def test_dlpack_device_may_be_missing(copy: bool | None) -> None:
    producer = Producer(shape=(4,))
    t = candle.from_dlpack(NoDevice(producer), copy=copy)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    del t
    assert producer.deletes == 1


@pytest.mark.parametrize(
    "answer", ["cpu", 1, (), (1,), (1, 0, 0), (None, 0), ("1", 0), (2**40, 0), RuntimeError("mine")]
)
@pytest.mark.isolated
def test_dlpack_device_of_any_kind_does_no_harm(answer: object) -> None:
    producer = Producer(shape=(4,), device_answer=answer)
    try:
        t = candle.from_dlpack(producer)
    except BufferError:
        pass
    else:
        assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
        del t
    assert producer.deletes == producer.exports


def test_pinned_memory_stays_pinned() -> None:
    producer = Producer(shape=(4,), device=(3, 0))
    t = candle.from_dlpack(producer)
    assert t.__dlpack_device__() == (3, 0)
    assert info(t.__dlpack__(max_version=(1, 3))).device == (3, 0)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert t.copy().__dlpack_device__() == (1, 0)


# Raw capsules


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
    with pytest.raises((BufferError, ValueError), match="(?i)(used|consumed)"):
        candle.from_dlpack(capsule, copy=copy)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    del t, capsule
    assert producer.deletes == 1


def test_same_capsule_twice_from_an_object() -> None:
    producer = Producer(shape=(4,))
    twice = SameCapsule(producer)
    t = candle.from_dlpack(twice)
    with pytest.raises((BufferError, ValueError), match="(?i)(used|consumed)"):
        candle.from_dlpack(twice)
    assert t.tolist() == [0.0, 1.0, 2.0, 3.0]
    del t, twice
    assert producer.deletes == 1


@pytest.mark.parametrize("name", ["tensor", "dltensor2", "DLTENSOR", "", "used_dltensor", "dltensor "])
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


def test_stream_goes_with_raw_capsules_only() -> None:
    with pytest.raises(ValueError, match="stream"):
        candle.from_dlpack(Producer(shape=(4,)), stream=1)


@pytest.mark.parametrize("x", [None, 1, 1.5, "text", b"bytes", [1, 2], object(), Producer, int])
def test_what_has_no_dlpack_is_a_type_error(x: object) -> None:
    with pytest.raises(TypeError, match=f"(?s){type(x).__name__}.*__dlpack__"):
        candle.from_dlpack(x)


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


@pytest.mark.parametrize("keywords", [{"dtype": "float64"}, {"order": "C"}])
def test_copy_false_refuses_what_only_a_copy_gives(keywords: dict[str, Any]) -> None:
    producer = Producer(shape=(3, 2), strides=(1, 3))
    with pytest.raises(candle.CopyError) as caught:
        candle.from_dlpack(producer, copy=False, **keywords)
    assert next(iter(keywords.values())) in str(caught.value)
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
    assert producer.notes.thread % 2**32 == ran_on[0] % 2**32


def test_python_destructor_does_not_hide_the_refusal() -> None:
    """A capsule whose destructor is written in Python, as ctypes users have it, is dropped while candle refuses it."""
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
