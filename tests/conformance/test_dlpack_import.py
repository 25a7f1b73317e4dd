"""`candle.from_dlpack`: what is sound is shared, what is not is refused, each deleted once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import children
import pytest

import candle
from candle.testing import CASES, Producer, info
from candle.testing.producers import NoDevice

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
    "device type 0": "device (0, 0)",
    "device number -1": "device (2, -1)",
    "device answer, host capsule": "device",
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
        found[CASES[start].name] = {"killed": f"{child.signal or child.returncode}\n{child.stderr}"}
        start += 1
    return found


def outcome(outcomes: dict[str, Any], case: Case, copy: bool | None) -> dict[str, Any]:
    results = outcomes[case.name]
    assert "killed" not in results, results["killed"]
    got: dict[str, Any] = results[repr(copy)]
    # The deleter runs once for every struct that was made. A capsule whose name says that it was
    # consumed is its consumer's to delete, and there is none.
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
    """A producer's destructor that ignores the capsule's name frees nothing candle holds."""
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


def test_warning_about_the_second_question_is_not_told() -> None:
    """pyarrow: its own TypeError comes first, and under -W error a DeprecationWarning after it."""

    def raises(call: int, _keywords: dict[str, Any]) -> Exception:
        return TypeError("a column of strings") if call == 0 else DeprecationWarning("unversioned")

    with pytest.raises(BufferError, match="a column of strings"):
        candle.from_dlpack(Producer(shape=(4,), raises=raises))


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


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Unshown:
    def __repr__(self) -> str:
        raise Speechless


@pytest.mark.parametrize(
    "attributes",
    [{"raises": Speechless()}, {"device_answer": Speechless()}, {"device_answer": Unshown()}],
    ids=["export", "device", "what is no device"],
)
def test_what_cannot_be_put_in_words_is_refused(attributes: dict[str, Any]) -> None:
    producer = Producer(shape=(2,), **attributes)
    with pytest.raises(BufferError, match=r"does not export its memory: .*Speechless$") as caught:
        candle.from_dlpack(producer)
    assert isinstance(caught.value.__cause__, Speechless)
    assert candle.explain(producer, "numpy").reasons[0].code == "producer"
